# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The arithmetic of the benchmarks."""

from __future__ import annotations

import sys

import pytest

from ansible_collections.rdmaops.gpu_fabric.tests.benchmarks.library import (
    BenchmarkError,
    Case,
    Sample,
    document,
    interleave,
    limited,
    read_events,
    table,
    time_command,
)

EVENTS = """\
{"event": "play", "name": "pings", "at": 10.0, "cpu": 2.0, "controller": 1.0}
{"event": "task", "name": "ping", "status": "ok", "seconds": 0.5, "cpu": 0.2, "result": {"ping": "pong"}}
{"event": "play", "name": "role", "at": 11.0, "cpu": 3.0, "controller": 1.25}
{"event": "task", "name": "mode", "status": "ok", "seconds": 0.7, "cpu": null, "result": {"changed": true}}
{"event": "end", "name": "", "at": 13.5, "cpu": 3.5}
"""

# subject, peer, goal, ratio, met
VERDICTS = [
    ([2.0, 1.0, 3.0], [1.0, 4.0, 2.0], 1.15, 1.0, True),
    ([2.4], [2.0], 1.15, 1.2, False),
    ([2.3], [2.0], 1.15, 1.15, True),
    ([2.3], [2.0], None, 1.15, None),
    ([2.3], None, 1.15, None, None),
    ([2.3], [0.0], 1.15, None, None),
]


@pytest.mark.parametrize(("subject", "peer", "goal", "ratio", "met"), VERDICTS)
def test_verdict(
    subject: list[float], peer: list[float] | None, goal: float | None, ratio: float | None, met: bool | None
) -> None:
    case = Case("one", "s", Sample(subject), "ping", Sample(peer) if peer else None, goal)
    assert case.ratio == (None if ratio is None else pytest.approx(ratio))
    assert case.met is met


def test_events_become_tasks_and_plays() -> None:
    tasks, plays = read_events(EVENTS)
    assert [(task.play, task.name, task.changed, task.seconds, task.cpu) for task in tasks] == [
        ("pings", "ping", False, 0.5, 0.2),
        ("role", "mode", True, 0.7, None),
    ]
    assert plays == [("pings", 1.0, 1.0, 0.25), ("role", 2.5, 0.5, None)]


def test_interleaved_runs_go_there_and_back_and_forget_the_warm_up() -> None:
    order: list[str] = []

    def step(name: str) -> float:
        order.append(name)
        return float(len(order))

    samples = interleave({"a": lambda: step("a"), "b": lambda: step("b")}, runs=2, warm_up=1)
    assert order == ["a", "b", "b", "a", "a", "b"]
    assert samples == {"a": Sample([4.0, 5.0]), "b": Sample([3.0, 6.0])}


@pytest.mark.parametrize(("value", "met"), [(1.9, True), (2.0, True), (2.1, False)])
def test_a_limit_of_its_own(value: float, met: bool) -> None:
    case = limited("one", "s", Sample([value]), 2.0, "why")
    assert (case.met, case.peer, case.note) == (met, Sample([2.0]), "why")


def test_table_and_document_say_what_was_met() -> None:
    cases = [
        Case("fast", "s", Sample([1.0, 1.2]), "ping", Sample([1.0]), 1.15),
        Case("slow", "s", Sample([2.0]), "ping", Sample([1.0]), 1.15, "two tasks"),
    ]
    lines = table(cases).splitlines()
    assert " ".join(lines[1].split()) == "fast 1.100 s 1.000 1.200 2 ping 1.000 s 1.10 <= 1.15 met"
    assert lines[2].endswith("MISSED")
    assert lines[3] == "slow: two tasks"
    written = document(cases, "2026-01-01T00:00:00+00:00", ["none"])
    rows = [(case["ratio"], case["goal"], case["met"], case["runs"]) for case in written["cases"]]
    assert rows == [(1.1, 1.15, True, 2), (2.0, 1.15, False, 1)]
    assert written["cases"][0]["minimum"] == 1.0
    assert written["problems"] == ["none"]


def test_a_command_is_timed_and_must_succeed() -> None:
    busy = time_command([sys.executable, "-c", "sum(range(3000000))"], limit=60)
    assert busy.cpu > 0
    assert busy.wall > 0
    with pytest.raises(BenchmarkError, match="exited with 7:\nwhy"):
        time_command([sys.executable, "-c", "print('why'); raise SystemExit(7)"], limit=60)
    with pytest.raises(BenchmarkError, match="was stopped after 0 s"):
        time_command([sys.executable, "-c", "import time; time.sleep(9)"], limit=0.2)
