# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import types
import typing as t

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._gpu_operator import cluster


def pod_with(resources: dict[str, t.Any], labels: dict[str, str] | None = None, path: str = "") -> dict[str, t.Any]:
    volumes = [{"hostPath": {"path": path}}] if path else []
    return {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"resources": {"limits": resources}}], "volumes": volumes},
    }


# pod, what it holds
USES = [
    (pod_with({"nvidia.com/gpu": "8"}), "nvidia.com/gpu: 8"),
    (pod_with({"nvidia.com/mig-1g.10gb": 1}), "nvidia.com/mig-1g.10gb: 1"),
    (pod_with({"nvidia.com/gpu.shared": 1}), "nvidia.com/gpu.shared: 1"),
    (pod_with({"nvidia.com/gpu": "0"}), ""),
    (pod_with({"nvidia.com/hostdev": "1", "cpu": 1}), ""),
    (pod_with({}, path="/dev/nvidia0"), "/dev/nvidia0"),
    (pod_with({}, {"app.kubernetes.io/managed-by": "gpu-operator"}, "/dev/nvidia0"), ""),
]


@pytest.mark.parametrize(("pod", "text"), USES)
def test_who_holds_gpus(pod: dict[str, t.Any], text: str) -> None:
    assert cluster._gpu_use(pod) == text


def test_the_definitions_of_the_chart() -> None:
    groups = {
        "clusterpolicies": "nvidia.com",
        "computedomains": "resource.nvidia.com",
        "nodefeatures": "nfd.k8s-sigs.io",
        "others": "notnvidia.com",
    }
    crds = [{"metadata": {"name": f"{name}.{group}"}, "spec": {"group": group}} for name, group in groups.items()]
    client = types.SimpleNamespace(items=lambda _path, _doing: crds)
    assert cluster.Cluster(t.cast("t.Any", client)).definitions() == [
        "clusterpolicies.nvidia.com", "computedomains.resource.nvidia.com", "nodefeatures.nfd.k8s-sigs.io",
    ]  # fmt: skip


def pod_named(name: str, labels: dict[str, str] | None = None) -> dict[str, t.Any]:
    metadata = {"namespace": "ml", "name": name, "uid": f"uid-of-{name}", "labels": labels}
    return {"metadata": metadata, "spec": {"nodeName": "gpu-1", "containers": [{}]}}


def claim(name: str, result: dict[str, t.Any] | None, *pods: str) -> dict[str, t.Any]:
    """Return a ResourceClaim of resource.k8s.io/v1, allocated by the scheduler and reserved for pods."""
    status: dict[str, t.Any] = {}
    if result is not None:
        users = [{"resource": "pods", "name": pod, "uid": f"uid-of-{pod}"} for pod in pods]
        status = {"allocation": {"devices": {"results": [{"request": "gpu", **result}]}}, "reservedFor": users}
    return {"metadata": {"namespace": "ml", "name": name}, "status": status}


GPU = {"driver": "gpu.nvidia.com", "pool": "gpu-1", "device": "gpu-0"}
PODS = [pod_named(name) for name in ("train-1", "train-0", "eval", "nic", "idle")]
PODS.append(pod_named("validator", {"app.kubernetes.io/managed-by": "gpu-operator"}))
CLAIMS = [
    claim("shared", GPU, "train-0", "train-1"),
    claim("admin", {**GPU, "adminAccess": True}, "eval"),
    claim("fabric", {**GPU, "driver": "dra.net"}, "nic"),
    claim("waits", None),
    claim("of-the-operator", GPU, "validator"),
]


def holders(kinds: dict[tuple[str, str], t.Any]) -> tuple[list[dict[str, str]], list[str]]:
    asked: list[str] = []

    def items(path: str, doing: str, query: t.Any = None) -> list[dict[str, t.Any]]:
        asked.append(path)
        return CLAIMS if path.endswith("resourceclaims") else PODS

    live = cluster.Cluster(t.cast("t.Any", types.SimpleNamespace(items=items)))
    live.kinds = kinds
    return live.gpu_pods(), asked


@pytest.mark.parametrize("version", ["v1", "v1beta2", "v1beta1"])
def test_pods_that_hold_gpus_by_a_claim(version: str) -> None:
    pods, asked = holders({(f"resource.k8s.io/{version}", "ResourceClaim"): cluster.Resource("resourceclaims", True)})
    row = {"namespace": "ml", "node": "gpu-1", "holds": "ResourceClaim shared"}
    assert pods == [{**row, "name": "train-0"}, {**row, "name": "train-1"}]
    assert asked == ["/api/v1/pods", f"/apis/resource.k8s.io/{version}/resourceclaims"]


def test_claims_are_not_asked_for_where_there_are_none() -> None:
    assert holders({}) == ([], ["/api/v1/pods"])
