# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Devices and ports as rdma_info returns them."""

from __future__ import annotations

import typing as t

from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings

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
