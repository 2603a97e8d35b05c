# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The verdict on a fabric: nothing passes untested, and the right part is named."""

from __future__ import annotations

import copy
import itertools
import json
import math
import random
import typing as t

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._fabric import table as fabric_table
from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._fabric import vocabulary as terms
from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._fabric.inputs import VerdictError
from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._fabric.table import table
from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._fabric.verdict import judge

SLOW = hypothesis_settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])

Json = t.Any
STARTED = "2026-11-21T12:00:00Z"


def port(rail: int, **more: Json) -> Json:
    found = {
        "rail": rail,
        "device": f"mlx5_{rail}",
        "port": 1,
        "netdev": f"ens{rail}",
        "state": "ACTIVE",
        "rate_gbps": 400.0,
    }
    found.update(netdev_mtu=9000, active_mtu=4096, link_layer="Ethernet", protocol="roce", gid_index=3, ipv4="10.0.0.1")
    return {**found, **more}


class Fabric:
    """A fabric on which all is well, for a test to break."""

    def __init__(self, hosts: str = "abcd", rails: int = 2, tests: tuple[str, ...] = ("rping", "ib_write_bw")) -> None:
        self.nodes: Json = {
            name: {"reachable": True, "problems": [], "busy": [], "rails": [port(rail) for rail in range(rails)]}
            for name in hosts
        }
        pairs = [list(pair) for pair in itertools.combinations(hosts, 2)]
        self.wanted: Json = {"pairs": pairs, "rails": list(range(rails)), "tests": list(tests)}
        self.results: list[Json] = [
            good(*pair, rail, test) for pair in pairs for rail in range(rails) for test in tests
        ]
        self.min_share: Json = 0.8

    def of(self, nodes: str = "", rails: t.Collection[int] | None = None, tests: str = "") -> list[Json]:
        """Results that touch all of these nodes (none: any)."""
        return [
            one
            for one in self.results
            if set(nodes) <= {one["client"], one["server"]}
            and (rails is None or one["rail"] in rails)
            and one["test"].startswith(tests)
        ]

    def slow(self, nodes: str = "", rails: t.Collection[int] | None = None, gbps: float = 12.1) -> Fabric:
        for one in self.of(nodes, rails, "ib_"):
            one["gbps"] = gbps
        return self

    def without(self, nodes: str = "", rails: t.Collection[int] | None = None) -> Fabric:
        gone = self.of(nodes, rails)
        self.results = [one for one in self.results if one not in gone]
        return self

    def port(self, node: str, rail: int, **more: Json) -> Fabric:
        self.nodes[node]["rails"][rail].update(more)
        return self

    def report(self) -> Json:
        before = copy.deepcopy((self.nodes, self.results, self.wanted))
        report = judge(self.nodes, self.results, self.wanted, self.min_share, STARTED)
        assert (self.nodes, self.results, self.wanted) == before
        json.dumps(report, allow_nan=False)
        table(report)
        assert bool(report["reasons"]) == (report["verdict"] != "pass")
        return report


def good(client: str, server: str, rail: int, test: str, **more: Json) -> Json:
    found = {"client": client, "server": server, "rail": rail, "test": test, "ok": True, "error": None, "skipped": None}
    found.update({"gbps": None, "pings": 10} if test == "rping" else {"gbps": 388.0, "pings": None})
    return {**found, **more}


def entry(report: Json, client: str, server: str, rail: int, test: str) -> Json:
    wanted = (client, server, rail, test)
    return next(one for one in report["pairs"] if (one["client"], one["server"], one["rail"], one["test"]) == wanted)


def blamed(report: Json) -> list[tuple[t.Any, ...]]:
    return [(one["kind"], one["node"] or one["pair"], one["rail"]) for one in report["suspects"]]


# --- what passes --------------------------------------------------------------------------------------------------


def test_all_is_well() -> None:
    report = Fabric().report()
    assert (report["schema"], report["started"], report["verdict"]) == (1, STARTED, "pass")
    assert [report[key] for key in ("reasons", "suspects", "coherence", "skipped")] == [[], [], [], []]
    assert len(report["pairs"]) == 24
    assert entry(report, "a", "b", 0, "ib_write_bw") == {
        "client": "a", "server": "b", "rail": 0, "test": "ib_write_bw", "verdict": "pass", "gbps": 388.0,
        "expected_gbps": 400.0, "share": 0.97, "error": None, "pings": None, "skipped": None, "wanted": True, "results": 1,
        "quiet": None, "traffic": None,
    }  # fmt: skip
    assert report["wanted"] == {
        "pairs": [list(pair) for pair in itertools.combinations("abcd", 2)],
        "rails": [0, 1],
        "tests": ["rping", "ib_write_bw"],
    }
    assert {node["verdict"] for node in report["nodes"]} == {"pass"}
    assert {rail["verdict"] for node in report["nodes"] for rail in node["rails"]} == {"pass"}


