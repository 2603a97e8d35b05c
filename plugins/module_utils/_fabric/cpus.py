# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""The CPUs that ib_write_bw runs on: those of the port's NUMA node, whose memory it then gets as well."""

from __future__ import annotations

import itertools
import re
import typing as t

from .host import Host

# The lists are as in cpuset(7), "List format".
_OF_NODE = "/sys/devices/system/node/node%d/cpulist"
_LIST = r"\d{1,4}(?:-\d{1,4})?(?:,\d{1,4}(?:-\d{1,4})?){0,999}"
_ALLOWED = re.compile(r"(?m)^Cpus_allowed_list:\t(%s)$" % _LIST)


def choose(ports: t.Sequence[t.Mapping[str, t.Any]], host: Host, *, pinning: bool = True) -> list[dict[str, t.Any]]:
    """Return for each port by ``rail`` the ``numa_node`` and the ``cpus`` to measure on, or why any are taken."""
    nodes = [_node(port) for port in ports]
    known = sorted({node for node in nodes if node is not None})
    error = None
    if not pinning:
        error = "it was not requested"
    elif known and host.which("taskset") is None:
        error = "taskset is not installed (package util-linux)"
    if error or not known:
        choices: list[tuple[str | None, str | None]] = [(None, error)] * len(ports)
    else:
        status, *lists = host.texts(["/proc/self/status", *(_OF_NODE % node for node in known)])
        of_node = {node: text.strip() for node, text in zip(known, lists)}
        choices = [_cpus(node, of_node[node], status) if node is not None else (None, None) for node in nodes]
    return [
        {
            "rail": port["rail"],
            "numa_node": node,
            "cpus": cpus,
            "cpus_error": why or (None if cpus else "the NUMA node of %s is not known" % port["device"]),
        }
        for port, node, (cpus, why) in zip(ports, nodes, choices)
    ]


def _node(port: t.Mapping[str, t.Any]) -> int | None:
    """Return the NUMA node of a port; the kernel has -1 for none."""
    node = port.get("numa_node")
    return node if isinstance(node, int) and node >= 0 else None


def _cpus(node: int, text: str, status: str) -> tuple[str | None, str | None]:
    """Return those of a node's CPUs that the process may use, or why there are none."""
    allowed = _ALLOWED.search(status)
    if not re.fullmatch(_LIST, text) or not allowed:
        return None, "the CPUs of NUMA node %d cannot be read" % node
    both = _numbers(text) & _numbers(allowed.group(1))
    if not both:
        why = "none of the CPUs of NUMA node %d (%s) is among those that are allowed (%s)"
        return None, why % (node, text, allowed.group(1))
    return _text(both), None


def _numbers(text: str) -> set[int]:
    """Return the CPUs of a list such as 0-27,56-83."""
    parts = [part.split("-") for part in text.split(",")]
    return {number for part in parts for number in range(int(part[0]), int(part[-1]) + 1)}


def _text(numbers: t.Collection[int]) -> str:
    """Return CPUs as a list."""
    groups = itertools.groupby(enumerate(sorted(numbers)), lambda place: place[1] - place[0])
    ranges = [[number for _place, number in group] for _difference, group in groups]
    return ",".join("%d-%d" % (cpus[0], cpus[-1]) if cpus[1:] else "%d" % cpus[0] for cpus in ranges)


__all__ = ("choose",)
