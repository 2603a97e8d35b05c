# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""What programs print, read without a bound on how much they print and with one on how much is kept."""

from __future__ import annotations

import os
import select
import subprocess
import time
import typing as t

# The two streams of a program: its standard output, and its standard error.
DOCUMENT, TEXT = 1, 2
_PART = 1 << 16


class Stream(t.Protocol):
    """A program that has been started, as long as something comes of it."""

    def read(self, seconds: float) -> tuple[int, bytes] | None:
        """What came, and on which stream; None if nothing did within this time. No bytes: it is the end."""

    def word(self) -> str:
        """What is known about the end in addition to the two streams."""

    def close(self) -> None:
        """Let go of it; what still runs on this host is killed."""


class Tail:
    """The end of something long."""

    def __init__(self, kept: int) -> None:
        self._kept = kept
        self._data = bytearray()

    def add(self, data: bytes) -> None:
        self._data += data
        if len(self._data) > 2 * self._kept:
            del self._data[: -self._kept]

    def end(self, size: int) -> bytes:
        return bytes(self._data[-size:])

    def text(self) -> str:
        return self._data[-self._kept :].decode("utf-8", "replace")


class Program:
    """A program of this host."""

    def __init__(self, argv: t.Sequence[str], env: t.Mapping[str, str], *, merged: bool = False) -> None:
        self._process = subprocess.Popen(
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if merged else subprocess.PIPE,
            env=dict(env),
        )
        pipes = [(DOCUMENT, self._process.stdout), (TEXT, self._process.stderr)]
        self._open = {pipe.fileno(): kind for kind, pipe in pipes if pipe}

    def read(self, seconds: float) -> tuple[int, bytes] | None:
        deadline = time.monotonic() + seconds
        while self._open:
            ready, _writable, _failed = select.select(list(self._open), [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                return None
            data = os.read(ready[0], _PART)
            if data:
                return self._open[ready[0]], data
            del self._open[ready[0]]
        return DOCUMENT, b""

    def word(self) -> str:
        return ""

    def status(self, seconds: float) -> int | None:
        """The exit status; None if it does not end within this time."""
        try:
            return self._process.wait(max(0.0, seconds))
        except subprocess.TimeoutExpired:
            return None

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdout, self._process.stderr):
            if pipe:
                pipe.close()


__all__ = ("DOCUMENT", "TEXT", "Program", "Stream", "Tail")
