# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the shared device plugin offers, and what a pod without privileges gets of it."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.rdmaops.gpu_fabric.molecule.pods.tests import podlab

RESOURCE = "rdma/hca_shared"
# Nobody's user, and nothing beyond what every container has.
PLAIN: podlab.Json = {"securityContext": {"runAsUser": 1000, "allowPrivilegeEscalation": False}}


def job(name: str, *command: str, count: int = 1) -> podlab.Json:
    values = {"name": name, "command": list(command), "resources": {RESOURCE: count}}
    return {f"training_job_{key}": value for key, value in values.items()}


@pytest.mark.parametrize("node", podlab.NODES)
def test_a_node_offers_shares(lab: podlab.PodLab, node: str) -> None:
    def offered() -> t.Any:
        return lab.cluster.json("get", "node", node)["status"]["allocatable"].get(RESOURCE)

    lab.wait("eight shares", lambda: offered() == "8")


@pytest.mark.parametrize("node", podlab.NODES)
def test_every_rdma_device_has_a_umad_device(lab: podlab.PodLab, node: str) -> None:
    """Without one, the plugin leaves the device out."""
    count = "ls /sys/class/infiniband_mad | grep -c ^umad"
    assert lab.nodes[node].check_output(count) == str(len(lab.names_on_host(node)))


def test_an_unprivileged_pod_opens_the_device_that_it_asked_for(lab: podlab.PodLab) -> None:
    container = {**PLAIN, "resources": {"limits": {RESOURCE: "1"}}, "command": ["sleep", "infinity"]}
    with lab.run_pod("share", "gpu-1", container=container):
        lab.ready("share")
        assert lab.inside("share", "ls", "/dev/infiniband").split() == ["rdma_cm", "umad0", "uverbs0"]
        output = lab.inside("share", "ibv_devinfo", "-d", "rxe0")
        assert "PORT_ACTIVE" in output


def test_a_pod_that_asked_for_none_has_none(lab: podlab.PodLab) -> None:
    with lab.run_pod("none", "gpu-1", container={**PLAIN, "command": ["sleep", "infinity"]}):
        lab.ready("none")
        assert "infiniband" not in lab.inside("none", "ls", "/dev").split()


def test_a_job_with_a_share_for_each_pod(lab: podlab.PodLab) -> None:
    devices = job("share", "ibv_devinfo", "-d", "rxe0")
    done = lab.playbook("rdmaops.gpu_fabric.train", **devices)
    assert done.returncode == 0, done.stdout
    logs = [path.read_text() for path in (podlab.EPHEMERAL / "logs").glob("share-*.log")]
    assert ["PORT_ACTIVE" in log for log in logs] == [True, True], logs
    assert lab.playbook("rdmaops.gpu_fabric.train", **devices, training_job_state="absent").returncode == 0


def test_a_job_with_more_shares_than_a_node_has_is_refused_with_the_numbers(lab: podlab.PodLab) -> None:
    done = lab.playbook("rdmaops.gpu_fabric.train", **job("many", "true", count=9))
    assert done.returncode != 0
    assert RESOURCE in done.stdout
    assert "8" in done.stdout[done.stdout.index(RESOURCE) :]
    assert lab.pods() == []


def test_mode_exclusive_is_refused_with_what_needs_shared(lab: podlab.PodLab) -> None:
    done = lab.playbook("rdmaops.gpu_fabric.nodes", "--check", gpu_node_netns_mode="exclusive")
    text = " ".join(done.stdout.split())
    assert done.returncode != 0, text
    assert "rdmaops-network/rdma-device-plugin" in text, text
    # iproute2 has no JSON of it.
    assert lab.nodes["gpu-1"].check_output("rdma -j system").startswith("netns shared ")
