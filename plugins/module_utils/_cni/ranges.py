# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""Which addresses a CNI configuration hands out, counted as whereabouts and host-local count them."""

from __future__ import annotations

import ipaddress
import typing as t

from . import config as cni

Network = t.Union[ipaddress.IPv4Network, ipaddress.IPv6Network]
Address = t.Union[ipaddress.IPv4Address, ipaddress.IPv6Address]
Problem = t.Tuple[str, str, str]


class Span(t.NamedTuple):
    """Addresses of one range: from first to last, less what is left out."""

    where: str
    text: str
    network: Network
    first: int
    last: int
    holes: tuple[tuple[int, int], ...]
    # Where whereabouts keeps what it has given out; None: no whereabouts.
    pool: str | None = None
    # Pools of one pool per node (node_slice_size) end in this, after the node's name.
    sliced: bool = False

    def pieces(self) -> list[tuple[int, int]]:
        """Return what can be handed out, as pairs of first and last."""
        pieces = [(self.first, self.last)] if self.first <= self.last else []
        for low, high in self.holes:
            pieces = [
                part
                for first, last in pieces
                for part in ((first, min(last, low - 1)), (max(first, high + 1), last))
                if part[0] <= part[1]
            ]
        return sorted(set(pieces))

    def size(self) -> int:
        return sum(last - first + 1 for first, last in self.pieces())

    def overlap(self, other: Span) -> str | None:
        """Return the first address that both hand out."""
        if self.network.version != other.network.version:
            return None
        for first, last in self.pieces():
            for low, high in other.pieces():
                if first <= high and low <= last:
                    return self.address(max(first, low))
        return None

    def overlap_network(self, network: Network) -> str | None:
        if self.network.version != network.version:
            return None
        low, high = int(network.network_address), int(network.broadcast_address)
        for first, last in self.pieces():
            if first <= high and low <= last:
                return self.address(max(first, low))
        return None

    def holds(self, address: Address) -> bool:
        return address.version == self.network.version and any(
            first <= int(address) <= last for first, last in self.pieces()
        )

    def address(self, number: int) -> str:
        kind = ipaddress.IPv4Address if self.network.version == 4 else ipaddress.IPv6Address
        return str(kind(number))


class Ranges(t.NamedTuple):
    """One entry of ``groups`` gives each pod one address, from any of its spans."""

    groups: list[list[Span]]
    problems: list[Problem]


def pool_name(network: Network, network_name: str | None) -> str:
    """Return the name of whereabouts' IPPool (IPPoolName, normalizeRange in pkg/storage/kubernetes/ipam.go, 0.9.4).

    Colons and slashes become dashes; a text that ends in a colon gets a zero first. Go writes a network as CIDR, which
    ends in its length, so that last rule does not come into play.
    """
    name = str(network).replace(":", "-").replace("/", "-")
    return "%s-%s" % (network_name, name) if network_name else name


def parse_network(text: t.Any) -> Network:
    """Return a network in CIDR notation; a length is not optional, as in Go's ParseCIDR."""
    if not isinstance(text, str) or not text.rpartition("/")[2].isdigit():
        raise ValueError("not a network in CIDR notation")
    return ipaddress.ip_network(text.strip(), strict=False)


def _usable(network: Network) -> tuple[int, int]:
    # IPv6 too: both plugins leave the first and the last address of a subnet out (FirstUsableIP, LastUsableIP).
    low, high = int(network.network_address), int(network.broadcast_address)
    return (low + 1, high - 1) if high - low > 1 else (high, low - 1)


def _bound(where: str, value: t.Any, network: Network, problems: list[Problem]) -> int | None:
    """Return a bound of a range as a number; None if there is none or it is invalid."""
    if not value:
        return None
    try:
        address = ipaddress.ip_address(value)
    except ValueError:
        problems.append(
            ("invalid_cidr", "%s is %s, which is not an IP address" % (where, value), "an address in %s" % network)
        )
        return None
    first, last = _usable(network)
    if address.version != network.version or not first <= int(address) <= last:
        problems.append(
            (
                "range_bounds",
                "%s %s is not a usable address of %s, and the plugin would silently ignore it"
                % (where, address, network),
                "an address in %s other than its first and last" % network,
            )
        )
        return None
    return int(address)


