# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""One network attachment and one address range for each rail of a cluster, from what its nodes have."""

from __future__ import annotations

import collections
import re
import typing as t

from .._formats import from_json
from . import ports as rails_ports
from . import ranges
from .ranges import DOING, SHOWN, Network, PlanError

SELECT = ("auto", "name", "pci", "resource")
PLUGINS = ("host-device", "macvlan", "ipvlan", "ipoib", "sriov", "ib-sriov")
# Of these the host keeps the network device, so that a pod needs no device itself.
SHARING = ("macvlan", "ipvlan", "ipoib")


class Slot(t.NamedTuple):
    """A port that may become a rail, on one node."""

    netdev: str
    pci: str | None
    numa: int | None
    device: str

    @property
    def place(self) -> str:
        return "%s (%s)" % (self.pci, self.netdev) if self.pci else self.netdev


class Node(t.NamedTuple):
    """A node, sorted into what can be a rail and what cannot."""

    name: str
    slots: list[Slot]
    left_out: dict[str, str]  # netdev, or RDMA device if it has none: why
    away: int  # devices that are in pods now, and so cannot be compared


class Kept(t.NamedTuple):
    """An attachment that is there already."""

    name: str
    network: str | None
    selector: tuple[str, str] | None


def _interfaces(name: str, node: t.Mapping[str, t.Any]) -> dict[str, t.Mapping[str, t.Any]]:
    found = node.get("interfaces")
    if found is None:
        return {}
    if not isinstance(found, (list, tuple)):
        raise rails_ports.RailsTypeError("Could not %s: 'interfaces' of %s must be a list or null" % (DOING, name))
    for one in found:
        if not isinstance(one, t.Mapping) or not isinstance(one.get("name"), str):
            raise rails_ports.RailsTypeError(
                "Could not %s: an interface of %s must be a dictionary with a 'name', not %s"
                % (DOING, name, rails_ports.brief(one))
            )
        uses = one.get("uses") or []
        if not isinstance(uses, (list, tuple)) or not all(isinstance(use, str) for use in uses):
            raise rails_ports.RailsTypeError(
                "Could not %s: 'uses' of interface %s of %s must be a list of strings, not %s"
                % (DOING, one["name"], name, rails_ports.brief(uses))
            )
    return {one["name"]: one for one in found}


def _is_home(port: rails_ports.Port) -> bool:
    return bool((port.device.get("netns") or {}).get("initial", True))


def _names(port: rails_ports.Port) -> set[str]:
    """Return what the port is called on the host. In a pod its network device has the pod's name for it."""
    return rails_ports.names(port if _is_home(port) else port._replace(netdev=None))


def _look(name: str, node: t.Any, selection: rails_ports.Selection) -> Node:
    if not isinstance(node, t.Mapping):
        raise rails_ports.RailsTypeError(
            "Could not %s: node_info of %s must be a dictionary with 'devices', as rdma_info returns it, not %s"
            % (DOING, name, rails_ports.brief(node))
        )
    interfaces = _interfaces(name, node)
    slots, away = [], 0
    left_out: dict[str, str] = {}
    ports = rails_ports.ports(node, "%s of %s" % (DOING, name))
    # What include calls by a name that nothing here has: network devices that are in pods, under the pods' names.
    unmet = selection.unmet(_names(port) for port in ports)
    for port in ports:
        home = _is_home(port)
        key = port.netdev if home and port.netdev else port.name
        why = selection.left_out(_names(port))
        if why is not None and not home and unmet and not selection.excluded(_names(port)):
            unmet, why = unmet - 1, None
        if why is not None:
            left_out[key] = why
            continue
        if not home:
            away += 1
            continue
        interface = interfaces.get(port.netdev or "") or {}
        if port.netdev is None:
            left_out[key] = "it has no network device"
        elif interfaces and not interface:
            left_out[key] = "its network device %s is missing" % port.netdev
        elif port.state != rails_ports.ACTIVE:
            left_out[key] = "the port is %s" % (port.state or "in an unknown state")
        elif interface.get("uses"):
            left_out[key] = "the host uses it (%s)" % ", ".join(interface["uses"])
            if selection.include:
                raise PlanError(
                    "Could not %s: include names %s of %s, and %s. A pod must not get it: remove it from include"
                    % (DOING, port.netdev, name, left_out[key])
                )
        else:
            numa = port.device.get("numa_node")
            slots.append(
                Slot(
                    port.netdev,
                    port.device.get("pci_address") or interface.get("pci_address"),
                    interface.get("numa_node") if numa is None else numa,
                    port.name,
                )
            )
    # Soft-RoCE has no PCI address, so the network device's shows where the rail is.
    slots.sort(
        key=lambda one: (
            rails_ports.pci_key(one.pci) is None,
            rails_ports.pci_key(one.pci) or (),
            rails_ports.natural(one.netdev),
        )
    )
    # A card with two ports of one network device is one rail.
    unique: dict[str, Slot] = {}
    for one in slots:
        unique.setdefault(one.netdev, one)
    return Node(name, list(unique.values()), left_out, away)


