# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""NCCL's environment from the result of rdma_info: which ports, and which GID."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.rdmaops.gpu_fabric.plugins.filter.nccl_env import nccl_env
from ansible_collections.rdmaops.gpu_fabric.tests.support.failures import message_of
from ansible_collections.rdmaops.gpu_fabric.tests.support.templates import ansible_debug, templated
from ansible_collections.rdmaops.gpu_fabric.tests.unit.plugins.filter.rdma_results import (
    DOING,
    LINK_LOCAL,
    TWO,
    Json,
    device,
    entry,
    infiniband,
    iwarp,
    port,
    result,
    roce,
)

PINNED = {"NCCL_IB_GID_INDEX": "3", "NCCL_DEBUG": "INFO"}
BOTH = {"NCCL_IB_HCA": "=mlx5_0:1,mlx5_1:1", **PINNED}
FIRST = {"NCCL_IB_HCA": "=mlx5_0:1", **PINNED}
CHOSEN = {"NCCL_IB_ROCE_VERSION_NUM": "2", "NCCL_IB_ADDR_FAMILY": "AF_INET", "NCCL_DEBUG": "INFO"}
IPV6 = result(device("mlx5_0", port("ens1", entry(1, LINK_LOCAL, "ens1"), entry(5, "2001:db8::11", "ens1"))))
DIFFERENT = result(roce("mlx5_0", "ens1", 3), roce("mlx5_1", "ens2", 5))

