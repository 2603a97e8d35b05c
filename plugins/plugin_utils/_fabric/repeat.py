# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.

"""Measure again what failed, with partners that did well, and hold a suspect only if it fails again."""

from __future__ import annotations

import collections
import typing as t

from .vocabulary import FAIL, PASS, UNKNOWN, Json, printable, speed, worst

# With how many partners a suspect is measured again: it sends to one, and receives from the other.
PARTNERS = 2
# Culprits that are none of the ends: the same pairs are measured again.
_SHARED = ("rail", "leaf")
# The end of a measurement that a port in one direction is.
_END = {"from": "client", "to": "server"}


def _touches(suspect: t.Mapping[str, t.Any], entry: t.Mapping[str, t.Any]) -> bool:
    """Return whether a suspect explains a failure of this measurement."""
    if suspect["rail"] not in (None, entry["rail"]):
        return False
    if suspect["kind"] == "rail":
        return True
    ends = {entry["client"], entry["server"]}
    if suspect["kind"] == "leaf":
        sides = [{leaf for leaf, nodes in suspect["leaves"].items() if end in nodes} for end in sorted(ends)]
        return sides[0] != sides[1] and (len(suspect["leaves"]) == 1 or all(sides))
    if suspect["pair"]:
        return ends == set(suspect["pair"])
    return entry[_END[suspect["direction"]]] == suspect["node"] if suspect["direction"] else suspect["node"] in ends


def _partners(report: t.Mapping[str, t.Any], suspect: t.Mapping[str, t.Any], busy: t.Mapping[str, int]) -> list[str]:
    """Return nodes that are not to blame for anything and did well on the rails of a suspect, those in use last."""
    blamed = {name for other in report["suspects"] for name in [other["node"], *(other["pair"] or [])]}
    wanted = [entry for entry in report["pairs"] if suspect["rail"] in (None, entry["rail"])]
    good = {name for entry in wanted if entry["verdict"] == PASS for name in (entry["client"], entry["server"])}
    return sorted(good - blamed, key=lambda name: (busy.get(name, 0), name))[:PARTNERS]


def _failing(pairs: t.Iterable[t.Mapping[str, t.Any]], suspect: t.Mapping[str, t.Any]) -> list[tuple[str, str]]:
    """Return the clients and servers between which a suspect failed."""
    failing = [entry for entry in pairs if entry["verdict"] == FAIL and _touches(suspect, entry)]
    return list(dict.fromkeys((entry["client"], entry["server"]) for entry in failing))


def _links(
    report: t.Mapping[str, t.Any], suspect: t.Mapping[str, t.Any], busy: t.Mapping[str, int]
) -> list[tuple[str, str]]:
    """Return clients and servers that measure a suspect again."""
    failing = _failing(report["pairs"], suspect)
    if suspect["kind"] in _SHARED:
        apart: list[tuple[str, str]] = []
        for link in failing:
            if not set(link) & {name for other in apart for name in other}:
                apart.append(link)
        return apart[:PARTNERS]
    partners = _partners(report, suspect, busy)
    if suspect["pair"]:
        # If one of the ends fails with others, too, it is to blame, and not the path.
        with_others = [((client, partners[0]), (partners[-1], server)) for client, server in failing if partners]
        return failing + [link for links in with_others for link in links]
    if suspect["direction"]:
        links = [(suspect["node"], partner) for partner in partners]
        return links if suspect["direction"] == "from" else [(partner, node) for node, partner in links]
    links = [(suspect["node"], partners[0]), (partners[-1], suspect["node"])] if partners else []
    # A path that is bad, and a failure by chance beside it, look like a port.
    return links + (failing if links and suspect["kind"] == "port" and len(failing) <= PARTNERS else [])


