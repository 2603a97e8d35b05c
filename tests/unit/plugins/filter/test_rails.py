# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter rails: order, GID, plan, selection."""

from __future__ import annotations

import random
import typing as t
from pathlib import Path

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.rdmaops.gpu_fabric.plugins.filter.rails import rails
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._rails.ports import natural, pci_key
from ansible_collections.rdmaops.gpu_fabric.tests.support.failures import message_of
from ansible_collections.rdmaops.gpu_fabric.tests.support.templates import templated
from ansible_collections.rdmaops.gpu_fabric.tests.unit.plugins.filter.rail_devices import (
    GLOBAL,
    ROCE_V1,
    Json,
    device,
    entry,
    port,
)
from ansible_collections.rdmaops.gpu_fabric.tests.unit.plugins.filter.rdma_results import LINK_LOCAL, result


def test_all_that_is_said_of_a_rail() -> None:
    gids = [entry(2, "198.51.100.11", ROCE_V1), entry(3, "198.51.100.11")]
    (rail,) = rails(result(device("mlx5_0", port(gids=gids))))
    assert rail == {
        "rail": 0, "device": "mlx5_0", "port": 1, "netdev": "ens1", "state": "ACTIVE", "rate_gbps": 400.0,
        "netdev_mtu": 9000, "active_mtu": 4096, "link_layer": "Ethernet", "protocol": "roce", "gid_index": 3,
        "gid": "0000:0000:0000:0000:0000:ffff:c633:640b", "ipv4": "198.51.100.11", "ipv6": None, "numa_node": 0,
        "pci_address": "0000:07:00.0", "node_guid": "0c42:a103:0065:1f2e", "planned": None,
    }  # fmt: skip


def test_the_list_of_devices_is_as_good_as_the_result() -> None:
    whole = result(device("mlx5_0", port()))
    assert rails(whole["devices"]) == rails(whole)


def devices_of(listed: Json) -> list[t.Any]:
    return [rail["device"] for rail in listed]


def test_order_is_by_pci_address_as_numbers() -> None:
    # Their names, and the text of their addresses, would have another order.
    info = result(
        device("mlx5_0", port(), pci="0001:07:00.0"),
        device("mlx5_1", port(), pci="0000:a0:00.0"),
        device("mlx5_2", port(), pci="0000:1b:00.1"),
        device("mlx5_3", port(), pci="0000:1b:00.0"),
        device("mlx5_4", port(), pci="10000:01:00.0"),
        device("mlx5_5", port(), pci="0000:1a:1f.0"),
    )
    listed = rails(info)
    assert devices_of(listed) == ["mlx5_5", "mlx5_3", "mlx5_2", "mlx5_1", "mlx5_0", "mlx5_4"]
    assert [rail["rail"] for rail in listed] == [0, 1, 2, 3, 4, 5]


def test_order_is_by_port_before_name() -> None:
    # Sub-functions have the PCI address of their parent.
    listed = result(device("mlx5_3", port(2), port(1)), device("mlx5_2", port(2), port(1)))
    places = [(rail["device"], rail["port"]) for rail in rails(listed)]
    assert places == [("mlx5_2", 1), ("mlx5_3", 1), ("mlx5_2", 2), ("mlx5_3", 2)]


def test_names_are_in_natural_order_and_without_pci_address_last() -> None:
    listed = result(
        device("rxe10", port(), pci=None),
        device("mlx5_10", port()),
        device("rxe9", port(), pci=""),
        device("mlx5_2", port()),
    )
    assert devices_of(rails(listed)) == ["mlx5_2", "mlx5_10", "rxe9", "rxe10"]


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
    listed = result(device("mlx5_0", port(state="DOWN", netdev="ens1"), port(2, netdev="ens2")))
    assert [(rail["port"], rail["state"]) for rail in rails(listed)] == [(1, "DOWN"), (2, "ACTIVE")]


def test_a_device_whose_ports_are_not_known_stays_in_the_list() -> None:
    (rail,) = rails(result(device("mlx5_0")))
    assert (rail["device"], rail["port"], rail["state"]) == ("mlx5_0", None, None)


# --- the GID index -------------------------------------------------------------------------------------

