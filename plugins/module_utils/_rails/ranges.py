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


def network_of(text: t.Any, subject: str) -> Network:
    try:
        return ipaddress.ip_network(text, strict=True)
    except (ValueError, TypeError) as exc:
        raise PlanError(
            "Could not %s: %s is %s, which is not a valid network (%s). Give one such as 10.100.0.0/16"
            % (DOING, subject, brief(text), exc)
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
            (int(other.network_address), int(other.broadcast_address))
            for other in taken
            if other.version == network.version
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


def avoid(addresses: t.Iterable[str], texts: t.Sequence[t.Any]) -> list[Network]:
    """Return networks that are something else already: those given, and those of addresses on nodes."""
    networks = [network_of(text, "avoid") for text in texts]
    for text in set(addresses):
        try:
            network = ipaddress.ip_interface(text).network
        except ValueError:
            continue
        # A host route, such as a container's veth has, or link-local: no network that a range could be in.
        if network.prefixlen < network.max_prefixlen and not network.is_link_local and not network.is_loopback:
            networks.append(network)
    return networks


def pods_of(nodes: int, expected: t.Any, per_node: t.Any, growth: t.Any) -> int:
    for option, value in (("expected_pods", expected), ("pods_per_node", per_node)):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
            raise PlanError("Could not %s: %s is %s; it must be a number from 1" % (DOING, option, brief(value)))
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
        network = network_of(rail["range"], "the range of %s" % rail["name"])
        if usable(network) < pods:
            raise PlanError(
                "Could not %s: the range %s of %s has %d addresses, and %d pods are expected. A range in use is not "
                "changed: remove the attachment %s when no pod has it, and it is planned again; or expect fewer pods"
                % (DOING, network, rail["name"], usable(network), pods, rail["name"])
            )
        for name, other in held:
            if network.overlaps(other):
                raise PlanError(
                    "Could not %s: the ranges of %s (%s) and %s (%s) overlap, so two pods could get the same address. "
                    "Remove one of the attachments when no pod has it, and it is planned again"
                    % (DOING, name, other, rail["name"], network)
                )
        held.append((rail["name"], network))
    bits = space.max_prefixlen
    reserve = math.ceil(pods * growth)
    prefix = prefix_for(reserve, bits)
    source = _Space(space, [*taken, *(network for _name, network in held)])
    for rail in rails:
        if not rail["kept"]:
            free = source.take(prefix) if prefix >= space.prefixlen else None
            if free is None:
                raise PlanError(
                    "Could not %s: %s has no room for %d rails of %d addresses (/%d each: %d pods, growth %s)%s. "
                    "Give a larger network, expect fewer pods, or lower growth"
                    % (DOING, space, len(rails), reserve, prefix, pods, number(growth), _clashes(space, taken))
                )
            rail["range"] = str(free)
        rail["addresses"] = usable(ipaddress.ip_network(rail["range"]))


def _clashes(space: Network, taken: t.Sequence[Network]) -> str:
    inside = sorted({str(network) for network in taken if network.version == space.version and network.overlaps(space)})
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
