# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.

"""Who is to blame: what explains most of what failed, and nothing that a good measurement contradicts."""

from __future__ import annotations

import typing as t

from .inputs import Wanted
from .ports import Finding, label
from .vocabulary import FAIL, PASS, TESTS, UNKNOWN, Json, bound, percent, printable, short, show, some, speed, worst

# What may be to blame, what explains most first.
KINDS = ("rail", "node", "port", "pair")

Link = t.Tuple[str, str, int]  # client, server, rail


def _status(entries: list[Json]) -> str:
    """Return fail if a test fails between two ports, pass if all pass; what is unknown neither blames nor clears."""
    return worst(entry["verdict"] for entry in entries)


def eliminate(
    hosts: t.Mapping[str, Json], plan: Wanted, pairs: list[Json], findings: list[Finding], limit: float
) -> list[Json]:
    """Return who or what the failing measurements have in common, and the good ones do not touch."""
    links: dict[Link, list[Json]] = {}
    for entry in pairs:
        links.setdefault((entry["client"], entry["server"], entry["rail"]), []).append(entry)
    status = {link: _status(entries) for link, entries in links.items()}
    blamed = {(node, one.rail) for one in findings if one.named and one.verdict == FAIL for node in one.nodes}
    rails: dict[int, list[Link]] = {}
    for link, verdict in status.items():
        if verdict != UNKNOWN:
            rails.setdefault(link[2], []).append(link)
    suspects: list[Json] = []
    ports: dict[tuple[str, int], list[Link]] = {}  # with the failing links that it explains
    for rail in sorted(rails):
        good = [link for link in rails[rail] if status[link] == PASS]
        bad = [link for link in rails[rail] if status[link] == FAIL]
        if bad:
            suspects += _of_rail(hosts, rail, good, bad, {node for node, of in blamed if of == rail}, ports)
    whole = {suspect["rail"] for suspect in suspects if suspect["kind"] == "rail"}
    for node in list(dict.fromkeys(node for node, _rail in ports)):
        own = [rail for rail in sorted(rails) if rail not in whole and any(node in link[:2] for link in rails[rail])]
        named = [rail for rail in own if (node, rail) in ports]
        alone = len(plan.rails) == 1 and (node, named[0]) not in blamed
        if named == own and (len(own) > 1 or alone):
            explained = [link for rail in own for link in ports[node, rail]]
            suspects.append(_node(hosts, node, own, rails, status, explained))
        else:
            suspects += [_of_port(hosts, node, rail, rails, status, ports[node, rail]) for rail in named]
    suspects.sort(key=lambda one: (KINDS.index(one["kind"]), one["node"] or ""))
    for suspect in suspects:
        failing = [entry for link in suspect.pop("links") for entry in links[link] if entry["verdict"] == FAIL]
        suspect["worst"] = _worst(failing, limit)
    return suspects


def _suspect(kind: str, node: str | None, rail: int | None, why: str, links: list[Link], **more: t.Any) -> Json:
    return {"kind": kind, "node": node, "rail": rail, "pair": None, "why": why, "links": links, **more}


def _of_rail(
    hosts: t.Mapping[str, Json],
    rail: int,
    good: list[Link],
    bad: list[Link],
    blamed: set[str],
    ports: dict[tuple[str, int], list[Link]],
) -> list[Json]:
    """Return a rail or a path that is to blame, and add to ``ports`` the ports that are.

    A port without a good measurement is dead. It is to blame if it alone can explain a failure, or if its state
    does. A failure between two ports that are fine otherwise is that of the path between them.
    """
    touched = {node for link in good + bad for node in link[:2]}
    shared = set.intersection(*(set(link[:2]) for link in bad))
    pair = "measured pair"
    if not good and len(touched) > 2 and not shared:
        why = "rail %d: %s, whichever nodes are in them" % (rail, _fail_of(len(bad), pair))
        why += ": the rail itself (its switch)"
        return [_suspect("rail", None, rail, why, bad)]
    dead = touched - {node for link in good for node in link[:2]}
    named = dead & blamed
    for link in bad:
        ends = dead & set(link[:2])
        if len(ends) == 1:
            named |= ends
    open_links = [link for link in bad if dead & set(link[:2]) and not named & set(link[:2])]
    suspects = []
    for group in _components(open_links):
        both = set.intersection(*(set(link[:2]) for link in group))
        if len(both) == 1:  # a star
            named |= both
        elif len(both) == 2 and touched == both:
            one, other = (printable(node) for node in group[0][:2])
            why = "rail %d: %s between %s and %s: with two nodes" % (rail, _fail_of(len(bad), pair), one, other)
            why += " it is not known which end it is, or the rail itself (its switch)"
            suspects.append(_suspect("rail", None, rail, why, group))
        elif len(both) == 2:
            one, other = (label(hosts, node, rail) for node in group[0][:2])
            why = "rail %d: %s -> %s fails, and neither end was measured well with another node" % (rail, one, other)
            why += ": one of them, or the path between them"
            suspects.append(_suspect("pair", None, rail, why, group, pair=list(group[0][:2])))
        else:
            named |= {node for link in group for node in link[:2]}
    for node in sorted(named):
        own = [link for link in bad if node in link[:2]]
        if own:
            ports[node, rail] = own
    for link in bad:
        if not dead & set(link[:2]):
            one, other = (label(hosts, node, rail) for node in link[:2])
            if (link[1], link[0], rail) in good:
                why = "rail %d: %s -> %s fails, the other direction does not" % (rail, one, other)
            else:
                why = "rail %d: %s -> %s fails, both pass with other nodes" % (rail, one, other)
                why += ": the path between them"
            suspects.append(_suspect("pair", None, rail, why, [link], pair=list(link[:2])))
    return suspects


