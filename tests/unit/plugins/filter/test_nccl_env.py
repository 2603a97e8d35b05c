# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""NCCL's environment from what rdma_info saw: which ports, which GID, and when there is none that would work."""

from __future__ import annotations

import json
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest
from ansible.errors import AnsibleFilterError
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from ansible_collections.rdmaops.gpu_fabric.plugins.filter import nccl_env as plugin
from ansible_collections.rdmaops.gpu_fabric.plugins.filter.nccl_env import AnsibleTypeError, FilterModule, nccl_env
from ansible_collections.rdmaops.gpu_fabric.plugins.filter.rails import rails

SLOW = hypothesis_settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

Json = t.Any
DOING = "Could not build the NCCL environment: "
LINK_LOCAL = "fe80:0000:0000:0000:0ac0:ebff:feda:1cfb"


def entry(index: int, gid: str, netdev: str | None, kind: str = "RoCE v2") -> Json:
    """One entry of a GID table; a dotted gid stands for the IPv4-mapped one."""
    mapped = "0000:0000:0000:0000:0000:ffff:{:02x}{:02x}:{:02x}{:02x}"
    ipv4 = gid if "." in gid else None
    text = mapped.format(*map(int, ipv4.split("."))) if ipv4 else gid
    return {"index": index, "gid": text, "type": kind, "netdev": netdev, "ipv4": ipv4}


def port(netdev: str | None, *gids: Json, number: int = 1, **more: Json) -> Json:
    return {"port": number, "state": "ACTIVE", "link_layer": "Ethernet", "netdev": netdev, "gids": list(gids), **more}


def device(name: str, *ports: Json, pci: str | None = None, **more: Json) -> Json:
    return {"name": name, "protocol": "roce", "pci_address": pci, "node_guid": None, "ports": list(ports), **more}


def result(*devices: Json, **more: Json) -> Json:
    return {"changed": False, "devices": list(devices), "unreadable": [], **more}


def roce(name: str, netdev: str, index: int = 3, **more: Json) -> Json:
    """A RoCE device with an IPv4 address at that index, beside what else is in such a table."""
    return device(
        name,
        port(
            netdev,
            entry(0, LINK_LOCAL, netdev, "IB/RoCE v1"),
            entry(1, LINK_LOCAL, netdev),
            entry(index - 1, "198.51.100.11", netdev, "IB/RoCE v1"),
            entry(index, "198.51.100.11", netdev),
        ),
        **more,
    )


def infiniband(name: str, netdev: str, **more: Json) -> Json:
    gid = entry(0, "fe80:0000:0000:0000:0c42:a103:0065:1f2e", None, "IB/RoCE v1")
    return device(name, port(netdev, gid, link_layer="InfiniBand"), protocol="ib", **more)


def iwarp(name: str, netdev: str) -> Json:
    return device(name, port(netdev, entry(0, "5254:0012:3456:0000::", netdev, "IB/RoCE v1")), protocol="iw")


TWO = result(roce("mlx5_0", "ens1", pci="0000:07:00.0"), roce("mlx5_1", "ens2", pci="0000:08:00.0"))

