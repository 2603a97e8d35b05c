# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What conflicts with a mode, from a real API server. Its nodes have no kubelet: pods are bound by nodeName."""

from __future__ import annotations

import json
import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._kubernetes.client import ApiError
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._rdma_mode_conflicts.cluster import manage
from ansible_collections.rdmaops.gpu_fabric.tests.support import site
from ansible_collections.rdmaops.gpu_fabric.tests.support.cluster import Cluster
from ansible_collections.rdmaops.gpu_fabric.tests.support.mode_conflicts import (
    SHARE,
    attachment,
    install_definitions,
    plugin,
    pod,
    pool,
    remove,
    resource,
)
from ansible_collections.rdmaops.gpu_fabric.tests.support.objects import client

Json = t.Any
# The first tests find the cluster without the definitions that the others need.
pytestmark = pytest.mark.random_order(disabled=True)

NODES = ["gpu-1", "gpu-2"]
NIC = {"feature.node.kubernetes.io/pci-15b3.present": "true"}


@pytest.fixture(scope="module")
def plane(own_cluster: Cluster) -> Cluster:
    """Return a control plane with two nodes, and without CRDs at first."""
    own_cluster.apply(*(resource("v1", "Node", name, metadata={"labels": {"pool": name}}) for name in NODES))
    return own_cluster


@pytest.fixture(scope="module")
def ready(plane: Cluster) -> Cluster:
    install_definitions(plane)
    return plane


@pytest.fixture
def namespace(ready: Cluster) -> Iterator[str]:
    with ready.namespace() as name:
        yield name
        remove(ready, "pods", "daemonsets", "sriovnetworkpoolconfigs", "nicclusterpolicies", "nicnodepolicies")


def ask(plane: Cluster, mode: str = "exclusive", kubeconfig: Path | None = None, **more: Json) -> Json:
    """Call the util as the module would."""
    options = {"nodes": NODES, "netns_mode": mode, "on_conflict": "fail", **more}
    return manage(options, False, client(kubeconfig or plane.kubeconfig))


def rows(result: Json) -> list[tuple[str, str | None, str, str]]:
    return sorted((row["kind"], row["namespace"], row["name"], row["node"]) for row in result["conflicts"])


def of(result: Json, name: str) -> list[str]:
    return [row["what"] for row in result["conflicts"] if row["name"] == name]


def status(result: Json) -> dict[str, str]:
    return {row["name"]: row["status"] for row in result["resources"]}


def test_a_cluster_without_any_of_the_kinds(plane: Cluster) -> None:
    for mode in ("exclusive", "shared"):
        result = ask(plane, mode)
        assert (result["conflicts"], result["unknown"], "failed" in result) == ([], [], False)
        assert status(result) == dict.fromkeys(NODES, "in_sync")


def test_a_missing_kind_is_no_missing_right(plane: Cluster) -> None:
    """The API server answers 403 for both."""
    reader = plane.user("core-reader")
    plane.kubectl("create", "clusterrole", "core", "--verb=list", "--resource=nodes,pods,daemonsets.apps")
    plane.bind("clusterrolebinding", "core-reader", "list", "pods", "--clusterrole=core")
    result = ask(plane, kubeconfig=reader)
    assert (result["unknown"], status(result)) == ([], dict.fromkeys(NODES, "in_sync"))


def test_rights_that_are_missing_are_no_absence_of_conflicts(ready: Cluster) -> None:
    result = ask(ready, kubeconfig=ready.user("nobody-here"))
    assert result["failed"]
    assert status(result) == dict.fromkeys(NODES, "unknown")
    assert [row["live"] for row in result["resources"]] == [None, None]
    denied = 'User "nobody-here" cannot list resource "nodes"'
    for words in (denied, "Give this user that right", "on_conflict to warn"):
        assert words in result["msg"]
    # Who may see nodes and pods only.
    result = ask(ready, kubeconfig=ready.user("core-reader"))
    unknown = " ".join(gap["what"] for gap in result["unknown"])
    for plural in ("sriovnetworkpoolconfigs", "nicclusterpolicies", "nicnodepolicies"):
        assert f'cannot list resource "{plural}"' in unknown
    assert result["failed"]
    warned = ask(ready, kubeconfig=ready.user("core-reader"), on_conflict="warn")
    assert "failed" not in warned
    assert len(warned["warnings"]) == 3
    assert all(text.startswith("RDMA mode exclusive: Not known: ") for text in warned["warnings"])
    assert status(warned) == dict.fromkeys(NODES, "unknown")


