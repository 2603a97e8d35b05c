# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Walking through namespaces that answer, hang, break or go. Real ones are entered in tests/integration/exporter."""

from __future__ import annotations

import errno
import mmap
import os
import resource
import select
import threading
import time
import typing as t

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._netns.child import Child
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._netns.survey import Namespace
from ansible_collections.rdmaops.gpu_fabric.roles.rdma_exporter.files.rdma_exporter import walk
from ansible_collections.rdmaops.gpu_fabric.tests.support.waiting import wait_for

SPACES = [Namespace(number, f"n{number}", [], 1) for number in range(1, 6)]


@pytest.fixture
def hang(monkeypatch: pytest.MonkeyPatch) -> t.Callable[[], None]:
    """A look that does not come back. The limit is over when it is called, and only then."""
    called = mmap.mmap(-1, 1)  # shared with the children
    poll = select.poll

    class Poll:
        def __init__(self) -> None:
            self.poller = poll()
            self.register = self.poller.register

        def poll(self, milliseconds: float) -> list[tuple[int, int]]:
            over = False
            while not over:
                over = called[0] == 1
                # The answers of before the call are in the pipe by now.
                ready = self.poller.poll(0 if over else 5)
                if ready:
                    return ready
            called[0] = 0
            return []

    def look() -> None:
        called[0] = 1
        time.sleep(600)

    monkeypatch.setattr(select, "poll", Poll)
    return look


def walker(**behaviour: t.Callable[[], t.Any]) -> walk.Walker:
    """A walker in whose namespaces the given functions are called; the others answer with their number."""
    here: list[Namespace] = []

    def step_into(space: Namespace) -> bool:
        here[:] = [space]
        return True

    def look(has_sysfs: bool) -> t.Any:
        assert has_sysfs
        return behaviour.get(here[0].name or "", lambda: here[0].inode)()

    return walk.Walker(look, step_into)


def go(walker: walk.Walker, limit: float = 20.0, total: float = 60.0) -> dict[int, t.Any]:
    answers = walker.walk(SPACES, limit, time.monotonic() + total)
    return {inode: answer.get("value", answer.get("error")) for inode, answer in answers.items()}


@pytest.fixture(autouse=True)
def children(monkeypatch: pytest.MonkeyPatch) -> t.Iterator[list[int]]:
    """The processes that a test's walkers make; at the end none is left."""
    pids: list[int] = []
    walkers: list[walk.Walker] = []
    fork, init = os.fork, walk.Walker.__init__

    def recorded_fork() -> int:
        pids.append(fork())
        return pids[-1]

    def recorded_init(walker: walk.Walker, *arguments: t.Any) -> None:
        init(walker, *arguments)
        walkers.append(walker)

    monkeypatch.setattr(os, "fork", recorded_fork)
    monkeypatch.setattr(walk.Walker, "__init__", recorded_init)
    yield pids
    for walker in walkers:
        # Called before the next turn of the loop.
        wait_for(lambda: reaped(walker))  # noqa: B023
    # On a busy machine, a killed child outlives the walk.
    wait_for(lambda: all(child.ended() for child in Child._leftovers))
    for pid in pids:
        with pytest.raises(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)


def reaped(walker: walk.Walker) -> bool:
    """Whether all have ended that were killed: a walk waits for that only for a moment."""
    return all(child.ended() for child in walker._stuck.values())


def test_all_answer_from_one_child(children: list[int]) -> None:
    pids = dict.fromkeys(("n1", "n5"), os.getpid)
    answers = go(walker(**pids))
    assert answers[1] == answers[5] == children[0]
    assert (answers[2], answers[3], answers[4]) == (2, 3, 4)
    assert len(children) == 1


def test_one_that_hangs_stops_no_other(hang: t.Callable[[], None]) -> None:
    subject = walker(n2=hang, n4=hang)
    hung = "no answer from inside within 20 s"
    assert go(subject) == {1: 1, 2: hung, 3: 3, 4: hung, 5: 5}
    wait_for(lambda: reaped(subject))
    # What could be killed is asked again by the next scrape.
    assert go(subject) == {1: 1, 2: hung, 3: 3, 4: hung, 5: 5}


def test_one_that_cannot_be_killed_is_left_alone(hang: t.Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """A process in an uninterruptible read outlives SIGKILL until the read comes back."""
    subject = walker(n3=hang)
    real = os.kill
    monkeypatch.setattr(os, "kill", lambda pid, number: None)
    assert go(subject)[3] == "no answer from inside within 20 s"
    assert 3 in subject._stuck
    again = go(subject)
    assert again[3] == "an earlier look into it has not returned yet"
    assert {1: again[1], 5: again[5]} == {1: 1, 5: 5}
    monkeypatch.setattr(os, "kill", real)
    for child in subject._stuck.values():
        real(child.pid, 9)
    wait_for(lambda: reaped(subject))


def test_one_that_breaks() -> None:
    def missing() -> t.Any:
        raise OSError(errno.ENOENT, "its holder is gone")

    def wrong() -> t.Any:
        raise ValueError("no number")

    answers = go(walker(n1=missing, n2=wrong, n3=lambda: os._exit(3)))
    errors = ["[Errno 2] its holder is gone", "ValueError: no number", "the process inside exited without an answer"]
    assert answers == {**dict(enumerate(errors, 1)), 4: 4, 5: 5}


def test_a_scrape_ends_in_time() -> None:
    began = time.monotonic()
    answers = go(walker(**{f"n{number}": lambda: time.sleep(600) for number in range(1, 6)}), limit=2, total=1)
    assert time.monotonic() - began < 10
    assert set(answers.values()) == {"no answer from inside within 2 s", "no time was left to look into it"}


def test_a_child_has_nothing_of_the_parents_open() -> None:
    reader, writer = os.pipe()
    try:
        answers = go(walker(n1=lambda: sorted(int(name) for name in os.listdir("/proc/self/fd"))))
    finally:
        os.close(reader)
        os.close(writer)
    # Its own pipe, and what the list is read from.
    assert len([number for number in answers[1] if number > 2]) == 2


def test_more_open_files_than_select_takes() -> None:
    """The exporter keeps a file open for each counter, and FD_SETSIZE is 1024 (select(2))."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (2048, hard))
    held = [os.open(os.devnull, os.O_RDONLY)]
    try:
        while held[-1] < 1023:
            held.append(os.open(os.devnull, os.O_RDONLY))
        assert go(walker()) == {1: 1, 2: 2, 3: 3, 4: 4, 5: 5}
    finally:
        for descriptor in held:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_answers_of_any_size() -> None:
    assert go(walker(n2=lambda: "x" * 3_000_000))[2] == "x" * 3_000_000


def test_the_guard_goes_on_without_who_hangs() -> None:
    guard = walk.Guard()
    assert guard.call(lambda: 7, 60) == 7
    with pytest.raises(ValueError, match="no number"):
        guard.call(lambda: int("no number"), 60)
    come_back = threading.Event()
    with pytest.raises(walk.Hung, match=r"no answer within 0.1 s"):
        guard.call(come_back.wait, 0.1)
    with pytest.raises(walk.Hung, match="earlier scrape has not returned yet"):
        guard.call(lambda: 7, 5)
    come_back.set()
    assert guard._last
    assert guard._last.done.wait(60)
    assert guard.call(lambda: 7, 60) == 7
