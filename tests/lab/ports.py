# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ports for servers that cannot be asked to choose one and say which."""

from __future__ import annotations

import contextlib
import socket


def reserve(preferred: int = 0) -> socket.socket:
    """Return a socket that reserves a TCP port until it is closed: the preferred one, or another if that is in use.

    As it does not listen, a server that sets SO_REUSEADDR can bind the port (socket(7)); servers in Go, libuv, QEMU and
    Python's http.server set it. The kernel gives the port neither to a socket that asks for any nor to a connection.
    """
    reserved = socket.socket()
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    with contextlib.suppress(OSError):
        reserved.bind(("", preferred))
        return reserved
    reserved.bind(("", 0))
    return reserved


def number(reserved: socket.socket) -> int:
    return int(reserved.getsockname()[1])


__all__ = ["number", "reserve"]
