# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The verdict as a table."""

from __future__ import annotations

import json

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._fabric import table as fabric_table
from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._fabric import vocabulary as terms
from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._fabric.table import table
from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._fabric.verdict import judge
from ansible_collections.rdmaops.gpu_fabric.tests.unit.plugins.plugin_utils._fabric.fabrics import STARTED, Fabric

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