# change of a result, test, verdict, error
ONE: list[tuple[Json, str, str, str | None]] = [
    ({"gbps": 320.0}, "ib_write_bw", "pass", None),
    ({"gbps": 500.0}, "ib_write_bw", "pass", None),
    ({"gbps": 319.99}, "ib_write_bw", "fail", "320.0 Gb/s are 79.9% of the link's 400 Gb/s, the limit is 80%"),
    ({"gbps": 0}, "ib_write_bw", "fail", "0.0 Gb/s are 0.0% of the link's 400 Gb/s, the limit is 80%"),
    ({"gbps": None}, "ib_write_bw", "unknown", "no bandwidth could be read"),
    ({"gbps": math.nan}, "ib_write_bw", "unknown", "no bandwidth could be read"),
    ({"gbps": math.inf}, "ib_write_bw", "unknown", "no bandwidth could be read"),
    ({"gbps": -1}, "ib_write_bw", "unknown", "no bandwidth could be read"),
    ({"ok": None}, "ib_write_bw", "unknown", "the result could not be read"),
    ({"ok": None, "error": "no JSON"}, "ib_write_bw", "unknown", "no JSON"),
    ({"ok": False}, "ib_write_bw", "fail", "ib_write_bw failed"),
    ({"ok": False, "gbps": None, "error": "refused"}, "ib_write_bw", "fail", "refused"),
    ({"error": "and yet"}, "ib_write_bw", "unknown", "and yet"),
    ({"skipped": "in use"}, "ib_write_bw", "unknown", "skipped: in use"),
    ({"skipped": "in use", "error": "x"}, "rping", "unknown", "skipped: in use; x"),
    ({"skipped": ""}, "rping", "pass", None),
    ({"skipped": "in use", "ok": False}, "rping", "fail", "rping failed"),
    ({"pings": None}, "rping", "pass", None),
    ({"pings": 0}, "rping", "unknown", "no ping was seen"),
    ({"ok": False, "error": "cma event"}, "rping", "fail", "cma event"),
    ({"ok": None}, "rping", "unknown", "the result could not be read"),
]


@pytest.mark.parametrize(("change", "test", "verdict", "error"), ONE)
def test_one_result(change: Json, test: str, verdict: str, error: str | None) -> None:
    fabric = Fabric("ab", 1)
    fabric.of("ab", [0], test)[0].update(change)
    report = fabric.report()
    found = entry(report, "a", "b", 0, test)
    assert (found["verdict"], found["error"], report["verdict"]) == (verdict, error, verdict)
    assert bool(report["skipped"]) == (verdict == "unknown")


def test_the_rate_is_that_of_the_slower_end_and_unknown_where_one_is() -> None:
    fabric = Fabric("ab", 1).port("a", 0, rate_gbps=200).slow(gbps=190)
    assert entry(fabric.report(), "a", "b", 0, "ib_write_bw")["share"] == 0.95
    report = Fabric("ab", 1).port("a", 0, rate_gbps=None).report()
    assert report["verdict"] == "unknown"
    assert entry(report, "a", "b", 0, "ib_write_bw")["error"] == "the rate of the link is not known"
    assert "rail 0: the rate could not be read on a (mlx5_0, ens0), the others have 400 Gb/s" in report["reasons"]


def test_a_missing_result_is_unknown_and_says_why() -> None:
    fabric = Fabric("abc", 1).without("ab").without("ac").without("bc")
    fabric.nodes["a"].update(reachable=False, rails=[])
    fabric.nodes["b"].update(problems=["perftest is not installed"])
    fabric.nodes["c"].update(busy=["pod ml/x holds mlx5_0"])
    report = fabric.report()
    assert report["verdict"] == "unknown"
    assert {one["verdict"] for one in report["pairs"]} == {"unknown"}
    assert report["reasons"] == [
        "node a is not reachable: nothing was checked there",
        "node b: perftest is not installed",
        "node c was left alone: pod ml/x holds mlx5_0",
        "2 of 6 measurements unknown, no result: node a is not reachable; node b: perftest is not installed: "
        "rping a -> b on rail 0, ib_write_bw a -> b on rail 0",
        "2 of 6 measurements unknown, no result: node a is not reachable; node c: pod ml/x holds mlx5_0: "
        "rping a -> c on rail 0, ib_write_bw a -> c on rail 0",
        "2 of 6 measurements unknown, no result: node b: perftest is not installed; node c: pod ml/x holds mlx5_0: "
        "rping b -> c on rail 0, ib_write_bw b -> c on rail 0",
    ]
    assert {"what": "node c", "why": "pod ml/x holds mlx5_0"} in report["skipped"]
    assert {node["verdict"] for node in report["nodes"]} == {"unknown"}


# what is wrong with a node of which all results are good
@pytest.mark.parametrize("change", [{"reachable": False}, {"problems": ["x"]}, {"busy": ["x"]}])
def test_good_results_do_not_make_up_for_a_node_that_was_not_looked_at(change: Json) -> None:
    fabric = Fabric()
    fabric.nodes["b"].update(change)
    report = fabric.report()
    assert report["verdict"] == "unknown"
    assert {node["name"]: node["verdict"] for node in report["nodes"]}["b"] == "unknown"


@pytest.mark.parametrize("what", ["pairs", "rails", "tests"])
def test_nothing_asked_for_is_unknown(what: str) -> None:
    fabric = Fabric()
    fabric.wanted[what] = []
    fabric.results = []
    report = fabric.report()
    assert report["verdict"] == "unknown"
    assert f"nothing was requested: wanted has no {what}" in report["reasons"]
    assert judge({}, [], {"pairs": [], "rails": [], "tests": []}, 1, "")["verdict"] == "unknown"


