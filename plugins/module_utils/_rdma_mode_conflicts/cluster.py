# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""What in a cluster depends on the mode of its nodes: read from the API server, judged, and reported."""

from __future__ import annotations

import typing as t

from .._decision import DRIFT, IN_SYNC, UNKNOWN, resource
from .._kubernetes.client import ApiError, Client, Object, path
from .._net_attach_def.uses import ANNOTATIONS
from . import plugins
from .compare import EXCLUSIVE, ClusterSnapshot, Gap, conflicts, monitors

# API version, plural: config/crd/bases of Mellanox/network-operator and of k8snetworkplumbingwg/sriov-network-operator.
_POOLS = ("sriovnetwork.openshift.io/v1", "sriovnetworkpoolconfigs")
_POLICIES = (
    ("NicClusterPolicy", "mellanox.com/v1alpha1", "nicclusterpolicies"),
    ("NicNodePolicy", "mellanox.com/v1alpha1", "nicnodepolicies"),
)
_ATTACHMENTS = ("k8s.cni.cncf.io/v1", "network-attachment-definitions")
# How many of them a message names; all are in the result.
_TOLD = 10


class Reader:
    """Reads; what may not be read is empty, and ``unknown`` says why."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.unknown: list[Gap] = []

    def items(self, api: str, plural: str, doing: str, node: str | None = None) -> list[Object]:
        """Return the objects of a kind, or those that are bound to one node."""
        query = None if node is None else {"fieldSelector": "spec.nodeName=" + node}
        try:
            return self.client.items(path(api, plural), doing, query) or []
        except ApiError as exc:
            if exc.status != 403:
                raise
            # Rights are checked before the kind's existence; any user may list the kinds.
            if "." in api and plural not in {row.get("name") for row in self.client.resources(api) or []}:
                return []
            self.unknown.append(Gap(node, str(exc)))
            return []

    def texts(self, namespace: str, name: str) -> list[str]:
        """Return what a ConfigMap holds."""
        doing = "Reading the ConfigMap %s/%s, which names the resources of a device plugin" % (namespace, name)
        try:
            config_map = self.client.get(path("v1", "configmaps", namespace, name), doing)
        except ApiError as exc:
            if exc.status != 403:
                raise
            self.unknown.append(Gap(None, str(exc)))
            return []
        return [str(text) for text in ((config_map or {}).get("data") or {}).values()]


def _names(reader: Reader, daemon_sets: t.Iterable[Object], policies: t.Iterable[tuple[str, Object]]) -> plugins.Names:
    """Return what the resources of the device plugins are called."""
    names = plugins.Names(set(), set())
    for daemon_set in daemon_sets:
        spec = daemon_set["spec"]["template"]["spec"]
        shared = plugins.is_shared_plugin(spec)
        if not shared and not plugins.is_whole_plugin(spec):
            continue
        for name in plugins.config_maps(spec):
            for text in reader.texts(daemon_set["metadata"]["namespace"], name):
                if shared:
                    names.shares.update(plugins.shares_in(text))
                else:
                    names.whole.update(plugins.whole_in(text, plugins.prefix_of(spec)))
    for _kind, policy in policies:
        shared_plugin = (policy.get("spec") or {}).get("rdmaSharedDevicePlugin") or {}
        names.shares.update(plugins.shares_in(shared_plugin.get("config")))
    return names


def read(client: Client, names: t.Sequence[str], mode: str) -> ClusterSnapshot:
    """Read what matters for a mode of some nodes: their own pods, and short lists of everything else."""
    reader = Reader(client)
    known = {node["metadata"]["name"]: node for node in reader.items("v1", "nodes", "Listing the nodes")}
    if not reader.unknown:
        for name in names:
            if name not in known:
                there = ", ".join(sorted(known)) or "none"
                text = "the cluster has no node %s (there are: %s). Give the name that it has in the cluster"
                reader.unknown.append(Gap(name, text % (name, there)))
    nodes = {name: known[name] for name in names if name in known}
    pods: list[Object] = []
    for name in nodes:
        pods += reader.items("v1", "pods", "Listing the pods of node %s" % name, name)
    daemon_sets: list[Object] = []
    policies: list[tuple[str, Object]] = []
    if mode == EXCLUSIVE:
        daemon_sets = reader.items("apps/v1", "daemonsets", "Listing the DaemonSets")
        for kind, api, plural in _POLICIES:
            policies += [
                (kind, policy) for policy in reader.items(api, plural, "Listing the objects of kind %s" % kind)
            ]
    networks: list[Object] = []
    if any(key in (pod["metadata"].get("annotations") or {}) for pod in pods for key in ANNOTATIONS):
        networks = reader.items(*_ATTACHMENTS, "Listing the NetworkAttachmentDefinitions")
    return ClusterSnapshot(
        nodes,
        pods,
        daemon_sets,
        policies,
        reader.items(*_POOLS, "Listing the objects of kind SriovNetworkPoolConfig"),
        {"%s/%s" % (network["metadata"]["namespace"], network["metadata"]["name"]): network for network in networks},
        _names(reader, daemon_sets, policies),
        reader.unknown,
    )


def conflict_messages(rows: t.Sequence[t.Mapping[str, t.Any]], unknown: t.Sequence[Gap]) -> list[str]:
    """Return sentences: each conflict once for all its nodes, and what is not known."""
    nodes: dict[tuple[str, ...], list[str]] = {}
    for row in rows:
        name = "/".join(part for part in (row["namespace"], row["name"]) if part)
        key = ("%s %s" % (row["kind"], name), row["what"], row["remedy"])
        # A node speaks for itself.
        nodes.setdefault(key, []).append("" if row["kind"] == "Node" else row["node"])
    texts = [
        "%s %s%s. %s" % (who, effect, " (node %s)" % ", ".join(where) if any(where) else "", remedy)
        for (who, effect, remedy), where in nodes.items()
    ]
    texts += ["Not known: %s" % text.rstrip(".") for text in dict.fromkeys(gap.what for gap in unknown)]
    more = len(texts) - _TOLD
    return texts[:_TOLD] + (["%d more are in the result of the task" % more] if more > 0 else [])


def _resource(node: str, rows: t.Sequence[t.Mapping[str, t.Any]], unknown: t.Sequence[Gap]) -> dict[str, t.Any]:
    mine = ["%s %s" % (row["kind"], row["name"]) for row in rows if row["node"] == node]
    dark = any(gap.node in (None, node) for gap in unknown)
    return resource(
        "rdma_mode_conflict",
        node,
        desired="none",
        live=", ".join(dict.fromkeys(mine)) or (None if dark else "none"),
        status=DRIFT if mine else UNKNOWN if dark else IN_SYNC,
    )


def manage(params: t.Mapping[str, t.Any], _check_mode: bool, client: Client) -> dict[str, t.Any]:
    """Return what the module rdma_mode_conflict_info returns, with ``failed`` if it refuses."""
    nodes = list(dict.fromkeys(params["nodes"]))
    mode = params["netns_mode"]
    view = read(client, nodes, mode)
    rows, unknown = conflicts(view, mode)
    watching = monitors(view, mode)
    texts = conflict_messages(rows, unknown)
    warned = conflict_messages(watching, []) + (texts if params["on_conflict"] == "warn" else [])
    result = {
        "changed": False,
        "conflicts": rows,
        "monitors": watching,
        "unknown": [gap._asdict() for gap in unknown],
        "resources": [_resource(node, rows, unknown) for node in nodes],
        "warnings": ["RDMA mode %s: %s" % (mode, text) for text in warned],
    }
    if not texts or params["on_conflict"] == "warn":
        return result
    msg = "RDMA mode %s on %s: %s. The mode has not been touched. To set it anyway, set on_conflict to warn"
    return {**result, "failed": True, "msg": msg % (mode, ", ".join(nodes), ". ".join(texts))}


__all__ = ("Reader", "conflict_messages", "manage", "read")
