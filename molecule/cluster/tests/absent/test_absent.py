# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the playbook `cluster` leaves where all of it is to be absent."""

from __future__ import annotations

import pytest

from ansible_collections.rdmaops.gpu_fabric.tests.support.cluster import cluster
from ansible_collections.rdmaops.gpu_fabric.tests.support.lab_ssh import guest


def test_nothing_is_left_on_the_api_server() -> None:
    plane = cluster()
    assert plane.kubectl("get", "network-attachment-definitions", "-A", "-o", "name", check=False) == ""
    assert (
        plane.kubectl(
            "get", "serviceaccounts", "multus", "whereabouts", "-n", "rdmaops-network", "-o", "name", check=False
        )
        == ""
    )
    assert plane.json("get", "secrets", "-n", "gpu-operator", "-l", "owner=helm")["items"] == []


def test_labels_are_what_they_were() -> None:
    nodes = cluster().json("get", "nodes")["items"]
    assert {one["metadata"]["labels"].get("ack.node.gpu.schedule") for one in nodes} == {"default"}
    assert not [name for one in nodes for name in one["metadata"].get("annotations", {}) if "rdmaops" in name]


@pytest.mark.parametrize("name", ["gpu-1", "gpu-2"])
def test_the_nodes_have_their_pod_network_and_nothing_of_ours(name: str) -> None:
    one = guest(name)
    assert one.shell("find /etc/cni /opt/cni -type f") == "/etc/cni/net.d/10-pods.conflist\n"
    assert one.shell("ls /var/lib/rdmaops/cni.json", check=False) == ""
