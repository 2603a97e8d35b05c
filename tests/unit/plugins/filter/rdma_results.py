# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Results of rdma_info."""

from __future__ import annotations

import typing as t

from hypothesis import strategies as st

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
    return {
        "name": name,
        "protocol": "roce",
        "pci_address": pci,
        "pod": None,
        "node_guid": None,
        "ports": list(ports),
        **more,
    }


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


def json_values(words: t.Sequence[str], keys: t.Sequence[str]) -> st.SearchStrategy[Json]:
    """Draw values of JSON, in which these words and keys get far into a filter, beside arbitrary ones."""
    scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.sampled_from(words)
    names = st.sampled_from(keys) | st.text(max_size=4)
    return st.recursive(
        scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=4), max_leaves=20
    )


TWO = result(roce("mlx5_0", "ens1", pci="0000:07:00.0"), roce("mlx5_1", "ens2", pci="0000:08:00.0"))
