# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.

"""What the parts of a fabric report have in common: verdicts, tests and texts."""

from __future__ import annotations

import math
import typing as t

PASS = "pass"
UNKNOWN = "unknown"
FAIL = "fail"
VERDICTS = (PASS, UNKNOWN, FAIL)  # the worst last

# Between two ends; of these, which measure a bandwidth.
RPING = "rping"
CUDA = "ib_write_bw_cuda"
BANDWIDTHS = ("ib_write_bw", "ib_write_bw_cm", CUDA)
TESTS = (RPING, *BANDWIDTHS)
# Of one end.
CHECKS = ("ibv_devinfo", "memlock")
# Of all together.
NCCL = "nccl_tests"
WANTED = (*TESTS, *CHECKS, NCCL)

# Why a result is missing, if nothing else explains it.
NO_RESULT = "no result came back"
CHECK_MODE = "nothing is measured in check mode"

ACTIVE = "ACTIVE"
ABSENT = "absent"

Json = t.Dict[str, t.Any]


def worst(verdicts: t.Iterable[str]) -> str:
    """Return the worst of some verdicts; of none, pass."""
    return max(verdicts, key=VERDICTS.index, default=PASS)


def printable(text: str) -> str:
    """Return text on one line: what is not to be seen, or moves the cursor, as an escape."""
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode("ascii")
        for character in text
    )


def short(text: str, limit: int = 200) -> str:
    """Return the beginning of a long text."""
    return text if len(text) <= limit else text[:limit] + "..."


def some(texts: t.Sequence[str], number: int = 4) -> str:
    """Return the first of some texts, and how many there are more."""
    # One more takes no more room than the count of one more.
    if len(texts) <= number + 1:
        return ", ".join(texts)
    return "%s and %d more" % (", ".join(texts[:number]), len(texts) - number)


def percent(share: float, digits: int = 1) -> str:
    """Return a share in percent, rounded down, so that nothing below a limit reads as if it reached it."""
    factor = 10**digits
    return "%.*f%%" % (digits, math.floor(share * 100 * factor + 1e-6) / factor)


def bound(share: float) -> str:
    """Return a limit in percent, with the digits it has."""
    return "%.6g%%" % (share * 100)


def speed(gbps: float) -> str:
    """Return a rate with its significant digits only."""
    return "%.1f" % gbps if gbps >= 1 or gbps == 0 else "%.3g" % gbps


def show(value: t.Any, unit: str = "") -> str:
    return (printable(value) if isinstance(value, str) else "%g" % value) + unit


__all__ = (
    "ABSENT",
    "ACTIVE",
    "BANDWIDTHS",
    "CHECKS",
    "CUDA",
    "FAIL",
    "Json",
    "NCCL",
    "PASS",
    "RPING",
    "TESTS",
    "UNKNOWN",
    "VERDICTS",
    "WANTED",
    "bound",
    "percent",
    "printable",
    "short",
    "show",
    "some",
    "speed",
    "worst",
)
