# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rails of a host, and the GID index of each, as NCCL would have it."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest
from ansible.errors import AnsibleFilterError
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from ansible_collections.rdmaops.gpu_fabric.plugins.filter import rails as plugin
from ansible_collections.rdmaops.gpu_fabric.plugins.filter.rails import AnsibleTypeError, FilterModule, rails
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._rails.ports import natural, pci_key

SLOW = hypothesis_settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

Json = t.Any
ROCE_V1 = "IB/RoCE v1"
ROCE_V2 = "RoCE v2"
LINK_LOCAL = "fe80:0000:0000:0000:0ac0:ebff:feda:1cfb"
GLOBAL = "2001:0db8:0000:0000:0ac0:ebff:feda:1cfb"


def entry(index: int, gid: str, kind: str = ROCE_V2, netdev: str | None = "ens1") -> Json:
    """One entry of a GID table; a dotted gid stands for the IPv4-mapped one."""
    ipv4 = gid if "." in gid else None
    if ipv4:
        gid = "0000:0000:0000:0000:0000:ffff:{:02x}{:02x}:{:02x}{:02x}".format(*map(int, ipv4.split(".")))
    return {"index": index, "gid": gid, "type": kind, "netdev": netdev, "ipv4": ipv4}


def port(number: int = 1, netdev: str | None = "ens1", gids: Json = None, **more: Json) -> Json:
    return {
        "port": number,
        "state": "ACTIVE",
        "physical_state": "LINK_UP",
        "link_layer": "Ethernet",
        "rate_gbps": 400.0,
        "lid": 0,
        "sm_lid": 0,
        "netdev": netdev,
        "netdev_mtu": 9000,
        "active_mtu": 4096,
        "pkeys": ["0xffff"],
        "gids": [] if gids is None else gids,
        **more,
    }


def device(name: str, *ports: Json, pci: str | None = "0000:07:00.0", **more: Json) -> Json:
    return {
        "name": name,
        "index": 0,
        "driver": "mlx5_core",
        "protocol": "roce",
        "pci_address": pci,
        "numa_node": 0,
        "node_guid": "0c42:a103:0065:1f2e",
        "firmware": "28.39.1002",
        "netns": {"inode": 4026531840, "name": None},
        "pod": None,
        "can_change_netns": True,
        "ports": list(ports),
        **more,
    }


def result(*devices: Json) -> Json:
    return {"changed": False, "devices": list(devices), "unreadable": []}


def test_all_that_is_said_of_a_rail() -> None:
    gids = [entry(2, "198.51.100.11", ROCE_V1), entry(3, "198.51.100.11")]
    assert rails(result(device("mlx5_0", port(gids=gids)))) == [
        {
            "rail": 0,
            "device": "mlx5_0",
            "port": 1,
            "netdev": "ens1",
            "state": "ACTIVE",
            "rate_gbps": 400.0,
            "netdev_mtu": 9000,
            "active_mtu": 4096,
            "link_layer": "Ethernet",
            "protocol": "roce",
            "gid_index": 3,
            "gid": "0000:0000:0000:0000:0000:ffff:c633:640b",
            "ipv4": "198.51.100.11",
            "numa_node": 0,
            "pci_address": "0000:07:00.0",
            "node_guid": "0c42:a103:0065:1f2e",
            "planned": None,
        }
    ]


def test_the_list_of_devices_is_as_good_as_the_result() -> None:
    whole = result(device("mlx5_0", port()))
    assert rails(whole["devices"]) == rails(whole)


def devices_of(listed: Json) -> list[t.Any]:
    return [rail["device"] for rail in listed]