def _excluded(where: str, values: t.Any, network: Network, problems: list[Problem]) -> list[tuple[int, int]]:
    holes = []
    for value in values if isinstance(values, list) else []:
        try:
            out = ipaddress.ip_network(value, strict=False)
        except ValueError:
            problems.append(
                (
                    "invalid_cidr",
                    "%s %s is not a network in CIDR notation, and whereabouts reports that when a pod starts at the "
                    "earliest" % (where, value),
                    "for example %s" % _example(network),
                )
            )
            continue
        if not out.overlaps(network):
            problems.append(
                (
                    "exclude_outside",
                    "%s %s is outside %s and excludes nothing" % (where, value, network),
                    "a part of %s" % network,
                )
            )
            continue
        holes.append((int(out.network_address), int(out.broadcast_address)))
    return holes


def _example(network: Network) -> str:
    return "%s/%d" % (network.network_address, min(network.prefixlen + 2, network.max_prefixlen))


def _whereabouts(ipam: cni.Config, where: str, problems: list[Problem]) -> list[list[Span]]:
    raw: list[tuple[str, t.Any]] = [(where, ipam)] if ipam.get("range") else []
    listed = ipam.get("ipRanges") if isinstance(ipam.get("ipRanges"), list) else []
    raw += [("%sipRanges[%d]." % (where, number), entry) for number, entry in enumerate(t.cast("list[t.Any]", listed))]
    if not raw:
        problems.append(("missing_key", "whereabouts has no range", "ipam.range, for example 10.100.100.0/24"))
    groups = []
    for at, entry in raw:
        if not isinstance(entry, dict):
            continue
        text = str(entry.get("range") or "")
        start, dash, rest = text.partition("-")
        try:
            network = parse_network(rest if dash else text)
            first, last = _usable(network)
            if dash:
                low = ipaddress.ip_address(start)
                high = ipaddress.ip_interface(rest).ip
                if low not in network:
                    raise ValueError("the start is outside")
                first, last = max(first, int(low)), min(last, int(high))
        except ValueError as exc:
            problems.append(
                (
                    "invalid_cidr",
                    "%srange %s cannot be read (%s)" % (at, text, exc),
                    "a network in CIDR notation such as 10.100.100.0/24, or START-END/LENGTH",
                )
            )
            continue
        if not dash:
            low_end = _bound(at + "range_start", entry.get("range_start"), network, problems)
            high_end = _bound(at + "range_end", entry.get("range_end"), network, problems)
            first, last = low_end or first, high_end or last
            if low_end and high_end and low_end > high_end:
                problems.append(
                    ("range_bounds", "%srange_start is after range_end" % at, "range_start before range_end")
                )
        holes = _excluded(at + "exclude", entry.get("exclude"), network, problems)
        name = pool_name(network, ipam.get("network_name"))
        sliced = bool(ipam.get("node_slice_size"))
        groups.append([Span(at + "range", text, network, first, last, tuple(holes), name, sliced)])
    gateway = ipam.get("gateway")
    if gateway:
        _gateway(gateway, where, groups, problems)
    return groups


def _gateway(gateway: t.Any, where: str, groups: list[list[Span]], problems: list[Problem]) -> None:
    try:
        address = ipaddress.ip_address(gateway)
    except ValueError:
        problems.append(
            ("invalid_cidr", "%sgateway is %s, which is not an IP address" % (where, gateway), "an address")
        )
        return
    for group in groups:
        for span in group:
            if span.holds(address):
                problems.append(
                    (
                        "gateway_in_range",
                        "whereabouts does not reserve the gateway %s of %s and will assign it to a pod"
                        % (gateway, span.text),
                        "exclude: [%s/%d]" % (gateway, address.max_prefixlen),
                    )
                )


