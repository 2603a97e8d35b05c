# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""Whether the RDMA and network devices of all cards are where they belong: with the host, or in a live pod."""

from __future__ import annotations

import time
import typing as t

from .._decision import DRIFT, IN_SYNC, UNKNOWN, resource
from .._netns import walk
from .._rdma import devices, pci_netdevs
from .._rdma.pci_netdevs import Netdev
from .info import Host, gather_info, pod_of, pod_text, with_claims

if t.TYPE_CHECKING:  # pragma: no cover
    from .._netns.child import Answer
    from .._netns.survey import Namespace

KIND, NETDEV = "rdma_device", "network_device"
PLACE = "the host, or a running pod"
MAX_HOLDERS = 3


# Where something was: its index or identity, and the inode of the namespace.
Places = t.AbstractSet[t.Tuple[t.Any, int]]


class Card(t.NamedTuple):
    """A network device of a PCI card, in the namespace ``inode``."""

    netdev: Netdev
    inode: int

    @property
    def key(self) -> tuple[str, int]:
        return self.netdev.identity, self.inode


class AuditHost(Host):
    """The edges, with what keeps each namespace of the last look, and the network devices that it has."""

    def __init__(self) -> None:
        self.spaces: dict[int, Namespace] = {}
        self.cards: list[Card] = []

    def other_namespaces(self) -> tuple[list[Namespace], str | None]:
        result = super().other_namespaces()
        self.spaces = {space.inode: space for space in result[0]}
        return result

    def look(self, gather: t.Collection[str]) -> dict[str, t.Any]:
        self.cards = [Card(netdev, self.own()) for netdev in pci_netdevs.netdevs()]
        return super().look(gather)

    def look_inside(self, spaces: t.Sequence[Namespace], gather: t.Collection[str]) -> dict[int, Answer]:
        answers = walk.look_into(spaces, lambda: (devices.look(gather), pci_netdevs.netdevs()))
        for inode, answer in answers.items():
            if "value" in answer:
                look, inside = answer["value"]
                answer["value"] = look
                self.cards += [Card(Netdev(*netdev), inode) for netdev in inside]
        return answers

    def wait(self, seconds: int) -> None:
        time.sleep(seconds)


def stranded(info: t.Mapping[str, t.Any]) -> Places:
    """Return the devices that neither the host nor a pod has.

    By their indexes: a name need not be unique on the host (it is unique per namespace from Linux 7.3 on), and an index
    is (assign_name() in drivers/infiniband/core/device.c).
    """
    # In any other mode a device is shared, and the host's own.
    if info["netns_mode"] != "exclusive":
        return set()
    return {
        (device["index"], device["netns"]["inode"])
        for device in info["devices"]
        if not device["netns"]["initial"] and device["pod"] is None
    }


def _holders(space: Namespace | None) -> str:
    if space is None or not space.holders:
        return ""
    named = []
    for holder in space.holders[:MAX_HOLDERS]:
        label = holder.path if holder.kind == "mount" else "process %d (%s)" % (holder.pid, holder.command)
        named.append(label if label not in named else "")
    more = space.holders_total - MAX_HOLDERS
    return ", held by " + ", ".join(filter(None, named)) + (" and %d more" % more if more > 0 else "")


def _place(device: t.Mapping[str, t.Any], host: AuditHost) -> str:
    where, pod = device["netns"], device["pod"]
    if pod is not None:
        return pod_text(pod) + (", by the claim %s" % ", ".join(pod["claims"]) if pod["claims"] else "")
    name = "netns %s" % where["name"] if where["name"] else "net:[%d]" % where["inode"]
    return name + _holders(host.spaces.get(where["inode"]))


def stranded_cards(host: AuditHost) -> Places:
    """Return the network devices that neither the host nor a pod has."""
    names = host.pods()
    return {
        card.key for card in host.cards if card.inode in host.spaces and pod_of(host.spaces[card.inode], names) is None
    }