def again(report: t.Mapping[str, t.Any], unread: t.Iterable[tuple[str, str, int, str]] = ()) -> list[list[Json]]:
    """Return rounds in which what failed is measured again; a node is in at most one pair of a round.

    So is what was ``unread`` (client, server, rail, test), unless a node would be in more than ``PARTNERS`` pairs.
    """
    rails: dict[tuple[str, str], set[int]] = {}
    busy: collections.Counter[str] = collections.Counter()
    # What is wrong before any traffic needs none.
    for suspect in (suspect for suspect in report["suspects"] if _failing(report["pairs"], suspect)):
        own = report["wanted"]["rails"] if suspect["rail"] is None else [suspect["rail"]]
        for link in _links(report, suspect, busy):
            rails.setdefault(link, set()).update(own)
            busy.update(link)
    for client, server, rail, _test in unread:
        link = (client, server)
        if link not in rails:
            if max(busy[name] for name in link) >= PARTNERS:
                continue
            busy.update(link)
        rails.setdefault(link, set()).add(rail)
    rounds: list[list[Json]] = []
    for (client, server), numbers in rails.items():
        pair: Json = {"client": client, "server": server, "rails": sorted(numbers)}
        free = (
            pairs for pairs in rounds if not any({client, server} & {each["client"], each["server"]} for each in pairs)
        )
        place = next(free, None)
        if place is None:
            place = []
            rounds.append(place)
        place.append(pair)
    return rounds


class Held(t.NamedTuple):
    """What is left of suspects and failures after everything was measured again."""

    suspects: list[Json]
    pairs: list[Json]


def _fails(entries: t.Iterable[Json]) -> bool | None:
    """Return whether all links fail; a link fails if a test of it does. None if none of them was measured."""
    links: dict[tuple[str, str, int], list[str]] = {}
    for entry in entries:
        if entry["verdict"] != UNKNOWN:
            links.setdefault((entry["client"], entry["server"], entry["rail"]), []).append(entry["verdict"])
    return all(worst(verdicts) == FAIL for verdicts in links.values()) if links else None


def _port(suspect: Json, node: str, rail: int, direction: str | None) -> Json:
    why = "rail %d: node %s: measured again, it fails%s" % (
        rail, printable(node), " in the direction %s it alone" % direction if direction else " on this rail alone",
    )  # fmt: skip
    own = {"kind": "port", "node": node, "rail": rail, "pair": None, "direction": direction}
    return {**suspect, **own, "why": why + ": its card, cable or switch port"}


def _paths(suspect: Json, pairs: t.Sequence[Json], repeats: t.Sequence[Json]) -> list[Json]:
    """Return where a port that did not fail with others failed again with the same node."""
    rail, paths = suspect["rail"], []
    for client, server in _failing(pairs, suspect):
        if _fails(e for e in repeats if (e["client"], e["server"], e["rail"]) == (client, server, rail)):
            why = "rail %d: %s -> %s fails again, and both pass with other nodes: the path between them"
            own = {"kind": "pair", "node": None, "pair": [client, server], "direction": None}
            paths.append({**suspect, **own, "why": why % (rail, printable(client), printable(server))})
    return paths


def _end_confirmed(suspect: Json, pairs: t.Sequence[Json], repeats: t.Sequence[Json]) -> list[Json]:
    """Return a node or a port if it failed again in each direction, or what of it did."""
    node = suspect["node"]
    own = [entry for entry in repeats if _touches(suspect, entry)]
    parts: dict[int, str] = {}
    for rail in sorted({entry["rail"] for entry in own}):
        on_rail = [entry for entry in own if entry["rail"] == rail]
        sides = {direction: _fails(e for e in on_rail if e[end] == node) for direction, end in _END.items()}
        failing = [direction for direction, fails in sides.items() if fails]
        measured = [direction for direction, fails in sides.items() if fails is not None]
        if measured:
            parts[rail] = "all" if failing == measured else failing[0] if failing else ""
    if not parts:
        return [] if own else [suspect]
    if set(parts.values()) == {"all"}:
        others = {name for entry in own for name in (entry["client"], entry["server"])} - {node}
        text = "; measured again with %s, it fails again" % " and ".join(printable(name) for name in sorted(others))
        return [{**suspect, "why": suspect["why"] + text}]
    ports = [_port(suspect, node, rail, None if part == "all" else part) for rail, part in parts.items() if part]
    return ports or _paths(suspect, pairs, repeats)


