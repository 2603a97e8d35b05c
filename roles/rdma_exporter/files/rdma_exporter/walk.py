# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Look into one network namespace after the other, in a child process that takes every handle with it when it ends."""

from __future__ import annotations

import errno
import json
import os
import queue
import resource
import select
import signal
import threading
import time
import typing as t

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._rdma import enter
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._rdma.netns import Namespace

Answer = t.Dict[str, t.Any]
Look = t.Callable[[bool], t.Any]


class Hung(Exception):
    """Who was asked has not answered in time."""


class _Call:
    """What a guard's thread is asked for, and what came of it."""

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
    """Calls functions in a thread of its own, and goes on without it when one takes too long.

    A thread whose read() never returns cannot be ended. While it is in there, nothing else is called. The thread stays:
    each new one has memory of its own to fault in (arenas, mallopt(3)), which costs a fifth of a scrape.
    """

    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[_Call] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._last: _Call | None = None

    def call(self, function: t.Callable[[], t.Any], timeout: float) -> t.Any:
        if self._last is not None and not self._last.done.is_set():
            raise Hung("the look of an earlier scrape has still not come back")
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


class Walker:
    """Walks through namespaces, one child for as many as answer; one that does not costs its child and its time."""

    def __init__(self, look: Look, step_into: t.Callable[[Namespace], bool] | None = None) -> None:
        self._look = look
        self._step_into = step_into or into
        # Children that were killed and have not ended: a process in an uninterruptible read ends after it.
        self._stuck: dict[int, int] = {}

    def walk(self, spaces: t.Sequence[Namespace], limit: float, deadline: float) -> dict[int, Answer]:
        """Return by inode what the look returned as {"value"}, or {"errno", "error"}."""
        answers: dict[int, Answer] = {}
        todo = []
        self._reap()
        for space in spaces:
            if space.inode in self._stuck.values():
                answers[space.inode] = failed("the look of an earlier scrape has still not come back")
            else:
                todo.append(space)
        while todo:
            if time.monotonic() >= deadline:
                answers.update({space.inode: failed("no time was left to look into it") for space in todo})
                break
            done = self._child(todo, limit, deadline)
            answers.update(done)
            todo = [space for space in todo if space.inode not in answers]
        return answers

    def _child(self, spaces: t.Sequence[Namespace], limit: float, deadline: float) -> dict[int, Answer]:
        """What one child brings: at least the answer, or the failure, of the first namespace."""
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                _close_all_but(writer)
                self._report(spaces, writer)
            finally:
                os._exit(0)
        os.close(writer)
        answers: dict[int, Answer] = {}
        try:
            lines = _lines(reader, limit, deadline)
            for space in spaces:
                answer = answers[space.inode] = next(lines)
                if "value" not in answer and answer["errno"] in (errno.ETIMEDOUT, errno.ECHILD):
                    self._stuck[child] = space.inode
                    break
        finally:
            os.close(reader)
            self._end(child)
        return answers

    def _report(self, spaces: t.Sequence[Namespace], writer: int) -> None:
        for space in spaces:
            try:
                answer = {"value": self._look(self._step_into(space))}
            except OSError as exc:
                answer = {"errno": exc.errno or 0, "error": str(exc)}
            except Exception as exc:  # becomes an error series
                answer = {"errno": 0, "error": "%s: %s" % (type(exc).__name__, exc)}
            data = json.dumps(answer).encode("utf-8", "surrogatepass") + b"\n"
            while data:
                data = data[os.write(writer, data) :]

    def _end(self, child: int) -> None:
        os.kill(child, signal.SIGKILL)
        self._stuck.setdefault(child, -1)
        until = time.monotonic() + 0.2
        while child in self._stuck and time.monotonic() < until:
            self._reap()
            if child in self._stuck:
                time.sleep(0.001)

    def _reap(self) -> None:
        for child in list(self._stuck):
            try:
                ended = os.waitpid(child, os.WNOHANG)[0]
            except ChildProcessError:
                ended = child
            if ended:
                del self._stuck[child]


def _close_all_but(kept: int) -> None:
    """A connection, or the socket that is listened on, would outlive the parent with a child that hangs."""
    os.closerange(3, kept)
    os.closerange(kept + 1, resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def failed(text: str, code: int = errno.ETIMEDOUT) -> Answer:
    return {"errno": code, "error": text}


def into(space: Namespace) -> bool:
    """Enter a namespace; return whether there is a /sys that shows it."""
    handle = enter.open_namespace(space)
    try:
        try:
            enter.enter(handle, sysfs=True)
            return True
        except enter.EnterError as exc:
            if exc.errno not in (errno.EPERM, errno.EACCES):
                raise
        # A security module may refuse the mount alone (AppArmor's profile for containers does): netlink needs none.
        enter.enter(handle, sysfs=False)
        return False
    finally:
        os.close(handle)


def _lines(reader: int, limit: float, deadline: float) -> t.Iterator[Answer]:
    """One answer after the other; a failure for the one that does not come is the last."""
    rest = b""
    # Not select(2), which takes no descriptor above 1023: the files that are kept open may be more.
    poll = select.poll()
    poll.register(reader, select.POLLIN)
    while True:
        until = min(time.monotonic() + limit, deadline)
        while b"\n" not in rest:
            if not poll.poll(max(0.0, until - time.monotonic()) * 1000):
                yield failed("no answer from inside within %g s" % limit)
                return
            part = os.read(reader, 1 << 20)
            if not part:
                yield failed("the process inside ended without an answer", errno.ECHILD)
                return
            rest += part
        line, _newline, rest = rest.partition(b"\n")
        yield t.cast(Answer, json.loads(line.decode("utf-8", "surrogatepass")))


__all__ = ("Answer", "Guard", "Hung", "Walker", "failed", "into")
