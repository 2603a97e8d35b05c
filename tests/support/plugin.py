# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""pytest plugin, loaded for every test (pyproject.toml): the markers `long` and `fault`, and skips that count."""

from __future__ import annotations

import os
import typing as t
from pathlib import Path

import hypothesis
import pytest

from ansible_collections.rdmaops.gpu_fabric.tests.support import faults, require_all

if t.TYPE_CHECKING:
    from collections.abc import Generator


# Deadlines would fail on a busy machine: what hangs is stopped by its part's limit. Without --long or a seed the same
# examples come every time, so that a change is judged by what it changes.
for name, same in {"same examples": True, "other examples": False}.items():
    hypothesis.settings.register_profile(
        name, deadline=None, derandomize=same, suppress_health_check=[hypothesis.HealthCheck.too_slow]
    )


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="also run tests marked `long`")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    other = config.getoption("--long") or config.getoption("--hypothesis-seed", None) is not None
    hypothesis.settings.load_profile("other examples" if other else "same examples")
    # Molecule starts pytest more than once in a scenario; each run leaves its own report to be counted.
    directory = os.environ.get("RDMAOPS_JUNIT_DIRECTORY")
    if directory and not config.option.xmlpath and not hasattr(config, "workerinput"):
        number = len(list(Path(directory).glob("*.xml"))) if Path(directory).is_dir() else 0
        config.option.xmlpath = str(Path(directory) / f"{number:02d}.xml")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    # A test named by its node id is meant, whatever its marker.
    if config.getoption("--long") or any("::" in argument for argument in config.args):
        return
    chosen = [item for item in items if item.get_closest_marker("long") is None]
    if len(chosen) != len(items):
        config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
        items[:] = chosen


def skip_reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    """Return why a test was skipped, from pytest's (path, line, reason) triple."""
    if isinstance(report.longrepr, tuple):
        return str(report.longrepr[2])
    return str(report.longrepr)


def fail_if_skipped(report: pytest.TestReport | pytest.CollectReport) -> None:
    """Turn a skip, however it came about, into a failure when REQUIRE_ALL is set."""
    if require_all() and report.skipped and not hasattr(report, "wasxfail"):
        reason = skip_reason(report)
        report.outcome = "failed"
        report.longrepr = f"skipped, and REQUIRE_ALL is set: {reason}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    fail_if_skipped(report)
    marker = item.get_closest_marker("fault")
    # What could not be set up was not tried.
    if marker and report.when == "call" and not report.skipped:
        faults.record(marker.args[0], item.name, 1, int(report.failed))
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    fail_if_skipped(report)
    return report
