# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Shared by the scripts of the workload: their error, atomic writes, rates and results."""

from __future__ import annotations

import contextlib
import json
import math
import os
import statistics
import sys
import time
import typing as t

SCHEMA = 1
# Before the result's JSON on its own line in the log: a pod that has ended still has its log, but no files.
MARK = "RESULT "
# Before a rank's own result, in its log.
RANK_MARK = "RANK "
# The well-known synthetic benchmark prints 1.96 standard deviations behind "+-": where 95 % of the iterations are.
SPREAD = 1.96


class WorkloadError(Exception):
    """An error that the user can fix; its text is the whole message."""


def say(text: str) -> None:
    """Print a line by one write: print() writes its end apart, and mpirun puts the output of all ranks together."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def write_whole(path: str, write: t.Callable[[t.BinaryIO], object]) -> None:
    """Let ``write`` fill ``path`` atomically: readers see the old file or the new one."""
    directory, name = os.path.split(os.path.abspath(path))
    temporary = os.path.join(directory, ".%s.new" % name)
    try:
        os.makedirs(directory, exist_ok=True)
        with open(temporary, "wb") as stream:
            write(stream)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, path)
        # fsync(2): a rename survives a power cut if its directory was written, too.
        handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
    except OSError as exc:
        # If it was never created, the error that matters is raised below.
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise WorkloadError("Writing %s: %s" % (path, exc.strerror or exc)) from exc


class Meter:
    """Images per second while it runs; it is stopped for evaluation and checkpoints."""

    def __init__(self, clock: t.Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._since: float | None = None
        self._seconds = 0.0
        self._images = 0

    def start(self) -> None:
        if self._since is None:
            self._since = self._clock()

    def add(self, images: int) -> None:
        """Count images, if it runs."""
        if self._since is not None:
            self._images += images

    def stop(self) -> None:
        if self._since is not None:
            self._seconds += self._clock() - self._since
            self._since = None

    def lap(self) -> float | None:
        """Return the rate since the last lap and begin a new one; None if there were no images."""
        running = self._since is not None
        self.stop()
        rate = self._images / self._seconds if self._images and self._seconds > 0 else None
        self._seconds, self._images = 0.0, 0
        if running:
            self.start()
        return rate


def clock_text(seconds: float) -> str:
    """Return hours, minutes and seconds, for people."""
    whole = max(0, round(seconds))
    if whole >= 3600:
        return "%d:%02d:%02d" % (whole // 3600, whole // 60 % 60, whole % 60)
    return "%d:%02d" % (whole // 60, whole % 60)


class Summary(t.NamedTuple):
    """Mean and spread of rates; ``stdev`` is the sample's, None for fewer than two."""

    samples: int
    mean: float
    stdev: float | None
    min: float
    max: float


def summarize(samples: t.Sequence[float]) -> Summary | None:
    """Return mean and spread of rates, None if there are none."""
    if not samples:
        return None
    deviation = statistics.stdev(samples) if len(samples) > 1 else None
    return Summary(len(samples), statistics.fmean(samples), deviation, min(samples), max(samples))


def spread(samples: t.Sequence[t.Sequence[float]]) -> dict[str, t.Any]:
    """Return the rates of a result from those that every rank measured at the same times.

    A rate of the whole is the sum of the ranks' rates at one time; per device it is their mean.
    """
    times = min(len(rates) for rates in samples)
    totals = [math.fsum(rates[number] for rates in samples) for number in range(times)]
    each = [total / len(samples) for total in totals]
    summaries = {"images_per_second_per_device": summarize(each), "images_per_second": summarize(totals)}
    return {"samples": each, **{name: summary._asdict() if summary else None for name, summary in summaries.items()}}


def now() -> str:
    """Return the time in the format of the collection's other reports."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def emit(result: dict[str, t.Any], path: str | None) -> None:
    """Print the result on its own line, and write it to ``path`` if given."""
    text = json.dumps(result, allow_nan=False, sort_keys=True)
    say(MARK + text)
    if path:
        pretty = json.dumps(result, allow_nan=False, sort_keys=True, indent=1) + "\n"
        write_whole(path, lambda stream: stream.write(pretty.encode()))


def finite(value: float) -> float | None:
    """Return None for a loss that JSON cannot represent: infinite, or not a number."""
    return value if math.isfinite(value) else None


def end(code: int) -> t.NoReturn:
    """Exit at once.

    A regular exit would wait for threads of a broken process group.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


__all__ = (
    "MARK", "RANK_MARK", "SCHEMA", "SPREAD", "Meter", "Summary", "WorkloadError", "clock_text", "emit", "end", "finite",
    "now", "say", "spread", "summarize", "write_whole",
)  # fmt: skip
