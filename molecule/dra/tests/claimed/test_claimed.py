# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What pods get by a claim in the mode exclusive, and what the host has again when they end."""

from __future__ import annotations

import time
import typing as t
from collections.abc import Iterator

import pytest

from ansible_collections.rdmaops.gpu_fabric.molecule.dra.tests import claims
from ansible_collections.rdmaops.gpu_fabric.molecule.pods.tests import podlab

PODS = {"hold-1": "gpu-1", "hold-2": "gpu-2"}
DRANET = ("-n", "rdmaops-network", "-l", "name=dranet")


@pytest.fixture(scope="module")
def held(lab: podlab.PodLab) -> Iterator[None]:
    """A pod on each node that has the rail."""
    first, second = (claims.pod_with_rail(lab, name, node) for name, node in PODS.items())
    with first, second:
        lab.ready(*PODS)
        yield


def slices(lab: podlab.PodLab) -> dict[str, list[podlab.Json]]:
    rows = lab.cluster.json("get", "resourceslices")["items"]
    return {row["spec"]["nodeName"]: row["spec"].get("devices", []) for row in rows}


def test_nodes_publish_the_rail_and_nothing_else(lab: podlab.PodLab) -> None:
    published = slices(lab)
    assert set(published) == set(podlab.NODES)
    for devices in published.values():
        (device,) = devices
        assert device["attributes"]["dra.net/ifName"] == {"string": "rail0"}
        assert device["attributes"]["dra.net/rdma"] == {"bool": True}


@pytest.mark.usefixtures("held")
@pytest.mark.parametrize("pod", PODS)
def test_the_device_is_in_the_pod_with_its_card_and_its_address(lab: podlab.PodLab, pod: str) -> None:
    node = PODS[pod]
    assert claims.links(lab, pod) == [("rxe0", "rail0", "ACTIVE")]
    assert f"10.90.0.{node[-1]}/24" in lab.inside(pod, "ip", "-4", "-o", "address", "show", "dev", "rail0")
    assert lab.names_on_host(node) == ["rxe1"]
    assert lab.module(node, "rdma_info", all_netns=True)["changed"] is False
    audit = lab.module(node, "rdma_audit_info", expected=claims.ON_HOST, settle=5)
    places = {row["name"]: row["live"] for row in audit["resources"]}
    assert places["rxe0"] == f"pod ml/{pod}"


@pytest.mark.usefixtures("held")
def test_the_fabric_between_them(lab: podlab.PodLab) -> None:
    report = lab.verify(*PODS, tests=["rping", "ib_write_bw", "ib_write_bw_cm"])
    assert report["verdict"] == "pass", report["reasons"]
    assert report["skipped"] == []
    for pair in report["pairs"]:
        assert pair["verdict"] == "pass", pair
        if pair["test"].startswith("ib_write_bw"):
            assert pair["quiet"] is True, pair


@pytest.mark.usefixtures("held")
def test_a_template_is_possible_while_its_devices_are_in_pods(lab: podlab.PodLab) -> None:
    """dranet publishes no name of a card that a pod has: nothing is known then, and nothing is called impossible."""
    result = lab.module(
        "control-plane",
        "resource_claim_template_info",
        kubeconfig=str(lab.cluster.kubeconfig),
        nodes=list(PODS.values()),
    )
    (row,) = [row for row in result["templates"] if row["template"] == "ml/rail0"]
    assert set(row["nodes"].values()) <= {"possible", "unknown"}, result["lint"]


@pytest.mark.usefixtures("held")
def test_a_restarted_driver_and_a_restarted_runtime_leave_the_device(lab: podlab.PodLab) -> None:
    lab.cluster.kubectl("delete", "pod", *DRANET, "--wait=true", limit=180)
    lab.cluster.kubectl("rollout", "status", "daemonset/dranet", "-n", "rdmaops-network", "--timeout=240s", limit=260)
    assert claims.links(lab, "hold-1") == [("rxe0", "rail0", "ACTIVE")]
    lab.nodes["gpu-1"].check_output("systemctl restart containerd")
    lab.wait("the pod answers", lambda: lab.inside("hold-1", "true", check=False) == "", podlab.POD_S)
    assert claims.links(lab, "hold-1") == [("rxe0", "rail0", "ACTIVE")]


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


def test_the_next_pod_gets_it_without_waiting_for_a_minute(lab: podlab.PodLab) -> None:
    """dranet looks again after secondary_network_dranet_poll_interval."""
    for name in ("one", "two"):
        began = time.monotonic()
        with claims.pod_with_rail(lab, name, "gpu-2"):
            lab.ready(name)
            took = time.monotonic() - began
            assert claims.links(lab, name) == [("rxe0", "rail0", "ACTIVE")]
    assert took < 60
    claims.until_back(lab, "gpu-2")


def test_a_killed_sandbox(lab: podlab.PodLab) -> None:
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
