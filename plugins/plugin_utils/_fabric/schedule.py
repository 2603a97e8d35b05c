# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.

"""Schedule pairs of nodes in rounds, in which no node is used twice."""

from __future__ import annotations

import typing as t

from ...module_utils._errors import FabricError

TOPOLOGIES = ("auto", "all", "ring")
# All pairs of more nodes than this take too long.
ALL_UP_TO = 16

Pair = t.Dict[str, str]


class RoundsError(FabricError):
    """The nodes cannot be paired as requested."""


def rounds(hosts: t.Any, topology: t.Any = "auto") -> list[list[Pair]]:
    """Return rounds of pairs; a node is in at most one pair of a round, and no pair is repeated."""
    names = _names(hosts)
    if not isinstance(topology, str) or topology not in TOPOLOGIES:
        raise RoundsError(
            "Could not pair the nodes: topology is %r; it must be one of %s" % (topology, ", ".join(TOPOLOGIES))
        )
    if topology == "auto":
        topology = "all" if len(names) <= ALL_UP_TO else "ring"
    if len(names) < 2:
        return []
    circle_rounds = _all(len(names)) if topology == "all" or len(names) == 2 else _ring(len(names))
    return [[{"client": names[client], "server": names[server]} for client, server in pairs] for pairs in circle_rounds]


def _names(hosts: t.Any) -> list[str]:
    if not isinstance(hosts, (list, tuple)) or not all(isinstance(name, str) and name for name in hosts):
        text = repr(hosts)
        raise RoundsError(
            "Could not pair the nodes: the input must be a list of host names, not %s"
            % (text if len(text) <= 80 else text[:80] + "...")
        )
    twice = sorted({name for name in hosts if hosts.count(name) > 1})
    if twice:
        raise RoundsError(
            "Could not pair the nodes: these are in the list twice: %s. A node cannot measure with itself"
            % ", ".join(repr(name) for name in twice)
        )
    return list(hosts)


def _all(number: int) -> list[list[tuple[int, int]]]:
    """Return all pairs by the circle method: one node stays, the others move by one place each round.

    In the circle, of odd length, a node is the client of the half behind it, and the server of as many.
    """
    circle = number - 1 if number % 2 == 0 else number
    turns = []
    for turn in range(circle):
        pairs = []
        if number % 2 == 0:
            pairs.append((turn, circle) if turn % 2 == 0 else (circle, turn))
        for step in range(1, circle // 2 + 1):
            left, right = (turn + step) % circle, (turn - step) % circle
            ahead = (right - left) % circle
            pairs.append((left, right) if ahead <= circle // 2 else (right, left))
        turns.append(sorted(pairs))
    return turns


def _ring(number: int) -> list[list[tuple[int, int]]]:
    """Return each node with the next one; the last edge of an odd ring needs a round of its own."""
    edges = [(place, (place + 1) % number) for place in range(number)]
    if number % 2 == 0:
        return [edges[0::2], edges[1::2]]
    return [edges[0:-1:2], edges[1:-1:2], edges[-1:]]


__all__ = ("ALL_UP_TO", "TOPOLOGIES", "Pair", "RoundsError", "rounds")
