# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pairs in rounds: nobody twice in a round, nobody left out, no pair twice."""

from __future__ import annotations

import collections
import itertools
import typing as t

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._fabric.schedule import RoundsError, rounds
from ansible_collections.rdmaops.gpu_fabric.tests.support.failures import message_of


def names(number: int) -> list[str]:
    return [f"gpu-{place}" for place in range(number)]


def drawn(made: list[list[dict[str, str]]]) -> str:
    """Rounds as text: a>b c>d / ..."""
    return " / ".join(" ".join(f"{p['client'][4:]}>{p['server'][4:]}" for p in pairs) for pairs in made)


# number of nodes, topology, rounds
DRAWN = [
    (0, "auto", ""),
    (1, "auto", ""),
    (2, "auto", "0>1"),
    (2, "ring", "0>1"),
    (3, "all", "1>2 / 2>0 / 0>1"),
    (3, "ring", "0>1 / 1>2 / 2>0"),
    (4, "all", "0>3 1>2 / 2>0 3>1 / 0>1 2>3"),
    (4, "ring", "0>1 2>3 / 1>2 3>0"),
    (5, "ring", "0>1 2>3 / 1>2 3>4 / 4>0"),
]


@pytest.mark.parametrize(("number", "topology", "expected"), DRAWN)
def test_small_ones(number: int, topology: str, expected: str) -> None:
    assert drawn(rounds(names(number), topology)) == expected


def pairs_of(made: list[list[dict[str, str]]]) -> list[tuple[str, str]]:
    for pairs in made:
        busy = [pair[end] for pair in pairs for end in ("client", "server")]
        assert len(busy) == len(set(busy)), pairs
        assert pairs
    every = [(pair["client"], pair["server"]) for pairs in made for pair in pairs]
    assert len({frozenset(pair) for pair in every}) == len(every)
    return every


@given(st.integers(2, 40))
def test_all_pairs(number: int) -> None:
    made = rounds(names(number), "all")
    every = pairs_of(made)
    assert {frozenset(pair) for pair in every} == {frozenset(p) for p in itertools.combinations(names(number), 2)}
    assert len(made) == (number - 1 if number % 2 == 0 else number)
    balance = collections.Counter(dict.fromkeys(names(number), 0))
    for client, server in every:
        balance[client] += 1
        balance[server] -= 1
    assert max(map(abs, balance.values())) == (1 if number % 2 == 0 else 0)


@given(st.integers(3, 40))
def test_a_ring(number: int) -> None:
    made = rounds(names(number), "ring")
    assert len(made) == (2 if number % 2 == 0 else 3)
    order = names(number)
    assert sorted(pairs_of(made)) == sorted(zip(order, order[1:] + order[:1], strict=True))


@given(st.integers(0, 40))
def test_auto_is_all_up_to_16_nodes(number: int) -> None:
    assert rounds(names(number)) == rounds(names(number), "all" if number <= 16 else "ring")


@given(st.lists(st.text(min_size=1), unique=True, max_size=20), st.sampled_from(["all", "ring", "auto"]))
def test_names_are_taken_as_they_are(hosts: list[str], topology: str) -> None:
    made = rounds(hosts, topology)
    assert made == rounds(tuple(hosts), topology)
    named = {pair[end] for pairs in made for pair in pairs for end in pair}
    assert named == (set(hosts) if len(hosts) > 1 else set())


START = "Could not pair the nodes: "
# hosts, topology, message
REFUSED: list[tuple[t.Any, t.Any, str]] = [
    (["a", "b", "a"], "all", "these are in the list twice: 'a'. A node cannot measure with itself"),
    ("ab", "all", "the input must be a list of host names, not 'ab'"),
    (["a", 1], "all", "the input must be a list of host names, not ['a', 1]"),
    (["a", ""], "all", "the input must be a list of host names, not ['a', '']"),
    (None, "all", "the input must be a list of host names, not None"),
    (["a", "b"], "star", "topology is 'star'; it must be one of auto, all, ring"),
    ([], None, "topology is None; it must be one of auto, all, ring"),
]


def test_leaves_that_are_no_dictionary_are_refused() -> None:
    assert message_of(RoundsError, rounds, ["a", "b"], "ring", "leaf-1") == (
        START + "leaves must be a dictionary of nodes, not 'leaf-1'"
    )


# the leaf of each node, rounds
BY_LEAF = [
    ("AAAA", "0>1 2>3 / 1>2 3>0"),
    ("AABB", "0>1 2>3 / 0>2 1>3"),
    ("ABAB", "0>2 1>3 / 0>1 2>3"),
    ("AAAB", "0>1 / 1>2 / 2>0 / 0>3"),
    ("AABBCC", "0>1 2>3 4>5 / 0>2 1>3 / 2>4 3>5 / 4>0 5>1"),
    ("AB", "0>1"),
    ("A.B", "0>1 / 1>2 / 2>0"),
]


@pytest.mark.parametrize(("leaf_of", "expected"), BY_LEAF)
def test_a_ring_within_each_leaf_and_then_between_leaves(leaf_of: str, expected: str) -> None:
    leaves = {name: leaf.strip(".") for name, leaf in zip(names(len(leaf_of)), leaf_of, strict=True)}
    assert drawn(rounds(names(len(leaf_of)), "ring", leaves)) == expected
    assert rounds(names(len(leaf_of)), "all", leaves) == rounds(names(len(leaf_of)), "all")


@given(st.lists(st.sampled_from("ABCDE"), min_size=2, max_size=40))
def test_with_leaves_every_node_is_measured_and_none_twice_in_a_round(leaf_of: list[str]) -> None:
    hosts = names(len(leaf_of))
    made = rounds(hosts, "ring", dict(zip(hosts, leaf_of, strict=True)))
    assert {name for pair in pairs_of(made) for name in pair} == set(hosts)
    assert len(made) <= 6


@pytest.mark.parametrize(("hosts", "topology", "message"), REFUSED)
def test_what_is_refused(hosts: t.Any, topology: t.Any, message: str) -> None:
    assert message_of(RoundsError, rounds, hosts, topology) == START + message
