# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Configurations: made, read, compared."""

from __future__ import annotations

import ipaddress
import json
import typing as t

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._cni import config as cni
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._cni import ranges

# options, configuration
BUILT: list[tuple[dict[str, t.Any], dict[str, t.Any]]] = [
    (
        {"type": "host-device", "device": "ens192", "ipam": {"type": "whereabouts", "range": "10.100.100.0/30"}},
        {
            "cniVersion": "0.3.0",
            "type": "host-device",
            "device": "ens192",
            "ipam": {"type": "whereabouts", "range": "10.100.100.0/30"},
        },
    ),
    (
        {"type": "host-device", "pci_bus_id": "0000:07:00.0", "device": None, "ipam": {"type": "none"}, "chain": []},
        {"cniVersion": "0.3.0", "type": "host-device", "pciBusID": "0000:07:00.0"},
    ),
    (
        {
            "type": "macvlan",
            "master": "eth1",
            "link_in_container": False,
            "ipam": {
                "type": "host-local",
                "ranges": [[{"subnet": "10.1.0.0/24", "range_start": "10.1.0.9"}]],
                "data_dir": "/run/x",
                "range_start": "10.1.0.3",
            },
        },
        {
            "cniVersion": "0.3.0",
            "type": "macvlan",
            "master": "eth1",
            "linkInContainer": False,
            "ipam": {
                "type": "host-local",
                "ranges": [[{"subnet": "10.1.0.0/24", "rangeStart": "10.1.0.9"}]],
                "dataDir": "/run/x",
                "rangeStart": "10.1.0.3",
            },
        },
    ),
    (
        {
            "type": "sriov",
            "vlan_qos": 3,
            "log_level": "debug",
            "chain": [
                {"type": "rdma", "mtu": None},
                {"type": "tuning", "sysctl": {"net.ipv4.conf.IFNAME.arp_announce": 2}, "tx_q_len": 9},
            ],
            "ipam": {
                "type": "whereabouts",
                "range_start": "10.0.0.2",
                "ip_ranges": [{"range": "fd00::/64", "range_start": "fd00::9"}],
            },
        },
        {
            "cniVersion": "0.3.0",
            "plugins": [
                {
                    "type": "sriov",
                    "vlanQoS": 3,
                    "logLevel": "debug",
                    "ipam": {
                        "type": "whereabouts",
                        "range_start": "10.0.0.2",
                        "ipRanges": [{"range": "fd00::/64", "range_start": "fd00::9"}],
                    },
                },
                {"type": "rdma"},
                {"type": "tuning", "sysctl": {"net.ipv4.conf.IFNAME.arp_announce": "2"}, "txQLen": 9},
            ],
        },
    ),
]


@pytest.mark.parametrize(("options", "config"), BUILT, ids=range(len(BUILT)))
def test_build(options: dict[str, t.Any], config: dict[str, t.Any]) -> None:
    made = cni.build(options, "0.3.0")
    assert made == config
    assert list(cni.check_keys(made)) == []


# The attachment of the first of the source documents, as it stands there.
SOURCE = """{
      "cniVersion": "0.3.0",
      "type": "host-device",
      "device": "ens192",
      "ipam": {
        "type": "whereabouts",
        "range": "10.100.100.0/30"
      }
    }"""


def test_the_source_is_what_the_typed_options_make() -> None:
    assert cni.normal(cni.parse(SOURCE), "nic0") == cni.normal(cni.build(BUILT[0][0], "0.3.0"), "nic0")


