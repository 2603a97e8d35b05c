# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Devices and ports with all that rdma_info returns of them."""

from __future__ import annotations

import typing as t

from ansible_collections.rdmaops.gpu_fabric.tests.unit.plugins.filter import rdma_results

Json = t.Any
ROCE_V1 = "IB/RoCE v1"
ROCE_V2 = "RoCE v2"
GLOBAL = "2001:0db8:0000:0000:0ac0:ebff:feda:1cfb"
PORT: Json = {
    "physical_state": "LINK_UP", "rate_gbps": 400.0, "lid": 0, "sm_lid": 0, "netdev_mtu": 9000, "active_mtu": 4096,
    "pkeys": ["0xffff"],
}  # fmt: skip
DEVICE: Json = {
    "index": 0, "driver": "mlx5_core", "numa_node": 0, "node_guid": "0c42:a103:0065:1f2e", "firmware": "28.39.1002",
    "netns": {"inode": 4026531840, "name": None}, "pod": None, "can_change_netns": True,
}  # fmt: skip


def entry(index: int, gid: str, kind: str = ROCE_V2, netdev: str | None = "ens1") -> Json:
    return rdma_results.entry(index, gid, netdev, kind)


def port(number: int = 1, netdev: str | None = "ens1", gids: Json = None, **more: Json) -> Json:
    return rdma_results.port(netdev, *(gids or []), number=number, **{**PORT, **more})


def device(name: str, *ports: Json, pci: str | None = "0000:07:00.0", **more: Json) -> Json:
    return rdma_results.device(name, *ports, pci=pci, **{**DEVICE, **more})
