# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""Logs of pods, no more of them than requested, and what NCCL and UCX print in them."""

from __future__ import annotations

import re
import typing as t

from .._kubernetes.client import ApiError, Client, path
from .._tool_output import nccl_log, ucx_log

# What no terminal and no report should be given.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


# What mpirun of Open MPI 5 (PRTE) and 4 (ORTE) prints when a worker is gone (help-errmgr-base.txt). That of PRRTE 3.0
# exits with 0 then, and the job's operator takes it for a success.
_LOST = re.compile(r"^(?:PRTE|ORTE) has lost communication with a remote daemon\.$", re.M)

# What is held and searched of all logs together, in bytes: a job may have a thousand pods.
HEADS = 64 << 20
TAILS = 16 << 20


class Log(t.NamedTuple):
    """A pod's log: its beginning, its end (the same if it is short), and why there is none."""

    head: str
    tail: str
    cut: bool
    error: str | None


def read(client: Client, namespace: str, pod: str, head: int, tail: int) -> Log:
    """Read at most ``head`` bytes of a log's beginning and ``tail`` of its end."""
    doing = "Reading the log of %s/%s" % (namespace, pod)
    where = path("v1", "pods", namespace, pod, "log")
    try:
        first = client.raw(where, doing, {"limitBytes": head})
        if len(first) < head:
            return Log(_plain(first), _plain(first[-tail:]), len(first) > tail, None)
        # The API counts lines from the end and bytes from the first of them: a line has 100 bytes or so.
        last = client.raw(where, doing, {"tailLines": max(1, tail // 100), "limitBytes": 4 * tail})
    except ApiError as exc:
        return Log("", "", False, str(exc))
    return Log(_plain(first), _plain(last[-tail:]), True, None)


def read_all(client: Client, namespace: str, pods: t.Sequence[str], head: int, tail: int) -> dict[str, Log]:
    """Read the logs of all pods; of many pods less than ``head`` and ``tail``, the same of each."""
    head = max(1, min(head, HEADS // max(1, len(pods))))
    tail = max(1, min(tail, TAILS // max(1, len(pods))))
    return {pod: read(client, namespace, pod, head, tail) for pod in pods}


def last_line(client: Client, namespace: str, pod: str) -> str | None:
    """Return the last line of a log, or None if none is available."""
    where = path("v1", "pods", namespace, pod, "log")
    try:
        text = _plain(client.raw(where, "Reading the log of %s" % pod, {"tailLines": 1, "limitBytes": 4000}))
    except ApiError:
        return None
    lines = [line.strip() for line in re.split(r"[\r\n]+", text) if line.strip()]
    return lines[-1][:200] if lines else None


def _plain(data: bytes) -> str:
    return _CONTROL.sub("", data.decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "\n"))


def _of_nccl(lines: t.Iterable[str]) -> list[str]:
    """Leave out what the filter passes over anyway: looking closely at millions of a program's lines takes minutes."""
    return [line for line in lines if "ccl" in line.lower() or "unhandled" in line.lower()]


def _judge(texts: t.Iterable[str]) -> dict[str, t.Any]:
    """Return what the filter nccl_log returns. If NCCL has printed no network, UCX's lanes are it."""
    lines = [line for text in texts for line in text.split("\n")]
    result = nccl_log.parse("\n".join(_of_nccl(lines)))
    if result["network"]:
        return {**result, "library": "NCCL"}
    ucx = ucx_log.parse(lines)
    if not ucx["lanes"]:
        return {**result, "library": None}
    network = ", ".join(ucx["lanes"])
    return {**result, "library": "UCX", "transport": ucx["transport"], "evidence": "lanes", "network": network}


def lost_worker(logs: t.Mapping[str, Log]) -> str | None:
    """Return the line of a log about a worker that mpirun has lost, or None."""
    for pod, log in logs.items():
        match = _LOST.search(log.tail)
        if match:
            return "%s: %s" % (pod, match.group().rstrip("."))
    return None


def transport(logs: t.Mapping[str, Log]) -> dict[str, t.Any]:
    """Return the transport by the beginnings of all logs, and which pods used sockets."""
    result = _judge(log.head for log in logs.values())
    sockets = [pod for pod, log in logs.items() if _judge([log.head])["transport"] in ("socket", "mixed")]
    unread = ["%s: %s" % (pod, log.error) for pod, log in logs.items() if log.error]
    return {**result, "socket_pods": sockets, "unread": unread, "cut": [pod for pod, log in logs.items() if log.cut]}


__all__ = ("HEADS", "TAILS", "Log", "last_line", "lost_worker", "read", "read_all", "transport")
