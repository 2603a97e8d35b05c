# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What pods get by a claim in the mode exclusive."""

from __future__ import annotations

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
    audit = lab.module(node, "rdma_audit_info", expected=claims.ON_HOST, settle=5)
    places = {row["name"]: row["live"] for row in audit["resources"]}
    assert places["rxe0"].startswith(f"pod ml/{pod}, by the claim ml/{pod}-rail0-")
    assert places[podlab.CARD].startswith(f"rail0 in pod ml/{pod}, by the claim ml/{pod}-rail0-")


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
    lab.wait("the pod answers", lambda: lab.inside("hold-1", "echo", "up", check=False) == "up\n", podlab.POD_S)
    assert claims.links(lab, "hold-1") == [("rxe0", "rail0", "ACTIVE")]
