# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.

"""Verdicts, tests and text functions for all parts of a fabric report."""

from __future__ import annotations

import math
import typing as t

PASS = "pass"
UNKNOWN = "unknown"
FAIL = "fail"
VERDICTS = (PASS, UNKNOWN, FAIL)  # the worst last

# Tests between two ends, some of which measure a bandwidth.
RPING = "rping"
CUDA = "ib_write_bw_cuda"
BIDIRECTIONAL = "ib_write_bw_bidirectional"
BANDWIDTHS = ("ib_write_bw", BIDIRECTIONAL, "ib_write_bw_all_rails", "ib_write_bw_cm", CUDA)
LATENCY = "ib_send_lat"
TESTS = (RPING, LATENCY, *BANDWIDTHS)
# Tests of one end.
CHECKS = ("ibv_devinfo", "memlock")
# The test of all nodes together.
NCCL = "nccl_tests"
WANTED = (*TESTS, *CHECKS, NCCL)

# Why a result is missing, if nothing else explains it.
NO_RESULT = "no result came back"
CHECK_MODE = "nothing is measured in check mode"

ACTIVE = "ACTIVE"
ABSENT = "absent"

Json = t.Dict[str, t.Any]


def worst(verdicts: t.Iterable[str]) -> str:
    """Return the worst verdict, or pass if there is none."""
    return max(verdicts, key=VERDICTS.index, default=PASS)


def severity(verdicts: t.Sequence[str]) -> tuple[int, int]:
    """Return a key to sort groups of measurements: the worst verdict first, then the one with most of it."""
    verdict = worst(verdicts)
    return -VERDICTS.index(verdict), 0 if verdict == PASS else -sum(each == verdict for each in verdicts)


def badness(entry: t.Mapping[str, t.Any]) -> tuple[int, float]:
    """Return a key to sort measurements: the worst verdict first, then the smallest share of the link's rate."""
    return -VERDICTS.index(entry["verdict"]), 1.0 if entry["share"] is None else entry["share"]


def printable(text: str) -> str:
    """Return text on one line: invisible and control characters are escaped."""
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode("ascii")
        for character in text
    )


def short(text: str, limit: int = 200) -> str:
    """Return the beginning of a long text."""
    return text if len(text) <= limit else text[:limit] + "..."


def percent(share: float, digits: int = 1) -> str:
    """Return a share in percent, rounded down, so that a value below a limit never looks equal to it."""
    factor = 10**digits
    return "%.*f%%" % (digits, math.floor(share * 100 * factor + 1e-6) / factor)


def bound(share: float) -> str:
    """Return a limit in percent, without trailing zeros."""
    return "%.6g%%" % (share * 100)


def speed(gbps: float) -> str:
    """Return a rate with significant digits only."""
    return "%.1f" % gbps if gbps >= 1 or gbps == 0 else "%.3g" % gbps


def show(value: t.Any, unit: str = "") -> str:
    return (printable(value) if isinstance(value, str) else "%g" % value) + unit


__all__ = (
    "ABSENT",
    "ACTIVE",
    "BANDWIDTHS",
    "BIDIRECTIONAL",
    "CHECKS",
    "CUDA",
    "FAIL",
    "LATENCY",
    "Json",
    "NCCL",
    "PASS",
    "RPING",
    "TESTS",
    "UNKNOWN",
    "VERDICTS",
    "WANTED",
    "badness",
    "bound",
    "percent",
    "printable",
    "severity",
    "short",
    "show",
    "speed",
    "worst",
)