def test_a_node_in_no_pair_is_not_passed() -> None:
    fabric = Fabric()
    fabric.nodes["e"] = copy.deepcopy(fabric.nodes["a"])
    report = fabric.report()
    assert (report["verdict"], report["reasons"]) == ("unknown", ["node e is in no pair: nothing was measured with it"])


def test_of_several_results_the_worst_counts() -> None:
    for more, verdict in ({"ok": None}, "unknown"), ({"ok": False}, "fail"), ({"gbps": 390.0}, "pass"):
        fabric = Fabric()
        fabric.results.insert(0, good("a", "b", 0, "ib_write_bw", **t.cast(Json, more)))
        report = fabric.report()
        assert report["verdict"] == verdict
        assert entry(report, "a", "b", 0, "ib_write_bw")["results"] == 2
    assert entry(report, "a", "b", 0, "ib_write_bw")["gbps"] == 388.0


def test_what_nobody_asked_for_is_reported() -> None:
    fabric = Fabric()
    fabric.results += [good("b", "a", 0, "rping"), good("x", "y", 7, "rping", ok=False, error="no")]
    report = fabric.report()
    assert report["verdict"] == "fail"
    assert report["reasons"][-1] == (
        "results that were not requested: rping b -> a on rail 0 pass, rping x -> y on rail 7 fail"
    )
    assert [one["wanted"] for one in report["pairs"][-2:]] == [False, False]
    fabric.results += [good("y", "x", rail, "rping") for rail in (5, 6, 7)]
    assert fabric.report()["reasons"][-1].endswith(", rping y -> x on rail 5 pass and 2 more")


# --- before any traffic -------------------------------------------------------------------------------------------

# node, rail, change, verdict, reason
PORTS: list[tuple[str, int, Json, str, str]] = [
    ("b", 1, {"state": "DOWN"}, "fail", "rail 1: node b (mlx5_1, ens1): the port is DOWN, not ACTIVE"),
    ("b", 1, {"state": "INIT", "port": 2, "netdev": None}, "fail", "rail 1: node b (mlx5_1 port 2): the port is INIT, not ACTIVE"),
    ("b", 1, {"state": None}, "unknown", "rail 1: node b (mlx5_1, ens1): the state of the port could not be read"),
    ("b", 1, {"device": None, "netdev": None, "state": "absent"}, "fail", "rail 1: node b has no such port: the device of this rail is absent"),
    ("b", 1, {"netdev_mtu": 1500}, "fail", "rail 1: node b (mlx5_1, ens1) has netdev MTU 1500, 3 of 4 nodes have 9000"),
    ("b", 1, {"active_mtu": 1024}, "fail", "rail 1: node b (mlx5_1, ens1) has RDMA MTU 1024, 3 of 4 nodes have 4096"),
    ("b", 1, {"active_mtu": None}, "unknown", "rail 1: the RDMA MTU could not be read on b (mlx5_1, ens1), the others have 4096"),
    ("b", 1, {"link_layer": "InfiniBand"}, "fail", "rail 1: node b (mlx5_1, ens1) has link layer InfiniBand, 3 of 4 nodes have Ethernet"),
    ("b", 1, {"protocol": "iw"}, "fail", "rail 1: node b (mlx5_1, ens1) has protocol iw, 3 of 4 nodes have roce"),
    ("b", 1, {"rate_gbps": 200.0}, "fail", "rail 1: node b (mlx5_1, ens1) has rate 200 Gb/s, 3 of 4 nodes have 400 Gb/s: the link is down-trained"),
    ("b", 1, {"rate_gbps": 800}, "fail", "rail 1: node b (mlx5_1, ens1) has rate 800 Gb/s, 3 of 4 nodes have 400 Gb/s"),
]  # fmt: skip


@pytest.mark.parametrize(("node", "rail", "change", "verdict", "reason"), PORTS)
def test_a_port(node: str, rail: int, change: Json, verdict: str, reason: str) -> None:
    report = Fabric(rails=3).port(node, rail, **change).report()
    assert (report["verdict"], report["reasons"][0]) == (verdict, reason)
    assert blamed(report) == ([("port", node, rail)] if verdict == "fail" else [])
    found = next(one for one in report["nodes"] if one["name"] == node)
    assert (found["verdict"], found["rails"][rail]["verdict"]) == (verdict, verdict)
    assert reason in found["rails"][rail]["problems"]
    assert [one["verdict"] for one in report["nodes"] if one["name"] != node] == ["pass"] * 3


def test_a_rail_that_a_node_does_not_have_is_absent_or_unknown() -> None:
    fabric = Fabric()
    del fabric.nodes["c"]["rails"][1]
    report = fabric.report()
    assert report["reasons"] == [
        "rail 1: node c has no such port: the device of this rail is absent",
        "3 of 24 measurements unknown, the rate of the link is not known: ib_write_bw a -> c on rail 1, "
        "ib_write_bw b -> c on rail 1, ib_write_bw c -> d on rail 1",
    ]
    assert (report["verdict"], report["nodes"][2]["rails"][1]["state"]) == ("fail", "absent")
    fabric.nodes["c"]["problems"] = ["mlx5_1 cannot be read"]
    report = fabric.report()
    assert (report["verdict"], report["nodes"][2]["rails"][1]["state"]) == ("unknown", None)