def test_order_is_by_pci_address_as_numbers() -> None:
    # Their names, and the text of their addresses, would have another order.
    found = result(
        device("mlx5_0", port(), pci="0001:07:00.0"),
        device("mlx5_1", port(), pci="0000:a0:00.0"),
        device("mlx5_2", port(), pci="0000:1b:00.1"),
        device("mlx5_3", port(), pci="0000:1b:00.0"),
        device("mlx5_4", port(), pci="10000:01:00.0"),
        device("mlx5_5", port(), pci="0000:1a:1f.0"),
    )
    listed = rails(found)
    assert devices_of(listed) == ["mlx5_5", "mlx5_3", "mlx5_2", "mlx5_1", "mlx5_0", "mlx5_4"]
    assert [rail["rail"] for rail in listed] == [0, 1, 2, 3, 4, 5]


def test_order_is_by_port_before_name() -> None:
    # Sub-functions have the PCI address of their parent.
    found = result(device("mlx5_3", port(2), port(1)), device("mlx5_2", port(2), port(1)))
    assert [(rail["device"], rail["port"]) for rail in rails(found)] == [
        ("mlx5_2", 1),
        ("mlx5_3", 1),
        ("mlx5_2", 2),
        ("mlx5_3", 2),
    ]


def test_names_are_in_natural_order_and_without_pci_address_last() -> None:
    found = result(
        device("rxe10", port(), pci=None),
        device("mlx5_10", port()),
        device("rxe9", port(), pci=""),
        device("mlx5_2", port()),
    )
    assert devices_of(rails(found)) == ["mlx5_2", "mlx5_10", "rxe9", "rxe10"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0000:07:00.0", (0, 7, 0, 0)),
        ("0001:FF:1f.7", (1, 255, 31, 7)),
        ("07:00.1", (0, 7, 0, 1)),
        ("10000:e1:00.0", (0x10000, 0xE1, 0, 0)),
        ("0000:07:00.8", None),
        ("virtio1", None),
        ("", None),
        (None, None),
        (7, None),
    ],
)
def test_pci_addresses(text: t.Any, expected: t.Any) -> None:
    assert pci_key(text) == expected


def test_natural_order_of_names() -> None:
    names = ["mlx5_0", "mlx5_2", "mlx5_10", "mlx5_" + "9" * 5000, "rocep7s0f0", "rocep7s0f1", "rocep10s0f0"]
    shuffled = list(names)
    random.Random(1).shuffle(shuffled)
    assert sorted(shuffled, key=natural) == names


def test_a_port_that_is_down_stays_in_the_list() -> None:
    found = result(device("mlx5_0", port(state="DOWN", netdev="ens1"), port(2, netdev="ens2")))
    assert [(rail["port"], rail["state"]) for rail in rails(found)] == [(1, "DOWN"), (2, "ACTIVE")]


def test_a_device_whose_ports_are_not_known_stays_in_the_list() -> None:
    assert [(rail["device"], rail["port"], rail["state"]) for rail in rails(result(device("mlx5_0")))] == [
        ("mlx5_0", None, None)
    ]


# --- the GID index -------------------------------------------------------------------------------------

