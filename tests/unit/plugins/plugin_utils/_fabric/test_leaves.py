# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Slow links between leaf switches are told apart from slow nodes, if the leaf of each node is known."""

from __future__ import annotations

import itertools
import typing as t

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._fabric.conditions import conditions
from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._fabric.repeat import again
from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._fabric.schedule import rounds
from ansible_collections.rdmaops.gpu_fabric.tests.unit.plugins.plugin_utils._fabric.fabrics import Fabric, good, many

Json = t.Any
SLOW = 97.0
# Whether a pair of leaves is slow
Condition = t.Callable[[set[str]], bool]


def leaf(node: str) -> str:
    return "leaf-" + "ABC"[int(node.partition("-")[2]) // 4]


def fabric_of(condition: Condition, topology: str = "ring", turn: int = 0) -> Fabric:
    """Twelve nodes of three leaves, between some of which rail 1 is slow."""
    names = list(many(12, 2).nodes)
    leaves = {name: leaf(name) for name in names}
    made = itertools.chain.from_iterable(rounds(names, topology, leaves))
    fabric = many(12, 2, [(pair["client"], pair["server"]) for pair in made])
    for name in names:
        fabric.nodes[name]["leaf"] = leaves[name]
    for result in fabric.of(rails=[1], tests="ib_"):
        ends = {leaf(result["client"]), leaf(result["server"])}
        if len(ends) > 1 and condition(ends):
            result["gbps"] = SLOW
    return fabric


def suspects(report: Json) -> list[tuple[str, list[str], int]]:
    return [(suspect["kind"], sorted(suspect["leaves"] or ()), suspect["rail"]) for suspect in report["suspects"]]


NUMBERS = " (ib_write_bw down to 97.0 of 400 Gb/s, 24.2%, limit 80%)"
FAULTS: dict[str, tuple[Condition, list[str], str]] = {
    "a path": (
        {"leaf-A", "leaf-B"}.__eq__,
        ["leaf-A", "leaf-B"],
        "rail 1: all 4 measured pairs between leaf switches leaf-A and leaf-B fail, 8 within them pass: "
        "the path between them",
    ),
    "uplinks": (
        lambda ends: "leaf-C" in ends,
        ["leaf-C"],
        "rail 1: all 8 measured pairs between leaf switch leaf-C and others fail, 4 within it pass: its uplinks",
    ),
    "the spine": (
        lambda ends: True,
        ["leaf-A", "leaf-B", "leaf-C"],
        "rail 1: all 12 measured pairs between leaf switches fail, 12 within them pass: the switches that connect them",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_is_slow_between_leaves_is_one_culprit(fault: str) -> None:
    condition, leaves, why = FAULTS[fault]
    report = fabric_of(condition).report()
    assert suspects(report) == [("leaf", leaves, 1)]
    assert report["reasons"] == [why + NUMBERS]
    assert suspects(fabric_of(condition, "all").report()) == [("leaf", leaves, 1)]


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("stays", [True, False])
def test_it_is_blamed_if_the_same_pairs_fail_again(fault: str, *, stays: bool) -> None:
    condition, leaves, _why = FAULTS[fault]
    fabric = fabric_of(condition)
    pairs = list(itertools.chain.from_iterable(again(fabric.report())))
    assert len(pairs) == 2
    for pair in pairs:
        assert condition({leaf(pair["client"]), leaf(pair["server"])})
        assert pair["rails"] == [1]
        result = good(pair["client"], pair["server"], 1, "ib_write_bw", again=True)
        fabric.results.append({**result, "gbps": SLOW if stays else 388.0})
    report = fabric.report()
    assert suspects(report) == ([("leaf", leaves, 1)] if stays else [])
    assert report["verdict"] == ("fail" if stays else "unknown")
    assert ("measured again, it fails again" if stays else "not repeatable") in report["reasons"][0]


def test_its_nodes_are_not_broken() -> None:
    rows = conditions(fabric_of(FAULTS["a path"][0]).report(), {})
    assert {leaf(row["node"]): row["status"] for row in rows} == {
        "leaf-A": "Unknown", "leaf-B": "Unknown", "leaf-C": "True",
    }  # fmt: skip


def test_one_pair_alone_is_a_path_between_its_nodes() -> None:
    fabric = fabric_of(lambda ends: False)
    next(r for r in fabric.of("", [1], "ib_") if leaf(r["client"]) != leaf(r["server"]))["gbps"] = SLOW
    assert [suspect["kind"] for suspect in fabric.report()["suspects"]] == ["pair"]


def test_a_slow_node_is_blamed_and_not_its_leaf() -> None:
    fabric = fabric_of(lambda ends: False)
    for result in fabric.of(tests="ib_"):
        if "gpu-05" in (result["client"], result["server"]):
            result["gbps"] = SLOW
    assert [(suspect["kind"], suspect["node"]) for suspect in fabric.report()["suspects"]] == [("node", "gpu-05")]


def test_without_leaves_each_pair_is_a_path() -> None:
    fabric = fabric_of({"leaf-A", "leaf-B"}.__eq__)
    for node in fabric.nodes.values():
        node["leaf"] = ""
    assert {suspect["kind"] for suspect in fabric.report()["suspects"]} == {"pair"}
