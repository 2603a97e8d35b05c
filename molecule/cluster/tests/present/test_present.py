# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the playbook `cluster` has installed on the API server and on the nodes, used as a container runtime uses it."""

from __future__ import annotations

import ipaddress
import json
import os
import typing as t
from pathlib import Path

import pytest
from testinfra.host import Host

from ansible_collections.rdmaops.gpu_fabric.tests.support import site
from ansible_collections.rdmaops.gpu_fabric.tests.support.cluster import Cluster, cluster

testinfra_hosts = ["ansible://gpu_nodes"]
CONTAINER = "c0ffee" * 10


@pytest.fixture(scope="module")
def plane() -> Cluster:
    return cluster()


@pytest.fixture(scope="module")
def node(nodes: dict[str, Host]) -> Host:
    return nodes["gpu-1"]


def test_one_attachment_and_one_range_for_each_rail(plane: Cluster) -> None:
    attachments = plane.json("get", "network-attachment-definitions", "-n", "default")["items"]
    chains = {item["metadata"]["name"]: json.loads(item["spec"]["config"])["plugins"] for item in attachments}
    assert sorted(chains) == ["rail0", "rail1"]
    assert {chain[1]["type"] for chain in chains.values()} == {"tuning"}
    configs = {name: chain[0] for name, chain in chains.items()}
    ranges = [ipaddress.IPv4Network(config["ipam"]["range"]) for config in configs.values()]
    assert all(network.subnet_of(ipaddress.IPv4Network("10.200.0.0/16")) for network in ranges)
    assert not ranges[0].overlaps(ranges[1])
    assert {config["type"] for config in configs.values()} == {"host-device"}
    # Two nodes, one pod each, and room to grow.
    assert all(network.num_addresses - 2 >= 4 for network in ranges)


def test_topology_labels(plane: Cluster) -> None:
    nodes = plane.json("get", "nodes")["items"]
    assert {node["metadata"]["labels"]["ack.node.gpu.schedule"] for node in nodes} == {"topology"}


def test_the_release_and_its_policy(plane: Cluster) -> None:
    policy = plane.json("get", "clusterpolicies.nvidia.com")["items"]
    assert len(policy) == 1
    assert policy[0]["spec"]["driver"]["rdma"] == {"enabled": True, "useHostMofed": True}
    releases = plane.json("get", "secrets", "-n", "gpu-operator", "-l", "owner=helm,status=deployed")["items"]
    assert len(releases) == 1


def test_the_programs_are_those_of_the_mirror(host: Host) -> None:
    assert "4.3.0" in host.check_output("/opt/cni/bin/multus --version 2>&1")
    config = '{"cniVersion": "0.3.1", "name": "x", "type": "host-device"}'
    answer = host.check_output("echo %s | CNI_COMMAND=VERSION /opt/cni/bin/host-device", config)
    assert "0.3.1" in json.loads(answer)["supportedVersions"]
    modes = host.check_output(
        "stat -c '%a %U' /etc/cni/net.d/multus.d/multus.kubeconfig /etc/cni/net.d/whereabouts.d/*.kubeconfig"
    )
    assert modes.splitlines() == ["600 root", "600 root"]


@pytest.fixture
def pod(plane: Cluster, node: Host) -> t.Iterator[dict[str, t.Any]]:
    """A pod that requests the first rail, and the network namespace that a runtime would have created for it."""
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "train-0", "annotations": {"k8s.v1.cni.cncf.io/networks": "rail0"}},
        "spec": {"nodeName": "gpu-1", "containers": [{"name": "main", "image": "none"}]},
    }
    plane.kubectl("apply", "-n", "default", "-f", "-", stdin=json.dumps(body))
    node.check_output("ip netns add train-0")
    yield plane.json("get", "pod", "train-0", "-n", "default")
    node.check_output(
        "ip netns del train-0 || :; for n in 1 2 3 4 5; do ip -br link show rail0 && break; sleep 1; done; systemctl restart lab-node"
    )
    plane.kubectl("delete", "pod", "train-0", "-n", "default", "--force", "--grace-period=0")


def multus(node: Host, command: str, pod: dict[str, t.Any]) -> str:
    """Call Multus as containerd does (CNI specification, "Section 2: Execution Protocol")."""
    words = {
        "CNI_COMMAND": command,
        "CNI_CONTAINERID": CONTAINER,
        "CNI_NETNS": "/run/netns/train-0",
        "CNI_IFNAME": "eth0",
        "CNI_PATH": "/opt/cni/bin",
        "CNI_ARGS": "IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=train-0;"
        f"K8S_POD_INFRA_CONTAINER_ID={CONTAINER};K8S_POD_UID={pod['metadata']['uid']}",
    }
    settings = " ".join(f"{name}='{value}'" for name, value in words.items())
    return str(node.check_output(f"env {settings} /opt/cni/bin/multus < /etc/cni/net.d/00-multus.conf 2>&1"))


def allocations(plane: Cluster) -> list[dict[str, str]]:
    pools = plane.json("get", "ippools.whereabouts.cni.cncf.io", "-n", "rdmaops-network")["items"]
    return [row for pool in pools for row in (pool["spec"].get("allocations") or {}).values()]


def test_a_pod_gets_the_rail_and_gives_it_back(plane: Cluster, node: Host, pod: dict[str, t.Any]) -> None:
    answer = multus(node, "ADD", pod)
    assert "cniVersion" in answer, answer
    inside = json.loads(node.check_output("ip -j -n train-0 address show net1"))[0]
    addresses = [row["local"] for row in inside["addr_info"] if row["family"] == "inet"]
    attachment = plane.json("get", "network-attachment-definitions", "rail0", "-n", "default")
    config = json.loads(attachment["spec"]["config"])["plugins"][0]
    assert [ipaddress.ip_address(text) in ipaddress.ip_network(config["ipam"]["range"]) for text in addresses] == [True]
    assert node.run("ip -br link show rail0").stdout == ""
    settings = " ".join(f"/proc/sys/net/ipv4/conf/net1/{name}" for name in ("arp_ignore", "arp_announce", "rp_filter"))
    assert node.check_output(f"ip netns exec train-0 cat {settings}").split() == ["1", "2", "2"]
    assert [row["podref"] for row in allocations(plane)] == ["default/train-0"]
    # Multus has recorded what the pod received: its account is allowed to.
    status = plane.json("get", "pod", "train-0", "-n", "default")["metadata"]["annotations"][
        "k8s.v1.cni.cncf.io/network-status"
    ]
    assert [row["ips"] for row in json.loads(status) if row["interface"] == "net1"] == [addresses]

    multus(node, "DEL", pod)
    assert "rail0" in node.check_output("ip -br link show rail0")
    assert allocations(plane) == []


def test_everything_is_in_sync() -> None:
    """The fourth step of the drill: check mode has nothing to do, and reports every object as in sync."""
    inventory = Path(os.environ["MOLECULE_EPHEMERAL_DIRECTORY"]) / "inventory"
    run = site.playbook("rdmaops.gpu_fabric.cluster", "all", "-i", str(inventory), "--check", limit=900)
    assert run.rc == 0, run.output
    assert run.changed() == 0, run.output
    kinds: dict[str, set[str]] = {}
    for _name, _host, result in run.tasks:
        # The resources of k8s_info, without `desired`, are objects of the cluster.
        for row in [row for row in result.get("resources") or [] if "desired" in row]:
            kinds.setdefault(row["kind"], set()).add(row["status"])
    assert {"network_attachment", "node_label", "helm_release"} <= set(kinds), kinds
    assert set().union(*kinds.values()) == {"in_sync"}, kinds
