# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""Address ranges for rails: none overlaps with another, and what is in use is not changed."""

from __future__ import annotations

import ipaddress
import math
import typing as t

from .ports import RailsError, brief

DOING = "plan the rails"
# How many a message names at most.
SHOWN = 5

Network = t.Union[ipaddress.IPv4Network, ipaddress.IPv6Network]


class PlanError(RailsError):
    """No plan would be right on every node."""


def network_of(text: t.Any, what: str) -> Network:
    try:
        return ipaddress.ip_network(text, strict=True)
    except (ValueError, TypeError) as exc:
        raise PlanError(
            "Could not %s: %s is %s, which is not a valid network (%s). Give one such as 10.100.0.0/16"
            % (DOING, what, brief(text), exc)
        ) from exc


def usable(network: Network) -> int:
    """Return how many addresses whereabouts gives out of a range: neither the first nor the last (GetIPRange())."""
    return max(0, network.num_addresses - 2)


def prefix_for(pods: int, bits: int) -> int:
    """Return the prefix length of the smallest network that has an address for each pod."""
    return bits - max(2, math.ceil(math.log2(pods + 2)))


class _Space:
    """Hands out networks of one size, one after the other, past those that are taken."""

    def __init__(self, network: Network, taken: t.Iterable[Network]) -> None:
        self.network = network
        self.taken = sorted(
            (int(one.network_address), int(one.broadcast_address)) for one in taken if one.version == network.version
        )
        self.next = int(network.network_address)

    def take(self, prefix: int) -> Network | None:
        bits = self.network.max_prefixlen - prefix
        size = 1 << bits
        start = -(-self.next // size) * size
        end = int(self.network.broadcast_address)
        while start + size - 1 <= end:
            clash = [last for first, last in self.taken if first <= start + size - 1 and last >= start]
            if not clash:
                self.next = start + size
                kind = type(self.network)
                return kind((start, prefix))
            start = -(-(max(clash) + 1) // size) * size
        return None


def avoid(addresses: t.Iterable[str], given: t.Sequence[t.Any]) -> list[Network]:
    """Return networks that are something else already: those given, and those of addresses on nodes."""
    found = [network_of(text, "avoid") for text in given]
    for text in set(addresses):
        try:
            one = ipaddress.ip_interface(text).network
        except ValueError:
            continue
        # A host route, such as a container's veth has, or link-local: no network that a range could be in.
        if one.prefixlen < one.max_prefixlen and not one.is_link_local and not one.is_loopback:
            found.append(one)
    return found


def pods_of(nodes: int, expected: t.Any, per_node: t.Any, growth: t.Any) -> int:
    for what, value in (("expected_pods", expected), ("pods_per_node", per_node)):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
            raise PlanError("Could not %s: %s is %s; it must be a number from 1" % (DOING, what, brief(value)))
    if isinstance(growth, bool) or not isinstance(growth, (int, float)) or not 1 <= growth <= 1000:
        raise PlanError("Could not %s: growth is %s; it must be between 1 and 1000" % (DOING, brief(growth)))
    return int(expected) if expected is not None else nodes * int(per_node)


def assign(
    rails: list[dict[str, t.Any]],
    space: Network,
    pods: int,
    growth: float,
    taken: t.Sequence[Network],
    others: t.Sequence[tuple[str, str]],
) -> None:
    """Give each rail a range. What is in use is not changed; what is new overlaps with nothing."""
    held = [(name, network_of(text, "the range of %s" % name)) for name, text in others]
    for rail in rails:
        if not rail["kept"]:
            continue
        one = network_of(rail["range"], "the range of %s" % rail["name"])
        if usable(one) < pods:
            raise PlanError(
                "Could not %s: the range %s of %s has %d addresses, and %d pods are expected. A range in use is not "
                "changed: remove the attachment %s when no pod has it, and it is planned again; or expect fewer pods"
                % (DOING, one, rail["name"], usable(one), pods, rail["name"])
            )
        for name, other in held:
            if one.overlaps(other):
                raise PlanError(
                    "Could not %s: the ranges of %s (%s) and %s (%s) overlap, so two pods could get the same address. "
                    "Remove one of the attachments when no pod has it, and it is planned again"
                    % (DOING, name, other, rail["name"], one)
                )
        held.append((rail["name"], one))
    bits = space.max_prefixlen
    reserve = math.ceil(pods * growth)
    prefix = prefix_for(reserve, bits)
    source = _Space(space, [*taken, *(one for _name, one in held)])
    for rail in rails:
        if not rail["kept"]:
            found = source.take(prefix) if prefix >= space.prefixlen else None
            if found is None:
                raise PlanError(
                    "Could not %s: %s has no room for %d rails of %d addresses (/%d each: %d pods, growth %s)%s. "
                    "Give a larger network, expect fewer pods, or lower growth"
                    % (DOING, space, len(rails), reserve, prefix, pods, number(growth), _clashes(space, taken))
                )
            rail["range"] = str(found)
        rail["addresses"] = usable(ipaddress.ip_network(rail["range"]))


def _clashes(space: Network, taken: t.Sequence[Network]) -> str:
    inside = sorted({str(one) for one in taken if one.version == space.version and one.overlaps(space)})
    return "; in use: %s" % ", ".join(inside[:SHOWN]) if inside else ""


def number(value: float) -> str:
    return "%g" % value


__all__ = (
    "DOING",
    "SHOWN",
    "Network",
    "PlanError",
    "assign",
    "avoid",
    "network_of",
    "number",
    "pods_of",
    "prefix_for",
    "usable",
)
