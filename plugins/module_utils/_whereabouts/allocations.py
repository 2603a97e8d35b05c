# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""What whereabouts' pools have, compared with the pods that exist. Values in, values out.

Names and keys are those of whereabouts 0.9: a pool is called [NETWORK-][NODE-]RANGE, an allocation is keyed by its
offset from the range's address and has the sandbox's id, the pod as NAMESPACE/NAME and the interface (IPPoolName(),
toAllocationMap() in pkg/storage/kubernetes/ipam.go); a reservation is called [NETWORK-]ADDRESS. No pod's UID is stored.
"""

from __future__ import annotations

import ipaddress
import typing as t

from .._formats import from_json

Address = t.Union[ipaddress.IPv4Address, ipaddress.IPv6Address]
Object = t.Mapping[str, t.Any]

# network-attachment-definition-client; the second is what Multus wrote before 3.9.
STATUS_KEYS = ("k8s.v1.cni.cncf.io/network-status", "k8s.v1.cni.cncf.io/networks-status")

LIVE = "live"
LEAKED = "leaked"
HELD = "held"  # without its pod, or not known to be; and not to be freed


class Allocation(t.NamedTuple):
    """An address that a pool has given out."""

    pool: str
    network: str
    offset: str
    address: Address
    container: str
    podref: str
    interface: str


class Verdict(t.NamedTuple):
    """What is known of an allocation's or a reservation's pod."""

    state: str
    why: str
    uid: str = ""


class Pod(t.NamedTuple):
    """What counts of a pod."""

    ref: str
    uid: str
    node: str
    phase: str
    ready: bool
    deleting: bool
    # None: nothing has been written yet, or it cannot be read.
    interfaces: list[tuple[str, str, Address]] | None  # attachment, interface, address


class Pool(t.NamedTuple):
    """A pool whose range could be read."""

    name: str
    network: str
    range: t.Any
    allocations: list[Allocation]
    malformed: list[dict[str, t.Any]]

    @property
    def size(self) -> int:
        """Addresses that are given out: not the first and not the last one (GetIPRange() in pkg/iphelpers)."""
        return max(0, self.range.num_addresses - 2)


def normal_range(text: str) -> str:
    """Return a range as it is in a pool's name (normalizeRange())."""
    return (text + "0" if text.endswith(":") else text).replace(":", "-").replace("/", "-")


def reservation_name(network: str, address: Address) -> str:
    """Return what the reservation of an address is called (NormalizeIP())."""
    text = normal_range(str(address))
    return "%s-%s" % (network, text) if network else text


def network_of(name: str, text: str, nodes: t.Container[str]) -> str:
    """Return the network name in a pool's name; with node slices the node's name stands behind it."""
    tail = normal_range(text)
    if name == tail or not name.endswith("-" + tail):
        return ""
    head = name[: -len(tail) - 1]
    if head in nodes:
        return ""
    parts = head.split("-")
    for number in range(1, len(parts)):
        if "-".join(parts[number:]) in nodes:
            return "-".join(parts[:number])
    return head


def read_pool(raw: Object, nodes: t.Container[str]) -> tuple[Pool | None, str]:
    """Return a pool, or why it cannot be one."""
    name = str(raw["metadata"]["name"])
    spec = raw.get("spec") or {}
    text = str(spec.get("range") or "")
    try:
        # Offsets count from the address as it is written, masked or not (ParseCIDR()).
        base = ipaddress.ip_interface(text)
    except ValueError:
        return None, "range is %r, which is not a network" % text
    pool = Pool(name, network_of(name, text, nodes), base.network, [], [])
    for offset, entry in sorted((spec.get("allocations") or {}).items(), key=lambda pair: (len(pair[0]), pair[0])):
        why = ""
        address = None
        if not (offset.isascii() and offset.isdigit()):
            why = "the offset %r is not a number, and whereabouts ignores it" % offset
        else:
            # Python refuses to make a number of thousands of digits; no address has a hundred.
            address = _offset(base.ip, int(offset)) if len(offset) < 100 else None
            if address is None or address not in base.network:
                why, address = "the offset %s is outside of %s" % (offset, base.network), None
        podref = str(entry.get("podref") or "")
        if not why and len(podref.split("/")) != 2:
            why = "podref is %r and not NAMESPACE/NAME" % podref
        if not why and not entry.get("id"):
            why = "it has no container id"
        if why or address is None:
            text_address = str(address) if address else None
            pool.malformed.append({"pool": name, "offset": offset, "address": text_address, "why": why})
            continue
        pool.allocations.append(
            Allocation(name, pool.network, offset, address, str(entry["id"]), podref, str(entry.get("ifname") or ""))
        )
    return pool, ""


def _offset(base: Address, offset: int) -> Address | None:
    try:
        return base + offset
    except ipaddress.AddressValueError:
        return None


def read_pod(raw: Object) -> Pod:
    meta, status = raw["metadata"], raw.get("status") or {}
    ready = any(
        condition.get("type") == "Ready" and condition.get("status") == "True"
        for condition in status.get("conditions") or []
    )
    return Pod(
        "%s/%s" % (meta["namespace"], meta["name"]),
        str(meta.get("uid") or ""),
        str((raw.get("spec") or {}).get("nodeName") or ""),
        str(status.get("phase") or "Unknown"),
        ready,
        bool(meta.get("deletionTimestamp")),
        _interfaces(meta.get("annotations") or {}),
    )


