# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.

"""The tests of one end in a fabric report: of each node, on each rail."""

from __future__ import annotations

import typing as t

from .._terminal import some
from .vocabulary import FAIL, NO_RESULT, PASS, UNKNOWN, printable, short

Json = t.Dict[str, t.Any]

# Fields of a result that the report keeps.
DETAILS = ("state", "limits", "wanted_bytes", "limit_bytes", "unlimited", "by")


def judge_checks(hosts: t.Mapping[str, Json], tests: t.Sequence[str], rails: t.Sequence[int]) -> list[Json]:
    """Return every requested check with its verdict. Without a result, it is unknown."""
    entries = []
    for test in tests:
        for node, host in hosts.items():
            by_rail = {check["rail"]: check for check in host["checks"] if check["test"] == test}
            for rail in rails:
                entries.append(_check(node, host, rail, test, by_rail.get(rail)))
    return entries


def _check(node: str, host: Json, rail: int, test: str, result: Json | None) -> Json:
    port = host["rails"].get(rail) or {}
    entry = {"node": node, "rail": rail, "test": test, "device": port.get("device")}
    if result is None:
        why = [] if host["reachable"] else ["the node is not reachable"]
        why += host["problems"]
        missing = "no result: " + "; ".join(why) if why else NO_RESULT
        return {**entry, "verdict": UNKNOWN, "error": missing, **dict.fromkeys(DETAILS)}
    verdict = {True: PASS, False: FAIL}.get(t.cast("bool", result["ok"]), UNKNOWN)
    error = result["error"] or (None if verdict == PASS else "%s gave no reason" % test)
    if verdict == PASS and error:
        verdict = UNKNOWN  # it reports both success and failure
    return {**entry, "verdict": verdict, "error": error, **{key: result.get(key) for key in DETAILS}}


def reasons(entries: t.Sequence[Json], verdict: str) -> list[str]:
    """Return sentences on the checks with one verdict, one for each reason."""
    groups: dict[tuple[str, str], list[str]] = {}
    for entry in entries:
        if entry["verdict"] == verdict:
            groups.setdefault((entry["test"], entry["error"]), []).append(_where(entry))
    return [
        "%s: %s: %s" % (test, some(places, 2), printable(short(error, 400))) for (test, error), places in groups.items()
    ]


def _where(entry: Json) -> str:
    return "node %s, rail %d" % (printable(entry["node"]), entry["rail"])


def skipped_checks(entries: t.Sequence[Json]) -> list[Json]:
    """Return the unknown checks for the report's list of what was skipped."""
    return [
        {"what": "%s, node %s, rail %d" % (entry["test"], entry["node"], entry["rail"]), "why": entry["error"]}
        for entry in entries
        if entry["verdict"] == UNKNOWN
    ]


def lines(entries: t.Sequence[Json]) -> list[str]:
    """Return the lines of the table, one for each test."""
    texts = []
    for test in dict.fromkeys(entry["test"] for entry in entries):
        own = [entry["verdict"] for entry in entries if entry["test"] == test]
        counts = ["%d %s" % (own.count(verdict), verdict) for verdict in (PASS, UNKNOWN, FAIL) if verdict in own]
        texts.append("%s on every node and rail: %s" % (test, ", ".join(counts)))
    return texts


__all__ = ("DETAILS", "judge_checks", "lines", "reasons", "skipped_checks")
