# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Skips that count, the `long` marker, the reports of pytest runs that others start, and testinfra's hosts."""

from __future__ import annotations

import os
import subprocess
import sys
import typing as t

import pytest
import yaml
from testinfra.host import Host

from ansible_collections.rdmaops.gpu_fabric.tests.support import COLLECTION, hosts, matrix

if t.TYPE_CHECKING:
    from pathlib import Path

PLUGIN = "ansible_collections.rdmaops.gpu_fabric.tests.support.plugin"
TESTS = """
import pytest
from ansible_collections.rdmaops.gpu_fabric.tests.support import need_tool, skip_or_fail

def test_runs(): pass
def test_asks(): skip_or_fail("no device")
def test_misses(): need_tool("no-such-tool", "nor-this")
@pytest.mark.skip(reason="marked")
def test_marked(): pass
@pytest.mark.xfail(reason="known", strict=True)
def test_known(): assert False
@pytest.mark.long
def test_long(): pass
"""


def pytest_in(directory: Path, *arguments: str, **environment: str) -> str:
    (directory / "test_some.py").write_text(TESTS)
    (directory / "pytest.ini").write_text("[pytest]\nmarkers =\n  long: long\n")
    clean = {name: value for name, value in os.environ.items() if name not in ("REQUIRE_ALL", "PYTEST_ADDOPTS")}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-rs", "-p", PLUGIN, "-p", "no:cacheprovider", *arguments],
        cwd=directory,
        env={**clean, "NO_COLOR": "1", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )
    return done.stdout


def test_skips_are_skips_with_their_reason(tmp_path: Path) -> None:
    printed = pytest_in(tmp_path)
    assert "1 passed, 3 skipped, 1 deselected, 1 xfailed" in printed
    assert "no device" in printed
    assert "needs the tool no-such-tool or nor-this" in printed


@pytest.mark.parametrize("value", ["", "0"])
def test_require_all_can_be_said_to_be_off(tmp_path: Path, value: str) -> None:
    assert "3 skipped" in pytest_in(tmp_path, REQUIRE_ALL=value)


def test_every_skip_fails_where_everything_is_required(tmp_path: Path) -> None:
    printed = pytest_in(tmp_path, REQUIRE_ALL="1")
    assert "2 failed, 1 passed, 1 deselected, 1 xfailed, 1 error" in printed
    assert "cannot be tested here, and REQUIRE_ALL is set: no device" in printed
    assert "skipped, and REQUIRE_ALL is set: Skipped: marked" in printed


def test_a_module_that_skips_itself_fails_too(tmp_path: Path) -> None:
    (tmp_path / "test_other.py").write_text("import pytest\npytest.importorskip('no_such_module')\n")
    assert "1 error" in pytest_in(tmp_path, REQUIRE_ALL="1")
    assert "4 skipped" in pytest_in(tmp_path)


def test_long_tests_run_when_asked_for_or_named(tmp_path: Path) -> None:
    assert "2 passed, 3 skipped, 1 xfailed" in pytest_in(tmp_path, "--long")
    assert "1 passed" in pytest_in(tmp_path, "test_some.py::test_long")


def test_each_run_leaves_a_report_of_its_own(tmp_path: Path) -> None:
    reports = tmp_path / "reports"
    reports.mkdir()
    for _run in range(2):
        pytest_in(tmp_path, RDMAOPS_JUNIT_DIRECTORY=str(reports))
    assert sorted(path.name for path in reports.iterdir()) == ["00.xml", "01.xml"]


def test_every_ansible_core_since_the_oldest_has_the_same_rows() -> None:
    """A release that is left out may be the one that differs."""
    minors: dict[int, set[str]] = {}
    for row in matrix.ROWS:
        if not row.lock.startswith("python-"):
            minors.setdefault(int(matrix.version("ansible-core", row.lock).split(".")[1]), set()).add(row.scope)
    requires = yaml.safe_load((COLLECTION / "meta/runtime.yml").read_text(encoding="utf-8"))["requires_ansible"]
    assert requires == f">=2.{min(minors)}.0"
    assert sorted(minors) == list(range(min(minors), max(minors) + 1))
    for scopes in minors.values():
        assert scopes >= {"plugins", "playbooks, all", "artifact"}


def test_commands_on_hosts_end_at_the_first_failure_and_at_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inventory = tmp_path / "hosts"
    inventory.write_text("gpu-1 ansible_connection=local\n")
    host = Host(hosts.Backend("gpu-1", ansible_inventory=str(inventory)))
    monkeypatch.setenv("PATH", os.path.dirname(sys.executable), prepend=os.pathsep)
    assert host.check_output("echo %s | sed 's/b/%%/'", "a b") == "a %"
    assert (host.run("echo before; false; echo after").rc, host.run("echo $missing").rc) == (1, 2)
    monkeypatch.setattr(hosts, "LIMIT_S", 1)
    assert host.run("sleep 60; true").rc == 124