# name, what is special about the port, its GID table, family, expected (index, ipv4)
GID_TABLES: list[tuple[str, Json, list[Json], str, tuple[int | None, str | None]]] = [
    (
        "mlx5 with one IPv4 address",
        {},
        [
            entry(0, LINK_LOCAL, ROCE_V1),
            entry(1, LINK_LOCAL),
            entry(2, "198.51.100.11", ROCE_V1),
            entry(3, "198.51.100.11"),
        ],
        "ipv4",
        (3, "198.51.100.11"),
    ),
    ("after a hole, 5", {}, [entry(1, LINK_LOCAL), entry(4, "198.51.100.11", ROCE_V1), entry(5, "198.51.100.11")], "ipv4", (5, "198.51.100.11")),
    ("after a hole, 9", {}, [entry(9, "198.51.100.11")], "ipv4", (9, "198.51.100.11")),
    ("lowest index, not first in the list", {}, [entry(9, "198.51.100.12"), entry(3, "198.51.100.11")], "ipv4", (3, "198.51.100.11")),
    ("index 0 is an index", {}, [entry(0, "198.51.100.11")], "ipv4", (0, "198.51.100.11")),
    ("RoCE v1 only", {}, [entry(2, "198.51.100.11", ROCE_V1)], "ipv4", (None, None)),
    ("IPv6 only", {}, [entry(1, LINK_LOCAL), entry(3, GLOBAL)], "ipv4", (None, None)),
    ("of a VLAN", {}, [entry(3, "198.51.100.11", netdev="ens1.100"), entry(5, "198.51.100.12")], "ipv4", (5, "198.51.100.12")),
    ("of a VLAN only", {}, [entry(3, "198.51.100.11", netdev="ens1.100")], "ipv4", (None, None)),
    ("without a network device", {}, [entry(3, "198.51.100.11", netdev=None)], "ipv4", (None, None)),
    # macvlan in a pod: the parent is in the host's namespace, and the port has no network device to be seen.
    ("the port's network device is elsewhere", {"netdev": None}, [entry(7, "198.51.100.11", netdev="net1")], "ipv4", (7, "198.51.100.11")),
    ("mapped, but ipv4 is not set", {}, [{**entry(3, "198.51.100.11"), "ipv4": None}], "ipv4", (None, None)),
    ("ipv4 is set, but not mapped", {}, [{**entry(3, GLOBAL), "ipv4": "198.51.100.11"}], "ipv4", (None, None)),
    ("short form", {}, [{**entry(3, "198.51.100.11"), "gid": "::ffff:198.51.100.11"}], "ipv4", (3, "198.51.100.11")),
    ("empty entries", {}, [entry(0, "0000:0000:0000:0000:0000:0000:0000:0000"), entry(1, "")], "ipv6", (None, None)),
    ("no entry at all", {}, [], "ipv4", (None, None)),
    ("not gathered", {"gids": None}, [], "ipv4", (None, None)),
    ("unreadable as an address", {}, [{**entry(3, GLOBAL), "gid": "not a GID", "ipv4": "198.51.100.11"}, {**entry(4, GLOBAL), "gid": 4}], "ipv6", (None, None)),
    ("IPv6: global before link-local", {}, [entry(1, LINK_LOCAL), entry(3, "198.51.100.11"), entry(4, GLOBAL, ROCE_V1), entry(5, GLOBAL)], "ipv6", (5, None)),
    ("IPv6: unique local counts as global", {}, [entry(1, LINK_LOCAL), entry(5, "fd00::11")], "ipv6", (5, None)),
    ("IPv6: link-local where there is no other", {}, [entry(0, LINK_LOCAL, ROCE_V1), entry(1, LINK_LOCAL), entry(3, "198.51.100.11")], "ipv6", (1, None)),
    ("InfiniBand", {"link_layer": "InfiniBand"}, [entry(0, "fe80:0000:0000:0000:0c42:a103:0065:1f2e", ROCE_V1), entry(3, "198.51.100.11")], "ipv4", (None, None)),
    ("link layer not known", {"link_layer": "Unknown"}, [entry(3, "198.51.100.11")], "ipv4", (None, None)),
]  # fmt: skip


@pytest.mark.parametrize(
    ("special", "table", "family", "expected"), [case[1:] for case in GID_TABLES], ids=[case[0] for case in GID_TABLES]
)
def test_gid_index(special: Json, table: list[Json], family: str, expected: t.Any) -> None:
    found = result(device("mlx5_0", port(**{"gids": table, **special})))
    (rail,) = rails(found, family=family)
    assert (rail["gid_index"], rail["ipv4"]) == expected


