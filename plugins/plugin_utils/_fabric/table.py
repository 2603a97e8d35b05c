# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.

"""A fabric report for the terminal: a table that fits on a screen, and a sentence."""

from __future__ import annotations

import collections
import math
import textwrap
import typing as t
import unicodedata

from .._terminal import BAD, DOUBTFUL, GOOD, WIDTH, Line, fitting, text_of
from . import checks as fabric_checks
from . import gpus
from .history import change
from .pairs import widest
from .vocabulary import (
    BANDWIDTHS,
    FAIL,
    PASS,
    TESTS,
    UNKNOWN,
    VERDICTS,
    Json,
    badness,
    bound,
    percent,
    printable,
    severity,
    short,
    speed,
    worst,
)

# Lines of the whole table. Together with the headings, and with what ansible-core 2.19 shows of a task that fails on
# standard error, it fits on a screen of 60 lines.
LINES = 46
REASON_LINES = 9
MEASUREMENTS = 8
COLORS = {PASS: GOOD, UNKNOWN: DOUBTFUL, FAIL: BAD}


class Group(t.NamedTuple):
    """The measurements of one test on one rail."""

    rail: int
    test: str
    entries: list[Json]

    @property
    def verdicts(self) -> list[str]:
        """The verdict of each measurement."""
        return [entry["verdict"] for entry in self.entries]

    @property
    def rank(self) -> tuple[t.Any, ...]:
        """The key by which groups are sorted, the worst first."""
        return (*severity(self.verdicts), self.rail, TESTS.index(self.test))


def sentence(report: t.Mapping[str, t.Any], path: str | None = None) -> str:
    """Return the verdict, its first reason, and the file that has all of it."""
    reasons = report["reasons"]
    text = "Fabric check: %s" % report["verdict"].upper()
    if reasons:
        text += ", 1 reason: " if len(reasons) == 1 else ", %d reasons; first: " % len(reasons)
        text += short(reasons[0], 300).rstrip(".")
    if path:
        text += ". All of it: %s" % path
    elif reasons:
        text += ". For all of it, set html_path (fabric_check_report_html)"
    return text


def table(report: t.Mapping[str, t.Any]) -> str:
    """Return the lines without color."""
    return text_of(lines(report))


def lines(report: t.Mapping[str, t.Any]) -> list[Line]:
    """Return a report in at most LINES lines: verdict, reasons, and the measurements by rail and test, worst first."""
    head = [Line("Fabric check: %s" % report["verdict"].upper(), COLORS[report["verdict"]])]
    reasons = fitting(report["reasons"], _reason, REASON_LINES, "  and %d more, in the report")
    head += [*map(Line, reasons), Line("")]
    known = ["%s: %s" % figure for figure in figures(report)]
    for text in known + fabric_checks.lines(report["checks"]) + gpus.lines(report):
        head += [Line(part) for part in _wrap(text, "", "  ", 2)]
    return head + _measurements(report, LINES - len(head))


def figures(report: t.Mapping[str, t.Any]) -> list[tuple[str, str]]:
    """Return what is known of several measurements of a pair, and of an earlier report, each with its name."""
    texts = {"Repeatability": _repeatability(report), "Baseline": _compared(report)}
    return [(name, text) for name, text in texts.items() if text]


def _repeatability(report: t.Mapping[str, t.Any]) -> str | None:
    """Return how much the measurements of the same pair differ, if there are several of one."""
    entry = widest(report["pairs"])
    if entry is None:
        return None
    return "%d measurements of each pair and rail differ by at most %s (%s Gb/s, %s -> %s on rail %d, %s)" % (
        max(len(each["samples"]) for each in report["pairs"]),
        percent(entry["spread"]),
        _span(speed(min(entry["samples"])), speed(max(entry["samples"]))),
        printable(entry["client"]),
        printable(entry["server"]),
        entry["rail"],
        entry["test"],
    )


def _compared(report: t.Mapping[str, t.Any]) -> str | None:
    """Return what lost most since an earlier report, if there is one."""
    baseline = report["baseline"]
    if not baseline:
        return None
    rows = baseline["changes"]
    text = "%d bandwidths compared with %s" % (len(rows), printable(baseline["started"]))
    return text + (", the worst: " + change(rows[0]) if rows else "")


def _reason(text: str) -> list[str]:
    return _wrap(text, "  * ", "    ", 3)


def _wrap(text: str, first: str, others: str, number: int) -> list[str]:
    parts = textwrap.wrap(
        text, WIDTH, initial_indent=first, subsequent_indent=others, max_lines=number, placeholder=" ..."
    )
    return parts or [first.rstrip()]


