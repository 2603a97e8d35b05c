# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""The GPUs of nodes, as nvidia-smi sees them in the operator's own pods."""

from __future__ import annotations

import typing as t

from .._errors import FabricError
from .._kubernetes.client import Client, Object, path
from .._pod_exec import run as pod_exec_run
from .._pod_exec.api import ApiExec, container_in
from .._pod_exec.run import PodExec
from .._tool_output import nvidia_smi

# Set by GPU feature discovery, and by the operator itself.
LABEL = "nvidia.com/gpu.present"
# Pods that have nvidia-smi, in the order in which they are asked: that of the driver, and, where the driver is the
# host's, that of the device plugin. Precompiled drivers have a DaemonSet for each kernel, whose name has it at the end.
_APPS = ("nvidia-driver-daemonset", "nvidia-device-plugin-daemonset")
# Of the DaemonSets that an NVIDIADriver has, whose names are made up.
_COMPONENT = ("app.kubernetes.io/component", "nvidia-driver")
# Without the persistence daemon, the driver initializes the GPUs at each call.
_LIMIT_S = 60

Node = t.Dict[str, t.Any]


class GpuInfoError(FabricError):
    """The GPUs of a node are not known; the text has the reason."""


def manage(params: t.Mapping[str, t.Any], _check_mode: bool, client: Client) -> dict[str, t.Any]:
    """Return what the module gpu_info returns."""
    namespace: str = params["namespace"]
    names = params["nodes"] or _labelled(client)
    doing = "Looking for the GPU Operator's pods in the namespace %s" % namespace
    pods = client.items(path("v1", "pods", namespace), doing) or []

    def connect(pod: Object) -> PodExec:
        shown = "%s/%s" % (namespace, pod["metadata"]["name"])
        return ApiExec(client, shown, container_in(pod, shown, None), None)

    nodes = {name: look(candidates(pods, name), name, namespace, connect) for name in names}
    return {"changed": False, "nodes": nodes, "problems": problems(nodes)}


def _labelled(client: Client) -> list[str]:
    doing = "Looking for nodes with the label %s=true" % LABEL
    nodes = client.items(path("v1", "nodes"), doing, {"labelSelector": LABEL + "=true"}) or []
    return sorted(str(node["metadata"]["name"]) for node in nodes)


def candidates(pods: t.Sequence[Object], node: str) -> list[Object]:
    """Return the pods of a node that have nvidia-smi, those of the driver first."""
    own = [pod for pod in pods if (pod.get("spec") or {}).get("nodeName") == node]
    return [pod for app in _APPS for pod in own if _app(pod) == app]


def _app(pod: Object) -> str | None:
    labels = pod["metadata"].get("labels") or {}
    if labels.get(_COMPONENT[0]) == _COMPONENT[1]:
        return _APPS[0]
    return next((app for app in _APPS if str(labels.get("app", "")).startswith(app)), None)


def look(pods: t.Sequence[Object], name: str, namespace: str, connect: t.Callable[[Object], PodExec]) -> Node:
    """Return what is known of a node's GPUs. ``error``: why that is not all of them."""
    node: Node = {"gpus": None, "driver": None, "cuda": None, "pod": None, "error": None}
    errors = []
    for pod in pods:
        node["pod"] = pod["metadata"]["name"]
        try:
            return {**node, **_ask(connect(pod))}
        except FabricError as exc:
            errors.append(str(exc))
    if not errors:
        errors = [
            "The node %s has no pod of %s in the namespace %s. See 'kubectl --namespace %s get pods --output wide'"
            % (name, " or ".join(_APPS), namespace, namespace)
        ]
    return {**node, "error": "; ".join(errors)}


def problems(nodes: t.Mapping[str, Node]) -> list[str]:
    """Return sentences on nodes whose GPUs are not all known, and on GPUs with uncorrected ECC errors."""
    sentences = []
    for name, node in nodes.items():
        if node["error"]:
            sentences.append("node %s: %s" % (name, node["error"]))
        for gpu in node["gpus"] or []:
            if gpu["uncorrected_ecc_errors"]:
                sentences.append(
                    "node %s: GPU %d (%s) has %d uncorrected ECC errors"
                    % (name, gpu["index"], gpu["name"], gpu["uncorrected_ecc_errors"])
                )
    return sentences


def _ask(pod_exec: PodExec) -> Node:
    status, text = _nvidia_smi(pod_exec, nvidia_smi.QUERY)
    gpus, others = nvidia_smi.parse(text)
    ended = "timed out after %d s" % _LIMIT_S if status is None else "exited with %d" % status
    said = " ".join(" ".join(others).split())[:300] or "nothing else"
    where = "nvidia-smi in the %s" % pod_exec.text
    if not gpus:
        raise GpuInfoError("%s shows no GPU: it %s and printed: %s" % (where, ended, said))
    error = "%s does not show all GPUs: it %s and printed: %s" % (where, ended, said) if status != 0 or others else None
    # Its summary prints both versions, and the query has no property for that of CUDA.
    _status, summary = _nvidia_smi(pod_exec, ())
    return {"gpus": gpus, "driver": gpus[0]["driver"], "cuda": nvidia_smi.cuda(summary), "error": error}


def _nvidia_smi(pod_exec: PodExec, options: t.Sequence[str]) -> tuple[int | None, str]:
    done = pod_exec_run.run(pod_exec, ["nvidia-smi", *options], _LIMIT_S, pod_exec_run.new_mark())
    return done.status, done.text


__all__ = ("LABEL", "GpuInfoError", "candidates", "look", "manage", "problems")
