# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Input that is refused, and what is left out of the rest."""

from __future__ import annotations

import math

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._fabric import vocabulary as terms
from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._fabric.inputs import VerdictError
from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._fabric.verdict import judge
from ansible_collections.rdmaops.gpu_fabric.tests.support.failures import message_of
from ansible_collections.rdmaops.gpu_fabric.tests.unit.plugins.plugin_utils._fabric.fabrics import Fabric, Json


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
    ("nodes.a.checks", [{"rail": 0, "test": "memlock", "limits": 0}], "nodes['a'].checks[].limits must be a dictionary or null, not 0"),
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
    assert message_of(VerdictError, changed(path, value).report) == "Could not judge the fabric: " + message


def test_empty_texts_say_nothing() -> None:
    fabric = Fabric("ab", 1).port("a", 0, netdev="")
    fabric.nodes["a"].update(problems=[None, "", "mlx5_1 cannot be read"], busy=[""], pod="", claims=["", "ml/a"])
    report = fabric.report()
    assert report["reasons"] == ["node a: mlx5_1 cannot be read"]
    node = report["nodes"][0]
    assert (node["problems"], node["busy"], node["pod"]) == (["mlx5_1 cannot be read"], [], None)
    assert node["claims"] == ["ml/a"]
    assert node["rails"][0]["netdev"] is None


@pytest.mark.parametrize(("value", "read"), [(0, None), (-1, None), (1e9, None), (math.nan, None), (0.5, 0.5), (1, 1)])
def test_a_rate_that_cannot_be_is_not_known(value: float, read: float | None) -> None:
    assert changed("nodes.a.rails.0.rate_gbps", value).report()["nodes"][0]["rails"][0]["rate_gbps"] == read


def test_the_time_has_to_be_a_text() -> None:
    with pytest.raises(VerdictError, match="started must be a string with the time, not 5"):
        judge({}, [], {"pairs": [], "rails": [], "tests": []}, 1, 5)