# one text, another, whether they mean the same
SAME: list[tuple[t.Any, t.Any, bool]] = [
    ('{"type":"x","cniVersion":"0.3.1"}', '{ "cniVersion": "0.3.1",\n "type": "x" }', True),
    ({"type": "x", "name": "nic0"}, {"type": "x"}, True),
    ({"type": "x", "name": "other"}, {"type": "x"}, False),
    ({"type": "x", "ipam": {}}, {"type": "x"}, True),
    ({"type": "x", "hwaddr": "AA:bb"}, {"type": "x", "hwaddr": "aa:BB"}, True),
    ({"type": "x", "extra": 1}, {"type": "x"}, False),
    ({"type": "x", "mtu": 9000}, {"type": "x", "mtu": "9000"}, False),
    ({"type": "x"}, {"plugins": [{"type": "x"}]}, False),
    ({"plugins": [{"type": "x"}, {"type": "y"}]}, {"plugins": [{"type": "y"}, {"type": "x"}]}, False),
    *(
        (
            {"type": "x", "ipam": {"type": "whereabouts", **one}},
            {"type": "x", "ipam": {"type": "whereabouts", **two}},
            same,
        )
        for one, two, same in (
            ({"range": "10.1.2.3/24"}, {"range": "10.1.2.0/24"}, True),
            ({"range": "fd00:0::/64"}, {"range": "FD00::/64"}, True),
            ({"range": "10.1.2.0/24"}, {"range": "10.1.2.0/25"}, False),
            ({"range": "10.1.2.4-10.1.2.9/24"}, {"range": "10.1.2.4-10.1.2.9/24"}, True),
            ({"range": "10.1.2.4-10.1.2.9/24"}, {"range": "10.1.2.4-10.1.2.8/24"}, False),
            ({"exclude": ["10.1.2.3"]}, {"exclude": ["10.1.2.3/32"]}, True),
            ({"exclude": ["10.1.2.0/30", "10.1.2.8/30"]}, {"exclude": ["10.1.2.8/30", "10.1.2.0/30"]}, True),
            ({"gateway": "fd00::0001"}, {"gateway": "fd00::1"}, True),
            ({"routes": [{"dst": "0.0.0.0/0"}]}, {"routes": [{"dst": "0.0.0.0/0", "gw": "10.0.0.1"}]}, False),
            ({"addresses": [{"address": "10.1.2.3/24"}]}, {"addresses": [{"address": "10.1.2.0/24"}]}, False),
            ({"range": "junk"}, {"range": "junk"}, True),
        )
    ),
]


@pytest.mark.parametrize(("one", "two", "same"), SAME, ids=range(len(SAME)))
def test_meaning(one: t.Any, two: t.Any, same: bool) -> None:
    assert (cni.normal(cni.parse(one), "nic0") == cni.normal(cni.parse(two), "nic0")) is same


# text, code, what the message says
UNREADABLE: list[tuple[t.Any, str, str]] = [
    ('{"type": "x",}', "invalid_json", "at line 1, column"),
    (
        '{\n  "type": "x"\n  "mtu": 1\n}',
        "invalid_json",
        "Expecting ',' delimiter at line 3, column 3, near '\"mtu\": 1'",
    ),
    ("", "invalid_json", "invalid JSON"),
    ('{"type": "a", "type": "b"}', "invalid_json", "the key type occurs twice"),
    ("[1]", "invalid_config", "a CNI configuration must be a JSON object, not list"),
    ({"plugins": []}, "invalid_config", "plugins must be a list of at least one plugin"),
    ({"plugins": ["x"]}, "invalid_config", "each entry of plugins must be an object"),
    ({"mtu": 1}, "invalid_config", "a plugin without type"),
    ({"type": "x", "ipam": []}, "invalid_config", "ipam must be an object"),
]


@pytest.mark.parametrize(("text", "code", "says"), UNREADABLE, ids=range(len(UNREADABLE)))
def test_unreadable(text: t.Any, code: str, says: str) -> None:
    with pytest.raises(cni.ConfigError) as caught:
        cni.parse(text)
    assert caught.value.code == code
    assert says in str(caught.value)


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        found = cni.parse(text)
    except cni.ConfigError:
        return
    assert cni.plugins(found)[0]["type"]


# configuration, code, problem, what would be right
WRONG: list[tuple[dict[str, t.Any], str, str, str]] = [
    ({"type": "host-device", "devcie": "x"}, "unknown_key", "host-device has no key devcie", "device?"),
    ({"type": "macvlan", "mode": "bridged"}, "invalid_value", 'mode is "bridged"', "bridge, private, vepa, passthru"),
    ({"type": "macvlan", "mtu": "9000"}, "invalid_value", 'mtu is "9000"', "macvlan requires an integer"),
    ({"type": "macvlan", "mtu": True}, "invalid_value", "mtu is true", "an integer"),
    ({"type": "ib-sriov-cni", "pky": "0x8001"}, "unknown_key", "pky", "pkey"),
    ({"type": "sriov", "spoofchk": True}, "invalid_value", "spoofchk is true", "on, off"),
    ({"cniVersion": "1.0.0", "plugin": [], "type": "rdma"}, "unknown_key", "plugin", "it accepts deviceID"),
    ({"plugins": [{"type": "rdma"}], "disablecheck": "x"}, "invalid_value", "disablecheck", "true or false"),
    ({"plugins": [{"type": "sbr", "tabel": 5}]}, "unknown_key", "plugins[0].tabel", "table"),
    ({"type": "x", "ipam": {"type": "whereabouts", "rnage": "1"}}, "unknown_key", "ipam.rnage", "range"),
    ({"type": "x", "ipam": {"type": "whereabouts", "rangeStart": "1"}}, "unknown_key", "rangeStart", "range_start"),
    ({"type": "x", "ipam": {"type": "host-local", "range_start": "1"}}, "unknown_key", "range_start", "rangeStart"),
    ({"type": "x", "ipam": {"type": "host-local", "ranges": [{}]}}, "invalid_value", "ipam.ranges", "a list of lists"),
    (
        {"type": "x", "ipam": {"type": "whereabouts", "ipRanges": ["a"]}},
        "invalid_value",
        "ipRanges contains",
        "objects",
    ),
    ({"type": "x", "ipam": {"type": "static", "routes": [{"dest": "a"}]}}, "unknown_key", "ipam.routes.dest", "dst"),
    ({"type": "x", "ipam": {"type": "static", "dns": {"server": []}}}, "unknown_key", "ipam.dns.server", "nameservers"),
]