# name, input, options, expected
ENVIRONMENTS: list[tuple[str, Json, Json, dict[str, str]]] = [
    (
        "two rails",
        TWO,
        {},
        {"NCCL_IB_HCA": "=mlx5_0:1,mlx5_1:1", "NCCL_IB_GID_INDEX": "3", "NCCL_DEBUG": "INFO"},
    ),
    (
        "the list of devices",
        TWO["devices"],
        {},
        {"NCCL_IB_HCA": "=mlx5_0:1,mlx5_1:1", "NCCL_IB_GID_INDEX": "3", "NCCL_DEBUG": "INFO"},
    ),
    (
        "everything that can be set",
        TWO,
        {"socket_ifname": "eth0", "debug": "WARN", "exclude": ["ens1"]},
        {"NCCL_IB_HCA": "=mlx5_1:1", "NCCL_IB_GID_INDEX": "3", "NCCL_SOCKET_IFNAME": "=eth0", "NCCL_DEBUG": "WARN"},
    ),
    (
        "auto",
        TWO,
        {"gid_index": "auto"},
        {
            "NCCL_IB_HCA": "=mlx5_0:1,mlx5_1:1",
            "NCCL_IB_ROCE_VERSION_NUM": "2",
            "NCCL_IB_ADDR_FAMILY": "AF_INET",
            "NCCL_DEBUG": "INFO",
        },
    ),
    (
        "auto where the devices disagree",
        result(roce("mlx5_0", "ens1", 3), roce("mlx5_1", "ens2", 5)),
        {"gid_index": "auto"},
        {
            "NCCL_IB_HCA": "=mlx5_0:1,mlx5_1:1",
            "NCCL_IB_ROCE_VERSION_NUM": "2",
            "NCCL_IB_ADDR_FAMILY": "AF_INET",
            "NCCL_DEBUG": "INFO",
        },
    ),
    (
        "auto, IPv6",
        result(device("mlx5_0", port("ens1", entry(1, LINK_LOCAL, "ens1"), entry(5, "2001:db8::11", "ens1")))),
        {"gid_index": "auto", "family": "ipv6"},
        {
            "NCCL_IB_HCA": "=mlx5_0:1",
            "NCCL_IB_ROCE_VERSION_NUM": "2",
            "NCCL_IB_ADDR_FAMILY": "AF_INET6",
            "NCCL_DEBUG": "INFO",
        },
    ),
    (
        "pin, IPv6",
        result(device("mlx5_0", port("ens1", entry(1, LINK_LOCAL, "ens1"), entry(5, "2001:db8::11", "ens1")))),
        {"family": "ipv6"},
        {"NCCL_IB_HCA": "=mlx5_0:1", "NCCL_IB_GID_INDEX": "5", "NCCL_DEBUG": "INFO"},
    ),
    (
        "pin, IPv6, link-local at last",
        result(device("mlx5_0", port("ens1", entry(1, LINK_LOCAL, "ens1")))),
        {"family": "ipv6"},
        {"NCCL_IB_HCA": "=mlx5_0:1", "NCCL_IB_GID_INDEX": "1", "NCCL_DEBUG": "INFO"},
    ),
    (
        "InfiniBand has no GID index",
        result(infiniband("mlx5_0", "ibs1"), infiniband("mlx5_1", "ibs2")),
        {},
        {"NCCL_IB_HCA": "=mlx5_0:1,mlx5_1:1", "NCCL_DEBUG": "INFO"},
    ),
    (
        "nor does auto set anything for it",
        result(infiniband("mlx5_0", "ibs1")),
        {"gid_index": "auto", "family": "ipv6"},
        {"NCCL_IB_HCA": "=mlx5_0:1", "NCCL_DEBUG": "INFO"},
    ),
    (
        "iWARP has no address in its table, and no index to choose",
        result(iwarp("siw0", "ens1")),
        {},
        {"NCCL_IB_HCA": "=siw0:1", "NCCL_DEBUG": "INFO"},
    ),
    (
        "an InfiniBand adapter for storage is excluded by its GUID in capitals",
        result(roce("mlx5_0", "ens1"), infiniband("mlx5_1", "ibs2", node_guid="0c42:a103:0065:1f2e")),
        {"exclude": ["0C42A10300651F2E"]},
        {"NCCL_IB_HCA": "=mlx5_0:1", "NCCL_IB_GID_INDEX": "3", "NCCL_DEBUG": "INFO"},
    ),
    (
        "devices that disagree are no matter where they are not meant",
        result(roce("mlx5_0", "ens1", 3), roce("mlx5_1", "ens2", 5)),
        {"include": ["mlx5_1"]},
        {"NCCL_IB_HCA": "=mlx5_1:1", "NCCL_IB_GID_INDEX": "5", "NCCL_DEBUG": "INFO"},
    ),
    (
        "a name that NCCL cannot read is no matter where it is not meant",
        result(roce("mlx5_0", "ens1"), roce("mlx5:1", "ens2")),
        {"exclude": ["mlx5:1"]},
        {"NCCL_IB_HCA": "=mlx5_0:1", "NCCL_IB_GID_INDEX": "3", "NCCL_DEBUG": "INFO"},
    ),
    (
        "an exclude that names nothing here",
        TWO,
        {"exclude": ["mlx5_storage", "0c42:a103:0065:ffff"]},
        {"NCCL_IB_HCA": "=mlx5_0:1,mlx5_1:1", "NCCL_IB_GID_INDEX": "3", "NCCL_DEBUG": "INFO"},
    ),
    (
        "lists that are null are empty",
        TWO,
        {"include": None, "exclude": None, "socket_ifname": ""},
        {"NCCL_IB_HCA": "=mlx5_0:1,mlx5_1:1", "NCCL_IB_GID_INDEX": "3", "NCCL_DEBUG": "INFO"},
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("data", "options", "expected"), [case[1:] for case in ENVIRONMENTS], ids=[case[0] for case in ENVIRONMENTS]
)
def test_environment(data: Json, options: Json, expected: dict[str, str]) -> None:
    assert nccl_env(data, **options) == expected


def test_mlx5_1_is_not_mlx5_10() -> None:
    found = result(roce("mlx5_1", "ens1", pci="0000:07:00.0"), roce("mlx5_10", "ens10", pci="0000:08:00.0"))
    assert nccl_env(found, include=["mlx5_1"])["NCCL_IB_HCA"] == "=mlx5_1:1"
    assert nccl_env(found, exclude=["mlx5_1"])["NCCL_IB_HCA"] == "=mlx5_10:1"
    assert nccl_env(found, exclude=["ens1"])["NCCL_IB_HCA"] == "=mlx5_10:1"
    assert nccl_env(found)["NCCL_IB_HCA"] == "=mlx5_1:1,mlx5_10:1"


def test_the_order_is_that_of_the_rails() -> None:
    found = result(
        roce("mlx5_10", "ens1", pci="0000:a0:00.0"),
        roce("mlx5_0", "ens2", pci="0000:b0:00.0"),
        roce("mlx5_2", "ens3", pci="0000:1b:00.0"),
        roce("rxe0", "ens4"),
    )
    assert nccl_env(found)["NCCL_IB_HCA"] == "=mlx5_2:1,mlx5_10:1,mlx5_0:1,rxe0:1"


def test_only_active_ports() -> None:
    ports = [port(f"ens{n}", entry(3, "198.51.100.11", f"ens{n}"), number=n, state=state) for n, state in enumerate(["DOWN", "ACTIVE", "INIT", "ARMED", "ACTIVE_DEFER", None, "ACTIVE"], 1)]  # fmt: skip
    assert nccl_env(result(device("mlx5_0", *ports)))["NCCL_IB_HCA"] == "=mlx5_0:2,mlx5_0:7"


@pytest.mark.parametrize("index", [3, 5, 9])
def test_pin_takes_the_index_after_holes(index: int) -> None:
    table = [
        entry(index + 2, "198.51.100.12", "ens1"),
        entry(index, "198.51.100.11", "ens1"),
        entry(1, LINK_LOCAL, "ens1"),
    ]
    assert nccl_env(result(device("mlx5_0", port("ens1", *table))))["NCCL_IB_GID_INDEX"] == str(index)


def test_pin_takes_index_0() -> None:
    assert nccl_env(result(device("rxe0", port("ens1", entry(0, "198.51.100.11", "ens1")))))["NCCL_IB_GID_INDEX"] == "0"


def test_pin_in_a_table_of_256_entries_most_of_them_empty() -> None:
    empty = "0000:0000:0000:0000:0000:0000:0000:0000"
    table = [{"index": index, "gid": empty, "type": "RoCE v2", "netdev": None, "ipv4": None} for index in range(256)]
    table[255] = entry(255, "198.51.100.11", "ens1")
    assert nccl_env(result(device("mlx5_0", port("ens1", *table))))["NCCL_IB_GID_INDEX"] == "255"


# --- several hosts -------------------------------------------------------------------------------------


def test_several_hosts_that_agree_have_one_environment() -> None:
    for several in ({"gpu-01": TWO, "gpu-02": TWO["devices"]}, [TWO, TWO], (TWO,)):
        assert nccl_env(several) == nccl_env(TWO)


def test_a_host_may_be_called_devices() -> None:
    assert nccl_env({"devices": TWO, "gpu-02": TWO}) == nccl_env(TWO)


def test_hosts_whose_gid_indexes_disagree() -> None:
    with pytest.raises(AnsibleFilterError) as caught:
        nccl_env({"gpu-01": TWO, "gpu-02": result(roce("mlx5_0", "ens1", 3, pci="0000:07:00.0"), roce("mlx5_1", "ens2", 5, pci="0000:08:00.0"))})  # fmt: skip
    assert str(caught.value) == (
        DOING + "the ports need different GID indexes, but NCCL_IB_GID_INDEX applies to all: "
        "3 on gpu-01: mlx5_0 port 1, gpu-01: mlx5_1 port 1, gpu-02: mlx5_0 port 1; 5 on gpu-02: mlx5_1 port 1. "
        "Use gid_index='auto', with which NCCL (2.21 and newer) chooses for each port"
    )


OTHER_PORTS = (
    DOING + "the hosts do not have the same ports in the same order: %s. Bring missing links up, give the devices the "
    "same names, choose with include or exclude, or build each host's environment from its own result"
)


def test_hosts_whose_ports_disagree() -> None:
    one = result(roce("mlx5_0", "ens1"))
    with pytest.raises(AnsibleFilterError) as caught:
        nccl_env({"gpu-01": TWO, "gpu-02": one, "gpu-03": TWO})
    assert str(caught.value) == OTHER_PORTS % "=mlx5_0:1,mlx5_1:1 on gpu-01, gpu-03; =mlx5_0:1 on gpu-02"
    assert nccl_env({"gpu-01": TWO, "gpu-02": one}, include=["mlx5_0"])["NCCL_IB_HCA"] == "=mlx5_0:1"


def test_hosts_whose_rails_are_in_another_order() -> None:
    other = result(roce("mlx5_0", "ens1", pci="0000:08:00.0"), roce("mlx5_1", "ens2", pci="0000:07:00.0"))
    with pytest.raises(AnsibleFilterError) as caught:
        nccl_env([TWO, other])
    assert str(caught.value) == OTHER_PORTS % (
        "=mlx5_0:1,mlx5_1:1 on host 1 of the list; =mlx5_1:1,mlx5_0:1 on host 2 of the list"
    )


def test_hosts_of_different_kinds() -> None:
    with pytest.raises(AnsibleFilterError) as caught:
        nccl_env({"gpu-01": result(roce("mlx5_0", "ens1")), "gpu-02": result(infiniband("mlx5_0", "ibs1"))})
    assert "InfiniBand (gpu-02: mlx5_0 port 1); RoCE (gpu-01: mlx5_0 port 1)" in str(caught.value)


def test_include_by_guid_names_a_device_of_one_host_each() -> None:
    # GUIDs differ from host to host, so an entry has to name something on one of them only.
    hosts = {
        f"gpu-0{n}": result(roce("mlx5_0", "ens1", node_guid=f"0c42:a103:0065:000{n}"), roce("mlx5_1", "ens2"))
        for n in (1, 2)
    }
    assert nccl_env(hosts, include=["0c42:a103:0065:0001", "0c42:a103:0065:0002"])["NCCL_IB_HCA"] == "=mlx5_0:1"
    with pytest.raises(AnsibleFilterError, match="gpu-02: no port is left"):
        nccl_env(hosts, include=["0c42:a103:0065:0001"])


def test_exclude_counts_on_each_host() -> None:
    hosts = {"gpu-01": TWO, "gpu-02": result(roce("mlx5_0", "ens1"), roce("mlx5_7", "ens7"))}
    assert nccl_env(hosts, exclude=["mlx5_1", "mlx5_7"])["NCCL_IB_HCA"] == "=mlx5_0:1"


# --- NCCL_SOCKET_IFNAME --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("eth0", "=eth0"),
        ("eth0,eth1", "=eth0,eth1"),
        (["eth0"], "=eth0"),
        (["eth0", "bond0.100"], "=eth0,bond0.100"),
        ("=eth0", "=eth0"),
        ("^docker,lo", "^docker,lo"),
        ("^=docker0", "^=docker0"),
        (["^docker", "lo"], "^docker,lo"),
    ],
)
def test_socket_interfaces(value: t.Any, expected: str) -> None:
    assert nccl_env(TWO, socket_ifname=value)["NCCL_SOCKET_IFNAME"] == expected


