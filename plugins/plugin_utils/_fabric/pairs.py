# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.

"""Judge the measurements between two ends, and explain missing ones."""

from __future__ import annotations

import math
import typing as t

from ...module_utils._rails.ports import lacks_gid
from . import gpus
from .inputs import Measurements, Plan
from .ports import label, port_of
from .vocabulary import (
    ABSENT,
    ACTIVE,
    BANDWIDTHS,
    BIDIRECTIONAL,
    CUDA,
    FAIL,
    LATENCY,
    PASS,
    UNKNOWN,
    VERDICTS,
    Json,
    bound,
    percent,
    show,
    speed,
)

# The median and the 99th percentile, in microseconds.
LATENCIES = ("latency_us", "latency_99_us")
# From how many good measurements of a rail on the best one is compared with the others.
COMPARED = 3


def judge_pairs(
    hosts: t.Mapping[str, Json], plan: Plan, measurements: Measurements, limit: float, silence: str
) -> list[Json]:
    """Return every requested measurement, then the others, each with its verdict."""
    keys = [(*pair, rail, test) for rail in plan.rails for test in plan.tests for pair in plan.pairs]
    extra = sorted(set(measurements) - set(keys))
    entries = []
    for key in keys + extra:
        missing = "" if measurements.get(key) else _why_missing(hosts, *key) or silence
        entries.append(_entry(hosts, key, measurements.get(key, ()), limit, missing, wanted=key not in extra))
    return entries


def judge_again(hosts: t.Mapping[str, Json], measurements: Measurements, limit: float) -> list[Json]:
    """Return what was measured again."""
    return [_entry(hosts, key, results, limit, "", wanted=False) for key, results in sorted(measurements.items())]


def best_of(entries: t.Iterable[Json]) -> dict[tuple[int, str], float]:
    """Return the best share of the link's rate, or the lowest latency, by rail and test.

    Only where enough pairs were measured to compare them.
    """
    values: dict[tuple[int, str], list[float]] = {}
    for entry in entries:
        if entry["verdict"] == PASS and entry["share"] is not None:
            # More than the rate is a rate that is reported too low.
            values.setdefault((entry["rail"], entry["test"]), []).append(min(entry["share"], 1.0))
        elif entry["verdict"] == PASS and entry["latency_us"] is not None:
            values.setdefault((entry["rail"], entry["test"]), []).append(entry["latency_us"])
    return {
        key: min(of_rail) if key[1] == LATENCY else max(of_rail)
        for key, of_rail in values.items()
        if len(of_rail) >= COMPARED
    }


def widest(entries: t.Iterable[Json]) -> Json | None:
    """Return the measurement that was least repeatable; None if nothing was measured twice."""
    repeated = [entry for entry in entries if entry["spread"] is not None]
    return max(repeated, key=lambda entry: entry["spread"], default=None)


def compared(
    entries: t.Iterable[Json], best: t.Mapping[tuple[int, str], float], min_share: float, max_latency: float
) -> list[Json]:
    """Return the measurements; one that is far behind the best of its rail fails, although it is good enough alone.

    The limits are a share of the best bandwidth, and a multiple of the lowest latency.
    """
    judged = []
    for entry in entries:
        share, latency, top = entry["share"], entry["latency_us"], best.get((entry["rail"], entry["test"]))
        text = ""
        if entry["verdict"] == PASS and top is not None:
            if share is not None and share < min_share * top:
                text = "%s Gb/s are %s of what the best pair of the rail reaches, the limit is %s" % (
                    speed(entry["gbps"]), percent(share / top), bound(min_share),
                )  # fmt: skip
            if latency is not None and latency > max_latency * top:
                text = "a latency of %s us is %.1f times that of the best pair of the rail, the limit is %g" % (
                    speed(latency), latency / top, max_latency,
                )  # fmt: skip
        judged.append({**entry, "verdict": FAIL, "error": text} if text else entry)
    return judged


def _entry(
    hosts: t.Mapping[str, Json],
    key: tuple[str, str, int, str],
    results: t.Sequence[Json],
    limit: float,
    missing: str,
    *,
    wanted: bool,
) -> Json:
    """Return the worst result; ``missing``: why there is none."""
    client, server, rail, test = key
    expected = _expected(hosts, client, server, rail)
    if expected is not None and test == BIDIRECTIONAL:
        expected *= 2
    choices = [_judge_result(result, test, expected, limit) for result in results]
    if choices:
        chosen = min(choices, key=_rank)
    else:
        chosen = dict.fromkeys(("gbps", "share", *LATENCIES, "pings", "skipped", "traffic"))
        chosen.update(verdict=UNKNOWN, error=missing)
    entry: Json = {"client": client, "server": server, "rail": rail, "test": test}
    entry.update(verdict=chosen["verdict"], gbps=chosen["gbps"])
    entry["expected_gbps"] = expected if test in BANDWIDTHS else None
    entry.update((name, chosen[name]) for name in ("share", *LATENCIES, "error", "pings", "skipped"))
    entry.update(quiet=(chosen["traffic"] or {}).get("quiet"), traffic=chosen["traffic"])
    samples = [choice["gbps"] for choice in choices if choice["gbps"] is not None]
    entry.update(wanted=wanted, results=len(choices), samples=samples, spread=_spread(samples))
    return entry