def test_a_node_of_another_name(ready: Cluster) -> None:
    result = ask(ready, nodes=["gpu-1", "gpu-9"])
    assert status(result) == {"gpu-1": "in_sync", "gpu-9": "unknown"}
    assert "the cluster has no node gpu-9 (there are: gpu-1, gpu-2). Give the name" in result["msg"]


def test_an_api_server_that_is_not_there_is_an_error_whatever_is_asked() -> None:
    options = {"nodes": NODES, "netns_mode": "exclusive", "on_conflict": "warn"}
    with pytest.raises(ApiError, match="Listing the nodes: https://127.0.0.1:1 could not be reached"):
        manage(options, False, client(host="https://127.0.0.1:1", api_key="x", timeout=2))


def test_the_shared_plugin_where_it_runs(ready: Cluster, namespace: str) -> None:
    # By its program alone, from a mirror that names images by digest.
    affinity = {"key": "metadata.name", "operator": "In", "values": ["gpu-2"]}
    required = {"nodeSelectorTerms": [{"matchFields": [affinity]}]}
    mirrored = plugin(
        *(namespace, "mirrored", "mirror.example/4711@sha256:" + "0" * 64),
        containers=[{"name": "c", "image": "mirror.example/4711", "command": ["/bin/k8s-rdma-shared-dp"]}],
        affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}},
    )
    ready.apply(*plugin(namespace, nodeSelector={"pool": "gpu-1"}), *mirrored)
    result = ask(ready)
    assert rows(result) == [
        ("DaemonSet", namespace, "mirrored", "gpu-2"),
        ("DaemonSet", namespace, "rdma-shared-dp-ds", "gpu-1"),
    ]
    assert status(result) == dict.fromkeys(NODES, "drift")
    assert (
        f"RDMA mode exclusive on gpu-1, gpu-2: DaemonSet {namespace}/rdma-shared-dp-ds is the shared RDMA device plugin, "
        "which does not start in mode exclusive (node gpu-1). Delete it, or keep it off the node by its nodeSelector"
    ) in result["msg"]
    assert rows(ask(ready, nodes=["gpu-2"])) == [("DaemonSet", namespace, "mirrored", "gpu-2")]
    assert ask(ready, "shared")["conflicts"] == []


def test_the_policies_of_the_network_operator(ready: Cluster, namespace: str) -> None:
    shared = {"config": json.dumps({"configList": [{"resourceName": "hca", "resourcePrefix": "nvidia.com"}]})}
    api, spec = "mellanox.com/v1alpha1", {"rdmaSharedDevicePlugin": shared}
    ready.apply(
        resource(api, "NicClusterPolicy", "nic-cluster-policy", spec=spec),
        resource(api, "NicNodePolicy", "two", spec={**spec, "nodeSelector": {"pool": "gpu-2"}}),
        # The resource has the name that only the policy knows.
        pod(namespace, "holder", resources=["nvidia.com/hca"]),
        pod(namespace, "gpu", resources=["nvidia.com/gpu"]),
    )
    # Without the label of the adapters' vendor the operator puts no plugin there.
    assert rows(ask(ready)) == [("Pod", namespace, "holder", "gpu-1")]
    for name in NODES:
        ready.kubectl("label", "node", name, *(f"{key}={value}" for key, value in NIC.items()))
    try:
        policy = ready.json("get", "nicclusterpolicies", "nic-cluster-policy")["metadata"]
        owned = plugin(namespace)
        owner = {"apiVersion": api, "kind": "NicClusterPolicy", "name": policy["name"]}
        owned[1]["metadata"]["ownerReferences"] = [{**owner, "uid": policy["uid"], "controller": True}]
        ready.apply(*owned)
        result = ask(ready)
        # The DaemonSet goes with the policy that makes it.
        assert rows(result) == [
            ("NicClusterPolicy", None, "nic-cluster-policy", "gpu-1"),
            ("NicClusterPolicy", None, "nic-cluster-policy", "gpu-2"),
            ("NicNodePolicy", None, "two", "gpu-2"),
            ("Pod", namespace, "holder", "gpu-1"),
        ]
        assert "NicClusterPolicy nic-cluster-policy runs the shared RDMA device plugin here" in result["msg"]
        assert "(node gpu-1, gpu-2). Remove rdmaSharedDevicePlugin from its spec" in result["msg"]
        # Who may not see the policy is told of it by the DaemonSet.
        rights = "--resource=nodes,pods,daemonsets.apps,network-attachment-definitions.k8s.cni.cncf.io"
        ready.kubectl("create", "clusterrole", "partly", "--verb=list", rights)
        ready.bind("clusterrolebinding", "partly", "list", "pods", "--clusterrole=partly")
        partly = ask(ready, kubeconfig=ready.user("partly"))
        assert ("DaemonSet", namespace, "rdma-shared-dp-ds", "gpu-2") in rows(partly)
        advice = "NicClusterPolicy nic-cluster-policy creates it: configure it to run no shared plugin here"
        assert advice in partly["msg"]
        assert "Reading the ConfigMap" in partly["msg"]
    finally:
        for name in NODES:
            ready.kubectl("label", "node", name, *(f"{key}-" for key in NIC))


