# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""Which way UCX took between nodes, from what it logs with UCX_LOG_LEVEL=info: the lanes of each kind of endpoint.

ucp_worker_print_used_tls() in ucp_worker.c prints them, since 1.14 with where the peer is.
"""

from __future__ import annotations

import re
import typing as t

# [time] [host:pid   :thread]  file:line  UCX  INFO  message; a launcher's tag may stand before.
_ENDPOINT = re.compile(
    r"\[[^\[\]\s]{1,300}:\d{1,10}\s{0,10}:\w{1,10}\]\s{1,40}ucp_worker\.c:\d{1,6}\s{1,20}UCX\s{1,10}INFO\s{1,10}"
    r"(?:\S{1,80} (?P<where>self|intra-node|inter-node) cfg#\d{1,6}|ep_cfg\[\d{1,6}\]:) (?P<lanes>.{1,4000})"
)
# transport/device, of a network device or of an RDMA device with its port.
_LANE = re.compile(r"(?<![\w/])(?P<transport>[a-z][a-z0-9_]{0,31})/(?P<device>[\w.-]{1,63}(?::\d{1,3})?)")
# Reliable and dynamic connections, datagrams, and those of AWS: TL names in uct/ib.
_RDMA = re.compile(r"(?:rc|dc|ud|srd)(?:_|\Z)|(?:rc|dc|ud)x?\Z")
_MOST_LANES = 100
_LONGEST = 8000


def _kind(transport: str) -> str | None:
    """Return how a lane leaves the host; None for shared memory and GPUs."""
    if transport == "tcp":
        return "socket"
    return "rdma" if _RDMA.match(transport) else None


def parse(lines: t.Iterable[str]) -> dict[str, t.Any]:
    """Return ``transport`` (rdma, socket, mixed, unknown) and ``lanes`` to other nodes, such as rc_verbs/mlx5_0:1."""
    lanes: dict[str, str] = {}
    for line in lines:
        endpoint = _ENDPOINT.search(line[:_LONGEST]) if "UCX" in line else None
        if endpoint is None or endpoint.group("where") in ("self", "intra-node"):
            continue
        for lane in _LANE.finditer(endpoint.group("lanes")):
            kind = _kind(lane.group("transport"))
            if kind:
                lanes[lane.group()] = kind
    kinds = set(lanes.values())
    transport = kinds.pop() if len(kinds) == 1 else "mixed" if kinds else "unknown"
    return {"transport": transport, "lanes": sorted(lanes)[:_MOST_LANES]}


__all__ = ("parse",)