# what is special about the port, its GID table, family, expected (index, ipv4)
GID_TABLES: dict[str, tuple[Json, list[Json], str, tuple[int | None, str | None]]] = {
    "mlx5 with one IPv4 address": (
        {},
        [entry(0, LINK_LOCAL, ROCE_V1), entry(1, LINK_LOCAL),
         entry(2, "198.51.100.11", ROCE_V1), entry(3, "198.51.100.11")],
        "ipv4",
        (3, "198.51.100.11"),
    ),
    "after a hole, 5": ({}, [entry(1, LINK_LOCAL), entry(4, "198.51.100.11", ROCE_V1), entry(5, "198.51.100.11")], "ipv4", (5, "198.51.100.11")),
    "after a hole, 9": ({}, [entry(9, "198.51.100.11")], "ipv4", (9, "198.51.100.11")),
    "lowest index, not first in the list": ({}, [entry(9, "198.51.100.12"), entry(3, "198.51.100.11")], "ipv4", (3, "198.51.100.11")),
    "index 0 is an index": ({}, [entry(0, "198.51.100.11")], "ipv4", (0, "198.51.100.11")),
    "RoCE v1 only": ({}, [entry(2, "198.51.100.11", ROCE_V1)], "ipv4", (None, None)),
    "IPv6 only": ({}, [entry(1, LINK_LOCAL), entry(3, GLOBAL)], "ipv4", (None, None)),
    "of a VLAN": ({}, [entry(3, "198.51.100.11", netdev="ens1.100"), entry(5, "198.51.100.12")], "ipv4", (5, "198.51.100.12")),
    "of a VLAN only": ({}, [entry(3, "198.51.100.11", netdev="ens1.100")], "ipv4", (None, None)),
    "of a bridge": ({}, [entry(3, "198.51.100.11", netdev="br0"), entry(5, "198.51.100.12")], "ipv4", (5, "198.51.100.12")),
    "of a bridge only": ({}, [entry(3, "198.51.100.11", netdev="br0")], "ipv4", (None, None)),
    "without a network device": ({}, [entry(3, "198.51.100.11", netdev=None)], "ipv4", (None, None)),
    # macvlan in a pod: the parent is in the host's namespace, and the port has no network device to be seen.
    "the port's network device is elsewhere": ({"netdev": None}, [entry(7, "198.51.100.11", netdev="net1")], "ipv4", (7, "198.51.100.11")),
    "mapped, but ipv4 is not set": ({}, [{**entry(3, "198.51.100.11"), "ipv4": None}], "ipv4", (None, None)),
    "ipv4 is set, but not mapped": ({}, [{**entry(3, GLOBAL), "ipv4": "198.51.100.11"}], "ipv4", (None, None)),
    "short form": ({}, [{**entry(3, "198.51.100.11"), "gid": "::ffff:198.51.100.11"}], "ipv4", (3, "198.51.100.11")),
    "empty entries": ({}, [entry(0, "0000:0000:0000:0000:0000:0000:0000:0000"), entry(1, "")], "ipv6", (None, None)),
    "no entry at all": ({}, [], "ipv4", (None, None)),
    "not gathered": ({"gids": None}, [], "ipv4", (None, None)),
    "unreadable as an address": ({}, [{**entry(3, GLOBAL), "gid": "not a GID", "ipv4": "198.51.100.11"}, {**entry(4, GLOBAL), "gid": 4}], "ipv6", (None, None)),
    "IPv6: global before link-local": ({}, [entry(1, LINK_LOCAL), entry(3, "198.51.100.11"), entry(4, GLOBAL, ROCE_V1), entry(5, GLOBAL)], "ipv6", (5, None)),
    "IPv6: unique local counts as global": ({}, [entry(1, LINK_LOCAL), entry(5, "fd00::11")], "ipv6", (5, None)),
    "IPv6: link-local where there is no other": ({}, [entry(0, LINK_LOCAL, ROCE_V1), entry(1, LINK_LOCAL), entry(3, "198.51.100.11")], "ipv6", (1, None)),
    "InfiniBand": ({"link_layer": "InfiniBand"}, [entry(0, "fe80:0000:0000:0000:0c42:a103:0065:1f2e", ROCE_V1), entry(3, "198.51.100.11")], "ipv4", (None, None)),
    "link layer not known": ({"link_layer": "Unknown"}, [entry(3, "198.51.100.11")], "ipv4", (None, None)),
}  # fmt: skip


