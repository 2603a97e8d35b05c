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
