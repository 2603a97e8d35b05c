# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pods and jobs with claims: what they may do, how long they wait, and what they leave."""

from __future__ import annotations

import datetime

from ansible_collections.rdmaops.gpu_fabric.molecule.dra.tests import ways
from ansible_collections.rdmaops.gpu_fabric.molecule.pods.tests import podlab


def test_an_unprivileged_pod_opens_its_device(lab: podlab.PodLab) -> None:
    container = {**ways.PLAIN, "command": ["sleep", "infinity"]}
    with ways.pod_with_rail(lab, "plain", "gpu-1", container=container):
        lab.ready("plain")
        assert set(lab.inside("plain", "ls", "/dev/infiniband").split()) >= {"rdma_cm", "uverbs0"}
        assert "PORT_ACTIVE" in lab.inside("plain", "ibv_devinfo", "-d", "rxe0")
    ways.until_back(lab, "gpu-1")


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
        with ways.pod_with_rail(lab, name, "gpu-2"):
            lab.ready(name)
            waited = scheduled_after(lab, name)
            assert ways.links(lab, name) == [("rxe0", "rail0", "ACTIVE")]
    assert waited < 45
    ways.until_back(lab, "gpu-2")


def test_a_device_in_a_namespace_that_outlives_its_pod_is_found_and_taken_back(lab: podlab.PodLab) -> None:
    """dranet asks the kernel from the host's namespace, which answers ENODEV (kubernetes-sigs/dranet#177).

    The device comes back when the namespace ends. What keeps that open keeps the device.
    """
    node = lab.nodes["gpu-1"]
    with ways.pod_with_rail(lab, "outlived", "gpu-1"):
        lab.ready("outlived")
        keep = "exec 9</run/netns/$(ls /run/netns | grep ^cni-); exec sleep infinity"
        node.check_output(f"systemd-run --unit=keeper sh -c '{keep}'")
    try:
        lab.wait("the card is back", lambda: ways.address(lab, "gpu-1") == "10.90.0.1/24", podlab.POD_S)
        assert lab.names_on_host("gpu-1") == ["rxe1"]
        audit = lab.module("gpu-1", "rdma_audit_info", expected=ways.ON_HOST, settle=5)
        (row,) = [row for row in audit["resources"] if row["status"] != "in_sync"]
        assert (row["name"], row["status"]) == ("rxe0", "drift")
        assert "held by process" in row["live"], row
        assert "(sleep infinity)" in row["live"], row
        assert lab.module("gpu-1", "rdma_device", name="rxe0", state="detached")["changed"] is True
        assert lab.names_on_host("gpu-1") == ways.ON_HOST
    finally:
        node.run("systemctl stop keeper")
    ways.until_back(lab, "gpu-1")


def test_a_job_with_a_claim_that_no_node_can_satisfy_is_refused(lab: podlab.PodLab) -> None:
    done = lab.playbook(ways.TRAIN, **ways.job(lab, command=["true"], claims=["rail9"]))
    assert done.returncode != 0
    assert "ResourceClaimTemplate ml/rail9 does not exist; there are: rail0" in " ".join(done.stdout.split())
    assert lab.pods() == []
