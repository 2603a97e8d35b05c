# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import types
import typing as t

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._gpu_operator import stack
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._gpu_operator.cluster import (
    DRIVER,
    GPU_CLUSTER,
    POLICY,
)
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._gpu_operator.model import OperatorError
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._helm import chart as helm_chart
from ansible_collections.rdmaops.gpu_fabric.tests.support import charts

Json = t.Dict[str, t.Any]
HELD = {"namespace": "ml", "name": "train-0", "node": "gpu-1", "holds": "nvidia.com/gpu: 8"}


def document(kind: tuple[str, str], name: str, release: str = "") -> Json:
    marks = {"meta.helm.sh/release-name": release, "meta.helm.sh/release-namespace": "n"} if release else {}
    return {"apiVersion": kind[0], "kind": kind[1], "metadata": {"name": name, "annotations": marks}}


POLICY_OBJECT = document(POLICY, "cluster-policy", "r")
CLUSTER_OBJECT = document(GPU_CLUSTER, "gpu-cluster", "r")
DRIVER_OBJECT = document(DRIVER, "default", "r")


class Cluster:
    """What the API server serves and has."""

    def __init__(self, *live: Json, version: str = "v1.36.0", dra: bool = True, pods: t.Sequence[Json] = ()) -> None:
        self.live = live
        self.version = version
        self.kinds = {("resource.k8s.io/v1", "DeviceClass"): None} if dra else {}
        self.pods = pods

    def all_of(self, kind: tuple[str, str]) -> list[Json]:
        return [each for each in self.live if (each["apiVersion"], each["kind"]) == kind]

    def gpu_pods(self) -> t.Sequence[Json]:
        return self.pods


@pytest.fixture(scope="module")
def chart(tmp_path_factory: pytest.TempPathFactory) -> helm_chart.Chart:
    return helm_chart.read(str(charts.chart(tmp_path_factory.mktemp("chart"), "v25.10.0", "v26.7.0")))


def check(
    chart: helm_chart.Chart, objects: list[Json], cluster: Cluster, *, released: bool = True, **values: t.Any
) -> OperatorError | None:
    release = types.SimpleNamespace(name="r", namespace="n") if released else None
    state = types.SimpleNamespace(chart=chart, values=values, release=release, name="r", namespace="n")
    try:
        stack.check(t.cast("t.Any", state), objects, t.cast("t.Any", cluster))
    except OperatorError as exc:
        return exc
    return None


def refused(*arguments: t.Any, **more: t.Any) -> OperatorError:
    error = check(*arguments, **more)
    assert error is not None
    return error


def test_each_stack_alone_is_accepted(chart: helm_chart.Chart) -> None:
    for live in ([], [POLICY_OBJECT]):
        assert check(chart, [POLICY_OBJECT], Cluster(*live, dra=False)) is None
    for live in ([], [CLUSTER_OBJECT, DRIVER_OBJECT]):
        assert check(chart, [CLUSTER_OBJECT, DRIVER_OBJECT], Cluster(*live)) is None
    assert check(chart, [], Cluster(POLICY_OBJECT)) is None


def test_both_in_the_values(chart: helm_chart.Chart) -> None:
    assert str(refused(chart, [POLICY_OBJECT, CLUSTER_OBJECT, DRIVER_OBJECT], Cluster())) == (
        "The values would create both a ClusterPolicy and a GPUCluster, and the operator supports only one of them in a "
        "cluster. Nothing was done. Set clusterPolicy.deployCR=true and gpuCluster.deployCR=false, or "
        "clusterPolicy.deployCR=false and gpuCluster.deployCR=true"
    )


@pytest.mark.parametrize("desired", [[POLICY_OBJECT], [CLUSTER_OBJECT], []], ids=["policy", "cluster", "none"])
def test_both_in_the_cluster(chart: helm_chart.Chart, desired: list[Json]) -> None:
    text = str(refused(chart, desired, Cluster(POLICY_OBJECT, CLUSTER_OBJECT)))
    assert text.startswith("The cluster has both the ClusterPolicy cluster-policy and the GPUCluster gpu-cluster, and ")
    assert "Delete the one that is not wanted while the operator runs" in text


