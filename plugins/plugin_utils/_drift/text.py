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
from .report import STATUSES, count_statuses, totals

Json = t.Dict[str, t.Any]

MAX_HOSTS = 100
MAX_OBJECTS = 100
MAX_NAMED = 10
MIN_WIDTH = 50

TITLES = {IN_SYNC: "in sync", DRIFT: "drift", UNKNOWN: "unknown"}


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


def sentence(report: Json) -> str:
    """Return the verdict with the first objects that are not in sync, drift first."""
    counts = totals(report)
    parts = ["%d %s" % (counts[status], TITLES[status]) for status in reversed(STATUSES)]
    head = "The verdict is %s: %s, on %d hosts" % (report["verdict"], ", ".join(parts), len(report["hosts"]))
    if not report["hosts"]:
        head = "The verdict is %s: nothing was checked" % report["verdict"]
    named = [_shorten("%s: %s" % (host, describe(resource)), 300) for host, resource in not_in_sync(report)]
    reasons = named[:MAX_NAMED]
    if len(named) > MAX_NAMED:
        reasons.append("and %d more objects" % (len(named) - MAX_NAMED))
    if not report["complete"]:
        left = report["incomplete"]
        reasons.append("not complete: " + ", ".join(_shorten(reason, 200) for reason in left[:3]))
        if len(left) > 3:
            reasons[-1] += " and %d more" % (len(left) - 3)
    return "; ".join([head, *reasons])


def not_in_sync(report: Json) -> list[tuple[str, Json]]:
    """Return the objects with drift or an unknown status, with their hosts; drift first."""
    return [
        (host, resource)
        for status in (DRIFT, UNKNOWN)
        for host, entry in report["hosts"].items()
        for resource in entry["objects"]
        if resource["status"] == status
    ]


# --- the table ----------------------------------------------------------------------------------------------------


def table(report: Json, width: int) -> str:
    """Return hosts with their counts, and the objects not in sync, in lines of at most ``width`` columns."""
    width = max(width, MIN_WIDTH)
    lines = ["Drift: %s" % report["verdict"].upper()]
    ranked = sorted(report["hosts"].items(), key=lambda item: -STATUSES.index(item[1]["status"]))
    rows = [(host, count_statuses(entry["objects"])) for host, entry in ranked]
    if rows:
        column = min(max([5] + [columns(host) for host, _counts in rows[:MAX_HOSTS]]), width - 34)
        lines.append("%s%9s%9s%9s" % (fit("host", column), "drift", "unknown", "in sync"))
        for host, counts in rows[:MAX_HOSTS]:
            lines.append(fit(host, column) + "".join("%9d" % counts[name] for name in (DRIFT, UNKNOWN, IN_SYNC)))
        if len(rows) > MAX_HOSTS:
            lines.append("and %d more hosts" % (len(rows) - MAX_HOSTS))
    else:
        lines.append("Nothing was checked.")
    wrong = not_in_sync(report)
    for status in (DRIFT, UNKNOWN):
        of_status = [pair for pair in wrong if pair[1]["status"] == status]
        if of_status:
            lines += ["", TITLES[status]]
        for host, resource in of_status[:MAX_OBJECTS]:
            lines.append("  " + fit("%s: %s" % (host, describe(resource)), width - 2).rstrip())
        if len(of_status) > MAX_OBJECTS:
            lines.append("  and %d more, in the report" % (len(of_status) - MAX_OBJECTS))
    if not report["complete"]:
        lines += ["", "not complete"]
        lines += ["  " + fit(why, width - 2).rstrip() for why in report["incomplete"][:MAX_NAMED]]
        if len(report["incomplete"]) > MAX_NAMED:
            lines.append("  and %d more, in the report" % (len(report["incomplete"]) - MAX_NAMED))
    return "\n".join(lines) + "\n"


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
    "metrics",
    "not_in_sync",
    "printable",
    "sentence",
    "table",
)
