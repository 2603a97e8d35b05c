# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Address ranges: what they hold, and where they overlap."""

from __future__ import annotations

import ipaddress
import typing as t

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._cni import ranges


def whereabouts(text: str, **more: t.Any) -> dict[str, t.Any]:
    return {"type": "whereabouts", "range": text, **more}


def host_local(**more: t.Any) -> dict[str, t.Any]:
    return {"type": "host-local", **more}


# ipam, usable addresses of each group
SIZES: list[tuple[dict[str, t.Any], list[int]]] = [
    (whereabouts("10.100.100.0/30"), [2]),
    (whereabouts("10.100.100.0/29"), [6]),
    (whereabouts("10.100.100.0/31"), [0]),
    (whereabouts("10.100.100.0/32"), [0]),
    (whereabouts("10.0.0.0/24", range_start="10.0.0.10", range_end="10.0.0.19"), [10]),
    (whereabouts("10.0.0.4-10.0.0.9/24"), [6]),
    (whereabouts("10.0.0.0/24", exclude=["10.0.0.0/25", "10.0.0.64/26", "10.0.0.200"]), [126]),
    ({"type": "whereabouts", "range": "10.0.0.0/30", "ipRanges": [{"range": "fd00::/126"}]}, [2, 2]),
    (host_local(subnet="10.0.0.0/29"), [5]),
    (host_local(ranges=[[{"subnet": "10.0.0.0/29"}, {"subnet": "10.0.1.0/29"}]]), [10]),
    (host_local(ranges=[[{"subnet": "10.0.0.0/29", "gateway": "10.9.9.9"}]]), [6]),
    (host_local(ranges=[[{"subnet": "fd00::/125", "rangeStart": "fd00::4"}]]), [3]),
    ({"type": "static", "addresses": [{"address": "10.0.0.7/24"}]}, [1]),
    ({"type": "dhcp"}, []),
    ({}, []),
]


@pytest.mark.parametrize(("ipam", "sizes"), SIZES, ids=range(len(SIZES)))
def test_sizes(ipam: dict[str, t.Any], sizes: list[int]) -> None:
    result = ranges.ranges({"type": "x", "ipam": ipam})
    assert result.problems == []
    assert [sum(span.size() for span in group) for group in result.groups] == sizes


# ipam, first and last address of each piece that is handed out, by group
HANDED_OUT: list[tuple[dict[str, t.Any], list[list[tuple[str, str]]]]] = [
    (whereabouts("10.0.0.0/24"), [[("10.0.0.1", "10.0.0.254")]]),
    (whereabouts("10.0.0.4-10.0.0.9/24"), [[("10.0.0.4", "10.0.0.9")]]),
    (whereabouts("10.0.0.0-10.0.0.255/24"), [[("10.0.0.1", "10.0.0.254")]]),
    (
        whereabouts("10.0.0.0/24", range_start="10.0.0.1", exclude=["10.0.0.8/29"]),
        [[("10.0.0.1", "10.0.0.7"), ("10.0.0.16", "10.0.0.254")]],
    ),
    (whereabouts("10.0.0.0/28", exclude=["10.0.0.9/29"]), [[("10.0.0.1", "10.0.0.7")]]),
    (whereabouts("10.0.0.0/24", range_end="10.0.0.9"), [[("10.0.0.1", "10.0.0.9")]]),
    (whereabouts("10.0.0.0/24", range_start="10.0.0.9", range_end="10.0.0.9"), [[("10.0.0.9", "10.0.0.9")]]),
    ({"type": "whereabouts", "ipRanges": [5, {"range": "10.0.0.0/30"}]}, [[("10.0.0.1", "10.0.0.2")]]),
    (whereabouts("fd00::/125"), [[("fd00::1", "fd00::6")]]),
    (host_local(subnet="10.0.0.0/29"), [[("10.0.0.2", "10.0.0.6")]]),
    (host_local(subnet="10.0.0.0/29", gateway="10.0.0.4"), [[("10.0.0.1", "10.0.0.3"), ("10.0.0.5", "10.0.0.6")]]),
    (
        host_local(ranges=[[{"subnet": "10.0.0.0/24", "rangeStart": "10.0.0.9", "rangeEnd": "10.0.0.12"}]]),
        [[("10.0.0.9", "10.0.0.12")]],
    ),
    (
        host_local(subnet="10.0.0.0/30", ranges=[[{"subnet": "10.1.0.0/30"}]]),
        [[("10.0.0.2", "10.0.0.2")], [("10.1.0.2", "10.1.0.2")]],
    ),
    (host_local(ranges=[[], [5], [{"subnet": "10.1.0.0/30"}]]), [[("10.1.0.2", "10.1.0.2")]]),
    (host_local(subnet="10.0.0.0/29", rangeStart="10.0.0.4"), [[("10.0.0.4", "10.0.0.6")]]),
    (host_local(subnet="10.0.0.0/29", rangeEnd="10.0.0.4"), [[("10.0.0.2", "10.0.0.4")]]),
    ({"type": "static", "addresses": ["10.0.0.7/24"]}, [[("10.0.0.7", "10.0.0.7")]]),
    ({"type": "static", "addresses": []}, []),
    ({"type": "static", "addresses": "10.0.0.7/24"}, []),
]