def test_a_table_of_256_entries_most_of_them_empty() -> None:
    empty = "0000:0000:0000:0000:0000:0000:0000:0000"
    table = [{"index": index, "gid": empty, "type": None, "netdev": None, "ipv4": None} for index in range(256)]
    table[0] = entry(0, LINK_LOCAL, ROCE_V1)
    table[1] = entry(1, LINK_LOCAL)
    table[200] = entry(200, "198.51.100.11", ROCE_V1)
    table[201] = entry(201, "198.51.100.11")
    (rail,) = rails(result(device("mlx5_0", port(gids=table))))
    assert (rail["gid_index"], rail["gid"]) == (201, "0000:0000:0000:0000:0000:ffff:c633:640b")


def test_iwarp_has_index_0_although_its_link_layer_is_ethernet() -> None:
    # siw has a table of one entry, made of the MAC address.
    found = result(device("siw0", port(gids=[entry(0, "5254:0012:3456:0000::", ROCE_V1)]), protocol="iw", pci=None))
    (rail,) = rails(found)
    assert (rail["gid_index"], rail["gid"], rail["ipv4"], rail["link_layer"]) == (0, None, None, "Ethernet")


# --- a plan --------------------------------------------------------------------------------------------


def two_nics() -> Json:
    return result(
        device("mlx5_0", port(netdev="ens1", gids=[entry(3, "198.51.100.11")]), pci="0000:07:00.0"),
        device("mlx5_1", port(netdev="ens2", gids=[entry(5, "203.0.113.11", netdev="ens2")]), pci="0000:08:00.0"),
        device("mlx5_10", port(netdev="ens10", state="DOWN"), pci="0000:09:00.0", node_guid="0c42:a103:0065:aaaa"),
    )


# name, plan, expected device of each rail
PLANS: list[tuple[str, list[Json], list[str | None]]] = [
    ("its order, not PCI's", [{"rdma": "mlx5_1"}, {"rdma": "mlx5_0"}], ["mlx5_1", "mlx5_0"]),
    ("what is not in it is left out", [{"rdma": "mlx5_1"}], ["mlx5_1"]),
    ("mlx5_1 is not mlx5_10", [{"rdma": "mlx5_10"}, {"rdma": "mlx5_1"}], ["mlx5_10", "mlx5_1"]),
    ("by network device", [{"netdev": "ens2"}, {"netdev": "ens1"}], ["mlx5_1", "mlx5_0"]),
    ("by address", [{"address": "203.0.113.11"}, {"address": "198.51.100.11/24"}], ["mlx5_1", "mlx5_0"]),
    ("the device's name wins", [{"rdma": "mlx5_0", "netdev": "ens2"}], ["mlx5_0"]),
    ("the network device where there is no such name", [{"rdma": "rocep8s0", "netdev": "ens2"}], ["mlx5_1"]),
    ("the network device before the address", [{"netdev": "ens1", "address": "203.0.113.11"}], ["mlx5_0"]),
    ("the address at last", [{"rdma": "a", "netdev": "b", "address": "203.0.113.11"}], ["mlx5_1"]),
    ("no port twice", [{"rdma": "mlx5_0"}, {"netdev": "ens1"}], ["mlx5_0", None]),
    ("a name wins over an earlier entry's network device", [{"netdev": "ens1"}, {"rdma": "mlx5_0"}], [None, "mlx5_0"]),
    ("one that is not there", [{"rdma": "mlx5_7", "netdev": "ens7"}, {"rdma": "mlx5_0"}], [None, "mlx5_0"]),
    ("an address that is none", [{"address": "rail 0"}], [None]),
    ("null is as good as missing", [{"rdma": None, "netdev": "ens2", "address": None}], ["mlx5_1"]),
    ("empty is none", [], ["mlx5_0", "mlx5_1", "mlx5_10"]),
]  # fmt: skip


@pytest.mark.parametrize(("plan", "expected"), [case[1:] for case in PLANS], ids=[case[0] for case in PLANS])
def test_plan(plan: list[Json], expected: list[str | None]) -> None:
    listed = rails(two_nics(), plan)
    assert devices_of(listed) == expected
    assert [rail["rail"] for rail in listed] == list(range(len(expected)))


