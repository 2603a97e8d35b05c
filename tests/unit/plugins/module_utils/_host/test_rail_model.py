# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rails as they are asked for."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._host import rail_model

RAIL = {"netdev": "rail0", "addresses": ["10.1.0.11/24"]}


def test_tables_and_routes() -> None:
    route = {"to": "10.1.0.0/16", "via": "10.1.0.1"}
    first, second = rail_model.rails(
        [
            {**RAIL, "routes": [route]},
            {"netdev": "rail1", "addresses": ["10.1.0.12/24", "10.1.0.13/24", "fd01::12/64"], "mtu": 9000},
        ]
    )
    assert (first.table, second.table, first.mtu, second.mtu) == (100, 101, None, 9000)
    assert [str(route) for route in first.routes] == ["10.1.0.0/24", "10.1.0.0/16 via 10.1.0.1"]
    assert [str(route) for route in second.routes] == ["10.1.0.0/24", "fd01::/64"]


@pytest.mark.parametrize(
    ("rails", "message"),
    [
        ([{**RAIL, "netdev": "a/b"}], "Reading rails: netdev 'a/b' is not a name of at most 15 letters"),
        ([{**RAIL, "netdev": "x" * 16}], f"Reading rails: netdev '{'x' * 16}' is not a name"),
        ([{**RAIL, "netdev": "rail0\n"}], "Reading rails: netdev 'rail0\\n' is not a name"),
        ([RAIL, RAIL], "Reading rails: netdev rail0 is in two of them"),
        ([RAIL, {**RAIL, "netdev": "rail1", "table": 100}], "Reading rails: table 100 is in two of them"),
        ([RAIL, {**RAIL, "netdev": "rail1"}], "Reading rails: address 10.1.0.11 is in two of them"),
        ([{**RAIL, "addresses": []}], "Reading rail rail0: addresses is empty"),
        ([{**RAIL, "addresses": ["10.1.0.11"]}], "Reading rail rail0: address 10.1.0.11 has no prefix length. Write it as"),
        ([{**RAIL, "addresses": ["10.1.0.300/24"]}], "Reading rail rail0: '10.1.0.300/24' does not appear to be an IPv4"),
        ([{**RAIL, "mtu": 67}], "Reading rail rail0: mtu is 67 bytes, and must be from 68 to 65535"),
        ([{**RAIL, "mtu": 65536}], "Reading rail rail0: mtu is 65536 bytes"),
        ([{**RAIL, "table": 254}], "Reading rail rail0: table is 254, and must be from 1 to 32765, except 253, 254, 255"),
        ([{**RAIL, "table": 32766}], "Reading rail rail0: table is 32766"),
        ([{**RAIL, "table": -1}], "Reading rail rail0: table is -1"),
        (
            [{**RAIL, "routes": [{"to": "10.0.0.0/8", "via": "10.2.0.1"}]}],
            "Reading rail rail0: route to 10.0.0.0/8 via 10.2.0.1: the gateway must be in a network of the rail (10.1.0.0/24)",
        ),
        (
            [{**RAIL, "routes": [{"to": "fd00::/8", "via": "10.1.0.1"}]}],
            "Reading rail rail0: route to fd00::/8 via 10.1.0.1: the gateway must be in a network of the rail (10.1.0.0/24), and",
        ),
        (
            [{**RAIL, "routes": [{"to": "10.0.0.1/8", "via": "10.1.0.1"}]}],
            "Reading rail rail0: route to 10.0.0.1/8 via 10.1.0.1: 10.0.0.1/8 has host bits set",
        ),
    ],
)  # fmt: skip
def test_refused(rails: list[dict[str, t.Any]], message: str) -> None:
    with pytest.raises(rail_model.RailError) as caught:
        rail_model.rails(rails)
    assert str(caught.value).startswith(message)
