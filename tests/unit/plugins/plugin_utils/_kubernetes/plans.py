# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plans for a control-plane host and two others."""

from __future__ import annotations

import typing as t

import yaml

from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._kubernetes import kubeadm_config as config
from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._kubernetes.plan import Options, plan
from ansible_collections.rdmaops.gpu_fabric.tests.unit.plugins.plugin_utils._kubernetes.kubernetes_hosts import (
    Json,
    cluster,
    host,
    node,
    plane_member,
    settings,
    worker_member,
)

ALL = ("cp-1", "gpu-1", "gpu-2")
CONSENT = "-e kubernetes_state=reset -e kubernetes_reset_consent=%s --limit %s"
KNOWN = {
    "cluster_configuration": yaml.safe_dump(config.cluster_configuration(settings())),
    "kubelet_configuration": yaml.safe_dump(config.kubelet_configuration(settings())),
}


def new_hosts(**more: Json) -> dict[str, Json]:
    """A control-plane host and two others; parts of each are given by its name, with _ for -."""
    return {
        name: host(name, number, control_plane=name.startswith("cp"), **more.get(name.replace("-", "_"), {}))
        for number, name in enumerate(("cp-1", "gpu-1", "gpu-2"), 10)
    }


def running(*nodes: Json, **more: Json) -> dict[str, Json]:
    """The same, with a cluster of which both others are nodes."""
    nodes = nodes or (node("cp-1", 10, control_plane=True), node("gpu-1", 11), node("gpu-2", 12))
    parts: dict[str, Json] = {
        "cp_1": {"membership": plane_member("cp-1"), "cluster": cluster(*nodes, **KNOWN)},
        "gpu_1": {"membership": worker_member("gpu-1")},
        "gpu_2": {"membership": worker_member("gpu-2")},
    }
    for name, part in more.items():
        parts[name] = {**parts[name], **part}
    return new_hosts(**parts)


def actions(decision: Json) -> dict[str, str]:
    return {name: step["action"] for name, step in decision["hosts"].items()}


def decided(hosts: dict[str, Json], **options: t.Any) -> Json:
    return plan(hosts, settings(), Options(**options))
