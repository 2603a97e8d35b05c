# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What always holds of NCCL's environment, whatever the input."""

from __future__ import annotations

import typing as t

import pytest
from ansible.errors import AnsibleFilterError
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.rdmaops.gpu_fabric.plugins.filter.nccl_env import nccl_env
from ansible_collections.rdmaops.gpu_fabric.plugins.filter.rails import rails
from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._filter import AnsibleTypeError
from ansible_collections.rdmaops.gpu_fabric.tests.unit.plugins.filter.rdma_results import (
    Json,
    device,
    entry,
    json_values,
    port,
    result,
)

STATES = st.sampled_from(["ACTIVE", "ACTIVE", "ACTIVE", "DOWN", "INIT", None])
PCI = st.builds("{:04x}:{:02x}:00.{}".format, st.integers(0, 1), st.integers(0, 255), st.integers(0, 7))
DRAWN = st.lists(
    st.tuples(st.integers(0, 30), st.none() | PCI, st.lists(st.tuples(STATES, st.sampled_from([3, 3, 5])), max_size=2)),
    unique_by=lambda device: device[0],
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


@given(DRAWN, st.data(), st.sampled_from(["pin", "auto"]))
def test_only_what_is_active_and_meant_in_the_order_of_the_rails(drawn: list[t.Any], data: Json, mode: str) -> None:
    info = made(drawn)
    naming = {
        (device["name"], p["port"]): (
            device["name"],
            p["netdev"],
            device["node_guid"],
            device["node_guid"].replace(":", "").upper(),
        )
        for device in info["devices"]
        for p in device["ports"] or [{"port": None, "netdev": None}]
    }
    every = [name for names in naming.values() for name in names if name]
    include, exclude = (data.draw(st.lists(st.sampled_from(every), max_size=3)) for _ in range(2))
    expected = [
        f"{rail['device']}:{rail['port']}"
        for rail in rails(info)
        if rail["state"] == "ACTIVE"
        and not set(naming[rail["device"], rail["port"]]) & set(exclude)
        and (not include or set(naming[rail["device"], rail["port"]]) & set(include))
    ]
    indexes = {rail["gid_index"] for rail in rails(info) if f"{rail['device']}:{rail['port']}" in expected}
    if not expected or (len(indexes) > 1 and mode == "pin"):
        with pytest.raises(AnsibleFilterError, match="different GID indexes" if expected else "no port is left"):
            nccl_env(info, include, exclude, gid_index=mode)
        return
    environment = nccl_env(info, include, exclude, gid_index=mode)
    assert environment["NCCL_IB_HCA"] == "=" + ",".join(expected)
    assert environment.get("NCCL_IB_GID_INDEX") == (str(*indexes) if mode == "pin" else None)


JSON = json_values(
    ("mlx5_0", "RoCE v2", "2001:db8::1", "ACTIVE", "Ethernet", "0000:07:00.0", "ens1"),
    ("devices", "name", "ports", "port", "gids", "gid", "index", "type", "ipv4", "state", "unreadable"),
)
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
            "socket_family": st.sampled_from(["ipv4", "ipv6"]) | JSON,
            "socket_nthreads": st.integers(0, 17) | JSON,
            "nsocks_perthread": st.integers(0, 65) | JSON,
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
