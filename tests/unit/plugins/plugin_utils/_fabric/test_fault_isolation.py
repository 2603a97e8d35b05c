# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who is to blame for what fails."""

from __future__ import annotations

import pytest

from ansible_collections.rdmaops.gpu_fabric.tests.unit.plugins.plugin_utils._fabric.fabrics import Fabric, blamed, good

NUMBERS = "(ib_write_bw down to 12.1 of 400 Gb/s, 3.0%, limit 80%)"


def test_a_node() -> None:
    report = Fabric().slow("c").report()
    assert report["reasons"] == [
        "node c: all 6 measured pairs with it fail on rails 0, 1, 6 of 6 without it pass: the node itself " + NUMBERS
    ]
    assert blamed(report) == [("node", "c", None)]
    assert {node["name"]: node["verdict"] for node in report["nodes"]} == {**dict.fromkeys("abd", "pass"), "c": "fail"}


def test_a_port_of_a_node() -> None:
    report = Fabric().slow("c", [1]).report()
    assert report["reasons"] == [
        "rail 1: node c (mlx5_1, ens1): all 3 measured pairs with it on this rail fail, not so on rail 0: "
        "its card, cable or switch port " + NUMBERS
    ]
    assert blamed(report) == [("port", "c", 1)]
    failing = [
        (node["name"], rail["rail"]) for node in report["nodes"] for rail in node["rails"] if rail["verdict"] == "fail"
    ]
    assert failing == [("c", 1)]
    assert [node["name"] for node in report["nodes"] if node["verdict"] == "fail"] == ["c"]


def test_a_rail() -> None:
    report = Fabric().slow(rails=[1]).report()
    assert report["reasons"] == [
        "rail 1: all 6 measured pairs fail, whichever nodes are in them: the rail itself (its switch) " + NUMBERS
    ]
    assert blamed(report) == [("rail", None, 1)]


def test_a_path() -> None:
    report = Fabric().slow("ac", [0]).report()
    assert report["reasons"] == [
        "rail 0: a (mlx5_0, ens0) -> c (mlx5_0, ens0) fails, both pass with other nodes: the path between them "
        "(ib_write_bw 12.1 of 400 Gb/s, 3.0%, limit 80%)"
    ]
    assert blamed(report) == [("pair", ["a", "c"], 0)]


def test_a_direction() -> None:
    fabric = Fabric("ab", 1)
    fabric.wanted["pairs"].append(["b", "a"])
    fabric.results += [good("b", "a", 0, test) for test in fabric.wanted["tests"]]
    fabric.results[1]["gbps"] = 12.1
    report = fabric.report()
    assert report["reasons"] == [
        "rail 0: a (mlx5_0, ens0) -> b (mlx5_0, ens0) fails, the other direction does not "
        "(ib_write_bw 12.1 of 400 Gb/s, 3.0%, limit 80%)"
    ]


def test_two_nodes_cannot_be_told_apart_unless_a_port_tells() -> None:
    report = Fabric("ab").slow(rails=[0]).report()
    assert blamed(report) == [("rail", None, 0)]
    assert report["reasons"] == [
        "rail 0: the only measured pair fails between a and b: with two nodes it is not known which end it is, "
        "or the rail itself (its switch) (ib_write_bw 12.1 of 400 Gb/s, 3.0%, limit 80%)"
    ]
    report = Fabric("ab").slow(rails=[0]).port("b", 0, state="DOWN").report()
    assert blamed(report) == [("port", "b", 0)]
    assert "the port is DOWN, not ACTIVE; rail 0: node b" in report["suspects"][0]["why"]


def test_a_port_is_not_to_blame_for_another_rail_than_its_own() -> None:
    report = Fabric("ab").slow().port("b", 1, state="DOWN").report()
    assert blamed(report) == [("rail", None, 0), ("port", "b", 1)]


def test_what_explains_most_is_named_first_and_then_by_the_nodes() -> None:
    fabric = Fabric("abcdef").slow("ab", [0]).slow("e", [0]).slow("d", [1]).slow("f")
    assert blamed(fabric.report()) == [("node", "f", None), ("port", "d", 1), ("port", "e", 0), ("pair", ["a", "b"], 0)]