def _spread(samples: t.Sequence[float]) -> float | None:
    """Return how much the slowest of several measurements is below the fastest, as a share of that one."""
    return 1 - min(samples) / max(samples) if len(samples) > 1 and max(samples) > 0 else None


def _expected(hosts: t.Mapping[str, Json], client: str, server: str, rail: int) -> float | None:
    """Return the rate of the slower end."""
    rates: list[float | None] = [(port_of(hosts, node, rail) or {}).get("rate_gbps") for node in (client, server)]
    known = [rate for rate in rates if rate is not None]
    return min(known) if len(known) == len(rates) else None


def _rank(entry: Json) -> tuple[t.Any, ...]:
    # Deterministic among equals, whatever the order of the results.
    gbps = math.inf if entry["gbps"] is None else entry["gbps"]
    order = (entry["error"] or "", entry["skipped"] or "", entry["pings"] or 0)
    return (-VERDICTS.index(entry["verdict"]), gbps, -(entry["latency_us"] or 0), *order)


def _judge_result(result: Json, test: str, expected: float | None, limit: float) -> Json:
    gbps = result["gbps"] if test in BANDWIDTHS else None
    share = gbps / expected if gbps is not None and expected else None
    verdict, error = _outcome(result, test)
    if verdict == PASS and test in BANDWIDTHS:
        verdict, error = _bandwidth(gbps, share, expected, limit)
    latencies = {name: result[name] if test == LATENCY else None for name in LATENCIES}
    if None in latencies.values():
        latencies = dict.fromkeys(LATENCIES)
        if verdict == PASS and test == LATENCY:
            verdict, error = UNKNOWN, "no latency could be read"
    traffic = result["traffic"]
    if verdict == PASS and traffic and traffic["quiet"] is False:
        verdict, error = FAIL, "it did not use only RDMA: %s" % (traffic["why"] or "no reason was given")
    return {
        "verdict": verdict,
        "traffic": traffic,
        "gbps": gbps,
        "share": share,
        **latencies,
        "error": error,
        "skipped": result["skipped"],
        "pings": None if result["pings"] is None else int(result["pings"]),
    }


def _outcome(result: Json, test: str) -> tuple[str, str | None]:
    """Return the verdict and the error of a result, regardless of its bandwidth."""
    error = result["error"]
    if result["ok"] is False:
        return FAIL, error or "%s failed" % test
    if result["skipped"]:
        return UNKNOWN, "skipped: " + result["skipped"] + ("; " + error if error else "")
    if result["ok"] is None:
        return UNKNOWN, error or "the result could not be read"
    if error:
        return UNKNOWN, error  # it reports both success and failure
    if result["pings"] == 0 and test not in BANDWIDTHS:
        return UNKNOWN, "no ping was seen"
    return PASS, None


def _bandwidth(gbps: float | None, share: float | None, expected: float | None, limit: float) -> tuple[str, str | None]:
    if gbps is None:
        return UNKNOWN, "no bandwidth could be read"
    if share is None:
        return UNKNOWN, "the rate of the link is not known"
    if share >= limit:
        return PASS, None
    return FAIL, "%s Gb/s are %s of the link's %s Gb/s, the limit is %s" % (
        speed(gbps), percent(share), show(expected), bound(limit),
    )  # fmt: skip


def _why_missing(hosts: t.Mapping[str, Json], client: str, server: str, rail: int, test: str) -> str | None:
    reasons = []
    for node in (client, server):
        host = hosts.get(node)
        port = port_of(hosts, node, rail)
        if host is None:
            continue
        if not host["reachable"]:
            reasons.append("node %s is not reachable" % node)
        elif host["problems"] or host["busy"]:
            reasons += ["node %s: %s" % (node, text) for text in host["problems"] + host["busy"]]
        elif port is None or port["state"] not in (ACTIVE, None):
            reasons.append("on node %s the port is %s" % (node, port["state"] if port else ABSENT))
        elif lacks_gid(port):
            reasons.append("no RoCE v2 GID on rail %d of node %s" % (rail, label(hosts, node, rail)))
    if test == CUDA and not reasons:
        reasons = gpus.unplaced({node: hosts[node] for node in (client, server) if node in hosts}, rail)
    return "no result: " + "; ".join(reasons) if reasons else None


__all__ = ("COMPARED", "LATENCIES", "best_of", "compared", "judge_again", "judge_pairs", "widest")
