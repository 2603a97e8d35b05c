# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.

"""Judge the measurements between nodes: a verdict that passes nothing untested, and the suspects.

"fail" beats "unknown" beats "pass". What was not measured, or cannot be read, is unknown.
"""

from __future__ import annotations

import typing as t

from ...module_utils._rails.ports import brief
from .._terminal import some
from . import checks as fabric_checks
from . import gpus
from .fault_isolation import isolate_faults, sentences, with_findings
from .history import MIN_OF_BASELINE, against, baseline_of, changes
from .inputs import PLACEMENT, SHOWN, Plan, invalid_input, latency_limit_of, limit_of, nodes_of, plan_of, read
from .pairs import best_of, compared, judge_again, judge_pairs
from .ports import Finding, examine
from .repeat import hold
from .vocabulary import ABSENT, FAIL, NCCL, NO_RESULT, PASS, UNKNOWN, Json, printable, short, worst

SCHEMA = 1
# Of the best of a rail: what NVIDIA's ClusterKit takes for a bad pair (manual of HPC-X 2.24, "Running ClusterKit").
LIMITS = {"min_of_best": 0.93, "max_latency_of_best": 2.1, "min_of_baseline": MIN_OF_BASELINE}


def judge(
    nodes: t.Any,
    results: t.Any,
    request: t.Any,
    min_share: t.Any,
    started: t.Any,
    nccl: t.Any = None,
    silence: str = NO_RESULT,
    limits: t.Mapping[str, t.Any] | None = None,
    baseline: t.Any = None,
) -> Json:
    """Return the report on the measurements.

    ``silence`` is why a result is missing, if nothing else explains it. ``limits`` replaces values of LIMITS.
    ``baseline`` is an earlier report.
    """
    limit = limit_of(min_share)
    limits = {**LIMITS, **(limits or {})}
    latency = latency_limit_of(limits["max_latency_of_best"], "max_latency_of_best")
    relative, of_baseline = (limit_of(limits[name], name) for name in ("min_of_best", "min_of_baseline"))
    earlier = baseline_of(baseline)
    if not isinstance(started, str):
        raise invalid_input("started must be a string with the time, not %s" % brief(started))
    hosts = nodes_of(nodes)
    plan = plan_of(request, hosts)
    first, again = read(results)
    findings = examine(hosts, plan)
    measured = judge_pairs(hosts, plan, first, limit, silence)
    best = best_of(measured)
    measured = against(compared(measured, best, relative, latency), earlier, of_baseline)
    repeats = compared(judge_again(hosts, again, limit), best, relative, latency)
    repeats = against(repeats, earlier, of_baseline, again=True)
    checks = fabric_checks.judge_checks(hosts, plan.checks, plan.rails)
    if nccl is not None and not isinstance(nccl, t.Mapping):
        raise invalid_input("nccl must be a dictionary, not %s" % brief(nccl))
    nccl_entry = gpus.nccl(nccl, hosts, plan.nccl, silence)
    cut = None if silence == NO_RESULT else silence
    suspects, pairs = hold(isolate_faults(hosts, plan, measured, findings, limit), measured, repeats, cut)
    gaps = _gaps(hosts, plan)
    notes = _unknown_results(pairs)
    verdicts = [entry["verdict"] for entry in pairs + checks] + [finding.verdict for finding in findings]
    verdicts += [nccl_entry["verdict"]] if nccl_entry else []
    verdict = worst(verdicts + ([UNKNOWN] if gaps else []) or [UNKNOWN])
    reasons = [finding.why for finding in findings if finding.verdict == FAIL]
    reasons += sentences(suspects)
    reasons += fabric_checks.reasons(checks, FAIL) + gpus.sentence(nccl_entry, FAIL)
    reasons += gaps
    reasons += [finding.why for finding in findings if finding.verdict == UNKNOWN]
    reasons += notes + fabric_checks.reasons(checks, UNKNOWN) + gpus.sentence(nccl_entry, UNKNOWN)
    reasons += _extra_results(pairs)
    return {
        "schema": SCHEMA,
        "started": started,
        "verdict": verdict,
        "min_share": limit,
        "min_of_best": relative,
        "max_latency_of_best": latency,
        "min_of_baseline": of_baseline,
        "baseline": earlier and {"started": earlier.started, "changes": changes(pairs)},
        "wanted": {
            "pairs": [list(pair) for pair in plan.pairs],
            "rails": plan.rails,
            "tests": _requested_tests(plan),
        },
        "reasons": list(dict.fromkeys(reasons)),
        "suspects": with_findings(suspects, findings),
        "coherence": [finding.as_json() for finding in findings],
        "nodes": _judge_nodes(hosts, plan, pairs, checks, findings, suspects),
        "pairs": pairs,
        "again": repeats,
        "checks": checks,
        "nccl": nccl_entry,
        "gpudirect": gpus.gpudirect(pairs, nccl_entry, hosts),
        "skipped": _skipped(hosts, pairs, nccl_entry) + fabric_checks.skipped_checks(checks),
    }


