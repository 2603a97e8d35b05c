# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What trees of processes have worked, and the memory that they have, by /proc."""

from __future__ import annotations

import contextlib
import os
import threading
import typing as t
from pathlib import Path

PROC = Path("/proc")


def children(pid: int, proc: Path = PROC) -> list[int]:
    """Return the processes that a process has started and that are there."""
    pids: list[int] = []
    with contextlib.suppress(OSError):
        for thread in (proc / str(pid) / "task").iterdir():
            pids += [int(word) for word in (thread / "children").read_text().split()]
    return pids


def tree(pid: int, proc: Path = PROC) -> list[int]:
    """Return a process and all below it."""
    pids = [pid]
    for process in pids:
        pids += children(process, proc)
    return pids


def cpu(pid: int, proc: Path = PROC) -> float:
    """Return the processor seconds of a process and of those below it, the ended ones included.

    An ended process is counted in who has waited for it: cutime and cstime of proc_pid_stat(5).
    """
    ticks = 0
    for process in tree(pid, proc):
        with contextlib.suppress(OSError):
            fields = (proc / str(process) / "stat").read_text().rpartition(")")[2].split()
            ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def resident(pids: t.Iterable[int], proc: Path = PROC) -> int:
    """Return the bytes in memory of processes. A page that several share is counted once: proportional set size."""
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            for line in (proc / str(pid) / "smaps_rollup").read_text().splitlines():
                if line.startswith("Pss:"):
                    total += int(line.split()[1]) * 1024
    return total


class Peak:
    """Watches the memory of a process and of its descendants of the same program, and keeps the most."""

    def __init__(self, program: str, every: float = 0.5) -> None:
        self.program = program
        self.every = every
        self.bytes = 0
        self.processes = 0
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def _is(self, pid: int) -> bool:
        try:
            return self.program.encode() in (PROC / str(pid) / "cmdline").read_bytes()
        except OSError:
            return False

    def look(self, pid: int) -> None:
        """Look once."""
        ours = [process for process in tree(pid) if self._is(process)]
        self.bytes, self.processes = max(self.bytes, resident(ours)), max(self.processes, len(ours))

    def watch(self, pid: int) -> None:
        """Look again and again, until `stop`."""

        def turn() -> None:
            while not self._ended.wait(self.every):
                self.look(pid)

        self._thread = threading.Thread(target=turn, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()
        if self._thread:
            self._thread.join()


__all__ = ["Peak", "children", "cpu", "resident", "tree"]