@pytest.mark.parametrize(("config", "code", "problem", "right"), WRONG, ids=range(len(WRONG)))
def test_keys(config: dict[str, t.Any], code: str, problem: str, right: str) -> None:
    found = list(cni.check_keys(config))
    assert [row[0] for row in found] == [code]
    assert problem in found[0][1]
    assert right in found[0][2]


def test_keys_are_not_told_by_their_case_as_in_go() -> None:
    assert list(cni.check_keys({"type": "macvlan", "Master": "eth1", "CNIVersion": "1.0.0"})) == []


def test_types_that_are_not_known_are_said_to_be_so() -> None:
    assert cni.unknown_types({"type": "bridge", "what": 1, "ipam": {"type": "nv-ipam"}}) == ["bridge", "nv-ipam"]
    assert list(cni.check_keys({"type": "bridge", "what": 1, "ipam": {"type": "nv-ipam"}})) == []


def test_what_is_stored_is_read_back() -> None:
    config = BUILT[3][1]
    assert json.loads(cni.text(config)) == config


# ipam, usable addresses of each group
SIZES: list[tuple[dict[str, t.Any], list[int]]] = [
    ({"type": "whereabouts", "range": "10.100.100.0/30"}, [2]),
    ({"type": "whereabouts", "range": "10.100.100.0/29"}, [6]),
    ({"type": "whereabouts", "range": "10.100.100.0/31"}, [0]),
    ({"type": "whereabouts", "range": "10.100.100.0/32"}, [0]),
    ({"type": "whereabouts", "range": "10.0.0.0/24", "range_start": "10.0.0.10", "range_end": "10.0.0.19"}, [10]),
    ({"type": "whereabouts", "range": "10.0.0.4-10.0.0.9/24"}, [6]),
    ({"type": "whereabouts", "range": "10.0.0.0/24", "exclude": ["10.0.0.0/25", "10.0.0.64/26", "10.0.0.200"]}, [126]),
    ({"type": "whereabouts", "range": "10.0.0.0/30", "ipRanges": [{"range": "fd00::/126"}]}, [2, 2]),
    ({"type": "host-local", "subnet": "10.0.0.0/29"}, [5]),
    ({"type": "host-local", "ranges": [[{"subnet": "10.0.0.0/29"}, {"subnet": "10.0.1.0/29"}]]}, [10]),
    ({"type": "host-local", "ranges": [[{"subnet": "10.0.0.0/29", "gateway": "10.9.9.9"}]]}, [6]),
    ({"type": "host-local", "ranges": [[{"subnet": "fd00::/125", "rangeStart": "fd00::4"}]]}, [3]),
    ({"type": "static", "addresses": [{"address": "10.0.0.7/24"}]}, [1]),
    ({"type": "dhcp"}, []),
    ({}, []),
]


@pytest.mark.parametrize(("ipam", "sizes"), SIZES, ids=range(len(SIZES)))
def test_sizes(ipam: dict[str, t.Any], sizes: list[int]) -> None:
    found = ranges.ranges({"type": "x", "ipam": ipam})
    assert found.problems == []
    assert [sum(span.size() for span in group) for group in found.groups] == sizes