@pytest.mark.parametrize(("special", "table", "family", "expected"), GID_TABLES.values(), ids=GID_TABLES)
def test_gid_index(special: Json, table: list[Json], family: str, expected: t.Any) -> None:
    listed = result(device("mlx5_0", port(**{"gids": table, **special})))
    (rail,) = rails(listed, family=family)
    assert (rail["gid_index"], rail["ipv4"]) == expected


def test_the_ipv6_address_of_the_gid() -> None:
    table = [entry(1, LINK_LOCAL), entry(3, "198.51.100.11"), entry(5, GLOBAL)]
    for family, expected in (("ipv6", "2001:db8::ac0:ebff:feda:1cfb"), ("ipv4", None)):
        (rail,) = rails(result(device("mlx5_0", port(gids=table))), family=family)
        assert (rail["ipv4"] is None, rail["ipv6"]) == (family == "ipv6", expected)
    (rail,) = rails(result(device("mlx5_0", port(gids=table[:2]))), family="ipv6")
    assert (rail["gid_index"], rail["ipv6"]) == (1, None)
    infiniband = result(device("mlx5_0", port(gids=[], link_layer="InfiniBand"), protocol="ib"))
    (rail,) = rails(infiniband, plan=[{"rdma": "mlx5_0", "address": "2001:db8::11/64"}])
    assert (rail["ipv4"], rail["ipv6"]) == (None, "2001:db8::11")


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
    listed = result(device("siw0", port(gids=[entry(0, "5254:0012:3456:0000::", ROCE_V1)]), protocol="iw", pci=None))
    (rail,) = rails(listed)
    assert (rail["gid_index"], rail["gid"], rail["ipv4"], rail["link_layer"]) == (0, None, None, "Ethernet")


# --- a plan --------------------------------------------------------------------------------------------


def two_nics() -> Json:
    return result(
        device("mlx5_0", port(netdev="ens1", gids=[entry(3, "198.51.100.11")]), pci="0000:07:00.0"),
        device("mlx5_1", port(netdev="ens2", gids=[entry(5, "203.0.113.11", netdev="ens2")]), pci="0000:08:00.0"),
        device("mlx5_10", port(netdev="ens10", state="DOWN"), pci="0000:09:00.0", node_guid="0c42:a103:0065:aaaa"),
    )


# plan, expected device of each rail
PLANS: dict[str, tuple[list[Json], list[str | None]]] = {
    "its order, not PCI's": ([{"rdma": "mlx5_1"}, {"rdma": "mlx5_0"}], ["mlx5_1", "mlx5_0"]),
    "what is not in it is left out": ([{"rdma": "mlx5_1"}], ["mlx5_1"]),
    "mlx5_1 is not mlx5_10": ([{"rdma": "mlx5_10"}, {"rdma": "mlx5_1"}], ["mlx5_10", "mlx5_1"]),
    "by network device": ([{"netdev": "ens2"}, {"netdev": "ens1"}], ["mlx5_1", "mlx5_0"]),
    "by address": ([{"address": "203.0.113.11"}, {"address": "198.51.100.11/24"}], ["mlx5_1", "mlx5_0"]),
    "the device's name wins": ([{"rdma": "mlx5_0", "netdev": "ens2"}], ["mlx5_0"]),
    "the network device where there is no such name": ([{"rdma": "rocep8s0", "netdev": "ens2"}], ["mlx5_1"]),
    "the network device before the address": ([{"netdev": "ens1", "address": "203.0.113.11"}], ["mlx5_0"]),
    "the address at last": ([{"rdma": "a", "netdev": "b", "address": "203.0.113.11"}], ["mlx5_1"]),
    "no port twice": ([{"rdma": "mlx5_0"}, {"netdev": "ens1"}], ["mlx5_0", None]),
    "a name wins over an earlier entry's network device": ([{"netdev": "ens1"}, {"rdma": "mlx5_0"}], [None, "mlx5_0"]),
    "one that is not there": ([{"rdma": "mlx5_7", "netdev": "ens7"}, {"rdma": "mlx5_0"}], [None, "mlx5_0"]),
    "an address that is none": ([{"address": "rail 0"}], [None]),
    "null is as good as missing": ([{"rdma": None, "netdev": "ens2", "address": None}], ["mlx5_1"]),
    "empty is none": ([], ["mlx5_0", "mlx5_1", "mlx5_10"]),
}  # fmt: skip


