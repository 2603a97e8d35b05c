# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What fabric_check hands on of its variables to the modules that measure."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.rdmaops.gpu_fabric.tests.support import COLLECTION
from ansible_collections.rdmaops.gpu_fabric.tests.support.role_values import values
from ansible_collections.rdmaops.gpu_fabric.tests.unit.plugins.filter.rdma_results import TWO
from ansible_collections.rdmaops.gpu_fabric.tests.unit.plugins.plugin_utils._fabric.test_test_plan import PAIRS, nodes

Json = t.Any
READY = "Look for missing programs, and for users of the devices"
TOGETHER = "Run all_reduce_perf over all pods"
ROUND = {"__fabric_check_nodes": nodes(), "__fabric_check_pairs": PAIRS, "fabric_check_tests": ["rping", "ib_write_bw"]}
PODS = {
    "__fabric_check_members": ["a", "b"],
    "hostvars": {name: {"__fabric_check_info": TWO} for name in "ab"},
    "__fabric_check_ready": {"interface": "eth0"},
}

# variable, its value, the key in each test, without the variable
OF_TESTS: list[tuple[str, Json, str, Json]] = [
    ("fabric_check_queue_pairs", 4, "queue_pairs", 1),
    ("fabric_check_queue_pairs", "4", "queue_pairs", 1),
    ("fabric_check_service_level", 3, "service_level", None),
    ("fabric_check_traffic_class", 106, "traffic_class", None),
    ("fabric_check_traffic_class", "106", "traffic_class", None),
]


@pytest.mark.parametrize(("variable", "value", "key", "default"), OF_TESTS)
def test_of_the_tests_of_a_round(variable: str, value: Json, key: str, default: Json) -> None:
    role = values(COLLECTION / "roles/fabric_check")
    for given, expected in (({}, default), ({variable: value}, int(value))):
        for end, name in (("a", "__fabric_check_to_serve"), ("b", "__fabric_check_to_measure")):
            tests = role.value(name, **{**ROUND, "inventory_hostname": end, **given})
            assert len(tests) == 4
            assert {test[key] for test in tests} == {expected}


@pytest.mark.parametrize("pinning", [True, False])
def test_of_the_look_at_a_node(pinning: bool) -> None:
    role = values(COLLECTION / "roles/fabric_check")
    assert role.task("look.yml", READY, "numa_pinning", fabric_check_numa_pinning=pinning) is pinning


# variable, its value, the variable of NCCL
OF_NCCL = [("fabric_check_service_level", 3, "NCCL_IB_SL"), ("fabric_check_traffic_class", 106, "NCCL_IB_TC")]


@pytest.mark.parametrize(("variable", "value", "name"), OF_NCCL)
def test_of_the_environment_of_nccl(variable: str, value: int, name: str) -> None:
    role = values(COLLECTION / "roles/fabric_check")
    assert name not in role.task("nccl.yml", TOGETHER, "environment", **PODS)
    environment = role.task("nccl.yml", TOGETHER, "environment", **PODS, **{variable: value})
    assert environment[name] == str(value)


def test_what_failed_is_measured_again_by_the_same_tasks() -> None:
    role = values(COLLECTION / "roles/fabric_check")
    pairs = [{"client": "b", "server": "a", "rails": [1]}]
    site = {
        **ROUND,
        "__fabric_check_pairs": pairs,
        "__fabric_check_index": 0,
        "__fabric_check_rounds": [PAIRS, PAIRS, PAIRS],
        "__fabric_check_rounds_again": [pairs, pairs],
        "__fabric_check_repeats": True,
        "inventory_hostname": "b",
    }
    assert str(role.value("__fabric_check_turn", **site)).startswith("1 of 2 of what failed, 1 pair, about ")
    tests = role.value("__fabric_check_to_measure", **site)
    assert {test["rail"] for test in tests} == {1}
    assert "rails" not in tests[0]
