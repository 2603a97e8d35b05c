# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""One network attachment and one address range for each rail of a cluster, from what its nodes have."""

from __future__ import annotations

import collections
import re
import typing as t

from . import ports as rails_ports
from . import ranges
from .existing import Kept, existing_attachments
from .nodes import Node, Slot, interfaces, look
from .ranges import DOING, SHOWN, Network, PlanError

SELECT = ("auto", "name", "pci", "resource")
PLUGINS = ("host-device", "macvlan", "ipvlan", "ipoib", "sriov", "ib-sriov")
# Of these the host keeps the network device, so that a pod needs no device itself.
SHARING = ("macvlan", "ipvlan", "ipoib")


def _by(how: str, slot: Slot) -> str | None:
    return slot.netdev if how == "name" else slot.pci_bus_id


def _keys(how: str, node: Node) -> tuple[str, ...] | None:
    keys = [_by(how, slot) for slot in node.slots]
    return None if None in keys else t.cast("tuple[str, ...]", tuple(keys))


def _agreement(how: str, nodes: t.Sequence[Node]) -> tuple[Node, list[Node]] | None:
    """Return a node that is like most, and those that are not like it; None if this cannot distinguish them."""
    keys = {node.name: _keys(how, node) for node in nodes}
    home = [node for node in nodes if not node.away]
    # A node whose devices are all at home shows every rail; without one, what is at home somewhere.
    counted = collections.Counter(key for key in (keys[node.name] for node in home or nodes) if key)
    if not counted:
        return None
    # Of several as frequent, the one with most rails: a rail that is missing is odder than one that is there.
    most = max(counted, key=lambda key: (counted[key], len(key)))
    like = next(node for node in nodes if keys[node.name] == most)
    # A node with devices in pods has the rest of them at home.
    whole = set(most)
    odd = []
    for node in nodes:
        key = keys[node.name]
        fine = key is not None and (set(key) == whole or (set(key) <= whole and len(whole) - len(key) <= node.away))
        if not fine:
            odd.append(node)
    return like, odd


def _difference(node: Node, like: Node) -> str:
    """Describe what an odd node has where the others have something else."""
    for number, (ours, theirs) in enumerate(zip(node.slots, like.slots)):
        if len(node.slots) == len(like.slots) and (ours.pci, ours.netdev) != (theirs.pci, theirs.netdev):
            return "%s has rail %d at %s, the others at %s" % (node.name, number, ours.place, theirs.place)
    mine = {slot.netdev for slot in node.slots} | {slot.pci_bus_id for slot in node.slots if slot.pci_bus_id}
    lacks = [slot for slot in like.slots if slot.netdev not in mine and slot.pci_bus_id not in mine]
    theirs_all = {slot.netdev for slot in like.slots} | {slot.pci_bus_id for slot in like.slots if slot.pci_bus_id}
    more = [slot for slot in node.slots if slot.netdev not in theirs_all and slot.pci_bus_id not in theirs_all]
    parts = []
    for slot in lacks:
        why = node.left_out.get(slot.netdev) or node.left_out.get(slot.device)
        parts.append("lacks %s%s" % (slot.place, ": " + why if why else ""))
    parts += ["also has %s" % slot.place for slot in more]
    return "%s has %d rails, the others %d%s" % (
        node.name,
        len(node.slots),
        len(like.slots),
        ": it " + "; it ".join(parts[:SHOWN]) if parts else "",
    )


def _differ(odd: t.Sequence[Node], like: Node, total: int, hint: str) -> PlanError:
    shown = ". ".join(_difference(node, like) for node in odd[:SHOWN])
    more = ". And %d more of %d nodes" % (len(odd) - SHOWN, total) if len(odd) > SHOWN else ""
    return PlanError("Could not %s: nodes differ: %s%s. %s" % (DOING, shown, more, hint))


_HINT = (
    "One attachment serves all nodes, so a rail needs the same name or the same PCI address on each of them. "
    "Fix the node, leave out the port with exclude, name the network devices alike (systemd.link(5)), "
    "or let a device plugin choose and set resources"
)


_IN_PARENT = (
    "%s is the network device of a sub-function, and pciBusID is the address of its parent, whose own network device "
    "host-device would move. Give sub-functions the same names on all nodes (systemd.link(5)) and select them by name, "
    "or let a device plugin choose and set resources"
)
# Multus puts a device plugin's choice into pciBusID (delegateAddDeviceID() in pkg/types/conf.go), and with the
# capability into runtimeConfig, where host-device looks for an auxiliary device (handleDeviceID() in host-device.go).
_INCAPABLE = (
    "%s is the network device of a sub-function, and without the capability deviceID Multus passes its auxiliary "
    "device to host-device as pciBusID, so pods do not start. Set options to {'capabilities': {'deviceID': true}}"
)
_IMMOVABLE = (
    "%s is a %s, which the kernel does not move to another network namespace, so host-device cannot give it to a pod. "
    "Set plugin to macvlan or ipvlan, by which a pod gets a network device on %s; its RDMA device stays with the host, "
    "where pods can use it in mode shared. Or leave out %s with exclude"
)
# As in _cni/lint_nodes.py.
_IMMUTABLE = "netns-immutable device (as that of a physical function of mlx5 in switchdev mode)"


