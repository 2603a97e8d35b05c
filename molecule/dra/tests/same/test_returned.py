# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the host has again when pods with the rail end, in whatever way."""

from __future__ import annotations

import pytest

from ansible_collections.rdmaops.gpu_fabric.molecule.dra.tests import ways
from ansible_collections.rdmaops.gpu_fabric.molecule.pods.tests import podlab


@pytest.mark.parametrize("node", podlab.NODES)
def test_it_is_back_after_a_deletion(lab: podlab.PodLab, node: str) -> None:
    assert lab.pods() == []
    ways.until_back(lab, node)


def test_a_killed_sandbox(lab: podlab.PodLab) -> None:
    """That of dranet on this node is killed with it: until it is back, the kubelet tries again."""
    with ways.pod_with_rail(lab, "killed", "gpu-1", restartPolicy="Always"):
        lab.ready("killed")
        first = str(lab.pod("killed")["status"]["containerStatuses"][0]["containerID"])
        lab.nodes["gpu-1"].check_output("pkill -KILL -x pause")

        def another() -> bool:
            status = lab.pod("killed")["status"]["containerStatuses"][0]
            return bool(status["ready"] and status["containerID"] != first)

        lab.wait("another container runs", another, podlab.POD_S)
        ways.has_device(lab, "killed")
    ways.until_back(lab, "gpu-1")


def test_a_node_that_reboots(lab: podlab.PodLab) -> None:
    """The pod is started again with the device, and afterwards the host has that."""
    node = lab.nodes["gpu-2"]
    with ways.pod_with_rail(lab, "rebooted", "gpu-2", restartPolicy="Always"):
        lab.ready("rebooted")
        ways.has_device(lab, "rebooted")
        node.ansible("reboot", "reboot_timeout=900", check=False)

        def again() -> bool:
            status = lab.pod("rebooted")["status"]["containerStatuses"][0]
            return bool(status["ready"] and status["restartCount"] > 0)

        lab.wait("its container runs again", again, podlab.POD_S)
        ways.has_device(lab, "rebooted")
    ways.until_back(lab, "gpu-2")


def test_a_job(lab: podlab.PodLab) -> None:
    way = ways.way_of(lab)
    text = f"until rdma link | grep ACTIVE; do sleep 1; done; ip -4 -o address show dev {way.netdev}"
    job = ways.job(lab, command=["sh", "-c", text], env={})
    done = lab.playbook(ways.TRAIN, **job)
    assert done.returncode == 0, done.stdout
    logs = [path.read_text() for path in (podlab.EPHEMERAL / "logs").glob("train-*.log")]
    assert ["link rxe0/1 state ACTIVE" in log and way.network in log for log in logs] == [True, True], logs
    assert lab.playbook(ways.TRAIN, **job, training_job_state="absent").returncode == 0
    for node in podlab.NODES:
        ways.until_back(lab, node)
