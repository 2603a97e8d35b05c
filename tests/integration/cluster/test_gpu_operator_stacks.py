# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Module gpu_operator with the two stacks of the chart v26.7.0, on a real API server without nodes."""

from __future__ import annotations

import json
import re
import threading
import typing as t

import pytest

from ansible_collections.rdmaops.gpu_fabric.tests.support.cluster import Cluster
from ansible_collections.rdmaops.gpu_fabric.tests.support.gpu_operator import (
    COMPUTE_DOMAINS,
    DRIVERS,
    GPU_CLUSTERS,
    NAMESPACE,
    POLICY,
    Place,
)
from ansible_collections.rdmaops.gpu_fabric.tests.support.objects import manifest
from ansible_collections.rdmaops.gpu_fabric.tests.support.waiting import wait_for

HOOK = "gpu-operator-cleanup-gpucluster"
DRA = {
    "clusterPolicy": {"deployCR": False},
    "gpuCluster": {"deployCR": True},
    "driver": {"nvidiaDriverCRD": {"enabled": True}},
}
OBJECT = (GPU_CLUSTERS, "gpu-cluster")

pytestmark = pytest.mark.long


@pytest.fixture
def place(own_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[Place]:
    place = Place(own_cluster, tmp_path_factory.mktemp("charts"))
    place.wipe()
    yield place
    place.wipe()


def options(place: Place, **more: t.Any) -> dict[str, t.Any]:
    return {"chart": str(place.dra), "create_namespace": True, **more}


def end_hook(place: Place) -> None:
    """Let the pod of the hook succeed, as a kubelet would report it; the Job controller ends the Job then."""
    query = ("get", "pod", "-n", NAMESPACE, "-l", f"batch.kubernetes.io/job-name={HOOK}")
    wait_for(lambda: place.plane.json(*query)["items"])
    (pod,) = place.plane.json(*query)["items"]
    patch = json.dumps({"status": {"phase": "Succeeded"}})
    place.plane.kubectl("patch", "pod", "-n", NAMESPACE, pod["metadata"]["name"], "-p", patch, "--subresource=status")


def test_the_service_monitor_is_on_and_the_api_server_does_not_know_it(place: Place) -> None:
    """The release is not refused: without that CRD, the operator v26.7.0 skips it (NVIDIA/gpu-operator#2262)."""
    assert not place.plane.kubectl("get", "crd", "servicemonitors.monitoring.coreos.com", "--ignore-not-found")
    assert place.run(**options(place))["unknown_values"] == []
    monitor = {"enabled": True, "interval": "15s", "additionalLabels": {}}
    assert place.policy()["spec"]["dcgmExporter"]["serviceMonitor"] == monitor
    assert not place.run(**options(place))["changed"]
    off = options(place, dcgm_exporter_service_monitor=False, dcgm_exporter_host_network=True)
    assert place.run(**off)["changed"]
    exporter = place.policy()["spec"]["dcgmExporter"]
    assert (exporter["serviceMonitor"], exporter["hostNetwork"]) == ({**monitor, "enabled": False}, True)
    assert not place.run(**off)["changed"]


def test_a_gpu_cluster_from_install_to_uninstall(place: Place) -> None:
    planned = place.run(check=True, **options(place, values=DRA))
    done = place.run(**options(place, values=DRA))
    assert done["actions"] == planned["actions"]
    assert done["actions"][-1] == f"Install the helm release {NAMESPACE}/gpu-operator of gpu-operator v26.7.0"
    assert not place.plane.json("get", POLICY)["items"]
    spec = place.plane.json("get", *OBJECT)["spec"]
    assert spec["draDriver"]["computeDomains"] == {"enabled": True}

    text = place.refused(**options(place, values=DRA, wait=True, wait_timeout=3))
    assert "Waiting for the GPUCluster gpu-cluster to be ready: after 3 s its state is not set" in text
    assert "; the NVIDIADriver default is without a state" in text
    place.report("notReady", "Waiting for operand pods to be ready", of=OBJECT)
    text = place.refused(**options(place, values=DRA, wait=True, wait_timeout=3))
    assert "its state is notReady, and the operator says: OperandNotReady: Waiting for operand pods to be ready" in text
    place.report("ready", of=OBJECT)
    again = place.run(**options(place, values=DRA, wait=True))
    ready = {"name": "gpu-cluster", "state": "ready", "message": ""}
    assert (again["changed"], again["cluster_policy"], again["gpu_cluster"]) == (False, None, ready)
    assert (again["after"]["cluster_policy"], again["after"]["gpu_cluster"]) == (None, ready)

    ending = threading.Thread(target=end_hook, args=(place,))
    ending.start()
    gone = place.run(state="absent")
    ending.join()
    names = sorted((POLICY, COMPUTE_DOMAINS, GPU_CLUSTERS, "nodefeatures.nfd.k8s-sigs.io", DRIVERS))
    assert gone["leftovers"] == [f"CustomResourceDefinition {name}" for name in names]


def test_one_stack_and_never_two(place: Place) -> None:
    both = {**DRA, "clusterPolicy": {"deployCR": True}}
    text = place.refused(**options(place, values=both))
    assert "The values would create both a ClusterPolicy and a GPUCluster" in text
    assert not place.helm("list", "-A", "-q").stdout

    place.run(**options(place))
    for check in (True, False):
        result = place.result(place.start(check=check, **options(place, values=DRA)))
        assert result["failed"]
        assert not result.get("changed")
        assert "The cluster has the ClusterPolicy cluster-policy, and the chart gpu-operator v26.7.0" in result["msg"]
        assert "cluster administrator: uninstall the release gpu-operator/gpu-operator" in json.dumps(result["move"])
    assert place.policy()["metadata"]["name"] == "cluster-policy"
    assert not place.plane.json("get", GPU_CLUSTERS)["items"]

    place.plane.apply(manifest("nvidia.com/v1alpha1", "GPUCluster", "gpu-cluster", spec={"draDriver": {}}))
    text = place.refused(**options(place))
    assert "The cluster has both the ClusterPolicy cluster-policy and the GPUCluster gpu-cluster" in text


def claim_a_gpu(place: Place, namespace: str) -> None:
    """Create a pod with a ResourceClaim, allocated and reserved as by a scheduler, without a node."""
    requests = [{"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}]
    claims = [{"name": "gpu", "resourceClaimName": "a-gpu"}]
    container = {"name": "c", "image": "x", "resources": {"claims": [{"name": "gpu"}]}}
    spec = {"nodeName": "gpu-1", "containers": [container], "resourceClaims": claims}
    place.plane.apply(
        manifest("v1", "Node", "gpu-1"),
        manifest("resource.k8s.io/v1", "ResourceClaim", "a-gpu", namespace, spec={"devices": {"requests": requests}}),
        manifest("v1", "Pod", "train-0", namespace, spec=spec),
    )
    uid = place.plane.json("get", "pod", "train-0", "-n", namespace)["metadata"]["uid"]
    device = {"request": "gpu", "driver": "gpu.nvidia.com", "pool": "gpu-1", "device": "gpu-0"}
    status = {
        "allocation": {"devices": {"results": [device]}},
        "reservedFor": [{"resource": "pods", "name": "train-0", "uid": uid}],
    }
    patch = json.dumps({"status": status})
    place.plane.kubectl(
        "patch", "resourceclaim", "a-gpu", "-n", namespace, "--type=merge", "-p", patch, "--subresource=status"
    )


def test_a_pod_with_a_claim_keeps_its_gpu(place: Place) -> None:
    place.run(**options(place, values=DRA))
    claim_a_gpu(place, NAMESPACE)
    holder = f"{NAMESPACE}/train-0 on gpu-1 (ResourceClaim a-gpu)"
    try:
        for check in (True, False):
            text = place.refused(state="absent", check=check)
            assert f"takes the GPUs from the pods that use them: {holder}. Nothing was done" in text
        none = {"clusterPolicy": {"deployCR": False}, "driver": {"enabled": False}}
        text = place.refused(**options(place, values=none))
        assert "Changing GPUCluster gpu-cluster (deleted), NVIDIADriver default (deleted) takes the GPUs" in text
        assert holder in text
    finally:
        place.plane.kubectl("delete", "pod", "train-0", "-n", NAMESPACE, "--force", "--grace-period=0")
        place.plane.kubectl("delete", "resourceclaim", "a-gpu", "-n", NAMESPACE)
        place.plane.kubectl("delete", "node", "gpu-1")


@pytest.mark.parametrize("helm", ["helm4", pytest.param("helm3", marks=pytest.mark.long)])
def test_a_hook_that_no_node_accepts_is_named(place: Place, helm: str) -> None:
    place.run(**options(place, helm=helm))
    failed = place.result(place.start(state="absent", helm=helm, wait_timeout=10))
    assert failed["failed"]
    waits = rf"The pre-delete hook's Job {NAMESPACE}/{HOOK} waits: its pod {HOOK}-\w+ is not scheduled: "
    assert re.search(waits + "no nodes available to schedule pods$", failed["msg"]), failed["msg"]
