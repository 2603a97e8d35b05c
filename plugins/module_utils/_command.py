# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""Run a program to its end or to a time limit; then its whole process group is ended, which shell scripts need."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
import typing as t

# Seconds between two calls of ``meanwhile``: most programs end before the first.
MEANWHILE_S = 30.0
# Seconds between SIGTERM and SIGKILL, in which a program may clean up.
GRACE_S = 10.0


# What the PATH of a service often lacks.
DIRECTORIES = ("/usr/local/bin", "/usr/bin", "/usr/local/sbin", "/usr/sbin")


class NotFound(Exception):
    """There is no such program; the text lists the directories that were searched."""


def find(name: str, binary: str | None, option: str, directories: t.Sequence[str] = DIRECTORIES) -> str:
    """Return the path of ``binary``, the value of an option, or of the program ``name``: in PATH or the directories."""
    program = binary or name
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), *directories])
    executable = shutil.which(program, path=path)
    if executable is None:
        if os.sep in program:
            raise NotFound("%s (%s) is not an executable file" % (program, option))
        raise NotFound("%s was not found in %s" % (program, path))
    return executable


class Done(t.NamedTuple):
    """How a program ended: its exit status, negative for a signal, and what it printed."""

    status: int
    out: str
    err: str


class TimedOut(Exception):
    """The program did not end in time, and was killed; ``out`` and ``err`` are what it had printed."""

    def __init__(self, out: str, err: str) -> None:
        super().__init__("timed out")
        self.out = out
        self.err = err


def run(
    argv: t.Sequence[str],
    timeout: float,
    *,
    env: t.Mapping[str, str] | None = None,
    stdin: bytes = b"",
    cwd: str | None = None,
    merged: bool = False,
    handles: t.Sequence[int] = (),
    before: t.Callable[[], None] | None = None,
    started: t.Callable[[int], None] | None = None,
    grace: float = GRACE_S,
    kill_if_interrupted: bool = False,
    meanwhile: t.Callable[[], None] | None = None,
) -> Done:
    """Run a program with a locale of C and return how it ended. Raises OSError if it does not start, and TimedOut.

    ``timeout`` and ``grace`` are seconds. ``env`` replaces the environment; ``merged`` has standard error in ``out``;
    ``handles`` are inherited; ``before`` is called in the child, ``started`` with its PID. A program continues if an
    exception interrupts the wait (Ctrl-C), as kubeadm must, unless ``kill_if_interrupted``. ``meanwhile`` is called
    every half minute while the program runs.
    """
    environment = dict(os.environ if env is None else env, LC_ALL="C")
    process = subprocess.Popen(
        list(argv),
        stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT if merged else subprocess.PIPE,
        env=environment,
        cwd=cwd,
        start_new_session=True,
        pass_fds=tuple(handles),
        preexec_fn=before,  # noqa: PLW1509 (a module has no other threads)
    )
    if started:
        started(process.pid)
    try:
        out, err = _communicate(process, stdin, timeout, meanwhile)
    except subprocess.TimeoutExpired:
        out, err = _end(process, grace)
        raise TimedOut(_text(out), _text(err)) from None
    except BaseException:
        if kill_if_interrupted:
            _kill(process, signal.SIGKILL)
            process.wait()
        raise
    return Done(process.returncode, _text(out), _text(err))


def _communicate(
    process: subprocess.Popen[bytes], stdin: bytes, timeout: float, meanwhile: t.Callable[[], None] | None
) -> tuple[bytes, bytes]:
    if meanwhile is None:
        return process.communicate(stdin or None, timeout=timeout)
    deadline = time.monotonic() + timeout
    text = stdin or None
    while True:
        left = deadline - time.monotonic()
        try:
            return process.communicate(text, timeout=max(0.0, min(MEANWHILE_S, left)))
        except subprocess.TimeoutExpired:
            if left <= MEANWHILE_S:
                raise
        text = None  # communicate takes it once
        meanwhile()


def _end(process: subprocess.Popen[bytes], grace: float) -> tuple[bytes, bytes]:
    for number in (signal.SIGTERM, signal.SIGKILL):
        _kill(process, number)
        try:
            return process.communicate(timeout=grace)
        except subprocess.TimeoutExpired:
            continue
    return b"", b""


def _kill(process: subprocess.Popen[bytes], number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)


def _text(data: bytes | None) -> str:
    return (data or b"").decode("utf-8", "replace")


__all__ = ("DIRECTORIES", "GRACE_S", "Done", "NotFound", "TimedOut", "find", "run")
