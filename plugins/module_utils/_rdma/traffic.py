# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""What drivers count of a port's RDMA traffic.

* mlx5 and other InfiniBand: ``counters/port_xmit_data`` and ``port_rcv_data``, in octets divided by 4
  (Documentation/ABI/stable/sysfs-class-infiniband).
* irdma: ``hw_counters/ip4OutOctets``, ``ip6OutOctets`` and their ``In``, in bytes, IP headers included. Registers of
  the card's protocol engine (GLPES_PFIP4TXOCTS) have them, so they are RDMA alone. It has no ``counters`` at all: those
  are for drivers that answer MADs (hw/irdma/verbs.c).
* erdma: ``hw_counters/tx_bytes_cnt`` and ``rx_bytes_cnt``, in bytes, as the card counts them (hw/erdma/erdma_verbs.c);
  ``hw_tx_bytes_cnt`` and ``hw_rx_bytes_cnt`` in the driver of Alibaba Cloud's installer.
* bnxt_re and efa: ``hw_counters/tx_bytes`` and ``rx_bytes``, in bytes (hw/bnxt_re/hw_counters.c, hw/efa/efa_verbs.c).
* soft-RoCE: ``hw_counters/sent_bytes`` and ``rcvd_bytes``, in bytes, since Linux 7.2; before, ``sent_pkts`` and
  ``rcvd_pkts`` alone, which show no bytes (sw/rxe/rxe_hw_counters.c).
"""

from __future__ import annotations

import typing as t

Numbers = t.Mapping[str, int]


class Kind(t.NamedTuple):
    """Counters of a driver: the bytes in a unit, and those that are added for each direction."""

    unit: int
    sent: tuple[str, ...]
    received: tuple[str, ...]


KINDS = (
    Kind(4, ("port_xmit_data",), ("port_rcv_data",)),
    Kind(1, ("ip4OutOctets", "ip6OutOctets"), ("ip4InOctets", "ip6InOctets")),
    Kind(1, ("tx_bytes",), ("rx_bytes",)),
    Kind(1, ("tx_bytes_cnt",), ("rx_bytes_cnt",)),
    Kind(1, ("hw_tx_bytes_cnt",), ("hw_rx_bytes_cnt",)),
    Kind(1, ("sent_bytes",), ("rcvd_bytes",)),
)
PACKETS = Kind(1, ("sent_pkts",), ("rcvd_pkts",))
# Without their 64 bit versions, these stop at the top.
INFINIBAND = KINDS[0]
FULL = 0xFFFFFFFF
NAMES = tuple(name for kind in (*KINDS, PACKETS) for name in (*kind.sent, *kind.received))


def file_of(name: str) -> str:
    """Return the file of a counter below the directory of a port."""
    infiniband = (*INFINIBAND.sent, *INFINIBAND.received)
    return "%s/%s" % ("counters" if name in infiniband else "hw_counters", name)


def number(text: str) -> int | None:
    try:
        return int(text)
    except ValueError:
        return None


class Bytes(t.NamedTuple):
    """What a network device has carried."""

    received: int
    sent: int


def netdevs(text: str) -> dict[str, Bytes]:
    """Return the bytes of each network device. ValueError: it is no /proc/net/dev."""
    rows = [line.partition(":") for line in text.split("\n")[2:] if ":" in line]
    # proc_net_dev: 8 columns received, 8 sent, bytes first.
    columns = {name.strip(): rest.split() for name, _colon, rest in rows}
    if not columns or any(len(numbers) < 9 for numbers in columns.values()):
        raise ValueError("/proc/net/dev has no list of network devices")
    return {name: Bytes(int(numbers[0]), int(numbers[8])) for name, numbers in columns.items()}


def moved(before: Numbers, after: Numbers, names: t.Sequence[str], unit: int = 1) -> int | None:
    """Return by how much counters rose together; None if they are not all there."""
    if not all(name in before and name in after for name in names):
        return None
    return sum(after[name] - before[name] for name in names) * unit


def sent(before: Numbers, after: Numbers) -> int | None:
    """Return the bytes that a port sent between two looks; None if its driver does not count them."""
    return next((n for n in (moved(before, after, kind.sent, kind.unit) for kind in KINDS) if n is not None), None)


__all__ = (
    "FULL",
    "INFINIBAND",
    "KINDS",
    "NAMES",
    "PACKETS",
    "Bytes",
    "Kind",
    "file_of",
    "moved",
    "netdevs",
    "number",
    "sent",
)
