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
from .info import Host, gather_info, pod_of, pod_text

if t.TYPE_CHECKING:  # pragma: no cover
    from .._netns.child import Answer
    from .._netns.survey import Namespace

KIND, NETDEV = "rdma_device", "network_device"
PLACE = "the host, or a running pod"
MAX_HOLDERS = 3


class Card(t.NamedTuple):
    """A network device of a PCI card, in the namespace ``inode``."""

    name: str
    pci_address: str
    inode: int


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
        self.cards = [Card(*netdev, self.own()) for netdev in pci_netdevs.netdevs()]
        return super().look(gather)

    def look_inside(self, spaces: t.Sequence[Namespace], gather: t.Collection[str]) -> dict[int, Answer]:
        answers = walk.look_into(spaces, lambda: (devices.look(gather), pci_netdevs.netdevs()))
        for inode, answer in answers.items():
            if "value" in answer:
                look, inside = answer["value"]
                answer["value"] = look
                self.cards += [Card(name, address, inode) for name, address in inside]
        return answers

    def wait(self, seconds: int) -> None:
        time.sleep(seconds)


def stranded(info: t.Mapping[str, t.Any]) -> dict[str, int]:
    """Return the devices that neither the host nor a pod has, with the inodes of their namespaces."""
    # In any other mode a device is shared, and the host's own.
    if info["netns_mode"] != "exclusive":
        return {}
    return {
        device["name"]: device["netns"]["inode"]
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


def _place(device: t.Mapping[str, t.Any], spaces: t.Mapping[int, Namespace]) -> str:
    where, pod = device["netns"], device["pod"]
    if pod is not None:
        return pod_text(pod)
    name = "netns %s" % where["name"] if where["name"] else "net:[%d]" % where["inode"]
    return name + _holders(spaces.get(where["inode"]))


def stranded_cards(host: AuditHost) -> dict[str, int]:
    """Return the PCI addresses whose network device neither the host nor a pod has, with the inodes of namespaces."""
    names = host.pods()
    return {
        card.pci_address: card.inode
        for card in host.cards
        if card.inode in host.spaces and pod_of(host.spaces[card.inode], names) is None
    }


class Look(t.NamedTuple):
    """What one look at the host has found."""

    info: t.Mapping[str, t.Any]
    devices: t.Mapping[str, int]
    cards: t.Mapping[str, int]


def look(host: AuditHost) -> Look:
    info = gather_info([], True, host)
    return Look(info, stranded(info), stranded_cards(host))


def _status(name: str, now: t.Mapping[str, int], before: t.Mapping[str, int]) -> tuple[str, str | None]:
    """Drift is what was stranded at both looks, in one and the same namespace."""
    if name not in now:
        return IN_SYNC, None
    if before.get(name) == now[name]:
        return DRIFT, None
    return UNKNOWN, "it is being moved between network namespaces"


def _cards(host: AuditHost, now: t.Mapping[str, int], before: t.Mapping[str, int]) -> list[dict[str, t.Any]]:
    """Return a resource for each network device of a card, under the card's PCI address."""
    rows = []
    names = host.pods()
    for card in sorted(host.cards, key=lambda item: (item.pci_address, item.name)):
        status, why = _status(card.pci_address, now, before)
        live = "%s on the host" % card.name
        if card.inode in host.spaces:
            space = host.spaces[card.inode]
            where = {"netns": {"inode": card.inode, "name": space.name}, "pod": pod_of(space, names)}
            live = "%s in %s" % (card.name, _place(where, host.spaces))
        rows.append({**resource(NETDEV, card.pci_address, desired=PLACE, live=live, status=status), "why": why})
    return rows


def judge(last: Look, before: Look, host: AuditHost, expected: t.Iterable[str]) -> list[dict[str, t.Any]]:
    """Return a resource for each device, each expected one that is nowhere, and each place that hides what is in it."""
    info = last.info
    rows = []
    known = {card.pci_address for card in host.cards}
    for device in info["devices"]:
        name = device["name"]
        known.update(filter(None, (name, device.get("node_guid"), device.get("pci_address"))))
        live = "the host"
        if info["netns_mode"] == "exclusive" and not device["netns"]["initial"]:
            live = _place(device, host.spaces)
        status, why = _status(name, last.devices, before.devices)
        rows.append({**resource(KIND, name, desired=PLACE, live=live, status=status), "why": why})
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


def audit(expected: t.Sequence[str], settle: int, host: AuditHost) -> dict[str, t.Any]:
    """Return what the module rdma_audit returns."""
    before = last = look(host)
    if (before.devices or before.cards) and settle:
        host.wait(settle)
        last = look(host)
    return {"netns_mode": last.info["netns_mode"], "resources": judge(last, before, host, expected)}


__all__ = ("AuditHost", "Card", "audit", "judge", "look", "stranded", "stranded_cards")
