# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is so of claims only."""

from __future__ import annotations

import pytest

from ansible_collections.rdmaops.gpu_fabric.molecule.dra.tests import ways
from ansible_collections.rdmaops.gpu_fabric.molecule.pods.tests import listing, podlab

DRANET = ("-n", "rdmaops-network", "-l", "name=dranet")


def test_what_is_there_now_is_listed(lab: podlab.PodLab) -> None:
    """It is compared after attachments have come and gone (tests/again)."""
    rows = {name: listing.of_node(host) for name, host in lab.nodes.items()}
    assert "/etc/systemd/system/rdma_attachment.service" not in rows["gpu-1"]
    listing.keep({**rows, "cluster": listing.of_cluster(lab)})


def test_nodes_publish_the_rail_and_nothing_else(lab: podlab.PodLab) -> None:
    rows = lab.cluster.json("get", "resourceslices")["items"]
    published = {row["spec"]["nodeName"]: row["spec"].get("devices", []) for row in rows}
    assert set(published) == set(podlab.NODES)
    for devices in published.values():
        (device,) = devices
        assert device["attributes"]["dra.net/ifName"] == {"string": "rail0"}
        assert device["attributes"]["dra.net/rdma"] == {"bool": True}


def test_a_template_is_possible_while_its_devices_are_in_pods(lab: podlab.PodLab, held: dict[str, str]) -> None:
    """dranet publishes no name of a card that a pod has: nothing is known then, and nothing is called impossible."""
    result = lab.module(
        "control-plane",
        "resource_claim_template_info",
        kubeconfig=str(lab.cluster.kubeconfig),
        nodes=list(held.values()),
    )
    (row,) = [row for row in result["templates"] if row["template"] == "ml/rail0"]
    assert set(row["nodes"].values()) <= {"possible", "unknown"}, result["lint"]


@pytest.mark.usefixtures("held")
def test_a_restarted_driver_and_a_restarted_runtime_leave_the_device(lab: podlab.PodLab) -> None:
    lab.cluster.kubectl("delete", "pod", *DRANET, "--wait=true", limit=180)
    lab.cluster.kubectl("rollout", "status", "daemonset/dranet", "-n", "rdmaops-network", "--timeout=240s", limit=260)
    assert ways.links(lab, "hold-1") == [("rxe0", "rail0", "ACTIVE")]
    lab.nodes["gpu-1"].check_output("systemctl restart containerd")
    lab.wait("the pod answers", lambda: lab.inside("hold-1", "echo", "up", check=False) == "up\n", podlab.POD_S)
    assert ways.links(lab, "hold-1") == [("rxe0", "rail0", "ACTIVE")]
