# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.

"""What the measurements between nodes come to: a verdict that nothing passes untested, and who is to blame.

"fail" beats "unknown" beats "pass". What was not measured, or cannot be read, is unknown.
"""

from __future__ import annotations

import collections
import math
import textwrap
import typing as t
import unicodedata

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._errors import FabricError
from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils import _fabric_checks, _fabric_gpus
from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._fabric_terms import (
    BANDWIDTHS,
    CHECKS,
    CUDA,
    FAIL,
    NCCL,
    PASS,
    RPING,
    TESTS,
    UNKNOWN,
    VERDICTS,
    WANTED,
    printable,
    short,
    some,
    worst,
)

SCHEMA = 1

# What may be to blame, what explains most first.
KINDS = ("rail", "node", "port", "pair")

ACTIVE = "ACTIVE"
ABSENT = "absent"

WIDTH = 120

# What has to be the same on all nodes of a rail.
_SAME = (
    ("netdev_mtu", "netdev MTU", ""),
    ("active_mtu", "RDMA MTU", ""),
    ("rate_gbps", "rate", " Gb/s"),
    ("link_layer", "link layer", ""),
    ("protocol", "protocol", ""),
)
_NUMBERS = ("rate_gbps", "netdev_mtu", "active_mtu")
_TEXTS = ("device", "netdev", "state", "link_layer", "protocol", "gid", "ipv4")
_SHOWN = (
    "device", "port", "netdev", "state", "rate_gbps", "netdev_mtu", "active_mtu", "link_layer", "protocol",
    "gid_index", "gid", "ipv4",
)  # fmt: skip

Json = t.Dict[str, t.Any]
Link = t.Tuple[str, str, int]  # client, server, rail


class VerdictError(FabricError):
    """What is to be judged is not of the shape that is needed."""


class _Wanted(t.NamedTuple):
    pairs: list[tuple[str, str]]
    rails: list[int]
    tests: list[str]  # between two ends
    checks: list[str]  # of one end
    nccl: bool


class _Finding(t.NamedTuple):
    """Something that is wrong, or not known, before any traffic."""

    verdict: str
    rail: int
    kind: str  # port, or rail: all nodes have it
    nodes: list[str]  # whose port it is; of a tie, all
    named: bool  # whether those are the culprits, or only take part in a difference
    what: str
    values: dict[str, t.Any]
    why: str

    def as_json(self) -> Json:
        """Return what the report has of it."""
        return {key: getattr(self, key) for key in ("verdict", "rail", "what", "nodes", "values", "why")}


def judge(nodes: t.Any, results: t.Any, wanted: t.Any, min_share: t.Any, started: t.Any, nccl: t.Any = None) -> Json:
    """Return the report on what was measured between the nodes."""
    limit = _limit(min_share)
    if not isinstance(started, str):
        raise _bad("started has to be a text with the time, not %s" % _brief(started))
    hosts = _nodes(nodes)
    plan = _plan(wanted, hosts)
    seen = _results(results)
    findings = _look(hosts, plan)
    pairs = _measured(hosts, plan, seen, limit)
    checks = _fabric_checks.checked(hosts, plan.checks, plan.rails)
    if nccl is not None and not isinstance(nccl, t.Mapping):
        raise _bad("nccl has to be a dictionary, not %s" % _brief(nccl))
    together = _fabric_gpus.nccl(nccl, hosts, plan.nccl)
    suspects = _eliminate(hosts, plan, pairs, findings, limit)
    gaps = _gaps(hosts, plan)
    notes = _unmeasured(pairs)
    verdicts = [entry["verdict"] for entry in pairs + checks] + [finding.verdict for finding in findings]
    verdicts += [together["verdict"]] if together else []
    verdict = worst(verdicts + ([UNKNOWN] if gaps else []) or [UNKNOWN])
    reasons = [finding.why for finding in findings if finding.verdict == FAIL]
    reasons += _sentences(suspects)
    reasons += _fabric_checks.reasons(checks, FAIL) + _fabric_gpus.sentence(together, FAIL)
    reasons += gaps
    reasons += [finding.why for finding in findings if finding.verdict == UNKNOWN]
    reasons += notes + _fabric_checks.reasons(checks, UNKNOWN) + _fabric_gpus.sentence(together, UNKNOWN)
    reasons += _unwanted(pairs)
    return {
        "schema": SCHEMA,
        "started": started,
        "verdict": verdict,
        "min_share": limit,
        "wanted": {
            "pairs": [list(pair) for pair in plan.pairs],
            "rails": plan.rails,
            "tests": _asked(plan),
        },
        "reasons": list(dict.fromkeys(reasons)),
        "suspects": _with_findings(suspects, findings),
        "coherence": [one.as_json() for one in findings],
        "nodes": _judged_nodes(hosts, plan, pairs, checks, findings, suspects),
        "pairs": pairs,
        "checks": checks,
        "nccl": together,
        "gpudirect": _fabric_gpus.gpudirect(pairs, together, hosts),
        "skipped": _skipped(hosts, pairs, together) + _fabric_checks.left_out(checks),
    }


