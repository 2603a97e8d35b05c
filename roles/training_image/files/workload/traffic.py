# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the RDMA devices, the network devices and TCP of this rank's network namespace sent between two moments.

Ranks of one pod share the namespace, and so the numbers.
"""

from __future__ import annotations

import os
import typing as t

Counters = t.Dict[str, int]

# Counters of bytes sent, by driver: mlx5 and other InfiniBand (PortXmitData of the specification, in words of 4 bytes),
# irdma, bnxt_re and efa, erdma of Linux and of Alibaba Cloud.
SENT = (
    (4, ["port_xmit_data"]),
    (1, ["ip4OutOctets", "ip6OutOctets"]),
    (1, ["tx_bytes"]),
    (1, ["tx_bytes_cnt"]),
    (1, ["hw_tx_bytes_cnt"]),
)
KINDS = ("counters", "hw_counters")
# Soft-RoCE counts packets. The headers that it leaves room for (RXE_MAX_HDR_LENGTH), and the MTUs of the specification.
PACKETS = "sent_pkts"
HEADERS = 80
MTUS = (4096, 2048, 1024, 512, 256)


class Look(t.NamedTuple):
    """The counters of one moment."""

    ports: dict[str, Counters]  # "device:port" -> every counter of the port that can be read, and netdev_mtu
    netdevs: Counters  # bytes sent, without those of the loopback device
    mtu: int  # the largest of those network devices
    segments: int  # that TCP sent


def _text(path: str) -> str:
    try:
        with open(path, encoding="ascii", errors="replace") as stream:
            return stream.read().strip()
    except OSError:  # a driver lists a counter, and refuses to read it
        return ""


def _number(path: str) -> int | None:
    text = _text(path)
    return int(text) if text.isdigit() else None


def _names(directory: str) -> list[str]:
    try:
        return sorted(os.listdir(directory))
    except OSError:
        return []


def look(root: str = "/") -> Look:
    """Return the counters of this process's network namespace."""
    netdevs = _sent(os.path.join(root, "proc/self/net/dev"))
    mtus = {name: _number(os.path.join(root, "sys/class/net", name, "mtu")) or 0 for name in netdevs}
    ports: dict[str, Counters] = {}
    devices = os.path.join(root, "sys/class/infiniband")
    for device in _names(devices):
        for port in _names(os.path.join(devices, device, "ports")):
            place = os.path.join(devices, device, "ports", port)
            files = [os.path.join(place, kind, name) for kind in KINDS for name in _names(os.path.join(place, kind))]
            counters = {os.path.basename(path): _number(path) for path in files}
            ports["%s:%s" % (device, port)] = {
                **{name: value for name, value in counters.items() if value is not None},
                "netdev_mtu": mtus.get(_text(place + "/gid_attrs/ndevs/0"), 0),
            }
    segments = _segments(os.path.join(root, "proc/self/net/snmp"))
    return Look(ports, netdevs, max(mtus.values(), default=0), segments)


def _sent(path: str) -> Counters:
    """Return the bytes that each network device has sent (proc_pid_net(5): the ninth column)."""
    rows = [line.partition(":") for line in _text(path).split("\n")]
    return {name.strip(): int(rest.split()[8]) for name, colon, rest in rows if colon and name.strip() != "lo"}


def _segments(path: str) -> int:
    """Return how many segments TCP has sent, over all network devices (tcpOutSegs and tcpRetransSegs, RFC 4022)."""
    rows = [line.split()[1:] for line in _text(path).split("\n") if line.startswith("Tcp:")]
    tcp = dict(zip(*rows)) if rows else {}
    return int(tcp.get("OutSegs", 0)) + int(tcp.get("RetransSegs", 0))


def rdma_bytes(before: Counters, after: Counters) -> int | None:
    """Return the bytes that a port sent; of soft-RoCE the most that so many packets hold. None: it counts neither."""
    for unit, names in SENT:
        deltas = [after[name] - before[name] for name in names if name in before and name in after]
        if deltas:
            return sum(deltas) * unit
    if PACKETS not in before or PACKETS not in after:
        return None
    payload = next((mtu for mtu in MTUS if mtu <= after["netdev_mtu"] - HEADERS), 0)
    return (after[PACKETS] - before[PACKETS]) * payload


def between(before: Look, after: Look) -> dict[str, t.Any]:
    """Return the bytes sent: by RDMA port (null: not counted), by network device, and by TCP at most.

    A network device's bytes include those of soft-RoCE on it; TCP's are all of this namespace, on whatever device.
    """
    return {
        "rdma_bytes": {
            port: rdma_bytes(before.ports.get(port, {}), counters) for port, counters in sorted(after.ports.items())
        },
        "netdev_bytes": {
            name: number - before.netdevs[name] for name, number in after.netdevs.items() if name in before.netdevs
        },
        "tcp_bytes_at_most": (after.segments - before.segments) * after.mtu,
    }


class Counted:
    """The traffic of a training from a step on, after which all connections are made."""

    def __init__(self, step: int) -> None:
        self._step, self._before = step, look()

    def report(self, step: int, parameters: t.Iterable[t.Any]) -> dict[str, t.Any]:
        """Return what was sent until the end of a later step, and the bytes of this rank's gradients in these steps."""
        steps = step - self._step
        size = sum(tensor.numel() * tensor.element_size() for tensor in parameters if tensor.requires_grad)
        return {"steps": steps, "gradient_bytes": steps * size, **between(self._before, look())}


__all__ = ("Counted", "Look", "between", "look", "rdma_bytes")
