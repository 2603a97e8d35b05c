# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The verdict on ports before any traffic."""

from __future__ import annotations

import pytest

from ansible_collections.rdmaops.gpu_fabric.tests.unit.plugins.plugin_utils._fabric.fabrics import Fabric, Json, blamed

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


# rates of the rails of each node -> the rails that are slow
@pytest.mark.parametrize(
    ("rates", "slow"),
    [
        ((200, 400, 400), [0]),
        ((200, 400, None), []),
        ((200, None, None), []),
        ((None, 400, 400), []),
        ((200, 400, 100), []),
        ((400, 200, 200), []),
        ((200, 400), [0]),
        ((200,), []),
    ],
)
def test_most_of_the_other_rails_tell_whether_one_is_slow(rates: tuple[float | None, ...], slow: list[int]) -> None:
    fabric = Fabric("ab", len(rates))
    for rail, rate in enumerate(rates):
        for node in "ab":
            fabric.port(node, rail, rate_gbps=rate)
    found = [one["rail"] for one in fabric.report()["coherence"] if one["what"] == "rate_gbps"]
    assert found == slow


def test_a_port_that_is_down_does_not_count_in_comparisons() -> None:
    report = Fabric().port("b", 0, state="DOWN", rate_gbps=10.0, active_mtu=256).report()
    assert report["reasons"] == ["rail 0: node b (mlx5_0, ens0): the port is DOWN, not ACTIVE"]