def _components(links: list[Link]) -> list[list[Link]]:
    """Return links in groups that share no node."""
    groups: list[list[Link]] = []
    for link in links:
        touching = [group for group in groups if any(set(link[:2]) & set(other[:2]) for other in group)]
        groups = [group for group in groups if group not in touching]
        groups.append([other for group in touching for other in group] + [link])
    return groups


def _fail_of(number: int, what: str, more: str = "") -> str:
    if number == 1:
        return "the only %s%s fails" % (what, more)
    return "all %d %ss%s fail" % (number, what, more)


def _node(
    hosts: t.Mapping[str, Json],
    node: str,
    own: list[int],
    rails: dict[int, list[Link]],
    status: dict[Link, str],
    links: list[Link],
) -> Json:
    failing = _fail_of(len(links), "measured pair", " with it")
    why = "node %s: %s on %s" % (printable(node), failing, _rails(own))
    others = [link for rail in own for link in rails[rail] if node not in link[:2]]
    passing = [link for link in others if status[link] == PASS]
    why += ", %d of %d without it pass" % (len(passing), len(others)) if others else ", and there are none without it"
    if len(own) == 1:
        where = label(hosts, node, own[0])
        why += ": the node %s, its card, cable or switch port (no other rail was measured)" % where
    else:
        why += ": the node itself"
    return _suspect("node", node, None, why, links)


def _of_port(
    hosts: t.Mapping[str, Json],
    node: str,
    rail: int,
    rails: dict[int, list[Link]],
    status: dict[Link, str],
    links: list[Link],
) -> Json:
    failing = _fail_of(len(links), "measured pair", " with it on this rail")
    why = "rail %d: node %s: %s" % (rail, label(hosts, node, rail), failing)
    good = [other for other in rails if any(status[link] == PASS and node in link[:2] for link in rails[other])]
    if good:
        why += ", not so on %s" % _rails(sorted(good))
    why += ": its card, cable or switch port"
    if len(links) > 1 and not any(status[link] == PASS for link in rails[rail]):
        why += ", or the rail itself, on which no pair without this node was measured well"
    return _suspect("port", node, rail, why, links)


def _rails(rails: t.Sequence[int]) -> str:
    return ("rail " if len(rails) == 1 else "rails ") + some([str(rail) for rail in rails], 16)


def _worst(failing: list[Json], limit: float) -> str:
    """Return the numbers behind a suspicion."""
    texts = []
    for test in TESTS:
        own = [entry for entry in failing if entry["test"] == test]
        slow = [entry for entry in own if entry["share"] is not None and entry["share"] < limit]
        errors = list(dict.fromkeys(entry["error"] for entry in own if entry not in slow))
        if slow:
            low = min(slow, key=lambda entry: (entry["share"], entry["client"], entry["server"]))
            texts.append(
                "%s %s%s of %s Gb/s, %s, limit %s" % (
                    test, "" if len(slow) == 1 else "down to ", speed(low["gbps"]), show(low["expected_gbps"]),
                    percent(low["share"]), bound(limit),
                )
            )  # fmt: skip
        if errors:
            texts.append("%s: %s" % (test, some([printable(short(error)) for error in errors], 2)))
    return "; ".join(texts)


def sentences(suspects: list[Json]) -> list[str]:
    """Return the suspects as reasons; rails that fail in the same way are one."""
    rails = [suspect for suspect in suspects if suspect["kind"] == "rail"]
    reasons = []
    if len(rails) > 1:
        numbers = _rails([suspect["rail"] for suspect in rails])
        why = rails[0]["why"].split(": ", 1)[1]
        # The words are the same but for the names of the ports; one rail's stand for all.
        if all(_tail(suspect["why"]) == _tail(rails[0]["why"]) for suspect in rails):
            reasons.append("%s, each: %s (rail %d: %s)" % (numbers, why, rails[0]["rail"], rails[0]["worst"]))
            suspects = [suspect for suspect in suspects if suspect["kind"] != "rail"]
    return reasons + ["%s (%s)" % (suspect["why"], suspect["worst"]) for suspect in suspects]


def _tail(why: str) -> str:
    return why.rsplit(": ", 1)[1]


def with_findings(suspects: list[Json], findings: list[Finding]) -> list[Json]:
    """Add the ports that are to blame for what was seen before any traffic."""
    merged = [dict(suspect) for suspect in suspects]
    for one in findings:
        if one.verdict != FAIL or not one.named:
            continue
        node = one.nodes[0] if one.kind == "port" else None
        same = [s for s in merged if (s["kind"], s["node"], s["rail"]) == (one.kind, node, one.rail)]
        if same:
            same[0]["why"] = "%s; %s" % (one.why, same[0]["why"])
        else:
            merged.append({"kind": one.kind, "node": node, "rail": one.rail, "pair": None, "why": one.why, "worst": ""})
    return merged


__all__ = (
    "eliminate",
    "sentences",
    "with_findings",
)
