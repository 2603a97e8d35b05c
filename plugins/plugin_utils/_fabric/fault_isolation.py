# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.

"""Isolate faults: what explains most failures, and is contradicted by no good measurement."""

from __future__ import annotations

import typing as t

from .._terminal import some
from .inputs import Plan
from .ports import Finding, label
from .vocabulary import FAIL, PASS, TESTS, UNKNOWN, Json, bound, percent, printable, short, show, speed, worst

# Kinds of suspects; what explains most comes first.
KINDS = ("rail", "leaf", "node", "port", "pair")

Link = t.Tuple[str, str, int]  # client, server, rail


def _status(entries: list[Json]) -> str:
    """Return fail if a test fails between two ports, pass if all pass; unknown tests do not count."""
    return worst(entry["verdict"] for entry in entries)


class _Rail(t.NamedTuple):
    """The links of one rail that were measured."""

    number: int
    good: list[Link]
    failing: list[Link]

    @property
    def links(self) -> list[Link]:
        return self.good + self.failing


def isolate_faults(
    hosts: t.Mapping[str, Json], plan: Plan, pairs: list[Json], findings: list[Finding], limit: float
) -> list[Json]:
    """Return the suspects: what failing measurements have in common, and good ones do not."""
    links: dict[Link, list[Json]] = {}
    for entry in pairs:
        links.setdefault((entry["client"], entry["server"], entry["rail"]), []).append(entry)
    rails = _rails_of({link: _status(entries) for link, entries in links.items()})
    blamed = {
        (node, finding.rail)
        for finding in findings
        if finding.named and finding.verdict == FAIL
        for node in finding.nodes
    }
    suspects: list[Json] = []
    ports: dict[tuple[str, int], list[Link]] = {}  # with the failing links that they explain
    for rail in rails.values():
        if rail.failing:
            rail_suspects, port_links = _rail_suspects(
                hosts, rail, {node for node, number in blamed if number == rail.number}
            )
            suspects += rail_suspects
            ports.update(((node, rail.number), explained) for node, explained in port_links.items())
    measured = {number: _nodes(rail.links) for number, rail in rails.items()}
    whole = {suspect["rail"] for suspect in suspects if suspect["kind"] == "rail"}
    for node in sorted({node for node, _rail in ports}):
        own = [rail for rail in rails.values() if rail.number not in whole and node in measured[rail.number]]
        named = [rail for rail in own if (node, rail.number) in ports]
        alone = len(plan.rails) == 1 and (node, named[0].number) not in blamed
        if named == own and (len(own) > 1 or alone):
            explained = [link for rail in own for link in ports[node, rail.number]]
            suspects.append(_node_suspect(hosts, node, own, explained))
        else:
            suspects += [_port_suspect(hosts, node, rail, rails, ports[node, rail.number]) for rail in named]
    suspects.sort(key=lambda suspect: KINDS.index(suspect["kind"]))
    for suspect in suspects:
        failing = [entry for link in suspect.pop("links") for entry in links[link] if entry["verdict"] == FAIL]
        suspect["worst"] = _worst(failing, limit)
    return suspects


def _rails_of(status: t.Mapping[Link, str]) -> dict[int, _Rail]:
    rails = {
        number: _Rail(number, [], [])
        for number in sorted({link[2] for link, verdict in status.items() if verdict != UNKNOWN})
    }
    for link, verdict in status.items():
        if verdict != UNKNOWN:
            (rails[link[2]].good if verdict == PASS else rails[link[2]].failing).append(link)
    return rails


def _nodes(links: t.Iterable[Link]) -> set[str]:
    return {node for link in links for node in link[:2]}


def _shared(links: t.Iterable[Link]) -> set[str]:
    """Return the nodes that all links have in common."""
    return set.intersection(*(set(link[:2]) for link in links))


def _suspect(kind: str, node: str | None, rail: int | None, why: str, links: list[Link], **more: t.Any) -> Json:
    base = {"kind": kind, "node": node, "rail": rail, "pair": None, "direction": None, "leaves": None}
    return {**base, "why": why, "links": links, **more}


def _rail_suspects(
    hosts: t.Mapping[str, Json], rail: _Rail, blamed: set[str]
) -> tuple[list[Json], dict[str, list[Link]]]:
    """Return the rail or paths to blame, and the ports to blame, with the failing links that they explain.

    A port without a good measurement is dead. It is to blame if it alone can explain a failure, or if its state
    does. If two ports are good otherwise, a failure between them is that of their path.
    """
    measured = _nodes(rail.links)
    if not rail.good and len(measured) > 2 and not _shared(rail.failing):
        why = "rail %d: %s, whichever nodes are in them" % (rail.number, _fail_of(len(rail.failing), "measured pair"))
        why += ": the rail itself (its switch)"
        return [_suspect("rail", None, rail.number, why, rail.failing)], {}
    dead = measured - _nodes(rail.good)
    named = dead & blamed
    for link in rail.failing:
        ends = dead & set(link[:2])
        if len(ends) == 1:
            named |= ends
    open_links = [link for link in rail.failing if dead & set(link[:2]) and not named & set(link[:2])]
    suspects = []
    for group in _components(open_links):
        shared = _shared(group)
        if len(shared) == 2:
            suspects.append(_ends_suspect(hosts, rail, group, only=measured == shared))
        else:  # a star: its center is to blame, or else all of its nodes
            named |= shared or _nodes(group)
    explained = {node: [link for link in rail.failing if node in link[:2]] for node in sorted(named)}
    open_links = [link for link in rail.failing if not dead & set(link[:2])]
    for suspects_of in (_between_leaves, _one_way):
        for suspect in suspects_of(hosts, rail, open_links):
            suspects.append(suspect)
            open_links = [link for link in open_links if link not in suspect["links"]]
    suspects += [_path_suspect(hosts, rail, link) for link in open_links]
    return suspects, {node: links for node, links in explained.items() if links}


