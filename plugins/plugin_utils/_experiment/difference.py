# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.

"""How much faster is one run than another, and is that more than noise?"""

from __future__ import annotations

import math
import statistics
import typing as t

from .run import SAME

Json = t.Mapping[str, t.Any]

CONFIDENCE = 0.95
# With two measurements each, a single value decides.
FEWEST = 3


class Difference(t.NamedTuple):
    """The difference of the second rate from the first, in percent of the first.

    ``low`` and ``high`` bound the true difference with 95 % confidence, None if they are not known.
    """

    percent: float
    low: float | None
    high: float | None

    @property
    def verdict(self) -> str:
        if self.low is None or self.high is None:
            return "unknown"
        if self.low <= 0 <= self.high:
            return "noise"
        return "faster" if self.percent > 0 else "slower"


def student(degrees: float) -> float:
    """Return how many standard errors of a mean hold 95 % of Student's distribution.

    Exact for two degrees of freedom, else the expansion of Cornish and Fisher (Abramowitz and Stegun, 26.7.5), which is
    within one percent from three on. Degrees between whole numbers are rounded down, to the wider side.
    """
    whole = math.floor(degrees)
    part = 0.5 + CONFIDENCE / 2
    if whole < 3:
        return (2 * part - 1) / math.sqrt(2 * part * (1 - part))
    z = statistics.NormalDist().inv_cdf(part)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + math.fsum(term / whole ** (power + 1) for power, term in enumerate(terms))


def difference(first: t.Sequence[float], second: t.Sequence[float]) -> Difference:
    """Compare the means of two lists of rates, whose spreads need not be alike (Welch's test)."""
    base = statistics.fmean(first)
    change = (statistics.fmean(second) / base - 1) * 100
    if min(len(first), len(second)) < FEWEST:
        return Difference(change, None, None)
    parts = [statistics.variance(rates) / len(rates) for rates in (first, second)]
    error = math.sqrt(sum(parts))
    if not error:
        return Difference(change, change, change)
    shares = parts[0] ** 2 / (len(first) - 1) + parts[1] ** 2 / (len(second) - 1)
    margin = student(sum(parts) ** 2 / shares) * error / base * 100
    return Difference(change, change - margin, change + margin)


def sentence(names: tuple[str, str], first: Json, second: Json) -> str | None:
    """Return the comparison of two runs' rates in words, None if one has none."""
    if not first["samples"] or not second["samples"]:
        return None
    settings = (second["details"], first["details"])
    unlike = [
        "%s (%s, %s)" % (words, *(detail_text(details.get(key)) for details in settings))
        for key, words in SAME.items()
        if settings[0].get(key) != settings[1].get(key)
    ]
    if unlike:
        return "%s cannot be compared with %s: they differ in %s." % (names[1], names[0], "; ".join(unlike))
    change = difference(first["samples"], second["samples"])
    claim = "%s is %.1f %% %s than %s" % (
        names[1], abs(change.percent), "faster" if change.percent >= 0 else "slower", names[0],
    )  # fmt: skip
    if change.low is None or change.high is None:
        return "%s, but %d and %d measurements cannot tell a difference from noise: at least %d each are needed." % (
            claim, len(first["samples"]), len(second["samples"]), FEWEST,
        )  # fmt: skip
    between = "%+.1f to %+.1f %%" % (change.low, change.high)
    if change.verdict == "noise":
        return "No difference above the noise: %s, and anything from %s may be true." % (claim, between)
    return "%s (with 95 %% confidence %s)." % (claim, between)


def detail_text(value: t.Any) -> str:
    """Return a value of ``details`` for people."""
    return ", ".join(map(str, value)) if isinstance(value, list) else "not known" if value is None else str(value)


__all__ = ("CONFIDENCE", "FEWEST", "Difference", "detail_text", "difference", "sentence", "student")