def test_rails_that_nobody_asked_for_are_shown_and_not_judged() -> None:
    fabric = Fabric()
    fabric.wanted["rails"] = [0]
    fabric.results = fabric.of(rails=[0])
    report = fabric.port("a", 1, state="DOWN", rate_gbps=10).report()
    assert (report["verdict"], report["nodes"][0]["rails"][1]["verdict"]) == ("pass", None)


def test_of_two_nodes_both_are_named() -> None:
    report = Fabric("ab").port("b", 0, netdev_mtu=1500).report()
    assert report["reasons"] == [
        "rail 0: the netdev MTU differs between nodes: 9000 on a (mlx5_0, ens0); 1500 on b (mlx5_0, ens0)"
    ]
    assert (report["verdict"], blamed(report)) == ("fail", [])
    assert report["coherence"][0]["values"] == {"a": 9000, "b": 1500}


def test_of_two_nodes_the_other_rails_tell_which_is_slow() -> None:
    report = Fabric("ab").port("b", 0, rate_gbps=200.0).report()
    assert report["reasons"] == [
        "rail 0: the rate differs between nodes: 400 Gb/s on a (mlx5_0, ens0); 200 Gb/s on b (mlx5_0, ens0)",
        "rail 0: node b (mlx5_0, ens0) runs at 200 Gb/s, its other rails at 400 Gb/s: the link is down-trained",
    ]
    assert blamed(report) == [("port", "b", 0)]


def test_a_rail_that_is_slow_everywhere() -> None:
    fabric = Fabric(rails=3)
    for node in "abcd":
        fabric.port(node, 2, rate_gbps=200.0)
    report = fabric.report()
    assert report["reasons"] == [
        "rail 2: all 4 nodes run at 200 Gb/s here, slower than on their other rails: the rail is down-trained"
    ]
    assert (report["verdict"], blamed(report)) == ("fail", [("rail", None, 2)])


def test_a_port_that_is_down_does_not_count_in_comparisons() -> None:
    report = Fabric().port("b", 0, state="DOWN", rate_gbps=10.0, active_mtu=256).report()
    assert report["reasons"] == ["rail 0: node b (mlx5_0, ens0): the port is DOWN, not ACTIVE"]


# --- elimination --------------------------------------------------------------------------------------------------

NUMBERS = "(ib_write_bw down to 12.1 of 400 Gb/s, 3.0%, limit 80%)"


def test_a_node() -> None:
    report = Fabric().slow("c").report()
    assert report["reasons"] == [
        "node c: all 6 measured pairs with it fail on rails 0, 1, 6 of 6 without it pass: the node itself " + NUMBERS
    ]
    assert blamed(report) == [("node", "c", None)]
    assert {node["name"]: node["verdict"] for node in report["nodes"]} == {
        "a": "pass",
        "b": "pass",
        "c": "fail",
        "d": "pass",
    }


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
    report = (
        Fabric("abcd")
        .slow("ab", [0])
        .without("ac", [0])
        .without("ad", [0])
        .without("bc", [0])
        .without("bd", [0])
        .report()
    )
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


NAMES = "abcdef"


@SLOW
@given(st.integers(3, 6), st.integers(2, 4), st.data())
def test_one_fault_is_found(hosts: int, rails: int, data: st.DataObject) -> None:
    fabric = Fabric(NAMES[:hosts], rails)
    node = data.draw(st.sampled_from(NAMES[:hosts]))
    rail = data.draw(st.integers(0, rails - 1))
    assert blamed(copy.deepcopy(fabric).slow(node).report()) == [("node", node, None)]
    assert blamed(copy.deepcopy(fabric).slow(node, [rail]).report()) == [("port", node, rail)]
    assert blamed(copy.deepcopy(fabric).slow(rails=[rail]).report()) == [("rail", None, rail)]
    if hosts > 3:
        pair = data.draw(st.sampled_from(fabric.wanted["pairs"]))
        assert blamed(copy.deepcopy(fabric).slow("".join(pair), [rail]).report()) == [("pair", pair, rail)]


# --- what always holds --------------------------------------------------------------------------------------------

SIZES = st.tuples(st.integers(2, 5), st.integers(1, 3)).map(lambda size: Fabric(NAMES[: size[0]], size[1]))
CHANGES: st.SearchStrategy[Json] = st.sampled_from(
    [{}, {}, {"ok": False}, {"ok": None}, {"gbps": 1.0}, {"gbps": None}, {"skipped": "x"}, {"pings": 0}, {"error": "e"}]
)


@st.composite
def fabrics(draw: st.DrawFn) -> Fabric:
    fabric = draw(SIZES)
    for one in fabric.results:
        one.update(draw(CHANGES))
    fabric.results = [one for one in fabric.results if draw(st.integers(0, 9))]
    for node in fabric.nodes.values():
        node.update(draw(st.sampled_from([{}, {}, {}, {"busy": ["b"]}, {"reachable": False}, {"problems": ["p"]}])))
        for one in node["rails"]:
            one.update(
                draw(st.sampled_from([{}, {}, {}, {}, {"state": "DOWN"}, {"rate_gbps": None}, {"netdev_mtu": 1500}]))
            )
    return fabric