def _by(how: str, slot: Slot) -> str | None:
    return slot.netdev if how == "name" else slot.pci


def _keys(how: str, node: Node) -> tuple[str, ...] | None:
    found = [_by(how, slot) for slot in node.slots]
    return None if None in found else t.cast("tuple[str, ...]", tuple(found))


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
    mine = {slot.netdev for slot in node.slots} | {slot.pci for slot in node.slots if slot.pci}
    lacks = [slot for slot in like.slots if slot.netdev not in mine and slot.pci not in mine]
    theirs_all = {slot.netdev for slot in like.slots} | {slot.pci for slot in like.slots if slot.pci}
    more = [slot for slot in node.slots if slot.netdev not in theirs_all and slot.pci not in theirs_all]
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
    for how in ("name", "pci") if select == "auto" else (select,):
        found = _agreement(how, nodes)
        if found is None:
            continue
        like_node, odd = found
        if not odd:
            return how, like_node
        refused.append((len(odd), odd, like_node))
    if not refused:
        raise PlanError("Could not %s: no node has a port that can be a rail%s" % (DOING, _nothing(nodes)))
    _count, odd, like_node = min(refused, key=lambda one: one[0])
    raise _differ(odd, like_node, len(nodes), _HINT)


def _nothing(nodes: t.Sequence[Node]) -> str:
    """Describe the first nodes' reasons."""
    parts = []
    for node in nodes[:SHOWN]:
        why = ["%s: %s" % pair for pair in sorted(node.left_out.items())]
        if node.away:
            why.append("%d devices are in pods" % node.away)
        parts.append("%s: %s" % (node.name, "; ".join(why) or "no RDMA device"))
    return ". " + ". ".join(parts) + ". Devices held by pods return when the pods end"


def _existing(value: t.Any) -> list[Kept]:
    """Return attachments that are there, from rails of an earlier plan or from the API's objects."""
    found = []
    given = value or ()
    for one in given if isinstance(given, (list, tuple)) else [given]:
        if not isinstance(one, t.Mapping):
            raise rails_ports.RailsTypeError(
                "Could not %s: existing must be a list of rails or of NetworkAttachmentDefinitions, not %s"
                % (DOING, rails_ports.brief(one))
            )
        if "spec" in one:
            found.append(_from_object(one))
        else:
            selector = _mapping(one.get("selector"))
            pair = next(((str(key), str(selector[key])) for key in sorted(selector, key=str)), None)
            found.append(Kept(str(one.get("name")), one.get("range"), pair))
    return found


def _mapping(value: t.Any) -> t.Mapping[str, t.Any]:
    return value if isinstance(value, t.Mapping) else {}


