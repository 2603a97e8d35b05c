# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""The removal of the GPU Operator's release, and what helm leaves behind."""

from __future__ import annotations

import typing as t

from .._decision import DRIFT, IN_SYNC, Decision, resource
from .._errors import FabricError
from . import compare
from . import release as operator_release
from .cluster import DRIVER, GPU_CLUSTER, POLICY
from .model import Host, OperatorError, Params, failed, pod_list

if t.TYPE_CHECKING:  # pragma: no cover
    from .._helm.output import Release


def absent(params: Params, check_mode: bool, host: Host) -> dict[str, t.Any]:
    """Uninstall the release if there is one. Return what the module returns."""
    version = host.helm.version
    listed, _uninstalled = operator_release.find(host)
    release = host.helm.release(listed.name, listed.namespace) if listed else None
    host.cluster.discover()
    decision = _decide(params, release, host)
    pods = host.cluster.gpu_pods() if release else []
    if pods and not params["disrupt"]:
        raise OperatorError(
            "Uninstalling the GPU Operator takes the GPUs from the pods that use them: %s. Nothing was done. Delete "
            "these pods, or set disrupt to true" % pod_list(pods)
        )
    removed = _own_objects(release, host) if check_mode else set()
    if not check_mode:
        try:
            decision.carry_out()
        except FabricError as exc:
            raise failed(exc, decision) from exc
    return {
        **decision.result(),
        "release": operator_release.entry(release),
        "values": {},
        "unknown_values": [],
        "drift": [],
        "pruned": [],
        "disruptive": ["the whole release"] if release else [],
        "gpu_pods": pods,
        "cluster_policy": None,
        "gpu_cluster": None,
        "helm_version": "%d.%d.%d" % version,
        "resources": [_resource(params, release)],
        "leftovers": _leftovers(host, removed),
        "after": {"release": None, "cluster_policy": None, "gpu_cluster": None, "pruned": []},
    }


def _decide(params: Params, release: Release | None, host: Host) -> Decision:
    decision = Decision()
    if release is None:
        return decision
    if release.status != "uninstalling":
        operator_release.plan_recovery(params, release, host)  # a pending release is removed on the same conditions
    decision.add(
        "Uninstall the helm release %s/%s of %s %s" % (release.namespace, release.name, release.chart, release.version),
        lambda: host.helm.uninstall(release.name, release.namespace, wait=params["wait_timeout"]),
    )
    for document in compare.documents(release.manifest)[0]:
        metadata = document.get("metadata") or {}
        namespace = metadata.get("namespace")
        name = "%s %s%s" % (document["kind"], namespace + "/" if namespace else "", metadata.get("name"))
        if not compare.has_keep_policy(document):
            decision.show(name, compare.text(compare.mask(document)), "")
    return decision


def _resource(params: Params, release: Release | None) -> dict[str, t.Any]:
    configured = None
    name, namespace = params["name"], params["namespace"]
    if release:
        configured = {"chart": "%s-%s" % (release.chart, release.version), "status": release.status}
        name, namespace = release.name, release.namespace
    status = DRIFT if release else IN_SYNC
    return resource("helm_release", "%s/%s" % (namespace, name), desired=None, configured=configured, status=status)


def _objects(host: Host) -> dict[str, compare.Object]:
    """Return the objects that the operator acts on, by kind and name."""
    return {
        "%s %s" % (kind[1], document["metadata"]["name"]): document
        for kind in (POLICY, GPU_CLUSTER, DRIVER)
        for document in host.cluster.all_of(kind)
    }


def _own_objects(release: Release | None, host: Host) -> set[str]:
    """Return which of these go with the release."""
    if release is None:
        return set()
    owner = (release.name, release.namespace)
    return {name for name, document in _objects(host).items() if compare.release_of(document) == owner}


def _leftovers(host: Host, removed: set[str]) -> list[str]:
    """Return what helm leaves: CRDs always (and with them what others created of them), objects of others."""
    definitions = ["CustomResourceDefinition %s" % name for name in host.cluster.definitions()]
    return definitions + sorted(set(_objects(host)) - removed)


__all__ = ("absent",)