def test_shares_that_a_node_offers(ready: Cluster, namespace: str) -> None:
    def patch(kind: str, change: Json) -> None:
        argv = ["node", "gpu-2", "--subresource=status", f"--type={kind}", "-p", json.dumps(change)]
        ready.kubectl("patch", *argv)

    def offer(count: str) -> None:
        resources = {SHARE: count, "nvidia.com/gpu": "8"}
        patch("merge", {"status": {"allocatable": resources, "capacity": resources}})

    offer("1k")
    try:
        result = ask(ready)
        assert rows(result) == [("Node", None, "gpu-2", "gpu-2")]
        assert of(result, "gpu-2") == [f"offers shares of RDMA devices ({SHARE}: 1k)"]
        # With a plugin that is known, the node's offer goes with it.
        ready.apply(*plugin(namespace))
        assert {row[0] for row in rows(ask(ready))} == {"DaemonSet"}
        remove(ready, "daemonsets")
        offer("0")
        assert ask(ready)["conflicts"] == []
    finally:
        patch("json", [{"op": "remove", "path": "/status/allocatable"}])


def test_pods_that_need_shared_mode(ready: Cluster, namespace: str) -> None:
    devices = [{"name": "ib", "hostPath": {"path": "/dev/infiniband/"}}]
    whole = {"resourceList": [{"resourceName": "rails", "resourcePrefix": "rdma", "selectors": [{"isRdma": True}]}]}
    spec = {"containers": [{"name": "c", "image": "ghcr.io/k8snetworkplumbingwg/sriov-network-device-plugin:v3.9.0"}]}
    sriov = plugin(namespace, "sriov-device-plugin", **spec)
    sriov[0]["data"] = {"config.json": json.dumps(whole)}
    all_of_dev = [{"name": "d", "hostPath": {"path": "/dev"}}]
    as_json = f'[{{"name": "macvlan", "namespace": "{namespace}"}}]'
    ready.apply(
        *sriov,
        attachment(namespace, "macvlan", {"type": "macvlan", "master": "eth1"}, {"type": "tuning"}),
        attachment(namespace, "rail", {"type": "host-device", "device": "eth2"}, {"type": "rdma"}),
        pod(namespace, "share", resources=[SHARE], networks="macvlan"),
        pod(namespace, "whole", resources=["rdma/rails"], networks="rail, macvlan"),
        pod(namespace, "left-behind", resources=["rdma/rails"], networks=as_json),
        pod(namespace, "storage", networks="macvlan"),
        pod(namespace, "host", node="gpu-2", resources=["rdma/rails"], hostNetwork=True),
        pod(namespace, "mount", node="gpu-2", volumes=devices),
        pod(namespace, "host-mount", node="gpu-2", hostNetwork=True, volumes=devices),
        pod(namespace, "all-of-dev", node="gpu-2", hostNetwork=True, volumes=all_of_dev),
        pod(namespace, "over", node="gpu-2", resources=[SHARE]),
    )
    ended = '{"status": {"phase": "Succeeded"}}'
    ready.kubectl("patch", "pod", "over", "-n", namespace, "--subresource=status", "-p", ended)
    result = ask(ready)
    assert of(result, "share") == [
        f"holds {SHARE}, a share of an RDMA device, which mode exclusive does not have",
        f"holds {SHARE} and is attached by {namespace}/macvlan (macvlan or ipvlan), which cannot move the RDMA device",
    ]
    assert len(of(result, "left-behind")) == 1
    assert of(result, "host") == [
        "is on the host's network and holds rdma/rails: it loses every device that is given to another pod"
    ]
    assert of(result, "mount")[0].startswith("mounts /dev/infiniband, and in mode exclusive sees no device")
    assert of(result, "host-mount")[0].startswith("is on the host's network and holds /dev/infiniband: ")
    names = {row["name"] for row in result["conflicts"]}
    assert names == {"share", "left-behind", "host", "mount", "host-mount"}
    assert result["unknown"] == []
    assert all(row["remedy"].startswith("Delete it, ") for row in result["conflicts"])
    # And the other way round: only what moves its device.
    result = ask(ready, "shared")
    assert of(result, "whole") == [
        f"is attached by {namespace}/rail, which moves the RDMA device and fails in mode shared"
    ]
    assert len(result["conflicts"]) == 1