def test_an_absent_rail_is_seen_and_says_nothing_else() -> None:
    planned = {"rdma": "mlx5_7", "netdev": "ens7", "address": "198.51.100.7"}
    absent, there = rails(two_nics(), plan=[planned, {"rdma": "mlx5_0"}])
    assert {key: value for key, value in absent.items() if value is not None} == {
        "rail": 0,
        "state": "absent",
        "planned": planned,
    }
    assert absent.keys() == there.keys()
    assert (there["rail"], there["planned"]) == (1, {"rdma": "mlx5_0"})


@pytest.mark.parametrize(
    ("plan", "ports"),
    [
        ([{"rdma": "mlx4_0", "netdev": "ens2"}, {"rdma": "mlx4_0", "netdev": "ens1"}], [2, 1]),
        ([{"rdma": "mlx4_0", "address": "203.0.113.11"}, {"rdma": "mlx4_0"}], [2, 1]),
        ([{"rdma": "mlx4_0"}, {"rdma": "mlx4_0"}], [1, 2]),
        ([{"rdma": "mlx4_0"}, {"rdma": "mlx4_0", "netdev": "ens1"}], [2, 1]),
    ],
)
def test_a_plan_for_a_device_of_two_ports(plan: list[Json], ports: list[int]) -> None:
    second = port(2, netdev="ens2", gids=[entry(3, "203.0.113.11", netdev="ens2")])
    found = result(device("mlx4_0", port(1, netdev="ens1"), second))
    assert [rail["port"] for rail in rails(found, plan)] == ports


def test_a_plan_finds_an_ipv6_address_in_any_spelling() -> None:
    found = result(device("mlx5_0", port(gids=[entry(3, GLOBAL)])))
    assert devices_of(rails(found, [{"address": "2001:db8::ac0:ebff:feda:1cfb/64"}])) == ["mlx5_0"]


# --- include, exclude ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("include", "exclude", "expected"),
    [
        (["mlx5_1"], [], ["mlx5_1"]),
        (["ens10"], [], ["mlx5_10"]),
        (["0c42:a103:0065:aaaa"], [], ["mlx5_10"]),
        (["0C42A1030065AAAA"], [], ["mlx5_10"]),
        (["0x0c42a1030065aaaa"], [], ["mlx5_10"]),
        (["0c:42:a1:03:00:65:aa:aa"], [], ["mlx5_10"]),
        (["ens10", "mlx5_0"], [], ["mlx5_0", "mlx5_10"]),
        ([], ["mlx5_1"], ["mlx5_0", "mlx5_10"]),
        ([], ["0C42:A103:0065:AAAA"], ["mlx5_0", "mlx5_1"]),
        ([], ["ens1"], ["mlx5_1", "mlx5_10"]),
        ([], ["MLX5_1", "mlx5", "nvme0"], ["mlx5_0", "mlx5_1", "mlx5_10"]),
        (["mlx5_1", "mlx5_0"], ["ens2"], ["mlx5_0"]),
        (["mlx5_1"], ["mlx5_1"], []),
        (None, None, ["mlx5_0", "mlx5_1", "mlx5_10"]),
    ],
)
def test_include_and_exclude(include: t.Any, exclude: t.Any, expected: list[str]) -> None:
    listed = rails(two_nics(), include=include, exclude=exclude)
    assert devices_of(listed) == expected
    assert [rail["rail"] for rail in listed] == list(range(len(expected)))


def test_with_a_plan_a_rail_keeps_its_number_whatever_is_left_out() -> None:
    plan = [{"rdma": "mlx5_0"}, {"rdma": "mlx5_7"}, {"rdma": "mlx5_1"}]
    assert [(r["rail"], r["device"]) for r in rails(two_nics(), plan, exclude=["mlx5_0"])] == [(1, None), (2, "mlx5_1")]
    assert [(r["rail"], r["device"]) for r in rails(two_nics(), plan, include=["ens2"])] == [(2, "mlx5_1")]
    # What is planned has a name, though it is not there.
    assert [(r["rail"], r["state"]) for r in rails(two_nics(), plan, include=["mlx5_7"])] == [(1, "absent")]
    assert [r["rail"] for r in rails(two_nics(), plan, exclude=["mlx5_7"])] == [0, 2]


