# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Open connections. A new client replaces the one that the server has waited for the longest.

If enough clients reconnect at once, even that may be milliseconds. A client that has received metrics before, as
Prometheus has, is not disconnected for one that has not.
"""

from __future__ import annotations

import collections
import contextlib
import socket
import threading
import time
import typing as t

MAX_CONNECTIONS = 256
# Prometheus needs one; behind one address there may be several, a probe and a person.
MAX_OF_ADDRESS = 20
# Addresses of clients that have received metrics.
MAX_KNOWN = 1000


class Connection:
    """A client's connection and its deadline."""

    def __init__(self, request: socket.socket, address: str, seconds: float) -> None:
        self.request, self.address = request, address
        self.ended = False
        self.begin(seconds)

    def begin(self, seconds: float) -> None:
        """Give the client this many seconds from now."""
        self.until = time.monotonic() + seconds
        self.wait()

    def wait(self) -> None:
        """From now on the server waits for the client."""
        self.since = time.monotonic()
        self.waits = True

    def work(self) -> None:
        """From now on the client waits for the server."""
        self.waits = False

    def left(self) -> float:
        return self.until - time.monotonic()

    def end(self) -> None:
        self.ended = True
        # Pending reads and writes return. Not SSLSocket's own shutdown(): that is for the thread which uses it.
        with contextlib.suppress(OSError):
            socket.socket.shutdown(self.request, socket.SHUT_RDWR)


class Connections:
    """All connections, limited in total and per address."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[socket.socket, Connection] = {}
        self._known: collections.OrderedDict[str, None] = collections.OrderedDict()

    def remember(self, address: str) -> None:
        """Record that a client of this address has received metrics."""
        with self._lock:
            self._known[address] = None
            self._known.move_to_end(address)
            if len(self._known) > MAX_KNOWN:
                self._known.popitem(last=False)

    def add(self, request: socket.socket, address: str, seconds: float) -> bool:
        """Add a connection if there is room for it, or room can be made, and return whether it was added."""
        with self._lock:
            others = [client for client in self._open.values() if not client.ended]
            same = [client for client in others if client.address == address]
            crowd: t.Sequence[Connection] = ()
            if len(same) >= MAX_OF_ADDRESS:
                crowd = same
            elif len(others) >= MAX_CONNECTIONS:
                crowd = others
            if crowd:
                waits = [
                    client
                    for client in crowd
                    if client.waits and (client.address not in self._known or address in self._known)
                ]
                if not waits:
                    return False
                held = collections.Counter(client.address for client in crowd)
                max(
                    waits, key=lambda client: (client.address not in self._known, held[client.address], -client.since)
                ).end()
            self._open[request] = Connection(request, address, seconds)
            return True

    def of(self, request: socket.socket) -> Connection:
        with self._lock:
            return self._open[request]

    def remove(self, request: socket.socket) -> None:
        with self._lock:
            del self._open[request]

    def end_late(self) -> None:
        """End the connections that are past their deadline."""
        with self._lock:
            for client in self._open.values():
                if not client.ended and client.left() < 0:
                    client.end()


__all__ = ("MAX_CONNECTIONS", "MAX_KNOWN", "MAX_OF_ADDRESS", "Connection", "Connections")