@pytest.mark.parametrize(("ipam", "expected"), HANDED_OUT, ids=range(len(HANDED_OUT)))
def test_the_addresses_that_are_handed_out(ipam: dict[str, t.Any], expected: list[list[tuple[str, str]]]) -> None:
    result = ranges.ranges({"type": "x", "ipam": ipam})
    assert result.problems == []
    assert [
        [(span.address(first), span.address(last)) for span in group for first, last in span.pieces()]
        for group in result.groups
    ] == expected


def test_only_whereabouts_keeps_pools() -> None:
    def pool(ipam: dict[str, t.Any]) -> tuple[str | None, bool]:
        [[span]] = ranges.ranges({"ipam": ipam}).groups
        return span.pool, span.sliced

    plain = whereabouts("10.0.0.0/24")
    assert pool(plain) == ("10.0.0.0-24", False)
    assert pool({**plain, "node_slice_size": "/28", "network_name": "rail0"}) == ("rail0-10.0.0.0-24", True)
    assert pool({"type": "host-local", "subnet": "10.0.0.0/24"}) == (None, False)
    assert pool({"type": "static", "addresses": ["10.0.0.7/24"]}) == (None, False)


def test_networks_of_another_version_have_nothing_in_common() -> None:
    ipam = whereabouts("10.0.0.0/24", exclude=["10.0.0.0/28"])
    [[span]] = ranges.ranges({"ipam": ipam}).groups
    assert span.overlap_network(ranges.parse_network("10.0.0.0/28")) is None
    assert span.overlap_network(ranges.parse_network("10.0.0.0/27")) == "10.0.0.16"
    assert span.overlap_network(ranges.parse_network("10.0.0.254/32")) == "10.0.0.254"
    assert span.overlap_network(ranges.parse_network("10.0.0.255/32")) is None
    for other in ("::a00:0/120", "fd00::/8"):
        [[its]] = ranges.ranges({"ipam": {"type": "whereabouts", "range": other}}).groups
        assert span.overlap(its) is None
        assert span.overlap_network(its.network) is None
        assert not span.holds(ipaddress.ip_address("::a00:80"))


