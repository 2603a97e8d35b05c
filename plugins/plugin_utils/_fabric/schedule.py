# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.

"""Schedule pairs of nodes in rounds, in which no node is used twice."""

from __future__ import annotations

import itertools
import typing as t

from ...module_utils._errors import FabricError
from ...module_utils._rails.ports import brief

TOPOLOGIES = ("auto", "all", "ring")
# All pairs of more nodes than this take too long.
ALL_UP_TO = 16

Pair = t.Dict[str, str]
Edges = t.List[t.Tuple[int, int]]


class RoundsError(FabricError):
    """The nodes cannot be paired as requested."""


def rounds(hosts: t.Any, topology: t.Any = "auto", leaves: t.Any = None) -> list[list[Pair]]:
    """Return rounds of pairs; a node is in at most one pair of a round, and no pair is repeated.

    :param leaves: the leaf switch of each node, by its name; one that is missing or empty is not known.
    """
    names = _names(hosts)
    if leaves is not None and not isinstance(leaves, t.Mapping):
        raise RoundsError("Could not pair the nodes: leaves must be a dictionary of nodes, not %s" % brief(leaves))
    leaf_of = [(leaves or {}).get(name) or "" for name in names]
    if not isinstance(topology, str) or topology not in TOPOLOGIES:
        raise RoundsError(
            "Could not pair the nodes: topology is %r; it must be one of %s" % (topology, ", ".join(TOPOLOGIES))
        )
    if topology == "auto":
        topology = "all" if len(names) <= ALL_UP_TO else "ring"
    if len(names) < 2:
        return []
    turns = _all(len(names)) if topology == "all" else _by_leaf(leaf_of)
    return [[{"client": names[client], "server": names[server]} for client, server in pairs] for pairs in turns]


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


def _all(number: int) -> list[Edges]:
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


def _ring(number: int) -> list[Edges]:
    """Return each node with the next one; the last edge of an odd ring needs a round of its own."""
    if number < 3:
        return [[(0, 1)]] if number == 2 else []
    edges = [(place, (place + 1) % number) for place in range(number)]
    if number % 2 == 0:
        return [edges[0::2], edges[1::2]]
    return [edges[0:-1:2], edges[1:-1:2], edges[-1:]]


def _by_leaf(leaf_of: t.Sequence[str]) -> list[Edges]:
    """Return a ring within each leaf, all at once, and then each node with one of the next leaf.

    A node that has no counterpart in the next leaf, which is smaller, is measured within its own only.
    """
    leaves: dict[str, list[int]] = {}
    for place, leaf in enumerate(leaf_of):
        leaves.setdefault(leaf, []).append(place)
    members = list(leaves.values())
    rings = [
        [[(places[client], places[server]) for client, server in edges] for edges in _ring(len(places))]
        for places in members
    ]
    turns = [list(itertools.chain(*parts)) for parts in itertools.zip_longest(*rings, fillvalue=[])]
    for edges in _ring(len(members)):
        turns.append([pair for one, other in edges for pair in zip(members[one], members[other])])
    return turns


__all__ = ("ALL_UP_TO", "TOPOLOGIES", "Pair", "RoundsError", "rounds")
