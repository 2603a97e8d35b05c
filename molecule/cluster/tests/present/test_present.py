# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the playbook `cluster` left on the API server and on the nodes, used as a container runtime would use it."""

from __future__ import annotations

import ipaddress
import json
import os
import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.tests.support import site
from ansible_collections.rdmaops.gpu_fabric.tests.support.cluster import Cluster, cluster
from ansible_collections.rdmaops.gpu_fabric.tests.support.lab_ssh import Guest, guest

NODES = ("gpu-1", "gpu-2")
CONTAINER = "c0ffee" * 10


@pytest.fixture(scope="module")
def plane() -> Cluster:
    return cluster()


@pytest.fixture(scope="module")
def node() -> Guest:
    return guest("gpu-1")


def test_one_attachment_and_one_range_for_each_rail(plane: Cluster) -> None:
    found = plane.json("get", "network-attachment-definitions", "-n", "default")["items"]
    configs = {one["metadata"]["name"]: json.loads(one["spec"]["config"]) for one in found}
    assert sorted(configs) == ["rail0", "rail1"]
    ranges = [ipaddress.IPv4Network(config["ipam"]["range"]) for config in configs.values()]
    assert all(one.subnet_of(ipaddress.IPv4Network("10.200.0.0/16")) for one in ranges)
    assert not ranges[0].overlaps(ranges[1])
    assert {config["type"] for config in configs.values()} == {"host-device"}
    # Two nodes, one pod each, and room to grow.
    assert all(one.num_addresses - 2 >= 4 for one in ranges)


def test_topology_labels(plane: Cluster) -> None:
    nodes = plane.json("get", "nodes")["items"]
    assert {one["metadata"]["labels"]["ack.node.gpu.schedule"] for one in nodes} == {"topology"}


def test_the_release_and_its_policy(plane: Cluster) -> None:
    policy = plane.json("get", "clusterpolicies.nvidia.com")["items"]
    assert len(policy) == 1
    assert policy[0]["spec"]["driver"]["rdma"] == {"enabled": True, "useHostMofed": True}
    releases = plane.json("get", "secrets", "-n", "gpu-operator", "-l", "owner=helm,status=deployed")["items"]
    assert len(releases) == 1


@pytest.mark.parametrize("name", NODES)
def test_the_programs_are_those_of_the_mirror(name: str) -> None:
    one = guest(name)
    assert "4.3.0" in one.shell("/opt/cni/bin/multus --version 2>&1")
    answer = one.shell(
        'echo \'{"cniVersion": "0.3.1", "name": "x", "type": "host-device"}\' | CNI_COMMAND=VERSION /opt/cni/bin/host-device'
    )
    assert "0.3.1" in json.loads(answer)["supportedVersions"]
    modes = one.shell(
        "stat -c '%a %U' /etc/cni/net.d/multus.d/multus.kubeconfig /etc/cni/net.d/whereabouts.d/*.kubeconfig"
    )
    assert modes.splitlines() == ["600 root", "600 root"]


@pytest.fixture
def pod(plane: Cluster, node: Guest) -> Iterator[dict[str, t.Any]]:
    """A pod that asks for the first rail, and the network namespace that a runtime would have made for it."""
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "train-0", "annotations": {"k8s.v1.cni.cncf.io/networks": "rail0"}},
        "spec": {"nodeName": "gpu-1", "containers": [{"name": "main", "image": "none"}]},
    }
    plane.kubectl("apply", "-n", "default", "-f", "-", stdin=json.dumps(body))
    node.shell("ip netns add train-0")
    yield plane.json("get", "pod", "train-0", "-n", "default")
    node.shell(
        "ip netns del train-0 || :; for n in 1 2 3 4 5; do ip -br link show rail0 && break; sleep 1; done; systemctl restart lab-node"
    )
    plane.kubectl("delete", "pod", "train-0", "-n", "default", "--force", "--grace-period=0")


def multus(node: Guest, command: str, pod: dict[str, t.Any]) -> str:
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
    return node.shell(f"env {settings} /opt/cni/bin/multus < /etc/cni/net.d/00-multus.conf 2>&1", limit=300)


def allocations(plane: Cluster) -> list[dict[str, str]]:
    pools = plane.json("get", "ippools.whereabouts.cni.cncf.io", "-n", "rdmaops-network")["items"]
    return [one for pool in pools for one in (pool["spec"].get("allocations") or {}).values()]


def test_a_pod_gets_the_rail_and_gives_it_back(plane: Cluster, node: Guest, pod: dict[str, t.Any]) -> None:
    answer = multus(node, "ADD", pod)
    assert "cniVersion" in answer, answer
    inside = json.loads(node.shell("ip -j -n train-0 address show net1"))[0]
    addresses = [one["local"] for one in inside["addr_info"] if one["family"] == "inet"]
    config = json.loads(plane.json("get", "network-attachment-definitions", "rail0", "-n", "default")["spec"]["config"])
    assert [ipaddress.ip_address(one) in ipaddress.ip_network(config["ipam"]["range"]) for one in addresses] == [True]
    assert node.shell("ip -br link show rail0", check=False) == ""
    assert [one["podref"] for one in allocations(plane)] == ["default/train-0"]
    # Multus wrote down what the pod got: its account may.
    status = plane.json("get", "pod", "train-0", "-n", "default")["metadata"]["annotations"][
        "k8s.v1.cni.cncf.io/network-status"
    ]
    assert [one["ips"] for one in json.loads(status) if one["interface"] == "net1"] == [addresses]

    multus(node, "DEL", pod)
    assert "rail0" in node.shell("ip -br link show rail0")
    assert allocations(plane) == []


def test_what_is_there_is_in_sync() -> None:
    """The fourth step of the drill: a check finds nothing to do, and every object in sync."""
    inventory = Path(os.environ["MOLECULE_EPHEMERAL_DIRECTORY"]) / "inventory"
    run = site.playbook("rdmaops.gpu_fabric.cluster", "all", "-i", str(inventory), "--check", limit=900)
    assert run.rc == 0, run.output
    assert run.changed() == 0, run.output
    kinds: dict[str, set[str]] = {}
    for _name, _host, result in run.tasks:
        # What k8s_info calls so are objects of the cluster.
        for one in [row for row in result.get("resources") or [] if "desired" in row]:
            kinds.setdefault(one["kind"], set()).add(one["status"])
    assert {"network_attachment", "node_label", "helm_release"} <= set(kinds), kinds
    assert set().union(*kinds.values()) == {"in_sync"}, kinds
