# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""Whether a measurement went through the RDMA device, and nothing through the network devices beside it.

Drivers count what a port has sent, each in counters of its own:

* mlx5 and other InfiniBand: ``counters/port_xmit_data``, in octets divided by 4
  (Documentation/ABI/stable/sysfs-class-infiniband).
* irdma: ``hw_counters/ip4OutOctets`` and ``ip6OutOctets``, in bytes, IP headers included. Registers of the card's
  protocol engine (GLPES_PFIP4TXOCTS) have them, so they are RDMA alone. It has no ``counters`` at all: those are for
  drivers that answer MADs (hw/irdma/verbs.c).
* erdma: ``hw_counters/tx_bytes_cnt``, in bytes, as the card counts them (hw/erdma/erdma_verbs.c);
  ``hw_tx_bytes_cnt`` in the driver of Alibaba Cloud's installer.
* bnxt_re and efa: ``hw_counters/tx_bytes``, in bytes (hw/bnxt_re/hw_counters.c, hw/efa/efa_verbs.c).
* soft-RoCE: ``hw_counters/sent_pkts``, in packets, which show no bytes (sw/rxe/rxe_hw_counters.c).
"""

from __future__ import annotations

import typing as t

Counters = t.Mapping[str, t.Any]

# Without its 64 bit version, this counter stops at the top.
_XMIT = "port_xmit_data"
_FULL = 0xFFFFFFFF
# Bytes in a unit, and the counters that are added.
_SENT: tuple[tuple[int, tuple[str, ...]], ...] = (
    (4, (_XMIT,)),
    (1, ("ip4OutOctets", "ip6OutOctets")),
    (1, ("tx_bytes",)),
    (1, ("tx_bytes_cnt",)),
    (1, ("hw_tx_bytes_cnt",)),
)
_PACKETS = "sent_pkts"
_NAMES = (*(name for _unit, names in _SENT for name in names), _PACKETS)


def paths(device: str, port: int) -> list[str]:
    """The files that parse() reads."""
    place = "/sys/class/infiniband/%s/ports/%d/" % (device, port)
    return ["/proc/self/net/dev", *(place + _directory(name) + name for name in _NAMES)]


def _directory(name: str) -> str:
    return "counters/" if name == _XMIT else "hw_counters/"


def parse(texts: t.Sequence[str]) -> dict[str, t.Any]:
    """Read the counters of a network namespace: ``netdevs``, bytes in both directions by name; ``port``, what the
    driver counts. ValueError: it is no /proc/net/dev.
    """
    rows = [line.partition(":") for line in texts[0].split("\n")[2:] if ":" in line]
    # proc_net_dev: 8 columns received, 8 sent, bytes first.
    columns = {name.strip(): rest.split() for name, _colon, rest in rows}
    if not columns or any(len(numbers) < 9 for numbers in columns.values()):
        raise ValueError("/proc/net/dev has no list of network devices")
    bytes_of = {name: int(numbers[0]) + int(numbers[8]) for name, numbers in columns.items()}
    counted = {name: _number(text) for name, text in zip(_NAMES, texts[1:])}
    return {"netdevs": bytes_of, "port": {name: value for name, value in counted.items() if value is not None}}


def _number(text: str) -> int | None:
    try:
        return int(text)
    except ValueError:
        return None


def _sent(before: t.Mapping[str, int], after: t.Mapping[str, int]) -> int | None:
    """Return the bytes that the port sent in between; None: its driver does not count them."""
    for unit, names in _SENT:
        if all(name in before and name in after for name in names):
            return sum(after[name] - before[name] for name in names) * unit
    return None


class Measured(t.NamedTuple):
    """What was measured between two looks."""

    device: str
    rails: t.Collection[str]  # network devices of the rails
    sent: int | None  # bytes
    seconds: float
    allowed: int  # bytes a second beside the rails


def compare(before: Counters, after: Counters, measurement: Measured) -> dict[str, t.Any]:
    """Return ``quiet`` (None: the counters do not show it) with the reason and the numbers."""
    beside = {
        name: after["netdevs"][name] - number
        for name, number in before["netdevs"].items()
        if name != "lo" and name not in measurement.rails and name in after["netdevs"]
    }
    rdma = _sent(before["port"], after["port"])
    packets = [counters["port"].get(_PACKETS) for counters in (before, after)]
    numbers: dict[str, t.Any] = {
        "seconds": measurement.seconds,
        "sent_bytes": measurement.sent,
        "rdma_bytes": rdma,
        "rdma_packets": None if None in packets else packets[1] - packets[0],
        "ethernet_bytes": beside,
        "allowed_bytes": int(measurement.allowed * measurement.seconds),
    }
    loud = {name: number for name, number in beside.items() if number > numbers["allowed_bytes"]}
    quiet: bool | None = None
    if loud:
        quiet = False
        shown = ", ".join("%s carried %d bytes" % item for item in sorted(loud.items()))
        why: str | None = "%s in %.1f s, and %d are allowed outside the rails" % (
            shown,
            measurement.seconds,
            numbers["allowed_bytes"],
        )
    elif any(number < 0 for number in beside.values()) or (rdma is not None and rdma < 0):
        why = "counters went backwards: they were reset"
    elif rdma is None:
        counted = "" if numbers["rdma_packets"] is None else ", only packets (%d)" % numbers["rdma_packets"]
        why = "%s counts no bytes%s" % (measurement.device, counted)
    elif after["port"].get(_XMIT) == _FULL:
        why = "the counter port_xmit_data of %s is full" % measurement.device
    elif measurement.sent is None:
        why = "the number of bytes sent is unknown"
    elif rdma < measurement.sent:
        quiet = False
        why = "%s counted %d of the %d bytes that were sent: the rest took another path" % (
            measurement.device,
            rdma,
            measurement.sent,
        )
    else:
        quiet, why = True, None
    return {"quiet": quiet, "why": why, **numbers}


__all__ = ("Measured", "compare", "parse", "paths")
