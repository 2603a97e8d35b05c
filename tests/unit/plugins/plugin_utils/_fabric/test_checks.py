# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of one end in the verdict."""

from __future__ import annotations

import itertools

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._fabric.page import page
from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._fabric.table import table
from ansible_collections.rdmaops.gpu_fabric.tests.unit.plugins.plugin_utils._fabric.fabrics import Fabric, Json


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
    assert [(check["node"], check["rail"]) for check in report["checks"]] == list(itertools.product("abc", (0, 1)))
    unknown = dict.fromkeys(("error", "state", "limits", "limit_bytes"))
    place = {"node": "a", "rail": 0, "test": "memlock", "device": "mlx5_0", "verdict": "pass"}
    limit = {"wanted_bytes": 67108864, "unlimited": True, "by": "python3"}
    assert report["checks"][0] == {**place, **limit, **unknown}
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


def test_each_check_has_a_line_of_its_own_in_the_table() -> None:
    fabric = Fabric("ab")
    fabric.wanted["tests"] += ["memlock", "ibv_devinfo"]
    found = {"memlock": True, "ibv_devinfo": False}
    for node in fabric.nodes.values():
        node["checks"] = [{"rail": rail, "test": test, "ok": ok} for rail in (0, 1) for test, ok in found.items()]
    del fabric.nodes["b"]["checks"][3]
    report = fabric.report()
    assert ("memlock on every node and rail: 4 pass\nibv_devinfo on every node and rail: 1 unknown, 3 fail\n") in table(
        report
    )
    assert report["reasons"] == [
        "ibv_devinfo: node a, rail 0, node a, rail 1, node b, rail 0: ibv_devinfo gave no reason",
        "ibv_devinfo: node b, rail 1: no result came back",
    ]


def test_a_check_without_a_result_has_the_problems_of_its_node() -> None:
    fabric = Fabric("ab")
    fabric.wanted["tests"].append("memlock")
    fabric.nodes["b"]["problems"] = ["no python3", "no RDMA device"]
    checks = [(check["node"], check["verdict"], check["error"]) for check in fabric.report()["checks"]]
    assert checks[::2] == [
        ("a", "unknown", "no result came back"),
        ("b", "unknown", "no result: no python3; no RDMA device"),
    ]


def test_checks_alone_are_something_that_was_asked_for() -> None:
    fabric = Fabric("ab", tests=())
    fabric.results = []
    fabric.wanted["tests"] = ["ibv_devinfo"]
    for node in fabric.nodes.values():
        node["checks"] = [{"rail": rail, "test": "ibv_devinfo", "ok": True} for rail in (0, 1)]
    assert (fabric.report()["verdict"], fabric.report()["reasons"]) == ("pass", [])
    fabric.nodes["a"].update(reachable=False, checks=[])
    reason = "ibv_devinfo: node a, rail 0, node a, rail 1: no result: the node is not reachable"
    assert reason in fabric.report()["reasons"]


def test_the_limits_of_a_device_are_in_the_report_and_on_its_page() -> None:
    fabric = Fabric("ab")
    fabric.wanted["tests"].append("ibv_devinfo")
    limits = {"max_qp": 131069, "max_srq": 0, "max_cq": None, "max_mr": 2097150}
    for name, shown in (("a", limits), ("b", None)):
        checks = [{"rail": rail, "test": "ibv_devinfo", "ok": True, "limits": shown} for rail in (0, 1)]
        fabric.nodes[name]["checks"] = checks
    report = fabric.report()
    assert [check["limits"] for check in report["checks"]] == [limits, limits, None, None]
    words = "<bdi>max_qp 131069</bdi> <bdi>max_srq 0</bdi> <bdi>max_cq unknown</bdi> <bdi>max_mr 2097150</bdi>"
    assert page(report).count(words) == 2
