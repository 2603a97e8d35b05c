# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is a device plugin for RDMA, what is meant for a node, and what a message tells; the rest: tests/integration."""

from __future__ import annotations

import json
import typing as t

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._rdma_mode_conflicts import plugins
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._rdma_mode_conflicts.cluster import conflict_messages
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._rdma_mode_conflicts.compare import (
    ClusterSnapshot,
    Gap,
    conflicts,
    host_devices,
    is_over,
    monitors,
    moves_device,
)
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._rdma_mode_conflicts.monitors import monitor_of

Json = t.Any
MOUNT = {"name": "config", "mountPath": "/k8s-rdma-shared-dev-plugin"}


def spec(**container: Json) -> Json:
    return {"containers": [{"name": "c", "image": "mirror.example:5000/a/b:1", **container}]}


# container, is it the shared plugin, is it the one for whole devices
MARKS = [
    ({"image": "ghcr.io/mellanox/k8s-rdma-shared-dev-plugin"}, True, False),
    ({"image": "nvcr.io/nvidia/mellanox/k8s-rdma-shared-dev-plugin:network-operator-v25.7.0"}, True, False),
    ({"image": "mirror.example:5000/k8s-rdma-shared-dev-plugin@sha256:0"}, True, False),
    ({"command": ["/bin/k8s-rdma-shared-dp"]}, True, False),
    ({"volumeMounts": [MOUNT]}, True, False),
    ({"image": "ghcr.io/k8snetworkplumbingwg/sriov-network-device-plugin:v3.9.0"}, False, True),
    ({"volumeMounts": [{"name": "config", "mountPath": "/etc/pcidp/"}]}, False, True),
    # The name of a registry or of a path within it is no image's.
    ({"image": "k8s-rdma-shared-dev-plugin.example/other"}, False, False),
    ({}, False, False),
]


@pytest.mark.parametrize(("container", "shared", "whole"), MARKS)
def test_which_plugin(container: Json, shared: bool, whole: bool) -> None:
    pod_spec = spec(**container)
    assert (plugins.is_shared_plugin(pod_spec), plugins.is_whole_plugin(pod_spec)) == (shared, whole)


# arguments, prefix
PREFIXES = [
    ([], "intel.com"),
    (["--log-level=10", "--resource-prefix=openshift.io", "--config-file=/etc/pcidp/x"], "openshift.io"),
    (["-resource-prefix", "nvidia.com"], "nvidia.com"),
    (["--resource-prefix"], "intel.com"),
]


@pytest.mark.parametrize(("args", "expected"), PREFIXES)
def test_prefix(args: list[str], expected: str) -> None:
    assert plugins.prefix_of(spec(args=args)) == expected


def test_names_of_shares() -> None:
    rows = [{"resourceName": "a"}, {"resourceName": "b", "resourcePrefix": "nvidia.com"}, "nonsense"]
    assert plugins.shares_in(json.dumps({"configList": rows})) == {"rdma/a", "nvidia.com/b"}
    for text in ("", "[]", '{"configList": {}}', "{", None):
        assert plugins.shares_in(text) == set()


def test_names_of_whole_devices() -> None:
    rows = [
        {"resourceName": "list", "selectors": [{"vendors": ["15b3"]}, {"isRdma": True}]},
        {"resourceName": "object", "resourcePrefix": "rdma", "selectors": {"isRdma": True}},
        {"resourceName": "own", "isRdma": True},
        {"resourceName": "plain", "selectors": [{"isRdma": False}]},
        {"resourceName": "none"},
    ]
    text = json.dumps({"resourceList": rows})
    assert plugins.whole_in(text, "x.io") == {"x.io/list", "rdma/object", "x.io/own"}
    names = plugins.Names({"nvidia.com/share"}, plugins.whole_in(text))
    answers = {
        name: names.is_shared(name) for name in ("rdma/object", "rdma/other", "nvidia.com/share", "nvidia.com/gpu")
    }
    assert answers == {"rdma/object": False, "rdma/other": True, "nvidia.com/share": True, "nvidia.com/gpu": False}


def test_resources_of_a_pod() -> None:
    pod_spec = {
        "containers": [{"resources": {"limits": {"rdma/a": "1", "cpu": "2", "rdma/none": "0"}}}, {}],
        "initContainers": [{"resources": {"limits": {"x.io/b": 2}}}],
    }
    assert plugins.pod_resources(pod_spec) == {"rdma/a", "x.io/b"}


