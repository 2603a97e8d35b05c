# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""What in a cluster depends on the other mode of the RDMA subsystem, or manages the mode too."""

from __future__ import annotations

import functools
import typing as t

from .._cni import config as cni
from .._errors import FabricError
from .._kubernetes.client import OWNER, Object
from .._net_attach_def.uses import named, texts
from .monitors import monitor_of
from .plugins import Names, is_shared_plugin, matches_node, pod_resources

EXCLUSIVE = "exclusive"
# Their network device is a new one on top of the host's, which stays where it is, and its RDMA device with it.
_ON_TOP = ("macvlan", "ipvlan")
DEVICES = "/dev/infiniband"
# Label of nodes with an adapter of the vendor, by node feature discovery; the operator's DaemonSets select by it
# (manifests/state-rdma-shared-device-plugin in Mellanox/network-operator).
_NIC_LABEL = ("feature.node.kubernetes.io/pci-15b3.present", "true")


class Gap(t.NamedTuple):
    """What is not known, of one node, or of all of them (None)."""

    node: str | None
    what: str


class ClusterSnapshot(t.NamedTuple):
    """What was read from the API server; what could not be read is empty here, and is listed in ``unknown``."""

    nodes: dict[str, Object]
    pods: list[Object]
    daemon_sets: list[Object]
    # NicClusterPolicies and NicNodePolicies, as (kind, object).
    policies: list[tuple[str, Object]]
    pools: list[Object]
    # By namespace/name.
    attachments: dict[str, Object]
    names: Names
    unknown: list[Gap]


def _row(kind: str, item: Object, node: str, effect: str, remedy: str) -> dict[str, t.Any]:
    meta = item.get("metadata") or {}
    return {
        "kind": kind,
        "namespace": meta.get("namespace"),
        "name": meta.get("name"),
        "node": node,
        "what": effect,
        "remedy": remedy,
    }


def moves_device(config: cni.Config) -> bool:
    """Return whether an attachment gives the pod its RDMA device, for which it insists on mode exclusive.

    cmdAdd() in cmd/rdma/main.go of rdma-cni, and EnsureRdmaSystemMode() in pkg/utils of ib-sriov-cni.
    """
    return any(
        plugin.get("type") == "rdma" or (plugin.get("type") == "ib-sriov" and plugin.get("rdmaIsolation") is True)
        for plugin in cni.plugins(config)
    )


class Attached(t.NamedTuple):
    """The attachments of a pod, by what they do with its RDMA device, and what is not known."""

    moving: list[str]
    on_top: list[str]
    unknown: list[str]


def attached(pod: Object, attachments: t.Mapping[str, Object]) -> Attached:
    meta = pod["metadata"]
    who = "%s/%s" % (meta["namespace"], meta["name"])
    result = Attached([], [], [])
    for text in texts({"metadata": meta}):
        names = named(text, meta["namespace"])
        if names is None:
            result.unknown.append("the networks of Pod %s cannot be read: %s" % (who, text))
            continue
        # One that is not there has been deleted since, or a file on the node stands for it.
        for name in sorted(names.intersection(attachments)):
            try:
                config = cni.parse((attachments[name].get("spec") or {}).get("config"))
                moving = moves_device(config)
                on_top = any(plugin.get("type") in _ON_TOP for plugin in cni.plugins(config))
            except FabricError as exc:
                result.unknown.append(
                    "the NetworkAttachmentDefinition %s of Pod %s cannot be read: %s" % (name, who, exc)
                )
                continue
            if moving:
                result.moving.append(name)
            elif on_top:
                result.on_top.append(name)
    return result


def host_devices(pod: Object) -> bool:
    """Return whether a pod mounts the RDMA devices of the host."""
    paths = [str((volume.get("hostPath") or {}).get("path") or "") for volume in pod["spec"].get("volumes") or []]
    return any((path.rstrip("/") + "/").startswith(DEVICES + "/") for path in paths)