@SLOW
@given(SIZES, st.data())
def test_without_any_one_result_it_never_passes(fabric: Fabric, data: st.DataObject) -> None:
    assert fabric.report()["verdict"] == "pass"
    fabric.results.pop(data.draw(st.integers(0, len(fabric.results) - 1)))
    assert fabric.report()["verdict"] == "unknown"


@SLOW
@given(fabrics(), st.integers(0, 4), st.sampled_from(terms.TESTS), st.booleans())
def test_with_a_failure_it_always_fails(fabric: Fabric, rail: int, test: str, back: bool) -> None:
    pair = ["b", "a"] if back else ["a", "b"]
    fabric.results.append(good(*pair, rail, test, ok=False))
    report = fabric.report()
    assert report["verdict"] == "fail"
    assert report["suspects"]


@SLOW
@given(fabrics(), st.randoms(use_true_random=False))
def test_the_order_of_the_results_is_of_no_account(fabric: Fabric, shuffle: random.Random) -> None:
    fabric.results += [dict(one, error="later") for one in fabric.results[::3]]
    expected = fabric.report()
    shuffle.shuffle(fabric.results)
    assert fabric.report() == expected


@SLOW
@given(fabrics())
def test_the_verdict_is_that_of_its_worst_part(fabric: Fabric) -> None:
    report = fabric.report()
    parts = [one["verdict"] for key in ("pairs", "coherence", "nodes") for one in report[key]]
    assert report["verdict"] == terms.worst(parts)
    failing = [one for one in report["pairs"] if one["verdict"] == "fail"]
    assert not failing or any(one["worst"] for one in report["suspects"])
    assert max(map(len, table(report).splitlines())) <= 120


# --- what is refused ----------------------------------------------------------------------------------------------


def changed(path: str, value: Json) -> Fabric:
    """A fabric in which the value at a dotted path is another."""
    fabric = Fabric("ab", 1)
    *way, last = path.split(".")
    holder: Json = fabric.__dict__
    for step in way:
        holder = holder[int(step) if isinstance(holder, list) else step]
    holder[int(last) if isinstance(holder, list) else last] = value
    return fabric


SHARE = "min_share must be a number above 0 and up to 1, for example 0.8, not "
# path, value, message
REFUSED: list[tuple[str, Json, str]] = [
    *(("min_share", value, SHARE + repr(value)) for value in (0, -0.1, 1.0001, 80, math.nan, True, "0.8", None)),
    ("nodes", [], "nodes must be a dictionary, name of a node to what was seen on it, not []"),
    ("nodes.a", 1, "nodes['a'] must be a dictionary, not 1"),
    ("nodes.a.reachable", None, "nodes['a'].reachable must be true or false, not None"),
    ("nodes.a.busy", "x", "nodes['a'].busy must be a list, not 'x'"),
    ("nodes.a.problems", [1], "nodes['a'].problems must be a string or null, not 1"),
    ("nodes.a.rails", {}, "nodes['a'].rails must be a list, not {}"),
    ("nodes.a.rails", [1], "nodes['a'].rails must be a list of dictionaries; it has 1"),
    ("nodes.a.rails", [{}], "nodes['a'].rails[].rail must be the number of a rail, from 0, not None"),
    ("nodes.a.rails", [{"rail": 0}, {"rail": 0}], "nodes['a'].rails has rail 0 twice"),
    ("nodes.a.rails.0.rate_gbps", "400", "nodes['a'].rails[].rate_gbps of rail 0 must be a number or null, not '400'"),
    ("nodes.a.rails.0.state", 4, "nodes['a'].rails[].state of rail 0 must be a string or null, not 4"),
    ("wanted", [], "wanted must be a dictionary with pairs, rails and tests, not []"),
    ("wanted.pair", [], "wanted has pair; it has pairs, rails and tests"),
    ("wanted.pairs", [["a"]], "wanted.pairs has ['a'], which is not a list of client and server"),
    ("wanted.pairs", ["ab"], "wanted.pairs has 'ab', which is not a list of client and server"),
    ("wanted.pairs", [["a", "a"]], "wanted.pairs has 'a' with itself"),
    ("wanted.pairs", [["a", "z"]], "wanted.pairs has 'z', which is not in nodes"),
    ("wanted.rails", [-1], "an entry of wanted.rails must be the number of a rail, from 0, not -1"),
    ("wanted.rails", [True], "an entry of wanted.rails must be the number of a rail, from 0, not True"),
    ("wanted.tests", ["ping"], "an entry of wanted.tests is 'ping'; the tests are " + ", ".join(terms.WANTED)),
    ("nodes.a.checks", {}, "nodes['a'].checks must be a list, not {}"),
    ("nodes.a.checks", ["x"], "nodes['a'].checks must be a list of dictionaries; it has 'x'"),
    ("nodes.a.checks", [{"rail": 0, "test": "rping"}], "nodes['a'].checks[].test is 'rping'; the tests are ibv_devinfo, memlock"),
    ("nodes.a.checks", [{"rail": 0, "test": "memlock", "ok": 1}], "nodes['a'].checks[].ok must be true, false or null, not 1"),
    ("nodes.a.pod", 5, "nodes['a'].pod must be a string or null, not 5"),
    ("results", {}, "results must be a list, not {}"),
    ("results.0", "x", "results must be a list of dictionaries; it has 'x'"),
    ("results.0.client", "", "the client of a result must be the name of a node, not ''"),
    ("results.0.client", "b", "results has one of 'b' with itself"),
    ("results.0.rail", "0", "the rail of a result of 'a' -> 'b' must be the number of a rail, from 0, not '0'"),
    ("results.0.test", "ib_read_bw", "of the result of 'a' -> 'b' on rail 0, test is 'ib_read_bw'; the tests are " + ", ".join(terms.TESTS)),
    ("results.0.ok", "yes", "of the result of 'a' -> 'b' on rail 0, ok must be true, false or null, not 'yes'"),
    ("results.0.gbps", "x", "of the result of 'a' -> 'b' on rail 0, gbps must be a number or null, not 'x'"),
    ("results.0.traffic", {"quiet": 1}, "of the result of 'a' -> 'b' on rail 0, traffic must be a dictionary whose quiet is true, false or null, not {'quiet': 1}"),
    ("results.0.error", ["x" * 99], "of the result of 'a' -> 'b' on rail 0, error must be a string or null, not ['" + "x" * 78 + "... (list)"),
]  # fmt: skip


