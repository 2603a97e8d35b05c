# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The processor time that others take: over an invented /proc, and on this machine."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import typing as t

import pytest

from ansible_collections.rdmaops.gpu_fabric.tests.suite import load
from ansible_collections.rdmaops.gpu_fabric.tests.support.waiting import wait_for

if t.TYPE_CHECKING:
    from pathlib import Path

RUNNER = 100


class Proc:
    """A /proc whose processes the test decides; seconds of processor time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.steal(0)
        self.process(1, 0)
        self.process(RUNNER, 50)
        self.process(50, 1)

    def steal(self, seconds: float) -> None:
        (self.path / "stat").write_text(f"cpu  1 2 3 4 5 6 7 {int(seconds * load.TICK)} 0 0\ncpu0 ...\n")

    def process(self, pid: int, parent: int, own: float = 0, children: float = 0, started: int = 7) -> None:
        (self.path / str(pid)).mkdir(exist_ok=True)
        fields = ["S", str(parent), *["0"] * 9, str(int(own * load.TICK)), "0", str(int(children * load.TICK)), "0"]
        fields += ["20", "0", "1", "0", str(started), "0"]
        (self.path / str(pid) / "stat").write_text(f"{pid} (a (b) c) {' '.join(fields)}\n")


@pytest.fixture
def proc(tmp_path: Path) -> Proc:
    return Proc(tmp_path)


@pytest.fixture
def others(proc: Proc) -> load.Others:
    proc.process(60, 1, own=5)
    return load.Others(proc.path, RUNNER)


def test_what_was_there_before_counts_from_now_on(proc: Proc, others: load.Others) -> None:
    assert others.seconds() == 0
    proc.process(60, 1, own=8)
    assert others.seconds() == 3


def test_children_of_others_count(proc: Proc, others: load.Others) -> None:
    proc.process(61, 60, own=2, started=8)
    proc.process(62, 61, own=1, started=9)
    assert others.seconds() == 3
    (proc.path / "62" / "stat").unlink()
    (proc.path / "61" / "stat").unlink()
    proc.process(60, 1, own=5, children=4)
    assert others.seconds() == 4
    proc.process(60, 1, own=6, children=5)
    assert others.seconds() == 6


def test_what_the_tests_start_does_not_count(proc: Proc, others: load.Others) -> None:
    proc.process(101, RUNNER, own=30, started=8)
    proc.process(102, 101, own=30, started=9)
    # A daemon: its parent has ended, and init has it, with the time of those that ended.
    proc.process(103, 1, own=30, started=9)
    proc.process(1, 0, children=40)
    assert others.seconds() == 0


def test_a_process_id_that_is_used_again_is_another_process(proc: Proc, others: load.Others) -> None:
    proc.process(60, RUNNER, own=20, started=9)
    assert others.seconds() == 0


def test_time_that_the_hypervisor_gave_away_counts(proc: Proc, others: load.Others) -> None:
    proc.steal(2)
    assert others.seconds() == 2


def test_an_end_takes_nothing_back(proc: Proc, others: load.Others) -> None:
    proc.process(60, 1, own=8)
    assert others.seconds() == 3
    (proc.path / "60" / "stat").unlink()
    assert others.seconds() == 3


def test_an_end_does_not_hide_what_others_take_later(proc: Proc) -> None:
    """The time of a daemon, such as a virtual machine, is not passed on to a parent when it ends."""
    proc.process(60, 1, own=500)
    proc.process(70, 1, own=10)
    others = load.Others(proc.path, RUNNER)
    (proc.path / "60" / "stat").unlink()
    proc.process(70, 1, own=13)
    assert others.seconds() == 3


def test_an_orphan_that_ends_after_its_child_takes_nothing_back(proc: Proc, others: load.Others) -> None:
    """As when another run of these tests ends: no process that is still running inherits the time of either."""
    proc.process(70, 60, own=1, started=8)
    proc.process(71, 70, own=10, started=9)
    assert others.seconds() == 11
    proc.process(70, 1, own=1, started=8)
    assert others.seconds() == 11
    (proc.path / "71" / "stat").unlink()
    (proc.path / "70" / "stat").unlink()
    proc.process(60, 1, own=8)
    assert others.seconds() == 14


def test_a_child_that_was_not_waited_for_takes_nothing_back(proc: Proc, others: load.Others) -> None:
    proc.process(70, 60, own=10, started=8)
    assert others.seconds() == 10
    (proc.path / "70" / "stat").unlink()
    proc.process(60, 1, own=7)
    assert others.seconds() == 10
    proc.process(60, 1, own=8)
    assert others.seconds() == 11


@pytest.mark.parametrize(("taken", "factor"), [(0, 1), (10, 2), (15, 4), (19, 4)])
def test_a_budget_grows_by_what_is_missing(
    taken: float, factor: float, others: load.Others, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In ten seconds two processors have twenty."""
    pace = load.Pace(others, processors=2)
    monkeypatch.setattr(time, "monotonic", lambda: pace.began + 10)
    monkeypatch.setattr(others, "seconds", lambda: pace.before + taken)
    assert pace.factor() == factor


def test_a_real_busy_process_is_seen() -> None:
    loop = "import os\nparent = os.getppid()\nwhile os.getppid() == parent: pass"
    with subprocess.Popen([sys.executable, "-c", loop]) as busy:
        try:
            others = load.Others()
            wait_for(lambda: others.seconds() > 0)
        finally:
            busy.kill()


def test_a_process_that_was_started_here_is_not() -> None:
    others = load.Others()
    subprocess.run([sys.executable, "-c", "sum(range(10**6))"], check=True, timeout=60)
    assert os.getpid() not in others.last
