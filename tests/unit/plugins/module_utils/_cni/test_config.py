# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Configurations: built, read, compared, checked."""

from __future__ import annotations

import json
import typing as t

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._cni import config as cni

HOST_DEVICE = {"type": "host-device", "device": "ens192", "ipam": {"type": "whereabouts", "range": "10.100.100.0/30"}}
LOCAL = {"type": "host-local", "ranges": [[{"subnet": "10.1.0.0/24", "range_start": "10.1.0.9"}]], "data_dir": "/run/x"}
LOCAL_CNI = {
    "type": "host-local",
    "ranges": [[{"subnet": "10.1.0.0/24", "rangeStart": "10.1.0.9"}]],
    "dataDir": "/run/x",
}
POOL = {"type": "whereabouts", "range_start": "10.0.0.2"}
RANGES = [{"range": "fd00::/64", "range_start": "fd00::9"}]
SYSCTL = "net.ipv4.conf.IFNAME.arp_announce"
CHAIN = [{"type": "rdma", "mtu": None}, {"type": "tuning", "sysctl": {SYSCTL: 2}, "tx_q_len": 9}]
CHAIN_CNI = [{"type": "rdma"}, {"type": "tuning", "sysctl": {SYSCTL: "2"}, "txQLen": 9}]
# options, configuration
BUILT: list[tuple[dict[str, t.Any], dict[str, t.Any]]] = [
    (HOST_DEVICE, HOST_DEVICE),
    (
        {"type": "host-device", "pci_bus_id": "0000:07:00.0", "device": None, "ipam": {"type": "none"}, "chain": []},
        {"type": "host-device", "pciBusID": "0000:07:00.0"},
    ),
    (
        {"type": "macvlan", "master": "eth1", "link_in_container": False, "ipam": {**LOCAL, "range_start": "10.1.0.3"}},
        {
            "type": "macvlan",
            "master": "eth1",
            "linkInContainer": False,
            "ipam": {**LOCAL_CNI, "rangeStart": "10.1.0.3"},
        },
    ),
    (
        {"type": "sriov", "vlan_qos": 3, "log_level": "debug", "chain": CHAIN, "ipam": {**POOL, "ip_ranges": RANGES}},
        {
            "plugins": [
                {"type": "sriov", "vlanQoS": 3, "logLevel": "debug", "ipam": {**POOL, "ipRanges": RANGES}},
                *CHAIN_CNI,
            ]
        },
    ),
]


@pytest.mark.parametrize(("options", "config"), BUILT, ids=range(len(BUILT)))
def test_build(options: dict[str, t.Any], config: dict[str, t.Any]) -> None:
    built = cni.build(options, "0.3.0")
    assert built == {"cniVersion": "0.3.0", **config}
    assert list(cni.check_keys(built)) == []


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
    assert cni.normal(cni.parse(SOURCE), "nic0") == cni.normal(cni.build(HOST_DEVICE, "0.3.0"), "nic0")


def allocated(kind: str, **ipam: t.Any) -> dict[str, t.Any]:
    return {"type": "x", "ipam": {"type": kind, **ipam}}


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
        (allocated("whereabouts", **left), allocated("whereabouts", **right), same)
        for left, right, same in (
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


@pytest.mark.parametrize(("left", "right", "same"), SAME, ids=range(len(SAME)))
def test_meaning(left: t.Any, right: t.Any, same: bool) -> None:
    assert (cni.normal(cni.parse(left), "nic0") == cni.normal(cni.parse(right), "nic0")) is same


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
        config = cni.parse(text)
    except cni.ConfigError:
        return
    assert cni.plugins(config)[0]["type"]


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
    (allocated("whereabouts", rnage="1"), "unknown_key", "ipam.rnage", "range"),
    (allocated("whereabouts", rangeStart="1"), "unknown_key", "rangeStart", "range_start"),
    (allocated("host-local", range_start="1"), "unknown_key", "range_start", "rangeStart"),
    (allocated("host-local", ranges=[{}]), "invalid_value", "ipam.ranges", "a list of lists"),
    (allocated("host-local", ranges=[[1]]), "invalid_value", "ipam.ranges", "objects"),
    (allocated("whereabouts", ipRanges=["a"]), "invalid_value", "ipRanges contains", "objects"),
    (allocated("static", routes=[{"dest": "a"}]), "unknown_key", "ipam.routes.dest", "dst"),
    (allocated("static", dns={"server": []}), "unknown_key", "ipam.dns.server", "nameservers"),
]


@pytest.mark.parametrize(("config", "code", "problem", "right"), WRONG, ids=range(len(WRONG)))
def test_keys(config: dict[str, t.Any], code: str, problem: str, right: str) -> None:
    rows = list(cni.check_keys(config))
    assert [row[0] for row in rows] == [code]
    assert problem in rows[0][1]
    assert right in rows[0][2]


def test_keys_are_not_told_by_their_case_as_in_go() -> None:
    assert list(cni.check_keys({"type": "macvlan", "Master": "eth1", "CNIVersion": "1.0.0"})) == []


def test_types_that_are_not_known_are_said_to_be_so() -> None:
    assert cni.unknown_types({"type": "bridge", "what": 1, "ipam": {"type": "nv-ipam"}}) == ["bridge", "nv-ipam"]
    assert list(cni.check_keys({"type": "bridge", "what": 1, "ipam": {"type": "nv-ipam"}})) == []


def test_what_is_stored_is_read_back() -> None:
    config = cni.build(BUILT[3][0], "0.3.0")
    assert json.loads(cni.text(config)) == config
