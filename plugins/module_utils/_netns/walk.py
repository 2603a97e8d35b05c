# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.
"""Look into many network namespaces within a time, those first that matter most.

Every user may make thousands of them (user_namespaces(7)), and a namespace that a user made has no RDMA device but one
that root has moved there.
"""

from __future__ import annotations

import errno
import os
import resource
import time
import typing as t

from . import enter, nsfs
from .child import Answer, Child, attempt, failed, say

if t.TYPE_CHECKING:  # pragma: no cover
    from .survey import Namespace

__all__ = ("NOT_REACHED", "Walker", "look_into", "unreached", "values")

# For one namespace, and for all of them, in a module. What runs every few seconds gives less.
LIMIT_S, TOTAL_S = 10.0, 60.0
NOT_REACHED = "no time was left to look into it"


class Walker:
    """One child for as many namespaces as answer; one that does not costs its child and its time.

    ``look`` is called in each, with what ``step_into`` has returned.
    """

    def __init__(self, look: t.Callable[[t.Any], t.Any], step_into: t.Callable[[Namespace], t.Any]) -> None:
        self._look = look
        self._step_into = step_into
        # Children that were killed and have not ended: a process in an uninterruptible read ends after it.
        self._stuck: dict[int, Child] = {}

    def walk(self, spaces: t.Sequence[Namespace], limit: float, deadline: float) -> dict[int, Answer]:
        """Return by inode what the look returned as {"value"}, or {"errno", "error"}."""
        self._stuck = {inode: child for inode, child in self._stuck.items() if not child.ended()}
        answers = {
            space.inode: failed("an earlier look into it has not returned yet", errno.ETIMEDOUT)
            for space in spaces
            if space.inode in self._stuck
        }
        while True:
            todo = [space for space in spaces if space.inode not in answers]
            if not todo:
                return answers
            if time.monotonic() >= deadline:
                return {**answers, **{space.inode: failed(NOT_REACHED, errno.ETIMEDOUT) for space in todo}}
            answers.update(self._ask_child(todo, limit, deadline))

    def _ask_child(self, spaces: t.Sequence[Namespace], limit: float, deadline: float) -> dict[int, Answer]:
        """What one child brings: at least an answer, or the failure, of one namespace."""
        answers: dict[int, Answer] = {}
        at, lost = spaces[0].inode, None
        with Child(lambda writer: self._report(spaces, writer)) as child:
            while lost is None and len(answers) < len(spaces):
                try:
                    inode, answer = child.answer(min(time.monotonic() + limit, deadline))
                except TimeoutError:
                    lost = failed("no answer from inside within %g s" % limit, errno.ETIMEDOUT)
                except EOFError:
                    lost = failed("the process inside exited without an answer", errno.ECHILD)
                else:
                    if answer is None:
                        at = inode  # it begins with this one
                    else:
                        answers[inode] = answer
        if lost is not None:
            answers[at] = lost
            if not child.ended():
                self._stuck[at] = child
        return answers

    def _report(self, spaces: t.Sequence[Namespace], writer: int) -> None:
        # A connection, or a socket that is listened on, would outlive the parent with a child that hangs.
        os.closerange(3, writer)
        os.closerange(writer + 1, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
        for space in _in_order(spaces, writer):
            say(writer, [space.inode, None])
            say(writer, [space.inode, attempt(lambda: self._look(self._step_into(space)))])  # noqa: B023


def _in_order(spaces: t.Sequence[Namespace], writer: int) -> t.Iterator[Namespace]:
    """Those of pods, then those that root has made, then those of users."""
    rest: list[Namespace] = []
    named: list[Namespace] = []
    for space in spaces:
        if any(holder.pod for holder in space.holders):
            yield space
        else:
            mounted = any(holder.kind == "mount" and not holder.foreign for holder in space.holders)
            (named if mounted else rest).append(space)
    yield from named
    users = []
    for space in rest:
        say(writer, [space.inode, None])
        if _is_a_users(space):
            users.append(space)
        else:
            yield space
    yield from users


def _is_a_users(space: Namespace) -> bool:
    try:
        handle = enter.open_here(space)
    except OSError:
        return True
    try:
        return nsfs.owner(handle) != nsfs.INITIAL_USER
    finally:
        os.close(handle)


def look_into(
    spaces: t.Sequence[Namespace], function: t.Callable[[], t.Any], limit: float = LIMIT_S, total: float = TOTAL_S
) -> dict[int, Answer]:
    """Call ``function``, which may read /sys, in each namespace. As Walker.walk()."""
    visitor = enter.Visitor()
    walker = Walker(lambda _nothing: function(), lambda space: visitor.visit(space, sysfs=True))
    return walker.walk(spaces, limit, time.monotonic() + total)


def values(
    spaces: t.Sequence[Namespace], answers: t.Mapping[int, Answer]
) -> tuple[list[tuple[Namespace, t.Any]], str | None]:
    """Return each namespace that answered with its value, and why one did not; None if all did."""
    problem = unreached(spaces, answers)
    pairs = []
    for space in spaces:
        answer = answers[space.inode]
        if "value" in answer:
            pairs.append((space, answer["value"]))
        else:
            problem = problem or answer["error"]
    return pairs, problem


def unreached(spaces: t.Sequence[Namespace], answers: t.Mapping[int, Answer]) -> str | None:
    """Which namespaces no time was left for, in a sentence."""
    names = [
        space.name or "net:[%d]" % space.inode for space in spaces if answers[space.inode].get("error") == NOT_REACHED
    ]
    if not names:
        return None
    more = " and %d more" % (len(names) - 3) if len(names) > 3 else ""
    return "No time was left to look into %d of %d network namespaces: %s%s" % (
        len(names), len(spaces), ", ".join(names[:3]), more,
    )  # fmt: skip
