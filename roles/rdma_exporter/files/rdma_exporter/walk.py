# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads the own namespace in a thread, and the others in children (module_utils/_netns/walk.py)."""

from __future__ import annotations

import errno
import queue
import threading
import typing as t

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._netns import enter
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._netns.survey import Namespace
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._netns.walk import Walker


class Hung(Exception):
    """The call has not returned in time."""


class _Call:
    """A call for a guard's thread, and its result."""

    def __init__(self, function: t.Callable[[], t.Any]) -> None:
        self.function = function
        self.done = threading.Event()
        self.value: t.Any = None
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self.value = self.function()
        except BaseException as exc:
            self.error = exc
        self.done.set()


class Guard:
    """Calls functions in its own thread, and stops waiting if one takes too long.

    A thread whose read() never returns cannot be ended. Until it returns, nothing else is called. The thread is reused:
    each new one faults in its own memory (arenas, mallopt(3)), which costs a fifth of a scrape.
    """

    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[_Call] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._last: _Call | None = None

    def call(self, function: t.Callable[[], t.Any], timeout: float) -> t.Any:
        if self._last is not None and not self._last.done.is_set():
            raise Hung("the look of an earlier scrape has not returned yet")
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, daemon=True)
            self._thread.start()
        call = self._last = _Call(function)
        self._calls.put(call)
        if not call.done.wait(timeout):
            raise Hung("no answer within %g s" % timeout)
        self._last = None
        if call.error is not None:
            raise call.error
        return call.value

    def _serve(self) -> None:
        while True:
            self._calls.get().run()


def walker(look: t.Callable[[bool], t.Any]) -> Walker:
    """Return a walker; ``look`` gets whether there is a /sys that shows the namespace."""
    visitor = enter.Visitor()

    def step_into(space: Namespace) -> bool:
        try:
            visitor.visit(space, sysfs=True)
            return True
        except enter.EnterError as exc:
            if exc.errno not in (errno.EPERM, errno.EACCES):
                raise
        # A security module may refuse only the mount (AppArmor's profile for containers does): netlink needs none.
        visitor.visit(space, sysfs=False)
        return False

    return Walker(look, step_into)


__all__ = ("Guard", "Hung", "Walker", "walker")
