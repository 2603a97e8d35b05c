# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Input from which no environment would make NCCL use RDMA."""

from __future__ import annotations

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.rdmaops.gpu_fabric.plugins.filter.nccl_env import nccl_env
from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._filter import AnsibleTypeError
from ansible_collections.rdmaops.gpu_fabric.tests.support.failures import message_of
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

NO_PORT = (
    "no port is left, and NCCL would fall back to sockets without an error. %s. Bring a link up "
    "('rdma link' shows the state), or change include or exclude"
)
NO_IPV4 = "no RoCE v2 GID of an IPv4 address: %s. Give the network device such an address, or use family='ipv6'"
NAME = "it cannot contain ',', ':', '^', '=' and white space, and a name has at most 63 characters. Rename the device ('rdma dev set'), or exclude it"

# A VLAN on ens1, whose GID comes after that of ens1.
VLAN = result(device("mlx5_0", port("ens1", entry(3, "198.51.100.11", "ens1"), entry(5, "203.0.113.11", "ens1.100"))))

# input, options, the whole message after what was being done
REFUSED: dict[str, tuple[Json, Json, str]] = {
    "no device": (result(), {}, NO_PORT % "rdma_info found no RDMA device"),
    "an empty list": ([], {}, NO_PORT % "rdma_info found no RDMA device"),
    "a reason for every port": (
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
    "an include that names nothing": (
        TWO,
        {"include": ["mlx5_0", "mlx5_7"]},
        "include has 'mlx5_7', which is not an RDMA device, node GUID or network device here. "
        "There are: mlx5_0 port 1 (ens1); mlx5_1 port 1 (ens2). Correct include, or remove the entry",
    ),
    "devices that disagree": (
        result(roce("mlx5_0", "ens1", 3), roce("mlx5_1", "ens2", 5), roce("mlx5_2", "ens3", 3)),
        {},
        "the ports need different GID indexes, but NCCL_IB_GID_INDEX applies to all: "
        "3 on mlx5_0 port 1, mlx5_2 port 1; 5 on mlx5_1 port 1. "
        "Use gid_index='auto', with which NCCL chooses for each port (2.26.2 and newer, or 2.21 and newer if no entry "
        "of their GID tables below these is empty)",
    ),
    "InfiniBand and RoCE": (
        result(roce("mlx5_0", "ens1"), infiniband("mlx5_1", "ibs2"), roce("mlx5_2", "ens3")),
        {"gid_index": "auto"},
        "the ports are of different kinds, which cannot connect to each other: "
        "InfiniBand (mlx5_1 port 1); RoCE (mlx5_0 port 1, mlx5_2 port 1). "
        "Choose those of one kind with include or exclude",
    ),
    "iWARP and RoCE": (
        result(roce("mlx5_0", "ens1"), iwarp("siw0", "ens2")),
        {},
        "the ports are of different kinds, which cannot connect to each other: "
        "RoCE (mlx5_0 port 1); iWARP (siw0 port 1). Choose those of one kind with include or exclude",
    ),
    "no IPv4 address": (
        result(roce("mlx5_0", "ens1"), device("mlx5_1", port("ens2", entry(1, LINK_LOCAL, "ens2")))),
        {},
        NO_IPV4 % "mlx5_1 port 1, network device ens2",
    ),
    "no IPv4 address with auto": (
        result(device("mlx5_1", port("ens2", entry(1, LINK_LOCAL, "ens2"))), device("mlx5_2", port(None))),
        {"gid_index": "auto"},
        NO_IPV4 % "mlx5_1 port 1, network device ens2; mlx5_2 port 1, network device not known",
    ),
    "the IPv4 address is RoCE v1's": (
        result(device("mlx5_1", port("ens2", entry(2, "198.51.100.11", "ens2", "IB/RoCE v1")))),
        {},
        NO_IPV4 % "mlx5_1 port 1, network device ens2",
    ),
    "the IPv4 address is a VLAN's": (
        result(device("mlx5_1", port("ens2", entry(3, "198.51.100.11", "ens2.100")))),
        {},
        NO_IPV4 % "mlx5_1 port 1, network device ens2 (its GIDs belong to other network devices: "
        "0000:0000:0000:0000:0000:ffff:c633:640b at 3 of ens2.100; include can name one of these)",
    ),
    "a VLAN that NCCL would not choose": (
        VLAN,
        {"include": ["ens1.100"], "gid_index": "auto"},
        "NCCL would choose the GIDs of other network devices than include names: mlx5_0 port 1 at 3 of ens1 instead of 5 of "
        "ens1.100. Use gid_index='pin', or set the variables without this filter, with NCCL_IB_ADDR_RANGE",
    ),
    "two network devices of one port": (
        VLAN,
        {"include": ["ens1.100", "ens1"]},
        "include has ens1 and ens1.100, which all have GIDs of mlx5_0 port 1, and a port is used with one GID. Name one of "
        "them",
    ),
    "a port whose VLAN is included and which is excluded": (
        VLAN,
        {"include": ["ens1.100"], "exclude": ["ens1"]},
        NO_PORT % "mlx5_0 port 1 (ens1): it is excluded by 'ens1'",
    ),
    "GIDs were not gathered": (
        result(device("mlx5_1", port("ens2", gids=None))),
        {},
        NO_IPV4 % "mlx5_1 port 1, network device ens2 (its GIDs are not in the input: let rdma_info gather them)",
    ),
    "no IPv6 address": (
        result(device("mlx5_1", port("ens2", entry(3, "198.51.100.11", "ens2")))),
        {"family": "ipv6"},
        "no RoCE v2 GID of an IPv6 address: mlx5_1 port 1, network device ens2. "
        "Give the network device such an address, or use family='ipv4'",
    ),
    "only link-local with auto": (
        result(device("mlx5_1", port("ens2", entry(1, LINK_LOCAL, "ens2")))),
        {"family": "ipv6", "gid_index": "auto"},
        "mlx5_1 port 1: the only IPv6 addresses are link-local, which NCCL skips when it chooses. "
        "Give the network device a global IPv6 address, or use gid_index='pin'",
    ),
    "family": (TWO, {"family": "AF_INET"}, "family is 'AF_INET'; it must be one of ipv4, ipv6"),
    "gid_index": (TWO, {"gid_index": 3}, "gid_index is 3; it must be one of pin, auto"),
    "socket_family": (TWO, {"socket_family": "inet"}, "socket_family is 'inet'; it must be one of ipv4, ipv6"),
    **{
        f"{option} {value!r}": (TWO, {option: value}, f"{option} is {value!r}; it must be a whole number, 1 to {most}")
        for option, most in (("socket_nthreads", 16), ("nsocks_perthread", 64))
        for value in (0, -1, most + 1, str(most + 1), "4 ", "-1", "٤", 4.0, True, False, [4])
    },
    "more sockets than NCCL opens": (
        TWO,
        {"socket_nthreads": 13, "nsocks_perthread": 5},
        "socket_nthreads is 13 and nsocks_perthread is 5, which is 65 sockets for each connection, and NCCL opens 64 at "
        "most. Lower one of them",
    ),
    "debug": (TWO, {"debug": "info"}, "debug is 'info'; it must be one of VERSION, WARN, INFO, TRACE"),
    **{
        f"a device called {name!r}"[:40]: (
            result(roce("mlx5_0", "ens1"), roce(name, "ens2")),
            {},
            f"the device name '{shown}' cannot be in NCCL_IB_HCA: {NAME}",
        )
        for name, shown in (
            *((name, name) for name in ("mlx5,1", "mlx5:1", "^mlx5", "=mlx5", "mlx5 1", "m" * 64)),
            ("mlx5\t1", r"mlx5\t1"),
            ("mlx5\n1", r"mlx5\n1"),
            ("mlx5_1\n", r"mlx5_1\n"),
            ("mlx5\x00", r"mlx5\x00"),
        )
    },
    "more ports than NCCL reads": (
        result(*(roce(f"mlx5_{n}", f"ens{n}") for n in range(33))),
        {},
        "33 ports are left, and NCCL uses 32 at most. Choose them with include or exclude",
    ),
    "the devices of two hosts in one list": (
        TWO["devices"] + TWO["devices"],
        {},
        "mlx5_0 port 1 is in the input twice. Give the devices of one host; "
        "nccl_env takes several hosts as a dictionary, host name to result",
    ),
}


@pytest.mark.parametrize(("data", "options", "message"), REFUSED.values(), ids=REFUSED)
def test_refusals(data: Json, options: Json, message: str) -> None:
    assert message_of(AnsibleFilterError, nccl_env, data, **options) == DOING + message


def test_two_devices_of_one_name_in_two_network_namespaces() -> None:
    """NCCL_IB_HCA has names only."""
    there = {**TWO["devices"][0], "node_guid": "b8ce:f603:00aa:0002", "netns": {"inode": 4026532000, "name": "blue"}}
    data = [*TWO["devices"], there]
    assert message_of(AnsibleFilterError, nccl_env, data) == (
        DOING
        + "mlx5_0 port 1 is a port of several devices of that name, in different network namespaces. Choose one by its "
        "node GUID with include or exclude"
    )
    assert nccl_env(data, exclude=["b8ce:f603:00aa:0002"])["NCCL_IB_HCA"] == "=mlx5_0:1,mlx5_1:1"


def test_as_many_as_nccl_takes() -> None:
    info = result(*(roce(f"mlx5_{n}", f"ens{n}") for n in range(31)), roce("m" * 63, "ens31"))
    assert nccl_env(info)["NCCL_IB_HCA"].count(",") == 31


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
        assert message in message_of(AnsibleFilterError, nccl_env, {"gpu-01": TWO, "gpu-02": second}, **options)


# arguments, what the message says
WRONG_TYPES: dict[str, tuple[Json, str]] = {
    "no mapping": ({"data": "rdma"}, "or several hosts' results as a dictionary (host name to result) or a list; it is 'rdma'"),
    "null": ({"data": None}, "it is None"),
    "an empty dictionary": ({"data": {}}, "it is an empty dictionary"),
    "a result that failed": ({"data": {"failed": True, "msg": "x"}}, "it is failed, with True"),
    "a host without a result": ({"data": {"gpu-01": TWO, "gpu-02": None}}, "it is gpu-02, with None"),
    "a host with another result": ({"data": {"gpu-01": TWO, "gpu-02": {"msg": "x"}}}, "it is gpu-02, with {'msg': 'x'}"),
    "results and devices": ({"data": [TWO, roce("mlx5_0", "ens1")]}, "an RDMA device must be a dictionary with a 'name'"),
    "a device that is none": ({"data": {"gpu-01": ["mlx5_0"]}}, "Could not build the NCCL environment (gpu-01): an RDMA device must be"),
    "include as text": ({"data": TWO, "include": "mlx5_0"}, "include must be a list of names, for example ['mlx5_0'], not 'mlx5_0'"),
    "exclude of numbers": ({"data": TWO, "exclude": [0]}, "exclude must be a list of names"),
    "socket_ifname as number": ({"data": TWO, "socket_ifname": 0}, "socket_ifname must be a name or a list of names, not 0"),
    "socket_ifname of numbers": ({"data": TWO, "socket_ifname": [0]}, "socket_ifname must be a name or a list of names, not [0]"),
}  # fmt: skip


@pytest.mark.parametrize(("arguments", "message"), WRONG_TYPES.values(), ids=WRONG_TYPES)
def test_wrong_types(arguments: Json, message: str) -> None:
    error = message_of(AnsibleTypeError, nccl_env, **arguments)
    assert error.startswith("Could not build the NCCL environment")
    assert message in error
