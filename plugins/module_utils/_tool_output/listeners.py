# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""Who listens on which port, of /proc/net/tcp and tcp6 (proc(5))."""

from __future__ import annotations

import re

_SOCKET = re.compile(r"[0-9A-Fa-f]{8,32}:([0-9A-Fa-f]{4})\Z")
_LISTEN = "0A"


def listeners_in(table: str) -> dict[int, str]:
    """Return the ports with a listener, with the socket's inode, of /proc/net/tcp or tcp6 (proc(5))."""
    inodes = {}
    for line in table.splitlines()[1:]:
        fields = line.split()
        place = _SOCKET.match(fields[1]) if len(fields) > 9 and fields[3] == _LISTEN else None
        if place:
            inodes[int(place[1], 16)] = fields[9]
    return inodes


__all__ = ("listeners_in",)