@pytest.mark.parametrize(("path", "value", "message"), REFUSED)
def test_what_is_refused(path: str, value: Json, message: str) -> None:
    with pytest.raises(VerdictError) as caught:
        changed(path, value).report()
    assert str(caught.value) == "Could not judge the fabric: " + message


def test_the_time_has_to_be_a_text() -> None:
    with pytest.raises(VerdictError, match="started must be a string with the time, not 5"):
        judge({}, [], {"pairs": [], "rails": [], "tests": []}, 1, 5)


# --- the table ----------------------------------------------------------------------------------------------------


TABLE = """\
Fabric check: FAIL
  * rail 0: b (mlx5_0, ens0) -> c (mlx5_0, ens0) fails, both pass with other nodes: the path between them (ib_write_bw
    12.1 of 400 Gb/s, 3.0%, limit 80%)
  * 2 of 20 measurements unknown, no result came back: rping d -> e on rail 0, ib_write_bw d -> e on rail 0

GPUDirect RDMA: not proven: whether there are GPUs is not known on a, b, c, d, e

Rail 0, rping: 9 pass, 1 unknown
       0 1 2 3 4
  0  a - + + + +
  1  b . - + + +
  2  c . . - + +
  3  d . . . - ?
  4  e . . . . -
  unknown  d -> e: no result came back

Rail 0, ib_write_bw: 8 pass, 1 unknown, 1 fail, 12.1 to 388.0 Gb/s, 3.0% to 97.0% of the link's rate
          0    1    2    3    4
  0  a    -   97   97   97   97
  1  b    .    -   3!   97   97
  2  c    .    .    -   97   97
  3  d    .    .    .    -    ?
  4  e    .    .    .    .    -
  fail     b -> c: 12.1 Gb/s are 3.0% of the link's 400 Gb/s, the limit is 80%
  unknown  d -> e: no result came back

Client down, server across, by number. A number is the share of the link's rate in percent;
+ pass, ! fail, ? unknown, . not requested. The limit is 80%.
"""


def test_a_table() -> None:
    fabric = Fabric("abcde", 1).slow("bc").without("de")
    assert table(fabric.report()) == TABLE


def test_a_rail_on_which_all_is_well_is_one_line() -> None:
    assert table(Fabric("abcde", 1, ("ib_write_bw",)).report()) == (
        "Fabric check: PASS\n\n"
        "GPUDirect RDMA: not proven: whether there are GPUs is not known on a, b, c, d, e\n\nRail 0, ib_write_bw: 10 pass, 388.0 Gb/s, 97.0% of the link's rate\n"
    )


def test_strange_names_are_made_printable_and_keep_the_table_in_line() -> None:
    strange = ['a"\n\x1b[31m', "b\u202e\u200f", "節点", "e\u0301", "x" * 90]
    fabric = Fabric("abcde", 1).slow("ab").slow("bc")
    text = json.dumps([fabric.nodes, fabric.results, fabric.wanted])
    for letter, name in zip("abcde", strange, strict=True):
        text = text.replace(f'"{letter}"', json.dumps(name))
    nodes, results, wanted = json.loads(text)
    shown = table(judge(nodes, results, wanted, 0.8, STARTED))
    assert all(one.isprintable() or one == "\n" for one in shown)
    assert 'a"\\n\\x1b[31m' in shown
    assert "b\\u202e\\u200f" in shown
    rows = [line for line in shown.splitlines() if line.startswith(tuple(f"  {place}  " for place in range(5)))]
    assert len(rows) == 5
    assert len({fabric_table._columns(row) for row in rows}) == 1


