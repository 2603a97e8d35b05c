# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Passwords are compared with their hashes one at a time, and the results, right and wrong, are cached.

A comparison takes 50 ms of processor time by design. Prometheus' exporter-toolkit has a cache, too (web/handler.go);
here wrong passwords, which anyone can make up, do not displace right ones.
"""

from __future__ import annotations

import collections
import hmac
import os
import threading

# For users who do not exist, so that the time does not reveal that: any hash that no password has.
_NO_USER = "$2b$10$" + "." * 53

# Size of the cache, by whether the password was right.
REMEMBERED = {True: 100, False: 1000}
# How many may wait for a comparison: per address, and in total. The other connections stay available.
MAX_WAITING_OF_ADDRESS = 5
MAX_WAITING = 40


class TooManyWaiting(Exception):
    """Too many passwords wait for a comparison."""


class Passwords:
    """Cached comparisons. The hash is part of the key: they survive a new configuration that keeps a user's hash."""

    def __init__(self) -> None:
        self._key = os.urandom(32)
        self._results: dict[bool, collections.OrderedDict[bytes, None]] = {
            right: collections.OrderedDict() for right in REMEMBERED
        }
        self._waiting: list[str] = []
        self._lock = threading.Lock()
        self._turn = threading.Lock()

    def right(self, name: str, known: str | None, password: str, address: str) -> bool:
        """Return whether the password matches a user's hash; None is the hash of a user who does not exist."""
        code = hmac.new(self._key, repr((name, known, password)).encode("utf-8", "surrogatepass"), "sha256").digest()
        with self._lock:
            result = self._cached(code)
            if result is not None:
                return result
            if len(self._waiting) >= MAX_WAITING or self._waiting.count(address) >= MAX_WAITING_OF_ADDRESS:
                raise TooManyWaiting
            self._waiting.append(address)
        try:
            with self._turn:
                return self._compare(code, known, password)
        finally:
            with self._lock:
                self._waiting.remove(address)

    def _compare(self, code: bytes, known: str | None, password: str) -> bool:
        with self._lock:  # it may have been compared just now
            result = self._cached(code)
        if result is None:
            result = _matches(password, known or _NO_USER) and known is not None
            with self._lock:
                memory = self._results[result]
                memory[code] = None
                if len(memory) > REMEMBERED[result]:
                    memory.popitem(last=False)
        return result

    def _cached(self, code: bytes) -> bool | None:
        for right, memory in self._results.items():
            if code in memory:
                memory.move_to_end(code)
                return right
        return None


def _matches(password: str, known: str) -> bool:
    import bcrypt

    try:
        return bool(bcrypt.checkpw(password.encode("utf-8", "surrogateescape")[:72], known.encode()))
    except ValueError:  # a password with a zero byte
        return False


__all__ = ("MAX_WAITING", "MAX_WAITING_OF_ADDRESS", "REMEMBERED", "Passwords", "TooManyWaiting")