@pytest.mark.parametrize("value", [None, "", []])
def test_no_socket_interface_is_given(value: t.Any) -> None:
    assert "NCCL_SOCKET_IFNAME" not in nccl_env(TWO, socket_ifname=value)


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (["=eth0", "=eth1"], "'=eth1'"),
        ("eth0,^eth1", "'^eth1'"),
        ("eth 0", "'eth 0'"),
        ("eth0\nLD_PRELOAD=x", r"'eth0\nLD_PRELOAD=x'"),
        ("eth0\x00", r"'eth0\x00'"),
        ("eth0:1", "'eth0:1'"),
        ("=", "''"),
        ("^", "''"),
        ("==eth0", "'=eth0'"),
        ("eth0,,eth1", "''"),
        (["eth0", ""], "''"),
    ],
)
def test_socket_interfaces_that_nccl_would_misread(value: t.Any, name: str) -> None:
    with pytest.raises(AnsibleFilterError) as caught:
        nccl_env(TWO, socket_ifname=value)
    assert str(caught.value) == (
        DOING
        + f"socket_ifname is {value!r}, with the interface name {name}. Give names without white space, ':', '=' and '^'; "
        "'=' (exact names), '^' (all but these) or '^=' may occur once, before the whole list"
    )


# --- refusals ------------------------------------------------------------------------------------------