@pytest.mark.parametrize("number", [2, 16, 17, 32, 40])
def test_a_table_is_not_too_wide(number: int) -> None:
    fabric = Fabric("".join(chr(0x41 + place) for place in range(number)), 1)
    fabric.slow("A")
    text = json.dumps([fabric.nodes, fabric.results, fabric.wanted])
    for place in range(number):
        text = text.replace(f'"{chr(0x41 + place)}"', f'"gpu-node-{place}.cluster.example.com"')
    nodes, results, wanted = json.loads(text)
    shown = table(judge(nodes, results, wanted, 0.8, STARTED))
    assert max(map(len, shown.splitlines())) <= 120
    assert "gpu-node" in shown


# share, digits, text
@pytest.mark.parametrize(
    ("share", "digits", "text"),
    [(0.79999, 1, "79.9%"), (0.8, 1, "80.0%"), (0.8, 0, "80%"), (0.29, 1, "29.0%"), (0, 1, "0.0%")],
)
def test_a_percentage_is_rounded_down(share: float, digits: int, text: str) -> None:
    assert terms.percent(share, digits) == text


@pytest.mark.parametrize(
    ("gbps", "text"), [(388.04, "388.0"), (1.26, "1.3"), (1, "1.0"), (0.99876, "0.999"), (0.0512, "0.0512"), (0, "0.0")]
)
def test_a_rate_has_the_digits_that_say_something(gbps: float, text: str) -> None:
    assert terms.speed(gbps) == text


# --- tests of one end


def with_checks(*changes: tuple[str, int, Json]) -> Json:
    """Memlock on every node and rail, good but for the changes: node, rail, what came back."""
    fabric = Fabric("abc")
    fabric.wanted["tests"].append("memlock")
    for node in fabric.nodes.values():
        good = {"test": "memlock", "ok": True, "by": "python3", "wanted_bytes": 67108864, "unlimited": True}
        node["checks"] = [{"rail": rail, **good} for rail in (0, 1)]
    for name, rail, change in changes:
        kept = [one for one in fabric.nodes[name]["checks"] if one["rail"] != rail]
        fabric.nodes[name]["checks"] = kept + ([{"rail": rail, "test": "memlock", **change}] if change else [])
    return fabric.report()


def test_checks_that_are_good() -> None:
    report = with_checks()
    assert (report["verdict"], report["reasons"]) == ("pass", [])
    assert [(one["node"], one["rail"]) for one in report["checks"]] == list(itertools.product("abc", (0, 1)))
    assert report["checks"][0] == {
        "node": "a",
        "rail": 0,
        "test": "memlock",
        "device": "mlx5_0",
        "verdict": "pass",
        "error": None,
        "state": None,
        "wanted_bytes": 67108864,
        "limit_bytes": None,
        "unlimited": True,
        "by": "python3",
    }
    assert "memlock on every node and rail: 6 pass\n" in table(report)
    assert report["wanted"]["tests"] == ["rping", "ib_write_bw", "memlock"]


def test_a_check_that_fails_fails_the_node_and_all() -> None:
    report = with_checks(("b", 1, {"ok": False, "error": "the limit is 65536 bytes"}))
    assert report["verdict"] == "fail"
    assert report["reasons"] == ["memlock: node b, rail 1: the limit is 65536 bytes"]
    assert [node["verdict"] for node in report["nodes"]] == ["pass", "fail", "pass"]
    assert "memlock on every node and rail: 5 pass, 1 fail\n" in table(report)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"ok": None, "error": "no python3"}, "no python3"),
        ({"ok": None}, "memlock gave no reason"),
        ({"ok": True, "error": "and yet"}, "and yet"),
        (None, "no result came back"),
    ],
)
def test_a_check_that_is_not_known_never_passes(change: Json, error: str) -> None:
    report = with_checks(("a", 0, change))
    assert (report["verdict"], report["reasons"]) == ("unknown", ["memlock: node a, rail 0: " + error])
    assert report["skipped"] == [{"what": "memlock, node a, rail 0", "why": error}]
    assert report["nodes"][0]["verdict"] == "unknown"


def test_checks_alone_are_something_that_was_asked_for() -> None:
    fabric = Fabric("ab", tests=())
    fabric.results = []
    fabric.wanted["tests"] = ["ibv_devinfo"]
    for node in fabric.nodes.values():
        node["checks"] = [{"rail": rail, "test": "ibv_devinfo", "ok": True} for rail in (0, 1)]
    assert (fabric.report()["verdict"], fabric.report()["reasons"]) == ("pass", [])
    fabric.nodes["a"].update(reachable=False, checks=[])
    assert (
        "ibv_devinfo: node a, rail 0, node a, rail 1: no result: the node is not reachable"
        in fabric.report()["reasons"]
    )


# --- GPUs


def test_gpudirect_is_never_assumed() -> None:
    fabric = Fabric("ab", rails=1)
    report = fabric.report()
    why = "whether there are GPUs is not known on a, b"
    assert report["gpudirect"] == {"proven": False, "by": [], "why": why}
    assert report["nccl"] is None
    for node in fabric.nodes.values():
        node["gpus"] = 8
    why = "neither ib_write_bw_cuda nor nccl_tests was requested"
    assert fabric.report()["gpudirect"]["why"] == why
    assert "GPUDirect RDMA: not proven: " + why in table(fabric.report())
    fabric.wanted["tests"].append("ib_write_bw_cuda")
    fabric.results.append(good("a", "b", 0, "ib_write_bw_cuda", ok=False, error="unrecognized option"))
    assert fabric.report()["gpudirect"]["why"] == "what was requested did not succeed"
    fabric.results[-1].update(ok=True, error=None)
    report = fabric.report()
    by = ["ib_write_bw --use_cuda a -> b on rail 0"]
    assert (report["verdict"], report["gpudirect"]) == ("pass", {"proven": True, "by": by, "why": None})
    assert "GPUDirect RDMA: proven by ib_write_bw --use_cuda a -> b on rail 0" in table(report)


