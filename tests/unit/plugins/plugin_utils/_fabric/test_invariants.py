# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What always holds of a verdict, whatever the fabric."""

from __future__ import annotations

import copy
import random

from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._fabric import vocabulary as terms
from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._fabric.table import table
from ansible_collections.rdmaops.gpu_fabric.tests.unit.plugins.plugin_utils._fabric.fabrics import (
    Fabric,
    Json,
    blamed,
    good,
)

SLOW = settings(max_examples=60)


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