# --- refusals ------------------------------------------------------------------------------------------


def test_an_include_that_names_nothing() -> None:
    with pytest.raises(AnsibleFilterError) as caught:
        rails(two_nics(), include=["mlx5_0", "mlx5"])
    assert str(caught.value) == (
        "Could not list the rails: include has 'mlx5', which is not an RDMA device, node GUID or network device here. There are: "
        "mlx5_0 port 1 (ens1, 0c42:a103:0065:1f2e); mlx5_1 port 1 (ens2, 0c42:a103:0065:1f2e); "
        "mlx5_10 port 1 (ens10, 0c42:a103:0065:aaaa). Correct include, or remove the entry"
    )


# name, arguments, what the message says
WRONG_TYPES: list[tuple[str, Json, str]] = [
    ("no mapping", {"data": "rdma"}, "the input must be what rdma_info returns (a dictionary with 'devices')"),
    ("null", {"data": None}, "the input must be what rdma_info returns"),
    ("another module's result", {"data": {"changed": False, "msg": "x"}}, "the input must be what rdma_info returns"),
    ("several hosts", {"data": {"gpu-01": result()}}, "the input must be what rdma_info returns"),
    ("devices by name", {"data": {"devices": {"mlx5_0": {}}}}, "the input must be what rdma_info returns"),
    ("a list of names", {"data": ["mlx5_0"]}, "an RDMA device must be a dictionary with a 'name'"),
    ("a device without a name", {"data": [{"ports": []}]}, "an RDMA device must be a dictionary with a 'name'"),
    ("an empty name", {"data": [{"name": ""}]}, "an RDMA device must be a dictionary with a 'name'"),
    ("ports by number", {"data": [{"name": "a", "ports": {"1": {}}}]}, "of a, 'ports' must be a list of dictionaries"),
    ("a port's number as text", {"data": [{"name": "a", "ports": [{"port": "1"}]}]}, "of a, 'port' must be a number from 1, not '1'"),
    ("a port's number as boolean", {"data": [{"name": "a", "ports": [{"port": True}]}]}, "'port' must be a number from 1, not True"),
    ("port 0", {"data": [{"name": "a", "ports": [{"port": 0}]}]}, "'port' must be a number from 1, not 0"),
    ("a port without a number", {"data": [{"name": "a", "ports": [{"state": "ACTIVE"}]}]}, "of a, a port has no number"),
    ("a state that is no text", {"data": [{"name": "a", "ports": [{"port": 1, "state": 4}]}]}, "of a, 'state' must be a string or null, not 4"),
    ("a GID table that is none", {"data": [{"name": "a", "ports": [{"port": 1, "gids": ["fe80::"]}]}]}, "of a, 'gids' must be a list of dictionaries"),
    ("include as text", {"data": [], "include": "mlx5_0"}, "include must be a list of names, for example ['mlx5_0'], not 'mlx5_0'"),
    ("exclude of numbers", {"data": [], "exclude": [1]}, "exclude must be a list of names"),
    ("an empty text in exclude", {"data": [], "exclude": [""]}, "exclude must be a list of names"),
    ("plan as text", {"data": [], "plan": "mlx5_0"}, "plan must be a list of dictionaries with 'rdma', 'netdev' or 'address', not 'mlx5_0'"),
    ("plan of names", {"data": [], "plan": ["mlx5_0"]}, "plan must be a list of dictionaries with 'rdma', 'netdev' or 'address'; it has 'mlx5_0'"),
    ("plan of numbers", {"data": [], "plan": [{"rdma": 0}]}, "in plan, 'rdma' must be a string or null, not 0"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "message"), [case[1:] for case in WRONG_TYPES], ids=[case[0] for case in WRONG_TYPES]
)
def test_wrong_types(arguments: Json, message: str) -> None:
    with pytest.raises(AnsibleTypeError) as caught:
        rails(**arguments)
    assert str(caught.value).startswith("Could not list the rails: ")
    assert message in str(caught.value)