def _measurements(report: t.Mapping[str, t.Any], room: int) -> list[Line]:
    """Return a line for each test on each rail, and the nodes of the worst ones as far as there is room."""
    entries: dict[tuple[int, str], list[Json]] = {}
    for entry in report["pairs"]:
        entries.setdefault((entry["rail"], entry["test"]), []).append(entry)
    groups = sorted((Group(*key, own) for key, own in entries.items()), key=lambda group: group.rank)
    order = [node["name"] for node in report["nodes"]]
    order += sorted({entry[end] for entry in report["pairs"] for end in ("client", "server")} - set(order))
    legend = ["", "Client down, server across, by number. A number is the share of the link's rate in percent;"]
    legend.append("+ pass, ! fail, ? unknown, . not requested. The limit is %s." % bound(report["min_share"]))
    shown, rest = groups[:MEASUREMENTS], groups[MEASUREMENTS:]
    room -= len(shown) + len(legend) + (2 if rest else 1)
    measurements: list[Line] = []
    drawn = apart = False
    for group in shown:
        matrix, details = _details(group, order, room - 2)
        drawn, room = drawn or matrix, room - len(details) - (2 if details else 0)
        if details or apart or not measurements:
            measurements.append(Line(""))
        measurements.append(Line(_summary(group), COLORS[worst(group.verdicts)]))
        measurements += [Line(text.rstrip()) for text in details]
        apart = bool(details)
    if rest:
        counts = collections.Counter(worst(group.verdicts) for group in rest)
        text = ", ".join("%d %s" % (counts[verdict], verdict) for verdict in reversed(VERDICTS) if counts[verdict])
        measurements.append(Line("and %d more rails and tests: %s" % (len(rest), text)))
    return measurements + [Line(text) for text in legend if drawn]


def _details(group: Group, order: list[str], room: int) -> tuple[bool, list[str]]:
    """Return whether there is a matrix, and the lines on the nodes of a test on a rail, as far as they fit."""
    wrong = [entry for entry in group.entries if entry["verdict"] != PASS]
    if not wrong:
        return False, []
    names = [name for name in order if any(name in (entry["client"], entry["server"]) for entry in group.entries)]
    # The square of a ring would be mostly empty; that of many nodes is wider than the terminal.
    if len(names) <= 8 or (len(names) <= 32 and len(group.entries) * 4 >= len(names) * (len(names) - 1)):
        matrix = _matrix(names, order, group.test, group.entries)
    else:
        matrix = []
    lists = [_list(wrong, 12), _list(wrong, 4)]
    choices = [(True, matrix + rows) for rows in (*lists, [])] if matrix else []
    choices += [(False, rows) for rows in lists]
    return next((choice for choice in choices if len(choice[1]) <= room), (False, []))


def _summary(group: Group) -> str:
    entries = group.entries
    counts = collections.Counter(entry["verdict"] for entry in entries)
    parts = ["%d %s" % (counts[verdict], verdict) for verdict in VERDICTS if counts[verdict]]
    rates = [entry["gbps"] for entry in entries if entry["gbps"] is not None]
    shares = [entry["share"] for entry in entries if entry["share"] is not None]
    if rates:
        parts.append(_span(speed(min(rates)), speed(max(rates))) + " Gb/s")
    latencies = [entry["latency_us"] for entry in entries if entry["latency_us"] is not None]
    if latencies:
        parts.append(_span(speed(min(latencies)), speed(max(latencies))) + " us")
    if shares:
        parts.append(_span(percent(min(shares)), percent(max(shares))) + " of the link's rate")
    return "Rail %d, %s: %s" % (group.rail, group.test, ", ".join(parts))


def _span(low: str, high: str) -> str:
    return low if low == high else "%s to %s" % (low, high)


def _matrix(names: list[str], order: list[str], test: str, entries: list[Json]) -> list[str]:
    cells = {(entry["client"], entry["server"]): entry for entry in entries}
    number = {name: place for place, name in enumerate(order)}
    shares = test in BANDWIDTHS and len(names) <= 16
    width = 5 if shares else 1 + max(len(str(number[name])) for name in names)
    digits = max(len(str(number[name])) for name in names)
    room = min(max(_columns(printable(name)) for name in names), WIDTH - 6 - digits - width * len(names))
    head = " " * (room + digits + 4)
    rows = [head + "".join(str(number[name]).rjust(width) for name in names)]
    for client in names:
        row = "  " + str(number[client]).rjust(digits) + "  " + _fit(printable(client), room)
        for server in names:
            entry = cells.get((client, server))
            row += ("-" if client == server else _cell(entry, shares)).rjust(width)
        rows.append(row)
    return rows


def _cell(entry: Json | None, shares: bool) -> str:
    if entry is None:
        return "."
    mark = {PASS: "+", FAIL: "!", UNKNOWN: "?"}[entry["verdict"]]
    if not shares or entry["share"] is None or entry["verdict"] == UNKNOWN:
        return mark
    number = min(math.floor(entry["share"] * 100 + 1e-6), 999)
    return str(number) + ("" if entry["verdict"] == PASS else mark)


def _list(entries: list[Json], number: int) -> list[str]:
    entries = sorted(entries, key=badness)
    rows: list[str] = []
    for entry in entries[:number]:
        text = "  %s  %s -> %s: %s" % (
            entry["verdict"].ljust(len(UNKNOWN)), printable(entry["client"]), printable(entry["server"]),
            printable(short(entry["error"] or "")),
        )  # fmt: skip
        rows += textwrap.wrap(
            text, WIDTH, subsequent_indent=" " * 11, drop_whitespace=False, max_lines=2, placeholder=" ..."
        )
    if len(entries) > number:
        rows.append("  and %d more" % (len(entries) - number))
    return rows


def _columns(text: str) -> int:
    """Return the columns that text takes on a terminal."""
    return sum(
        0 if unicodedata.combining(character) else 2 if unicodedata.east_asian_width(character) in "WF" else 1
        for character in text
    )


def _fit(text: str, room: int) -> str:
    if _columns(text) > room:
        while text and _columns(text) > room - 2:
            text = text[:-1]
        text += ".."
    return text + " " * (room - _columns(text))


__all__ = ("LINES", "figures", "lines", "sentence", "table")
