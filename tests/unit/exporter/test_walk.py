# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Walking through namespaces that answer, hang, break or go. Real ones are entered in tests/integration/exporter."""

from __future__ import annotations

import errno
import os
import threading
import time
import typing as t

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._rdma.netns import Namespace
from ansible_collections.rdmaops.gpu_fabric.roles.rdma_exporter.files.rdma_exporter import walk

SPACES = [Namespace(number, f"n{number}", [], 1) for number in range(1, 6)]


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


def go(one: walk.Walker, limit: float = 0.5, total: float = 30.0) -> dict[int, t.Any]:
    answers = one.walk(SPACES, limit, time.monotonic() + total)
    return {inode: answer.get("value", answer.get("error")) for inode, answer in answers.items()}


def no_children() -> bool:
    try:
        os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return True
    return False


def test_all_answer_from_one_child() -> None:
    pids = dict.fromkeys(("n1", "n5"), os.getpid)
    found = go(walker(**pids))
    assert found[1] == found[5] != os.getpid()
    assert (found[2], found[3], found[4]) == (2, 3, 4)
    assert no_children()


def test_one_that_hangs_stops_nobody() -> None:
    began = time.monotonic()
    one = walker(n2=lambda: time.sleep(60), n4=lambda: time.sleep(60))
    hung = "no answer from inside within 0.5 s"
    assert go(one) == {1: 1, 2: hung, 3: 3, 4: hung, 5: 5}
    assert time.monotonic() - began < 20
    assert no_children()
    # What could be killed is asked again by the next scrape.
    assert go(one) == {1: 1, 2: hung, 3: 3, 4: hung, 5: 5}


def test_one_that_cannot_be_killed_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process in an uninterruptible read outlives SIGKILL until the read comes back."""
    one = walker(n3=lambda: time.sleep(60))
    killed: list[int] = []
    real = os.kill
    monkeypatch.setattr(os, "kill", lambda pid, number: killed.append(pid))
    assert go(one)[3] == "no answer from inside within 0.5 s"
    assert 3 in one._stuck.values()
    again = go(one)
    assert again[3] == "the look of an earlier scrape has still not come back"
    assert {1: again[1], 5: again[5]} == {1: 1, 5: 5}
    monkeypatch.setattr(os, "kill", real)
    for pid in one._stuck:
        real(pid, 9)
    until = time.monotonic() + 20
    while one._stuck and time.monotonic() < until:
        one._reap()
    assert not one._stuck
    assert no_children()


def test_one_that_breaks() -> None:
    def missing() -> t.Any:
        raise OSError(errno.ENOENT, "what kept it is gone")

    def wrong() -> t.Any:
        raise ValueError("no number")

    found = go(walker(n1=missing, n2=wrong, n3=lambda: os._exit(3)))
    assert found == {
        1: "[Errno 2] what kept it is gone",
        2: "ValueError: no number",
        3: "the process inside ended without an answer",
        4: 4,
        5: 5,
    }
    assert no_children()


def test_a_scrape_ends_in_time() -> None:
    began = time.monotonic()
    found = go(walker(**{f"n{number}": lambda: time.sleep(60) for number in range(1, 6)}), limit=2, total=1)
    assert time.monotonic() - began < 10
    assert set(found.values()) == {"no answer from inside within 2 s", "no time was left to look into it"}


def test_a_child_has_nothing_of_the_parents_open() -> None:
    reader, writer = os.pipe()
    try:
        found = go(walker(n1=lambda: sorted(int(name) for name in os.listdir("/proc/self/fd"))))
    finally:
        os.close(reader)
        os.close(writer)
    # Its own pipe, and what the list is read from.
    assert len([number for number in found[1] if number > 2]) == 2


def test_answers_of_any_size() -> None:
    assert go(walker(n2=lambda: "x" * 3_000_000), limit=20)[2] == "x" * 3_000_000


def test_the_guard_goes_on_without_who_hangs() -> None:
    guard = walk.Guard()
    assert guard.call(lambda: 7, 5) == 7
    with pytest.raises(ValueError, match="no number"):
        guard.call(lambda: int("no number"), 5)
    come_back = threading.Event()
    with pytest.raises(walk.Hung, match=r"no answer within 0.1 s"):
        guard.call(come_back.wait, 0.1)
    with pytest.raises(walk.Hung, match="earlier scrape has still not come back"):
        guard.call(lambda: 7, 5)
    come_back.set()
    until = time.monotonic() + 20
    while time.monotonic() < until:
        try:
            assert guard.call(lambda: 7, 5) == 7
            break
        except walk.Hung:
            time.sleep(0.01)
    else:
        pytest.fail("the guard did not recover")
