# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""Run programs in a pod's container, by a way in that is the container runtime's own.

The two ways in (api.py, crictl.py) open streams; nothing here enters a namespace or opens a path of the
container. What a container prints is bounded, and so is the time: timeout(1) of its image ends a program, the stream is
closed soon after, and what is left is found by a mark in its environment and killed by a second exec.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import signal
import time
import typing as t
import uuid

from .._errors import FabricError
from .stream import DOCUMENT, TEXT, Stream, Tail

# The variable whose value is one measurement's mark, and with what the mark of a server begins.
MARK = "RDMAOPS_FABRIC_CHECK"
SERVER = "server-"
# Of what a program prints, this much of the end is kept.
KEPT = 4 << 20
_KEPT_OF_SERVER = 4096

# Between SIGTERM and SIGKILL of timeout(1); until the stream is closed then; for what was printed before the end.
_GRACE, _SPARE, _DRAIN = 5, 15, 3.0
_SWEEP_S = 30

# 124: coreutils' timeout; 143 and 137: busybox' exits as the program does, by SIGTERM or SIGKILL.
_STOPPED = (124, 137, 143)

# The program's output and errors go to the stream's errors, in their order; its document and its status to the stream's
# output. crictl does not pass the status on, and a program that leaves a child behind does not end the stream.
_RUN = r"""exec 3>&1 >&2; "$@"; printf '\n%s %d\n' "$0" "$?" >&3"""
# A path at which a program may leave a document.
DOCUMENT_PATH = "/proc/self/fd/3"

# $(...) leaves the zero bytes of environ out. What forks meanwhile is found by the next pass.
_SWEEP = r"""
for pass in 1 2 3; do
  for one in /proc/[0-9]*; do
    case $(cat "$one/environ" 2>&1) in *"$1"*) kill -9 "${one#/proc/}";; esac
  done
done
"""


class ContainerError(FabricError):
    """The container does not exist, or nothing can be run in it; the text gives the reason, and what unblocks it."""


class PodExec(t.Protocol):
    """A running container, and how programs are run in it."""

    # What people call it.
    text: str
    # The pod's IP address.
    address: str | None

    def open(self, argv: t.Sequence[str]) -> Stream:
        """Start a program."""


class Done(t.NamedTuple):
    """What came of a program; ``status`` is None if it was stopped at its limit."""

    status: int | None
    text: str
    document: str


def new_mark() -> str:
    return uuid.uuid4().hex


def run(pod_exec: PodExec, argv: t.Sequence[str], limit: float, mark: str, kept: int = KEPT) -> Done:
    """Run a program with ``mark`` in its environment for ``limit`` seconds at most."""
    seconds = max(1, round(limit))
    began = time.monotonic()
    environment = ["env", "LC_ALL=C", "%s=%s" % (MARK, mark)]
    whole = [*environment, "timeout", "-k", str(_GRACE), str(seconds), *argv]
    done = within(pod_exec, whole, seconds + _GRACE + _SPARE, kept)
    if done.status in _STOPPED and time.monotonic() - began >= seconds:
        done = done._replace(status=None)
    if done.status is None:
        sweep(pod_exec, mark)
    return done


def within(pod_exec: PodExec, argv: t.Sequence[str], limit: float, kept: int = KEPT) -> Done:
    """Run a program, and close its stream after ``limit`` seconds."""
    sign = new_mark()
    ended = re.compile(rb"\n%s (\d{1,3})\n\Z" % sign.encode())
    kinds = {DOCUMENT: Tail(kept), TEXT: Tail(kept)}
    stream = pod_exec.open(["sh", "-c", _RUN, sign, *argv])
    word = ""
    match = None
    try:
        deadline = time.monotonic() + limit
        while True:
            left = deadline - time.monotonic()
            if left <= 0:
                break
            part = stream.read(left)
            if part is None:
                continue
            kind, data = part
            if not data:
                word = stream.word()
                break
            if kind in kinds:
                kinds[kind].add(data)
            if match is None:
                match = ended.search(kinds[DOCUMENT].end(64))
                if match:
                    # Its errors come by another way, and may still be on it.
                    deadline = min(deadline, time.monotonic() + _DRAIN)
    finally:
        stream.close()
    text, document = kinds[TEXT].text(), kinds[DOCUMENT].text()
    if match:
        return Done(int(match.group(1)), text, document.rpartition("\n" + sign)[0])
    if time.monotonic() >= deadline:
        return Done(None, text, document)
    output = " ".join((word or text).split())[-300:] or "the stream ended without a status"
    raise ContainerError(
        "Running %s in the %s: %s. Measure again when the pod is Running"
        % (_name(argv), pod_exec.text, output.rstrip("."))
    )


def _name(argv: t.Sequence[str]) -> str:
    """The program, without what is put before it."""
    return argv[argv.index("timeout") + 4] if argv[0] == "env" else argv[0]


def sweep(pod_exec: PodExec, mark: str) -> None:
    """Kill what has the mark."""
    within(pod_exec, ["sh", "-c", _SWEEP, "sh", "%s=%s" % (MARK, mark)], _SWEEP_S, 4096)


class Running:
    """A program that goes on when its caller ends: a process of ours holds its stream, and sweeps up after it."""

    def __init__(self, pod_exec: PodExec, argv: t.Sequence[str], limit: float) -> None:
        self._exec, self._mark = pod_exec, SERVER + new_mark()
        self._answer: dict[str, t.Any] = {}
        self._reader, writer = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            try:
                os.close(self._reader)
                self._hold(argv, limit, writer)
            finally:
                os._exit(0)
        os.close(writer)

    def _hold(self, argv: t.Sequence[str], limit: float, writer: int) -> None:
        os.setsid()
        # A reader of the caller's output must not wait for this.
        null = os.open(os.devnull, os.O_RDWR)
        for handle in (0, 1, 2):
            os.dup2(null, handle)
        try:
            done = run(self._exec, argv, limit, self._mark, _KEPT_OF_SERVER)
            status = 124 if done.status is None else done.status
            answer: dict[str, t.Any] = {"status": status, "text": done.text[-1000:]}
            self._write(writer, answer)
            sweep(self._exec, self._mark)
        except FabricError as exc:
            self._write(writer, {"error": str(exc)})

    @staticmethod
    def _write(writer: int, answer: t.Mapping[str, t.Any]) -> None:
        # The caller may have ended.
        with contextlib.suppress(BrokenPipeError):
            os.write(writer, json.dumps(answer).encode())
        os.close(writer)

    def status(self) -> int | None:
        """Its exit status, 124 if it was stopped at its limit; None while it runs."""
        if not self._answer and select.select([self._reader], [], [], 0)[0]:
            self._answer = json.loads(os.read(self._reader, 1 << 16) or b'{"error": "what held its stream was killed"}')
        if "error" in self._answer:
            raise ContainerError(self._answer["error"])
        return self._answer.get("status")

    def output(self) -> str:
        """The end of what it has printed, once it has ended."""
        return str(self._answer.get("text", ""))

    def stop(self) -> None:
        """End it, and what came of it."""
        os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        os.close(self._reader)
        sweep(self._exec, self._mark)


__all__ = (
    "DOCUMENT_PATH",
    "KEPT",
    "MARK",
    "ContainerError",
    "Done",
    "Running",
    "PodExec",
    "SERVER",
    "new_mark",
    "run",
    "sweep",
    "within",
)