# input, options, expected
ENVIRONMENTS: dict[str, tuple[Json, Json, dict[str, str]]] = {
    "two rails": (TWO, {}, BOTH),
    "the list of devices": (TWO["devices"], {}, BOTH),
    "everything that can be set": (
        TWO,
        {"socket_ifname": "eth0", "debug": "WARN", "exclude": ["ens1"]},
        {"NCCL_IB_HCA": "=mlx5_1:1", "NCCL_IB_GID_INDEX": "3", "NCCL_SOCKET_IFNAME": "=eth0", "NCCL_DEBUG": "WARN"},
    ),
    "everything about sockets": (
        TWO,
        {"socket_family": "ipv6", "socket_nthreads": 16, "nsocks_perthread": "4"},
        {**BOTH, "NCCL_SOCKET_FAMILY": "AF_INET6", "NCCL_SOCKET_NTHREADS": "16", "NCCL_NSOCKS_PERTHREAD": "4"},
    ),
    "sockets of one thread": (
        TWO,
        {"socket_family": "ipv4", "nsocks_perthread": 64},
        {**BOTH, "NCCL_SOCKET_FAMILY": "AF_INET", "NCCL_NSOCKS_PERTHREAD": "64"},
    ),
    # The GID of a VLAN or a bridge on the network device is used if include names it.
    **{
        f"{above} at {index}, by {options}": (
            result(device("mlx5_0", port("ens1", *own, entry(index, "203.0.113.11", above)))),
            {"include": [above], **options},
            {"NCCL_IB_HCA": "=mlx5_0:1", **PINNED, "NCCL_IB_GID_INDEX": str(index)}
            if not options
            else {"NCCL_IB_HCA": "=mlx5_0:1", **CHOSEN},
        )
        for above in ("ens1.100", "br0")
        for own, index, options in (
            ([entry(3, "198.51.100.11", "ens1")], 5, {}),
            ([], 5, {}),
            ([], 5, {"gid_index": "auto"}),
            ([entry(7, "198.51.100.11", "ens1")], 5, {"gid_index": "auto"}),
        )
    },
    "auto": (TWO, {"gid_index": "auto"}, {"NCCL_IB_HCA": "=mlx5_0:1,mlx5_1:1", **CHOSEN}),
    "auto where the devices disagree": (
        DIFFERENT,
        {"gid_index": "auto"},
        {"NCCL_IB_HCA": "=mlx5_0:1,mlx5_1:1", **CHOSEN},
    ),
    "auto, IPv6": (
        IPV6,
        {"gid_index": "auto", "family": "ipv6"},
        {"NCCL_IB_HCA": "=mlx5_0:1", **CHOSEN, "NCCL_IB_ADDR_FAMILY": "AF_INET6"},
    ),
    "pin, IPv6": (IPV6, {"family": "ipv6"}, {**FIRST, "NCCL_IB_GID_INDEX": "5"}),
    "pin, IPv6, link-local at last": (
        result(device("mlx5_0", port("ens1", entry(1, LINK_LOCAL, "ens1")))),
        {"family": "ipv6"},
        {**FIRST, "NCCL_IB_GID_INDEX": "1"},
    ),
    "InfiniBand has no GID index": (
        result(infiniband("mlx5_0", "ibs1"), infiniband("mlx5_1", "ibs2")),
        {},
        {"NCCL_IB_HCA": "=mlx5_0:1,mlx5_1:1", "NCCL_DEBUG": "INFO"},
    ),
    "nor does auto set anything for it": (
        result(infiniband("mlx5_0", "ibs1")),
        {"gid_index": "auto", "family": "ipv6"},
        {"NCCL_IB_HCA": "=mlx5_0:1", "NCCL_DEBUG": "INFO"},
    ),
    "iWARP has no address in its table, and no index to choose": (
        result(iwarp("siw0", "ens1")),
        {},
        {"NCCL_IB_HCA": "=siw0:1", "NCCL_DEBUG": "INFO"},
    ),
    "an InfiniBand adapter for storage is excluded by its GUID in capitals": (
        result(roce("mlx5_0", "ens1"), infiniband("mlx5_1", "ibs2", node_guid="0c42:a103:0065:1f2e")),
        {"exclude": ["0C42A10300651F2E"]},
        FIRST,
    ),
    "devices that disagree are no matter where they are not meant": (
        DIFFERENT,
        {"include": ["mlx5_1"]},
        {"NCCL_IB_HCA": "=mlx5_1:1", "NCCL_IB_GID_INDEX": "5", "NCCL_DEBUG": "INFO"},
    ),
    "a name that NCCL cannot read is no matter where it is not meant": (
        result(roce("mlx5_0", "ens1"), roce("mlx5:1", "ens2")),
        {"exclude": ["mlx5:1"]},
        FIRST,
    ),
    "an exclude that names nothing here": (TWO, {"exclude": ["mlx5_storage", "0c42:a103:0065:ffff"]}, BOTH),
    "lists that are null are empty": (TWO, {"include": None, "exclude": None, "socket_ifname": ""}, BOTH),
    "what is empty is not set": (TWO, {"socket_family": "", "socket_nthreads": None, "nsocks_perthread": ""}, BOTH),
}


@pytest.mark.parametrize(("data", "options", "expected"), ENVIRONMENTS.values(), ids=ENVIRONMENTS)
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
    addresses = {index + 2: "198.51.100.12", index: "198.51.100.11", 1: LINK_LOCAL}
    table = [entry(place, address, "ens1") for place, address in addresses.items()]
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


def test_service_level_and_traffic_class() -> None:
    environment = nccl_env(TWO, service_level=3, traffic_class="106")
    assert environment == {**nccl_env(TWO), "NCCL_IB_SL": "3", "NCCL_IB_TC": "106"}
    assert nccl_env(TWO, service_level=0, traffic_class=None) == {**nccl_env(TWO), "NCCL_IB_SL": "0"}


@pytest.mark.parametrize(("option", "most"), [("service_level", 15), ("traffic_class", 255)])
@pytest.mark.parametrize("value", [-1, 256, True, 1.5, "x"])
def test_service_levels_and_traffic_classes_that_there_are_not(option: str, most: int, value: object) -> None:
    error = f"{option} is {value!r}; it must be a whole number, 0 to {most}"
    assert message_of(AnsibleFilterError, nccl_env, TWO, **{option: value}) == DOING + error


def test_a_host_may_be_called_devices() -> None:
    assert nccl_env({"devices": TWO, "gpu-02": TWO}) == nccl_env(TWO)


