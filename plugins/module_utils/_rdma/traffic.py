# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""What drivers count of a port's RDMA traffic. Beside their bytes all of them count packets.

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


BYTES = (
    Kind(4, ("port_xmit_data",), ("port_rcv_data",)),
    Kind(1, ("ip4OutOctets", "ip6OutOctets"), ("ip4InOctets", "ip6InOctets")),
    Kind(1, ("tx_bytes",), ("rx_bytes",)),
    Kind(1, ("tx_bytes_cnt",), ("rx_bytes_cnt",)),
    Kind(1, ("hw_tx_bytes_cnt",), ("hw_rx_bytes_cnt",)),
    Kind(1, ("sent_bytes",), ("rcvd_bytes",)),
)
PACKETS = (
    Kind(1, ("port_xmit_packets",), ("port_rcv_packets",)),
    Kind(1, ("ip4OutPkts", "ip6OutPkts"), ("ip4InPkts", "ip6InPkts")),
    Kind(1, ("tx_pkts",), ("rx_pkts",)),
    Kind(1, ("tx_packets_cnt",), ("rx_packets_cnt",)),
    Kind(1, ("hw_tx_packets_cnt",), ("hw_rx_packets_cnt",)),
    Kind(1, ("sent_pkts",), ("rcvd_pkts",)),
)
SENT = tuple(name for kind in (*BYTES, *PACKETS) for name in kind.sent)
NAMES = (*SENT, *(name for kind in (*BYTES, *PACKETS) for name in kind.received))
_INFINIBAND = tuple(name for kinds in (BYTES, PACKETS) for name in (*kinds[0].sent, *kinds[0].received))
# Where these stop without their 64 bit versions.
_FULL = 0xFFFFFFFF


def file_of(name: str) -> str:
    """Return the file of a counter below the directory of a port."""
    return "%s/%s" % ("counters" if name in _INFINIBAND else "hw_counters", name)


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


def _added(numbers: Numbers, kinds: t.Iterable[tuple[int, t.Sequence[str]]]) -> int | None:
    for unit, names in kinds:
        if all(name in numbers for name in names):
            return unit * sum(numbers[name] for name in names)
    return None


def sent(numbers: Numbers, kinds: t.Iterable[Kind]) -> int | None:
    """Return what a port has sent, of `BYTES` or `PACKETS`; None if its driver does not count that."""
    return _added(numbers, ((kind.unit, kind.sent) for kind in kinds))


def received(numbers: Numbers, kinds: t.Iterable[Kind]) -> int | None:
    """Return what a port has received, of `BYTES` or `PACKETS`; None if its driver does not count that."""
    return _added(numbers, ((kind.unit, kind.received) for kind in kinds))


def both(numbers: Numbers, kinds: t.Iterable[Kind]) -> int | None:
    """Return what a port has sent and received together, of `BYTES` or `PACKETS`."""
    return _added(numbers, ((kind.unit, (*kind.sent, *kind.received)) for kind in kinds))


def rise(
    count: t.Callable[[Numbers, t.Iterable[Kind]], int | None],
    before: Numbers,
    after: Numbers,
    kinds: t.Iterable[Kind],
) -> int | None:
    """Return by how much `sent`, `received` or `both` rose between two looks; None if one of them has no such count."""
    first, last = count(before, kinds), count(after, kinds)
    return None if first is None or last is None else last - first


def full(numbers: Numbers) -> bool:
    """Return whether a counter does not rise any more."""
    return any(numbers.get(name) == _FULL for name in _INFINIBAND)


__all__ = (
    "BYTES",
    "NAMES",
    "PACKETS",
    "SENT",
    "Bytes",
    "Kind",
    "both",
    "file_of",
    "full",
    "netdevs",
    "number",
    "received",
    "rise",
    "sent",
)
