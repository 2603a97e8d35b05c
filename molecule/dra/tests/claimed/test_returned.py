# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the host has again when pods with claims end, in whatever way."""

from __future__ import annotations

import datetime
import typing as t

import pytest

from ansible_collections.rdmaops.gpu_fabric.molecule.dra.tests import claims
from ansible_collections.rdmaops.gpu_fabric.molecule.pods.tests import podlab


@pytest.mark.parametrize("node", podlab.NODES)
def test_it_is_back_after_a_deletion(lab: podlab.PodLab, node: str) -> None:
    assert lab.pods() == []
    claims.until_back(lab, node)


def test_an_unprivileged_pod_opens_its_device(lab: podlab.PodLab) -> None:
    container = {**claims.PLAIN, "command": ["sleep", "infinity"]}
    with claims.pod_with_rail(lab, "plain", "gpu-1", container=container):
        lab.ready("plain")
        assert set(lab.inside("plain", "ls", "/dev/infiniband").split()) >= {"rdma_cm", "uverbs0"}
        assert "PORT_ACTIVE" in lab.inside("plain", "ibv_devinfo", "-d", "rxe0")
    claims.until_back(lab, "gpu-1")


def scheduled_after(lab: podlab.PodLab, name: str) -> float:
    """Return how many seconds a pod waited until the scheduler had its devices."""
    pod = lab.pod(name)
    (condition,) = [row for row in pod["status"]["conditions"] if row["type"] == "PodScheduled"]
    texts = pod["metadata"]["creationTimestamp"], condition["lastTransitionTime"]
    created, scheduled = (datetime.datetime.fromisoformat(text) for text in texts)
    return (scheduled - created).total_seconds()


def test_the_next_pod_gets_it_without_waiting_for_a_minute(lab: podlab.PodLab) -> None:
    """dranet looks again after secondary_network_dranet_poll_interval; its own default is a minute."""
    for name in ("one", "two"):
        with claims.pod_with_rail(lab, name, "gpu-2"):
            lab.ready(name)
            waited = scheduled_after(lab, name)
            assert claims.links(lab, name) == [("rxe0", "rail0", "ACTIVE")]
    assert waited < 45
    claims.until_back(lab, "gpu-2")


def test_a_killed_sandbox(lab: podlab.PodLab) -> None:
    """That of dranet on this node is killed with it: until it is back, the kubelet tries again."""
    with claims.pod_with_rail(lab, "killed", "gpu-1", restartPolicy="Always"):
        lab.ready("killed")
        first = str(lab.pod("killed")["status"]["containerStatuses"][0]["containerID"])
        lab.nodes["gpu-1"].check_output("pkill -KILL -x pause")

        def another() -> bool:
            status = lab.pod("killed")["status"]["containerStatuses"][0]
            return bool(status["ready"] and status["containerID"] != first)

        lab.wait("another container runs", another, podlab.POD_S)
        assert claims.links(lab, "killed") == [("rxe0", "rail0", "ACTIVE")]
    claims.until_back(lab, "gpu-1")


def test_a_device_in_a_namespace_that_outlives_its_pod_is_found_and_taken_back(lab: podlab.PodLab) -> None:
    """dranet asks the kernel from the host's namespace, which answers ENODEV (kubernetes-sigs/dranet#177).

    The device comes back when the namespace ends. What keeps that open keeps the device.
    """
    node = lab.nodes["gpu-1"]
    with claims.pod_with_rail(lab, "outlived", "gpu-1"):
        lab.ready("outlived")
        keep = "exec 9</run/netns/$(ls /run/netns | grep ^cni-); exec sleep infinity"
        node.check_output(f"systemd-run --unit=keeper sh -c '{keep}'")
    try:
        lab.wait("the card is back", lambda: claims.address(lab, "gpu-1") == "10.90.0.1/24", podlab.POD_S)
        assert lab.names_on_host("gpu-1") == ["rxe1"]
        audit = lab.module("gpu-1", "rdma_audit_info", expected=claims.ON_HOST, settle=5)
        (row,) = [row for row in audit["resources"] if row["status"] != "in_sync"]
        assert (row["name"], row["status"]) == ("rxe0", "drift")
        assert "held by process" in row["live"], row
        assert "(sleep infinity)" in row["live"], row
        assert lab.module("gpu-1", "rdma_device", name="rxe0", state="detached")["changed"] is True
        assert lab.names_on_host("gpu-1") == claims.ON_HOST
    finally:
        node.run("systemctl stop keeper")
    claims.until_back(lab, "gpu-1")


def job(**more: t.Any) -> podlab.Json:
    return {f"training_job_{key}": value for key, value in {"name": "train", "workers": 2, **more}.items()}


def test_a_job_by_claims(lab: podlab.PodLab) -> None:
    command = ["sh", "-c", "rdma link && ip -4 -o address show dev rail0"]
    done = lab.playbook("rdmaops.gpu_fabric.train", **job(command=command))
    assert done.returncode == 0, done.stdout
    logs = [path.read_text() for path in (podlab.EPHEMERAL / "logs").glob("train-*.log")]
    assert ["link rxe0/1 state ACTIVE" in log and "10.90.0." in log for log in logs] == [True, True], logs
    assert lab.playbook("rdmaops.gpu_fabric.train", **job(command=command), training_job_state="absent").returncode == 0
    for node in podlab.NODES:
        claims.until_back(lab, node)


def test_a_job_with_a_claim_that_no_node_can_satisfy_is_refused(lab: podlab.PodLab) -> None:
    done = lab.playbook("rdmaops.gpu_fabric.train", **job(command=["true"], claims=["rail9"]))
    assert done.returncode != 0
    assert "ResourceClaimTemplate ml/rail9 does not exist; there are: rail0" in " ".join(done.stdout.split())
    assert lab.pods() == []