def test_hosts_whose_gid_indexes_disagree() -> None:
    other = result(roce("mlx5_0", "ens1", 3, pci="0000:07:00.0"), roce("mlx5_1", "ens2", 5, pci="0000:08:00.0"))
    assert message_of(AnsibleFilterError, nccl_env, {"gpu-01": TWO, "gpu-02": other}) == (
        DOING + "the ports need different GID indexes, but NCCL_IB_GID_INDEX applies to all: "
        "3 on gpu-01: mlx5_0 port 1, gpu-01: mlx5_1 port 1, gpu-02: mlx5_0 port 1; 5 on gpu-02: mlx5_1 port 1. "
        "Use gid_index='auto', with which NCCL chooses for each port (2.26.2 and newer, or 2.21 and newer if no entry "
        "of their GID tables below these is empty)"
    )


OTHER_PORTS = (
    DOING + "the hosts do not have the same ports in the same order: %s. Bring missing links up, give the devices the "
    "same names, choose with include or exclude, or build each host's environment from its own result"
)


def test_hosts_whose_ports_disagree() -> None:
    one = result(roce("mlx5_0", "ens1"))
    error = message_of(AnsibleFilterError, nccl_env, {"gpu-01": TWO, "gpu-02": one, "gpu-03": TWO})
    assert error == OTHER_PORTS % "=mlx5_0:1,mlx5_1:1 on gpu-01, gpu-03; =mlx5_0:1 on gpu-02"
    assert nccl_env({"gpu-01": TWO, "gpu-02": one}, include=["mlx5_0"])["NCCL_IB_HCA"] == "=mlx5_0:1"


def test_hosts_whose_rails_are_in_another_order() -> None:
    other = result(roce("mlx5_0", "ens1", pci="0000:08:00.0"), roce("mlx5_1", "ens2", pci="0000:07:00.0"))
    error = message_of(AnsibleFilterError, nccl_env, [TWO, other])
    assert error == OTHER_PORTS % "=mlx5_0:1,mlx5_1:1 on host 1 of the list; =mlx5_1:1,mlx5_0:1 on host 2 of the list"


def test_hosts_of_different_kinds() -> None:
    hosts = {"gpu-01": result(roce("mlx5_0", "ens1")), "gpu-02": result(infiniband("mlx5_0", "ibs1"))}
    error = message_of(AnsibleFilterError, nccl_env, hosts)
    assert "InfiniBand (gpu-02: mlx5_0 port 1); RoCE (gpu-01: mlx5_0 port 1)" in error


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
    assert message_of(AnsibleFilterError, nccl_env, TWO, socket_ifname=value) == (
        DOING
        + f"socket_ifname is {value!r}, with the interface name {name}. Give names without white space, ':', '=' and '^'; "
        "'=' (exact names), '^' (all but these) or '^=' may occur once, before the whole list"
    )


# --- in Ansible ----------------------------------------------------------------------------------------


def test_in_a_template(tmp_path: Path) -> None:
    hosts = "dict(hosts | zip(hosts | map('extract', seen, 'rdma')))"
    expression = hosts + " | rdmaops.gpu_fabric.nccl_env(exclude=['ens' ~ 1], socket_ifname=['eth0', 'eth1'])"
    variables = {"hosts": ["gpu-01", "gpu-02"], "seen": {"gpu-01": {"rdma": TWO}, "gpu-02": {"rdma": TWO}}}
    expected = {**PINNED, "NCCL_IB_HCA": "=mlx5_1:1", "NCCL_SOCKET_IFNAME": "=eth0,eth1"}
    assert templated(expression, variables, tmp_path) == expected


def test_a_refusal_in_a_template(tmp_path: Path) -> None:
    done = ansible_debug("rdma | rdmaops.gpu_fabric.nccl_env", {"rdma": result()}, tmp_path)
    assert done.returncode != 0
    assert "NCCL would fall back to sockets without an error" in done.stdout + done.stderr
