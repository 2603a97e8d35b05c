# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a training reads of the counters of its network namespace, and the bytes that it makes of them."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.tests.support.torch import module

traffic = module("traffic")

DEV = """Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo:   999       1    0    0    0     0          0         0      999       1    0    0    0     0       0          0
  eth0:   500       5    0    0    0     0          0         0     {eth0}       7    0    0    0     0       0          0
  net1: 40000      40    0    0    0     0          0         0    {net1}      50    0    0    0     0       0          0
"""
SNMP = """Tcp: RtoAlgorithm RtoMin RtoMax MaxConn ActiveOpens PassiveOpens AttemptFails EstabResets CurrEstab InSegs OutSegs RetransSegs
Tcp: 1 200 120000 -1 254 65 1 0 0 43271 {segments} 3
"""


def write(root: Path, files: t.Mapping[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def namespace(root: Path, *, eth0: int, net1: int, segments: int, counters: t.Mapping[str, str]) -> Path:
    port = "sys/class/infiniband/dev0/ports/1/"
    files = {
        "proc/self/net/dev": DEV.format(eth0=eth0, net1=net1),
        "proc/self/net/snmp": SNMP.format(segments=segments),
        "sys/class/net/eth0/mtu": "1450\n",
        "sys/class/net/net1/mtu": "1500\n",
        port + "gid_attrs/ndevs/0": "net1\n",
        **{port + name: value + "\n" for name, value in counters.items()},
    }
    write(root, files)
    return root


# driver, counters before and after, bytes sent
PORTS: list[tuple[str, dict[str, str], dict[str, str], int | None]] = [
    ("mlx5", {"counters/port_xmit_data": "1000"}, {"counters/port_xmit_data": "3500"}, 10_000),
    (
        "irdma",
        {"hw_counters/ip4OutOctets": "10", "hw_counters/ip6OutOctets": "0"},
        {"hw_counters/ip4OutOctets": "510", "hw_counters/ip6OutOctets": "7"},
        507,
    ),
    ("bnxt_re", {"hw_counters/tx_bytes": "1"}, {"hw_counters/tx_bytes": "5"}, 4),
    # efa counts what is sent with send, which is a part of this, too (EFA_DEFINE_PORT_STATS in hw/efa/efa_verbs.c).
    (
        "efa",
        {"hw_counters/tx_bytes": "1000", "hw_counters/send_bytes": "700", "hw_counters/tx_pkts": "3"},
        {"hw_counters/tx_bytes": "9400", "hw_counters/send_bytes": "800", "hw_counters/tx_pkts": "5"},
        8400,
    ),
    ("erdma", {"hw_counters/hw_tx_bytes_cnt": "4"}, {"hw_counters/hw_tx_bytes_cnt": "4"}, 0),
    ("erdma of Linux", {"hw_counters/tx_bytes_cnt": "4"}, {"hw_counters/tx_bytes_cnt": "9"}, 5),
    # Packets of at most 1024 bytes: 1500 less 80 for headers.
    ("rxe", {"hw_counters/sent_pkts": "5"}, {"hw_counters/sent_pkts": "15"}, 10_240),
    ("no counter", {"hw_counters/lifespan": "10"}, {"hw_counters/lifespan": "10"}, None),
    ("unreadable", {"counters/port_xmit_data": "N/A (no PMA)"}, {"counters/port_xmit_data": "N/A (no PMA)"}, None),
]


@pytest.mark.parametrize(("before", "after", "sent"), [row[1:] for row in PORTS], ids=[row[0] for row in PORTS])
def test_bytes_by_driver(tmp_path: Path, before: dict[str, str], after: dict[str, str], sent: int | None) -> None:
    first = traffic.look(str(namespace(tmp_path, eth0=100, net1=1000, segments=10, counters=before)))
    second = traffic.look(str(namespace(tmp_path, eth0=160, net1=21000, segments=14, counters=after)))
    assert traffic.between(first, second) == {
        "rdma_bytes": {"dev0:1": sent},
        "netdev_bytes": {"eth0": 60, "net1": 20_000},
        # Four segments, each as large as the largest MTU.
        "tcp_bytes_at_most": 6000,
    }


def test_a_host_without_rdma(tmp_path: Path) -> None:
    write(tmp_path, {"proc/self/net/dev": DEV.format(eth0=1, net1=2)})
    look = traffic.look(str(tmp_path))
    assert traffic.between(look, look) == {
        "rdma_bytes": {},
        "netdev_bytes": {"eth0": 0, "net1": 0},
        "tcp_bytes_at_most": 0,
    }
