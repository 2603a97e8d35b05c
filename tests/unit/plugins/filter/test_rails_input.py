# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter rails: wrong, refused and random input."""

from __future__ import annotations

import random
import typing as t

import pytest
from ansible.errors import AnsibleFilterError
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.rdmaops.gpu_fabric.plugins.filter.rails import rails
from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._filter import AnsibleTypeError
from ansible_collections.rdmaops.gpu_fabric.tests.support.failures import message_of
from ansible_collections.rdmaops.gpu_fabric.tests.unit.plugins.filter.rail_devices import (
    GLOBAL,
    ROCE_V2,
    Json,
    device,
    entry,
    port,
)
from ansible_collections.rdmaops.gpu_fabric.tests.unit.plugins.filter.rdma_results import json_values, result

# arguments, what the message says
WRONG_TYPES: dict[str, tuple[Json, str]] = {
    "no mapping": ({"data": "rdma"}, "the input must be what rdma_info returns (a dictionary with 'devices')"),
    "null": ({"data": None}, "the input must be what rdma_info returns"),
    "another module's result": ({"data": {"changed": False, "msg": "x"}}, "the input must be what rdma_info returns"),
    "several hosts": ({"data": {"gpu-01": result()}}, "the input must be what rdma_info returns"),
    "devices by name": ({"data": {"devices": {"mlx5_0": {}}}}, "the input must be what rdma_info returns"),
    "a list of names": ({"data": ["mlx5_0"]}, "an RDMA device must be a dictionary with a 'name'"),
    "a device without a name": ({"data": [{"ports": []}]}, "an RDMA device must be a dictionary with a 'name'"),
    "an empty name": ({"data": [{"name": ""}]}, "an RDMA device must be a dictionary with a 'name'"),
    "a namespace as text": ({"data": [{"name": "a", "netns": "net1"}]}, "of a, 'netns' must be a dictionary or null, not 'net1'"),
    "a namespace without a number": ({"data": [{"name": "a", "netns": {"inode": {}}}]}, "of a, 'inode' of 'netns' must be a number or null, not {}"),
    "ports by number": ({"data": [{"name": "a", "ports": {"1": {}}}]}, "of a, 'ports' must be a list of dictionaries"),
    "a port's number as text": ({"data": [{"name": "a", "ports": [{"port": "1"}]}]}, "of a, 'port' must be a number from 1, not '1'"),
    "a port's number as boolean": ({"data": [{"name": "a", "ports": [{"port": True}]}]}, "'port' must be a number from 1, not True"),
    "port 0": ({"data": [{"name": "a", "ports": [{"port": 0}]}]}, "'port' must be a number from 1, not 0"),
    "a port without a number": ({"data": [{"name": "a", "ports": [{"state": "ACTIVE"}]}]}, "of a, a port has no number"),
    "a state that is not text": ({"data": [{"name": "a", "ports": [{"port": 1, "state": 4}]}]}, "of a, 'state' must be a string or null, not 4"),
    "a GID table that is none": ({"data": [{"name": "a", "ports": [{"port": 1, "gids": ["fe80::"]}]}]}, "of a, 'gids' must be a list of dictionaries"),
    "include as text": ({"data": [], "include": "mlx5_0"}, "include must be a list of names, for example ['mlx5_0'], not 'mlx5_0'"),
    "exclude of numbers": ({"data": [], "exclude": [1]}, "exclude must be a list of names"),
    "an empty text in exclude": ({"data": [], "exclude": [""]}, "exclude must be a list of names"),
    "plan as text": ({"data": [], "plan": "mlx5_0"}, "plan must be a list of dictionaries with 'rdma', 'netdev' or 'address', not 'mlx5_0'"),
    "plan of names": ({"data": [], "plan": ["mlx5_0"]}, "plan must be a list of dictionaries with 'rdma', 'netdev' or 'address'; it has 'mlx5_0'"),
    "plan of numbers": ({"data": [], "plan": [{"rdma": 0}]}, "in plan, 'rdma' must be a string or null, not 0"),
}  # fmt: skip


