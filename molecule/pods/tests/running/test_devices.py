# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Two pods on two nodes, each with an RDMA device of its own."""

from __future__ import annotations

import pytest

from ansible_collections.rdmaops.gpu_fabric.molecule.pods.tests import podlab

PODS = {"hold-0": "gpu-1", "hold-1": "gpu-2"}


def node_of(lab: podlab.PodLab, pod: str) -> str:
    return str(lab.pod(pod)["spec"]["nodeName"])


def test_both_are_ready_on_a_node_each(lab: podlab.PodLab) -> None:
    lab.ready(*PODS)
    assert sorted(node_of(lab, pod) for pod in PODS) == ["gpu-1", "gpu-2"]


@pytest.mark.parametrize("pod", PODS)
def test_its_device_is_its_own(lab: podlab.PodLab, pod: str) -> None:
    (inside,) = lab.devices(pod)
    assert (inside["ifname"], inside["netdev"], inside["state"]) == ("rxe0", "net1", "ACTIVE")
    assert lab.names_on_host(node_of(lab, pod)) == ["rxe1"]
    assert "rail0" not in lab.nodes[node_of(lab, pod)].check_output("ls /sys/class/net")


@pytest.mark.parametrize("pod", PODS)
def test_programs_of_the_pod_can_open_it(lab: podlab.PodLab, pod: str) -> None:
    output = lab.inside(pod, "ibv_devinfo", "-d", "rxe0")
    assert "PORT_ACTIVE" in output
    assert "Ethernet" in output


def test_a_user_may_lock_as_much_memory_as_rdma_needs(lab: podlab.PodLab) -> None:
    """The same pod as before the runtime received its drop-in, on the rail that is the host's."""
    node = node_of(lab, "hold-0")
    with lab.run_pod("high", node, hostNetwork=True, container={"securityContext": podlab.AS_USER}):
        lab.ready("high")
        assert "unlimited" in lab.inside("high", "grep", "Max locked memory", "/proc/1/limits")
        check = lab.memlock("ml/high", device="rxe1")
        assert (check["ok"], check["unlimited"]) == (True, True), check


@pytest.mark.parametrize("pod", PODS)
def test_it_is_reported_whose_device_it_is(lab: podlab.PodLab, pod: str) -> None:
    info = lab.module(node_of(lab, pod), "rdma_info", gather=[], all_netns=True)
    owners = {device["name"]: device["pod"] for device in info["devices"]}
    assert owners["rxe1"] is None
    assert (owners["rxe0"]["namespace"], owners["rxe0"]["name"]) == ("ml", pod)


def test_a_second_pod_that_wants_it_is_refused_with_the_holders_name(lab: podlab.PodLab) -> None:
    node = node_of(lab, "hold-0")
    with lab.run_pod("other", node):
        lab.ready("other")
        refused = lab.module(node, "rdma_device", name="rxe0", pod="ml/other")
        assert refused["failed"]
        assert refused["msg"] == (
            "Moving the RDMA device rxe0 from pod ml/hold-0 to pod ml/other: the pod is running and holds it. Delete it, choose "
            "a free device, or set disrupt to true"
        )
        linked = lab.module(node, "rdma_link", name="rxe0", type="rxe", netdev="eth0", pod="ml/other")
        assert "a device of that name already exists (rdma_rxe on net1 in pod ml/hold-0)" in linked["msg"]
    assert [link["ifname"] for link in lab.devices("hold-0")] == ["rxe0"]


def test_a_second_pod_that_wants_its_card_does_not_start(lab: podlab.PodLab) -> None:
    node = node_of(lab, "hold-0")
    with lab.run_pod("greedy", node, rail=podlab.RAIL):

        def reported() -> bool:
            selector = "involvedObject.name=greedy"
            events = lab.cluster.json("get", "events", "-n", "ml", "--field-selector", selector)["items"]
            return any(row["reason"] == "FailedCreatePodSandBox" and "rail0" in row["message"] for row in events)

        lab.wait("an event says that the card is not there", reported, podlab.POD_S)
        assert lab.pod("greedy")["status"]["phase"] == "Pending"
    assert [link["ifname"] for link in lab.devices("hold-0")] == ["rxe0"]


@pytest.mark.parametrize(
    ("pod", "text"),
    [
        ("ml/nobody", "The kubelet of this host has no pod ml/nobody"),
        ("ml", "'ml' is not the name of a pod: write NAMESPACE/NAME"),
    ],
)
def test_a_pod_that_is_not_there(lab: podlab.PodLab, pod: str, text: str) -> None:
    refused = lab.module(node_of(lab, "hold-0"), "rdma_device", name="rxe1", pod=pod)
    assert refused["failed"]
    assert text in refused["msg"]


def test_a_monitor_that_polls_the_host_misses_it_every_time(lab: podlab.PodLab) -> None:
    with lab.polled(node_of(lab, "hold-0"), "rxe0") as answers:
        assert answers == ["missed"] * 3
    (inside,) = lab.devices("hold-0")
    assert (inside["ifname"], inside["state"]) == ("rxe0", "ACTIVE")


def test_nothing_is_stranded(lab: podlab.PodLab) -> None:
    for node in podlab.NODES:
        audit = lab.module(node, "rdma_audit_info", expected=["rxe0", "rxe1"], settle=5)
        assert {row["status"] for row in audit["resources"]} == {"in_sync"}
        places = {row["name"]: row["live"] for row in audit["resources"]}
        assert places["rxe0"].startswith("pod ml/hold-")
        assert places[podlab.CARD].startswith("net1 in pod ml/hold-")
        assert (places["rxe1"], places["0000:00:05.0"]) == ("the host", "rail1 on the host")


def test_the_service_logs_its_moves(lab: podlab.PodLab) -> None:
    for node in podlab.NODES:
        journal = lab.nodes[node].check_output("journalctl --unit rdma_attachment --output cat --no-pager")
        assert "rxe0 is with " in journal
        assert "Traceback" not in journal


def test_check_mode_finds_nothing_to_do(lab: podlab.PodLab) -> None:
    command = ["sleep", "infinity"]
    done = lab.playbook(
        *("rdmaops.gpu_fabric.train", "--check"),
        training_job_name="hold", training_job_command=command, training_job_wait=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert " changed=0 " in done.stdout, done.stdout