def _sub_function(nodes: t.Sequence[Node]) -> str | None:
    """Describe the first network device of a sub-function."""
    return next(
        ("%s of %s" % (slot.netdev, node.name) for node in nodes for slot in node.slots if slot.auxiliary), None
    )


def _check_host_device(how: str, nodes: t.Sequence[Node], options: Options) -> None:
    """Refuse what host-device cannot give to a pod."""
    if options.plugin != "host-device":
        return
    if how == "resource":
        place = _sub_function(nodes)
        if place and not ((options.options or {}).get("capabilities") or {}).get("deviceID"):
            raise PlanError("Could not %s: %s" % (DOING, _INCAPABLE % place))
        return
    for node in nodes:
        for slot in node.slots:
            if slot.can_change_netns is False:
                place = "%s of %s" % (slot.netdev, node.name)
                text = _IMMOVABLE % (place, slot.kind or _IMMUTABLE, slot.netdev, slot.netdev)
                raise PlanError("Could not %s: %s" % (DOING, text))


def _choose(select: str, nodes: t.Sequence[Node], resources: t.Sequence[str]) -> tuple[str, Node]:
    """Return what distinguishes rails, and a node that has what all have."""
    if select == "resource" or (select == "auto" and resources):
        # A device plugin counts what is in pods too.
        totals = {node.name: len(node.slots) + node.away for node in nodes}
        like = collections.Counter(totals.values()).most_common(1)[0][0]
        first = max((node for node in nodes if totals[node.name] == like), key=lambda node: len(node.slots))
        odd = [node for node in nodes if totals[node.name] != like]
        if odd:
            raise _differ(odd, first, len(nodes), "A device plugin needs the same number on each of them")
        if len(resources) not in (1, like):
            raise PlanError(
                "Could not %s: resources has %d names for %d rails. Give one for each rail, or one for all"
                % (DOING, len(resources), like)
            )
        if not like:
            raise PlanError("Could not %s: no node has a port that can be a rail%s" % (DOING, _nothing(nodes)))
        padding = [Slot("", None, None, "")] * first.away
        return "resource", first._replace(slots=first.slots + padding)
    refused = []
    sub_function = _sub_function(nodes)
    if select == "pci" and sub_function:
        raise PlanError("Could not %s: %s" % (DOING, _IN_PARENT % sub_function))
    for how in ("name", "pci") if select == "auto" else (select,):
        agreement = _agreement(how, nodes)
        if agreement is None:
            continue
        like_node, odd = agreement
        if not odd:
            return how, like_node
        refused.append((len(odd), odd, like_node))
    if not refused:
        raise PlanError("Could not %s: no node has a port that can be a rail%s" % (DOING, _nothing(nodes)))
    _count, odd, like_node = min(refused, key=lambda refusal: refusal[0])
    raise _differ(odd, like_node, len(nodes), _IN_PARENT % sub_function if sub_function else _HINT)


def _nothing(nodes: t.Sequence[Node]) -> str:
    """Describe the first nodes' reasons."""
    parts = []
    for node in nodes[:SHOWN]:
        why = ["%s: %s" % pair for pair in sorted(node.left_out.items())]
        if node.away:
            why.append("%d devices are in pods" % node.away)
        parts.append("%s: %s" % (node.name, "; ".join(why) or "no RDMA device"))
    return ". " + ". ".join(parts) + ". Devices held by pods return when the pods end"


class Options(t.NamedTuple):
    """The options of the filter rail_plan."""

    expected_pods: t.Any = None
    pods_per_node: int = 1
    growth: float = 2.0
    include: t.Any = None
    exclude: t.Any = None
    existing: t.Any = None
    avoid: t.Any = None
    select: str = "auto"
    resources: t.Any = None
    prefix: str = "rail"
    plugin: str = "host-device"
    options: t.Any = None
    ipam: t.Any = None

    def checked(self) -> Options:
        """Return the options with names in full and resources as a list of strings; raise if one is not valid."""
        options = self._replace(
            select=rails_ports.choice(self.select, "Could not %s: select" % DOING, SELECT),
            plugin=rails_ports.choice(self.plugin, "Could not %s: plugin" % DOING, PLUGINS),
            resources=[str(resource) for resource in self.resources or ()],
        )
        if options.select == "resource" and not options.resources:
            raise PlanError("Could not %s: select is resource, but resources is empty" % DOING)
        if not re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,40})", self.prefix):
            raise PlanError(
                "Could not %s: prefix is %s; attachments are named after it, so it must consist of a-z, 0-9 and '-' "
                "(RFC 1123)" % (DOING, rails_ports.brief(self.prefix))
            )
        return options


