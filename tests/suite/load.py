# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The processor time that others take of this machine while the tests run, and what that makes of a budget.

Others are the processes that were there before, and their children; and the hypervisor (`steal` in proc_stat(5)).
A process without a parent is counted as one of the tests, which leave daemons behind while they run.
"""

from __future__ import annotations

import contextlib
import os
import time
import typing as t
from pathlib import Path

# Others cannot stretch a budget beyond this factor: four processes that compete for each processor.
MOST = 4.0

TICK = os.sysconf("SC_CLK_TCK")


class Process(t.NamedTuple):
    """What /proc/PID/stat has of a process; `seconds` of processor time, with those of children that were waited for."""

    pid: int
    parent: int
    started: int
    own_seconds: float
    seconds: float


def processes(proc: Path = Path("/proc")) -> dict[int, Process]:
    """Return every process (proc_pid_stat(5))."""
    listed = {}
    for directory in proc.iterdir():
        if not directory.name.isdigit():
            continue
        # A process may end while it is read.
        with contextlib.suppress(OSError, IndexError, ValueError):
            # The command's name is in parentheses and may have some of its own.
            fields = (directory / "stat").read_text(errors="replace").rsplit(")", 1)[1].split()
            user, system, child_user, child_system = (int(field) for field in fields[11:15])
            own = (user + system) / TICK
            process = Process(
                int(directory.name), int(fields[1]), int(fields[19]), own, own + (child_user + child_system) / TICK
            )
            listed[process.pid] = process
    return listed


def _seen(process: Process, look: dict[int, Process]) -> Process | None:
    """Return what another look saw of a process; its number may be another one's there."""
    other = look.get(process.pid)
    return other if other and other.started == process.started else None


def stolen(proc: Path = Path("/proc")) -> float:
    """Return the seconds that the hypervisor gave to other machines since the boot."""
    words = (proc / "stat").read_text().split("\n", 1)[0].split()
    return int(words[8]) / TICK


class Others:
    """The processor time that others have taken since this object was made."""

    def __init__(self, proc: Path = Path("/proc"), pid: int | None = None) -> None:
        self.proc = proc
        # Of the process that all orphans are given to, only its own time is that of others.
        self.reaper = 1
        self.own = os.getpid() if pid is None else pid
        self.last = {process.pid: process for process in processes(proc).values() if process.pid != self.own}
        self.taken = -stolen(proc)

    def _look(self) -> dict[int, Process]:
        """Return the processes of others that live: those of the last look, and what these have started since."""
        living: dict[int, Process] = {}
        for process in sorted(processes(self.proc).values(), key=lambda process: (process.started, process.pid)):
            child = process.parent in living and process.parent != self.reaper and process.pid != self.own
            if child or _seen(process, self.last):
                living[process.pid] = process
        return living

    def _inherited(self, living: dict[int, Process]) -> dict[int, float]:
        """Return what processes that have ended had taken at the last look, by their nearest ancestor that lives.

        The kernel adds the time of a child that was waited for to its parent's.
        """
        inherited: dict[int, float] = {}
        for ended in self.last.values():
            ancestor: Process | None = ended
            while ancestor and not _seen(ancestor, living):
                ancestor = self.last.get(ancestor.parent)
            if ancestor and ancestor is not ended:
                inherited[ancestor.pid] = inherited.get(ancestor.pid, 0.0) + ended.seconds
        return inherited

    def seconds(self) -> float:
        """Return the processor seconds that others have taken: the sum of what each has taken between two looks."""
        living = self._look()
        inherited = self._inherited(living)
        for pid, process in living.items():
            last = _seen(process, self.last)
            if pid == self.reaper:
                self.taken += process.own_seconds - (last.own_seconds if last else 0.0)
            else:
                before = inherited.get(pid, 0.0) + (last.seconds if last else 0.0)
                # The time of a child that was not waited for is lost.
                self.taken += max(0.0, process.seconds - before)
        self.last = living
        return self.taken + stolen(self.proc)


class Pace:
    """How much slower work is than on a machine without others, from a moment on."""

    def __init__(self, others: Others, processors: int | None = None) -> None:
        self.others = others
        self.processors = processors or len(os.sched_getaffinity(0))
        self.began = time.monotonic()
        self.before = others.seconds()

    def share(self) -> float:
        """Return the share of all processors' time that others have taken, 0 to 1."""
        available = (time.monotonic() - self.began) * self.processors
        return min(1.0, (self.others.seconds() - self.before) / available) if available > 0 else 0.0

    def factor(self) -> float:
        """Return by how much a budget is to be multiplied, 1 to `MOST`."""
        return 1 / max(1 / MOST, 1 - self.share())
