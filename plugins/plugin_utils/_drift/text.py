# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.
"""A drift report as text: a table for the terminal, a sentence for a task, and metrics for Prometheus."""

from __future__ import annotations

import calendar
import json
import time
import typing as t
import unicodedata

from ...module_utils._decision import DRIFT, IN_SYNC, UNKNOWN
from .._terminal import BAD, DOUBTFUL, GOOD, Line, fitting, text_of
from .report import STATUSES, count_statuses, totals

Json = t.Dict[str, t.Any]

MAX_HOSTS = 16
# Lines of objects by status. The whole table fits on a screen of 60 lines.
OBJECT_LINES = {DRIFT: 16, UNKNOWN: 10}
MAX_UNFINISHED = 5
MAX_NAMED = 10
MIN_WIDTH = 50
# Characters of a line that is not wrapped.
MAX_LINE = 400

TITLES = {IN_SYNC: "in sync", DRIFT: "drift", UNKNOWN: "unknown"}
COLORS = {IN_SYNC: GOOD, DRIFT: BAD, UNKNOWN: DOUBTFUL}


# --- one object ---------------------------------------------------------------------------------------------------


def format_value(value: t.Any) -> str:
    """Format a value for people: text without quotes, anything else as JSON."""
    if value is None:
        return "unknown"
    if isinstance(value, str):
        return value
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


def describe(resource: Json) -> str:
    """Describe what an object is, and what is wrong with it."""
    name = resource["name"] or ""
    if resource["item"] is not None and resource["item"] != name:
        name = "%s (%s)" % (name, resource["item"])
    subject = "%s %s" % (resource["kind"], name)
    if resource["kind"] == resource["action"]:
        subject = "%s %s" % (str(resource["kind"]).rsplit(".", 1)[-1], name)
        if resource["name"] != resource["task"]:
            subject += " by '%s'" % resource["task"]
    if resource["delegated_to"]:
        subject += " on %s" % resource["delegated_to"]
    return "%s: %s" % (subject, _describe_status(resource))


def _describe_status(resource: Json) -> str:
    if resource["status"] == UNKNOWN:
        return resource["why"] or "not known"
    if resource["status"] == IN_SYNC:
        return "in sync"
    if (
        resource["desired"] is None
        and resource["live"] is None
        and resource["configured"] is None
        and resource["next_boot"] is None
    ):
        description = "differs"
    else:
        description = "live %s" % format_value(resource["live"])
        for name in ("configured", "next_boot"):
            if resource[name] is not None and resource[name] != resource["live"]:
                description += ", %s %s" % (name.replace("_", " "), format_value(resource[name]))
        description += ", wanted %s" % ("nothing" if resource["desired"] is None else format_value(resource["desired"]))
    if resource["why"]:
        description += " (%s)" % resource["why"]
    return description + (", repaired" if resource["repaired"] else "")


def sentence(report: Json, number: int = MAX_NAMED) -> str:
    """Return the verdict with the first objects that are not in sync, drift first."""
    counts = totals(report)
    parts = ["%d %s" % (counts[status], TITLES[status]) for status in reversed(STATUSES)]
    head = "The verdict is %s: %s, on %d hosts" % (report["verdict"], ", ".join(parts), len(report["hosts"]))
    if not report["hosts"]:
        head = "The verdict is %s: nothing was checked" % report["verdict"]
    named = [_shorten("%s: %s" % (host, describe(resource)), 300) for host, resource in not_in_sync(report)]
    reasons = named[:number]
    if len(named) > number:
        reasons.append("and %d more objects" % (len(named) - number))
    if not report["complete"]:
        left = report["incomplete"]
        reasons.append("not complete: " + ", ".join(_shorten(reason, 200) for reason in left[:3]))
        if len(left) > 3:
            reasons[-1] += " and %d more" % (len(left) - 3)
    return "; ".join([head, *reasons])


def not_in_sync(report: Json, statuses: t.Sequence[str] = (DRIFT, UNKNOWN)) -> list[tuple[str, Json]]:
    """Return the objects with drift or an unknown status, with their hosts; drift first."""
    return [
        (host, resource)
        for status in statuses
        for host, entry in report["hosts"].items()
        for resource in entry["objects"]
        if resource["status"] == status
    ]


# --- the table ----------------------------------------------------------------------------------------------------


def table(report: Json, width: int = 0) -> str:
    """Return the lines without color."""
    return text_of(lines(report, width))


def lines(report: Json, width: int = 0) -> list[Line]:
    """Return hosts with their counts, and the objects not in sync, worst first, in at most 60 lines.

    :param width: columns of the terminal. Without one, no line is wrapped.
    """
    width = width and max(width, MIN_WIDTH)
    shown = [Line("Drift: %s" % report["verdict"].upper(), COLORS[report["verdict"]])]
    ranked = sorted(report["hosts"].items(), key=lambda item: -STATUSES.index(item[1]["status"]))
    shown += _hosts([(host, entry["status"], count_statuses(entry["objects"])) for host, entry in ranked], width)
    for status, number in OBJECT_LINES.items():
        texts = ["%s: %s" % (host, describe(resource)) for host, resource in not_in_sync(report, [status])]
        shown += _part(TITLES[status], texts, number, width, COLORS[status])
    if not report["complete"]:
        shown += _part("not complete", report["incomplete"], MAX_UNFINISHED, width, DOUBTFUL)
    return shown