def plan(info: t.Any, network: t.Any, options: Options) -> dict[str, t.Any]:
    """Return the plan: rails, attachments for the module network_attachment, expected pods, and a table to show.

    Without a network, the plan has no ranges and no attachments. Pods then claim rails with the host's addresses.
    """
    if not isinstance(info, t.Mapping) or not info:
        raise rails_ports.RailsTypeError(
            "Could not %s: the input must be a dictionary of node names to what rdma_info returned there, not %s"
            % (DOING, rails_ports.brief(info))
        )
    options = options.checked()
    growth = options.growth
    pods = ranges.pods_of(len(info), options.expected_pods, options.pods_per_node, growth)
    space = ranges.network_of(network, "network") if network else None
    selection = rails_ports.Selection(options.include, options.exclude, DOING)
    order = sorted(info, key=lambda name: rails_ports.natural(str(name)))
    nodes = [look(str(name), info[name], selection) for name in order]
    kept = existing_attachments(options.existing)
    in_pods = [] if options.resources else _in_pods(nodes, kept)
    if in_pods and not any(node.slots for node in nodes):
        how, like = "name", nodes[0]
    else:
        how, like = _choose(options.select, nodes, options.resources)
    _check_host_device(how, nodes, options)
    rails = _name_rails(how, like, options.resources, kept, options.prefix) + _kept_rails(in_pods, len(like.slots))
    if space:
        ours = {rail["name"] for rail in rails}
        foreign = [(other.name, other.network) for other in kept if other.network and other.name not in ours]
        addresses = ranges.avoid(_host_addresses(info, like), options.avoid or ())
        ranges.assign(rails, space, pods, growth, addresses, foreign)
    result = {
        "select": how,
        "rails": rails,
        "attachments": [_attachment(rail, options) for rail in rails] if space else [],
        "expected_pods": pods,
        "excluded": [
            {"node": node.name, "device": key, "why": why} for node in nodes for key, why in node.left_out.items()
        ],
        "notes": _notes(how, nodes, like),
    }
    result["table"] = _table(result, len(nodes), space, growth)
    return result


def _host_addresses(info: t.Mapping[t.Any, t.Any], like: Node) -> t.Iterator[str]:
    """Yield the addresses of all network devices that are not rails."""
    netdevs = {slot.netdev for slot in like.slots}
    for name in info:
        for interface in interfaces(str(name), info[name]).values():
            if interface["name"] not in netdevs:
                yield from interface.get("addresses") or ()


def _name_rails(
    how: str, like: Node, resources: t.Sequence[str], kept: t.Sequence[Kept], prefix: str
) -> list[dict[str, t.Any]]:
    """Return the rails in the order of their places, each by the name that its attachment has already."""
    known = {attachment.selector: attachment for attachment in kept if attachment.selector}
    names = {attachment.name for attachment in kept}
    rails: list[dict[str, t.Any]] = []
    used: set[str] = set()
    for number, slot in enumerate(like.slots):
        if how == "resource":
            selector = {"resourceName": resources[number] if len(resources) > 1 else resources[0]}
        else:
            selector = {"device": slot.netdev} if how == "name" else {"pciBusID": t.cast(str, slot.pci)}
        pair = next(iter(selector.items()))
        old = known.get(pair)
        # One resource may serve several rails: then the number in the name distinguishes them.
        if old is not None and old.name in used:
            old = next((other for other in kept if other.selector == pair and other.name not in used), None)
        if old is None and how == "resource":
            name = "%s%d" % (prefix, number)
            old = next((other for other in kept if other.name == name and other.name not in used), None)
        if old is not None:
            used.add(old.name)
        rails.append(
            {
                "rail": number,
                "name": old.name if old else "",
                "netdev": slot.netdev or None,
                "pci_address": slot.pci,
                "auxiliary_device": slot.auxiliary,
                "numa_node": slot.numa,
                "selector": selector,
                "range": old.network if old else None,
                "kept": bool(old and old.network),
            }
        )
    free = (
        name
        for name in ("%s%d" % (prefix, number) for number in range(len(rails) + len(names) + 1))
        if name not in names
    )
    for rail in rails:
        # The position in the name, if no other rail has that name.
        own = "%s%d" % (prefix, rail["rail"])
        if not rail["name"]:
            rail["name"] = own if own not in names | used else next(name for name in free if name not in used)
            used.add(rail["name"])
    return rails


