# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.
"""A drift report as an HTML page: its contents. Its layout is in page.html.j2."""

from __future__ import annotations

import typing as t

from ...module_utils._decision import DRIFT, IN_SYNC, UNKNOWN
from .._page import render
from .report import STATUSES, totals
from .text import TITLES, format_value

Json = t.Dict[str, t.Any]

# More objects in sync than this are counted, not listed: a browser takes seconds for a larger page.
MAX_IN_SYNC = 4000

_MEANINGS = {
    IN_SYNC: "Everything that was checked is in the desired state.",
    UNKNOWN: "Nothing is known to have drifted, but not everything could be checked.",
    DRIFT: "Something is not, or was not, in the desired state.",
}


class Filter(t.NamedTuple):
    """Which objects are shown."""

    name: str
    title: str
    statuses: tuple[str, ...]

    @property
    def hidden(self) -> list[str]:
        return [status for status in STATUSES if status not in self.statuses]


class Row(t.NamedTuple):
    """An object, the titles and texts of its values, and the lines of its diff."""

    object: Json
    values: list[tuple[str, str]]
    diff: list[str]


class Host(t.NamedTuple):
    """A host, the statuses of its objects, and the objects on the page."""

    name: str
    status: str
    summary: str
    statuses: list[str]
    rows: list[Row]
    left_out: int


_FILTERS = (
    Filter("wrong", "Not in sync", (DRIFT, UNKNOWN)),
    Filter("drift", "Drift", (DRIFT,)),
    Filter("unknown", "Unknown", (UNKNOWN,)),
    Filter("in_sync", "In sync", (IN_SYNC,)),
    Filter("all", "All", STATUSES),
)


def page(report: Json) -> str:
    """Return the page."""
    counts = totals(report)
    return render(
        "_drift/page.html.j2",
        report=report,
        titles=TITLES,
        meaning=_MEANINGS[report["verdict"]] if report["hosts"] else "Nothing was checked.",
        facts=_facts(report, counts),
        hosts=_hosts(report),
        filters=_FILTERS,
        chosen="wrong" if counts[DRIFT] + counts[UNKNOWN] else "all",
        numbers={item.name: sum(counts[status] for status in item.statuses) for item in _FILTERS},
    )


def _facts(report: Json, counts: t.Mapping[str, int]) -> list[tuple[str, t.Any]]:
    return [
        ("Started", report["started"] or "none"),
        ("Finished", report.get("finished") or "not known"),
        ("Mode", "check" if report["check_mode"] else "applied"),
        ("Hosts", len(report["hosts"])),
        ("Objects", _summary(counts) or "none"),
    ]


def _summary(counts: t.Mapping[str, int]) -> str:
    return ", ".join("%d %s" % (counts[status], TITLES[status]) for status in reversed(STATUSES) if counts[status])


def _hosts(report: Json) -> list[Host]:
    """Return the hosts, the worst first."""
    hosts = []
    room = MAX_IN_SYNC
    for name, entry in sorted(report["hosts"].items(), key=lambda item: -STATUSES.index(item[1]["status"])):
        by_status: dict[str, list[Json]] = {status: [] for status in STATUSES}
        for resource in entry["objects"]:
            by_status[resource["status"]].append(resource)
        listed = [*by_status[DRIFT], *by_status[UNKNOWN], *by_status[IN_SYNC][:room]]
        left_out = len(entry["objects"]) - len(listed)
        room = max(room - len(by_status[IN_SYNC]), 0)
        counts = {status: len(resources) for status, resources in by_status.items()}
        statuses = [status for status in STATUSES if counts[status]]
        hosts.append(Host(name, entry["status"], _summary(counts), statuses, [_row(item) for item in listed], left_out))
    return hosts


def _row(resource: Json) -> Row:
    live, configured, next_boot = resource["live"], resource["configured"], resource["next_boot"]
    desired = resource["desired"]
    values = []
    if any(value is not None for value in (desired, live, configured, next_boot)):
        values = [("wanted", "nothing" if desired is None else format_value(desired)), ("live", format_value(live))]
        values += [
            (title, format_value(value))
            for title, value in (("configured", configured), ("next boot", next_boot))
            if value is not None
        ]
    return Row(resource, values, str(resource["diff"]).splitlines() if resource["diff"] else [])


__all__ = ("MAX_IN_SYNC", "page")