@pytest.mark.parametrize(("plan", "expected"), PLANS.values(), ids=PLANS)
def test_plan(plan: list[Json], expected: list[str | None]) -> None:
    listed = rails(two_nics(), plan)
    assert devices_of(listed) == expected
    assert [rail["rail"] for rail in listed] == list(range(len(expected)))


def test_an_absent_rail_is_seen_and_says_nothing_else() -> None:
    planned = {"rdma": "mlx5_7", "netdev": "ens7", "address": "198.51.100.7"}
    absent, there = rails(two_nics(), plan=[planned, {"rdma": "mlx5_0"}])
    known = {key: value for key, value in absent.items() if value is not None}
    assert known == {"rail": 0, "state": "absent", "planned": planned}
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
    listed = result(device("mlx4_0", port(1, netdev="ens1"), second))
    assert [rail["port"] for rail in rails(listed, plan)] == ports


def test_a_plan_finds_an_ipv6_address_in_any_spelling() -> None:
    listed = result(device("mlx5_0", port(gids=[entry(3, GLOBAL)])))
    assert devices_of(rails(listed, [{"address": "2001:db8::ac0:ebff:feda:1cfb/64"}])) == ["mlx5_0"]


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
    assert message_of(AnsibleFilterError, rails, two_nics(), include=["mlx5_0", "mlx5"]) == (
        "Could not list the rails: include has 'mlx5', which is not an RDMA device, node GUID or network device here. There are: "
        "mlx5_0 port 1 (ens1, 0c42:a103:0065:1f2e); mlx5_1 port 1 (ens2, 0c42:a103:0065:1f2e); "
        "mlx5_10 port 1 (ens10, 0c42:a103:0065:aaaa). Correct include, or remove the entry"
    )


# --- in Ansible ----------------------------------------------------------------------------------------


def test_in_a_template(tmp_path: Path) -> None:
    plan = [{"netdev": "ens2", "address": "203.0.113.11", "rdma": "mlx5_1"}, {"netdev": "ens9"}]
    expression = "rdma | rdmaops.gpu_fabric.rails(rails, exclude=['mlx5_10']) | map(attribute='gid_index') | list"
    assert templated(expression, {"rdma": two_nics(), "rails": plan}, tmp_path) == [5, None]


def test_ports_of_other_functions_are_no_rails() -> None:
    """mlx5 in switchdev mode: one device, and a port for each virtual function."""
    functions = [port(number, f"ens1f0npf0vf{number - 2}", representor=True) for number in (2, 3, 4)]
    listed = rails(result(device("mlx5_0", port(1, "ens1f0np0", representor=False), *functions)))
    assert [(rail["rail"], rail["device"], rail["port"]) for rail in listed] == [(0, "mlx5_0", 1)]


OWN = ("mlx5_0", "ens1", 3, "198.51.100.11", 9000)


def seen_on(above: str, **options: t.Any) -> list[tuple[t.Any, ...]]:
    """Return the rails of a port with a VLAN or a bridge on its network device, which has entries in the same table."""
    table = [entry(3, "198.51.100.11"), entry(5, "203.0.113.11", netdev=above)]
    listed = rails(result(device("mlx5_0", port(gids=table))), **options)
    return [tuple(rail[key] for key in ("device", "netdev", "gid_index", "ipv4", "netdev_mtu")) for rail in listed]


@pytest.mark.parametrize("above", ["ens1.100", "br0"])
def test_a_rail_on_a_vlan_or_a_bridge(above: str) -> None:
    expected = [("mlx5_0", above, 5, "203.0.113.11", None)]
    for named in ({"netdev": above}, {"rdma": "mlx5_0", "netdev": above}, {"address": "203.0.113.11"}):
        assert seen_on(above, plan=[named]) == expected
    for include in ([above], ["mlx5_0", above]):
        assert seen_on(above, include=include) == expected
    for other in ({"rdma": "mlx5_0"}, {"rdma": "mlx5_0", "netdev": "ens1.200"}):
        assert seen_on(above, plan=[other]) == [OWN]
    assert seen_on(above, include=["ens1"]) == [OWN]
    assert seen_on(above, include=[above], exclude=["ens1"]) == []
