# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""What the lint of attachments compares with, read from the API server: one list for each kind."""

from __future__ import annotations

import re
import typing as t

from .._kubernetes.client import ApiError, path
from . import uses

if t.TYPE_CHECKING:  # pragma: no cover
    from .._kubernetes.client import Client, Object

API = "k8s.cni.cncf.io/v1"
PLURAL = "network-attachment-definitions"
_WHEREABOUTS = "whereabouts.cni.cncf.io/v1alpha1"
_TAINTS = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")

T = t.TypeVar("T")


class Cluster:
    """Reads; what may not be read is None, and ``why`` says why, by purpose."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.why: dict[str, str] = {}

    def _list(
        self, api: str, plural: str, doing: str, purpose: str, query: t.Mapping[str, str] | None = None
    ) -> list[Object] | None:
        """Return a list, or None if the user may not read it."""
        return self._readable(purpose, lambda: self.client.items(path(api, plural), doing, query) or [])

    def _readable(self, purpose: str, read: t.Callable[[], T]) -> T | None:
        """Return what was read, or None if the user may not read it."""
        try:
            return read()
        except ApiError as exc:
            if exc.status != 403:
                raise
            self.why[purpose] = str(exc)
            return None

    def attachments(self, namespaces: t.Iterable[str]) -> list[Object] | None:
        """Return every attachment that may be seen; None: the cluster has no such kind.

        An account with rights in some namespaces only sees those that are asked for.
        """
        doing = "Listing the NetworkAttachmentDefinitions of %s"
        try:
            return self.client.items(path(API, PLURAL), doing % "all namespaces")
        except ApiError as exc:
            if exc.status != 403:
                raise
            self.why["others"] = str(exc)
        attachments: list[Object] = []
        for namespace in sorted(set(namespaces)):
            rows = self.client.items(path(API, PLURAL, namespace), doing % ("namespace %s" % namespace))
            if rows is None:
                return None
            attachments += rows
        return attachments

    def nodes(self) -> dict[str, Object] | None:
        rows = self._list("v1", "nodes", "Listing the nodes", "nodes")
        return None if rows is None else {str(row["metadata"]["name"]): row for row in rows}

    def selected(self, selector: str) -> list[str] | None:
        """Return the names of nodes that a label selector chooses."""
        doing = "Listing the nodes with the labels %s" % selector
        rows = self._list("v1", "nodes", doing, "nodes", {"labelSelector": selector})
        return None if rows is None else sorted(str(row["metadata"]["name"]) for row in rows)

    def pod_networks(self, nodes: dict[str, Object] | None) -> list[str] | None:
        """Return the pod networks: of each node, else what kubeadm was given."""
        code = "range_overlaps_pods"
        if nodes is None:
            self.why[code] = self.why.get("nodes", "")
            return None
        networks: list[str] = []
        for node in nodes.values():
            spec = node.get("spec") or {}
            networks += spec.get("podCIDRs") or ([spec["podCIDR"]] if spec.get("podCIDR") else [])
        if networks:
            return networks
        # Pod networks that count for themselves (Calico, Cilium) leave podCIDRs empty.
        self.why[code] = "no node has podCIDRs, and no kubeadm-config sets a podSubnet"
        doing = "Reading kubeadm's pod network (ConfigMap kube-system/kubeadm-config)"
        place = path("v1", "configmaps", "kube-system", "kubeadm-config")
        config = self._readable(code, lambda: self.client.get(place, doing))
        text = ((config or {}).get("data") or {}).get("ClusterConfiguration") or ""
        subnet = re.search(r"^\s+podSubnet:\s*[\"']?([0-9a-fA-F:.,/]+)", text, re.MULTILINE)
        return subnet.group(1).split(",") if subnet else None

    def service_networks(self) -> list[str] | None:
        """Return the service networks; if the API server does not list them, the one address that is known."""
        code = "range_overlaps_services"
        rows = self._list("networking.k8s.io/v1", "servicecidrs", "Listing the service networks", code)
        if rows:
            return [cidr for row in rows for cidr in (row.get("spec") or {}).get("cidrs") or []]
        # ServiceCIDR is stable since Kubernetes 1.33.
        doing = "Reading the address of the service default/kubernetes"
        try:
            service = self.client.get(path("v1", "services", "default", "kubernetes"), doing)
        except ApiError as exc:
            if exc.status != 403:
                raise
            self.why.setdefault(code, str(exc))
            return None
        spec = (service or {}).get("spec") or {}
        addresses = spec.get("clusterIPs") or ([spec["clusterIP"]] if spec.get("clusterIP") else [])
        self.why.setdefault(code, "the API server has no ServiceCIDR objects")
        self.why[code] += "; only the address of the service kubernetes was compared"
        return addresses or None

    def namespace(self, name: str) -> bool | None:
        """Return whether a namespace exists; None: it may not be read."""
        place, doing = path("v1", "namespaces", None, name), "Looking for the namespace %s" % name
        return self._readable("namespace_missing", lambda: self.client.get(place, doing) is not None)

    def pools(self) -> list[Object] | None:
        """Return whereabouts' pools, in whatever namespace it keeps them."""
        return self._list(_WHEREABOUTS, "ippools", "Listing whereabouts' address pools", "range_in_use")

    def users(self, candidates: t.Iterable[str]) -> tuple[dict[str, list[str]], list[str]]:
        """Return who names attachments, and which kinds could not be read and why."""
        keys = list(candidates)
        result: dict[str, list[str]] = {}
        unknown = []
        for api, plural, kind in uses.KINDS:
            rows = self._list(api, plural, "Listing every %s, to see which attachments they name" % kind, kind)
            if rows is None:
                unknown.append(self.why[kind])
                continue
            for key, who in uses.users(rows, kind, keys).items():
                result.setdefault(key, []).extend(who)
        return result, unknown


def schedulable(nodes: t.Mapping[str, Object]) -> list[str]:
    """Return the nodes that ordinary pods can come to: those of the control plane are not, by their taint."""
    return sorted(
        name
        for name, node in nodes.items()
        if not any(
            taint.get("key") in _TAINTS and taint.get("effect") != "PreferNoSchedule"
            for taint in (node.get("spec") or {}).get("taints") or []
        )
    )


__all__ = ("API", "PLURAL", "Cluster", "schedulable")
