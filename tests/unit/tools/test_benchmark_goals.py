# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which figures of the benchmarks have a goal, and what they are compared with."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.tests.benchmarks import cluster, exporter, nodes
from ansible_collections.rdmaops.gpu_fabric.tests.benchmarks.library import Case, Play, Played, Sample, Task, Timing


def played(*runs: tuple[str, float]) -> Played:
    """Return what was played: each run a play of one task of the same name and the same seconds."""
    tasks = [Task(name, name, "ok", False, seconds, seconds, {}) for name, seconds in runs]
    return Played(tasks, [Play(name, seconds, seconds, seconds) for name, seconds in runs], Timing(1.0, 1.0))


def verdicts(cases: list[Case]) -> list[tuple[str, float | None, bool | None]]:
    return [(case.name, case.ratio, case.met) for case in cases]


@pytest.mark.parametrize(("seconds", "met"), [(1.5, True), (1.6, False)])
def test_the_whole_look_at_a_node_takes_three_pings_at_most(seconds: float, met: bool) -> None:
    cases = nodes.in_pings(played(("pings", 0.5), ("role", seconds), ("pings", 0.5)))
    assert verdicts(cases) == [
        ("gpu_node, check mode", seconds / 0.5, met),
        ("gpu_node, check mode, CPU", seconds / 0.5, met),
    ]


def test_a_single_module_has_no_goal() -> None:
    class Slow(nodes.Place):
        def play(self, *_arguments: object, **_options: object) -> Played:
            return played(("ping", 0.5), ("rdma_system", 5.0), ("first look", 10.0))

    cases = nodes.compare_with_ping(Slow(Path(), "gpu-1", Path()), "rdma_system", "rdma_system", {})
    assert [(case.ratio, case.met) for case in cases] == [(10.0, None), (10.0, None), (20.0, None), (20.0, None)]


@pytest.mark.parametrize(("seconds", "met"), [(0.9, True), (1.1, False)])
def test_a_look_at_the_operator_has_a_limit_and_no_verdict_against_helm(seconds: float, met: bool) -> None:
    title = "gpu_operator, nothing to change, helm 3"
    cases = cluster.looks(played(("ours", seconds), ("helm", 0.5)))
    assert verdicts(cases) == [
        (title, seconds, met),
        (title, seconds / 0.5, None),
        (f"{title}, CPU", seconds / 0.5, None),
    ]


# Milliseconds for a scrape, the ratio for each series, met
SCRAPES = [(20.0, 0.8, True), (30.0, 1.2, False)]


@pytest.mark.parametrize(("milliseconds", "ratio", "met"), SCRAPES)
def test_the_exporter_is_compared_by_series(milliseconds: float, ratio: float, met: bool) -> None:
    scrapes = {"ours": Sample([milliseconds]), "theirs": Sample([10.0])}
    whole, each, memory = exporter.cases(scrapes, {"ours": 2500, "theirs": 1000}, {"ours": 20.0, "theirs": 10.0})
    assert (whole.ratio, whole.met) == (milliseconds / 10.0, None)
    assert each.subject == Sample([milliseconds * 1000 / 2500])
    assert (each.ratio, each.met) == (pytest.approx(ratio), met)
    assert (memory.ratio, memory.met) == (0.5, True)
