# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rails that host_rails leaves to the configuration of the host."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._host import network, rails
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._host.rail_model import RailError
from ansible_collections.rdmaops.gpu_fabric.tests.support.failures import message_of
from ansible_collections.rdmaops.gpu_fabric.tests.unit.plugins.module_utils._host.test_rail_managers import (
    UNMANAGED,
    Services,
)

Json = t.Any


class Links(network.Host):
    """An ip(8) that shows one device."""

    def __init__(self, name: str, kind: str | None) -> None:
        super().__init__()
        self.row: Json = {"ifname": name, "ifindex": 7, "flags": ["UP"], "mtu": 9000, "link_type": "ether"}
        if kind:
            self.row["linkinfo"] = {"info_kind": kind}

    def ip(self, *arguments: str) -> Json:
        return [self.row] if arguments[-2:] == ("link", "show") else []


def host_of(root: Path, name: str, kind: str | None, **answers: str) -> rails.Host:
    host = rails.Host(str(root))
    host.network = Links(name, kind)
    services = Services(root, networkctl=UNMANAGED, **answers)
    services.write("/etc/netplan/01-host.yaml", "network: {ethernets: {eth0: {dhcp4: true}}}\n")
    host.services = services
    return host


def wishes(name: str) -> Json:
    rail = {"netdev": name, "addresses": ["10.1.0.11/24"], "mtu": None, "table": None, "routes": []}
    return {"rails": [rail], "sysctl": {}, "manager": "auto", "on_conflict": "fail"}


@pytest.mark.parametrize(("name", "kind"), [("ens1np0.100", "vlan"), ("br0", "bridge"), ("bond0", "bond")])
@pytest.mark.parametrize("check", [True, False])
def test_what_netplan_defines_itself(tmp_path: Path, name: str, kind: str, check: bool) -> None:
    host = host_of(tmp_path, name, kind, netplan="network: {}\n")
    assert message_of(RailError, rails.manage, wishes(name), check, host) == (
        f"Configuring rail {name}: it is a {kind}, and netplan takes addresses and routes from the definition of that. Add "
        "them to its file in /etc/netplan"
    )


@pytest.mark.parametrize(
    ("kind", "answers", "manager"),
    [(None, {"netplan": "network: {}\n"}, "netplan"), ("vlan", {}, "networkd"), ("bond", {}, "networkd")],
)
def test_what_is_configured(tmp_path: Path, kind: str | None, answers: dict[str, str], manager: str) -> None:
    host = host_of(tmp_path, "rail0", kind, **answers)
    (rail,) = rails.rail_model.rails(wishes("rail0")["rails"])
    live = rails.rail_links.read(host.network)
    assert rails._manager(rail, live, {}, "auto", False, host) == manager