# ipam, codes, what one of the problems says
PROBLEMS: list[tuple[dict[str, t.Any], list[str], str]] = [
    ({"type": "whereabouts"}, ["missing_key"], "whereabouts has no range"),
    (whereabouts("10.0.0.0"), ["invalid_cidr"], "not a network in CIDR notation"),
    (whereabouts("10"), ["invalid_cidr"], "range 10 cannot be read"),
    ({"type": "whereabouts", "ipRanges": [{}]}, ["invalid_cidr"], "ipRanges[0].range  cannot be read"),
    (whereabouts("10.0.0.0/33"), ["invalid_cidr"], "10.0.0.0/33"),
    (whereabouts("10.0.0.0/255.255.255.0"), ["invalid_cidr"], "not a network in CIDR notation"),
    (whereabouts("10.9.0.4-10.0.0.9/24"), ["invalid_cidr"], "the start is outside"),
    (whereabouts("::a00:4-10.0.0.9/24"), ["invalid_cidr"], "the start is outside"),
    (whereabouts("10.0.0.0/24", range_start="10.0.1.1"), ["range_bounds"], "silently ignore it"),
    (whereabouts("10.0.0.0/24", range_end="10.0.0.255"), ["range_bounds"], "silently ignore it"),
    (whereabouts("10.0.0.0/24", range_end="::a00:9"), ["range_bounds"], "range_end ::a00:9 is not a usable address"),
    (whereabouts("10.0.0.0/24", range_end="x"), ["invalid_cidr"], "not an IP address"),
    (
        whereabouts("10.0.0.0/24", range_start="10.0.0.9", range_end="10.0.0.2"),
        ["range_bounds"],
        "range_start is after range_end",
    ),
    (whereabouts("10.0.0.0/24", exclude=["10.0.0.0/99"]), ["invalid_cidr"], "when a pod starts"),
    (whereabouts("10.0.0.0/24", exclude=["10.0.1.0/28"]), ["exclude_outside"], "excludes nothing"),
    (whereabouts("10.0.0.0/24", gateway="10.0.0.1"), ["gateway_in_range"], "assign it to a pod"),
    (whereabouts("10.0.0.0/24", gateway="10.0.0.1", exclude=["10.0.0.1/32"]), [], ""),
    (whereabouts("10.0.0.0/24", gateway="x"), ["invalid_cidr"], "gateway is x"),
    ({"type": "host-local"}, ["missing_key"], "host-local has no range"),
    ({"type": "host-local", "subnet": "10.0.0.1/24"}, ["invalid_cidr"], "host bits"),
    ({"type": "host-local", "subnet": "10.0.0.1"}, ["invalid_cidr"], "not a network in CIDR notation"),
    ({"type": "host-local", "subnet": "10.0.0.0/24", "gateway": "x"}, ["invalid_cidr"], "gateway x is not an address"),
    ({"type": "host-local", "subnet": "10.0.0.0/24", "rangeEnd": "10.0.1.9"}, ["range_bounds"], "rangeEnd 10.0.1.9"),
    (
        {"type": "host-local", "ranges": [[{}]]},
        ["invalid_cidr"],
        "ipam.subnet  cannot be read (not a network in CIDR notation)",
    ),
    ({"type": "static", "addresses": [{"address": "10.0.0.1"}]}, ["invalid_cidr"], "no prefix length"),
]


@pytest.mark.parametrize(("ipam", "codes", "says"), PROBLEMS, ids=range(len(PROBLEMS)))
def test_problems(ipam: dict[str, t.Any], codes: list[str], says: str) -> None:
    problems = ranges.ranges({"type": "x", "ipam": ipam}).problems
    assert [row[0] for row in problems] == codes
    assert says in " ".join(row[1] for row in problems)


def test_an_exclusion_of_the_other_version_excludes_nothing() -> None:
    result = ranges.ranges({"ipam": whereabouts("10.0.0.0/24", exclude=["::a00:0/120", "10.0.0.0/25"])})
    assert result.problems == [
        (
            "exclude_outside",
            "ipam.exclude ::a00:0/120 is outside 10.0.0.0/24 and excludes nothing",
            "a part of 10.0.0.0/24",
        )
    ]
    assert [[span.size() for span in group] for group in result.groups] == [[127]]


def test_a_problem_says_where_it_is_and_what_would_do() -> None:
    ipam = {"type": "whereabouts", "range": "10.0.0.0/24", "exclude": ["x"]}
    for config, where in (
        ({"type": "x", "ipam": ipam}, "ipam.exclude x "),
        ({"plugins": [{"type": "x"}, {"type": "y", "ipam": ipam}]}, "plugins[1].ipam.exclude x "),
    ):
        [(_code, text, example)] = ranges.ranges(config).problems
        assert text.startswith(where)
        assert example == "for example 10.0.0.0/26"


