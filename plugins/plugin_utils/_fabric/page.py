# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.

"""A fabric report as an HTML page: its contents. Its layout is in page.html.j2."""

from __future__ import annotations

import collections
import math
import typing as t

from .._page import render
from . import gpus
from .history import signed
from .table import figures
from .vocabulary import BANDWIDTHS, FAIL, PASS, TESTS, UNKNOWN, VERDICTS, badness, bound, percent, severity, speed

Json = t.Mapping[str, t.Any]

_MEANINGS = {
    PASS: "Every requested measurement was made, and is good.",
    UNKNOWN: "Nothing is known to be bad, but not everything that was requested was measured.",
    FAIL: "Something is bad; the reasons show what and where.",
}

# Rows of the worst measurements, and of the comparison with an earlier report: what lost most.
WORST = 10
CHANGES = 50
# Of more nodes than this, one rail is open at a time.
AT_ONCE = 8


class Cell(t.NamedTuple):
    """A field of a map: its color, its text, and the measurement in words."""

    kind: str
    text: str
    title: str = ""


class Map(t.NamedTuple):
    """The measurements of a test. A row is of one client, or of one client and one server."""

    test: str
    summary: str
    rows: list[tuple[tuple[str, ...], list[Cell]]]


class Rail(t.NamedTuple):
    """The squares of a rail, the worst first."""

    number: int
    summary: str
    maps: list[Map]


class Node(t.NamedTuple):
    """A row of the nodes' list, and the rows of its ports."""

    name: str
    verdict: str
    notes: list[str]
    ports: list[Json]


NOT_REQUESTED = Cell("none", "·")
SELF = Cell("self", "")


def page(report: Json) -> str:
    """Return the page."""
    names = [node["name"] for node in report["nodes"]]
    names += sorted({entry[end] for entry in report["pairs"] for end in ("client", "server")} - set(names))
    nccl = report["nccl"]
    changes = report["baseline"]["changes"] if report["baseline"] else []
    wrong = sorted((entry for entry in report["pairs"] if entry["verdict"] != PASS), key=badness)
    return render(
        "_fabric/page.html.j2",
        report=report,
        meaning=_MEANINGS[report["verdict"]],
        facts=_facts(report, names),
        legend=_legend(report, {entry["test"] for entry in report["pairs"]}),
        gpus=gpus.lines(report) + ([nccl["error"]] if nccl and nccl["error"] else []),
        nodes=[_node(node) for node in report["nodes"]],
        changes=[{**row, "signed": signed(row["change"])} for row in changes[:CHANGES]],
        more_changes=max(0, len(changes) - CHANGES),
        wrong=wrong[:WORST],
        more_wrong=max(0, len(wrong) - WORST),
        skipped=_group_by_reason(report["skipped"]),
        **_maps(report, names),
    )


def _facts(report: Json, names: t.Sequence[str]) -> list[tuple[str, t.Any]]:
    rails = {entry["rail"] for entry in report["pairs"]}
    rails |= {port["rail"] for node in report["nodes"] for port in node["rails"]}
    return [
        ("Started", report["started"] or "not known"),
        ("Nodes", len(names)),
        ("Rails", len(rails)),
        ("Measurements", _count_verdicts(report["pairs"]) or "none"),
        ("Limit", bound(report["min_share"]) + " of the link's rate"),
        *figures(report),
    ]


def _count_verdicts(entries: t.Iterable[Json]) -> str:
    counts = collections.Counter(entry["verdict"] for entry in entries)
    return ", ".join("%d %s" % (counts[verdict], verdict) for verdict in reversed(VERDICTS) if counts[verdict])


# --- the maps -----------------------------------------------------------------------------------------------------


def _maps(report: Json, order: t.Sequence[str]) -> dict[str, t.Any]:
    """Return the measurements as squares of clients and servers, or as strips of pairs and rails."""
    entries = report["pairs"]
    limit = report["min_share"]
    rails = sorted({entry["rail"] for entry in entries})
    pairs = {(entry["client"], entry["server"]) for entry in entries}
    names = [name for name in order if any(name in pair for pair in pairs)]
    tests = [test for test in TESTS if any(entry["test"] == test for entry in entries)]
    by_test = {test: [entry for entry in entries if entry["test"] == test] for test in tests}
    strips: list[Map] = []
    squares: list[Rail] = []
    # The square of a ring would be mostly empty.
    if len(names) > AT_ONCE and len(pairs) * 5 < len(names) * (len(names) - 1):
        ranked = sorted(pairs, key=lambda pair: (names.index(pair[0]), names.index(pair[1])))
        strips = [_strip(test, ranked, rails, by_test[test], limit) for test in tests]
    else:
        by_rail = {rail: [entry for entry in entries if entry["rail"] == rail] for rail in rails}
        ranked_rails = sorted(by_rail.items(), key=lambda item: severity(_verdicts(item[1])))
        squares = [_rail(rail, own, names, limit) for rail, own in ranked_rails]
    return {"names": names, "rails": rails, "strips": strips, "squares": squares, "apart": len(names) > AT_ONCE}


def _verdicts(entries: t.Iterable[Json]) -> list[str]:
    return [entry["verdict"] for entry in entries]


def _rail(number: int, entries: t.Sequence[Json], names: t.Sequence[str], limit: float) -> Rail:
    by_test = {test: [entry for entry in entries if entry["test"] == test] for test in TESTS}
    ranked = sorted(
        ((test, own) for test, own in by_test.items() if own), key=lambda item: severity(_verdicts(item[1]))
    )
    return Rail(number, _count_verdicts(entries), [_square(test, names, own, limit) for test, own in ranked])