def _host_local(ipam: cni.Config, where: str, problems: list[Problem]) -> list[list[Span]]:
    sets: list[t.Any] = list(ipam["ranges"]) if isinstance(ipam.get("ranges"), list) else []
    if ipam.get("subnet"):
        sets.insert(0, [{key: ipam.get(key) for key in ("subnet", "rangeStart", "rangeEnd", "gateway")}])
    if not sets:
        problems.append(
            ("missing_key", "host-local has no range", "ipam.ranges, for example [[{subnet: 10.1.0.0/24}]]")
        )
    groups = []
    for listed in sets:
        group = []
        for entry in listed if isinstance(listed, list) else []:
            if not isinstance(entry, dict):
                continue
            text = str(entry.get("subnet") or "")
            try:
                network = ipaddress.ip_network(text) if "/" in text else parse_network(text)
            except ValueError as exc:
                problems.append(
                    (
                        "invalid_cidr",
                        "%ssubnet %s cannot be read (%s)" % (where, text, exc),
                        "the first address of a network and its prefix length, such as 10.1.0.0/24",
                    )
                )
                continue
            first, last = _usable(network)
            first = _bound(where + "rangeStart", entry.get("rangeStart"), network, problems) or first
            last = _bound(where + "rangeEnd", entry.get("rangeEnd"), network, problems) or last
            # host-local takes the first address for the gateway if none is set, and skips it.
            address = entry.get("gateway")
            try:
                gateway = int(ipaddress.ip_address(address)) if address else int(network.network_address) + 1
            except ValueError:
                problems.append(("invalid_cidr", "%sgateway %s is not an address" % (where, address), "an address"))
                continue
            group.append(Span(where + "subnet", text, network, first, last, ((gateway, gateway),)))
        if group:
            groups.append(group)
    return groups


def _static(ipam: cni.Config, where: str, problems: list[Problem]) -> list[list[Span]]:
    groups = []
    for entry in ipam["addresses"] if isinstance(ipam.get("addresses"), list) else []:
        text = str(entry.get("address") if isinstance(entry, dict) else entry)
        try:
            if "/" not in text:
                raise ValueError("no prefix length")
            interface = ipaddress.ip_interface(text)
        except ValueError as exc:
            problems.append(
                ("invalid_cidr", "%saddress %s cannot be read (%s)" % (where, text, exc), "such as 10.1.0.7/24")
            )
            continue
        number = int(interface.ip)
        groups.append([Span(where + "address", text, interface.network, number, number, ())])
    return groups


_READERS = {"whereabouts": _whereabouts, "host-local": _host_local, "static": _static}


def ranges(config: cni.Config) -> Ranges:
    """Return what a configuration's IPAM hands out, and what is wrong with how that is written."""
    problems: list[Problem] = []
    groups: list[list[Span]] = []
    for number, plugin in enumerate(cni.plugins(config)):
        ipam = cni.ipam_of(plugin)
        reader = _READERS.get(str(ipam.get("type")))
        where = "plugins[%d].ipam." % number if "plugins" in config else "ipam."
        if reader:
            groups += reader(ipam, where, problems)
    return Ranges(groups, problems)


def fitting(span: Span, need: int) -> Network:
    """Return the smallest network around a span's that has so many usable addresses, beside those left out of it."""
    network = span.network
    left_out = _size(_usable(network)) - Span(*span[:3], *_usable(network), span.holes).size()
    while _size(_usable(network)) - left_out < need and network.prefixlen:
        network = network.supernet()
    return network


def _size(pair: tuple[int, int]) -> int:
    return max(0, pair[1] - pair[0] + 1)


def usable(network: Network) -> int:
    """Return how many addresses of a network a plugin hands out."""
    return _size(_usable(network))


__all__ = (
    "Address",
    "Network",
    "Problem",
    "Ranges",
    "Span",
    "fitting",
    "parse_network",
    "pool_name",
    "ranges",
    "usable",
)
