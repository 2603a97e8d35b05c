# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A fabric on which all is well, for a test to break."""

from __future__ import annotations

import copy
import itertools
import json
import typing as t

from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._fabric.table import table
from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._fabric.verdict import judge
from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._fabric.vocabulary import NO_RESULT

Json = t.Any
STARTED = "2026-11-21T12:00:00Z"


def port(rail: int, **more: Json) -> Json:
    ends = {"rail": rail, "device": f"mlx5_{rail}", "port": 1, "netdev": f"ens{rail}", "gid_index": 3}
    link = {"state": "ACTIVE", "rate_gbps": 400.0, "link_layer": "Ethernet", "protocol": "roce", "ipv4": "10.0.0.1"}
    return {**ends, **link, "netdev_mtu": 9000, "active_mtu": 4096, **more}


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

    def report(self, silence: str = NO_RESULT, baseline: Json = None) -> Json:
        before = copy.deepcopy((self.nodes, self.results, self.wanted))
        report = judge(
            self.nodes, self.results, self.wanted, self.min_share, STARTED, silence=silence, baseline=baseline
        )
        assert (self.nodes, self.results, self.wanted) == before
        json.dumps(report, allow_nan=False)
        table(report)
        assert bool(report["reasons"]) == (report["verdict"] != "pass")
        return report


def good(client: str, server: str, rail: int, test: str, **more: Json) -> Json:
    found = {"client": client, "server": server, "rail": rail, "test": test, "ok": True, "error": None, "skipped": None}
    found.update({"gbps": None, "pings": 10} if test == "rping" else {"gbps": 388.0, "pings": None})
    return {**found, **more}


def many(number: int, rails: int, pairs: t.Iterable[tuple[str, str]] | None = None) -> Fabric:
    """Return a fabric of this many nodes, in a ring unless there are pairs."""
    names = [f"gpu-{place:02}" for place in range(number)]
    fabric = Fabric("ab", rails, ("rping", "ib_write_bw"))
    fabric.nodes = {name: copy.deepcopy(fabric.nodes["a"]) for name in names}
    ends = list(zip(names, names[1:] + names[:1], strict=True) if pairs is None else pairs)
    fabric.wanted["pairs"] = [list(pair) for pair in ends]
    fabric.results = [
        good(*pair, rail, test) for pair in ends for rail in range(rails) for test in ("rping", "ib_write_bw")
    ]
    return fabric


def worn(fabric: Fabric) -> Fabric:
    """Break a port of every fourth node, another kind of break on each rail, and leave measurements out."""
    changes: t.Any = ({"state": "DOWN"}, {"netdev_mtu": 1500}, {"rate_gbps": 100.0}, {"active_mtu": None})
    for place, node in enumerate(list(fabric.nodes)[::4]):
        rail = place % len(fabric.wanted["rails"])
        fabric.port(node, rail, **changes[place % 4])
        for result in fabric.results:
            if node in (result["client"], result["server"]) and result["rail"] == rail:
                result.update({"ok": False, "error": "completion with error 12 " * 20} if place % 2 else {"gbps": 3.0})
    fabric.results = [result for place, result in enumerate(fabric.results) if place % 11]
    return fabric


def entry(report: Json, client: str, server: str, rail: int, test: str) -> Json:
    wanted = (client, server, rail, test)
    return next(one for one in report["pairs"] if (one["client"], one["server"], one["rail"], one["test"]) == wanted)


def blamed(report: Json) -> list[tuple[t.Any, ...]]:
    return [(one["kind"], one["node"] or one["pair"], one["rail"]) for one in report["suspects"]]
