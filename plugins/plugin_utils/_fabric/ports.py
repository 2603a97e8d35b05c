# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.

"""Find what is wrong with ports, or unknown, before any traffic."""

from __future__ import annotations

import collections
import typing as t

from .._terminal import some
from .inputs import Plan
from .vocabulary import ABSENT, ACTIVE, FAIL, UNKNOWN, Json, printable, show

# Values that must be the same on all nodes of a rail.
_SAME = (
    ("netdev_mtu", "netdev MTU", ""),
    ("active_mtu", "RDMA MTU", ""),
    ("rate_gbps", "rate", " Gb/s"),
    ("link_layer", "link layer", ""),
    ("protocol", "protocol", ""),
)


class Finding(t.NamedTuple):
    """Something wrong or unknown before any traffic."""

    verdict: str
    rail: int
    kind: str  # port, or rail if all nodes have it
    nodes: list[str]  # the nodes of the ports; all of them in a tie
    named: bool  # whether these nodes are to blame, or only differ
    what: str
    values: dict[str, t.Any]
    why: str

    def as_json(self) -> Json:
        """Return its fields in the report."""
        return {key: getattr(self, key) for key in ("verdict", "rail", "what", "nodes", "values", "why")}


def port_of(hosts: t.Mapping[str, Json], node: str, rail: int) -> Json | None:
    return hosts[node]["rails"].get(rail) if node in hosts else None


def label(hosts: t.Mapping[str, Json], node: str, rail: int) -> str:
    """Return a node with its port on a rail, for a sentence."""
    port = port_of(hosts, node, rail) or {}
    device = port.get("device")
    if device and port.get("port") not in (None, 1):
        device = "%s port %d" % (device, port["port"])
    names = [printable(name) for name in (device, port.get("netdev")) if name]
    return printable(node) + (" (%s)" % ", ".join(names) if names else "")


def examine(hosts: t.Mapping[str, Json], plan: Plan) -> list[Finding]:
    """Return what is wrong with the ports of the requested rails."""
    findings = []
    for rail in plan.rails:
        findings += _states(hosts, rail)
        for key, noun, unit in _SAME:
            findings += _differences(hosts, rail, key, noun, unit)
    return findings + _find_down_trained(hosts, plan, findings)


def _states(hosts: t.Mapping[str, Json], rail: int) -> list[Finding]:
    findings = []
    for node, host in hosts.items():
        port = host["rails"].get(rail)
        if not host["reachable"] or (port is None and host["problems"]):
            continue  # what could not be read is reported for the node
        start = "rail %d: node %s" % (rail, label(hosts, node, rail))
        verdict, state = FAIL, port["state"] if port else ABSENT
        if port is None or state == ABSENT:
            why = start + " has no such port: the device of this rail is absent"
        elif state is None:
            verdict, why = UNKNOWN, start + ": the state of the port could not be read"
        elif state != ACTIVE:
            why = "%s: the port is %s, not ACTIVE" % (start, printable(state))
        else:
            continue
        findings.append(Finding(verdict, rail, "port", [node], True, "state", {node: state}, why))
    return findings


def _up(hosts: t.Mapping[str, Json], rail: int) -> dict[str, Json]:
    """Return the ports of a rail that are up: values of other ports do not describe a link."""
    ports = {node: host["rails"].get(rail) for node, host in hosts.items() if host["reachable"]}
    return {node: port for node, port in ports.items() if port and port["state"] in (ACTIVE, None)}


def _differences(hosts: t.Mapping[str, Json], rail: int, key: str, noun: str, unit: str) -> list[Finding]:
    """Return the nodes that differ from the majority on a rail; without a majority, all."""
    values = {node: port[key] for node, port in _up(hosts, rail).items()}
    groups: dict[t.Any, list[str]] = {}
    for node, value in values.items():
        if value is not None:
            groups.setdefault(value, []).append(node)
    findings = []
    unread = [node for node, value in values.items() if value is None]
    if groups and unread:
        why = "rail %d: the %s could not be read on %s, the others have %s" % (
            rail, noun, some([label(hosts, node, rail) for node in unread]), some([show(v, unit) for v in groups]),
        )  # fmt: skip
        findings.append(Finding(UNKNOWN, rail, "port", unread, False, key, dict.fromkeys(unread), why))
    if len(groups) < 2:
        return findings
    number = sum(len(group) for group in groups.values())
    usual = max(groups, key=lambda value: len(groups[value]))
    if len(groups[usual]) * 2 > number:
        for value, group in groups.items():
            for node in group if value != usual else ():
                why = "rail %d: node %s has %s %s, %d of %d nodes have %s" % (
                    rail, label(hosts, node, rail), noun, show(value, unit), len(groups[usual]), number,
                    show(usual, unit),
                )  # fmt: skip
                if key == "rate_gbps" and value < usual:
                    why += ": the link is down-trained"
                findings.append(Finding(FAIL, rail, "port", [node], True, key, {node: value}, why))
        return findings
    parts = [
        "%s on %s" % (show(value, unit), some([label(hosts, node, rail) for node in group]))
        for value, group in groups.items()
    ]
    why = "rail %d: the %s differs between nodes: %s" % (rail, noun, "; ".join(parts))
    everyone = [node for group in groups.values() for node in group]
    known = {node: value for node, value in values.items() if value is not None}
    return findings + [Finding(FAIL, rail, "port", everyone, False, key, known, why)]


def _find_down_trained(hosts: t.Mapping[str, Json], plan: Plan, findings: list[Finding]) -> list[Finding]:
    """Return the ports that are slower than most other rails of their node, or the rail if it is so on all nodes."""
    reported = {
        (node, finding.rail)
        for finding in findings
        if finding.what == "rate_gbps" and finding.named
        for node in finding.nodes
    }
    rates = {rail: {node: port["rate_gbps"] for node, port in _up(hosts, rail).items()} for rail in plan.rails}
    slow: list[Finding] = []
    for rail in plan.rails:
        trained_down = []
        for node, rate in rates[rail].items():
            others = [rates[other].get(node) for other in plan.rails if other != rail]
            usual, number = (collections.Counter(filter(None, others)).most_common(1) or [(None, 0)])[0]
            if rate is None or number * 2 <= len(others) or rate >= usual or (node, rail) in reported:
                continue
            why = "rail %d: node %s runs at %s, its other rails at %s: the link is down-trained" % (
                rail, label(hosts, node, rail), show(rate, " Gb/s"), show(usual, " Gb/s"),
            )  # fmt: skip
            trained_down.append(Finding(FAIL, rail, "port", [node], True, "rate_gbps", {node: rate}, why))
        if len(trained_down) > 1 and len(trained_down) == len(rates[rail]):
            values = {node: rate for finding in trained_down for node, rate in finding.values.items()}
            why = "rail %d: all %d nodes run at %s here, slower than on their other rails: the rail is down-trained" % (
                rail, len(trained_down), some([show(rate, " Gb/s") for rate in dict.fromkeys(values.values())]),
            )  # fmt: skip
            trained_down = [Finding(FAIL, rail, "rail", list(values), True, "rate_gbps", values, why)]
        slow += trained_down
    return slow


__all__ = (
    "Finding",
    "examine",
    "label",
    "port_of",
)
