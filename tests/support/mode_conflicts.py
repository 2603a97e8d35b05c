# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Objects that conflict with a mode of the RDMA subsystem: the operators' definitions, plugins, attachments, pods."""

from __future__ import annotations

import json
import typing as t

from ansible_collections.rdmaops.gpu_fabric.tests.support import COLLECTION
from ansible_collections.rdmaops.gpu_fabric.tests.support.cluster import Cluster
from ansible_collections.rdmaops.gpu_fabric.tests.support.objects import definition, manifest

Json = t.Any
SHARE = "rdma/hca_shared_devices_a"
# deployment/k8s/base of Mellanox/k8s-rdma-shared-dev-plugin.
CONFIG = {"configList": [{"resourceName": "hca_shared_devices_a", "rdmaHcaMax": 1000, "devices": ["ib0"]}]}
IMAGE = "ghcr.io/mellanox/k8s-rdma-shared-dev-plugin:v1.5.3"
MARK = "test"

# Group, version, plural, kind, scope, and those fields of spec that are used here: config/crd/bases of
# k8snetworkplumbingwg/sriov-network-operator and of Mellanox/network-operator.
_OPEN = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_MODE = {"type": "string", "enum": ["shared", "exclusive"]}
DEFINITIONS = (
    (
        *("sriovnetwork.openshift.io", "v1", "sriovnetworkpoolconfigs", "SriovNetworkPoolConfig", "Namespaced"),
        {"rdmaMode": _MODE, "nodeSelector": _OPEN, "ovsHardwareOffloadConfig": _OPEN},
    ),
    (
        *("mellanox.com", "v1alpha1", "nicclusterpolicies", "NicClusterPolicy", "Cluster"),
        {"rdmaSharedDevicePlugin": _OPEN, "nodeAffinity": _OPEN},
    ),
    (
        *("mellanox.com", "v1alpha1", "nicnodepolicies", "NicNodePolicy", "Cluster"),
        {"rdmaSharedDevicePlugin": _OPEN, "nodeSelector": _OPEN},
    ),
)


def resource(api: str, kind: str, name: str, namespace: str = "", **content: Json) -> Json:
    metadata = {"labels": {MARK: "x"}, **content.pop("metadata", {})}
    return manifest(api, kind, name, namespace, metadata=metadata, **content)


def pod(namespace: str, name: str, node: str = "gpu-1", networks: str = "", **spec: Json) -> Json:
    resources = spec.pop("resources", ())
    limits = {"limits": dict.fromkeys(resources, "1")}
    whole = {"nodeName": node, "containers": [{"name": "c", "image": "none", "resources": limits}], **spec}
    notes = {"annotations": {"k8s.v1.cni.cncf.io/networks": networks}} if networks else {}
    return resource("v1", "Pod", name, namespace, metadata=notes, spec=whole)


def attachment(namespace: str, name: str, *plugins: Json) -> Json:
    config = {"cniVersion": "0.3.1", "plugins": list(plugins)}
    spec = {"config": json.dumps(config)}
    return resource("k8s.cni.cncf.io/v1", "NetworkAttachmentDefinition", name, namespace, spec=spec)


def plugin(namespace: str, name: str = "rdma-shared-dp-ds", image: str = IMAGE, **spec: Json) -> list[Json]:
    """Return the shared plugin's ConfigMap and DaemonSet."""
    volumes = [{"name": "config", "configMap": {"name": name}}]
    full = {"hostNetwork": True, "containers": [{"name": "c", "image": image}], "volumes": volumes, **spec}
    template = {"metadata": {"labels": {"name": name}}, "spec": full}
    return [
        resource("v1", "ConfigMap", name, namespace, data={"config.json": json.dumps(CONFIG)}),
        resource(
            *("apps/v1", "DaemonSet", name, namespace),
            spec={"selector": {"matchLabels": {"name": name}}, "template": template},
        ),
    ]


def pool(namespace: str, name: str, **spec: Json) -> Json:
    return resource("sriovnetwork.openshift.io/v1", "SriovNetworkPoolConfig", name, namespace, spec=spec)


def remove(plane: Cluster, *kinds: str) -> None:
    plane.kubectl("delete", ",".join(kinds), "-A", "-l", MARK, "--force", "--grace-period=0", "--wait=true")


def install_definitions(plane: Cluster) -> None:
    """Create the definitions of Multus and of both operators, and wait until the API server serves them."""
    file = COLLECTION / "roles/secondary_network/files/multus-definitions.yml"
    plane.kubectl("apply", "--server-side", "-f", str(file))
    plane.apply(*(definition(*row) for row in DEFINITIONS))
    plane.established()


__all__ = ["SHARE", "attachment", "install_definitions", "plugin", "pod", "pool", "remove", "resource"]