def _path_confirmed(suspect: Json, pairs: t.Sequence[Json], repeats: t.Sequence[Json]) -> list[Json]:
    """Return a path if it failed again, or the end that fails with others, too."""
    on_rail = [entry for entry in repeats if entry["rail"] == suspect["rail"]]
    held: list[Json] = []
    known = False
    for client, server in _failing(pairs, suspect):
        direct = [e for e in on_rail if (e["client"], e["server"]) == (client, server)]
        known = known or bool(direct)
        if not _fails(direct):
            continue
        ends = [
            _port(suspect, node, suspect["rail"], direction)
            for node, direction, other in ((client, "from", server), (server, "to", client))
            if _fails(e for e in on_rail if e[_END[direction]] == node and other not in (e["client"], e["server"]))
        ]
        held += ends or [{**suspect, "why": suspect["why"] + "; measured again, it fails again"}]
    return held if known else [suspect]


def _confirmed(suspect: Json, pairs: t.Sequence[Json], repeats: t.Sequence[Json]) -> list[Json]:
    """Return what of a suspect failed again; as it was if it was not to be measured again."""
    if suspect["pair"]:
        return _path_confirmed(suspect, pairs, repeats)
    if suspect["kind"] not in _SHARED:
        return _end_confirmed(suspect, pairs, repeats)
    own = [entry for entry in repeats if _touches(suspect, entry)]
    if not own:
        return [suspect]
    return [{**suspect, "why": suspect["why"] + "; measured again, it fails again"}] if _fails(own) else []


def _said(entry: t.Mapping[str, t.Any]) -> str:
    if entry["latency_us"] is not None:
        text = "%s us" % speed(entry["latency_us"])
    else:
        text = "%s Gb/s" % speed(entry["gbps"]) if entry["gbps"] is not None else entry["error"] or entry["verdict"]
    return "%s (%s -> %s)" % (text, printable(entry["client"]), printable(entry["server"]))


def hold(
    suspects: t.Sequence[Json], pairs: t.Sequence[Json], repeats: t.Sequence[Json], cut: str | None = None
) -> Held:
    """Drop suspects that did not fail again: what they explained is not repeatable, and therefore unknown.

    ``cut`` is why not everything was measured again: so is what a suspect explained whose turn did not come.
    """
    held: list[Json] = []
    plan = {"suspects": suspects, "pairs": pairs}
    for suspect in suspects:
        seen = any(entry["verdict"] != UNKNOWN and _touches(suspect, entry) for entry in repeats)
        if seen or not cut or not _links(plan, suspect, {}):
            held += _confirmed(suspect, pairs, repeats)
    judged = []
    for entry in pairs:
        before = [suspect for suspect in suspects if _touches(suspect, entry)]
        if entry["verdict"] == FAIL and before and not any(_touches(suspect, entry) for suspect in held):
            later = [repeat for repeat in repeats if any(_touches(suspect, repeat) for suspect in before)]
            entry = {**entry, "verdict": UNKNOWN, "error": _doubt(entry, later, cut)}
        judged.append(entry)
    return Held(held, judged)


def _doubt(entry: Json, repeats: t.Sequence[Json], cut: str | None) -> str:
    """Return why a measurement that failed proves nothing."""
    if cut and not repeats:
        return "measured once only: %s; again: %s" % (_said(entry), cut)
    own = (repeat for repeat in repeats if repeat["test"] == entry["test"] and repeat["verdict"] == PASS)
    later = next(own, None)
    return "not repeatable: " + _said(entry) + ("; again: %s" % _said(later) if later else "")


__all__ = ("PARTNERS", "Held", "again", "hold")