def is_over(pod: Object) -> bool:
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def _managers(view: ClusterSnapshot, node: str, mode: str) -> t.Iterator[dict[str, t.Any]]:
    """Yield the pools by which sriov-network-operator sets the mode of a node."""
    for pool in view.pools:
        spec = pool.get("spec") or {}
        wish = spec.get("rdmaMode")
        # findNodePoolConfig() in controllers/helper.go: pools for hardware offload are passed over, and one without
        # a selector is for every node.
        if not wish or (spec.get("ovsHardwareOffloadConfig") or {}).get("name"):
            continue
        if not matches_node(view.nodes[node], {"labelSelector": spec.get("nodeSelector")}):
            continue
        effect = "makes sriov-network-operator set this node's mode to %s" % wish
        effect += ", and reboot it for that" if wish != mode else " too: it writes modprobe.d and reboots on its own"
        yield _row(
            "SriovNetworkPoolConfig",
            pool,
            node,
            effect,
            "Remove spec.rdmaMode from it, and the operator removes what it wrote; or keep the node out of its "
            "nodeSelector",
        )


def _daemon_sets(view: ClusterSnapshot, node: str) -> t.Iterator[tuple[Object, Object]]:
    """Yield the DaemonSets that run on a node, and the specs of their pods."""
    for daemon_set in view.daemon_sets:
        spec = daemon_set["spec"]["template"]["spec"]
        where = {
            "nodeSelector": spec.get("nodeSelector"),
            "nodeAffinity": (spec.get("affinity") or {}).get("nodeAffinity"),
        }
        if matches_node(view.nodes[node], where):
            yield daemon_set, spec


def _monitors(view: ClusterSnapshot, node: str, acts: bool) -> t.Iterator[dict[str, t.Any]]:
    """Yield what looks at the devices of a node's host: those that act on what they see, or those that only show it."""
    runs = [("DaemonSet", daemon_set, spec) for daemon_set, spec in _daemon_sets(view, node)]
    for pod in view.pods:
        owners = [owner.get("kind") for owner in pod["metadata"].get("ownerReferences") or []]
        if pod["spec"].get("nodeName") == node and not is_over(pod) and "DaemonSet" not in owners:
            runs.append(("Pod", pod, pod["spec"]))
    for kind, body, spec in runs:
        monitor = monitor_of(spec)
        if monitor and monitor.acts == acts:
            yield _row(kind, body, node, monitor.what, monitor.remedy)


def monitors(view: ClusterSnapshot, mode: str) -> list[dict[str, t.Any]]:
    """Return what will show something wrong in a mode, and does nothing about it."""
    return [row for node in view.nodes for row in _monitors(view, node, False)] if mode == EXCLUSIVE else []


def _sharers(view: ClusterSnapshot, node: str) -> t.Iterator[dict[str, t.Any]]:
    """Yield what gives shares of devices out on a node."""
    labels = view.nodes[node]["metadata"].get("labels") or {}
    reported = set()
    for kind, policy in view.policies:
        spec = policy.get("spec") or {}
        where = {"nodeSelector": spec.get("nodeSelector"), "nodeAffinity": spec.get("nodeAffinity")}
        if spec.get("rdmaSharedDevicePlugin") is None or labels.get(_NIC_LABEL[0]) != _NIC_LABEL[1]:
            continue
        if matches_node(view.nodes[node], where):
            reported.add((kind, policy["metadata"]["name"]))
            yield _row(
                kind,
                policy,
                node,
                "runs the shared RDMA device plugin here, which does not start in mode exclusive",
                "Remove rdmaSharedDevicePlugin from its spec, or keep the node out of it, and allocate whole devices "
                "(sriovDevicePlugin)",
            )
    running = bool(reported)
    for daemon_set, spec in _daemon_sets(view, node):
        if not is_shared_plugin(spec):
            continue
        running = True
        makers = [
            (str(by.get("kind")), str(by.get("name"))) for by in daemon_set["metadata"].get("ownerReferences") or []
        ]
        if reported.intersection(makers):
            continue
        remedy = "Delete it, or keep it off the node by its nodeSelector, and allocate whole devices"
        if makers:
            remedy = "%s %s creates it: configure it to run no shared plugin here" % makers[0]
        elif (daemon_set["metadata"].get("labels") or {}).get(OWNER):
            remedy = "Set secondary_network_device_plugin to sriov or none"
        yield _row(
            "DaemonSet",
            daemon_set,
            node,
            "is the shared RDMA device plugin, which does not start in mode exclusive",
            remedy,
        )
    offered = (view.nodes[node].get("status") or {}).get("allocatable") or {}
    shares = sorted(name for name in offered if view.names.is_shared(name) and str(offered[name]) != "0")
    if shares and not running:
        yield _row(
            "Node",
            view.nodes[node],
            node,
            "offers shares of RDMA devices (%s)" % ", ".join("%s: %s" % (name, offered[name]) for name in shares),
            "Stop the shared RDMA device plugin that registers them with its kubelet; no DaemonSet of the cluster runs "
            "one",
        )