def _ends_suspect(hosts: t.Mapping[str, Json], rail: _Rail, links: list[Link], *, only: bool) -> Json:
    """Return the suspect if two dead ports were measured only with each other; ``only``: the rail has no others."""
    ends = links[0][:2]
    if only:
        why = "rail %d: %s between %s and %s: with two nodes" % (
            rail.number, _fail_of(len(rail.failing), "measured pair"), printable(ends[0]), printable(ends[1]),
        )  # fmt: skip
        why += " it is not known which end it is, or the rail itself (its switch)"
        return _suspect("rail", None, rail.number, why, links)
    why = "%s fails, and neither end was measured well with another node" % _path(hosts, rail, links[0])
    why += ": one of them, or the path between them"
    return _suspect("pair", None, rail.number, why, links, pair=list(ends))


def _one_way(hosts: t.Mapping[str, Json], rail: _Rail, links: list[Link]) -> t.Iterator[Json]:
    """Yield the ports that are good in one direction, and with no partner in the other, the worst first."""
    ends = [(node, place) for node in sorted(_nodes(links)) for place in (0, 1)]
    failing = {end: [link for link in links if link[end[1]] == end[0]] for end in ends}
    explained: set[Link] = set()
    for node, place in sorted(ends, key=lambda end: -len(failing[end])):
        own = [link for link in failing[node, place] if link not in explained]
        if len(own) < 2 or any(link[place] == node for link in rail.good):
            continue
        explained.update(own)
        direction, other = ("from", "to") if place == 0 else ("to", "from")
        passing = len([link for link in rail.good if link[1 - place] == node])
        why = "rail %d: node %s: all %d measured pairs %s it fail, %d %s it pass: its card, cable or switch port" % (
            *(rail.number, label(hosts, node, rail.number), len(own), direction, passing, other),
        )  # fmt: skip
        yield _suspect("port", node, rail.number, why, own, direction=direction)


def _between_leaves(hosts: t.Mapping[str, Json], rail: _Rail, links: list[Link]) -> t.Iterator[Json]:
    """Yield what is between leaf switches, if all pairs fail that it connects, the most pairs first."""
    failing, good = _crossing(hosts, links), _crossing(hosts, rail.good)
    names = sorted(set[str]().union(*failing.values(), *good.values()))
    choices = [frozenset(names)] if len(names) > 2 else []
    choices += [frozenset([name]) for name in names]
    choices += sorted(set(failing.values()), key=sorted)
    for leaves in choices:
        own = {link: ends for link, ends in failing.items() if _connects(leaves, ends)}
        # One leaf is to blame if it fails with several others.
        if len(own) < 2 or len(set(own.values())) < (2 if len(leaves) == 1 else 1):
            continue
        if any(_connects(leaves, ends) for ends in good.values()):
            continue
        failing = {link: ends for link, ends in failing.items() if link not in own}
        inside = [link for link in rail.good if link not in good and hosts[link[0]]["leaf"] in leaves]
        shown = [printable(name) for name in sorted(leaves)]
        between, culprit = {
            1: ("leaf switch %s and others" % shown[0], "its uplinks"),
            2: ("leaf switches %s" % " and ".join(shown), "the path between them"),
        }.get(len(leaves), ("leaf switches", "the switches that connect them"))
        why = "rail %d: all %d measured pairs between %s fail, %d within %s pass: %s" % (
            *(rail.number, len(own), between, len(inside), "it" if len(leaves) == 1 else "them", culprit),
        )  # fmt: skip
        nodes = {leaf: [node for node, host in hosts.items() if host["leaf"] == leaf] for leaf in sorted(leaves)}
        yield _suspect("leaf", None, rail.number, why, list(own), leaves=nodes)


def _crossing(hosts: t.Mapping[str, Json], links: t.Iterable[Link]) -> dict[Link, frozenset[str]]:
    """Return the links between different leaf switches, with both of these."""
    leaf = {node: host["leaf"] for node, host in hosts.items() if host["leaf"]}
    known = {link: frozenset(leaf[node] for node in link[:2]) for link in links if leaf.keys() >= set(link[:2])}
    return {link: leaves for link, leaves in known.items() if len(leaves) == 2}