def _legend(report: Json, tests: t.Collection[str]) -> list[tuple[str, str, str]]:
    """Return classes, the texts of their cells, and what they mean."""
    limit, items = report["min_share"], []
    if set(BANDWIDTHS) & set(tests):
        items = [
            ("f2", "!", "below %s" % bound(limit / 2)),
            (
                "f1",
                "!",
                "below the limits, %s, and %s of the best of the rail" % (bound(limit), bound(report["min_of_best"])),
            ),
        ]
        if limit >= 0.995:
            items.append(("p3", "\u00a0", "the link's rate"))
        else:
            items += [
                ("p1", "\u00a0", "from %s" % percent(limit, 0)),
                ("p2", "\u00a0", "from %s" % percent(limit + (1 - limit) / 3, 0)),
                ("p3", "\u00a0", "from %s of the link's rate" % percent(limit + (1 - limit) * 2 / 3, 0)),
            ]
    return [
        *items,
        ("pass", "ok", "pass"),
        ("fail", "fail", "fail"),
        ("unknown", "?", "unknown"),
        ("none", "·", "not requested"),
    ]


def _summary(entries: t.Sequence[Json]) -> str:
    text = _count_verdicts(entries)
    rates = [entry["gbps"] for entry in entries if entry["gbps"] is not None]
    if rates:
        low, high = speed(min(rates)), speed(max(rates))
        text += "; %s Gb/s" % (low if low == high else "%s to %s" % (low, high))
    latencies = [entry["latency_us"] for entry in entries if entry["latency_us"] is not None]
    if latencies:
        text += "; %s to %s us" % (speed(min(latencies)), speed(max(latencies)))
    return text


def _square(test: str, names: t.Sequence[str], entries: t.Sequence[Json], limit: float) -> Map:
    cells = {(entry["client"], entry["server"]): _cell(entry, limit) for entry in entries}
    rows: list[tuple[tuple[str, ...], list[Cell]]] = [
        ((client,), [SELF if client == server else cells.get((client, server), NOT_REQUESTED) for server in names])
        for client in names
    ]
    return Map(test, _summary(entries), rows)


def _strip(
    test: str, pairs: t.Iterable[tuple[str, str]], rails: t.Sequence[int], entries: t.Sequence[Json], limit: float
) -> Map:
    cells = {(entry["client"], entry["server"], entry["rail"]): _cell(entry, limit) for entry in entries}
    rows: list[tuple[tuple[str, ...], list[Cell]]] = [
        (pair, [cells.get((*pair, rail), NOT_REQUESTED) for rail in rails]) for pair in pairs
    ]
    return Map(test, _summary(entries), rows)


def _cell(entry: Json, limit: float) -> Cell:
    verdict, share = entry["verdict"], entry["share"]
    if share is None or verdict == UNKNOWN:
        return Cell(verdict, {PASS: "ok", FAIL: "fail", UNKNOWN: "?"}[verdict], _title(entry))
    text = "%d" % min(math.floor(share * 100 + 1e-6), 999)
    if verdict == FAIL:
        return Cell("f2" if share < limit / 2 else "f1", text + "!", _title(entry))
    step = (share - limit) / (1 - limit) * 3 if limit < 1 else 3
    return Cell("p%d" % min(3, 1 + int(step)), text, _title(entry))


def _title(entry: Json) -> str:
    text = "%s → %s, rail %s, %s: %s" % tuple(entry[key] for key in ("client", "server", "rail", "test", "verdict"))
    if entry["gbps"] is not None:
        text += ", %s Gb/s" % speed(entry["gbps"])
    if entry["share"] is not None:
        text += ", %s of %g Gb/s" % (percent(entry["share"]), entry["expected_gbps"])
    if entry["latency_us"] is not None:
        text += ", %s us, 99 %% below %s us" % (speed(entry["latency_us"]), speed(entry["latency_99_us"]))
    if entry["spread"] is not None:
        text += ", the worst of %d, which differ by %s" % (len(entry["samples"]), percent(entry["spread"]))
    if entry["quiet"]:
        text += ", quiet beside the rail"
    elif entry["traffic"] and entry["traffic"]["why"]:
        text += ", beside the rail: " + entry["traffic"]["why"]
    if entry["error"] and entry["error"] not in text:
        text += ", " + entry["error"]
    return text


# --- the lists ----------------------------------------------------------------------------------------------------


def _node(node: Json) -> Node:
    notes = [] if node["reachable"] else ["not reachable"]
    by = ", by the claim " + ", ".join(node["claims"]) if node["claims"] else ""
    notes += ["pod " + node["pod"] + by] if node["pod"] else []
    notes += [*node["problems"], *("left alone: " + why for why in node["busy"])]
    return Node(node["name"], node["verdict"], notes, [_port(port) for port in node["rails"]])


def _port(port: Json) -> Json:
    """Return a port with the texts of its row."""
    device = port["device"]
    if device and port["port"] not in (None, 1):
        device = "%s port %s" % (device, port["port"])
    rate = None if port["rate_gbps"] is None else "%g Gb/s" % port["rate_gbps"]
    link = ", ".join(str(name) for name in (port["link_layer"], port["protocol"]) if name)
    return {**port, "device": device, "rate": rate, "link": link or None}


def _group_by_reason(skipped: t.Iterable[Json]) -> list[tuple[str, list[str]]]:
    """Return each reason with what was skipped for it."""
    groups: dict[str, list[str]] = {}
    for entry in skipped:
        groups.setdefault(entry["why"], []).append(entry["what"])
    return list(groups.items())


__all__ = ("page",)