def test_a_move_to_a_gpu_cluster_is_a_report(chart: helm_chart.Chart) -> None:
    error = refused(chart, [CLUSTER_OBJECT, DRIVER_OBJECT], Cluster(POLICY_OBJECT, pods=[HELD]))
    assert str(error).startswith(
        "The cluster has the ClusterPolicy cluster-policy, and the chart gpu-operator v26.7.0 with these values would "
        "create a GPUCluster: the operator supports only one of them in a cluster, and NVIDIA does not support a move in "
        "place. Nothing was done. To keep the ClusterPolicy, set clusterPolicy.deployCR=true and "
        "gpuCluster.deployCR=false. A move takes: 1. node administrator: check that"
    )
    driver, other, workloads, release, install = error.result["move"]
    assert driver.startswith("node administrator: check that every GPU node has NVIDIA's driver 580 or newer and a ")
    assert other.endswith("by a chart of its own (dra-driver-nvidia-gpu, nvidia-dra-driver-gpu)")
    assert workloads == (
        "owners of the workloads: delete the pods that use GPUs (ml/train-0 on gpu-1 (nvidia.com/gpu: 8)), and request a "
        "ResourceClaim for the DeviceClass gpu.nvidia.com instead of nvidia.com/gpu"
    )
    assert release.startswith("cluster administrator: uninstall the release n/r with state=absent and disrupt=true")
    assert install.startswith("cluster administrator: install the chart with clusterPolicy.deployCR=false and ")
    assert "driver.nvidiaDriverCRD.enabled=true" in install


@pytest.mark.parametrize(
    ("cluster", "text"),
    [
        ({"version": "v1.34.1+k3s1"}, "upgrade Kubernetes from v1.34.1+k3s1 to v1.34.2 or newer"),
        ({"version": "v1.34.2", "dra": False}, "enable the API resource.k8s.io, which has no DeviceClass here"),
    ],
)
def test_a_move_names_what_the_cluster_lacks(chart: helm_chart.Chart, cluster: Json, text: str) -> None:
    error = refused(chart, [CLUSTER_OBJECT], Cluster(POLICY_OBJECT, **cluster))
    assert error.result["move"][0] == "cluster administrator: " + text


def test_a_move_back_and_an_object_of_others(chart: helm_chart.Chart) -> None:
    foreign = document(GPU_CLUSTER, "gpu-cluster")
    error = refused(chart, [POLICY_OBJECT], Cluster(foreign, dra=False), released=False)
    assert error.result["move"] == [
        "owners of the workloads: delete the pods that use GPUs (there is none now), and "
        "request nvidia.com/gpu instead of a ResourceClaim; ResourceClaims for GPUs "
        "have to be deleted",
        "cluster administrator: delete the GPUCluster gpu-cluster, which is not of this release",
        "cluster administrator: install the chart with clusterPolicy.deployCR=true and gpuCluster.deployCR=false",
    ]


def test_a_gpu_cluster_needs_device_classes(chart: helm_chart.Chart) -> None:
    text = str(refused(chart, [CLUSTER_OBJECT, DRIVER_OBJECT], Cluster(version="v1.33.4", dra=False)))
    start = "Creating the GPUCluster of the chart gpu-operator v26.7.0: the API server (Kubernetes v1.33.4) has no "
    assert text.startswith(start + "DeviceClass of resource.k8s.io")
    assert "Upgrade Kubernetes to v1.34.2 or newer, or set clusterPolicy.deployCR=true" in text


def test_a_gpu_cluster_needs_a_driver(chart: helm_chart.Chart) -> None:
    text = str(refused(chart, [CLUSTER_OBJECT], Cluster()))
    assert "a GPUCluster does not install the driver, and there is no NVIDIADriver that does. Nothing was done" in text
    assert (
        "Set driver.nvidiaDriverCRD.enabled to true in values, or, if the hosts have the driver, driver_enabled" in text
    )
    own = {"driver": {"nvidiaDriverCRD": {"enabled": True, "deployDefaultCR": False}}}
    assert check(chart, [CLUSTER_OBJECT], Cluster(), **own) is None
    assert check(chart, [CLUSTER_OBJECT], Cluster(), driver={"enabled": False}) is None
    assert check(chart, [CLUSTER_OBJECT], Cluster(document(DRIVER, "by-hand"))) is None