def _interfaces(annotations: Object) -> list[tuple[str, str, Address]] | None:
    text = next((annotations[key] for key in STATUS_KEYS if annotations.get(key)), None)
    if text is None:
        return None
    try:
        rows = from_json(text)
        return [
            (str(row.get("name") or ""), str(row.get("interface") or ""), ipaddress.ip_address(address))
            for row in rows
            if not row.get("default")
            for address in row.get("ips") or []
        ]
    except (ValueError, TypeError, AttributeError):
        return None


def not_ready(nodes: t.Iterable[Object], dead: t.Container[str]) -> list[str]:
    """Return the nodes that may run pods that no one sees; ``dead`` are known to be off."""
    names = []
    for node in nodes:
        name = str(node["metadata"]["name"])
        conditions = (node.get("status") or {}).get("conditions") or []
        if name not in dead and not any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions):
            names.append(name)
    return sorted(names)


def judge(podref: str, address: Address, pods: t.Mapping[str, Pod], silent: t.Sequence[str]) -> Verdict:
    """Return whether the pod of an allocation exists; ``silent`` are the nodes that are not ready."""
    pod = pods.get(podref)
    if pod is None:
        if silent:
            return Verdict(
                HELD,
                "the pod %s no longer exists, but may still run on a node that is not ready (%s)"
                % (podref, _some(silent)),
            )
        return Verdict(LEAKED, "the pod %s does not exist" % podref)
    if any(address == own for _name, _interface, own in pod.interfaces or ()):
        return Verdict(LIVE, "", pod.uid)
    if pod.node in silent:
        return Verdict(HELD, "the pod %s is on node %s, which is not ready" % (podref, pod.node), pod.uid)
    if pod.deleting:
        return Verdict(HELD, "the pod %s is being deleted" % podref, pod.uid)
    # A pod that starts again by its old name is given its old allocation (AssignIP() in pkg/allocate).
    if pod.phase != "Running" or not pod.ready or pod.interfaces is None:
        return Verdict(HELD, "the pod %s is not up: %s" % (podref, _not_up(pod)), pod.uid)
    return Verdict(
        LEAKED,
        "the pod %s that is there now (uid %s) has other addresses, so this one belonged to an earlier pod"
        % (podref, pod.uid),
        pod.uid,
    )


def _not_up(pod: Pod) -> str:
    if pod.phase != "Running":
        return pod.phase
    return "not ready" if not pod.ready else "no readable network-status"


def _some(names: t.Sequence[str], most: int = 5) -> str:
    return ", ".join(names[:most]) + (" and %d more" % (len(names) - most) if len(names) > most else "")


def duplicates(pools: t.Sequence[Pool], pods: t.Iterable[Pod]) -> list[dict[str, t.Any]]:
    """Return the addresses that two allocations, or two pods, have."""
    allocated: dict[tuple[str, Address], list[str]] = {}
    for pool in pools:
        for allocation in pool.allocations:
            allocated.setdefault((allocation.network, allocation.address), []).append(
                "%s%s in pool %s"
                % (allocation.podref, " (%s)" % allocation.interface if allocation.interface else "", pool.name)
            )
    result = [
        {"address": str(address), "network": network, "of": "allocations", "holders": sorted(holders)}
        for (network, address), holders in allocated.items()
        if len(holders) > 1
    ]
    worn: dict[tuple[str, Address], list[str]] = {}
    for pod in pods:
        if pod.phase in ("Succeeded", "Failed"):
            continue
        for attachment, interface, address in pod.interfaces or ():
            spaces = {pool.network for pool in pools if pool.range.version == address.version and address in pool.range}
            # Pools of several networks may have one range: then the attachment shows which network it is.
            for space in spaces if len(spaces) < 2 else {attachment}:
                worn.setdefault((space, address), []).append("%s (%s)" % (pod.ref, interface))
    result += [
        {"address": str(address), "network": network, "of": "pods", "holders": sorted(holders)}
        for (network, address), holders in worn.items()
        if len(holders) > 1
    ]
    return sorted(result, key=lambda row: (row["address"], row["of"]))


def unrecorded(pools: t.Sequence[Pool], pods: t.Iterable[Pod]) -> list[dict[str, t.Any]]:
    """Return addresses out of a pool's range that a pod has and no pool records: they may be given out again."""
    recorded = {allocation.address for pool in pools for allocation in pool.allocations}
    result = []
    for pod in pods:
        if pod.phase != "Running" or pod.deleting:
            continue
        for _attachment, interface, address in pod.interfaces or ():
            pool = next(
                (
                    candidate
                    for candidate in pools
                    if candidate.range.version == address.version and address in candidate.range
                ),
                None,
            )
            if pool is not None and address not in recorded:
                result.append({"pool": pool.name, "address": str(address), "pod": pod.ref, "interface": interface})
    return sorted(result, key=lambda row: (row["pool"], row["address"]))


__all__ = (
    "HELD",
    "LEAKED",
    "LIVE",
    "Address",
    "Allocation",
    "Pod",
    "Pool",
    "Verdict",
    "duplicates",
    "judge",
    "network_of",
    "normal_range",
    "not_ready",
    "read_pod",
    "read_pool",
    "reservation_name",
    "unrecorded",
)
