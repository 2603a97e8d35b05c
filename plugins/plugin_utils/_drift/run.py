# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.
"""Pass the run from the callback to the action, and write a report to files.

Ansible forks a worker for every task, so an action has in this module what the callback of the same ansible-playbook
has stored here. Another ansible-playbook, such as one that a task starts, has nothing here.
"""

from __future__ import annotations

import os
import typing as t

from ...module_utils._errors import FabricError
from ...module_utils._files_write import atomic_write
from .page import page
from .report import Recorder, dumps
from .text import metrics

Json = t.Dict[str, t.Any]

# How each file is rendered, and its mode if new: diffs may be of files that others may not read.
FILES: dict[str, tuple[t.Callable[[Json], str], int]] = {
    "report": (dumps, 0o600),
    "html": (page, 0o600),
    "prometheus": (metrics, 0o644),
}


class Run(t.NamedTuple):
    """What the callback has recorded so far, and why files of it could not be written."""

    recorder: Recorder
    problems: dict[str, str]


_runs: list[Run] = []


def publish(run: Run) -> None:
    """Store a run for the actions of this ansible-playbook."""
    _runs[:] = [run]


def current() -> Run | None:
    return _runs[0] if _runs else None


def write(report: Json, paths: t.Mapping[str, str | None]) -> tuple[list[str], dict[str, str]]:
    """Write the files that have a path; return those written, and the problems of the others."""
    written: list[str] = []
    problems: dict[str, str] = {}
    for name, (render, mode) in FILES.items():
        path = paths.get(name)
        if not path:
            continue
        path = os.path.abspath(path)
        try:
            atomic_write(path, render(report), mode)
            written.append(path)
        except (FabricError, OSError, UnicodeError) as exc:
            problems[path] = "%s, the drift report's option '%s'. Name a path that %s may write" % (exc, name, _user())
    return written, problems


def _user() -> str:
    return "the user with the id %d" % os.geteuid()


__all__ = ("FILES", "Run", "current", "publish", "write")