def _hosts(rows: list[tuple[str, str, t.Mapping[str, int]]], width: int) -> list[Line]:
    if not rows:
        return [Line("Nothing was checked.")]
    column = max([5] + [columns(host) for host, _status, _counts in rows[:MAX_HOSTS]])
    column = min(column, width - 34) if width else column
    shown = [Line("%s%9s%9s%9s" % (fit("host", column), "drift", "unknown", "in sync"))]
    for host, status, counts in rows[:MAX_HOSTS]:
        text = fit(host, column) + "".join("%9d" % counts[name] for name in (DRIFT, UNKNOWN, IN_SYNC))
        shown.append(Line(text, COLORS[status]))
    rest = [status for _host, status, _counts in rows[MAX_HOSTS:]]
    if rest:
        parts = ["%d %s" % (rest.count(status), TITLES[status]) for status in reversed(STATUSES) if status in rest]
        shown.append(Line("and %d more hosts: %s" % (len(rest), ", ".join(parts))))
    return shown


def _part(title: str, texts: t.Sequence[str], number: int, width: int, color: str) -> list[Line]:
    """Return texts under a title, in at most ``number`` lines, and the number of those left out."""
    if not texts:
        return []

    def indented(text: str) -> list[str]:
        first, *others = wrap(text, width - 4, 3) if width else [_shorten(text, MAX_LINE)]
        return ["  " + first, *("    " + line for line in others)]

    shown = fitting(texts, indented, number, "  and %d more, in the report")
    return [Line(""), Line(title, color), *map(Line, shown)]


def printable(text: str) -> str:
    """Return text that cannot control a terminal: control and bidirectional characters are escaped."""
    return "".join(
        character
        if character.isprintable()
        else " "
        if character in "\n\t\r"
        else character.encode("unicode_escape").decode("ascii")
        for character in text
    )


def columns(text: str) -> int:
    """Return the columns that text takes on a terminal."""
    return sum(_columns(character) for character in printable(text))


def _columns(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def wrap(text: str, width: int, number: int) -> list[str]:
    """Return text in at most ``number`` lines of at most ``width`` columns. The last one is cut if it is too long."""
    text = printable(text)
    rows: list[str] = []
    while columns(text) > width and len(rows) < number - 1:
        taken = kept = 0
        while taken + _columns(text[kept]) <= width:
            taken += _columns(text[kept])
            kept += 1
        blank = text.rfind(" ", 0, kept + 1)
        end = blank if blank > width // 2 else kept
        rows.append(text[:end].rstrip())
        text = text[end:].lstrip()
    return [*rows, fit(text, width).rstrip()]


def fit(text: str, width: int) -> str:
    """Cut text or pad it with blanks to exactly ``width`` columns."""
    text = printable(text)
    if columns(text) > width:
        kept, taken = [], 0
        for character in text:
            if taken + _columns(character) > width - 3:
                break
            kept.append(character)
            taken += _columns(character)
        text = "".join(kept) + "..."
    return text + " " * (width - columns(text))


def _shorten(text: str, limit: int) -> str:
    text = printable(text)
    return text if len(text) <= limit else text[: limit - 3] + "..."


# --- Prometheus ---------------------------------------------------------------------------------------------------


def metrics(report: Json) -> str:
    """Return the report in Prometheus' text format, for node_exporter's textfile collector."""
    lines = [
        "# HELP gpu_fabric_drift_objects Objects of the last drift run, by host and status.",
        "# TYPE gpu_fabric_drift_objects gauge",
    ]
    for host, entry in report["hosts"].items():
        counts = count_statuses(entry["objects"])
        for status in STATUSES:
            lines.append('gpu_fabric_drift_objects{host="%s",status="%s"} %d' % (_label(host), status, counts[status]))
    lines += [
        "# HELP gpu_fabric_drift_verdict The verdict of the last drift run: 1 for this verdict, else 0.",
        "# TYPE gpu_fabric_drift_verdict gauge",
    ]
    for status in STATUSES:
        lines.append('gpu_fabric_drift_verdict{verdict="%s"} %d' % (status, report["verdict"] == status))
    numbers = [
        ("complete", "Whether the last drift run is complete.", int(report["complete"])),
        ("check_mode", "Whether the last drift run was in check mode.", int(report["check_mode"])),
        ("timestamp_seconds", "When the last drift run was started, in seconds since 1970.", _seconds(report)),
    ]
    for name, help_text, number in numbers:
        if number is not None:
            lines += [
                "# HELP gpu_fabric_drift_%s %s" % (name, help_text),
                "# TYPE gpu_fabric_drift_%s gauge" % name,
                "gpu_fabric_drift_%s %d" % (name, number),
            ]
    return "\n".join(lines) + "\n"


def _seconds(report: Json) -> int | None:
    try:
        return calendar.timegm(time.strptime(report["started"], "%Y-%m-%dT%H:%M:%SZ"))
    except ValueError:
        return None


def _label(text: str) -> str:
    """Escape a label's value (Prometheus' exposition formats: backslash, quote and line feed)."""
    # The format is UTF-8, which has no lone surrogates.
    text = text.encode("utf-8", "replace").decode("utf-8")
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", " ")


__all__ = (
    "TITLES",
    "columns",
    "describe",
    "fit",
    "format_value",
    "lines",
    "metrics",
    "not_in_sync",
    "printable",
    "sentence",
    "table",
    "wrap",
)