def _asked(plan: _Wanted) -> list[str]:
    return plan.tests + plan.checks + ([NCCL] if plan.nccl else [])


# --- what is given ------------------------------------------------------------------------------------------------


def _bad(text: str) -> VerdictError:
    return VerdictError("Could not judge the fabric: " + text)


def _brief(value: t.Any) -> str:
    try:
        text = repr(value)
    except ValueError:  # an integer of more digits than Python prints
        return "a value of type %s that is too long to be printed" % type(value).__name__
    return text if len(text) <= 80 else "%s... (%s)" % (text[:80], type(value).__name__)


def _limit(value: t.Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= 1:
        raise _bad("min_share has to be a number above 0 and up to 1, for example 0.8, not %s" % _brief(value))
    return float(value)


def _list(value: t.Any, what: str) -> list[t.Any]:
    if not isinstance(value, (list, tuple)):
        raise _bad("%s has to be a list, not %s" % (what, _brief(value)))
    return list(value)


def _rail(value: t.Any, what: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise _bad("%s has to be the number of a rail, from 0, not %s" % (what, _brief(value)))
    return int(value)


def _name(value: t.Any, what: str) -> str:
    if not isinstance(value, str) or not value:
        raise _bad("%s has to be the name of a node, not %s" % (what, _brief(value)))
    return str(value)


def _text(value: t.Any, what: str) -> str | None:
    if value is not None and not isinstance(value, str):
        raise _bad("%s has to be a text or null, not %s" % (what, _brief(value)))
    return str(value) if value else None


def _texts(value: t.Any, what: str) -> list[str]:
    return [text for entry in _list([] if value is None else value, what) for text in [_text(entry, what)] if text]


def _number(value: t.Any, what: str) -> float | None:
    """Return a number; one that is none, or no quantity, cannot be read."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise _bad("%s has to be a number or null, not %s" % (what, _brief(value)))
    return value if 0 <= value < 1e9 else None


def _test(value: t.Any, what: str, tests: t.Sequence[str] = TESTS) -> str:
    if not isinstance(value, str) or value not in tests:
        raise _bad("%s is %s; the tests are %s" % (what, _brief(value), ", ".join(tests)))
    return str(value)


def _count(value: t.Any, what: str) -> int | None:
    number = _number(value, what)
    return None if number is None else int(number)


def _checks(value: t.Any, where: str) -> list[Json]:
    found = []
    for entry in _list([] if value is None else value, where):
        if not isinstance(entry, t.Mapping):
            raise _bad("%s has to be a list of dictionaries; it has %s" % (where, _brief(entry)))
        ok = entry.get("ok")
        if ok is not None and not isinstance(ok, bool):
            raise _bad("%s[].ok has to be true, false or null, not %s" % (where, _brief(ok)))
        known = {
            "rail": _rail(entry.get("rail"), where + "[].rail"),
            "test": _test(entry.get("test"), where + "[].test", CHECKS),
            "error": _text(entry.get("error"), where + "[].error"),
        }
        found.append({**{key: entry.get(key) for key in _fabric_checks.DETAILS}, **known, "ok": ok})
    return found


def _nodes(nodes: t.Any) -> dict[str, Json]:
    if not isinstance(nodes, t.Mapping):
        raise _bad("nodes has to be a dictionary, name of a node to what was seen on it, not %s" % _brief(nodes))
    found = {}
    for key, value in nodes.items():
        name = _name(key, "a key of nodes")
        where = "nodes[%r]" % name
        if not isinstance(value, t.Mapping):
            raise _bad("%s has to be a dictionary, not %s" % (where, _brief(value)))
        reachable = value.get("reachable")
        if not isinstance(reachable, bool):
            raise _bad("%s.reachable has to be true or false, not %s" % (where, _brief(reachable)))
        rails: dict[int, Json] = {}
        for entry in _list([] if value.get("rails") is None else value["rails"], where + ".rails"):
            if not isinstance(entry, t.Mapping):
                raise _bad("%s.rails has to be a list of dictionaries; it has %s" % (where, _brief(entry)))
            rail = _rail(entry.get("rail"), where + ".rails[].rail")
            if rail in rails:
                raise _bad("%s.rails has rail %d twice" % (where, rail))
            shown = {key: entry.get(key) for key in _SHOWN}
            for key in _NUMBERS:
                number = _number(shown[key], "%s.rails[].%s of rail %d" % (where, key, rail))
                shown[key] = number or None  # a link without a rate, or an MTU of 0, is one that was not read
            for key in _TEXTS:
                shown[key] = _text(shown[key], "%s.rails[].%s of rail %d" % (where, key, rail))
            for key in ("port", "gid_index"):
                number = _number(shown[key], "%s.rails[].%s of rail %d" % (where, key, rail))
                shown[key] = None if number is None else int(number)
            rails[rail] = {"rail": rail, **shown}
        found[name] = {
            "reachable": reachable,
            "problems": _texts(value.get("problems"), where + ".problems"),
            "busy": _texts(value.get("busy"), where + ".busy"),
            "pod": _text(value.get("pod"), where + ".pod"),
            "gpus": _count(value.get("gpus"), where + ".gpus"),
            "checks": _checks(value.get("checks"), where + ".checks"),
            "rails": rails,
        }
    return found


def _plan(wanted: t.Any, hosts: t.Mapping[str, Json]) -> _Wanted:
    if not isinstance(wanted, t.Mapping):
        raise _bad("wanted has to be a dictionary with pairs, rails and tests, not %s" % _brief(wanted))
    unknown = sorted(set(map(str, wanted)) - {"pairs", "rails", "tests"})
    if unknown:
        raise _bad("wanted has %s; it has pairs, rails and tests" % ", ".join(unknown))
    pairs = []
    for entry in _list(wanted.get("pairs"), "wanted.pairs"):
        if not isinstance(entry, (list, tuple)) or len(entry) != 2:
            raise _bad("wanted.pairs has %s, which is not a list of client and server" % _brief(entry))
        client, server = (_name(name, "an entry of wanted.pairs") for name in entry)
        if client == server:
            raise _bad("wanted.pairs has %r with itself" % client)
        for name in (client, server):
            if name not in hosts:
                raise _bad("wanted.pairs has %r, which is not in nodes" % name)
        pairs.append((client, server))
    rails = [_rail(rail, "an entry of wanted.rails") for rail in _list(wanted.get("rails"), "wanted.rails")]
    tests = [_test(test, "an entry of wanted.tests", WANTED) for test in _list(wanted.get("tests"), "wanted.tests")]
    both = list(dict.fromkeys(tests))
    return _Wanted(
        list(dict.fromkeys(pairs)),
        sorted(set(rails)),
        [test for test in both if test in TESTS],
        [test for test in both if test in CHECKS],
        NCCL in both,
    )


def _traffic(value: t.Any, where: str) -> Json | None:
    if value is None:
        return None
    if not isinstance(value, t.Mapping) or not (value.get("quiet") is None or isinstance(value["quiet"], bool)):
        raise _bad("%s has to be a dictionary whose quiet is true, false or null, not %s" % (where, _brief(value)))
    return {**value, "quiet": value.get("quiet"), "why": _text(value.get("why"), where + ".why")}


def _results(results: t.Any) -> dict[tuple[str, str, int, str], list[Json]]:
    found: dict[tuple[str, str, int, str], list[Json]] = {}
    for entry in _list(results, "results"):
        if not isinstance(entry, t.Mapping):
            raise _bad("results has to be a list of dictionaries; it has %s" % _brief(entry))
        client, server = (_name(entry.get(end), "the %s of a result" % end) for end in ("client", "server"))
        if client == server:
            raise _bad("results has one of %r with itself" % client)
        rail = _rail(entry.get("rail"), "the rail of a result of %r -> %r" % (client, server))
        where = "of the result of %r -> %r on rail %d, " % (client, server, rail)
        test = _test(entry.get("test"), where + "test")
        ok = entry.get("ok")
        if ok is not None and not isinstance(ok, bool):
            raise _bad(where + "ok has to be true, false or null, not %s" % _brief(ok))
        found.setdefault((client, server, rail, test), []).append(
            {
                "ok": ok,
                "gbps": _number(entry.get("gbps"), where + "gbps"),
                "pings": _number(entry.get("pings"), where + "pings"),
                "error": _text(entry.get("error"), where + "error"),
                "skipped": _text(entry.get("skipped"), where + "skipped"),
                "traffic": _traffic(entry.get("traffic"), where + "traffic"),
            }
        )
    return found


# --- before any traffic -------------------------------------------------------------------------------------------


def _port(hosts: t.Mapping[str, Json], node: str, rail: int) -> Json | None:
    return hosts[node]["rails"].get(rail) if node in hosts else None


def _label(hosts: t.Mapping[str, Json], node: str, rail: int) -> str:
    """Return a node with its port on a rail, for a sentence."""
    port = _port(hosts, node, rail) or {}
    device = port.get("device")
    if device and port.get("port") not in (None, 1):
        device = "%s port %d" % (device, port["port"])
    names = [printable(name) for name in (device, port.get("netdev")) if name]
    return printable(node) + (" (%s)" % ", ".join(names) if names else "")


def _look(hosts: t.Mapping[str, Json], plan: _Wanted) -> list[_Finding]:
    """Return what is wrong with the ports of the wanted rails."""
    findings = []
    for rail in plan.rails:
        findings += _states(hosts, rail)
        for key, what, unit in _SAME:
            findings += _differences(hosts, rail, key, what, unit)
    return findings + _down_trained(hosts, plan, findings)


def _states(hosts: t.Mapping[str, Json], rail: int) -> list[_Finding]:
    findings = []
    for node, host in hosts.items():
        port = host["rails"].get(rail)
        if not host["reachable"] or (port is None and host["problems"]):
            continue  # what could not be looked at is told with the node
        start = "rail %d: node %s" % (rail, _label(hosts, node, rail))
        verdict, state = FAIL, port["state"] if port else ABSENT
        if port is None or state == ABSENT:
            why = start + " has no such port: the device of this rail is absent"
        elif state is None:
            verdict, why = UNKNOWN, start + ": the state of the port could not be read"
        elif state != ACTIVE:
            why = "%s: the port is %s, not ACTIVE" % (start, printable(state))
        else:
            continue
        findings.append(_Finding(verdict, rail, "port", [node], True, "state", {node: state}, why))
    return findings


def _up(hosts: t.Mapping[str, Json], rail: int) -> dict[str, Json]:
    """Return the ports of a rail that are up: what a port reports that is not says nothing of its link."""
    ports = {node: host["rails"].get(rail) for node, host in hosts.items() if host["reachable"]}
    return {node: port for node, port in ports.items() if port and port["state"] in (ACTIVE, None)}


def _show(value: t.Any, unit: str = "") -> str:
    return (printable(value) if isinstance(value, str) else "%g" % value) + unit


def _differences(hosts: t.Mapping[str, Json], rail: int, key: str, what: str, unit: str) -> list[_Finding]:
    """Return who differs from the other nodes of a rail: the odd ones out, without a majority all."""
    values = {node: port[key] for node, port in _up(hosts, rail).items()}
    groups: dict[t.Any, list[str]] = {}
    for node, value in values.items():
        if value is not None:
            groups.setdefault(value, []).append(node)
    findings = []
    unread = [node for node, value in values.items() if value is None]
    if groups and unread:
        why = "rail %d: the %s could not be read on %s, the others have %s" % (
            rail, what, some([_label(hosts, node, rail) for node in unread]), some([_show(v, unit) for v in groups]),
        )  # fmt: skip
        findings.append(_Finding(UNKNOWN, rail, "port", unread, False, key, dict.fromkeys(unread), why))
    if len(groups) < 2:
        return findings
    number = sum(len(group) for group in groups.values())
    usual = max(groups, key=lambda value: len(groups[value]))
    if len(groups[usual]) * 2 > number:
        for value, group in groups.items():
            for node in group if value != usual else ():
                why = "rail %d: node %s has %s %s, %d of %d nodes have %s" % (
                    rail, _label(hosts, node, rail), what, _show(value, unit), len(groups[usual]), number,
                    _show(usual, unit),
                )  # fmt: skip
                if key == "rate_gbps" and value < usual:
                    why += ": the link is down-trained"
                findings.append(_Finding(FAIL, rail, "port", [node], True, key, {node: value}, why))
        return findings
    parts = [
        "%s on %s" % (_show(value, unit), some([_label(hosts, node, rail) for node in group]))
        for value, group in groups.items()
    ]
    why = "rail %d: the %s differs between nodes: %s" % (rail, what, "; ".join(parts))
    everyone = [node for group in groups.values() for node in group]
    known = {node: value for node, value in values.items() if value is not None}
    return findings + [_Finding(FAIL, rail, "port", everyone, False, key, known, why)]


def _down_trained(hosts: t.Mapping[str, Json], plan: _Wanted, findings: list[_Finding]) -> list[_Finding]:
    """Return the ports that are slower than most of the other rails of their node; a rail that is so on all nodes."""
    told = {(node, one.rail) for one in findings if one.what == "rate_gbps" and one.named for node in one.nodes}
    rates = {rail: {node: port["rate_gbps"] for node, port in _up(hosts, rail).items()} for rail in plan.rails}
    slow: list[_Finding] = []
    for rail in plan.rails:
        found = []
        for node, rate in rates[rail].items():
            others = [rates[other].get(node) for other in plan.rails if other != rail]
            usual, number = (collections.Counter(filter(None, others)).most_common(1) or [(None, 0)])[0]
            if rate is None or usual is None or number * 2 <= len(others) or rate >= usual or (node, rail) in told:
                continue
            why = "rail %d: node %s runs at %s, its other rails at %s: the link is down-trained" % (
                rail, _label(hosts, node, rail), _show(rate, " Gb/s"), _show(usual, " Gb/s"),
            )  # fmt: skip
            found.append(_Finding(FAIL, rail, "port", [node], True, "rate_gbps", {node: rate}, why))
        if len(found) > 1 and len(found) == len(rates[rail]):
            values = {node: rate for one in found for node, rate in one.values.items()}
            why = "rail %d: all %d nodes run at %s here, slower than on their other rails: the rail is down-trained" % (
                rail, len(found), some([_show(rate, " Gb/s") for rate in dict.fromkeys(values.values())]),
            )  # fmt: skip
            found = [_Finding(FAIL, rail, "rail", list(values), True, "rate_gbps", values, why)]
        slow += found
    return slow


# --- the measurements ---------------------------------------------------------------------------------------------


def _measured(
    hosts: t.Mapping[str, Json],
    plan: _Wanted,
    seen: t.Mapping[tuple[str, str, int, str], list[Json]],
    limit: float,
) -> list[Json]:
    """Return every measurement that was wanted, then those that nobody wanted, each with its verdict."""
    keys = [(*pair, rail, test) for rail in plan.rails for test in plan.tests for pair in plan.pairs]
    extra = sorted(set(seen) - set(keys))
    made = []
    for key in keys + extra:
        client, server, rail, test = key
        rates: list[float | None] = [(_port(hosts, n, rail) or {}).get("rate_gbps") for n in (client, server)]
        known = [rate for rate in rates if rate is not None]
        expected = min(known) if len(known) == 2 else None
        entry: Json = {"client": client, "server": server, "rail": rail, "test": test}
        choices = [_one(result, test, expected, limit) for result in seen.get(key, ())]
        if choices:
            chosen = min(choices, key=_how_good)
        else:
            chosen = {"verdict": UNKNOWN, "gbps": None, "share": None, "pings": None, "skipped": None}
            chosen["traffic"] = None
            chosen["error"] = _why_missing(hosts, client, server, rail, test)
        entry.update(verdict=chosen["verdict"], gbps=chosen["gbps"])
        entry["expected_gbps"] = expected if test in BANDWIDTHS else None
        entry.update((name, chosen[name]) for name in ("share", "error", "pings", "skipped"))
        entry.update(quiet=(chosen["traffic"] or {}).get("quiet"), traffic=chosen["traffic"])
        entry.update(wanted=key not in extra, results=len(choices))
        made.append(entry)
    return made


def _how_good(one: Json) -> tuple[t.Any, ...]:
    # Also among equals always the same one, whatever the order in which they came.
    gbps = math.inf if one["gbps"] is None else one["gbps"]
    return (-VERDICTS.index(one["verdict"]), gbps, one["error"] or "", one["skipped"] or "", one["pings"] or 0)


def _one(result: Json, test: str, expected: float | None, limit: float) -> Json:
    gbps = result["gbps"] if test in BANDWIDTHS else None
    share = gbps / expected if gbps is not None and expected else None
    verdict, error = UNKNOWN, result["error"]
    if result["ok"] is False:
        verdict, error = FAIL, error or "%s failed" % test
    elif result["skipped"]:
        error = "skipped: " + result["skipped"] + ("; " + error if error else "")
    elif result["ok"] is None:
        error = error or "the result could not be read"
    elif error:
        pass  # it says that it went well, and that it did not
    elif test in BANDWIDTHS:
        if gbps is None:
            error = "no bandwidth could be read"
        elif share is None:
            error = "the rate of the link is not known"
        elif share < limit:
            verdict = FAIL
            error = "%s Gb/s are %s of the link's %s Gb/s, the limit is %s" % (
                speed(gbps), percent(share), _show(expected), bound(limit),
            )  # fmt: skip
        else:
            verdict = PASS
    elif result["pings"] == 0:
        error = "no ping was seen"
    else:
        verdict = PASS
    traffic = result["traffic"]
    if verdict == PASS and traffic and traffic["quiet"] is False:
        verdict, error = FAIL, "it did not go by RDMA alone: %s" % (traffic["why"] or "no reason was given")
    done = {
        "verdict": verdict,
        "traffic": traffic,
        "gbps": gbps,
        "share": share,
        "error": error,
        "skipped": result["skipped"],
    }
    done["pings"] = None if result["pings"] is None else int(result["pings"])
    return done


def _why_missing(hosts: t.Mapping[str, Json], client: str, server: str, rail: int, test: str) -> str:
    reasons = []
    for node in (client, server):
        host = hosts.get(node)
        port = _port(hosts, node, rail)
        if host is None:
            continue
        if not host["reachable"]:
            reasons.append("node %s is not reachable" % node)
        elif host["problems"] or host["busy"]:
            reasons += ["node %s: %s" % (node, text) for text in host["problems"] + host["busy"]]
        elif port is None or port["state"] not in (ACTIVE, None):
            reasons.append("on node %s the port is %s" % (node, port["state"] if port else ABSENT))
    if test == CUDA and not reasons:
        reasons = [
            text for text in [_fabric_gpus.without({n: hosts[n] for n in (client, server) if n in hosts})] if text
        ]
    return "no result: " + "; ".join(reasons) if reasons else "no result came back"


# --- who is to blame ----------------------------------------------------------------------------------------------


def _status(entries: list[Json]) -> str:
    """Return fail if a test fails between two ports, pass if all pass; what is unknown neither blames nor clears."""
    return worst(entry["verdict"] for entry in entries)


def _eliminate(
    hosts: t.Mapping[str, Json], plan: _Wanted, pairs: list[Json], findings: list[_Finding], limit: float
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
    suspects.sort(key=lambda one: (KINDS.index(one["kind"]), one["node"] or "", one["rail"] or 0))
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

    A port without a good measurement is dead. It is to blame where it alone can explain a failure, or where its state
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
            why += " it cannot be told which end it is, or the rail itself (its switch)"
            suspects.append(_suspect("rail", None, rail, why, group))
        elif len(both) == 2:
            one, other = (_label(hosts, node, rail) for node in group[0][:2])
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
            one, other = (_label(hosts, node, rail) for node in link[:2])
            if (link[1], link[0], rail) in good:
                why = "rail %d: %s -> %s fails, the other direction does not" % (rail, one, other)
            else:
                why = "rail %d: %s -> %s fails, both do well with other nodes" % (rail, one, other)
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
        label = _label(hosts, node, own[0])
        why += ": the node %s, its card, cable or switch port (no other rail was measured)" % label
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
    why = "rail %d: node %s: %s" % (rail, _label(hosts, node, rail), failing)
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
                    test, "" if len(slow) == 1 else "down to ", speed(low["gbps"]), _show(low["expected_gbps"]),
                    percent(low["share"]), bound(limit),
                )
            )  # fmt: skip
        if errors:
            texts.append("%s: %s" % (test, some([printable(short(error)) for error in errors], 2)))
    return "; ".join(texts)


def _sentences(suspects: list[Json]) -> list[str]:
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


def _with_findings(suspects: list[Json], findings: list[_Finding]) -> list[Json]:
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


# --- what is not known --------------------------------------------------------------------------------------------


def _gaps(hosts: t.Mapping[str, Json], plan: _Wanted) -> list[str]:
    """Return what nobody looked at, or asked for."""
    asked = {"pairs": plan.pairs, "rails": plan.rails, "tests": _asked(plan)}
    gaps = ["nothing was asked for: wanted has no %s" % what for what, given in asked.items() if not given]
    paired = {node for pair in plan.pairs for node in pair}
    for node, host in hosts.items():
        start = "node %s" % printable(node)
        if not host["reachable"]:
            gaps.append(start + " is not reachable: nothing was looked at there")
        gaps += ["%s: %s" % (start, printable(short(problem))) for problem in host["problems"]]
        gaps += ["%s was left alone: %s" % (start, printable(short(busy))) for busy in host["busy"]]
        if plan.pairs and node not in paired:
            gaps.append(start + " is in no pair: nothing was measured with it")
    return gaps


def _unmeasured(pairs: list[Json]) -> list[str]:
    groups: dict[str, list[str]] = {}
    for entry in pairs:
        if entry["verdict"] == UNKNOWN:
            groups.setdefault(entry["error"], []).append("%s %s" % (entry["test"], _where(entry)))
    return [
        "%d of %d measurements unknown, %s: %s" % (len(places), len(pairs), printable(short(error)), some(places, 2))
        for error, places in groups.items()
    ]


def _where(entry: Json) -> str:
    return "%s -> %s on rail %d" % (printable(entry["client"]), printable(entry["server"]), entry["rail"])


def _unwanted(pairs: list[Json]) -> list[str]:
    extra = ["%s %s %s" % (entry["test"], _where(entry), entry["verdict"]) for entry in pairs if not entry["wanted"]]
    return ["results that nobody asked for: " + some(extra, 3)] if extra else []


def _skipped(hosts: t.Mapping[str, Json], pairs: list[Json], together: Json | None) -> list[Json]:
    skipped = []
    for node, host in hosts.items():
        if not host["reachable"]:
            skipped.append({"what": "node %s" % node, "why": "it is not reachable"})
        skipped += [{"what": "node %s" % node, "why": why} for why in host["problems"] + host["busy"]]
    for entry in pairs:
        if entry["verdict"] == UNKNOWN:
            what = "%s, %s -> %s, rail %d" % (entry["test"], entry["client"], entry["server"], entry["rail"])
            skipped.append({"what": what, "why": entry["skipped"] or entry["error"]})
    if together and together["verdict"] == UNKNOWN:
        skipped.append({"what": NCCL, "why": together["error"]})
    return skipped


def _judged_nodes(
    hosts: t.Mapping[str, Json],
    plan: _Wanted,
    pairs: list[Json],
    checks: list[Json],
    findings: list[_Finding],
    suspects: list[Json],
) -> list[Json]:
    unknown = {node for entry in pairs if entry["verdict"] == UNKNOWN for node in (entry["client"], entry["server"])}
    paired = {node for pair in plan.pairs for node in pair}
    judged = []
    for node, host in hosts.items():
        rails = []
        for rail in sorted({*host["rails"], *plan.rails}):
            port = host["rails"].get(rail)
            if port is None:
                seen = host["reachable"] and not host["problems"]
                port = {"rail": rail, **dict.fromkeys(_SHOWN), "state": ABSENT if seen else None}
            own = [one for one in findings if one.rail == rail and node in one.nodes]
            why = [one.why for one in own]
            why += [s["why"] for s in suspects if s["kind"] == "port" and (s["node"], s["rail"]) == (node, rail)]
            verdict: str | None = worst([one.verdict for one in own] + ([FAIL] if len(why) > len(own) else []))
            if rail not in plan.rails and not why:
                verdict = None  # nobody asked
            elif verdict == PASS and port["state"] is None:
                verdict = UNKNOWN
            rails.append({**port, "verdict": verdict, "problems": why})
        verdicts = [one["verdict"] for one in rails if one["verdict"]]
        verdicts += [entry["verdict"] for entry in checks if entry["node"] == node]
        if any(suspect["node"] == node for suspect in suspects):
            verdicts.append(FAIL)
        if not host["reachable"] or host["problems"] or host["busy"] or node in unknown or node not in paired:
            verdicts.append(UNKNOWN)
        shown = {key: value for key, value in host.items() if key != "checks"}
        judged.append({"name": node, **shown, "verdict": worst(verdicts), "rails": rails})
    return judged


# --- words and numbers --------------------------------------------------------------------------------------------


def percent(share: float, digits: int = 1) -> str:
    """Return a share in percent, rounded down, so that nothing below a limit reads as if it reached it."""
    factor = 10**digits
    return "%.*f%%" % (digits, math.floor(share * 100 * factor + 1e-6) / factor)


def bound(share: float) -> str:
    """Return a limit in percent, with the digits it has."""
    return "%.6g%%" % (share * 100)


def speed(gbps: float) -> str:
    """Return a rate with as many digits as say something."""
    return "%.1f" % gbps if gbps >= 1 or gbps == 0 else "%.3g" % gbps


# --- the table on the terminal ------------------------------------------------------------------------------------


def table(report: t.Mapping[str, t.Any]) -> str:
    """Return a report for the terminal: verdict, reasons, and per rail and test what was measured."""
    lines = ["Fabric check: %s" % report["verdict"].upper()]
    lines += _wrapped(report["reasons"][:20])
    if len(report["reasons"]) > 20:
        lines.append("  and %d reasons more, in the report" % (len(report["reasons"]) - 20))
    checks = _fabric_checks.lines(report["checks"])
    lines += [""] + [
        part
        for text in checks + _fabric_gpus.lines(report)
        for part in textwrap.wrap(text, WIDTH, subsequent_indent="  ")
    ]
    groups: dict[tuple[int, str], list[Json]] = {}
    for entry in report["pairs"]:
        groups.setdefault((entry["rail"], entry["test"]), []).append(entry)
    order = [node["name"] for node in report["nodes"]]
    order += sorted({entry[end] for entry in report["pairs"] for end in ("client", "server")} - set(order))
    drawn = False
    for (rail, test), entries in sorted(groups.items(), key=lambda group: (group[0][0], TESTS.index(group[0][1]))):
        lines += ["", _summary(rail, test, entries)]
        names = [name for name in order if any(name in (entry["client"], entry["server"]) for entry in entries)]
        fine = all(entry["verdict"] == PASS for entry in entries)
        if fine and len(names) > 4:
            continue
        # Of a ring most of a square would be empty; one of more nodes is wider than the terminal.
        if len(names) <= 8 or (len(names) <= 32 and len(entries) * 4 >= len(names) * (len(names) - 1)):
            lines += _matrix(names, order, test, entries)
            drawn = True
        if not fine:
            lines += _listed([entry for entry in entries if entry["verdict"] != PASS])
    if drawn:
        lines += ["", "Client down, server across, by number. A number is the share of the link's rate in percent;"]
        lines.append("+ pass, ! fail, ? unknown, . not asked for. The limit is %s." % bound(report["min_share"]))
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _wrapped(texts: t.Iterable[str]) -> list[str]:
    return [
        line
        for text in texts
        for line in textwrap.wrap(text, WIDTH, initial_indent="  * ", subsequent_indent="    ") or ["  *"]
    ]


def _summary(rail: int, test: str, entries: list[Json]) -> str:
    counts = collections.Counter(entry["verdict"] for entry in entries)
    parts = ["%d %s" % (counts[verdict], verdict) for verdict in VERDICTS if counts[verdict]]
    rates = [entry["gbps"] for entry in entries if entry["gbps"] is not None]
    shares = [entry["share"] for entry in entries if entry["share"] is not None]
    if rates:
        parts.append(_span(speed(min(rates)), speed(max(rates))) + " Gb/s")
    if shares:
        parts.append(_span(percent(min(shares)), percent(max(shares))) + " of the link's rate")
    return "Rail %d, %s: %s" % (rail, test, ", ".join(parts))


def _span(low: str, high: str) -> str:
    return low if low == high else "%s to %s" % (low, high)


def _matrix(names: list[str], order: list[str], test: str, entries: list[Json]) -> list[str]:
    cells = {(entry["client"], entry["server"]): entry for entry in entries}
    number = {name: place for place, name in enumerate(order)}
    shares = test in BANDWIDTHS and len(names) <= 16
    width = 5 if shares else 1 + max(len(str(number[name])) for name in names)
    digits = max(len(str(number[name])) for name in names)
    room = min(max(_columns(printable(name)) for name in names), WIDTH - 6 - digits - width * len(names))
    head = " " * (room + digits + 4)
    lines = [head + "".join(str(number[name]).rjust(width) for name in names)]
    for client in names:
        row = "  " + str(number[client]).rjust(digits) + "  " + _fit(printable(client), room)
        for server in names:
            entry = cells.get((client, server))
            row += ("-" if client == server else _cell(entry, shares)).rjust(width)
        lines.append(row)
    return lines


def _cell(entry: Json | None, shares: bool) -> str:
    if entry is None:
        return "."
    mark = {PASS: "+", FAIL: "!", UNKNOWN: "?"}[entry["verdict"]]
    if not shares or entry["share"] is None or entry["verdict"] == UNKNOWN:
        return mark
    number = min(math.floor(entry["share"] * 100 + 1e-6), 999)
    return str(number) + ("" if entry["verdict"] == PASS else mark)


def _listed(entries: list[Json], number: int = 12) -> list[str]:
    entries = sorted(entries, key=lambda entry: -VERDICTS.index(entry["verdict"]))
    lines = []
    for entry in entries[:number]:
        text = "  %s  %s -> %s: %s" % (
            entry["verdict"].ljust(len(UNKNOWN)), printable(entry["client"]), printable(entry["server"]),
            printable(short(entry["error"] or "")),
        )  # fmt: skip
        lines += textwrap.wrap(text, WIDTH, subsequent_indent=" " * 11, drop_whitespace=False)
    if len(entries) > number:
        lines.append("  and %d more" % (len(entries) - number))
    return lines


def _columns(text: str) -> int:
    """Return the columns that text takes on a terminal."""
    return sum(
        0 if unicodedata.combining(one) else 2 if unicodedata.east_asian_width(one) in "WF" else 1 for one in text
    )


def _fit(text: str, room: int) -> str:
    if _columns(text) > room:
        while text and _columns(text) > room - 2:
            text = text[:-1]
        text += ".."
    return text + " " * (room - _columns(text))


__all__ = (
    "BANDWIDTHS",
    "FAIL",
    "PASS",
    "RPING",
    "SCHEMA",
    "TESTS",
    "UNKNOWN",
    "VERDICTS",
    "VerdictError",
    "bound",
    "judge",
    "percent",
    "printable",
    "speed",
    "table",
    "worst",
)