def _from_object(one: t.Mapping[str, t.Any]) -> Kept:
    meta = _mapping(one.get("metadata"))
    name = str(meta.get("name"))
    try:
        config = from_json(str(_mapping(one.get("spec")).get("config") or "{}"))
    except ValueError:
        return Kept(name, None, None)
    plugins = _mapping(config).get("plugins") or [config]
    first = _mapping(plugins[0] if isinstance(plugins, list) else None)
    ipam = _mapping(first.get("ipam"))
    network = ipam.get("range") or ipam.get("subnet")
    if isinstance(network, str) and "-" in network:
        network = network.split("-", 1)[1]  # whereabouts: FIRST-LAST/PREFIX
    # "master" is what macvlan, ipvlan and ipoib call the device of the host.
    for key, called in (("device", "device"), ("pciBusID", "pciBusID"), ("master", "device")):
        if first.get(key):
            return Kept(name, network, (called, str(first[key])))
    resource = _mapping(meta.get("annotations")).get("k8s.v1.cni.cncf.io/resourceName")
    return Kept(name, network, ("resourceName", str(resource)) if resource else None)


def plan(
    info: t.Any,
    network: t.Any,
    *,
    expected_pods: t.Any = None,
    pods_per_node: int = 1,
    growth: float = 2.0,
    include: t.Any = None,
    exclude: t.Any = None,
    existing: t.Any = None,
    avoid: t.Any = None,
    select: str = "auto",
    resources: t.Any = None,
    prefix: str = "rail",
    plugin: str = "host-device",
    options: t.Any = None,
    ipam: t.Any = None,
) -> dict[str, t.Any]:
    """Return the plan: rails, attachments for the module network_attachment, expected pods, and a table to show."""
    if not isinstance(info, t.Mapping) or not info:
        raise rails_ports.RailsTypeError(
            "Could not %s: the input must be a dictionary of node names to what rdma_info returned there, not %s"
            % (DOING, rails_ports.brief(info))
        )
    select = rails_ports.choice(select, "Could not %s: select" % DOING, SELECT)
    plugin = rails_ports.choice(plugin, "Could not %s: plugin" % DOING, PLUGINS)
    wanted = [str(one) for one in resources or ()]
    if select == "resource" and not wanted:
        raise PlanError("Could not %s: select is resource, but resources is empty" % DOING)
    if not re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,40})", prefix):
        raise PlanError(
            "Could not %s: prefix is %s; attachments are named after it, so it must consist of a-z, 0-9 and '-' (RFC "
            "1123)" % (DOING, rails_ports.brief(prefix))
        )
    pods = ranges.pods_of(len(info), expected_pods, pods_per_node, growth)
    space = ranges.network_of(network, "network")
    selection = rails_ports.Selection(include, exclude, DOING)
    order = sorted(info, key=lambda one: rails_ports.natural(str(one)))
    nodes = [_look(str(name), info[name], selection) for name in order]
    kept = _existing(existing)
    in_pods = [] if wanted else _in_pods(nodes, kept)
    if in_pods and not any(node.slots for node in nodes):
        how, like = "name", nodes[0]
    else:
        how, like = _choose(select, nodes, wanted)
    rails = _named(how, like, wanted, kept, prefix) + _kept_rails(in_pods, len(like.slots))
    ours = {rail["name"] for rail in rails}
    netdevs = {slot.netdev for slot in like.slots}
    addresses = (
        address
        for name in info
        for interface in _interfaces(str(name), info[name]).values()
        if interface["name"] not in netdevs
        for address in interface.get("addresses") or ()
    )
    taken = ranges.avoid(addresses, avoid or ())
    others = [(one.name, one.network) for one in kept if one.network and one.name not in ours]
    ranges.assign(rails, space, pods, growth, taken, others)
    result = {
        "select": how,
        "rails": rails,
        "attachments": [_attachment(rail, plugin, options or {}, ipam or {}) for rail in rails],
        "expected_pods": pods,
        "excluded": [
            {"node": node.name, "device": key, "why": why} for node in nodes for key, why in node.left_out.items()
        ],
        "notes": _notes(how, nodes, like),
    }
    result["table"] = _table(result, len(nodes), space, growth)
    return result