def _requested_tests(plan: Plan) -> list[str]:
    return plan.tests + plan.checks + ([NCCL] if plan.nccl else [])


def _gaps(hosts: t.Mapping[str, Json], plan: Plan) -> list[str]:
    """Return what was not checked, or not requested."""
    parts = {"pairs": plan.pairs, "rails": plan.rails, "tests": _requested_tests(plan)}
    gaps = [_not_requested(name, hosts) for name, values in parts.items() if not values]
    paired = {node for pair in plan.pairs for node in pair}
    for node, host in hosts.items():
        start = "node %s" % printable(node)
        if not host["reachable"]:
            gaps.append(start + " is not reachable: nothing was checked there")
        gaps += ["%s: %s" % (start, printable(short(problem))) for problem in host["problems"]]
        gaps += ["%s was left alone: %s" % (start, printable(short(busy))) for busy in host["busy"]]
        if plan.pairs and node not in paired:
            gaps.append(start + " is in no pair: nothing was measured with it")
    return gaps


def _not_requested(name: str, hosts: t.Mapping[str, Json]) -> str:
    """Return why there are none of the pairs, rails or tests."""
    reachable = any(host["reachable"] for host in hosts.values())
    if name == "rails" and reachable and not any(host["rails"] for host in hosts.values()):
        return (
            "no RDMA device was found on any node (or fabric_check_exclude leaves none), and the inventory names no "
            'rails: look at "rdma link" on a node'
        )
    return "nothing was requested: wanted has no %s" % name


def _unknown_results(pairs: list[Json]) -> list[str]:
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


def _extra_results(pairs: list[Json]) -> list[str]:
    extra = ["%s %s %s" % (entry["test"], _where(entry), entry["verdict"]) for entry in pairs if not entry["wanted"]]
    return ["results that were not requested: " + some(extra, 3)] if extra else []


def _skipped(hosts: t.Mapping[str, Json], pairs: list[Json], nccl_entry: Json | None) -> list[Json]:
    skipped = []
    for node, host in hosts.items():
        if not host["reachable"]:
            skipped.append({"what": "node %s" % node, "why": "it is not reachable"})
        skipped += [{"what": "node %s" % node, "why": why} for why in host["problems"] + host["busy"]]
    for entry in pairs:
        if entry["verdict"] == UNKNOWN:
            measurement = "%s, %s -> %s, rail %d" % (entry["test"], entry["client"], entry["server"], entry["rail"])
            skipped.append({"what": measurement, "why": entry["skipped"] or entry["error"]})
    if nccl_entry and nccl_entry["verdict"] == UNKNOWN:
        skipped.append({"what": NCCL, "why": nccl_entry["error"]})
    return skipped


def _judge_nodes(
    hosts: t.Mapping[str, Json],
    plan: Plan,
    pairs: list[Json],
    checks: list[Json],
    findings: list[Finding],
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
                readable = host["reachable"] and not host["problems"]
                port = {"rail": rail, **dict.fromkeys(SHOWN), "state": ABSENT if readable else None}
            own = [finding for finding in findings if finding.rail == rail and node in finding.nodes]
            why = [finding.why for finding in own]
            why += [s["why"] for s in suspects if s["kind"] == "port" and (s["node"], s["rail"]) == (node, rail)]
            verdict: str | None = worst([finding.verdict for finding in own] + ([FAIL] if len(why) > len(own) else []))
            if rail not in plan.rails and not why:
                verdict = None  # not requested
            elif verdict == PASS and port["state"] is None:
                verdict = UNKNOWN
            placement = host["placements"].get(rail) or dict.fromkeys(PLACEMENT)
            rails.append({**port, **placement, "verdict": verdict, "problems": why})
        verdicts = [rail["verdict"] for rail in rails if rail["verdict"]]
        verdicts += [entry["verdict"] for entry in checks if entry["node"] == node]
        if any(suspect["node"] == node for suspect in suspects):
            verdicts.append(FAIL)
        if not host["reachable"] or host["problems"] or host["busy"] or node in unknown or node not in paired:
            verdicts.append(UNKNOWN)
        shown = {key: value for key, value in host.items() if key not in ("checks", "placements")}
        judged.append({"name": node, **shown, "verdict": worst(verdicts), "rails": rails})
    return judged


__all__ = (
    "LIMITS",
    "SCHEMA",
    "judge",
)
