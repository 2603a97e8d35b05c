# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who is connected. A new client takes the place of the one that has been waited for the longest.

With enough clients that reconnect at once, even that may be milliseconds. A client that has got metrics before, as
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
# Addresses of clients that have got metrics.
MAX_KNOWN = 1000


class Connection:
    """A client's connection and how long it has for what it does."""

    def __init__(self, request: socket.socket, address: str, seconds: float) -> None:
        self.request, self.address = request, address
        self.ended = False
        self.begin(seconds)

    def begin(self, seconds: float) -> None:
        """Give the client so many seconds from now on."""
        self.until = time.monotonic() + seconds
        self.wait()

    def wait(self) -> None:
        """From now on it is the client that is waited for."""
        self.since = time.monotonic()
        self.waits = True

    def work(self) -> None:
        """From now on the client waits for us."""
        self.waits = False

    def left(self) -> float:
        return self.until - time.monotonic()

    def end(self) -> None:
        self.ended = True
        # Whatever reads or writes returns. Not SSLSocket's own: that one is for the thread which uses it.
        with contextlib.suppress(OSError):
            socket.socket.shutdown(self.request, socket.SHUT_RDWR)


class Connections:
    """At most so many, and so many of one address."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[socket.socket, Connection] = {}
        self._known: collections.OrderedDict[str, None] = collections.OrderedDict()

    def know(self, address: str) -> None:
        """Remember that a client of this address has got metrics."""
        with self._lock:
            self._known[address] = None
            self._known.move_to_end(address)
            if len(self._known) > MAX_KNOWN:
                self._known.popitem(last=False)

    def add(self, request: socket.socket, address: str, seconds: float) -> bool:
        """Return whether there is a place for this one, or it could be made."""
        with self._lock:
            others = [one for one in self._open.values() if not one.ended]
            same = [one for one in others if one.address == address]
            crowd: t.Sequence[Connection] = ()
            if len(same) >= MAX_OF_ADDRESS:
                crowd = same
            elif len(others) >= MAX_CONNECTIONS:
                crowd = others
            if crowd:
                waits = [
                    one for one in crowd if one.waits and (one.address not in self._known or address in self._known)
                ]
                if not waits:
                    return False
                held = collections.Counter(one.address for one in crowd)
                max(waits, key=lambda one: (one.address not in self._known, held[one.address], -one.since)).end()
            self._open[request] = Connection(request, address, seconds)
            return True

    def of(self, request: socket.socket) -> Connection:
        with self._lock:
            return self._open[request]

    def remove(self, request: socket.socket) -> None:
        with self._lock:
            del self._open[request]

    def end_late(self) -> None:
        """End those whose time is over."""
        with self._lock:
            for one in self._open.values():
                if not one.ended and one.left() < 0:
                    one.end()


__all__ = ("MAX_CONNECTIONS", "MAX_KNOWN", "MAX_OF_ADDRESS", "Connection", "Connections")