NO_PORT = (
    DOING + "no port is left, and NCCL would fall back to sockets without an error. %s. Bring a link up "
    "('rdma link' shows the state), or change include or exclude"
)
NO_IPV4 = DOING + "no RoCE v2 GID of an IPv4 address: %s. Give the network device such an address, or use family='ipv6'"
NAME = "it cannot contain ',', ':', '^', '=' and white space, and a name has at most 63 characters. Rename the device ('rdma dev set'), or exclude it"

# name, input, options, the whole message
REFUSED: list[tuple[str, Json, Json, str]] = [
    (
        "no device",
        result(),
        {},
        NO_PORT % "rdma_info found no RDMA device",
    ),
    ("an empty list", [], {}, NO_PORT % "rdma_info found no RDMA device"),
    (
        "a reason for every port",
        result(
            device("mlx5_0", port("ens1", state="DOWN"), port("ens2", number=2, state="INIT"), pci="0000:01:00.0"),
            roce("mlx5_1", "ens3", pci="0000:02:00.0", node_guid="0c42:a103:0065:1f2e"),
            infiniband("mlx5_2", "ibs4", pci="0000:03:00.0"),
            device("efa_0", port(None, link_layer="Unknown"), pci="0000:04:00.0", protocol=None),
            device("mlx5_5", pci="0000:05:00.0"),
            device("mlx5_6", port("ens6", state=None), pci="0000:06:00.0"),
            device("mlx5_7", pci="0000:07:00.0"),
            unreadable=[
                {"device": "mlx5_6", "what": "port 1", "error": "EIO"},
                {"device": "mlx5_7", "what": "ports", "error": "EPERM"},
                {"device": "mlx5_8", "what": "device", "error": "EBADMSG"},
            ],
        ),
        {"include": ["mlx5_0", "mlx5_1", "efa_0", "mlx5_5", "mlx5_6", "mlx5_7"], "exclude": ["ens3"]},
        NO_PORT
        % (
            "mlx5_0 port 1 (ens1): its state is DOWN, not ACTIVE; "
            "mlx5_0 port 2 (ens2): its state is INIT, not ACTIVE; "
            "mlx5_1 port 1 (ens3, 0c42:a103:0065:1f2e): it is excluded by 'ens3'; "
            "mlx5_2 port 1 (ibs4): include does not name it; "
            "efa_0 port 1: its link layer is 'Unknown', and NCCL uses InfiniBand and Ethernet; "
            "mlx5_5: it has no port; "
            "mlx5_6 port 1 (ens6): its state is not known (port 1 could not be read: EIO); "
            "mlx5_7: ports could not be read: EPERM; "
            "mlx5_8: device could not be read: EBADMSG"
        ),
    ),
    (
        "an include that names nothing",
        TWO,
        {"include": ["mlx5_0", "mlx5_7"]},
        "Could not build the NCCL environment: include has 'mlx5_7', which is not an RDMA device, node GUID or network device here. "
        "There are: mlx5_0 port 1 (ens1); mlx5_1 port 1 (ens2). Correct include, or remove the entry",
    ),
    (
        "devices that disagree",
        result(roce("mlx5_0", "ens1", 3), roce("mlx5_1", "ens2", 5), roce("mlx5_2", "ens3", 3)),
        {},
        DOING + "the ports need different GID indexes, but NCCL_IB_GID_INDEX applies to all: "
        "3 on mlx5_0 port 1, mlx5_2 port 1; 5 on mlx5_1 port 1. "
        "Use gid_index='auto', with which NCCL (2.21 and newer) chooses for each port",
    ),
    (
        "InfiniBand and RoCE",
        result(roce("mlx5_0", "ens1"), infiniband("mlx5_1", "ibs2"), roce("mlx5_2", "ens3")),
        {"gid_index": "auto"},
        DOING + "the ports are of different kinds, which cannot connect to each other: "
        "InfiniBand (mlx5_1 port 1); RoCE (mlx5_0 port 1, mlx5_2 port 1). "
        "Choose those of one kind with include or exclude",
    ),
    (
        "iWARP and RoCE",
        result(roce("mlx5_0", "ens1"), iwarp("siw0", "ens2")),
        {},
        DOING + "the ports are of different kinds, which cannot connect to each other: "
        "RoCE (mlx5_0 port 1); iWARP (siw0 port 1). Choose those of one kind with include or exclude",
    ),
    (
        "no IPv4 address",
        result(roce("mlx5_0", "ens1"), device("mlx5_1", port("ens2", entry(1, LINK_LOCAL, "ens2")))),
        {},
        NO_IPV4 % "mlx5_1 port 1, network device ens2",
    ),
    (
        "no IPv4 address with auto",
        result(device("mlx5_1", port("ens2", entry(1, LINK_LOCAL, "ens2"))), device("mlx5_2", port(None))),
        {"gid_index": "auto"},
        NO_IPV4 % "mlx5_1 port 1, network device ens2; mlx5_2 port 1, network device not known",
    ),
    (
        "the IPv4 address is RoCE v1's",
        result(device("mlx5_1", port("ens2", entry(2, "198.51.100.11", "ens2", "IB/RoCE v1")))),
        {},
        NO_IPV4 % "mlx5_1 port 1, network device ens2",
    ),
    (
        "the IPv4 address is a VLAN's",
        result(device("mlx5_1", port("ens2", entry(3, "198.51.100.11", "ens2.100")))),
        {},
        NO_IPV4 % "mlx5_1 port 1, network device ens2 (its GIDs belong to other network devices: "
        "0000:0000:0000:0000:0000:ffff:c633:640b at 3 of ens2.100)",
    ),
    (
        "GIDs were not gathered",
        result(device("mlx5_1", port("ens2", gids=None))),
        {},
        NO_IPV4 % "mlx5_1 port 1, network device ens2 (its GIDs are not in the input: let rdma_info gather them)",
    ),
    (
        "no IPv6 address",
        result(device("mlx5_1", port("ens2", entry(3, "198.51.100.11", "ens2")))),
        {"family": "ipv6"},
        DOING + "no RoCE v2 GID of an IPv6 address: mlx5_1 port 1, network device ens2. "
        "Give the network device such an address, or use family='ipv4'",
    ),
    (
        "only link-local with auto",
        result(device("mlx5_1", port("ens2", entry(1, LINK_LOCAL, "ens2")))),
        {"family": "ipv6", "gid_index": "auto"},
        DOING + "mlx5_1 port 1: the only IPv6 addresses are link-local, which NCCL skips when it chooses. "
        "Give the network device a global IPv6 address, or use gid_index='pin'",
    ),
    ("family", TWO, {"family": "AF_INET"}, DOING + "family is 'AF_INET'; it must be one of ipv4, ipv6"),
    ("gid_index", TWO, {"gid_index": 3}, DOING + "gid_index is 3; it must be one of pin, auto"),
    ("debug", TWO, {"debug": "info"}, DOING + "debug is 'info'; it must be one of VERSION, WARN, INFO, TRACE"),
    *(
        (
            f"a device called {name!r}"[:40],
            result(roce("mlx5_0", "ens1"), roce(name, "ens2")),
            {},
            DOING + f"the device name {shown} cannot be in NCCL_IB_HCA: {NAME}",
        )
        for name, shown in (
            ("mlx5,1", "'mlx5,1'"),
            ("mlx5:1", "'mlx5:1'"),
            ("^mlx5", "'^mlx5'"),
            ("=mlx5", "'=mlx5'"),
            ("mlx5 1", "'mlx5 1'"),
            ("mlx5\t1", r"'mlx5\t1'"),
            ("mlx5\n1", r"'mlx5\n1'"),
            ("mlx5_1\n", r"'mlx5_1\n'"),
            ("mlx5\x00", r"'mlx5\x00'"),
            ("m" * 64, "'" + "m" * 64 + "'"),
        )
    ),
    (
        "more ports than NCCL reads",
        result(*(roce(f"mlx5_{n}", f"ens{n}") for n in range(33))),
        {},
        DOING + "33 ports are left, and NCCL uses 32 at most. Choose them with include or exclude",
    ),
    (
        "the devices of two hosts in one list",
        TWO["devices"] + TWO["devices"],
        {},
        DOING + "mlx5_0 port 1 is in the input twice. Give the devices of one host; "
        "nccl_env takes several hosts as a dictionary, host name to result",
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("data", "options", "message"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED]
)
def test_refusals(data: Json, options: Json, message: str) -> None:
    with pytest.raises(AnsibleFilterError) as caught:
        nccl_env(data, **options)
    assert str(caught.value) == message


def test_as_many_as_nccl_takes() -> None:
    found = result(*(roce(f"mlx5_{n}", f"ens{n}") for n in range(31)), roce("m" * 63, "ens31"))
    assert nccl_env(found)["NCCL_IB_HCA"].count(",") == 31


def test_a_message_about_several_hosts_says_which() -> None:
    down = result(device("mlx5_0", port("ens1", state="DOWN")))
    without = result(device("mlx5_0", port("ens1")), device("mlx5_1", port("ens2")))
    odd = result(roce("mlx5:0", "ens1"))
    many = result(*(roce(f"mlx5_{n}", f"ens{n}") for n in range(33)))
    for second, options, message in (
        (down, {}, "gpu-02: no port is left"),
        (TWO, {"include": ["mlx5"]}, "There are: gpu-01: mlx5_0 port 1 (ens1)"),
        (odd, {}, "gpu-02: the device name 'mlx5:0'"),
        (many, {}, "gpu-02: 33 ports"),
        (without, {}, "gpu-02: mlx5_0 port 1, network device ens1; gpu-02: mlx5_1 port 1, network device ens2."),
        (TWO["devices"] * 2, {}, "Could not build the NCCL environment (gpu-02): mlx5_0 port 1 is in the input twice"),
    ):
        with pytest.raises(AnsibleFilterError) as caught:
            nccl_env({"gpu-01": TWO, "gpu-02": second}, **options)
        assert message in str(caught.value)


# name, arguments, what the message says
WRONG_TYPES: list[tuple[str, Json, str]] = [
    ("no mapping", {"data": "rdma"}, "or several hosts' results as a dictionary (host name to result) or a list; it is 'rdma'"),
    ("null", {"data": None}, "it is None"),
    ("an empty dictionary", {"data": {}}, "it is an empty dictionary"),
    ("a result that failed", {"data": {"failed": True, "msg": "x"}}, "it is failed, with True"),
    ("a host without a result", {"data": {"gpu-01": TWO, "gpu-02": None}}, "it is gpu-02, with None"),
    ("a host with another result", {"data": {"gpu-01": TWO, "gpu-02": {"msg": "x"}}}, "it is gpu-02, with {'msg': 'x'}"),
    ("results and devices", {"data": [TWO, roce("mlx5_0", "ens1")]}, "an RDMA device must be a dictionary with a 'name'"),
    ("a device that is none", {"data": {"gpu-01": ["mlx5_0"]}}, "Could not build the NCCL environment (gpu-01): an RDMA device must be"),
    ("include as text", {"data": TWO, "include": "mlx5_0"}, "include must be a list of names, for example ['mlx5_0'], not 'mlx5_0'"),
    ("exclude of numbers", {"data": TWO, "exclude": [0]}, "exclude must be a list of names"),
    ("socket_ifname as number", {"data": TWO, "socket_ifname": 0}, "socket_ifname must be a name or a list of names, not 0"),
    ("socket_ifname of numbers", {"data": TWO, "socket_ifname": [0]}, "socket_ifname must be a name or a list of names, not [0]"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "message"), [case[1:] for case in WRONG_TYPES], ids=[case[0] for case in WRONG_TYPES]
)
def test_wrong_types(arguments: Json, message: str) -> None:
    with pytest.raises(AnsibleTypeError) as caught:
        nccl_env(**arguments)
    assert str(caught.value).startswith("Could not build the NCCL environment")
    assert message in str(caught.value)


# --- any input -----------------------------------------------------------------------------------------

STATES = st.sampled_from(["ACTIVE", "ACTIVE", "ACTIVE", "DOWN", "INIT", None])
PCI = st.builds("{:04x}:{:02x}:00.{}".format, st.integers(0, 1), st.integers(0, 255), st.integers(0, 7))
DRAWN = st.lists(
    st.tuples(st.integers(0, 30), st.none() | PCI, st.lists(st.tuples(STATES, st.sampled_from([3, 3, 5])), max_size=2)),
    unique_by=lambda one: one[0],
    min_size=1,
    max_size=8,
)


def made(drawn: list[t.Any]) -> Json:
    devices = []
    for number, pci, ports in drawn:
        listed = [
            port(f"ens{number}p{n}", entry(index, "198.51.100.11", f"ens{number}p{n}"), number=n, state=state)
            for n, (state, index) in enumerate(ports, 1)
        ]
        devices.append(device(f"mlx5_{number}", *listed, pci=pci, node_guid=f"0c42:a103:0065:{number:04x}"))
    return result(*devices)


@SLOW
@given(DRAWN, st.data(), st.sampled_from(["pin", "auto"]))
def test_only_what_is_active_and_meant_in_the_order_of_the_rails(drawn: list[t.Any], data: Json, mode: str) -> None:
    found = made(drawn)
    naming = {
        (one["name"], p["port"]): (
            one["name"],
            p["netdev"],
            one["node_guid"],
            one["node_guid"].replace(":", "").upper(),
        )
        for one in found["devices"]
        for p in one["ports"] or [{"port": None, "netdev": None}]
    }
    every = [name for names in naming.values() for name in names if name]
    include, exclude = (data.draw(st.lists(st.sampled_from(every), max_size=3)) for _ in range(2))
    expected = [
        f"{rail['device']}:{rail['port']}"
        for rail in rails(found)
        if rail["state"] == "ACTIVE"
        and not set(naming[rail["device"], rail["port"]]) & set(exclude)
        and (not include or set(naming[rail["device"], rail["port"]]) & set(include))
    ]
    indexes = {rail["gid_index"] for rail in rails(found) if f"{rail['device']}:{rail['port']}" in expected}
    if not expected or (len(indexes) > 1 and mode == "pin"):
        with pytest.raises(AnsibleFilterError, match="different GID indexes" if expected else "no port is left"):
            nccl_env(found, include, exclude, gid_index=mode)
        return
    environment = nccl_env(found, include, exclude, gid_index=mode)
    assert environment["NCCL_IB_HCA"] == "=" + ",".join(expected)
    assert environment.get("NCCL_IB_GID_INDEX") == (str(*indexes) if mode == "pin" else None)


KEYS = st.sampled_from(
    ["devices", "name", "ports", "port", "gids", "gid", "index", "type", "ipv4", "state", "unreadable"]
)
JSON: st.SearchStrategy[Json] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["mlx5_0", "RoCE v2", "2001:db8::1", "ACTIVE", "Ethernet", "0000:07:00.0", "ens1"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS | st.text(max_size=4), inner, max_size=4),
    max_leaves=20,
)  # fmt: skip
# The right shape, with anything for some values.
PORT = st.fixed_dictionaries(
    {"port": st.integers(1, 2) | JSON, "state": st.just("ACTIVE") | JSON, "link_layer": st.just("Ethernet") | JSON},
    optional={
        "netdev": JSON,
        "gids": JSON
        | st.lists(
            st.fixed_dictionaries(
                {"type": st.just("RoCE v2"), "index": st.integers(0, 4) | JSON, "gid": st.just("::ffff:192.0.2.1") | JSON, "ipv4": JSON},
                optional={"netdev": JSON},
            ),
            max_size=2,
        ),
    },
)  # fmt: skip
DEVICE = st.fixed_dictionaries(
    {"name": st.text(max_size=4) | JSON}, optional={"protocol": JSON, "ports": st.lists(PORT, max_size=2) | JSON}
)
RESULT = st.fixed_dictionaries({"devices": st.lists(DEVICE, max_size=2)}, optional={"unreadable": JSON})
ANY = JSON | RESULT | st.lists(RESULT | DEVICE, max_size=2) | st.dictionaries(st.text(max_size=3), RESULT, max_size=2)


