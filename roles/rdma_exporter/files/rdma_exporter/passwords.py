# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Passwords are compared with their hashes one at a time, and what came of it is remembered, right and wrong.

A comparison takes a twentieth of a second of a processor on purpose. Prometheus' exporter-toolkit does the same
(web/handler.go); here wrong passwords, which anyone can make up, take no place of right ones.
"""

from __future__ import annotations

import collections
import hmac
import os
import threading

# A user who does not exist is compared with this, so that the time does not reveal it. Any hash that no password has.
_NO_USER = "$2b$10$" + "." * 53

# How many are remembered, by whether they were right.
REMEMBERED = {True: 100, False: 1000}
# How many may wait for a comparison: of one address, and in all. The rest of the connections stays free for others.
MAX_WAITING_OF_ADDRESS = 5
MAX_WAITING = 40


class TooManyWaiting(Exception):
    """So many passwords wait to be compared that this one is not."""


class Passwords:
    """What was compared. The hash is part of it: a configuration that leaves a user's hash alone leaves this alone."""

    def __init__(self) -> None:
        self._key = os.urandom(32)
        self._seen: dict[bool, collections.OrderedDict[bytes, None]] = {
            right: collections.OrderedDict() for right in REMEMBERED
        }
        self._waiting: list[str] = []
        self._lock = threading.Lock()
        self._turn = threading.Lock()

    def right(self, name: str, known: str | None, password: str, address: str) -> bool:
        """Whether the password is the one of a user's hash; None is the hash of a user who does not exist."""
        code = hmac.new(self._key, repr((name, known, password)).encode("utf-8", "surrogatepass"), "sha256").digest()
        with self._lock:
            seen = self._remembered(code)
            if seen is not None:
                return seen
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
        with self._lock:  # it may be what was compared just now
            seen = self._remembered(code)
        if seen is None:
            seen = _matches(password, known or _NO_USER) and known is not None
            with self._lock:
                memory = self._seen[seen]
                memory[code] = None
                if len(memory) > REMEMBERED[seen]:
                    memory.popitem(last=False)
        return seen

    def _remembered(self, code: bytes) -> bool | None:
        for right, memory in self._seen.items():
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
