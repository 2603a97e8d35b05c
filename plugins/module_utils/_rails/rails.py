# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""The rails of a host: its RDMA ports in the order of a plan, each with the GID index that NCCL would use."""

from __future__ import annotations

import ipaddress
import typing as t

from .ports import (
    FAMILIES,
    ROCE,
    Port,
    RailsError,
    RailsTypeError,
    Selection,
    above,
    brief,
    choice,
    describe,
    gid,
    gid_index,
    names,
    netdevs,
    netdevs_of,
    normalized,
    optional_text,
    ports,
)

_ABSENT = "absent"

_OF_DEVICE = ("protocol", "numa_node", "pci_address", "node_guid")
_OF_PORT = ("port", "netdev", "state", "rate_gbps", "netdev_mtu", "active_mtu", "link_layer")


def rails(
    data: t.Any, plan: t.Any = None, include: t.Any = None, exclude: t.Any = None, family: t.Any = "ipv4"
) -> list[dict[str, t.Any]]:
    """Return a host's rails, with a plan in its order."""
    doing = "list the rails"
    family = choice(family, "Could not list the rails: family", FAMILIES)
    selection = Selection(include, exclude, doing)
    host_ports = ports(data, doing)
    entries = _plan(plan)
    planned = [{normalized(entry[key]) for key in ("rdma", "netdev") if key in entry} for entry in entries]
    if entries:
        assigned = [port and _on(port, entry) for port, entry in zip(_assign(entries, host_ports), entries)]
        slots: list[tuple[Port | None, dict[str, str] | None]] = list(zip(assigned, entries))
        named = [planned[number] if port is None else names(port) for number, port in enumerate(assigned)]
    else:
        slots = [(selection.applied(port), None) for port in host_ports]
        named = [selection.names(port) for port in host_ports]
    selection.check([names(port) for port in host_ports] + planned + named, map(describe, host_ports))
    result = []
    for number, (port, entry) in enumerate(slots):
        if selection.left_out(named[number]) is None:
            result.append(_rail(number, port, entry, family))
    if not entries:
        for number, rail in enumerate(result):
            rail["rail"] = number
    return result


def _rail(number: int, port: Port | None, entry: dict[str, str] | None, family: str) -> dict[str, t.Any]:
    chosen = gid(port, family) if port else None
    rail: dict[str, t.Any] = {"rail": number, "device": port.name if port else None}
    rail.update((key, port.port.get(key) if port else None) for key in _OF_PORT)
    rail.update((key, port.device.get(key) if port else None) for key in _OF_DEVICE)
    rail["gid_index"] = gid_index(port, family) if port else None
    rail["gid"] = chosen.gid if chosen else None
    rail["ipv4"] = chosen.ipv4 if chosen else None
    rail["ipv6"] = chosen.ipv6 if chosen else None
    if port is not None and port.fabric != ROCE:
        # IPoIB and iWARP have addresses on their network devices, and none among the GIDs.
        rail.update(_planned_address((entry or {}).get("address")))
    rail["planned"] = entry
    if port is None:
        rail["state"] = _ABSENT
    return rail


def _planned_address(text: str | None) -> dict[str, str | None]:
    """Return an address of the plan as ``ipv4`` or ``ipv6``."""
    try:
        address = ipaddress.ip_address((text or "").split("/", 1)[0])
    except ValueError:
        return {"ipv4": None, "ipv6": None}
    return {"ipv4": None, "ipv6": None, "ipv%d" % address.version: str(address)}


def _plan(plan: t.Any) -> list[dict[str, str]]:
    form = "a list of dictionaries with 'rdma', 'netdev' or 'address'"
    entries = []
    if plan is not None and not isinstance(plan, (list, tuple)):
        raise RailsTypeError("Could not list the rails: plan must be %s, not %s" % (form, brief(plan)))
    for entry in plan or ():
        if not isinstance(entry, t.Mapping):
            raise RailsTypeError("Could not list the rails: plan must be %s; it has %s" % (form, brief(entry)))
        where = "Could not list the rails: in plan, "
        values = {key: optional_text(entry, key, where) for key in ("rdma", "netdev", "address")}
        kept = {key: value for key, value in values.items() if value is not None}
        if not kept:
            raise RailsError(where + "%s has none of 'rdma', 'netdev', 'address'. Give one" % brief(entry))
        entries.append(kept)
    return entries


def _assign(entries: list[dict[str, str]], host_ports: list[Port]) -> list[Port | None]:
    """Return the port of each entry of the plan: no port twice, the strongest match of all entries first."""
    result: list[Port | None] = [None] * len(entries)
    free = list(host_ports)
    for keys in (("rdma", "netdev"), ("rdma", "address"), ("rdma",), ("netdev",), ("address",)):
        for number, entry in enumerate(entries):
            if result[number] is not None or not all(key in entry for key in keys):
                continue
            port = next((port for port in free if all(_MATCH[key](port, entry[key]) for key in keys)), None)
            if port is not None:
                result[number] = port
                free.remove(port)
    return result


def _on(port: Port, entry: t.Mapping[str, str]) -> Port:
    """Return a port with the network device that an entry of the plan means: its own one, or one above that."""
    return above(port, {entry["netdev"]} if "netdev" in entry else netdevs_of(port, entry.get("address", "")))


_MATCH: dict[str, t.Callable[[Port, str], bool]] = {
    "rdma": lambda port, text: port.name == text,
    "netdev": lambda port, text: text in netdevs(port),
    "address": lambda port, text: bool(netdevs_of(port, text)),
}


__all__ = ("rails",)