# ipam, first and last address of each piece that is handed out, by group
HANDED_OUT: list[tuple[dict[str, t.Any], list[list[tuple[str, str]]]]] = [
    ({"type": "whereabouts", "range": "10.0.0.0/24"}, [[("10.0.0.1", "10.0.0.254")]]),
    ({"type": "whereabouts", "range": "10.0.0.4-10.0.0.9/24"}, [[("10.0.0.4", "10.0.0.9")]]),
    ({"type": "whereabouts", "range": "10.0.0.0-10.0.0.255/24"}, [[("10.0.0.1", "10.0.0.254")]]),
    (
        {"type": "whereabouts", "range": "10.0.0.0/24", "range_start": "10.0.0.1", "exclude": ["10.0.0.8/29"]},
        [[("10.0.0.1", "10.0.0.7"), ("10.0.0.16", "10.0.0.254")]],
    ),
    (
        {"type": "whereabouts", "range": "10.0.0.0/28", "exclude": ["10.0.0.9/29"]},
        [[("10.0.0.1", "10.0.0.7")]],
    ),
    (
        {"type": "whereabouts", "range": "10.0.0.0/24", "range_start": "10.0.0.9", "range_end": "10.0.0.9"},
        [[("10.0.0.9", "10.0.0.9")]],
    ),
    ({"type": "whereabouts", "ipRanges": [5, {"range": "10.0.0.0/30"}]}, [[("10.0.0.1", "10.0.0.2")]]),
    ({"type": "whereabouts", "range": "fd00::/125"}, [[("fd00::1", "fd00::6")]]),
    ({"type": "host-local", "subnet": "10.0.0.0/29"}, [[("10.0.0.2", "10.0.0.6")]]),
    (
        {"type": "host-local", "subnet": "10.0.0.0/29", "gateway": "10.0.0.4"},
        [[("10.0.0.1", "10.0.0.3"), ("10.0.0.5", "10.0.0.6")]],
    ),
    (
        {
            "type": "host-local",
            "ranges": [[{"subnet": "10.0.0.0/24", "rangeStart": "10.0.0.9", "rangeEnd": "10.0.0.12"}]],
        },
        [[("10.0.0.9", "10.0.0.12")]],
    ),
    (
        {"type": "host-local", "subnet": "10.0.0.0/30", "ranges": [[{"subnet": "10.1.0.0/30"}]]},
        [[("10.0.0.2", "10.0.0.2")], [("10.1.0.2", "10.1.0.2")]],
    ),
    ({"type": "host-local", "ranges": [[], [5], [{"subnet": "10.1.0.0/30"}]]}, [[("10.1.0.2", "10.1.0.2")]]),
    ({"type": "static", "addresses": ["10.0.0.7/24"]}, [[("10.0.0.7", "10.0.0.7")]]),
    ({"type": "static", "addresses": []}, []),
    ({"type": "static", "addresses": "10.0.0.7/24"}, []),
]


@pytest.mark.parametrize(("ipam", "expected"), HANDED_OUT, ids=range(len(HANDED_OUT)))
def test_the_addresses_that_are_handed_out(ipam: dict[str, t.Any], expected: list[list[tuple[str, str]]]) -> None:
    found = ranges.ranges({"type": "x", "ipam": ipam})
    assert found.problems == []
    assert [
        [(span.address(first), span.address(last)) for span in group for first, last in span.pieces()]
        for group in found.groups
    ] == expected


def test_only_whereabouts_keeps_pools() -> None:
    def pool(ipam: dict[str, t.Any]) -> tuple[str | None, bool]:
        [[span]] = ranges.ranges({"ipam": ipam}).groups
        return span.pool, span.sliced

    whereabouts = {"type": "whereabouts", "range": "10.0.0.0/24"}
    assert pool(whereabouts) == ("10.0.0.0-24", False)
    assert pool({**whereabouts, "node_slice_size": "/28", "network_name": "rail0"}) == ("rail0-10.0.0.0-24", True)
    assert pool({"type": "host-local", "subnet": "10.0.0.0/24"}) == (None, False)
    assert pool({"type": "static", "addresses": ["10.0.0.7/24"]}) == (None, False)


