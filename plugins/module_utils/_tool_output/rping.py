# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""What rping printed about a connection: how many pings came through, and what went wrong."""

from __future__ import annotations

import re
import typing as t

# rping writes these before an errno text, or alone (librdmacm/examples/rping.c).
_CALLS = r"(?:rdma_\w+|ibv_\w+|pthread_\w+|rping_modify_qp|poll failed|Could not create event FD)(?:: \S.*| failed.*|)"
_ERRORS = re.compile(
    r"(?:cma event (?:RDMA_CM_EVENT_)?\w+, error -?\d+"
    r"|waiting for addr/route resolution state \d+"
    r"|wait for \w+ state \d+"
    r"|(?:cq )?completion failed (?:with wr_id \w+ )?status \d+"
    r"|cma detected device removal.*"
    r"|(?:connect|post send|post recv|poll|recv wc) error:? -?\d+"
    r"|(?:setup_qp|rping_setup_buffers|rping (?:server|client)) failed: -?\d+"
    r"|\w+ (?:reg_mr|malloc) failed"
    r"|data mismatch!"
    r"|data verification failed.*"
    r"|Received bogus data, size .*"
    r"|Failed to (?:get cq event|set notify)!"
    r"|Unknown CQ!"
    r"|unhandled event: .*"
    r"|Invalid (?:size|count) .*"
    r"|getaddrinfo failed .*"
    r"|No RDMA devices were detected"
    r"|failed to create RDMA CM event channel.*"
    r"|lib(?:ibverbs|rdmacm): Fatal.*"
    r"|rping: .*"
    r"|.*: rping: (?:command )?not found"
    r"|" + _CALLS + r")\Z",
    re.I,
)
# Steps that rping -d reports with the same first words as a failure of the call.
_STEPS = re.compile(
    r"(?:rdma_bind_addr successful|rdma_listen|rdma_connect successful"
    r"|rdma_resolve_addr - rdma_resolve_route successful)\Z"
)
_PING = re.compile(r"(?:server )?ping data:(?: (.*)|)\Z", re.S)
_PATTERN = re.compile(r"rdma-ping-(\d{1,10}): (.+)\Z", re.S)
# What a server prints when its client has finished and left; DISCONNECTED is 10, or 9 before the self-made QPs came.
_END = re.compile(r"wait for RDMA_READ_ADV state (?:9|10)\Z")
_DISCONNECT = re.compile(r"server DISCONNECT EVENT\.\.\.\Z")

_FIRST, _LAST = 65, 122


def parse(text: str, count: int | None = None) -> dict[str, t.Any]:
    """Return ``ok``, ``pings`` and ``errors`` of one side's output of ``rping -v``.

    A ping counts when its data are what the client sends. Without -v rping prints nothing on success, so a text that
    shows no ping is not a success.
    """
    numbers: set[int] = set()
    errors: list[str] = []
    left = False
    for line in text.replace("\r\n", "\n").split("\n"):
        stripped = line.strip()
        ping = _PING.match(stripped)
        if ping:
            data = ping.group(1) or ""
            number = _number(data)
            if number is None:
                _add(errors, "unexpected ping data: %s" % data)
            else:
                numbers.add(number)
        elif _DISCONNECT.match(stripped):
            left = True
        elif _END.match(stripped) and left and numbers:
            continue
        elif _ERRORS.match(stripped) and not _STEPS.match(stripped):
            _add(errors, stripped)
    pings = len(numbers)
    if not pings:
        _add(errors, "no ping was seen in the output (rping shows pings only when it is run with -v)")
    elif sorted(numbers) != list(range(pings)):
        _add(errors, "pings are missing: %s were seen, the last is number %s" % (pings, max(numbers)))
    if count is not None and 0 < pings < count:
        _add(errors, "%s of %s pings were seen" % (pings, count))
    return {"ok": not errors, "pings": pings, "errors": errors}


def _add(errors: list[str], error: str) -> None:
    if error not in errors:
        errors.append(error)


def _number(data: str) -> int | None:
    """Return the number of a ping whose data are those of rping_test_client(), else None.

    After its title a ping has the characters from A to z, again and again, starting one further at each ping. They are
    as many as the size (-S) leaves room for.
    """
    match = _PATTERN.match(data)
    if match is None:
        return None
    number = int(match.group(1))
    span = _LAST - _FIRST + 1
    for offset, character in enumerate(match.group(2)):
        if ord(character) != _FIRST + (number + offset) % span:
            return None
    return number


__all__ = ("parse",)