@SLOW
@given(
    ANY,
    st.fixed_dictionaries(
        {},
        optional={
            "include": JSON,
            "exclude": JSON,
            "socket_ifname": JSON,
            "family": st.sampled_from(["ipv4", "ipv6"]) | JSON,
            "gid_index": st.sampled_from(["pin", "auto"]) | JSON,
            "debug": JSON,
        },
    ),
)
def test_strings_or_its_own_errors(data: Json, options: Json) -> None:
    for chosen in ({}, {"family": "ipv6"}, options):
        try:
            environment = nccl_env(data, **chosen)
        except (AnsibleFilterError, AnsibleTypeError) as exc:
            said = str(exc)
            environment = {}
        else:
            said = "Could not build the NCCL environment"
            assert environment["NCCL_IB_HCA"].startswith("=")
        assert said.startswith("Could not build the NCCL environment")
        for name, value in environment.items():
            assert isinstance(name, str)
            assert isinstance(value, str)
            assert not any(character in value for character in " \n\x00")


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
    hosts = "dict(hosts | zip(hosts | map('extract', seen, 'rdma')))"
    expression = hosts + " | rdmaops.gpu_fabric.nccl_env(exclude=['ens' ~ 1], socket_ifname=['eth0', 'eth1'])"
    variables = {"hosts": ["gpu-01", "gpu-02"], "seen": {"gpu-01": {"rdma": TWO}, "gpu-02": {"rdma": TWO}}}
    done = ansible_debug(expression, variables, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout.split("=>", 1)[1])["msg"] == {
        "NCCL_IB_HCA": "=mlx5_1:1",
        "NCCL_IB_GID_INDEX": "3",
        "NCCL_SOCKET_IFNAME": "=eth0,eth1",
        "NCCL_DEBUG": "INFO",
    }


def test_a_refusal_in_a_template(tmp_path: Path) -> None:
    done = ansible_debug("rdma | rdmaops.gpu_fabric.nccl_env", {"rdma": result()}, tmp_path)
    assert done.returncode != 0
    assert "NCCL would fall back to sockets without an error" in done.stdout + done.stderr


def test_the_file_gives_one_filter() -> None:
    assert FilterModule().filters() == {"nccl_env": plugin.nccl_env}