def test_networks_of_another_version_have_nothing_in_common() -> None:
    ipam = {"type": "whereabouts", "range": "10.0.0.0/24", "exclude": ["10.0.0.0/28"]}
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
    ({"type": "whereabouts", "range": "10.0.0.0"}, ["invalid_cidr"], "not a network in CIDR notation"),
    ({"type": "whereabouts", "range": "10"}, ["invalid_cidr"], "range 10 cannot be read"),
    ({"type": "whereabouts", "ipRanges": [{}]}, ["invalid_cidr"], "ipRanges[0].range  cannot be read"),
    ({"type": "whereabouts", "range": "10.0.0.0/33"}, ["invalid_cidr"], "10.0.0.0/33"),
    ({"type": "whereabouts", "range": "10.0.0.0/255.255.255.0"}, ["invalid_cidr"], "not a network in CIDR notation"),
    ({"type": "whereabouts", "range": "10.9.0.4-10.0.0.9/24"}, ["invalid_cidr"], "the start is outside"),
    (
        {"type": "whereabouts", "range": "10.0.0.0/24", "range_start": "10.0.1.1"},
        ["range_bounds"],
        "silently ignore it",
    ),
    (
        {"type": "whereabouts", "range": "10.0.0.0/24", "range_end": "10.0.0.255"},
        ["range_bounds"],
        "silently ignore it",
    ),
    ({"type": "whereabouts", "range": "10.0.0.0/24", "range_end": "x"}, ["invalid_cidr"], "not an IP address"),
    (
        {"type": "whereabouts", "range": "10.0.0.0/24", "range_start": "10.0.0.9", "range_end": "10.0.0.2"},
        ["range_bounds"],
        "range_start is after range_end",
    ),
    (
        {"type": "whereabouts", "range": "10.0.0.0/24", "exclude": ["10.0.0.0/99"]},
        ["invalid_cidr"],
        "when a pod starts",
    ),
    (
        {"type": "whereabouts", "range": "10.0.0.0/24", "exclude": ["10.0.1.0/28"]},
        ["exclude_outside"],
        "excludes nothing",
    ),
    (
        {"type": "whereabouts", "range": "10.0.0.0/24", "gateway": "10.0.0.1"},
        ["gateway_in_range"],
        "assign it to a pod",
    ),
    (
        {"type": "whereabouts", "range": "10.0.0.0/24", "gateway": "10.0.0.1", "exclude": ["10.0.0.1/32"]},
        [],
        "",
    ),
    ({"type": "whereabouts", "range": "10.0.0.0/24", "gateway": "x"}, ["invalid_cidr"], "gateway is x"),
    ({"type": "host-local"}, ["missing_key"], "host-local has no range"),
    ({"type": "host-local", "subnet": "10.0.0.1/24"}, ["invalid_cidr"], "host bits"),
    ({"type": "host-local", "subnet": "10.0.0.1"}, ["invalid_cidr"], "not a network in CIDR notation"),
    ({"type": "host-local", "subnet": "10.0.0.0/24", "gateway": "x"}, ["invalid_cidr"], "gateway x is not an address"),
    ({"type": "host-local", "subnet": "10.0.0.0/24", "rangeEnd": "10.0.1.9"}, ["range_bounds"], "rangeEnd 10.0.1.9"),
    ({"type": "host-local", "ranges": [[{}]]}, ["invalid_cidr"], "not a network in CIDR notation"),
    ({"type": "static", "addresses": [{"address": "10.0.0.1"}]}, ["invalid_cidr"], "no prefix length"),
]


@pytest.mark.parametrize(("ipam", "codes", "says"), PROBLEMS, ids=range(len(PROBLEMS)))
def test_problems(ipam: dict[str, t.Any], codes: list[str], says: str) -> None:
    found = ranges.ranges({"type": "x", "ipam": ipam}).problems
    assert [row[0] for row in found] == codes
    assert says in " ".join(row[1] for row in found)


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


@given(st.integers(8, 30), st.integers(1, 5000), st.lists(st.integers(0, 255), max_size=4))
def test_what_is_offered_fits(length: int, need: int, holes: list[int]) -> None:
    ipam = {"type": "whereabouts", "range": f"10.0.0.0/{length}", "exclude": [f"10.0.0.{hole}" for hole in holes]}
    [[span]] = ranges.ranges({"type": "x", "ipam": ipam}).groups
    offer = ranges.fitting(span, need)
    [[again]] = ranges.ranges({"type": "x", "ipam": {**ipam, "range": str(offer)}}).groups
    # An exclusion beyond the old range may lie in the new one.
    assert again.size() + len(holes) >= need
    assert offer.supernet_of(span.network)  # type: ignore[arg-type]


@given(
    st.integers(0, 255),
    st.integers(0, 255),
    st.integers(0, 255),
    st.integers(0, 255),
    st.lists(st.integers(0, 255), max_size=3),
)
def test_overlap_is_what_both_hold(one: int, two: int, three: int, four: int, holes: list[int]) -> None:
    def span(first: int, last: int, left_out: list[int]) -> ranges.Span:
        network = ranges.parse_network("10.0.0.0/24")
        base = int(network.network_address)
        pairs = tuple((base + hole, base + hole) for hole in left_out)
        return ranges.Span("range", "", network, base + first, base + last, pairs)

    left, right = span(one, two, holes), span(three, four, [])
    both = (set(range(one, two + 1)) - set(holes)) & set(range(three, four + 1))
    assert (left.overlap(right) is not None) is bool(both)
    assert left.size() == len(set(range(one, two + 1)) - set(holes))
