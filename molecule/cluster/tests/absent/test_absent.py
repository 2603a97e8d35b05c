# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the playbook `cluster` leaves behind after everything has been removed."""

from __future__ import annotations

from testinfra.host import Host

from ansible_collections.rdmaops.gpu_fabric.tests.support.cluster import cluster

testinfra_hosts = ["ansible://gpu_nodes"]


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
    assert {node["metadata"]["labels"].get("ack.node.gpu.schedule") for node in nodes} == {"default"}
    assert not [name for node in nodes for name in node["metadata"].get("annotations", {}) if "rdmaops" in name]


def test_the_nodes_have_their_pod_network_and_nothing_of_ours(host: Host) -> None:
    assert host.check_output("find /etc/cni /opt/cni -type f") == "/etc/cni/net.d/10-pods.conflist"
    assert not host.file("/var/lib/rdmaops/cni.json").exists
