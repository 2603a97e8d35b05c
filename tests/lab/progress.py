# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the lab is doing, on standard error, with the time since it began."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import re
import subprocess
import sys
import time
import typing as t

STARTED = time.monotonic()
# Control sequences and other escape sequences (ECMA-48, 5.4; ECMA-35, 13.2), such as the firmware's reset.
ESCAPE_SEQUENCE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[ -/]*[0-~])")


class LabError(Exception):
    """A failure whose text is all that the reader needs."""


def say(text: str) -> None:
    print(f"[lab {time.monotonic() - STARTED:6.1f}s] {text}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def step(text: str) -> t.Iterator[None]:
    """Announce a step, and tell how long it took; with LAB_TIMES in the environment, that file too, as JSON lines."""
    say(f"{text} ...")
    begun = time.monotonic()
    yield
    took = time.monotonic() - begun
    say(f"{text}: done in {took:.1f} s")
    if os.environ.get("LAB_TIMES"):
        with open(os.environ["LAB_TIMES"], "a", encoding="utf-8") as sink:
            sink.write(json.dumps({"what": text, "seconds": round(took, 3)}) + "\n")


def tail(path: pathlib.Path, lines: int = 40, offset: int = 0) -> str:
    """The last lines of a log, of what was written after `offset`, without what would move or reset a terminal."""
    try:
        with path.open("rb") as log:
            size = log.seek(0, 2)
            log.seek(max(offset, size - 32768))
            data = log.read()
    except FileNotFoundError:
        return ""
    text = ESCAPE_SEQUENCE.sub("", data.decode("utf-8", "replace"))
    printable = ("".join(filter(str.isprintable, line)) for line in text.expandtabs().split("\n"))
    return "\n".join([line for line in printable if line][-lines:])


def run_logged(
    argv: t.Sequence[str], log: pathlib.Path, title: str, limit: float, env: t.Mapping[str, str] | None = None
) -> None:
    """Run a long command: its output goes to a file, a sign of life to the reader every 15 seconds."""
    begun = time.monotonic()
    offset = log.stat().st_size if log.exists() else 0
    with log.open("ab") as out:
        out.write(f"\n$ {' '.join(argv)}\n".encode())
        out.flush()
        child = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, env=env)
        try:
            while True:
                try:
                    code = child.wait(timeout=15)
                    break
                except subprocess.TimeoutExpired:
                    last = tail(log, 1, offset)[:120]
                    say(f"{title}: {time.monotonic() - begun:.0f} s, at: {last}")
                    if time.monotonic() - begun > limit:
                        raise LabError(
                            f"{title}: not finished after {limit:.0f} s; the end of {log}:\n{tail(log, 30, offset)}"
                        ) from None
        finally:
            if child.poll() is None:
                child.terminate()
                try:
                    child.wait(timeout=20)
                except subprocess.TimeoutExpired:
                    child.kill()
                    child.wait()
    if code:
        raise LabError(f"{title}: {argv[0]} ended with {code}; the end of {log}:\n{tail(log, 30, offset)}")