def test_attachments_that_cannot_be_read(ready: Cluster, namespace: str) -> None:
    broken = attachment(namespace, "broken")
    broken["spec"]["config"] = "{type: macvlan}"
    ready.apply(
        broken,
        pod(namespace, "one", resources=["rdma/x"], networks="broken"),
        pod(namespace, "two", node="gpu-2", resources=["rdma/x"], networks="[nonsense"),
        pod(namespace, "no-rdma", networks="broken"),
    )
    result = ask(ready)
    assert [gap["node"] for gap in result["unknown"]] == NODES
    unread = f"the NetworkAttachmentDefinition {namespace}/broken of Pod {namespace}/one cannot be read: invalid JSON"
    assert unread in result["msg"]
    assert f"the networks of Pod {namespace}/two cannot be read: [nonsense" in result["msg"]
    result = ask(ready, "shared")
    assert [gap["node"] for gap in result["unknown"]] == ["gpu-1", "gpu-1", "gpu-2"]
    assert status(result) == dict.fromkeys(NODES, "unknown")


def test_sriov_network_operator_as_the_master_of_the_mode(ready: Cluster, namespace: str) -> None:
    first = {"matchExpressions": [{"key": "pool", "operator": "In", "values": ["gpu-1"]}]}
    offload = {"ovsHardwareOffloadConfig": {"name": "x"}}
    ready.apply(
        pool(namespace, "first", rdmaMode="shared", nodeSelector=first),
        pool(namespace, "silent"),
        pool(namespace, "offload", rdmaMode="shared", **offload),
    )
    result = ask(ready)
    assert rows(result) == [("SriovNetworkPoolConfig", namespace, "first", "gpu-1")]
    assert "makes sriov-network-operator set this node's mode to shared, and reboot it for that" in result["msg"]
    assert "Remove spec.rdmaMode from it, and the operator removes what it wrote" in result["msg"]
    assert "to shared too: it writes modprobe.d and reboots on its own" in ask(ready, "shared")["msg"]
    ready.apply(pool(namespace, "everywhere", rdmaMode="exclusive"))
    assert len(ask(ready, "shared", on_conflict="warn")["warnings"]) == 2
    assert status(ask(ready, nodes=["gpu-2"])) == {"gpu-2": "drift"}


def ansible(root: Path, tasks: list[Json], hosts: Json, *arguments: str, **variables: Json) -> site.Run:
    """Run tasks on hosts that are all this machine, by ansible-playbook, as a user does."""
    inventory = {"all": {"hosts": {"api": {}, **hosts}, "vars": site.HERE}}
    argv = site.book(root, {"hosts": "all:!api", "tasks": tasks}, inventory=inventory, variables=variables)
    return site.ansible_playbook(*argv, *arguments, cwd=root, limit=600)


def test_as_ansible_runs_it(ready: Cluster, namespace: str, tmp_path: Path) -> None:
    """A failure has its message and what was found; a warning is one; check mode does the same."""
    ready.apply(pod(namespace, "share", resources=[SHARE]))
    tasks = []
    for name, options, check in (
        ("fail", {}, False),
        ("fail in check mode", {}, True),
        ("warn", {"on_conflict": "warn"}, False),
        ("free", {"nodes": ["gpu-2"]}, True),
    ):
        arguments = {"kubeconfig": str(ready.kubeconfig), "nodes": NODES, "netns_mode": "exclusive", **options}
        entry = {"name": name, "rdmaops.gpu_fabric.rdma_mode_conflict_info": arguments, "check_mode": check}
        tasks.append({**entry, **({"ignore_errors": True} if name.startswith("fail") else {})})
    run = ansible(tmp_path, tasks, {"node": {}})
    assert run.rc == 0, run.output
    for name in ("fail", "fail in check mode"):
        result = run.result(name)
        assert result["failed"]
        assert not result["changed"]
        assert f"Pod {namespace}/share holds {SHARE}" in result["msg"]
        assert rows(result) == [("Pod", namespace, "share", "gpu-1")]
        assert status(result) == {"gpu-1": "drift", "gpu-2": "in_sync"}
    assert [text for text in run.result("warn")["warnings"] if f"Pod {namespace}/share holds" in text]
    assert run.result("free")["conflicts"] == []


