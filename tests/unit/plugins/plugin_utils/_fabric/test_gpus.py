# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""GPUDirect and nccl-tests in the verdict."""

from __future__ import annotations

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._fabric.inputs import VerdictError
from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._fabric.table import table
from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._fabric.verdict import judge
from ansible_collections.rdmaops.gpu_fabric.tests.unit.plugins.plugin_utils._fabric.fabrics import (
    STARTED,
    Fabric,
    Json,
    good,
)


def test_gpudirect_is_never_assumed() -> None:
    fabric = Fabric("ab", rails=1)
    report = fabric.report()
    why = "whether there are GPUs is not known on a, b"
    assert report["gpudirect"] == {"proven": False, "by": [], "why": why}
    assert report["nccl"] is None
    for node in fabric.nodes.values():
        node["gpus"] = 8
    why = "neither ib_write_bw_cuda nor nccl_tests was requested"
    assert fabric.report()["gpudirect"]["why"] == why
    assert "GPUDirect RDMA: not proven: " + why in table(fabric.report())
    fabric.wanted["tests"].append("ib_write_bw_cuda")
    fabric.results.append(good("a", "b", 0, "ib_write_bw_cuda", ok=False, error="unrecognized option"))
    assert fabric.report()["gpudirect"]["why"] == "what was requested did not succeed"
    fabric.results[-1].update(ok=True, error=None)
    report = fabric.report()
    by = ["ib_write_bw --use_cuda a -> b on rail 0"]
    assert (report["verdict"], report["gpudirect"]) == ("pass", {"proven": True, "by": by, "why": None})
    assert "GPUDirect RDMA: proven by ib_write_bw --use_cuda a -> b on rail 0" in table(report)


def test_the_report_has_the_cpus_of_each_rail() -> None:
    fabric = Fabric("ab", rails=1)
    error = "taskset is not installed (package util-linux)"
    fabric.nodes["a"]["placements"] = [{"rail": 0, "numa_node": 1, "cpus": "28-55", "cpus_error": None}]
    fabric.nodes["b"]["placements"] = [{"rail": 0, "numa_node": 0, "cpus": None, "cpus_error": error}]
    first, second = (node["rails"][0] for node in fabric.report()["nodes"])
    assert (first["numa_node"], first["cpus"], first["cpus_error"]) == (1, "28-55", None)
    assert (second["numa_node"], second["cpus"], second["cpus_error"]) == (0, None, error)


def test_memory_of_gpus_that_there_are_not_is_unknown() -> None:
    fabric = Fabric("ab", rails=1)
    fabric.wanted["tests"].append("ib_write_bw_cuda")
    for node in fabric.nodes.values():
        node["gpus"] = 0
    report = fabric.report()
    assert (report["verdict"], report["pairs"][2]["error"]) == ("unknown", "no result: no GPUs (no nvidia-smi) on a, b")
    assert report["gpudirect"]["why"] == "no GPUs (no nvidia-smi) on a, b"


def test_a_gpu_that_cannot_be_reached_is_unknown_with_its_reason() -> None:
    fabric = Fabric("ab", rails=1)
    fabric.wanted["tests"].append("ib_write_bw_cuda")
    placement = {"rail": 0, "gpu": "0000:18:00.0", "gpu_error": None}
    for node in fabric.nodes.values():
        node.update(gpus=8, placements=[placement])
    fabric.nodes["b"]["placements"] = [{**placement, "gpu": None, "gpu_error": "nvidia_peermem is not loaded"}]
    report = fabric.report()
    error = "no result: node b: nvidia_peermem is not loaded"
    assert (report["verdict"], report["pairs"][2]["error"]) == ("unknown", error)
    assert [node["rails"][0]["gpu"] for node in report["nodes"]] == ["0000:18:00.0", None]
    assert report["nodes"][1]["rails"][0]["gpu_error"] == "nvidia_peermem is not loaded"


TOGETHER: list[tuple[Json, str, str | None]] = [
    # what is different from a good run, verdict, error
    ({}, "pass", None),
    ({"out_of_bounds": 3}, "fail", "3 values were wrong (out of bounds)"),
    ({"transport": "socket"}, "fail", "NCCL sent all of it by TCP (transport socket), not by RDMA"),
    ({"transport": "mixed"}, "fail", "NCCL sent some of it by TCP (transport mixed), not by RDMA"),
    ({"transport": "unknown"}, "unknown", "NCCL's log does not show which path it took"),
    ({"avg_busbw": None}, "unknown", "no bandwidth, or no check of the values, could be read"),
    ({"out_of_bounds": None}, "unknown", "no bandwidth, or no check of the values, could be read"),
    ({"ok": False, "error": "mpirun exited with 1"}, "fail", "mpirun exited with 1"),
    ({"ok": None, "error": "two tables"}, "unknown", "two tables"),
]


@pytest.mark.parametrize(("change", "verdict", "error"), TOGETHER, ids=range(len(TOGETHER)))
def test_nccl_tests(change: Json, verdict: str, error: str | None) -> None:
    fabric = Fabric("ab", rails=1)
    fabric.wanted["tests"].append("nccl_tests")
    run = {"ok": True, "transport": "rdma", "gpudirect": True, "avg_busbw": 180.5, "out_of_bounds": 0, "ranks": 16}
    given = (fabric.nodes, fabric.results, fabric.wanted, 0.8, STARTED)
    report = judge(*given, {**run, **change})
    assert (report["verdict"], report["nccl"]["verdict"], report["nccl"]["error"]) == (verdict, verdict, error)
    assert report["reasons"] == ([f"nccl_tests: {error}"] if error else [])
    assert report["gpudirect"]["by"] == ["GDRDMA in NCCL's log"]
    measured = f", 180.50 GB/s on average, transport {report['nccl']['transport']}"
    shown = "" if change.get("avg_busbw", 1) is None else measured
    assert f"nccl_tests: {verdict}{shown}\n" in table(report)
    assert report["wanted"]["tests"] == ["rping", "ib_write_bw", "nccl_tests"]


def test_nccl_tests_that_were_not_run_are_unknown() -> None:
    fabric = Fabric("ab", rails=1)
    fabric.wanted["tests"].append("nccl_tests")
    for gpus, pod, why in (
        (0, "ml/x", "no GPUs (no nvidia-smi) on a, b"),
        (8, None, "it is run in pods only, and not on the hosts a, b"),
        (8, "ml/x", "no result came back"),
    ):
        for node in fabric.nodes.values():
            node.update(gpus=gpus, pod=pod)
        report = fabric.report()
        assert (report["verdict"], report["nccl"]["error"]) == ("unknown", why)
        assert report["skipped"] == [{"what": "nccl_tests", "why": why}]


def test_nccl_has_to_be_a_dictionary() -> None:
    fabric = Fabric("ab")
    with pytest.raises(VerdictError, match="nccl must be a dictionary, not 5"):
        judge(fabric.nodes, fabric.results, fabric.wanted, 0.8, STARTED, 5)