def _connects(leaves: t.Collection[str], ends: t.Collection[str]) -> bool:
    """Return whether a link is between these leaf switches, or, if it is one, between that and another."""
    return set(leaves) <= set(ends) if len(leaves) == 1 else set(ends) <= set(leaves)


def _path_suspect(hosts: t.Mapping[str, Json], rail: _Rail, link: Link) -> Json:
    if (link[1], link[0], rail.number) in rail.good:
        why = "%s fails, the other direction does not" % _path(hosts, rail, link)
    else:
        why = "%s fails, both pass with other nodes: the path between them" % _path(hosts, rail, link)
    return _suspect("pair", None, rail.number, why, [link], pair=list(link[:2]))


def _path(hosts: t.Mapping[str, Json], rail: _Rail, link: Link) -> str:
    client, server = (label(hosts, node, rail.number) for node in link[:2])
    return "rail %d: %s -> %s" % (rail.number, client, server)


def _components(links: list[Link]) -> list[list[Link]]:
    """Return links in groups without a common node."""
    groups: list[list[Link]] = []
    for link in links:
        touching = [group for group in groups if any(set(link[:2]) & set(other[:2]) for other in group)]
        groups = [group for group in groups if group not in touching]
        groups.append([other for group in touching for other in group] + [link])
    return groups


def _fail_of(number: int, noun: str, more: str = "") -> str:
    if number == 1:
        return "the only %s%s fails" % (noun, more)
    return "all %d %ss%s fail" % (number, noun, more)


def _node_suspect(hosts: t.Mapping[str, Json], node: str, own: list[_Rail], links: list[Link]) -> Json:
    numbers = [rail.number for rail in own]
    why = "node %s: %s on %s" % (
        printable(node), _fail_of(len(links), "measured pair", " with it"), _rails(numbers),
    )  # fmt: skip
    others = [link for rail in own for link in rail.links if node not in link[:2]]
    passing = [link for rail in own for link in rail.good if node not in link[:2]]
    why += ", %d of %d without it pass" % (len(passing), len(others)) if others else ", and there are none without it"
    if len(own) == 1:
        where = label(hosts, node, numbers[0])
        why += ": the node %s, its card, cable or switch port (no other rail was measured)" % where
    else:
        why += ": the node itself"
    return _suspect("node", node, None, why, links)


def _port_suspect(
    hosts: t.Mapping[str, Json], node: str, rail: _Rail, rails: t.Mapping[int, _Rail], links: list[Link]
) -> Json:
    failing = _fail_of(len(links), "measured pair", " with it on this rail")
    why = "rail %d: node %s: %s" % (rail.number, label(hosts, node, rail.number), failing)
    good = [other.number for other in rails.values() if any(node in link[:2] for link in other.good)]
    if good:
        why += ", not so on %s" % _rails(good)
    why += ": its card, cable or switch port"
    if len(links) > 1 and not rail.good:
        why += ", or the rail itself, on which no pair without this node was measured well"
    return _suspect("port", node, rail.number, why, links)


def _rails(rails: t.Sequence[int]) -> str:
    return ("rail " if len(rails) == 1 else "rails ") + some([str(rail) for rail in rails], 16)


def _worst(failing: list[Json], limit: float) -> str:
    """Return the worst results of a suspect."""
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
    """Return the suspects as reasons; rails that fail in the same way have one."""
    rails = [suspect for suspect in suspects if suspect["kind"] == "rail"]
    reasons = []
    if len(rails) > 1:
        numbers = _rails([suspect["rail"] for suspect in rails])
        why = rails[0]["why"].split(": ", 1)[1]
        # The reasons differ only in the names of ports; that of one rail is used for all.
        if all(_tail(suspect["why"]) == _tail(rails[0]["why"]) for suspect in rails):
            reasons.append("%s, each: %s (rail %d: %s)" % (numbers, why, rails[0]["rail"], rails[0]["worst"]))
            suspects = [suspect for suspect in suspects if suspect["kind"] != "rail"]
    return reasons + ["%s (%s)" % (suspect["why"], suspect["worst"]) for suspect in suspects]


def _tail(why: str) -> str:
    return why.rsplit(": ", 1)[1]


def with_findings(suspects: list[Json], findings: list[Finding]) -> list[Json]:
    """Add the ports that are to blame for findings before any traffic."""
    merged = [dict(suspect) for suspect in suspects]
    for finding in findings:
        if finding.verdict != FAIL or not finding.named:
            continue
        node = finding.nodes[0] if finding.kind == "port" else None
        same = [s for s in merged if (s["kind"], s["node"], s["rail"]) == (finding.kind, node, finding.rail)]
        if same:
            same[0]["why"] = "%s; %s" % (finding.why, same[0]["why"])
        else:
            merged.append(
                {
                    "kind": finding.kind,
                    "node": node,
                    "rail": finding.rail,
                    "pair": None,
                    "direction": None,
                    "leaves": None,
                    "why": finding.why,
                    "worst": "",
                }
            )
    return merged


__all__ = (
    "isolate_faults",
    "sentences",
    "with_findings",
)