def _in_pods(nodes: t.Sequence[Node], kept: t.Sequence[Kept]) -> list[Kept]:
    """Return the attachments whose devices no node has at home, because pods have them everywhere."""
    if not all(node.away for node in nodes):
        return []
    home = {key for node in nodes for slot in node.slots for key in (slot.netdev, slot.pci_bus_id)}
    attachments = [old for old in kept if old.network and old.selector and old.selector[1] not in home]
    away = min(node.away for node in nodes)
    if away > len(attachments):
        raise PlanError(
            "Could not %s: on every node devices are in pods, at least %d, and only %d of the existing attachments "
            "belong to such devices. Plan when one node has no RDMA pod, or pass the attachments in existing"
            % (DOING, away, len(attachments))
        )
    return attachments


def _kept_rails(in_pods: t.Sequence[Kept], first: int) -> list[dict[str, t.Any]]:
    rails = []
    for number, attachment in enumerate(in_pods, first):
        key, value = t.cast("tuple[str, str]", attachment.selector)
        rails.append(
            {
                "rail": number,
                "name": attachment.name,
                "netdev": value if key == "device" else None,
                "pci_address": value if key == "pciBusID" else None,
                "auxiliary_device": None,
                "numa_node": None,
                "selector": {key: value},
                "range": attachment.network,
                "kept": True,
            }
        )
    return rails


def _attachment(rail: t.Mapping[str, t.Any], options: Options) -> dict[str, t.Any]:
    selector = rail["selector"]
    attachment: dict[str, t.Any] = {"name": rail["name"], "type": options.plugin}
    if "resourceName" in selector:
        attachment["resource_name"] = selector["resourceName"]
    elif "pciBusID" in selector:
        attachment["pci_bus_id"] = selector["pciBusID"]
    else:
        attachment["master" if options.plugin in SHARING else "device"] = selector["device"]
    attachment["ipam"] = {"type": "whereabouts", **(options.ipam or {}), "range": rail["range"]}
    attachment.update(options.options or {})
    return attachment


def _notes(how: str, nodes: t.Sequence[Node], like: Node) -> list[str]:
    """Describe what matters but does not prevent the plan: rails that are not in the same place of the machine."""
    notes = []
    away = [node.name for node in nodes if node.away]
    if away:
        notes.append("Devices are in pods, so they were not compared, on %s." % _some(away))
    if how != "name":
        return notes
    usual = {slot.netdev: slot for slot in like.slots}
    for attribute, called in (("pci", "PCI address"), ("numa", "NUMA node")):
        other: dict[str, list[str]] = {}
        for node in nodes:
            for slot in node.slots:
                if slot.netdev in usual and getattr(slot, attribute) != getattr(usual[slot.netdev], attribute):
                    other.setdefault(slot.netdev, []).append(node.name)
        for netdev, names in sorted(other.items()):
            notes.append("%s has a different %s on %s than elsewhere." % (netdev, called, _some(names)))
    return notes


def _some(names: t.Sequence[str]) -> str:
    return ", ".join(names[:SHOWN]) + (" and %d more" % (len(names) - SHOWN) if len(names) > SHOWN else "")


def _table(result: t.Mapping[str, t.Any], nodes: int, space: Network | None, growth: float) -> str:
    head: tuple[str, ...] = ("rail", "attachment" if space else "template", "selected by", "PCI address", "NUMA")
    head += ("range", "addresses", "") if space else ()
    rows = [head]
    for rail in result["rails"]:
        key, value = next(iter(rail["selector"].items()))
        rows.append(
            (
                str(rail["rail"]),
                rail["name"],
                "%s %s" % (key, value),
                rail["pci_address"] or "-",
                "-" if rail["numa_node"] is None else str(rail["numa_node"]),
                *((rail["range"], str(rail["addresses"]), "kept" if rail["kept"] else "new") if space else ()),
            )
        )
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]
    lines.insert(
        0,
        "%d rails on %d nodes out of %s, for %d pods and growth %s:"
        % (len(result["rails"]), nodes, space, result["expected_pods"], ranges.number(growth))
        if space
        else "%d rails on %d nodes, with the addresses of the host:" % (len(result["rails"]), nodes),
    )
    reasons: dict[tuple[str, str], list[str]] = {}
    for port in result["excluded"]:
        reasons.setdefault((port["device"], port["why"]), []).append(port["node"])
    for (device, why), names in sorted(reasons.items()):
        where = "all nodes" if len(names) == nodes else _some(names)
        lines.append("Left out: %s on %s: %s." % (device, where, why))
    return "\n".join(lines + list(result["notes"])) + "\n"


__all__ = ("PLUGINS", "SELECT", "Options", "PlanError", "plan")
