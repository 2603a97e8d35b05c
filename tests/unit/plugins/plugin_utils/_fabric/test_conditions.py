# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which condition a node gets by a report."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._fabric.conditions import conditions
from ansible_collections.rdmaops.gpu_fabric.tests.unit.plugins.plugin_utils._fabric.fabrics import Fabric

Json = t.Any
PASSED, FAILED, UNKNOWN = (
    ("True", "FabricCheckPassed"),
    ("False", "FabricCheckFailed"),
    ("Unknown", "FabricCheckUnknown"),
)


def of(fabric: Fabric) -> dict[str, Json]:
    return {row["node"]: (row["status"], row["reason"]) for row in conditions(fabric.report(), {})}


def test_all_is_well() -> None:
    rows = conditions(Fabric().report(), {"a": "gpu-a", "b": ""})
    assert [row["node"] for row in rows] == ["gpu-a", "b", "c", "d"]
    assert {(row["status"], row["reason"], row["why"]) for row in rows} == {(*PASSED, "")}


def test_only_the_node_to_blame_is_broken() -> None:
    assert of(Fabric().slow("b")) == {"a": PASSED, "b": FAILED, "c": PASSED, "d": PASSED}
    (row,) = [row for row in conditions(Fabric().slow("b").report(), {}) if row["node"] == "b"]
    assert row["why"].startswith("node b: all 6 measured pairs with it fail on rails 0, 1")


def test_a_port_that_is_down_says_so() -> None:
    (row,) = [row for row in conditions(Fabric().port("c", 1, state="DOWN").report(), {}) if row["node"] == "c"]
    assert (row["status"], row["reason"]) == FAILED
    assert "DOWN" in row["why"]


@pytest.mark.parametrize("fabric", [Fabric().slow("ab"), Fabric("ab").slow()])
def test_a_path_between_two_is_the_fault_of_none_of_them(fabric: Fabric) -> None:
    verdicts = of(fabric)
    assert (verdicts["a"], verdicts["b"]) == (UNKNOWN, UNKNOWN)
    assert {verdict for node, verdict in verdicts.items() if node in "cd"} <= {PASSED}


def test_a_rail_that_fails_for_all_is_the_fault_of_no_node() -> None:
    assert set(of(Fabric().slow(rails=[1])).values()) == {UNKNOWN}


def test_what_was_not_measured_is_unknown() -> None:
    assert of(Fabric().without("d")) == dict.fromkeys("abcd", UNKNOWN)
    fabric = Fabric()
    fabric.nodes["a"]["busy"] = ["a pod uses its GPUs"]
    rows = {row["node"]: row for row in conditions(fabric.report(), {})}
    assert (rows["a"]["status"], rows["a"]["why"]) == ("Unknown", "a pod uses its GPUs")
