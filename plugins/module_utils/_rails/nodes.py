# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""What each node has that can be a rail."""

from __future__ import annotations

import typing as t

from . import ports as rails_ports
from .ranges import DOING, PlanError


class Slot(t.NamedTuple):
    """A port that may become a rail, on one node."""

    netdev: str
    pci: str | None
    numa: int | None
    device: str
    auxiliary: str | None = None
    kind: str | None = None
    can_change_netns: bool | None = None

    @property
    def place(self) -> str:
        function = "/".join(part for part in (self.pci, self.auxiliary) if part)
        return "%s (%s)" % (function, self.netdev) if function else self.netdev

    @property
    def pci_bus_id(self) -> str | None:
        """Return the address by which host-device finds it: that of a sub-function's parent is not."""
        return None if self.auxiliary else self.pci


class Node(t.NamedTuple):
    """A node, sorted into what can be a rail and what cannot."""

    name: str
    slots: list[Slot]
    left_out: dict[str, str]  # netdev, or RDMA device if it has none: why
    away: int  # devices that are in pods now, and so cannot be compared


def interfaces(name: str, node: t.Mapping[str, t.Any]) -> dict[str, t.Mapping[str, t.Any]]:
    """Return the network devices of a node by name, after a check of what is used of them."""
    rows = node.get("interfaces")
    if rows is None:
        return {}
    if not isinstance(rows, (list, tuple)):
        raise rails_ports.RailsTypeError("Could not %s: 'interfaces' of %s must be a list or null" % (DOING, name))
    for row in rows:
        if not isinstance(row, t.Mapping) or not isinstance(row.get("name"), str):
            raise rails_ports.RailsTypeError(
                "Could not %s: an interface of %s must be a dictionary with a 'name', not %s"
                % (DOING, name, rails_ports.brief(row))
            )
        uses = row.get("uses") or []
        if not isinstance(uses, (list, tuple)) or not all(isinstance(use, str) for use in uses):
            raise rails_ports.RailsTypeError(
                "Could not %s: 'uses' of interface %s of %s must be a list of strings, not %s"
                % (DOING, row["name"], name, rails_ports.brief(uses))
            )
    return {row["name"]: row for row in rows}


def _is_home(port: rails_ports.Port) -> bool:
    return bool((port.device.get("netns") or {}).get("initial", True))


def _is_leaving(port: rails_ports.Port, devices: t.Mapping[str, t.Any]) -> bool:
    """Whether its network device, which the RDMA device still names, had moved to a pod by the next look."""
    return bool(devices) and port.netdev is not None and port.netdev not in devices


def _names(port: rails_ports.Port) -> set[str]:
    """Return what the port is called on the host. In a pod its network device has the pod's name for it."""
    return rails_ports.names(port if _is_home(port) else port._replace(netdev=None))


def _slot(port: rails_ports.Port, interface: t.Mapping[str, t.Any]) -> Slot:
    numa = port.device.get("numa_node")
    return Slot(
        t.cast(str, port.netdev),
        port.device.get("pci_address") or interface.get("pci_address"),
        interface.get("numa_node") if numa is None else numa,
        port.name,
        port.device.get("auxiliary_device"),
        interface.get("kind"),
        interface.get("can_change_netns"),
    )


def _unusable(
    name: str,
    port: rails_ports.Port,
    devices: t.Mapping[str, t.Mapping[str, t.Any]],
    selection: rails_ports.Selection,
) -> str | None:
    """Return why a port that is at home cannot be a rail; None if it can."""
    if port.netdev is None:
        return "it has no network device"
    if port.state != rails_ports.ACTIVE:
        return "the port is %s" % (port.state or "in an unknown state")
    uses = devices[port.netdev].get("uses") if devices else None
    if not uses:
        return None
    why = "the host uses it (%s)" % ", ".join(uses)
    if selection.include:
        bond = next((use[len("bond ") :] for use in uses if use.startswith("bond ")), None)
        text = "include names %s of %s, and %s. A pod must not get it: remove it from include" % (
            port.netdev,
            name,
            why,
        )
        if bond:
            text += (
                ". A pod can get a network device on %s instead, if that is a rail (plugin macvlan or ipvlan, " % bond
            )
            text += "in mode shared)"
        raise PlanError("Could not %s: %s" % (DOING, text))
    return why


def _place(slot: Slot) -> tuple[t.Any, ...]:
    pci = rails_ports.pci_key(slot.pci)
    return pci is None, pci or (), rails_ports.natural(slot.netdev)


def look(name: str, node: t.Any, selection: rails_ports.Selection) -> Node:
    """Sort the ports of a node into what can be a rail and what cannot."""
    if not isinstance(node, t.Mapping):
        raise rails_ports.RailsTypeError(
            "Could not %s: node_info of %s must be a dictionary with 'devices', as rdma_info returns it, not %s"
            % (DOING, name, rails_ports.brief(node))
        )
    devices = interfaces(name, node)
    slots, away = [], 0
    left_out: dict[str, str] = {}
    ports = rails_ports.ports(node, "%s of %s" % (DOING, name))
    # What include calls by a name that nothing here has: network devices that are in pods, under the pods' names.
    unmet = selection.unmet(_names(port) for port in ports)
    for port in ports:
        home = _is_home(port)
        why = selection.left_out(_names(port))
        if why is not None and not home and unmet and not selection.excluded(_names(port)):
            unmet, why = unmet - 1, None
        if home and _is_leaving(port, devices):
            home = False
        elif why is None and home:
            why = _unusable(name, port, devices, selection)
        if why is not None:
            left_out[port.netdev if home and port.netdev else port.name] = why
        elif home:
            # Soft-RoCE has no PCI address, so the network device's shows where the rail is.
            slots.append(_slot(port, devices.get(port.netdev or "") or {}))
        else:
            away += 1
    # A card with two ports of one network device is one rail.
    unique: dict[str, Slot] = {}
    for slot in sorted(slots, key=_place):
        unique.setdefault(slot.netdev, slot)
    return Node(name, list(unique.values()), left_out, away)


__all__ = ("Node", "Slot", "interfaces", "look")
