# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Wait for a sign, not for a time; a limit only ends a test that hangs."""

from __future__ import annotations

import signal
import subprocess
import time
import typing as t
from pathlib import Path

import pytest

T = t.TypeVar("T")


def wait_for(
    condition: t.Callable[[], T], limit: float = 60, *, pause: float = 0.01, report: t.Callable[[], object] = str
) -> T:
    """Return what a condition has become; ``report`` says more where it has not come about."""
    deadline = time.monotonic() + limit
    while not (result := condition()):
        assert time.monotonic() < deadline, f"not so within {limit:g} s {report()}"
        time.sleep(pause)
    return result


def has_ended(pid: int) -> bool:
    """Whether a process has ended, be it waited for or not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[0] in ("Z", "X")
    except (FileNotFoundError, ProcessLookupError):
        return True


def limits_count_from(mark: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the time limit of a program, alarm(2) too, begin when a file is there, and not when the program is started."""

    class Marked(subprocess.Popen):  # type: ignore[type-arg]
        def __init__(self, *arguments: t.Any, **keywords: t.Any) -> None:
            left = signal.alarm(0)
            super().__init__(*arguments, **keywords)
            wait_for(lambda: mark.exists() or self.poll() is not None)
            signal.alarm(left)

    monkeypatch.setattr(subprocess, "Popen", Marked)


__all__ = ["has_ended", "limits_count_from", "wait_for"]