def _named(
    how: str, like: Node, resources: t.Sequence[str], kept: t.Sequence[Kept], prefix: str
) -> list[dict[str, t.Any]]:
    """Return the rails in the order of their places, each by the name that its attachment has already."""
    known = {one.selector: one for one in kept if one.selector}
    names = {one.name for one in kept}
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
            old = next((one for one in kept if one.selector == pair and one.name not in used), None)
        if old is None and how == "resource":
            old = next((one for one in kept if one.name == "%s%d" % (prefix, number) and one.name not in used), None)
        if old is not None:
            used.add(old.name)
        rails.append(
            {
                "rail": number,
                "name": old.name if old else "",
                "netdev": slot.netdev or None,
                "pci_address": slot.pci,
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
    home = {key for node in nodes for slot in node.slots for key in (slot.netdev, slot.pci)}
    found = [one for one in kept if one.network and one.selector and one.selector[1] not in home]
    away = min(node.away for node in nodes)
    if away > len(found):
        raise PlanError(
            "Could not %s: on every node devices are in pods, at least %d, and only %d of the existing attachments "
            "belong to such devices. Plan when one node has no RDMA pod, or pass the attachments in existing"
            % (DOING, away, len(found))
        )
    return found


def _kept_rails(in_pods: t.Sequence[Kept], first: int) -> list[dict[str, t.Any]]:
    rails = []
    for number, one in enumerate(in_pods, first):
        key, value = t.cast("tuple[str, str]", one.selector)
        rails.append(
            {
                "rail": number,
                "name": one.name,
                "netdev": value if key == "device" else None,
                "pci_address": value if key == "pciBusID" else None,
                "numa_node": None,
                "selector": {key: value},
                "range": one.network,
                "kept": True,
            }
        )
    return rails


def _attachment(
    rail: t.Mapping[str, t.Any], plugin: str, options: t.Mapping[str, t.Any], ipam: t.Mapping[str, t.Any]
) -> dict[str, t.Any]:
    selector = rail["selector"]
    made: dict[str, t.Any] = {"name": rail["name"], "type": plugin}
    if "resourceName" in selector:
        made["resource_name"] = selector["resourceName"]
    elif "pciBusID" in selector:
        made["pci_bus_id"] = selector["pciBusID"]
    else:
        made["master" if plugin in SHARING else "device"] = selector["device"]
    made["ipam"] = {"type": "whereabouts", **ipam, "range": rail["range"]}
    made.update(options)
    return made


def _notes(how: str, nodes: t.Sequence[Node], like: Node) -> list[str]:
    """Describe what matters but does not prevent the plan: rails that are not in the same place of the machine."""
    notes = []
    away = [node.name for node in nodes if node.away]
    if away:
        notes.append("Devices are in pods, so they were not compared, on %s." % _some(away))
    if how != "name":
        return notes
    wanted = {slot.netdev: slot for slot in like.slots}
    for attribute, called in (("pci", "PCI address"), ("numa", "NUMA node")):
        other: dict[str, list[str]] = {}
        for node in nodes:
            for slot in node.slots:
                if slot.netdev in wanted and getattr(slot, attribute) != getattr(wanted[slot.netdev], attribute):
                    other.setdefault(slot.netdev, []).append(node.name)
        for netdev, names in sorted(other.items()):
            notes.append("%s has a different %s on %s than elsewhere." % (netdev, called, _some(names)))
    return notes


def _some(names: t.Sequence[str]) -> str:
    return ", ".join(names[:SHOWN]) + (" and %d more" % (len(names) - SHOWN) if len(names) > SHOWN else "")


def _table(result: t.Mapping[str, t.Any], nodes: int, space: Network, growth: float) -> str:
    head = ("rail", "attachment", "selected by", "PCI address", "NUMA", "range", "addresses", "")
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
                rail["range"],
                str(rail["addresses"]),
                "kept" if rail["kept"] else "new",
            )
        )
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]
    lines.insert(
        0,
        "%d rails on %d nodes out of %s, for %d pods and growth %s:"
        % (len(result["rails"]), nodes, space, result["expected_pods"], ranges.number(growth)),
    )
    reasons: dict[tuple[str, str], list[str]] = {}
    for one in result["excluded"]:
        reasons.setdefault((one["device"], one["why"]), []).append(one["node"])
    for (device, why), names in sorted(reasons.items()):
        where = "all nodes" if len(names) == nodes else _some(names)
        lines.append("Left out: %s on %s: %s." % (device, where, why))
    return "\n".join(lines + list(result["notes"])) + "\n"


__all__ = ("PLUGINS", "SELECT", "PlanError", "plan")