QUESTION = "Check the cluster for conflicts with the mode"


def node(
    name: str, root: Path, *, due: bool = True, kubelet: bool = True, settled: bool = False, **variables: Json
) -> Json:
    """Return a host as it is when its mode was compared; one that is settled is not asked about, whatever was before."""
    directory = root / name
    if kubelet:
        directory.mkdir(exist_ok=True)
    compared = {"actions": ["Write a file"] if due else [], "reboot_required": False}
    return {
        "gpu_node_name": name,
        "gpu_node_api_host": "api",
        "__gpu_node_host": {"differs": [] if settled else ["owned_files: Write a file"]},
        "__gpu_node_mode_check": compared,
        "directory": str(directory),
        **variables,
    }


def asked(run: site.Run) -> list[tuple[str, list[str]]]:
    """Return mode and nodes of each question to the cluster."""
    for name, _host, result in run.tasks:
        if name.endswith(QUESTION) and "results" in result:
            queries = [query["invocation"]["module_args"] for query in result["results"] if "invocation" in query]
            return [(query["netns_mode"], sorted(query["nodes"])) for query in queries]
    return []


@pytest.mark.long
def test_the_role_asks_before_the_mode_is_set(ready: Cluster, namespace: str, tmp_path: Path) -> None:
    ready.apply(pod(namespace, "share", resources=[SHARE]))
    role = {"name": "rdmaops.gpu_fabric.gpu_node", "tasks_from": "conflicts"}
    tasks = [{"name": "Role", "ansible.builtin.include_role": role, "when": "__gpu_node_host.differs | length > 0"}]
    extra = {"gpu_node_kubeconfig": str(ready.kubeconfig), "__gpu_node_device_plugins": "{{ directory }}"}
    asked_earlier = {"name": "gpu-6", "wish": "exclusive fail", "asked": True}
    hosts = {
        "first": node("gpu-1", tmp_path, gpu_node_on_conflict="warn"),
        # The name in the inventory is another one than the cluster's.
        "second": node("gpu-2", tmp_path, gpu_node_netns_mode="shared"),
        "no-node-yet": node("gpu-3", tmp_path, kubelet=False),
        "stays": node("gpu-4", tmp_path, due=False),
        "settled": node("gpu-5", tmp_path, settled=True),
        "asked-earlier": node("gpu-6", tmp_path, settled=True, __gpu_node_conflict_query=asked_earlier),
    }
    run = ansible(tmp_path, tasks, hosts, **extra)
    assert (run.rc, asked(run)) == (0, [("exclusive", ["gpu-1"]), ("shared", ["gpu-2"])]), run.output
    warned = f"RDMA mode exclusive: Pod {namespace}/share holds {SHARE}"
    assert [text for text in run.result(QUESTION)["warnings"] if text.startswith(warned)]
    # What stands against it on one node stops all of them, in check mode too. Nothing in a cluster is taken over.
    hosts["first"]["gpu_node_on_conflict"] = "take_over"
    run = ansible(tmp_path, tasks, {name: hosts[name] for name in ("first", "stays")}, "--check", **extra)
    assert run.rc != 0
    messages = [result["msg"] for result in run.result(QUESTION)["results"] if result.get("failed")]
    assert [f"Pod {namespace}/share holds {SHARE}" in message for message in messages] == [True]
    assert {host for host, counted in run.stats.items() if counted["changed"]} == set()
    # If nothing is due, no request is made: the kubeconfig is not even read.
    run = ansible(tmp_path, tasks, {"stays": hosts["stays"]}, **{**extra, "gpu_node_kubeconfig": "/nonexistent"})
    assert (run.rc, asked(run)) == (0, []), run.output
