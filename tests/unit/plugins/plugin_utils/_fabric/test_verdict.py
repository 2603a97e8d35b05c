# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The verdict on a fabric: nothing passes untested."""

from __future__ import annotations

import copy
import itertools
import math
import typing as t

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._fabric.page import page
from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._fabric.table import table
from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._fabric.verdict import judge
from ansible_collections.rdmaops.gpu_fabric.tests.unit.plugins.plugin_utils._fabric.fabrics import (
    STARTED,
    Fabric,
    Json,
    entry,
    good,
)


def test_all_is_well() -> None:
    report = Fabric().report()
    assert (report["schema"], report["started"], report["verdict"]) == (1, STARTED, "pass")
    assert [report[key] for key in ("reasons", "suspects", "coherence", "skipped")] == [[], [], [], []]
    assert len(report["pairs"]) == 24
    assert entry(report, "a", "b", 0, "ib_write_bw") == {
        "client": "a", "server": "b", "rail": 0, "test": "ib_write_bw", "verdict": "pass", "gbps": 388.0,
        "expected_gbps": 400.0, "share": 0.97, "error": None, "pings": None, "skipped": None, "wanted": True, "results": 1,
        "quiet": None, "traffic": None, "samples": [388.0], "spread": None,
        "baseline_gbps": None, "latency_us": None, "latency_99_us": None,
    }  # fmt: skip
    assert report["wanted"] == {
        "pairs": [list(pair) for pair in itertools.combinations("abcd", 2)],
        "rails": [0, 1],
        "tests": ["rping", "ib_write_bw"],
    }
    assert {node["verdict"] for node in report["nodes"]} == {"pass"}
    assert {rail["verdict"] for node in report["nodes"] for rail in node["rails"]} == {"pass"}


def test_several_measurements_of_each_pair() -> None:
    """The worst counts, and the report says how repeatable they are."""
    fabric = Fabric()
    fabric.results += [{**row, "gbps": row["gbps"] and row["gbps"] - 4.0} for row in fabric.results]
    fabric.results.append(good("a", "b", 0, "ib_write_bw", gbps=364.0))
    report = fabric.report()
    both = entry(report, "a", "b", 0, "ib_write_bw")
    assert (both["verdict"], both["gbps"], both["results"]) == ("pass", 364.0, 3)
    assert (both["samples"], round(both["spread"], 4)) == ([388.0, 384.0, 364.0], 0.0619)
    assert entry(report, "a", "b", 0, "rping")["spread"] is None
    text = "3 measurements of each pair and rail differ by at most 6.1% (364.0 to 388.0 Gb/s, a -> b on rail 0, ib_write_bw)"
    assert "Repeatability: " + text in " ".join(table(report).split())
    assert text in page(report).replace("&gt;", ">")
    assert "differ by" not in table(Fabric().report())


# the latency of the pair a and b: median, 99th percentile, verdict, error
LATENCIES: list[tuple[float | None, float | None, str, str | None]] = [
    (2.0, 3.1, "pass", None),
    (4.2, 90.0, "pass", None),
    (4.3, 9.0, "fail", "a latency of 4.3 us is 2.1 times that of the best pair of the rail, the limit is 2.1"),
    (None, None, "unknown", "no latency could be read"),
    (2.0, None, "unknown", "no latency could be read"),
]


@pytest.mark.parametrize(("median", "percentile", "verdict", "error"), LATENCIES)
def test_a_latency_is_compared_with_the_rest_of_its_rail(
    median: float | None, percentile: float | None, verdict: str, error: str | None
) -> None:
    fabric = Fabric(tests=("ib_send_lat",))
    for row in fabric.results:
        row.update(gbps=None, latency_us=2.0, latency_99_us=2.4)
    fabric.of("ab", [0])[0].update(latency_us=median, latency_99_us=percentile)
    report = fabric.report()
    shown = entry(report, "a", "b", 0, "ib_send_lat")
    assert (shown["verdict"], shown["error"]) == (verdict, error)
    known = (None, None) if percentile is None else (median, percentile)
    assert (shown["latency_us"], shown["latency_99_us"], shown["share"]) == (*known, None)
    assert "2.0 to 4.3 us" in table(report) if median == 4.3 else "2.0" in table(report)
    assert "2.0 us, 99 % below 2.4 us" in page(report)


def test_a_latency_alone_has_no_limit() -> None:
    """With two good pairs on a rail there is nothing to compare with."""
    fabric = Fabric("ab", tests=("ib_send_lat",))
    for row in fabric.results:
        row.update(gbps=None, latency_us=2000.0, latency_99_us=21000.0)
    assert fabric.report()["verdict"] == "pass"


@pytest.mark.parametrize(("gbps", "verdict"), [(776.0, "pass"), (420.0, "fail")])
def test_both_directions_are_compared_with_twice_the_rate(gbps: float, verdict: str) -> None:
    fabric = Fabric(tests=("ib_write_bw_bidirectional",))
    fabric.results = [{**row, "gbps": gbps} for row in fabric.results]
    report = fabric.report()
    assert {(row["expected_gbps"], row["verdict"]) for row in report["pairs"]} == {(800.0, verdict)}


def test_a_node_that_is_slow_on_all_rails_at_once() -> None:
    """Each rail alone is fast: its cards share a PCIe switch, or its leaf an uplink."""
    fabric = Fabric(tests=("ib_write_bw", "ib_write_bw_all_rails"))
    for row in fabric.of("b", tests="ib_write_bw_all_rails"):
        row["gbps"] = 194.0
    report = fabric.report()
    assert [(suspect["kind"], suspect["node"]) for suspect in report["suspects"]] == [("node", "b")]
    assert report["suspects"][0]["worst"] == "ib_write_bw_all_rails down to 194.0 of 400 Gb/s, 48.5%, limit 80%"
    assert {row["verdict"] for row in report["pairs"] if row["test"] == "ib_write_bw"} == {"pass"}


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


def test_roce_without_a_gid_is_unknown() -> None:
    fabric = Fabric("ab").without(rails=[1]).port("b", 1, gid_index=None, ipv4=None)
    report = fabric.report()
    error = "no result: no RoCE v2 GID on rail 1 of node b (mlx5_1, ens1)"
    assert (report["verdict"], entry(report, "a", "b", 1, "rping")["error"]) == ("unknown", error)
    report = fabric.port("b", 1, link_layer="InfiniBand", protocol="ib").report()
    assert entry(report, "a", "b", 1, "rping")["error"] == "no result came back"


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


NO_DEVICE = (
    "no RDMA device was found on any node (or fabric_check_exclude leaves none), and the inventory names no rails: look at "
    '"rdma link" on a node'
)


def test_nodes_without_rdma_devices_are_named_as_such() -> None:
    fabric = Fabric("ab", 0)
    assert (fabric.report()["verdict"], fabric.report()["reasons"]) == ("unknown", [NO_DEVICE])
    fabric.nodes["a"].update(reachable=False)
    assert fabric.report()["reasons"] == [NO_DEVICE, "node a is not reachable: nothing was checked there"]
    # Nothing is known of nodes that were not reached.
    fabric.nodes["b"].update(reachable=False)
    assert fabric.report()["reasons"][0] == "nothing was requested: wanted has no rails"


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
