# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.
"""A child process for what may never come back: it is given up after a time, and takes all that it had open with it."""

from __future__ import annotations

import json
import os
import select
import signal
import time
import typing as t

__all__ = ("Answer", "Child", "attempt", "failed", "say")

# What came of something that a child did: {"value"}, or {"errno", "error"}.
Answer = t.Dict[str, t.Any]

_PR_SET_PDEATHSIG = 1
_END_S = 0.2


def failed(text: str, code: int) -> Answer:
    return {"errno": code, "error": text}


def attempt(function: t.Callable[[], t.Any]) -> Answer:
    try:
        return {"value": function()}
    except OSError as exc:
        return failed(str(exc), exc.errno or 0)
    except Exception as exc:  # the parent reports it
        return failed("%s: %s" % (type(exc).__name__, exc), 0)


def say(writer: int, value: t.Any) -> None:
    """Send the parent a value (JSON)."""
    data = json.dumps(value).encode("utf-8", "surrogatepass") + b"\n"
    while data:
        data = data[os.write(writer, data) :]


class Child:
    """A fork that runs ``work``, which gets the descriptor to say() its values to. It is killed at the end of ``with``.

    A process in an uninterruptible read outlives SIGKILL until the read comes back. That is not waited for.
    """

    _leftovers: t.ClassVar[list[Child]] = []

    def __init__(self, work: t.Callable[[int], None]) -> None:
        Child._leftovers[:] = [child for child in Child._leftovers if not child.ended()]
        self._rest = b""
        self._over = False
        self._reader, writer = os.pipe()
        parent = os.getpid()
        self.pid = os.fork()
        if self.pid == 0:
            # Nothing of the parent's is to run here: no handlers, no buffers, no result printed twice.
            try:
                os.close(self._reader)
                _end_with(parent)
                work(writer)
            finally:
                os._exit(0)
        os.close(writer)

    def answer(self, until: float) -> t.Any:
        """The next value. TimeoutError: it did not come by then (time.monotonic()); EOFError: the child has ended."""
        # Not select(2), which takes no descriptor above 1023.
        poll = select.poll()
        poll.register(self._reader, select.POLLIN)
        while b"\n" not in self._rest:
            if not poll.poll(max(0.0, until - time.monotonic()) * 1000):
                raise TimeoutError
            part = os.read(self._reader, 1 << 20)
            if not part:
                raise EOFError
            self._rest += part
        line, _newline, self._rest = self._rest.partition(b"\n")
        return json.loads(line.decode("utf-8", "surrogatepass"))

    def ended(self) -> bool:
        if not self._over:
            try:
                self._over = os.waitpid(self.pid, os.WNOHANG)[0] != 0
            except ChildProcessError:
                self._over = True
        return self._over

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_exception: object) -> None:
        os.close(self._reader)
        if not self.ended():
            os.kill(self.pid, signal.SIGKILL)
        until = time.monotonic() + _END_S
        while not self.ended() and time.monotonic() < until:
            time.sleep(0.001)
        if not self.ended():
            Child._leftovers.append(self)


def _end_with(parent: int) -> None:
    """A child whose parent was killed keeps no namespace either (PR_SET_PDEATHSIG(2const))."""
    import ctypes

    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(0)
