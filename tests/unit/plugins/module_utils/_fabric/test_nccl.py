# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""nccl-tests over all pods, with recorded outputs."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._fabric.host import ProbeError
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._fabric.nccl import Order, command, run
from ansible_collections.rdmaops.gpu_fabric.tests.unit.plugins.module_utils._fabric.fake_host import FakeHost

FIXTURES = Path(__file__).parents[2] / "filter/fixtures"
MEMBERS = [{"address": "10.244.1.7", "gpus": 8, "rails": []}, {"address": "10.244.2.9", "gpus": 8}]
ORDER = Order(MEMBERS, "eth0", 2222, {"NCCL_DEBUG": "INFO", "NCCL_IB_HCA": "=mlx5_0:1"}, 1024)


def test_command() -> None:
    assert command(ORDER, {"PATH", "HOME"}) == [
        *["mpirun", "--allow-run-as-root", "-np", "16", "--host", "10.244.1.7:8,10.244.2.9:8"],
        *["--mca", "pml", "ob1", "--mca", "btl", "^openib", "--mca", "btl_tcp_if_include", "eth0"],
        *["--mca", "oob_tcp_if_include", "eth0", "--mca", "plm_rsh_args", "-p 2222", "-x", "PATH"],
        *["-x", "NCCL_DEBUG=INFO", "-x", "NCCL_IB_HCA==mlx5_0:1"],
        *["/usr/local/bin/all_reduce_perf", "-b", "8", "-e", "1024", "-f", "2", "-g", "1"],
    ]


def test_a_good_run() -> None:
    text = (FIXTURES / "nccl-2.18.5_ibext_roce_all-reduce.txt").read_text()
    result = run(ORDER, (), 60, FakeHost((0, text)))
    assert (result["ok"], result["error"], result["transport"], result["ranks"]) == (True, None, "rdma", 16)
    assert result["max_busbw"] >= result["avg_busbw"] > 0
    assert result["out_of_bounds"] == 0


REFUSED = "ssh: connect to host 10.244.2.9 port 2222: Connection refused\n"
MISSING = "Running mpirun: No such file or directory"


@pytest.mark.parametrize(
    ("answer", "ok", "error"),
    [
        ((1, REFUSED), False, "mpirun exited with 1: ssh: con"),
        ((None, ""), False, "mpirun timed out after 60 s: it printed nothing"),
        (ProbeError(MISSING), None, MISSING),
    ],
)
def test_a_bad_run(answer: t.Any, ok: bool | None, error: str) -> None:
    result = run(ORDER, (), 60, FakeHost(answer))
    assert result["ok"] is ok
    assert result["error"].startswith(error)


def test_runs_that_did_not_find_each_other() -> None:
    text = (FIXTURES / "nccl-tests_not-mpi_interleaved.txt").read_text()
    result = run(ORDER, (), 60, FakeHost((0, text)))
    assert result["ok"] is None
    assert result["error"]
