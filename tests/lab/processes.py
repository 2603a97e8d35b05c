# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Programs that run in the background: found in /proc, because a pid file may be a leftover."""

from __future__ import annotations

import contextlib
import os
import pathlib
import select
import signal
import subprocess
import time
import typing as t

from .progress import LabError, tail

PROC = pathlib.Path("/proc")
# When the shell has exited, its child is init's: it leaves no zombie to the program that started it.
START = '"$@" </dev/null >>"$0" 2>&1 & echo $!'


class Process(t.NamedTuple):
    pid: int
    argv: tuple[str, ...]


def find(program: str, directory: pathlib.Path) -> list[Process]:
    """Every process of that program which works on files in that directory."""
    mark = os.fsencode(directory) + b"/"
    matches = []
    for path in PROC.glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().rstrip(b"\0").split(b"\0")
        except OSError:
            continue
        if os.path.basename(words[0]) != os.fsencode(program):
            continue
        if any(word.startswith(mark) or b"=" + mark in word for word in words[1:]):
            matches.append(Process(int(path.parent.name), tuple(os.fsdecode(word) for word in words)))
    return sorted(matches)


def state(pid: int) -> str:
    """The letter of proc_pid_stat(5); empty when there is no such process."""
    try:
        return (PROC / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()[0]
    except OSError:
        return ""


def memory_kib(pid: int) -> int:
    try:
        for line in (PROC / str(pid) / "status").read_text(errors="replace").splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1])
    except OSError:
        pass
    return 0


def start(argv: t.Sequence[str], log: pathlib.Path) -> None:
    """Start a program that outlives this one, holds none of its files and hears none of its signals."""
    log.parent.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        ["sh", "-c", START, str(log), *argv],
        cwd="/",
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=30,
        start_new_session=True,
        check=False,
    )
    if done.returncode:
        raise LabError(f"starting {argv[0]}: {done.stderr.strip()}")


def start_and_wait(
    argv: t.Sequence[str], directory: pathlib.Path, log: pathlib.Path, started: str, limit: float, program: str = ""
) -> None:
    """Start a program that works on files in that directory, and wait until it has logged that it is ready.

    ``program`` is its name, if the command begins with another that becomes it.
    """
    log.unlink(missing_ok=True)
    start(argv, log)
    program = program or os.path.basename(argv[0])
    begun = time.monotonic()
    while started not in (log.read_text(errors="replace") if log.exists() else ""):
        passed = time.monotonic() - begun
        if passed > limit or (passed > 1 and not find(program, directory)):
            raise LabError(f"{program} did not start; the end of {log}:\n{tail(log, 20)}")
        time.sleep(0.1)


def send(program: str, directory: pathlib.Path, number: signal.Signals) -> list[int]:
    """Send a signal to every such process; the answer is a file descriptor of each."""
    handles = []
    for process in find(program, directory):
        with contextlib.suppress(ProcessLookupError):
            handle = os.pidfd_open(process.pid)
            handles.append(handle)
            # What the descriptor stands for does not change any more: look again whether it is ours.
            if process in find(program, directory):
                signal.pidfd_send_signal(handle, number)
    return handles


def ended(handles: t.Sequence[int], limit: float) -> bool:
    """Wait for the end of processes, by their descriptors."""
    end = time.monotonic() + limit
    return all(select.select([handle], [], [], max(0.0, end - time.monotonic()))[0] for handle in handles)


def stop(program: str, directory: pathlib.Path, limit: float) -> bool:
    """End every such process: by request, and by force after a limit; whether there was one."""
    handles: list[int] = []
    try:
        handles = send(program, directory, signal.SIGTERM)
        # A frozen process does not hear the request before it goes on.
        handles += send(program, directory, signal.SIGCONT)
        if not ended(handles, limit):
            handles += send(program, directory, signal.SIGKILL)
            if not ended(handles, 20):
                raise LabError(f"{program} does not end, not even by force")
    finally:
        for handle in handles:
            os.close(handle)
    return bool(handles)


def signal_all(program: str, directory: pathlib.Path, number: signal.Signals) -> bool:
    handles = send(program, directory, number)
    for handle in handles:
        os.close(handle)
    return bool(handles)
