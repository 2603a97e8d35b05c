# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""The live state of rails: read by ip(8), which every host has, and written by rtnetlink(7)."""

from __future__ import annotations

import errno
import ipaddress
import os
import socket
import typing as t

from .._rdma.rtnetlink import missing_pyroute2
from . import network
from .rail_model import Interface, Network, Rail, RailError, Route

Json = t.Mapping[str, t.Any]


class Device(t.NamedTuple):
    """A network device of the host's namespace."""

    number: int  # its index
    up: bool
    mtu: int
    kind: str | None  # such as vlan; None: a card
    master: str | None  # the bond or bridge that it is a member of
    default_route: bool
    infiniband: bool
    addresses: list[str]


class Rule(t.NamedTuple):
    """A rule by source address (ip-rule(8))."""

    source: str
    table: int
    priority: int


class Live(t.NamedTuple):
    """Devices by name; rules, and routes with the index of their device, by table."""

    devices: dict[str, Device]
    rules: list[Rule]
    routes: list[tuple[int, int, Route]]


def read(host: network.Host) -> Live:
    """Return the devices, the rules by source, and the routes of all tables but the kernel's own."""
    links, addresses = network.links_and_addresses(host)
    default_route = network.with_default_route(host, links)
    devices = {
        row["ifname"]: _device(row, addresses.get(row["ifname"], []), row["ifname"] in default_route) for row in links
    }
    by_source: list[Rule] = []
    routes: list[tuple[int, int, Route]] = []
    for family in ("-4", "-6"):
        by_source += [_rule(row) for row in host.ip("-N", family, "rule", "show") if row.get("src", "all") != "all"]
        for row in host.ip("-N", family, "route", "show", "table", "all"):
            table = int(row.get("table", 254))
            if table not in (254, 255) and row.get("dev") in devices:
                routes.append((table, devices[row["dev"]].number, _route(row, family == "-6")))
    return Live(devices, by_source, routes)


def _device(row: Json, addresses: t.Sequence[Json], default_route: bool) -> Device:
    return Device(
        row["ifindex"],
        "UP" in row.get("flags", ()),
        row["mtu"],
        (row.get("linkinfo") or {}).get("info_kind"),
        row.get("master"),
        default_route,
        row.get("link_type") == "infiniband",
        ["%s/%s" % (part["local"], part["prefixlen"]) for part in addresses if part.get("scope") != "link"],
    )


def _rule(row: Json) -> Rule:
    length = row.get("srclen")
    source = row["src"] if length is None else "%s/%s" % (row["src"], length)
    return Rule(source, int(row.get("table", 0)), row["priority"])


def _route(row: Json, v6: bool) -> Route:
    default = "::/0" if v6 else "0.0.0.0/0"
    to: Network = ipaddress.ip_network(default if row["dst"] == "default" else row["dst"])
    via = row.get("gateway")
    return Route(to, ipaddress.ip_address(via) if via else None)


class Rtnetlink:
    """The kernel's own interface, by pyroute2. To add what exists, or delete what does not, succeeds."""

    def __init__(self) -> None:
        try:
            from pyroute2 import IPRoute
            from pyroute2.netlink.exceptions import NetlinkError
        except ImportError as exc:
            raise RailError("Configuring rails: " + missing_pyroute2(exc, "if gpu_node_rails is set")) from exc
        self._route = IPRoute()
        self._error = NetlinkError

    def _ask(
        self, doing: str, accepted: t.Sequence[int], request: t.Callable[..., t.Any], *args: t.Any, **kw: t.Any
    ) -> None:
        try:
            request(*args, **kw)
        except self._error as exc:
            if exc.code in accepted:
                return
            text = "%s: the kernel answered: %s" % (doing, os.strerror(exc.code))
            # pyroute2 before 0.6 deletes with NLM_F_EXCL, which is NLM_F_BULK there (include/uapi/linux/netlink.h).
            if exc.code == errno.EOPNOTSUPP:
                text += ". Linux 5.19 and newer refuse how pyroute2 before 0.6 deletes. "
                text += "Install a newer pyroute2, or do it by hand"
            raise RailError(text) from exc

    def up(self, doing: str, index: int) -> None:
        self._ask(doing, (), self._route.link, "set", index=index, state="up")

    def mtu(self, doing: str, index: int, mtu: int) -> None:
        self._ask(doing, (), self._route.link, "set", index=index, mtu=mtu)

    def address(self, doing: str, index: int, address: Interface) -> None:
        length = address.network.prefixlen
        self._ask(
            doing, (errno.EEXIST,), self._route.addr, "add", index=index, address=str(address.ip), prefixlen=length
        )

    def rule(self, doing: str, command: str, rule: Rule) -> None:
        """Add or delete (``del``) a rule."""
        source = ipaddress.ip_interface(rule.source)
        fields = {
            "src": str(source.ip),
            "src_len": source.network.prefixlen,
            "table": rule.table,
            "priority": rule.priority,
        }
        accepted = (errno.EEXIST,) if command == "add" else (errno.ENOENT,)
        self._ask(doing, accepted, self._route.rule, command, family=_family(source.version), **fields)

    def route(self, doing: str, command: str, table: int, index: int, route: Route) -> None:
        """Add or delete (``del``) a route."""
        fields: dict[str, t.Any] = {"dst": str(route.to), "oif": index, "table": table}
        if route.via:
            fields["gateway"] = str(route.via)
        elif route.to.version == 4:
            fields["scope"] = 253  # RT_SCOPE_LINK
        accepted = (errno.EEXIST,) if command == "add" else (errno.ESRCH,)
        self._ask(doing, accepted, self._route.route, command, family=_family(route.to.version), **fields)


def _family(version: int) -> int:
    return int(socket.AF_INET6 if version == 6 else socket.AF_INET)


def rules(rail: Rail) -> list[Rule]:
    return [Rule(str(address.ip), rail.table, rail.table) for address in rail.addresses]


__all__ = ("Device", "Live", "Rtnetlink", "Rule", "read", "rules")