# name, arguments, the whole message
REFUSED: list[tuple[str, Json, str]] = [
    ("family", {"data": [], "family": "ipv5"}, "Could not list the rails: family is 'ipv5'; it must be one of ipv4, ipv6"),
    ("family, no text", {"data": [], "family": None}, "Could not list the rails: family is None; it must be one of ipv4, ipv6"),
    (
        "a plan that names nothing",
        {"data": [], "plan": [{"rail": 0}]},
        "Could not list the rails: in plan, {'rail': 0} has none of 'rdma', 'netdev', 'address'. Give one",
    ),
    (
        "the devices of two hosts in one list",
        {"data": [device("mlx5_0", port()), device("mlx5_0", port())]},
        "Could not list the rails: mlx5_0 port 1 is in the input twice. Give the devices of one host; "
        "nccl_env takes several hosts as a dictionary, host name to result",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "message"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
def test_refusals(arguments: Json, message: str) -> None:
    with pytest.raises(AnsibleFilterError) as caught:
        rails(**arguments)
    assert str(caught.value) == message


def test_an_integer_that_python_does_not_print_is_refused_like_others() -> None:
    with pytest.raises(AnsibleTypeError, match="a value of type int that is too long to print"):
        rails(10**5000)


# --- any input -----------------------------------------------------------------------------------------

# Keys and values that get far into the filter, beside arbitrary ones.
KEYS = st.sampled_from(
    ["devices", "name", "ports", "port", "gids", "gid", "index", "type", "ipv4", "state", "netdev", "pci_address"]
)
JSON: st.SearchStrategy[Json] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["mlx5_0", ROCE_V2, GLOBAL, "ACTIVE", "Ethernet", "0000:07:00.0", "fe80::1%ens1"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS | st.text(max_size=4), inner, max_size=4),
    max_leaves=20,
)
# The right shape, with anything for a value.
NEARLY = st.fixed_dictionaries(
    {
        "devices": st.lists(
            st.fixed_dictionaries(
                {"name": st.sampled_from(["mlx5_0", "mlx5_10"]) | JSON},
                optional={
                    "protocol": JSON,
                    "pci_address": JSON,
                    "node_guid": JSON,
                    "ports": st.lists(
                        st.fixed_dictionaries(
                            {"port": st.integers(1, 2) | JSON},
                            optional={
                                "state": JSON,
                                "netdev": JSON,
                                "link_layer": st.just("Ethernet") | JSON,
                                "gids": st.lists(
                                    st.fixed_dictionaries(
                                        {"type": st.just(ROCE_V2) | JSON, "index": JSON, "gid": JSON, "ipv4": JSON}
                                    ),
                                    max_size=2,
                                ),
                            },
                        )
                        | JSON,
                        max_size=2,
                    ),
                },
            )
            | JSON,
            max_size=3,
        )
    }
)
ANY = JSON | NEARLY


@SLOW
@given(data=ANY, plan=JSON, include=JSON, exclude=JSON, family=st.sampled_from(["ipv4", "ipv6"]) | JSON)
def test_nothing_but_its_own_errors(data: Json, plan: Json, include: Json, exclude: Json, family: Json) -> None:
    for arguments in (
        {"data": data},
        {"data": data, "plan": plan, "include": include, "exclude": exclude, "family": family},
    ):
        try:
            listed = rails(**arguments)
        except (AnsibleFilterError, AnsibleTypeError) as exc:
            said = str(exc)
        else:
            said = "Could not list the rails: "
            assert all(isinstance(rail["device"], str) or rail["state"] == "absent" for rail in listed)
        assert said.startswith("Could not list the rails: ")


PCI = st.builds(
    "{:04x}:{:02x}:{:02x}.{}".format, st.integers(0, 1), st.integers(0, 255), st.integers(0, 31), st.integers(0, 7)
)
DEVICE_SETS = st.lists(
    st.tuples(
        st.builds("{}{}".format, st.sampled_from(["mlx5_", "rxe", "bnxt_re"]), st.integers(0, 30)),
        st.none() | PCI,
        st.lists(
            st.tuples(st.sampled_from(["ACTIVE", "DOWN", "INIT", None]), st.none() | st.integers(0, 9)), max_size=2
        ),
    ),
    unique_by=lambda one: one[0],
    max_size=8,
)  # fmt: skip


def made(drawn: list[t.Any]) -> Json:
    devices = []
    for number, (name, pci, ports) in enumerate(drawn):
        netdevs = [f"eth{number}p{n}" for n in range(len(ports))]
        listed = [
            port(n + 1, netdevs[n], [entry(index, f"198.51.100.{number}", netdev=netdevs[n])] if index is not None else [], state=state)
            for n, (state, index) in enumerate(ports)
        ]  # fmt: skip
        devices.append(device(name, *listed, pci=pci, node_guid=f"0c42:a103:0065:{number:04x}"))
    return result(*devices)


@SLOW
@given(DEVICE_SETS, st.randoms(use_true_random=False))
def test_the_order_of_the_input_is_of_no_account(drawn: list[t.Any], shuffle: random.Random) -> None:
    found = made(drawn)
    expected = rails(found)
    shuffle.shuffle(found["devices"])
    for one in found["devices"]:
        shuffle.shuffle(one["ports"])
    assert rails(found) == expected
    assert [rail["rail"] for rail in expected] == list(range(len(expected)))
    assert len(expected) == sum(max(1, len(ports)) for _name, _pci, ports in drawn)


@SLOW
@given(DEVICE_SETS, st.randoms(use_true_random=False))
def test_a_plan_made_of_the_rails_gives_the_same_rails(drawn: list[t.Any], shuffle: random.Random) -> None:
    found = made(drawn)
    listed = rails(found)
    shuffle.shuffle(listed)
    planned = rails(found, [{"rdma": rail["device"], "netdev": rail["netdev"]} for rail in listed])
    assert [(r["device"], r["port"]) for r in planned] == [(r["device"], r["port"]) for r in listed]


# --- in Ansible ----------------------------------------------------------------------------------------


def ansible_debug(expression: str, variables: Json, directory: Path) -> subprocess.CompletedProcess[str]:
    """Let Ansible template an expression."""
    file = directory / "variables.json"
    file.write_text(json.dumps(variables), encoding="utf-8")
    argv = [str(Path(sys.prefix) / "bin" / "ansible"), "localhost", "-i", "localhost,", "-c", "local"]
    argv += ["-m", "ansible.builtin.debug", "-a", json.dumps({"msg": "{{ %s }}" % expression}), "-e", f"@{file}"]
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(directory), "ANSIBLE_NOCOLOR": "1", "LC_ALL": "C.UTF-8"}
    return subprocess.run(argv, capture_output=True, text=True, timeout=120, env=environment, cwd=directory)


def test_in_a_template(tmp_path: Path) -> None:
    plan = [{"netdev": "ens2", "address": "203.0.113.11", "rdma": "mlx5_1"}, {"netdev": "ens9"}]
    expression = "rdma | rdmaops.gpu_fabric.rails(rails, exclude=['mlx5_10']) | map(attribute='gid_index') | list"
    done = ansible_debug(expression, {"rdma": two_nics(), "rails": plan}, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout.split("=>", 1)[1])["msg"] == [5, None]


def test_the_file_gives_one_filter() -> None:
    assert FilterModule().filters() == {"rails": plugin.rails}
