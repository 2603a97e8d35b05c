# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""Whether a measurement went through the RDMA device, and nothing through the network devices beside it."""

from __future__ import annotations

import typing as t

from .._rdma import traffic

Counters = t.Mapping[str, t.Any]


def paths(device: str, port: int) -> list[str]:
    """The files that parse() reads."""
    place = "/sys/class/infiniband/%s/ports/%d/" % (device, port)
    return ["/proc/self/net/dev", *(place + traffic.file_of(name) for name in traffic.SENT)]


def parse(texts: t.Sequence[str]) -> dict[str, t.Any]:
    """Read the counters of a network namespace: ``netdevs``, bytes in both directions by name; ``port``, what the
    driver counts. ValueError: it is no /proc/net/dev.
    """
    counted = {name: traffic.number(text) for name, text in zip(traffic.SENT, texts[1:])}
    return {
        "netdevs": {name: sum(both) for name, both in traffic.netdevs(texts[0]).items()},
        "port": {name: value for name, value in counted.items() if value is not None},
    }


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
    rdma, packets = (
        traffic.rise(traffic.sent, before["port"], after["port"], kinds) for kinds in (traffic.BYTES, traffic.PACKETS)
    )
    numbers: dict[str, t.Any] = {
        "seconds": measurement.seconds,
        "sent_bytes": measurement.sent,
        "rdma_bytes": rdma,
        "rdma_packets": packets,
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
        counted = "" if packets is None else ", only packets (%d)" % packets
        why = "%s counts no bytes%s" % (measurement.device, counted)
    elif traffic.full(after["port"]):
        why = "a counter of %s is full" % measurement.device
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