NODE = {"metadata": {"name": "gpu-1", "labels": {"pool": "a", "gpus": "8"}}}
# what is asked of the labels, does it hold
RULES = [
    ({"key": "pool", "operator": "In", "values": ["a", "b"]}, True),
    ({"key": "pool", "operator": "In", "values": ["b"]}, False),
    ({"key": "none", "operator": "In", "values": ["a"]}, False),
    ({"key": "pool", "operator": "NotIn", "values": ["a"]}, False),
    ({"key": "none", "operator": "NotIn", "values": ["a"]}, True),
    ({"key": "pool", "operator": "Exists"}, True),
    ({"key": "none", "operator": "Exists"}, False),
    ({"key": "none", "operator": "DoesNotExist"}, True),
    ({"key": "pool", "operator": "DoesNotExist"}, False),
    ({"key": "gpus", "operator": "Gt", "values": ["4"]}, True),
    ({"key": "gpus", "operator": "Gt", "values": ["8"]}, False),
    ({"key": "gpus", "operator": "Lt", "values": ["9"]}, True),
    ({"key": "none", "operator": "Lt", "values": ["9"]}, False),
    # Of a later Kubernetes: it may be meant.
    ({"key": "pool", "operator": "Resembles", "values": ["z"]}, True),
]


@pytest.mark.parametrize(("rule", "expected"), RULES)
def test_rules_of_selectors(rule: Json, expected: bool) -> None:
    terms = [{"matchExpressions": [rule]}]
    affinity = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    assert plugins.matches_node(NODE, {"nodeAffinity": affinity}) is expected
    assert plugins.matches_node(NODE, {"labelSelector": {"matchExpressions": [rule]}}) is expected


