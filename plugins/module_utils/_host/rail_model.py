# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""Rails of a host as they are asked for: addresses, MTU, and a routing table for what comes from these addresses."""

from __future__ import annotations

import ipaddress
import re
import typing as t

from .._errors import FabricError

Address = t.Union[ipaddress.IPv4Address, ipaddress.IPv6Address]
Interface = t.Union[ipaddress.IPv4Interface, ipaddress.IPv6Interface]
Network = t.Union[ipaddress.IPv4Network, ipaddress.IPv6Network]

# dev_valid_name() in net/core/dev.c allows more; these have no meaning in any of the files that are written.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,14}\Z")
# The kernel's own tables, and the priority of the rule for table main (include/uapi/linux/rtnetlink.h, fib_rules.c).
OWN_TABLES = (253, 254, 255)
MAIN_PRIORITY = 32766
FIRST_TABLE = 100


class Route(t.NamedTuple):
    """A route of a rail's table. Without a gateway, the network is on the link."""

    to: Network
    via: Address | None

    def __str__(self) -> str:
        return "%s%s" % (self.to, " via %s" % self.via if self.via else "")


class Rail(t.NamedTuple):
    """A rail. Packets from its addresses are routed by its table, whose number is also the rules' priority."""

    netdev: str
    addresses: tuple[Interface, ...]
    mtu: int | None
    table: int
    routes: tuple[Route, ...]


class RailError(FabricError):
    """A rail cannot be configured; the text says why, and what unblocks it."""


def rails(wishes: t.Sequence[t.Mapping[str, t.Any]]) -> list[Rail]:
    """Check the option O(rails) of the module host_rails as a whole."""
    result = [_rail(wish, FIRST_TABLE + number) for number, wish in enumerate(wishes)]
    for field in ("netdev", "table"):
        values = [getattr(rail, field) for rail in result]
        twice = sorted({value for value in values if values.count(value) > 1})
        if twice:
            raise RailError("Reading rails: %s %s is in two of them" % (field, twice[0]))
    addresses = [address.ip for rail in result for address in rail.addresses]
    for address in addresses:
        if addresses.count(address) > 1:
            raise RailError("Reading rails: address %s is in two of them" % address)
    return result


def _rail(wish: t.Mapping[str, t.Any], table: int) -> Rail:
    netdev = wish["netdev"]
    if not _NAME.match(netdev):
        raise RailError(
            "Reading rails: netdev %r is not a name of at most 15 letters, digits, '_', '.' and '-'" % netdev
        )
    doing = "Reading rail %s: " % netdev
    addresses = tuple(_interface(text, doing) for text in wish["addresses"])
    if not addresses:
        raise RailError("%saddresses is empty. A rail needs one, such as 198.51.100.11/24" % doing)
    mtu = wish.get("mtu")
    # ETH_MIN_MTU in include/uapi/linux/if_ether.h; an MTU is a 16-bit value in IPv4.
    if mtu is not None and not 68 <= mtu <= 65535:
        raise RailError("%smtu is %d bytes, and must be from 68 to 65535" % (doing, mtu))
    table = wish.get("table") or table
    if not 1 <= table < MAIN_PRIORITY or table in OWN_TABLES:
        raise RailError(
            "%stable is %d, and must be from 1 to %d, except %s, which are the kernel's"
            % (doing, table, MAIN_PRIORITY - 1, ", ".join(map(str, OWN_TABLES)))
        )
    routes = [Route(address.network, None) for address in addresses]
    routes += [_route(route, addresses, doing) for route in wish.get("routes") or ()]
    # Two addresses of one network share its route.
    return Rail(netdev, addresses, mtu, table, tuple(dict.fromkeys(routes)))


def _interface(text: str, doing: str) -> Interface:
    try:
        address = ipaddress.ip_interface(text)
    except ValueError as exc:
        raise RailError("%s%s" % (doing, exc)) from exc
    if "/" not in text:
        raise RailError("%saddress %s has no prefix length. Write it as %s/24" % (doing, text, text))
    return address


def _route(wish: t.Mapping[str, t.Any], addresses: t.Sequence[Interface], doing: str) -> Route:
    try:
        to, via = ipaddress.ip_network(wish["to"]), ipaddress.ip_address(wish["via"])
    except ValueError as exc:
        raise RailError("%sroute to %s via %s: %s" % (doing, wish["to"], wish["via"], exc)) from exc
    if to.version != via.version or not any(via in address.network for address in addresses):
        networks = ", ".join(str(address.network) for address in addresses)
        raise RailError(
            "%sroute to %s via %s: the gateway must be in a network of the rail (%s), and of the family of the "
            "destination" % (doing, to, via, networks)
        )
    return Route(to, via)


__all__ = ("FIRST_TABLE", "Address", "Interface", "Network", "Rail", "RailError", "Route", "rails")
