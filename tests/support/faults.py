# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What tests have tried to break, and what was lost by it: counted where it is tried, summed by tests/suite.

    with faults.tried("API server", "answers 429") as tally:
        for number in range(100):
            with tally.one(number):
                ...  # what raises is lost; the rest is tried all the same

A test that tries one thing has the marker `fault("kind")` instead, which the plugin of these tests counts.
"""

from __future__ import annotations

import contextlib
import json
import os
import typing as t

import pytest

# Where records go, a line of JSON each; nowhere, unless tests/suite sets it.
VARIABLE = "RDMAOPS_FAULTS"
# So many losses are reported in full.
TOLD = 10


class Tally:
    """How often something was tried, and what was lost."""

    def __init__(self) -> None:
        self.tried = 0
        self.lost: list[str] = []

    @contextlib.contextmanager
    def one(self, label: object) -> t.Iterator[None]:
        """Try one thing: an assertion that does not hold, or an error, is a loss and does not end the test."""
        self.tried += 1
        try:
            yield
        except (Exception, pytest.fail.Exception) as exc:
            self.lost.append(f"{label}: {type(exc).__name__}: {exc}")


def record(kind: str, subject: str, tried: int, lost: int) -> None:
    """Add a line for the sum; several processes may do so at a time (O_APPEND)."""
    path = os.environ.get(VARIABLE)
    if path:
        line = json.dumps({"kind": kind, "what": subject, "tried": tried, "lost": lost}) + "\n"
        with open(path, "a", encoding="utf-8") as stream:
            stream.write(line)


@contextlib.contextmanager
def tried(kind: str, subject: str) -> t.Iterator[Tally]:
    """Count what is tried in this block; afterwards the test fails where something was lost, or nothing was tried."""
    tally = Tally()
    ended = False
    try:
        yield tally
        ended = True
    finally:
        # What ends the block itself is a loss too.
        record(kind, subject, max(1, tally.tried), len(tally.lost) + (not ended))
    if tally.lost:
        losses = "\n".join(tally.lost[:TOLD])
        pytest.fail(f"{subject}: {len(tally.lost)} of {tally.tried} lost:\n{losses}", pytrace=False)
    assert tally.tried, f"{subject}: nothing was tried"


__all__ = ["VARIABLE", "Tally", "record", "tried"]
