# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.

"""A run beside other runs: as a table for the terminal, and as an HTML page. Its layout is in page.html.j2."""

from __future__ import annotations

import typing as t

from .._page import render
from .difference import detail_text, sentence
from .run import DETAILS, NUMBERS

Json = t.Mapping[str, t.Any]


class Bar(t.NamedTuple):
    """A number of one column, on the scale of all columns; ``dots`` are single measurements. Lengths go up to 100."""

    title: str
    text: str
    width: float
    dots: list[float]


class Row(t.NamedTuple):
    """A number of all columns."""

    words: str
    better: str
    bars: list[Bar]


def columns(result: Json, others: t.Mapping[str, Json]) -> dict[str, Json]:
    """Return the runs to be shown, by title; the run of this result is the last one."""
    document, earlier = result["document"], result["earlier"]
    return {
        **({document["title"]: document} if document else {}),
        **{name: other["run"] for name, other in others.items()},
        **({"the run before": earlier} if earlier else {}),
        "this run": result["run"],
    }


def rows(runs: t.Mapping[str, Json]) -> list[Row]:
    """Return a row for each number that one of the runs has."""
    entries = []
    for key, (words, unit, more) in NUMBERS.items():
        values = {title: run["numbers"][key] for title, run in runs.items() if key in run["numbers"]}
        if not values:
            continue
        single = key == "images_per_second_per_device"
        dots = {title: list(runs[title]["samples"]) if single else [] for title in values}
        most = max([*values.values(), *(rate for rates in dots.values() for rate in rates)])
        scale = 100 / most if most > 0 else 0
        bars = [
            Bar(title, number_text(value, unit), max(value, 0) * scale, [rate * scale for rate in dots[title]])
            for title, value in values.items()
        ]
        entries.append(Row(words, "more is better" if more else "less is better", bars))
    return entries


def number_text(value: float, unit: str) -> str:
    """Return a number with four digits and its unit."""
    digits = ("%.4g" if abs(value) < 10000 else "%.0f") % value
    return "%s %s" % (digits, unit) if unit else digits


def sentences(runs: t.Mapping[str, Json]) -> list[str]:
    """Return how the last run's rates compare with those of the others."""
    *others, last = runs
    texts = [sentence((other, last), runs[other], runs[last]) for other in others]
    return [text[0].upper() + text[1:] for text in texts if text]


def table(result: Json, others: t.Mapping[str, Json]) -> str:
    """Return the result for the terminal."""
    runs = columns(result, others)
    lines = ["Experiment %s" % result["name"]]
    for row in rows(runs):
        lines.append("  %s" % row.words)
        width = max(len(column.title) for column in row.bars)
        lines += ["    %s  %s" % (column.title.ljust(width), column.text) for column in row.bars]
    return "\n".join(lines + ["  " + text for text in sentences(runs)]) + "\n"


def page(result: Json, others: t.Mapping[str, Json]) -> str:
    """Return the page."""
    runs = columns(result, others)
    details = {
        words: [detail_text(run["details"].get(key)) for run in runs.values()]
        for key, words in DETAILS.items()
        if any(key in run["details"] for run in runs.values())
    }
    return render(
        "_experiment/page.html.j2",
        result=result,
        titles=list(runs),
        rows=rows(runs),
        sentences=sentences(runs),
        details=details,
        silent=[title for title, run in runs.items() if not run["numbers"]],
    )


__all__ = ("columns", "page", "rows", "sentences", "table")