# As TestIPPoolName and the pools of whereabouts 0.9.4 have them.
POOLS = [
    ("10.100.100.0/30", None, "10.100.100.0-30"),
    ("10.100.100.3/30", None, "10.100.100.0-30"),
    ("2000::/64", None, "2000---64"),
    ("fd00:0:0:1::/64", "rail0", "rail0-fd00-0-0-1---64"),
]


@pytest.mark.parametrize(("network", "name", "pool"), POOLS)
def test_pool_names(network: str, name: str | None, pool: str) -> None:
    assert ranges.pool_name(ranges.parse_network(network), name) == pool


# a range, what is excluded from it, how many addresses are needed, the smallest network with as many
@pytest.mark.parametrize(
    ("text", "exclude", "need", "network"),
    [
        ("10.0.0.0/29", [], 6, "10.0.0.0/29"),
        ("10.0.0.0/29", [], 7, "10.0.0.0/28"),
        ("10.0.0.8/29", [], 7, "10.0.0.0/28"),
        ("10.0.0.0/29", ["10.0.0.0/30"], 3, "10.0.0.0/29"),
        ("10.0.0.0/29", ["10.0.0.0/30"], 4, "10.0.0.0/28"),
        ("10.0.0.0/29", ["10.0.0.0/29"], 8, "10.0.0.0/28"),
        ("10.0.0.0/29", ["10.0.0.0/29"], 9, "10.0.0.0/27"),
        ("10.0.0.4-10.0.0.5/29", [], 6, "10.0.0.0/29"),
        ("10.0.0.0/31", [], 2, "10.0.0.0/30"),
        ("10.0.0.0/32", [], 2, "10.0.0.0/30"),
        ("10.0.0.0/8", [], 1 << 32, "0.0.0.0/0"),
        ("fd00::/126", [], 3, "fd00::/125"),
    ],
)
def test_the_smallest_network_that_would_do(text: str, exclude: list[str], need: int, network: str) -> None:
    [[span]] = ranges.ranges({"ipam": whereabouts(text, exclude=exclude)}).groups
    assert str(ranges.fitting(span, need)) == network


@given(st.integers(8, 30), st.integers(1, 5000), st.lists(st.integers(0, 255), max_size=4))
def test_what_is_offered_fits(length: int, need: int, holes: list[int]) -> None:
    ipam = {"type": "whereabouts", "range": f"10.0.0.0/{length}", "exclude": [f"10.0.0.{hole}" for hole in holes]}
    [[span]] = ranges.ranges({"type": "x", "ipam": ipam}).groups
    offer = ranges.fitting(span, need)
    [[again]] = ranges.ranges({"type": "x", "ipam": {**ipam, "range": str(offer)}}).groups
    # An exclusion beyond the old range may lie in the new one.
    assert again.size() + len(holes) >= need
    assert offer.supernet_of(span.network)  # type: ignore[arg-type]


OCTET = st.integers(0, 255)


@given(OCTET, OCTET, OCTET, OCTET, st.lists(OCTET, max_size=3))
def test_overlap_is_what_both_hold(
    left_first: int, left_last: int, right_first: int, right_last: int, holes: list[int]
) -> None:
    def span(first: int, last: int, left_out: list[int]) -> ranges.Span:
        network = ranges.parse_network("10.0.0.0/24")
        base = int(network.network_address)
        pairs = tuple((base + hole, base + hole) for hole in left_out)
        return ranges.Span("range", "", network, base + first, base + last, pairs)

    left, right = span(left_first, left_last, holes), span(right_first, right_last, [])
    both = (set(range(left_first, left_last + 1)) - set(holes)) & set(range(right_first, right_last + 1))
    assert (left.overlap(right) is not None) is bool(both)
    assert left.size() == len(set(range(left_first, left_last + 1)) - set(holes))
