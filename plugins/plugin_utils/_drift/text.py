# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.
"""A drift report as text: the table on the terminal, the sentence of a task, and metrics for Prometheus."""

from __future__ import annotations

import calendar
import json
import time
import typing as t
import unicodedata

from ...module_utils._decision import DRIFT, IN_SYNC, UNKNOWN
from .report import STATUSES, counted, totals

Json = t.Dict[str, t.Any]

MAX_HOSTS = 100
MAX_OBJECTS = 100
MAX_NAMED = 10
MIN_WIDTH = 50

TITLES = {IN_SYNC: "in sync", DRIFT: "drift", UNKNOWN: "unknown"}


# --- one object ---------------------------------------------------------------------------------------------------


def shown(value: t.Any) -> str:
    """Return a value as people write it: texts without quotes, all else as JSON."""
    if value is None:
        return "unknown"
    if isinstance(value, str):
        return value
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


def described(one: Json) -> str:
    """Describe what an object is, and what is wrong with it."""
    name = one["name"] or ""
    if one["item"] is not None and one["item"] != name:
        name = "%s (%s)" % (name, one["item"])
    what = "%s %s" % (one["kind"], name)
    if one["kind"] == one["action"]:
        what = "%s %s" % (str(one["kind"]).rsplit(".", 1)[-1], name)
        if one["name"] != one["task"]:
            what += " by '%s'" % one["task"]
    if one["delegated_to"]:
        what += " on %s" % one["delegated_to"]
    return "%s: %s" % (what, _wrong(one))


def _wrong(one: Json) -> str:
    if one["status"] == UNKNOWN:
        return one["why"] or "not known"
    if one["status"] == IN_SYNC:
        return "in sync"
    if one["desired"] is None and one["live"] is None and one["configured"] is None and one["next_boot"] is None:
        text = "differs"
    else:
        text = "live %s" % shown(one["live"])
        for name in ("configured", "next_boot"):
            if one[name] is not None and one[name] != one["live"]:
                text += ", %s %s" % (name.replace("_", " "), shown(one[name]))
        text += ", wanted %s" % ("nothing" if one["desired"] is None else shown(one["desired"]))
    if one["why"]:
        text += " (%s)" % one["why"]
    return text + (", repaired" if one["repaired"] else "")


def sentence(report: Json) -> str:
    """Return the verdict with the first objects that are not in sync, drift first."""
    counts = totals(report)
    parts = ["%d %s" % (counts[status], TITLES[status]) for status in reversed(STATUSES)]
    head = "The verdict is %s: %s, on %d hosts" % (report["verdict"], ", ".join(parts), len(report["hosts"]))
    if not report["hosts"]:
        head = "The verdict is %s: nothing was checked" % report["verdict"]
    named = [_short("%s: %s" % (host, described(one)), 300) for host, one in not_in_sync(report)]
    reasons = named[:MAX_NAMED]
    if len(named) > MAX_NAMED:
        reasons.append("and %d more objects" % (len(named) - MAX_NAMED))
    if not report["complete"]:
        left = report["incomplete"]
        reasons.append("not complete: " + ", ".join(_short(one, 200) for one in left[:3]))
        if len(left) > 3:
            reasons[-1] += " and %d more" % (len(left) - 3)
    return "; ".join([head, *reasons])


def not_in_sync(report: Json) -> list[tuple[str, Json]]:
    """Return the objects that have drifted or are not known, with their hosts; drift first."""
    return [
        (host, one)
        for status in (DRIFT, UNKNOWN)
        for host, entry in report["hosts"].items()
        for one in entry["objects"]
        if one["status"] == status
    ]


# --- the table ----------------------------------------------------------------------------------------------------


def table(report: Json, width: int) -> str:
    """Return hosts with their counts, and what is not in sync, in lines of at most ``width`` columns."""
    width = max(width, MIN_WIDTH)
    lines = ["Drift: %s" % report["verdict"].upper()]
    ranked = sorted(report["hosts"].items(), key=lambda one: -STATUSES.index(one[1]["status"]))
    rows = [(host, counted(entry["objects"])) for host, entry in ranked]
    if rows:
        column = min(max([5] + [columns(host) for host, _counts in rows[:MAX_HOSTS]]), width - 34)
        lines.append("%s%9s%9s%9s" % (fitted("host", column), "drift", "unknown", "in sync"))
        for host, counts in rows[:MAX_HOSTS]:
            lines.append(fitted(host, column) + "".join("%9d" % counts[name] for name in (DRIFT, UNKNOWN, IN_SYNC)))
        if len(rows) > MAX_HOSTS:
            lines.append("and %d more hosts" % (len(rows) - MAX_HOSTS))
    else:
        lines.append("Nothing was checked.")
    wrong = not_in_sync(report)
    for status in (DRIFT, UNKNOWN):
        of_status = [pair for pair in wrong if pair[1]["status"] == status]
        if of_status:
            lines += ["", TITLES[status]]
        for host, one in of_status[:MAX_OBJECTS]:
            lines.append("  " + fitted("%s: %s" % (host, described(one)), width - 2).rstrip())
        if len(of_status) > MAX_OBJECTS:
            lines.append("  and %d more, in the report" % (len(of_status) - MAX_OBJECTS))
    if not report["complete"]:
        lines += ["", "not complete"]
        lines += ["  " + fitted(why, width - 2).rstrip() for why in report["incomplete"][:MAX_NAMED]]
        if len(report["incomplete"]) > MAX_NAMED:
            lines.append("  and %d more, in the report" % (len(report["incomplete"]) - MAX_NAMED))
    return "\n".join(lines) + "\n"


def printable(text: str) -> str:
    """Return text that cannot steer a terminal: control characters and what turns the writing round are spelt out."""
    return "".join(
        one if one.isprintable() else " " if one in "\n\t\r" else one.encode("unicode_escape").decode("ascii")
        for one in text
    )


def columns(text: str) -> int:
    """Return how many columns a text takes on a terminal."""
    return sum(_columns(one) for one in printable(text))


def _columns(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def fitted(text: str, width: int) -> str:
    """Return text of exactly ``width`` columns: cut, or filled with blanks."""
    text = printable(text)
    if columns(text) > width:
        kept, taken = [], 0
        for one in text:
            if taken + _columns(one) > width - 3:
                break
            kept.append(one)
            taken += _columns(one)
        text = "".join(kept) + "..."
    return text + " " * (width - columns(text))


def _short(text: str, limit: int) -> str:
    text = printable(text)
    return text if len(text) <= limit else text[: limit - 3] + "..."


# --- Prometheus ---------------------------------------------------------------------------------------------------


def metrics(report: Json) -> str:
    """Return the report in Prometheus' text format, as node_exporter's textfile collector reads it."""
    lines = [
        "# HELP gpu_fabric_drift_objects Objects of the last drift run, by host and status.",
        "# TYPE gpu_fabric_drift_objects gauge",
    ]
    for host, entry in report["hosts"].items():
        counts = counted(entry["objects"])
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
    # Lone surrogates cannot be written as UTF-8, which the format is.
    text = text.encode("utf-8", "replace").decode("utf-8")
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", " ")


__all__ = (
    "TITLES",
    "columns",
    "described",
    "fitted",
    "metrics",
    "not_in_sync",
    "printable",
    "sentence",
    "shown",
    "table",
)