def _pod_for_exclusive(
    view: ClusterSnapshot, pod: Object, node: str, unknown: list[Gap]
) -> t.Iterator[dict[str, t.Any]]:
    held = pod_resources(pod["spec"])
    shares = sorted(name for name in held if view.names.is_shared(name))
    rdma = shares + sorted(name for name in held if name in view.names.whole)
    mounts = host_devices(pod)
    if not rdma and not mounts:
        return
    holds = " and ".join([*rdma, *([DEVICES] if mounts else [])])
    row = functools.partial(_row, "Pod", pod, node)
    if shares:
        yield row(
            "holds %s, a share of an RDMA device, which mode exclusive does not have" % ", ".join(shares),
            "Delete it, and let it request a whole device and an attachment with rdma in its chain",
        )
    networks = attached(pod, view.attachments)
    unknown.extend(Gap(node, text) for text in networks.unknown)
    if networks.on_top and not networks.moving:
        yield row(
            "holds %s and is attached by %s (macvlan or ipvlan), which cannot move the RDMA device"
            % (holds, ", ".join(networks.on_top)),
            "Delete it, and attach it by host-device, sriov or ib-sriov with rdma in the chain",
        )
    if pod["spec"].get("hostNetwork"):
        yield row(
            "is on the host's network and holds %s: it loses every device that is given to another pod" % holds,
            "Delete it, give it its own network and device, or keep its devices out of the pool for pods",
        )
    elif mounts:
        yield row(
            "mounts %s, and in mode exclusive sees no device there that is not in its own network namespace" % DEVICES,
            "Delete it, and let it request a whole device and an attachment with rdma in its chain",
        )


def _pod_for_shared(view: ClusterSnapshot, pod: Object, node: str, unknown: list[Gap]) -> t.Iterator[dict[str, t.Any]]:
    networks = attached(pod, view.attachments)
    unknown.extend(Gap(node, text) for text in networks.unknown)
    if networks.moving:
        yield _row(
            "Pod",
            pod,
            node,
            "is attached by %s, which moves the RDMA device and fails in mode shared" % ", ".join(networks.moving),
            "Delete it, and remove the plugin rdma (rdmaIsolation of ib-sriov) from the attachment",
        )


def conflicts(view: ClusterSnapshot, mode: str) -> tuple[list[dict[str, t.Any]], list[Gap]]:
    """Return what conflicts with a mode, by node and kind, and what is not known."""
    unknown = list(view.unknown)
    rows: list[dict[str, t.Any]] = []
    pods: dict[str | None, list[Object]] = {}
    for pod in view.pods:
        if not is_over(pod):
            pods.setdefault(pod["spec"].get("nodeName"), []).append(pod)
    for node in view.nodes:
        rows += _managers(view, node, mode)
        if mode == EXCLUSIVE:
            rows += [*_sharers(view, node), *_monitors(view, node, True)]
        judge = _pod_for_exclusive if mode == EXCLUSIVE else _pod_for_shared
        for pod in pods.get(node, []):
            rows += judge(view, pod, node, unknown)
    return rows, unknown


__all__ = (
    "DEVICES",
    "EXCLUSIVE",
    "Attached",
    "Gap",
    "ClusterSnapshot",
    "attached",
    "conflicts",
    "host_devices",
    "monitors",
    "moves_device",
)
