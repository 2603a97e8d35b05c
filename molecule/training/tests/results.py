# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the first rank of a training reports at its end."""

from __future__ import annotations

import json
import typing as t

from ansible_collections.rdmaops.gpu_fabric.molecule.pods.tests import podlab


def result_of(job: str) -> podlab.Json:
    """Return the result in the log of a job's launcher."""
    (log,) = (podlab.EPHEMERAL / "logs").glob(f"{job}-launcher-*.log")
    (line,) = [line for line in log.read_text().splitlines() if line.startswith("RESULT ")]
    return t.cast(podlab.Json, json.loads(line.removeprefix("RESULT ")))


def check_ranks(result: podlab.Json) -> None:
    """Both ranks have the same model."""
    assert (result["backend"], result["world_size"], result["steps"]) == ("mpi", 2, 2)
    first, second = result["ranks"]
    assert first["checksum"] == second["checksum"]
    assert first["host"] != second["host"]


def check_traffic(result: podlab.Json) -> None:
    """Gradients went over RDMA, and nothing else did."""
    for rank in result["ranks"]:
        traffic = rank["traffic"]
        # One step, after that in which connections are made: 11 million parameters of four bytes.
        assert traffic["gradient_bytes"] > 40_000_000
        assert sum(traffic["rdma_bytes"].values()) >= traffic["gradient_bytes"], traffic
        allowed = traffic["gradient_bytes"] // 100
        # TCP on all network devices together, the rail's too; and whatever went through the cluster's network.
        assert traffic["tcp_bytes_at_most"] < allowed, traffic
        assert traffic["netdev_bytes"]["eth0"] < allowed, traffic


__all__ = ["check_ranks", "check_traffic", "result_of"]
