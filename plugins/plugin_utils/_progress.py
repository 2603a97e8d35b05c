# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.

"""Show how long a task has been at work, while its module runs.

A module cannot print: what it writes is its result. The action that starts it can, from a thread beside it.
"""

from __future__ import annotations

import abc
import contextlib
import threading
import time
import typing as t

from ansible.plugins.action.normal import ActionModule as NormalAction

INTERVAL_S = 60


def clock(seconds: float) -> str:
    """Return hours, minutes and seconds."""
    return "%d:%02d:%02d" % (seconds // 3600, seconds // 60 % 60, seconds % 60)


@contextlib.contextmanager
def progress(display: t.Any, text: str) -> t.Iterator[None]:
    """Show the time and a text every minute, until the body has ended."""
    ended = threading.Event()
    began = time.monotonic()

    def show() -> None:
        while not ended.wait(INTERVAL_S):
            # Not to standard output, which a program may read.
            display.display("%s %s" % (clock(time.monotonic() - began), text), stderr=True)

    thread = threading.Thread(target=show, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def at_most(arguments: t.Mapping[str, t.Any], option: str) -> str:
    """Return the limit of a wait, if the task sets one."""
    return ", for at most %s s" % arguments[option] if option in arguments else ""


class WaitingAction(NormalAction):
    """An action that runs the module of its name as Ansible would without it, and shows progress."""

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        """Return what the module returns."""
        host = (task_vars or {}).get("inventory_hostname", "")
        text = "the task is at work" if self._task.no_log else self.doing(self._task.args)
        with progress(self._display, "%s: %s" % (host, text)):
            result: dict[str, t.Any] = super().run(tmp, task_vars)
        return result

    @abc.abstractmethod
    def doing(self, arguments: t.Mapping[str, t.Any]) -> str:
        """Return what the module does or waits for, and for how long at most."""


__all__ = ("WaitingAction", "at_most", "clock", "progress")