class Look(t.NamedTuple):
    """What one look at the host has found."""

    info: t.Mapping[str, t.Any]
    devices: Places
    cards: Places


def look(host: AuditHost) -> Look:
    info = gather_info([], True, host)
    return Look(info, stranded(info), stranded_cards(host))


def _status(key: tuple[t.Any, int], now: Places, before: Places) -> tuple[str, str | None]:
    """Drift is what was stranded at both looks, in one and the same namespace."""
    if key not in now:
        return IN_SYNC, None
    if key in before:
        return DRIFT, None
    return UNKNOWN, "it is being moved between network namespaces"


def _cards(host: AuditHost, now: Places, before: Places) -> list[dict[str, t.Any]]:
    """Return a resource for each network device of a card, under its identity."""
    rows = []
    names, claims = host.pods(), host.claims()
    for card in sorted(host.cards, key=lambda item: (item.netdev.identity, item.netdev.name)):
        netdev = card.netdev
        status, why = _status(card.key, now, before)
        live = "%s on the host" % netdev.name
        if card.inode in host.spaces:
            space = host.spaces[card.inode]
            pod = with_claims(pod_of(space, names), claims)
            where = {"netns": {"inode": card.inode, "name": space.name}, "pod": pod}
            live = "%s in %s" % (netdev.name, _place(where, host))
        row = resource(NETDEV, netdev.identity, desired=PLACE, live=live, status=status)
        what = {"pci_address": netdev.pci_address, "auxiliary_device": netdev.auxiliary, "port": netdev.port}
        rows.append({**row, "why": why, **what})
    return rows


def judge(last: Look, before: Look, host: AuditHost, expected: t.Iterable[str]) -> list[dict[str, t.Any]]:
    """Return a resource for each device, each expected one that is nowhere, and each place that hides what is in it."""
    info = last.info
    rows = []
    known = {name for card in host.cards for name in (str(card.netdev.function), card.netdev.identity)}
    for device in info["devices"]:
        name = device["name"]
        function = "/".join(filter(None, (device.get("pci_address"), device.get("auxiliary_device"))))
        known.update(filter(None, (name, device.get("node_guid"), function)))
        live = "the host"
        if info["netns_mode"] == "exclusive" and not device["netns"]["initial"]:
            live = _place(device, host)
        status, why = _status((device["index"], device["netns"]["inode"]), last.devices, before.devices)
        row = resource(KIND, name, desired=PLACE, live=live, status=status)
        rows.append({**row, "why": why, "node_guid": _guid(device)})
    rows += _cards(host, last.cards, before.cards)
    hidden = [line for line in info["unreadable"] if line["device"] is None]
    for line in hidden:
        where = line["netns"]
        name = "network namespaces" if where is None else str(where["name"] or "net:[%d]" % where["inode"])
        why = "%s: %s" % (line["what"], line["error"])
        rows.append({**resource(KIND, name, desired=PLACE, status=UNKNOWN), "why": why})
    for name in expected:
        if name not in known:
            # If not all could be read, it may be there.
            status, why = (UNKNOWN, "not all network namespaces could be looked at") if hidden else (DRIFT, None)
            rows.append(
                {**resource(KIND, name, desired=PLACE, live=None if hidden else "nowhere", status=status), "why": why}
            )
    return rows


def _guid(device: t.Mapping[str, t.Any]) -> str | None:
    """Return the node GUID; None also if it is zero, as a virtual function's is until it gets one."""
    guid = device.get("node_guid")
    return guid if guid and guid.strip("0:") else None


def audit(expected: t.Sequence[str], settle: int, host: AuditHost) -> dict[str, t.Any]:
    """Return what the module rdma_audit_info returns."""
    before = last = look(host)
    if (before.devices or before.cards) and settle:
        host.wait(settle)
        last = look(host)
    return {"netns_mode": last.info["netns_mode"], "resources": judge(last, before, host, expected)}


__all__ = ("AuditHost", "Card", "audit", "judge", "look", "stranded", "stranded_cards")
