# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The verdict as a table."""

from __future__ import annotations

import itertools
import json
import typing as t

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._fabric import table as fabric_table
from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._fabric import vocabulary as terms
from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._fabric.table import LINES, sentence, table
from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._fabric.verdict import judge
from ansible_collections.rdmaops.gpu_fabric.tests.unit.plugins.plugin_utils._fabric.fabrics import (
    STARTED,
    Fabric,
    many,
    worn,
)

TABLE = """\
Fabric check: FAIL
  * rail 0: b (mlx5_0, ens0) -> c (mlx5_0, ens0) fails, both pass with other nodes: the path between them (ib_write_bw
    12.1 of 400 Gb/s, 3.0%, limit 80%)
  * 2 of 20 measurements unknown, no result came back: rping d -> e on rail 0, ib_write_bw d -> e on rail 0

GPUDirect RDMA: not proven: whether there are GPUs is not known on a, b, c, d, e

Rail 0, ib_write_bw: 8 pass, 1 unknown, 1 fail, 12.1 to 388.0 Gb/s, 3.0% to 97.0% of the link's rate
          0    1    2    3    4
  0  a    -   97   97   97   97
  1  b    .    -   3!   97   97
  2  c    .    .    -   97   97
  3  d    .    .    .    -    ?
  4  e    .    .    .    .    -
  fail     b -> c: 12.1 Gb/s are 3.0% of the link's 400 Gb/s, the limit is 80%
  unknown  d -> e: no result came back

Rail 0, rping: 9 pass, 1 unknown
       0 1 2 3 4
  0  a - + + + +
  1  b . - + + +
  2  c . . - + +
  3  d . . . - ?
  4  e . . . . -
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


# --- many nodes and rails -----------------------------------------------------------------------------------------


def test_the_report_of_64_nodes_with_eight_rails_fits_on_a_screen() -> None:
    report = worn(many(64, 8)).report()
    shown = table(report).splitlines()
    assert len(report["reasons"]) > 30
    assert 30 < len(shown) <= LINES
    assert max(map(len, shown)) <= 120
    assert shown[0] == "Fabric check: FAIL"
    reasons = [line for line in shown if line.startswith("  * ")]
    assert f"  and {len(report['reasons']) - len(reasons)} more, in the report" in shown
    measurements = [line for line in shown if line.startswith("Rail ")]
    assert len(measurements) == 8
    assert " fail" in measurements[0]
    assert "and 8 more rails and tests: 4 fail, 4 unknown" in shown
    assert len(sentence(report, "/srv/fabric.html")) < 600


def test_rails_that_do_not_fit_are_counted() -> None:
    fabric = many(4, 10)
    for result in fabric.results:
        if result["rail"] == 9 and result["test"] == "ib_write_bw":
            result["gbps"] = 1.0
    shown = table(fabric.report()).splitlines()
    measurements = [line for line in shown if line.startswith("Rail ")]
    assert measurements[0].startswith("Rail 9, ib_write_bw: 4 fail")
    assert measurements[1].startswith("Rail 0, rping: 4 pass")
    assert len(measurements) == 8
    assert "and 12 more rails and tests: 12 pass" in shown


@pytest.mark.parametrize("number", [8, 16])
def test_all_pairs_of_a_worn_fabric_fit_on_a_screen(number: int) -> None:
    names = [f"gpu-{place:02}" for place in range(number)]
    report = worn(many(number, 8, itertools.combinations(names, 2))).report()
    shown = table(report)
    assert len(shown.splitlines()) <= LINES
    # The worst has its nodes, too.
    assert "\n  0  gpu-00" in shown or "\n   0  gpu-00" in shown


@pytest.mark.parametrize(
    ("report", "path", "text"),
    [
        ({"verdict": "pass", "reasons": []}, None, "Fabric check: PASS"),
        ({"verdict": "pass", "reasons": []}, "/r.html", "Fabric check: PASS. All of it: /r.html"),
        (
            {"verdict": "unknown", "reasons": ["the first."]},
            "/r.html",
            "Fabric check: UNKNOWN, 1 reason: the first. All of it: /r.html",
        ),
        (
            {"verdict": "fail", "reasons": ["the first", *["x"] * 23]},
            None,
            "Fabric check: FAIL, 24 reasons; first: the first. For all of it, set html_path (fabric_check_report_html)",
        ),
        (
            {"verdict": "fail", "reasons": ["r" * 900]},
            "/r.html",
            f"Fabric check: FAIL, 1 reason: {'r' * 300}. All of it: /r.html",
        ),
    ],
)
def test_the_verdict_is_one_sentence(report: t.Any, path: str | None, text: str) -> None:
    assert sentence(report, path) == text


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
