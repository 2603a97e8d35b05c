# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which tests were not the same each time."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.rdmaops.gpu_fabric.tests.suite import repeat

if t.TYPE_CHECKING:
    from pathlib import Path


def iteration(seed: int, busy: int = 0, **statuses: str) -> repeat.Iteration:
    reasons = {name: f"{name} is {status}" for name, status in statuses.items() if status != "passed"}
    return repeat.Iteration(seed, busy, 60.0, 0.25, statuses, reasons)


def printed(*iterations: repeat.Iteration) -> tuple[bool, str]:
    lines: list[str] = []
    good = repeat.report(iterations, lines.append)
    return good, "\n".join(lines)


def test_the_same_each_time() -> None:
    good, text = printed(iteration(1, a="passed"), iteration(2, a="passed"), iteration(1, busy=1, a="passed"))
    assert good
    assert text.endswith("3 runs, 0 tests that differ, 0 that failed each time")


def test_red_by_chance() -> None:
    good, text = printed(iteration(1, a="passed"), iteration(2, a="failed"), iteration(1, busy=1, a="passed"))
    assert not good
    assert "\na\n  passed: 2 times\n  failed: 1 times: seed 2, 0 busy\n  a is failed\n" in text
    assert text.endswith("3 runs, 1 tests that differ, 0 that failed each time")


def test_absent_by_chance() -> None:
    good, text = printed(iteration(1, a="passed"), iteration(2, a="passed", b="passed"))
    assert not good
    assert "  absent: 1 times: seed 1, 0 busy" in text


def test_red_each_time() -> None:
    good, text = printed(iteration(1, a="failed"), iteration(2, a="failed"))
    assert not good
    assert text.endswith("2 runs, 0 tests that differ, 1 that failed each time")


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Iterations are instant, and at a commit that is given; what ran."""
    ran: list[tuple[int, int]] = []

    def iterate(seed: int, busy: int, _require_all: bool) -> repeat.Iteration:
        ran.append((seed, busy))
        return iteration(seed, busy, a="passed")

    monkeypatch.setattr(repeat, "iterate", iterate)
    monkeypatch.setattr(repeat, "cache", lambda: tmp_path)
    monkeypatch.setattr(repeat, "commit", lambda: "0123")
    monkeypatch.setattr(repeat, "git", lambda *_arguments: "")
    return ran


def test_iterations_are_kept_by_commit_seed_and_load(
    kept: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert repeat.repeat(2, 0, require_all=True) == 0
    assert repeat.repeat(3, 0, require_all=True) == 0
    assert repeat.repeat(1, 1, require_all=True) == 0
    assert kept == [(1, 0), (2, 0), (3, 0), (1, 1)]
    assert capsys.readouterr().out.endswith("4 runs, 0 tests that differ, 0 that failed each time\n")
    monkeypatch.setattr(repeat, "commit", lambda: "4567")
    assert repeat.repeat(1, 0, require_all=True) == 0
    assert kept[-1] == (1, 0)


def test_an_interrupted_iteration_is_not_kept(kept: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch) -> None:
    whole = repeat.iterate
    monkeypatch.setattr(repeat, "iterate", lambda *_arguments: None)
    repeat.repeat(1, 0, require_all=True)
    monkeypatch.setattr(repeat, "iterate", whole)
    repeat.repeat(1, 0, require_all=True)
    assert kept == [(1, 0)]


def test_changes_that_are_not_committed_are_refused(
    kept: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(repeat, "git", lambda *_arguments: " M README.md\n")
    assert repeat.repeat(1, 0, require_all=True) == 2
    assert "there are changes that are not committed" in capsys.readouterr().err
    assert kept == []


def test_busy_loops_end() -> None:
    with repeat.busy_loops(2):
        pass
