# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which CPUs ib_write_bw runs on."""

from __future__ import annotations

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._fabric import cpus
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._fabric.readiness import ready
from ansible_collections.rdmaops.gpu_fabric.tests.unit.plugins.module_utils._fabric.fake_host import FakeHost

# Linux 6.8 on a machine with two sockets, 28 cores each
NODES = {0: "0-27,56-83\n", 1: "28-55,84-111\n"}
STATUS = "Name:\tcat\nCpus_allowed:\tffffff\nCpus_allowed_list:\t%s\nMems_allowed_list:\t0-1\n"
NOT_ALLOWED = "none of the CPUs of NUMA node 1 (28-55,84-111) is among those that are allowed (0-3)"

CASES: list[tuple[int | None, str, str | None, str | None]] = [
    # NUMA node of the port, allowed CPUs, CPUs, why not
    (0, "0-111", "0-27,56-83", None),
    (1, "0-111", "28-55,84-111", None),
    (1, "20-30,90,92-93", "28-30,90,92-93", None),
    (1, "0-3", None, NOT_ALLOWED),
    (2, "0-111", None, "the CPUs of NUMA node 2 cannot be read"),
    (0, "0-99999999999", None, "the CPUs of NUMA node 0 cannot be read"),
    (-1, "0-111", None, "the NUMA node of mlx5_0 is not known"),
    (None, "0-111", None, "the NUMA node of mlx5_0 is not known"),
]


def host(allowed: str = "0-111") -> FakeHost:
    fake = FakeHost()
    fake.files = {f"/sys/devices/system/node/node{node}/cpulist": text for node, text in NODES.items()}
    fake.files["/proc/self/status"] = STATUS % allowed
    return fake


@pytest.mark.parametrize(("node", "allowed", "chosen", "why"), CASES, ids=range(len(CASES)))
def test_the_cpus_of_the_numa_node(node: int | None, allowed: str, chosen: str | None, why: str | None) -> None:
    (choice,) = cpus.choose([{"rail": 3, "device": "mlx5_0", "numa_node": node}], host(allowed))
    assert choice == {"rail": 3, "numa_node": None if node == -1 else node, "cpus": chosen, "cpus_error": why}


def test_without_taskset_or_the_wish_none_are_chosen() -> None:
    ports = [{"rail": 0, "device": "mlx5_0", "numa_node": 1}]
    bare = host()
    bare.missing = {"taskset"}
    (choice,) = cpus.choose(ports, bare)
    assert (choice["cpus"], choice["cpus_error"]) == (None, "taskset is not installed (package util-linux)")
    (choice,) = cpus.choose(ports, host(), pinning=False)
    assert (choice["cpus"], choice["cpus_error"]) == (None, "it was not requested")


def test_placements_of_a_host_without_gpus() -> None:
    fake = host()
    fake.missing = {"nvidia-smi"}
    port = {"rail": 0, "device": "mlx5_0", "port": 1, "numa_node": 1}
    (placement,) = ready(["ib_write_bw"], [], [port, {"rail": 1, "device": None}], fake)["placements"]
    assert (placement["rail"], placement["cpus"], placement["gpu"]) == (0, "28-55,84-111", None)
