# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""What a pod's traffic of some seconds went over: RDMA, network devices, or nothing."""

from __future__ import annotations

import typing as t

from .._rdma import traffic

RDMA, TCP, IDLE, UNKNOWN = "rdma", "tcp", "idle", "unknown"
# For a pod set, the first that is among its pods'.
WORST_FIRST = (UNKNOWN, TCP, RDMA, IDLE)
# A packet of Soft-RoCE carries up to the path's MTU. 1024 is that of an Ethernet network with its usual 1500 bytes.
_BYTES_IN_PACKET = 1024


class Sample(t.NamedTuple):
    """The counters that a container sees, and when (seconds of a monotonic clock)."""

    at: float
    ports: t.Mapping[str, t.Mapping[str, int]]  # by DEVICE/PORT
    netdevs: t.Mapping[str, int]  # bytes in both directions
    shared: bool | None  # whether every network namespace sees every RDMA device; None if that cannot be read


class Port(t.NamedTuple):
    """The traffic of a port in both directions; None: its driver does not count that."""

    bytes_per_second: float | None
    packets_per_second: float | None


def _port(before: t.Mapping[str, int], after: t.Mapping[str, int], seconds: float) -> Port:
    rises = [traffic.rise(traffic.both, before, after, kinds) for kinds in (traffic.BYTES, traffic.PACKETS)]
    return Port(*(None if number is None else round(number / seconds, 1) for number in rises))


def _problem(name: str, port: Port, after: t.Mapping[str, int]) -> str | None:
    """Return why nothing is known of a port's traffic."""
    if port == (None, None):
        return "%s counts neither bytes nor packets of RDMA" % name
    if any((number or 0) < 0 for number in port):
        return "the counters of %s went backwards: they were reset" % name
    if traffic.full(after):
        return "a counter of %s is full, and does not rise any more" % name
    return None


def _busy(port: Port, idle_below: float) -> bool:
    if port.bytes_per_second is not None:
        return port.bytes_per_second >= idle_below
    return (port.packets_per_second or 0) >= idle_below / _BYTES_IN_PACKET


def judge(before: Sample, after: Sample, idle_below: float, host_network: bool) -> dict[str, t.Any]:
    """Return ``transport``, ``why`` if it is unknown, and the figures.

    :param idle_below: bytes per second in both directions of a device together, under which it is idle.
    :param host_network: whether the pod's network devices are its node's.
    """
    seconds = after.at - before.at
    ports = {
        name: _port(before.ports[name], after.ports[name], seconds) for name in after.ports if name in before.ports
    }
    rates = {
        name: round((after.netdevs[name] - number) / seconds, 1)
        for name, number in before.netdevs.items()
        if name != "lo" and name in after.netdevs
    }
    problems = [_problem(name, port, after.ports[name]) for name, port in ports.items()]
    if set(before.ports) != set(after.ports):
        problems.append("its RDMA devices are others than before")
    if any(rate < 0 for rate in rates.values()):
        problems.append("the counters of its network devices went backwards")
    uses_rdma = any(_busy(port, idle_below) for port in ports.values())
    uses_netdevs = any(rate >= idle_below for rate in rates.values())
    transport, why = RDMA if uses_rdma else (TCP if uses_netdevs else IDLE), None
    if any(problems):
        transport, why = UNKNOWN, "; ".join(filter(None, problems))
    elif uses_rdma and after.shared is not False:
        mode = "in RDMA mode shared, they count what all pods of the node do"
        why = mode if after.shared else "the RDMA mode cannot be read, and %s" % mode
        transport, why = UNKNOWN, "its RDMA devices are busy, but " + why
    elif uses_rdma and host_network:
        transport, why = UNKNOWN, "its RDMA devices are busy, but they are the node's, which others may use, too"
    elif uses_netdevs and not uses_rdma and host_network:
        transport, why = UNKNOWN, "network devices are busy, but they are the node's, which others use, too"
    return {
        "transport": transport,
        "why": why,
        "seconds": round(seconds, 1),
        "rdma": {name: dict(port._asdict()) for name, port in ports.items()},
        "netdevs": rates,
    }


def together(transports: t.Iterable[str]) -> str:
    """Return one word for several pods."""
    words = set(transports)
    return next((word for word in WORST_FIRST if word in words), UNKNOWN)


__all__ = ("IDLE", "RDMA", "TCP", "UNKNOWN", "Sample", "judge", "together")
