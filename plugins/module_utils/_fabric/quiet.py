# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""Whether a measurement went through the RDMA device, and nothing through the network devices beside it."""

from __future__ import annotations

import typing as t

Counters = t.Mapping[str, t.Any]

# Octets divided by 4 (PortXmitData of the InfiniBand specification); without its 64 bit version it stops at the top.
_WORD = 4
_FULL = 0xFFFFFFFF


def paths(device: str, port: int) -> list[str]:
    """The files that parse() reads."""
    place = "/sys/class/infiniband/%s/ports/%d" % (device, port)
    # The last one is soft-RoCE's.
    return ["/proc/self/net/dev", place + "/counters/port_xmit_data", place + "/hw_counters/sent_pkts"]


def parse(texts: t.Sequence[str]) -> dict[str, t.Any]:
    """Read the counters of a network namespace: ``netdevs``, bytes in both directions by name; ``words`` and
    ``packets`` that the port has sent, None if the driver does not count them. ValueError: it is no /proc/net/dev.
    """
    devices, words, packets = texts
    rows = [line.partition(":") for line in devices.split("\n")[2:] if ":" in line]
    # proc_net_dev: 8 columns received, 8 sent, bytes first.
    columns = {name.strip(): rest.split() for name, _colon, rest in rows}
    if not columns or any(len(numbers) < 9 for numbers in columns.values()):
        raise ValueError("/proc/net/dev has no list of network devices")
    bytes_of = {name: int(numbers[0]) + int(numbers[8]) for name, numbers in columns.items()}
    return {"netdevs": bytes_of, "words": _number(words), "packets": _number(packets)}


def _number(text: str) -> int | None:
    try:
        return int(text)
    except ValueError:
        return None


class Measured(t.NamedTuple):
    """What was measured between two looks."""

    device: str
    rails: t.Collection[str]  # network devices of the rails
    sent: int | None  # bytes
    seconds: float
    allowed: int  # bytes a second beside the rails


def compare(before: Counters, after: Counters, what: Measured) -> dict[str, t.Any]:
    """Return ``quiet`` (None: the counters do not show it) with the reason and the numbers."""
    beside = {
        name: after["netdevs"][name] - number
        for name, number in before["netdevs"].items()
        if name != "lo" and name not in what.rails and name in after["netdevs"]
    }
    both = [counters["words"] for counters in (before, after)]
    rdma = None if None in both else (both[1] - both[0]) * _WORD
    packets = [counters["packets"] for counters in (before, after)]
    numbers: dict[str, t.Any] = {
        "seconds": what.seconds,
        "sent_bytes": what.sent,
        "rdma_bytes": rdma,
        "rdma_packets": None if None in packets else packets[1] - packets[0],
        "ethernet_bytes": beside,
        "allowed_bytes": int(what.allowed * what.seconds),
    }
    loud = {name: number for name, number in beside.items() if number > numbers["allowed_bytes"]}
    quiet: bool | None = None
    if loud:
        quiet = False
        shown = ", ".join("%s carried %d bytes" % item for item in sorted(loud.items()))
        why: str | None = "%s in %.1f s, and %d are allowed outside the rails" % (
            shown,
            what.seconds,
            numbers["allowed_bytes"],
        )
    elif any(number < 0 for number in beside.values()) or (rdma is not None and rdma < 0):
        why = "counters went backwards: they were reset"
    elif rdma is None:
        counted = "" if numbers["rdma_packets"] is None else ", only packets (%d)" % numbers["rdma_packets"]
        why = "%s counts no bytes%s" % (what.device, counted)
    elif both[1] == _FULL:
        why = "the counter port_xmit_data of %s is full" % what.device
    elif what.sent is None:
        why = "the number of bytes sent is unknown"
    elif rdma < what.sent:
        quiet = False
        why = "%s counted %d of the %d bytes that were sent: the rest took another path" % (
            what.device,
            rdma,
            what.sent,
        )
    else:
        quiet, why = True, None
    return {"quiet": quiet, "why": why, **numbers}


__all__ = ("Measured", "compare", "parse", "paths")
