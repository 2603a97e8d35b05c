# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""The stack that the operator runs: a ClusterPolicy, or, from the chart v26.7.0 on, a GPUCluster with NVIDIADrivers.

A cluster has one of the two, and NVIDIA does not support a move in place: "DRA Driver for NVIDIA GPUs" in the
documentation of the GPU Operator 26.7, and pull request 2696 of NVIDIA/gpu-operator.
"""

from __future__ import annotations

import re
import typing as t

from .._helm.chart import defaults
from . import compare
from .cluster import DRIVER, GPU_CLUSTER, POLICY, Cluster
from .model import OperatorError, State, pod_list

Object = compare.Object

STACKS = (POLICY, GPU_CLUSTER)
# The values of the chart that create the object of a stack and not that of the other.
_VALUES = {
    POLICY: "clusterPolicy.deployCR=true and gpuCluster.deployCR=false",
    GPU_CLUSTER: "clusterPolicy.deployCR=false and gpuCluster.deployCR=true",
}
# "Prerequisites" on that page.
_KUBERNETES = (1, 34, 2)
_DRIVER = 580


def check(state: State, objects: t.Sequence[Object], cluster: Cluster) -> None:
    """Refuse two stacks at once, before anything is done: both desired, both live, or one of each."""
    desired = [kind for kind in STACKS if _of_kind(objects, kind)]
    if len(desired) > 1:
        raise OperatorError(
            "The values would create both a ClusterPolicy and a GPUCluster, and the operator supports only one of them "
            "in a cluster. Nothing was done. Set %s, or %s" % (_VALUES[POLICY], _VALUES[GPU_CLUSTER])
        )
    live = {kind: cluster.all_of(kind) for kind in STACKS}
    if all(live.values()):
        raise OperatorError(
            "The cluster has both %s and %s, and the operator supports only one of them in a cluster. Nothing was "
            "done. Delete the one that is not wanted while the operator runs (kubectl delete clusterpolicy NAME, or "
            "kubectl delete gpucluster NAME): without the operator, a GPUCluster keeps its finalizer and is not deleted"
            % tuple(_names(kind, live[kind]) for kind in STACKS)
        )
    for kind in desired:
        other = next(each for each in STACKS if each != kind)
        if live[other]:
            _refuse_move(state, other, live[other], kind, cluster)
    if desired == [GPU_CLUSTER]:
        _check_gpu_cluster(state, objects, cluster)


def _of_kind(objects: t.Iterable[Object], kind: tuple[str, str]) -> list[Object]:
    return [document for document in objects if (document.get("apiVersion"), document["kind"]) == kind]


def _names(kind: tuple[str, str], objects: t.Iterable[Object]) -> str:
    return "the %s %s" % (kind[1], ", ".join(sorted(document["metadata"]["name"] for document in objects)))


def _refuse_move(
    state: State, old: tuple[str, str], live: list[Object], new: tuple[str, str], cluster: Cluster
) -> None:
    steps = move(state, old, live, new, cluster)
    error = OperatorError(
        "The cluster has %s, and the chart %s %s with these values would create a %s: the operator supports only one "
        "of them in a cluster, and NVIDIA does not support a move in place. Nothing was done. To keep the %s, set %s. "
        "A move takes: %s"
        % (
            _names(old, live),
            state.chart.name,
            state.chart.version,
            new[1],
            old[1],
            _VALUES[old],
            "; ".join("%d. %s" % (number, step) for number, step in enumerate(steps, 1)),
        )
    )
    error.result = {"move": steps}
    raise error


def move(state: State, old: tuple[str, str], live: list[Object], new: tuple[str, str], cluster: Cluster) -> list[str]:
    """Return what a move from one stack to the other takes, and by whom, in this cluster."""
    release = (state.release.name, state.release.namespace) if state.release else None
    foreign = [document for document in live if release is None or compare.release_of(document) != release]
    steps = _prerequisites(cluster) if new == GPU_CLUSTER else []
    if new == GPU_CLUSTER:
        request = "a ResourceClaim for the DeviceClass gpu.nvidia.com instead of nvidia.com/gpu"
    else:
        request = "nvidia.com/gpu instead of a ResourceClaim; ResourceClaims for GPUs have to be deleted"
    pods = cluster.gpu_pods()
    holders = pod_list(pods) if pods else "there is none now"
    steps.append("owners of the workloads: delete the pods that use GPUs (%s), and request %s" % (holders, request))
    if state.release:
        steps.append(
            "cluster administrator: uninstall the release %s/%s with state=absent and disrupt=true, not with helm "
            "uninstall --no-hooks" % (state.namespace, state.name)
        )
    if foreign:
        steps.append("cluster administrator: delete %s, which is not of this release" % _names(old, foreign))
    values = _VALUES[new]
    if new == GPU_CLUSTER:
        values += ", with driver.nvidiaDriverCRD.enabled=true or, if the hosts have the driver, driver.enabled=false"
    steps.append("cluster administrator: install the chart with %s" % values)
    return steps


def _prerequisites(cluster: Cluster) -> list[str]:
    """Return what the cluster lacks for a GPUCluster, and what has to be checked because the API server cannot tell."""
    steps = []
    if _version(cluster.version) < _KUBERNETES:
        steps.append("cluster administrator: upgrade Kubernetes from %s to v1.34.2 or newer" % cluster.version)
    elif not _serves_device_classes(cluster):
        steps.append("cluster administrator: enable the API resource.k8s.io, which has no DeviceClass here")
    steps.append(
        "node administrator: check that every GPU node has NVIDIA's driver %d or newer and a container runtime with "
        "CDI (this module cannot determine that)" % _DRIVER
    )
    steps.append(
        "cluster administrator: uninstall NVIDIA's DRA driver if it is installed by a chart of its own "
        "(dra-driver-nvidia-gpu, nvidia-dra-driver-gpu)"
    )
    return steps


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", text)[:3])


def _serves_device_classes(cluster: Cluster) -> bool:
    return any(version.startswith("resource.k8s.io/") and kind == "DeviceClass" for version, kind in cluster.kinds)


def _check_gpu_cluster(state: State, objects: t.Sequence[Object], cluster: Cluster) -> None:
    """Refuse a GPUCluster that cannot become ready."""
    doing = "Creating the GPUCluster of the chart %s %s" % (state.chart.name, state.chart.version)
    if not _serves_device_classes(cluster):
        raise OperatorError(
            "%s: the API server (Kubernetes %s) has no DeviceClass of resource.k8s.io, by which a GPUCluster offers "
            "GPUs. Nothing was done. Upgrade Kubernetes to v1.34.2 or newer, or set %s"
            % (doing, cluster.version, _VALUES[POLICY])
        )
    installs = _value(state, "driver", "enabled") is not False
    by_object = _value(state, "driver", "nvidiaDriverCRD", "enabled") is True
    if installs and not by_object and not _of_kind(objects, DRIVER) and not cluster.all_of(DRIVER):
        raise OperatorError(
            "%s: a GPUCluster does not install the driver, and there is no NVIDIADriver that does. Nothing was done. "
            "Set driver.nvidiaDriverCRD.enabled to true in values, or, if the hosts have the driver, driver_enabled to "
            "false" % doing
        )


def _value(state: State, *steps: str) -> t.Any:
    """Return a value as it is in force: the desired one, or the chart's default."""
    value: t.Any
    for value in (state.values, defaults(state.chart)):
        for step in steps:
            value = value.get(step) if isinstance(value, dict) else None
        if value is not None:
            return value
    return None


__all__ = ("STACKS", "check", "move")
