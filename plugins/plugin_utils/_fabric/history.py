# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.

"""Compare the bandwidths with those of an earlier report."""

from __future__ import annotations

import typing as t

from ...module_utils._rails.ports import brief
from .inputs import invalid_input
from .vocabulary import BANDWIDTHS, FAIL, PASS, Json, bound, percent, printable, speed

# Of an earlier run: as much as of the best pair of a rail.
MIN_OF_BASELINE = 0.93

_Key = t.Tuple[str, str, int, str]


class Baseline(t.NamedTuple):
    """The good bandwidths of an earlier report, in Gb/s by client, server, rail and test."""

    started: str
    gbps: dict[_Key, float]

    def of(self, entry: t.Mapping[str, t.Any]) -> float | None:
        """Return the bandwidth of this pair then, in whatever direction."""
        client, server, rail, test = (entry[name] for name in ("client", "server", "rail", "test"))
        return self.gbps.get((client, server, rail, test), self.gbps.get((server, client, rail, test)))

    def lowest(self, entry: t.Mapping[str, t.Any]) -> float | None:
        """Return the lowest bandwidth of the rail then, for a pair that was not measured with each other."""
        where = (entry["rail"], entry["test"])
        return min((gbps for key, gbps in self.gbps.items() if key[2:] == where), default=None)


def baseline_of(report: t.Any) -> Baseline | None:
    """Return what can be compared of a report; None without one. Raises VerdictError for anything else."""
    if not report:
        return None
    try:
        rows = [row for row in report["pairs"] if row["verdict"] == PASS and row["test"] in BANDWIDTHS]
        figures = {
            (str(row["client"]), str(row["server"]), int(row["rail"]), str(row["test"])): float(row["gbps"])
            for row in rows
        }
        return Baseline(str(report["started"]), figures)
    except (TypeError, KeyError, ValueError) as exc:
        raise invalid_input("baseline must be a report of this check, not %s" % brief(report)) from exc


def against(entries: t.Iterable[Json], baseline: Baseline | None, limit: float, *, again: bool = False) -> list[Json]:
    """Return the measurements with the earlier bandwidth; one that is far below it fails.

    ``again``: other pairs than then, which are compared with the slowest of the rail.
    """
    judged = []
    for entry in entries:
        before = baseline.of(entry) if baseline else None
        if baseline and before is None and again:
            before = baseline.lowest(entry)
        entry = {**entry, "baseline_gbps": before}
        if baseline and before and entry["verdict"] == PASS and entry["gbps"] < limit * before:
            text = "%s Gb/s are %s of the %s Gb/s of %s, the limit is %s" % (
                speed(entry["gbps"]),
                percent(entry["gbps"] / before),
                speed(before),
                printable(baseline.started),
                bound(limit),
            )
            entry.update(verdict=FAIL, error=text)
        judged.append(entry)
    return judged


def changes(entries: t.Iterable[Json]) -> list[Json]:
    """Return what was measured then and now, what lost most first."""
    keys = ("client", "server", "rail", "test", "gbps", "baseline_gbps")
    rows = [
        {**{key: entry[key] for key in keys}, "change": entry["gbps"] / entry["baseline_gbps"] - 1}
        for entry in entries
        if entry["gbps"] is not None and entry["baseline_gbps"]
    ]
    return sorted(rows, key=lambda row: (row["change"], row["rail"], row["client"], row["server"]))


def change(row: t.Mapping[str, t.Any]) -> str:
    """Return a change in words."""
    where = (printable(row["client"]), printable(row["server"]), row["rail"], row["test"])
    return "%s -> %s on rail %d, %s: %s to %s Gb/s (%s)" % (
        *where,
        speed(row["baseline_gbps"]),
        speed(row["gbps"]),
        signed(row["change"]),
    )


def signed(share: float) -> str:
    return "%+.1f%%" % (share * 100)


__all__ = ("MIN_OF_BASELINE", "Baseline", "against", "baseline_of", "change", "changes", "signed")
