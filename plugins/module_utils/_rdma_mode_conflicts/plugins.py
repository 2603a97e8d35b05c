# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""Device plugins for RDMA: which DaemonSets run them, on which nodes, and what the resources are called."""

from __future__ import annotations

import typing as t

from .._formats import from_json
from .._kubernetes.client import Object

# k8s-rdma-shared-dev-plugin: rdmaHcaResourcePrefix and DefaultConfigFilePath in pkg/resources/resources_manager.go, its
# image and program in deployment/k8s/base/daemonset.yaml and Dockerfile. It exits if the mode is exclusive
# (ValidateRdmaSystemMode).
SHARED_PREFIX = "rdma"
_SHARED = ("rdma-shared-dev-plugin", "rdma-shared-dp")
_SHARED_MOUNT = "/k8s-rdma-shared-dev-plugin"
# sriov-network-device-plugin: defaultConfig and the flag resource-prefix in cmd/sriovdp/main.go.
_WHOLE = "sriov-network-device-plugin"
_WHOLE_MOUNT = "/etc/pcidp"
_WHOLE_PREFIX = "intel.com"


class Names(t.NamedTuple):
    """Names of extended resources: shares of RDMA devices, and whole ones."""

    shares: set[str]
    whole: set[str]

    def is_shared(self, name: str) -> bool:
        """Return whether a resource is a share; ``rdma/`` is the shared plugin's, unless another one is set up so."""
        return name in self.shares or (name.startswith(SHARED_PREFIX + "/") and name not in self.whole)


def image_and_program(container: Object) -> tuple[str, str]:
    """Return the last part of a container's image, without tag and digest, and of its program."""
    image = str(container.get("image") or "").partition("@")[0].rpartition("/")[2].partition(":")[0]
    return image, str((container.get("command") or [""])[0]).rpartition("/")[2]


def _runs(spec: Object, marks: t.Sequence[str], mount: str) -> bool:
    return any(
        any(mark in word for mark in marks for word in image_and_program(container))
        or any(
            str(volume_mount.get("mountPath")).rstrip("/") == mount
            for volume_mount in container.get("volumeMounts") or []
        )
        for container in spec.get("containers") or []
    )


def is_shared_plugin(spec: Object) -> bool:
    """Return whether a pod's spec runs the shared plugin, also from a mirror that has another name for the image."""
    return _runs(spec, _SHARED, _SHARED_MOUNT)


def is_whole_plugin(spec: Object) -> bool:
    return _runs(spec, (_WHOLE,), _WHOLE_MOUNT)


def config_maps(spec: Object) -> list[str]:
    """Return the names of the ConfigMaps that a pod's spec mounts."""
    names = [(volume.get("configMap") or {}).get("name") for volume in spec.get("volumes") or []]
    return [str(name) for name in names if name]


def prefix_of(spec: Object) -> str:
    """Return the prefix that the arguments of a whole plugin give to resources without one of their own."""
    for container in spec.get("containers") or []:
        words = [str(word) for word in [*(container.get("command") or []), *(container.get("args") or [])]]
        for at, word in enumerate(words):
            flag, sign, value = word.lstrip("-").partition("=")
            if flag == "resource-prefix":
                return value if sign else (words[at + 1 : at + 2] or [_WHOLE_PREFIX])[0]
    return _WHOLE_PREFIX


def _entries(text: t.Any, key: str) -> list[dict[str, t.Any]]:
    try:
        value = from_json(str(text))
    except ValueError:
        return []
    rows = value.get(key) if isinstance(value, dict) else None
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []


def shares_in(text: t.Any) -> set[str]:
    """Return the resources of a shared plugin's configuration."""
    return {
        "%s/%s" % (row.get("resourcePrefix") or SHARED_PREFIX, row.get("resourceName"))
        for row in _entries(text, "configList")
    }


def whole_in(text: t.Any, prefix: str = _WHOLE_PREFIX) -> set[str]:
    """Return the resources with RDMA of a whole plugin's configuration; selectors are an object or a list of them."""
    names = set()
    for row in _entries(text, "resourceList"):
        selectors = row.get("selectors")
        for selector in [row, *(selectors if isinstance(selectors, list) else [selectors])]:
            if isinstance(selector, dict) and selector.get("isRdma") is True:
                names.add("%s/%s" % (row.get("resourcePrefix") or prefix, row.get("resourceName")))
    return names


def pod_resources(spec: Object) -> set[str]:
    """Return the extended resources that a pod's containers request."""
    names = set()
    for container in [*(spec.get("containers") or []), *(spec.get("initContainers") or [])]:
        # For an extended resource, requests equal limits, and limits alone will do.
        asked = (container.get("resources") or {}).get("limits") or {}
        names |= {str(name) for name, count in asked.items() if "/" in str(name) and str(count) != "0"}
    return names


def _holds(rule: t.Mapping[str, t.Any], labels: t.Mapping[str, str]) -> bool:
    """Return whether a requirement of a selector holds; one that is not known might."""
    key, operator, values = rule.get("key"), rule.get("operator"), rule.get("values") or []
    live = labels.get(str(key))
    if operator == "In":
        return live in values
    if operator == "NotIn":
        return live not in values
    if operator in ("Exists", "DoesNotExist"):
        return (live is not None) == (operator == "Exists")
    if operator in ("Gt", "Lt"):
        try:
            left, right = int(str(live)), int(values[0])
        except (ValueError, IndexError):
            return False
        return left > right if operator == "Gt" else left < right
    return True


def matches_node(node: Object, where: t.Mapping[str, t.Any]) -> bool:
    """Return whether something applies to a node; what ``where`` leaves out does not matter.

    :param where: ``nodeSelector`` and ``nodeAffinity`` as a pod has them, ``labelSelector`` as a LabelSelector. Taints
        are passed over: a toleration is soon added.
    """
    labels = node["metadata"].get("labels") or {}
    selector = where.get("labelSelector") or {}
    pairs = {**(where.get("nodeSelector") or {}), **(selector.get("matchLabels") or {})}
    if any(labels.get(key) != value for key, value in pairs.items()):
        return False
    if not all(_holds(rule, labels) for rule in selector.get("matchExpressions") or []):
        return False
    required = (where.get("nodeAffinity") or {}).get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    fields = {"metadata.name": str(node["metadata"]["name"])}
    return not required.get("nodeSelectorTerms") or any(
        all(_holds(rule, labels) for rule in term.get("matchExpressions") or [])
        and all(_holds(rule, fields) for rule in term.get("matchFields") or [])
        for term in required["nodeSelectorTerms"]
    )


__all__ = (
    "SHARED_PREFIX",
    "Names",
    "config_maps",
    "image_and_program",
    "is_shared_plugin",
    "is_whole_plugin",
    "pod_resources",
    "prefix_of",
    "shares_in",
    "matches_node",
    "whole_in",
)