@pytest.mark.parametrize(("arguments", "message"), WRONG_TYPES.values(), ids=WRONG_TYPES)
def test_wrong_types(arguments: Json, message: str) -> None:
    error = message_of(AnsibleTypeError, rails, **arguments)
    assert error.startswith("Could not list the rails: ")
    assert message in error


# arguments, the whole message
REFUSED: dict[str, tuple[Json, str]] = {
    "family": ({"data": [], "family": "ipv5"}, "Could not list the rails: family is 'ipv5'; it must be one of ipv4, ipv6"),
    "family, no text": ({"data": [], "family": None}, "Could not list the rails: family is None; it must be one of ipv4, ipv6"),
    "a plan that names nothing": (
        {"data": [], "plan": [{"rail": 0}]},
        "Could not list the rails: in plan, {'rail': 0} has none of 'rdma', 'netdev', 'address'. Give one",
    ),
    "the devices of two hosts in one list": (
        {"data": [device("mlx5_0", port()), device("mlx5_0", port())]},
        "Could not list the rails: mlx5_0 port 1 is in the input twice. Give the devices of one host; "
        "nccl_env takes several hosts as a dictionary, host name to result",
    ),
}  # fmt: skip


def test_two_devices_of_one_name_in_two_network_namespaces() -> None:
    """As from Linux 7.3 on. What includes or excludes them are their GUIDs."""
    here = device("mlx5_0", port(), node_guid="b8ce:f603:00aa:0001")
    there = device(
        "mlx5_0", port(netdev="net1"), node_guid="b8ce:f603:00aa:0002", netns={"inode": 4026532000, "name": "blue"}
    )
    assert [rail["node_guid"] for rail in rails([here, there])] == [here["node_guid"], there["node_guid"]]
    assert [rail["netdev"] for rail in rails([here, there], exclude=["b8ce:f603:00aa:0002"])] == ["ens1"]


@pytest.mark.parametrize(("arguments", "message"), REFUSED.values(), ids=REFUSED)
def test_refusals(arguments: Json, message: str) -> None:
    assert message_of(AnsibleFilterError, rails, **arguments) == message


def test_an_integer_that_python_does_not_print_is_refused_like_others() -> None:
    with pytest.raises(AnsibleTypeError, match="a value of type int that is too long to print"):
        rails(10**5000)


# --- any input -----------------------------------------------------------------------------------------

JSON = json_values(
    ("mlx5_0", ROCE_V2, GLOBAL, "ACTIVE", "Ethernet", "0000:07:00.0", "fe80::1%ens1"),
    ("devices", "name", "ports", "port", "gids", "gid", "index", "type", "ipv4", "state", "netdev", "pci_address"),
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
    unique_by=lambda device: device[0],
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


@given(DEVICE_SETS, st.randoms(use_true_random=False))
def test_the_order_of_the_input_is_of_no_account(drawn: list[t.Any], shuffle: random.Random) -> None:
    info = made(drawn)
    expected = rails(info)
    shuffle.shuffle(info["devices"])
    for item in info["devices"]:
        shuffle.shuffle(item["ports"])
    assert rails(info) == expected
    assert [rail["rail"] for rail in expected] == list(range(len(expected)))
    assert len(expected) == sum(max(1, len(ports)) for _name, _pci, ports in drawn)


@given(DEVICE_SETS, st.randoms(use_true_random=False))
def test_a_plan_made_of_the_rails_gives_the_same_rails(drawn: list[t.Any], shuffle: random.Random) -> None:
    info = made(drawn)
    listed = rails(info)
    shuffle.shuffle(listed)
    planned = rails(info, [{"rdma": rail["device"], "netdev": rail["netdev"]} for rail in listed])
    assert [(r["device"], r["port"]) for r in planned] == [(r["device"], r["port"]) for r in listed]