def test_rails_that_fail_alike_are_one_reason() -> None:
    report = Fabric().slow().report()
    assert report["reasons"] == [
        "rails 0, 1, each: all 6 measured pairs fail, whichever nodes are in them: the rail itself (its switch) "
        "(rail 0: ib_write_bw down to 12.1 of 400 Gb/s, 3.0%, limit 80%)"
    ]
    assert blamed(report) == [("rail", None, 0), ("rail", None, 1)]


def test_a_node_on_the_only_rail() -> None:
    report = Fabric("abcd", 1).slow("c").report()
    assert report["reasons"] == [
        "node c: all 3 measured pairs with it fail on rail 0, 3 of 3 without it pass: the node c (mlx5_0, ens0), "
        "its card, cable or switch port (no other rail was measured) " + NUMBERS
    ]
    report = Fabric("abcd", 1).slow("c").port("c", 0, state="DOWN").report()
    assert blamed(report) == [("port", "c", 0)]


def test_a_rail_beside_a_node() -> None:
    assert blamed(Fabric("abcde", 3).slow("c").slow(rails=[2]).report()) == [("rail", None, 2), ("node", "c", None)]


def test_two_bad_ports_of_a_ring_do_not_make_the_one_between_them_bad() -> None:
    fabric = Fabric("abcdef", 1)
    fabric.wanted["pairs"] = [["a", "b"], ["b", "c"], ["c", "d"], ["d", "e"], ["e", "f"], ["f", "a"]]
    fabric.results = [good(*pair, 0, test) for pair in fabric.wanted["pairs"] for test in fabric.wanted["tests"]]
    assert blamed(fabric.slow("b").slow("d").report()) == [("node", "b", None), ("node", "d", None)]


def test_unmeasured_pairs_neither_blame_nor_clear() -> None:
    # b and c were not measured with each other: a's port and the rail cannot be told apart.
    report = Fabric("abc").slow("a", [0]).without("bc", [0]).report()
    assert blamed(report) == [("port", "a", 0)]
    assert "or the rail itself, on which no pair without this node was measured well" in report["reasons"][0]
    fabric = Fabric("abcd").slow("ab", [0])
    for pair in ("ac", "ad", "bc", "bd"):
        fabric.without(pair, [0])
    report = fabric.report()
    assert blamed(report) == [("pair", ["a", "b"], 0)]
    assert "neither end was measured well with another node" in report["reasons"][0]


def test_a_node_of_which_a_rail_was_not_measured() -> None:
    report = Fabric(rails=3).slow("c").without("c", [1]).report()
    assert blamed(report) == [("node", "c", None)]
    assert "all 6 measured pairs with it fail on rails 0, 2, 6 of 6 without it pass" in report["reasons"][0]


def test_the_reason_has_the_words_of_the_tool() -> None:
    fabric = Fabric()
    for one in fabric.of("c", [0]):
        one.update(ok=False, error="cma event\nX", gbps=None)
    assert fabric.report()["reasons"][0].endswith("(rping: cma event\\nX; ib_write_bw: cma event\\nX)")


@pytest.mark.parametrize(("end", "direction", "other"), [("client", "from", "to"), ("server", "to", "from")])
def test_a_port_that_is_bad_in_one_direction_only(end: str, direction: str, other: str) -> None:
    fabric = Fabric("abcd", 1)
    fabric.wanted["pairs"] += [[server, client] for client, server in fabric.wanted["pairs"]]
    fabric.results += [{**result, "client": result["server"], "server": result["client"]} for result in fabric.results]
    for result in fabric.of(tests="ib_"):
        if result[end] == "c":
            result["gbps"] = 12.1
    assert fabric.report()["reasons"] == [
        f"rail 0: node c (mlx5_0, ens0): all 3 measured pairs {direction} it fail, 3 {other} it pass: "
        "its card, cable or switch port " + NUMBERS
    ]