def test_memory_of_gpus_that_there_are_not_is_unknown() -> None:
    fabric = Fabric("ab", rails=1)
    fabric.wanted["tests"].append("ib_write_bw_cuda")
    for node in fabric.nodes.values():
        node["gpus"] = 0
    report = fabric.report()
    assert (report["verdict"], report["pairs"][2]["error"]) == (
        "unknown",
        "no result: no GPUs (no nvidia-smi) on a, b",
    )
    assert report["gpudirect"]["why"] == "no GPUs (no nvidia-smi) on a, b"


TOGETHER: list[tuple[Json, str, str | None]] = [
    # what is different from a good run, verdict, error
    ({}, "pass", None),
    ({"out_of_bounds": 3}, "fail", "3 values were wrong (out of bounds)"),
    ({"transport": "socket"}, "fail", "NCCL sent all of it by TCP (transport socket), not by RDMA"),
    ({"transport": "mixed"}, "fail", "NCCL sent some of it by TCP (transport mixed), not by RDMA"),
    ({"transport": "unknown"}, "unknown", "NCCL's log does not show which path it took"),
    ({"avg_busbw": None}, "unknown", "no bandwidth, or no check of the values, could be read"),
    ({"out_of_bounds": None}, "unknown", "no bandwidth, or no check of the values, could be read"),
    ({"ok": False, "error": "mpirun exited with 1"}, "fail", "mpirun exited with 1"),
    ({"ok": None, "error": "two tables"}, "unknown", "two tables"),
]


@pytest.mark.parametrize(("change", "verdict", "error"), TOGETHER, ids=range(len(TOGETHER)))
def test_nccl_tests(change: Json, verdict: str, error: str | None) -> None:
    fabric = Fabric("ab", rails=1)
    fabric.wanted["tests"].append("nccl_tests")
    run = {"ok": True, "transport": "rdma", "gpudirect": True, "avg_busbw": 180.5, "out_of_bounds": 0, "ranks": 16}
    given = (fabric.nodes, fabric.results, fabric.wanted, 0.8, STARTED)
    report = judge(*given, {**run, **change})
    assert (report["verdict"], report["nccl"]["verdict"], report["nccl"]["error"]) == (verdict, verdict, error)
    assert report["reasons"] == ([f"nccl_tests: {error}"] if error else [])
    assert report["gpudirect"]["by"] == ["GDRDMA in NCCL's log"]
    measured = (
        ""
        if change.get("avg_busbw", 1) is None
        else f", 180.50 GB/s on average, transport {report['nccl']['transport']}"
    )
    assert f"nccl_tests: {verdict}{measured}\n" in table(report)
    assert report["wanted"]["tests"] == ["rping", "ib_write_bw", "nccl_tests"]


def test_nccl_tests_that_were_not_run_are_unknown() -> None:
    fabric = Fabric("ab", rails=1)
    fabric.wanted["tests"].append("nccl_tests")
    for gpus, pod, why in (
        (0, "ml/x", "no GPUs (no nvidia-smi) on a, b"),
        (8, None, "it is run in pods only, and not on the hosts a, b"),
        (8, "ml/x", "no result came back"),
    ):
        for node in fabric.nodes.values():
            node.update(gpus=gpus, pod=pod)
        report = fabric.report()
        assert (report["verdict"], report["nccl"]["error"]) == ("unknown", why)
        assert report["skipped"] == [{"what": "nccl_tests", "why": why}]


def test_nccl_has_to_be_a_dictionary() -> None:
    fabric = Fabric("ab")
    with pytest.raises(VerdictError, match="nccl must be a dictionary, not 5"):
        judge(fabric.nodes, fabric.results, fabric.wanted, 0.8, STARTED, 5)


# --- quiet beside the rails


@pytest.mark.parametrize(
    ("quiet", "why", "verdict"),
    [(True, None, "pass"), (None, "rxe0 counts no bytes", "pass"), (False, "eth0 carried 9 bytes", "fail")],
)
def test_what_did_not_go_by_rdma_fails(quiet: Json, why: Json, verdict: str) -> None:
    fabric = Fabric("ab", rails=1)
    fabric.results[1]["traffic"] = {"quiet": quiet, "why": why, "rdma_bytes": 5}
    report = fabric.report()
    ping, bandwidth = report["pairs"]
    assert (ping["quiet"], ping["traffic"]) == (None, None)
    assert (bandwidth["quiet"], bandwidth["verdict"], report["verdict"]) == (quiet, verdict, verdict)
    assert bandwidth["traffic"] == {"quiet": quiet, "why": why, "rdma_bytes": 5}
    if quiet is False:
        assert bandwidth["error"] == "it did not use only RDMA: eth0 carried 9 bytes"
