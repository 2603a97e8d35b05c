# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Before the collection has done anything about pods: check mode works, and the runtime's own limit is too low."""

from __future__ import annotations

import podlab


def test_nodes_are_ready(lab: podlab.PodLab) -> None:
    for node in podlab.NODES:
        lab.cluster.kubectl("wait", f"node/{node}", "--for=condition=Ready", "--timeout=60s", limit=90)


def test_check_mode_where_no_pod_exists_yet(lab: podlab.PodLab) -> None:
    done = lab.playbook("rdmaops.gpu_fabric.train", "--check", training_job_name="hold", training_job_command=["true"])
    assert done.returncode == 0, done.stdout
    assert lab.pods() == []


def test_with_the_limit_of_the_distribution_registering_fails(lab: podlab.PodLab) -> None:
    """A pod with the host's network has the host's devices, and its container the runtime's RLIMIT_MEMLOCK."""
    node = "gpu-1"
    with lab.run_pod("low", node, rail=False, hostNetwork=True, container={"securityContext": podlab.AS_USER}):
        lab.ready("low")
        limits = lab.inside("low", "grep", "Max locked memory", "/proc/1/limits").split()
        assert limits[3] == "8388608", limits
        check = lab.memlock(node, "ml/low")
        assert check["ok"] is False
        assert check["error"].startswith(
            "registering 67108864 bytes with rxe0 failed with ENOMEM, RLIMIT_MEMLOCK of the container is 8388608 bytes"
        ), check
        assert "gpu_node_runtime_restart_ok" in check["error"]
