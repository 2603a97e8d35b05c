# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.

"""A fabric report as a table for the terminal."""

from __future__ import annotations

import collections
import math
import textwrap
import typing as t
import unicodedata

from . import checks as fabric_checks
from . import gpus
from .vocabulary import BANDWIDTHS, FAIL, PASS, TESTS, UNKNOWN, VERDICTS, Json, bound, percent, printable, short, speed

WIDTH = 120


def table(report: t.Mapping[str, t.Any]) -> str:
    """Return a report for the terminal: verdict, reasons, and the measurements by rail and test."""
    lines = ["Fabric check: %s" % report["verdict"].upper()]
    lines += _wrap(report["reasons"][:20])
    if len(report["reasons"]) > 20:
        lines.append("  and %d more reasons, in the report" % (len(report["reasons"]) - 20))
    checks = fabric_checks.lines(report["checks"])
    lines += [""] + [
        part for text in checks + gpus.lines(report) for part in textwrap.wrap(text, WIDTH, subsequent_indent="  ")
    ]
    groups: dict[tuple[int, str], list[Json]] = {}
    for entry in report["pairs"]:
        groups.setdefault((entry["rail"], entry["test"]), []).append(entry)
    order = [node["name"] for node in report["nodes"]]
    order += sorted({entry[end] for entry in report["pairs"] for end in ("client", "server")} - set(order))
    drawn = False
    for (rail, test), entries in sorted(groups.items(), key=lambda group: (group[0][0], TESTS.index(group[0][1]))):
        lines += ["", _summary(rail, test, entries)]
        names = [name for name in order if any(name in (entry["client"], entry["server"]) for entry in entries)]
        fine = all(entry["verdict"] == PASS for entry in entries)
        if fine and len(names) > 4:
            continue
        # The square of a ring would be mostly empty; that of many nodes is wider than the terminal.
        if len(names) <= 8 or (len(names) <= 32 and len(entries) * 4 >= len(names) * (len(names) - 1)):
            lines += _matrix(names, order, test, entries)
            drawn = True
        if not fine:
            lines += _list([entry for entry in entries if entry["verdict"] != PASS])
    if drawn:
        lines += ["", "Client down, server across, by number. A number is the share of the link's rate in percent;"]
        lines.append("+ pass, ! fail, ? unknown, . not requested. The limit is %s." % bound(report["min_share"]))
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _wrap(texts: t.Iterable[str]) -> list[str]:
    return [
        line
        for text in texts
        for line in textwrap.wrap(text, WIDTH, initial_indent="  * ", subsequent_indent="    ") or ["  *"]
    ]


def _summary(rail: int, test: str, entries: list[Json]) -> str:
    counts = collections.Counter(entry["verdict"] for entry in entries)
    parts = ["%d %s" % (counts[verdict], verdict) for verdict in VERDICTS if counts[verdict]]
    rates = [entry["gbps"] for entry in entries if entry["gbps"] is not None]
    shares = [entry["share"] for entry in entries if entry["share"] is not None]
    if rates:
        parts.append(_span(speed(min(rates)), speed(max(rates))) + " Gb/s")
    if shares:
        parts.append(_span(percent(min(shares)), percent(max(shares))) + " of the link's rate")
    return "Rail %d, %s: %s" % (rail, test, ", ".join(parts))


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
    lines = [head + "".join(str(number[name]).rjust(width) for name in names)]
    for client in names:
        row = "  " + str(number[client]).rjust(digits) + "  " + _fit(printable(client), room)
        for server in names:
            entry = cells.get((client, server))
            row += ("-" if client == server else _cell(entry, shares)).rjust(width)
        lines.append(row)
    return lines


def _cell(entry: Json | None, shares: bool) -> str:
    if entry is None:
        return "."
    mark = {PASS: "+", FAIL: "!", UNKNOWN: "?"}[entry["verdict"]]
    if not shares or entry["share"] is None or entry["verdict"] == UNKNOWN:
        return mark
    number = min(math.floor(entry["share"] * 100 + 1e-6), 999)
    return str(number) + ("" if entry["verdict"] == PASS else mark)


def _list(entries: list[Json], number: int = 12) -> list[str]:
    entries = sorted(entries, key=lambda entry: -VERDICTS.index(entry["verdict"]))
    lines = []
    for entry in entries[:number]:
        text = "  %s  %s -> %s: %s" % (
            entry["verdict"].ljust(len(UNKNOWN)), printable(entry["client"]), printable(entry["server"]),
            printable(short(entry["error"] or "")),
        )  # fmt: skip
        lines += textwrap.wrap(text, WIDTH, subsequent_indent=" " * 11, drop_whitespace=False)
    if len(entries) > number:
        lines.append("  and %d more" % (len(entries) - number))
    return lines


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


__all__ = ("table",)