def test_what_is_meant_for_a_node() -> None:
    assert plugins.matches_node(NODE, {"nodeSelector": None, "nodeAffinity": None, "labelSelector": None})
    assert plugins.matches_node({"metadata": {"name": "bare"}}, {"labelSelector": {}})
    assert plugins.matches_node(NODE, {"nodeSelector": {"pool": "a"}, "labelSelector": {"matchLabels": {"gpus": "8"}}})
    assert not plugins.matches_node(NODE, {"nodeSelector": {"pool": "a", "gpus": "4"}})
    # Terms are alternatives; what is only preferred keeps nothing away.
    names = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]} for name in ("gpu-1", "x")]
    key = "requiredDuringSchedulingIgnoredDuringExecution"
    assert plugins.matches_node(NODE, {"nodeAffinity": {key: {"nodeSelectorTerms": names}}})
    assert not plugins.matches_node(NODE, {"nodeAffinity": {key: {"nodeSelectorTerms": names[1:]}}})
    assert plugins.matches_node(NODE, {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": names[1:]}})


# plugins of an attachment, does it move the device
CHAINS = [
    ([{"type": "host-device"}, {"type": "rdma"}], True),
    ([{"type": "ib-sriov", "rdmaIsolation": True}], True),
    ([{"type": "ib-sriov", "rdmaIsolation": False}], False),
    ([{"type": "sriov", "rdmaIsolation": True}], False),
    ([{"type": "macvlan"}], False),
]


@pytest.mark.parametrize(("chain", "expected"), CHAINS)
def test_attachments_that_move_the_device(chain: Json, expected: bool) -> None:
    assert moves_device({"plugins": chain}) is expected
    if len(chain) == 1:
        assert moves_device(chain[0]) is expected


# paths of the host that are mounted, is it the RDMA devices
PATHS = [
    (["/dev/infiniband"], True),
    (["/tmp", "/dev/infiniband/"], True),
    (["/dev/infiniband/uverbs0"], True),
    (["/dev/infiniband-old"], False),
    # A device plugin mounts all of it, and opens nothing.
    (["/dev"], False),
    ([], False),
]


@pytest.mark.parametrize(("paths", "expected"), PATHS)
def test_mounts(paths: list[str], expected: bool) -> None:
    volumes = [{"name": str(number), "hostPath": {"path": path}} for number, path in enumerate(paths)]
    assert host_devices({"spec": {"volumes": [*volumes, {"name": "x", "emptyDir": {}}]}}) is expected


def test_pods_that_are_over() -> None:
    answers = {phase: is_over({"status": {"phase": phase}}) for phase in ("Pending", "Running", "Succeeded", "Failed")}
    assert answers == {"Pending": False, "Running": False, "Succeeded": True, "Failed": True}
    assert not is_over({})


def row(kind: str = "Pod", namespace: str | None = "t", name: str = "p", node: str = "gpu-1") -> Json:
    return {"kind": kind, "namespace": namespace, "name": name, "node": node, "what": "is", "remedy": "End it"}


def test_a_message_tells_each_thing_once() -> None:
    rows = [row(), row(node="gpu-2"), row("Node", None, "gpu-2", "gpu-2")]
    gaps = [Gap(None, "no right."), Gap("gpu-1", "no right."), Gap("gpu-2", "nonsense")]
    assert conflict_messages(rows, gaps) == [
        "Pod t/p is (node gpu-1, gpu-2). End it",
        "Node gpu-2 is. End it",
        "Not known: no right",
        "Not known: nonsense",
    ]
    texts = conflict_messages([row(name=f"p{number}") for number in range(12)], [])
    assert len(texts) == 11
    assert texts[-1] == "2 more are in the result of the task"


# container, which monitor it is
MONITORS = [
    ({"image": "ghcr.io/nvidia/nvsentinel/nic-health-monitor:v1.2.0"}, "nic-health-monitor"),
    ({"image": "docker.io/leptonai/gpud:v0.6.0"}, "gpud"),
    ({"image": "quay.io/prometheus/node-exporter:v1.9.1", "args": ["--path.sysfs=/host/sys"]}, "node-exporter"),
    ({"image": "quay.io/prometheus/node-exporter:v1.9.1", "args": ["--no-collector.infiniband"]}, None),
    ({"image": "node-exporter", "args": ["--collector.disable-defaults", "--collector.cpu"]}, None),
    ({"image": "node-exporter", "args": ["--collector.disable-defaults", "--collector.infiniband"]}, "node-exporter"),
    ({"image": "registry.k8s.io/networking/dranet@sha256:0"}, "dranet"),
    ({"image": "registry.example/node-exporter/other:1"}, None),
]


@pytest.mark.parametrize(("container", "image"), MONITORS)
def test_which_monitor(container: Json, image: str | None) -> None:
    monitor = monitor_of(spec(**container))
    assert (monitor and monitor.image) == image


def cluster_with(*images: str) -> ClusterSnapshot:
    pods = [{"spec": {**spec(image=image), "nodeSelector": {"gpu": "yes"}}} for image in images]
    daemon_sets = [
        {
            "metadata": {"namespace": "monitoring", "name": pod["spec"]["containers"][0]["image"]},
            "spec": {"template": pod},
        }
        for pod in pods
    ]
    nodes = {
        name: {"metadata": {"name": name, "labels": {"gpu": gpu}}} for name, gpu in (("gpu-1", "yes"), ("cpu-1", "no"))
    }
    return ClusterSnapshot(nodes, [], daemon_sets, [], [], {}, plugins.Names(set(), set()), [])


def test_a_monitor_that_acts_conflicts_and_others_are_named() -> None:
    view = cluster_with("nic-health-monitor", "node-exporter", "other")
    rows, unknown = conflicts(view, "exclusive")
    assert [(row["node"], row["kind"], row["name"]) for row in rows] == [("gpu-1", "DaemonSet", "nic-health-monitor")]
    assert "nicExclusionRegex" in rows[0]["remedy"]
    assert [(row["node"], row["name"]) for row in monitors(view, "exclusive")] == [("gpu-1", "node-exporter")]
    assert unknown == []
    assert (conflicts(view, "shared"), monitors(view, "shared")) == (([], []), [])


def test_a_monitor_that_no_daemon_set_runs_is_named_by_its_pod() -> None:
    def running(name: str, image: str, phase: str = "Running", **meta: Json) -> Json:
        where = {"namespace": "monitoring", "name": name, **meta}
        return {"metadata": where, "spec": {**spec(image=image), "nodeName": "gpu-1"}, "status": {"phase": phase}}

    pods = [
        running("alone", "nic-health-monitor"),
        running("shows", "gpud"),
        running("over", "nic-health-monitor", "Succeeded"),
        running("counted", "nic-health-monitor", ownerReferences=[{"kind": "DaemonSet", "name": "x"}]),
    ]
    view = cluster_with()._replace(pods=pods)
    rows, _unknown = conflicts(view, "exclusive")
    assert [(row["node"], row["kind"], row["name"]) for row in rows] == [("gpu-1", "Pod", "alone")]
    assert [(row["node"], row["kind"], row["name"]) for row in monitors(view, "exclusive")] == [
        ("gpu-1", "Pod", "shows")
    ]
