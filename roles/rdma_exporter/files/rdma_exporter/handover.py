# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Handover of the metrics from the process that looks: over a Unix socket, a length and that many bytes.

Nothing is sent the other way, so the privileged process parses nothing: a connection is a request. The permissions of
the socket and of its directory decide who may connect (unix(7)).
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import time
import typing as t

from .command_line import log

# A node with a thousand devices needs a tenth of it.
MOST_BYTES = 32 * 1024 * 1024
# Seconds to send the text of one look to all clients that wait for it.
SEND_S = 5.0
# More than there are HTTP connections.
BACKLOG = 512

_LENGTH = struct.Struct(">Q")


class HandoverError(Exception):
    """The other process handed over nothing; the text is the reason."""


def listen(path: str) -> socket.socket:
    """Return a socket for the process's owner and group only."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o117)
    try:
        listener.bind(path)
    finally:
        os.umask(before)
    listener.listen(BACKLOG)
    return listener


def hand_over(listener: socket.socket, look: t.Callable[[], bytes]) -> None:
    """Wait for a connection, look once, and answer all clients that have connected by then."""
    clients = [listener.accept()[0]]
    text = _message(look)
    clients += _accept_all(listener)
    until = time.monotonic() + SEND_S
    for client in clients:
        # A client that is gone, or does not read, gets nothing.
        with client, contextlib.suppress(OSError):
            client.settimeout(max(0.01, until - time.monotonic()))
            client.sendall(text)


def _message(look: t.Callable[[], bytes]) -> bytes:
    """Return the bytes to send, none if the look failed."""
    try:
        text = look()
    except Exception as exc:
        log("The look failed: %s: %s" % (type(exc).__name__, exc))
        return b""
    if len(text) > MOST_BYTES:
        log("The look's text has %d bytes, and %d may be handed over" % (len(text), MOST_BYTES))
        return b""
    return _LENGTH.pack(len(text)) + text


def _accept_all(listener: socket.socket) -> list[socket.socket]:
    """Accept all pending connections before any is answered: a client that reconnects waits for a new look."""
    clients: list[socket.socket] = []
    listener.setblocking(False)
    try:
        while len(clients) < BACKLOG:
            clients.append(listener.accept()[0])
    except BlockingIOError:
        pass
    finally:
        listener.setblocking(True)
    return clients


def ask(path: str, seconds: float) -> bytes:
    """Return the text of a look, which must arrive within ``seconds``."""
    until = time.monotonic() + seconds
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        try:
            connection.settimeout(seconds)
            connection.connect(path)
            (length,) = _LENGTH.unpack(_receive(connection, _LENGTH.size, until))
            if length > MOST_BYTES:
                raise HandoverError("it offers %d bytes, and %d may be handed over" % (length, MOST_BYTES))
            return _receive(connection, length, until)
        except socket.timeout as exc:
            raise HandoverError("no answer within %.1f s" % seconds) from exc
        except OSError as exc:
            raise HandoverError("%s: %s" % (path, exc.strerror or exc)) from exc


def _receive(connection: socket.socket, size: int, until: float) -> bytes:
    parts = []
    while size:
        connection.settimeout(max(0.001, until - time.monotonic()))
        part = connection.recv(min(size, 1 << 20))
        if not part:
            raise HandoverError("it exited without an answer; its log has the reason")
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


__all__ = ("HandoverError", "ask", "hand_over", "listen")
