# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A file that keeps runs on one controller apart, held by real processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._errors import FabricError
from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._maintenance_lock import hold, identity
from ansible_collections.rdmaops.gpu_fabric.tests.support.failures import message_of


@pytest.fixture
def other() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process
        process.kill()


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    return tmp_path / "new" / "lock"


def test_another_run_is_refused_until_it_has_ended(lock: Path, other: subprocess.Popen[bytes]) -> None:
    hold(str(lock), other.pid, "yesterday", False)
    before = lock.read_text()
    for check in (True, False):
        assert message_of(FabricError, hold, str(lock), os.getpid(), "today", check).startswith(
            f"Locking out other maintenance runs with {lock}: the run of process {other.pid} on this machine has held it "
            "since yesterday. Wait until it ends, or stop it"
        )
    # The same run has it as often as it asks, as for each host.
    hold(str(lock), other.pid, "yesterday", False)
    assert lock.read_text() == before
    other.kill()
    other.wait()
    hold(str(lock), os.getpid(), "today", True)
    assert lock.read_text() == before
    hold(str(lock), os.getpid(), "today", False)
    assert json.loads(lock.read_text()) == {**identity(os.getpid()), "since": "today"}
    assert (lock.stat().st_mode & 0o777, lock.parent.stat().st_mode & 0o777) == (0o600, 0o700)


@pytest.mark.parametrize("change", [{"started": "1"}, {"boot_id": "another"}, {"pid": None}])
def test_a_number_that_another_process_has_now_is_void(
    lock: Path, other: subprocess.Popen[bytes], change: dict[str, object]
) -> None:
    hold(str(lock), other.pid, "yesterday", False)
    lock.write_text(json.dumps({**json.loads(lock.read_text()), **change}))
    hold(str(lock), os.getpid(), "today", False)
    assert json.loads(lock.read_text())["since"] == "today"


@pytest.mark.parametrize("text", ["", '{"pid": 1', "[]", "?"])
def test_what_a_killed_run_has_half_written_is_void(lock: Path, text: str) -> None:
    lock.parent.mkdir()
    lock.write_text(text)
    hold(str(lock), os.getpid(), "today", False)
    assert json.loads(lock.read_text())["pid"] == os.getpid()


def test_a_path_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(FabricError, match=r"File exists.*Set another path with node_maintenance_lock_path"):
        hold(str(tmp_path / "file" / "lock"), os.getpid(), "today", False)


def test_a_process_is_known_by_its_start() -> None:
    assert identity(2**22 + 1)["started"] == ""
    assert identity(os.getpid())["started"] != ""
