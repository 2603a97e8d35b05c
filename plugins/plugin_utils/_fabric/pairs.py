# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.

"""What the measurements between two ends come to, and why there is none."""

from __future__ import annotations

import math
import typing as t

from . import gpus
from .inputs import Wanted
from .ports import port_of
from .vocabulary import (
    ABSENT,
    ACTIVE,
    BANDWIDTHS,
    CUDA,
    FAIL,
    PASS,
    UNKNOWN,
    VERDICTS,
    Json,
    bound,
    percent,
    show,
    speed,
)


def measured(
    hosts: t.Mapping[str, Json],
    plan: Wanted,
    seen: t.Mapping[tuple[str, str, int, str], list[Json]],
    limit: float,
    silence: str,
) -> list[Json]:
    """Return every measurement that was wanted, then those that were not wanted, each with its verdict."""
    keys = [(*pair, rail, test) for rail in plan.rails for test in plan.tests for pair in plan.pairs]
    extra = sorted(set(seen) - set(keys))
    made = []
    for key in keys + extra:
        client, server, rail, test = key
        rates: list[float | None] = [(port_of(hosts, n, rail) or {}).get("rate_gbps") for n in (client, server)]
        known = [rate for rate in rates if rate is not None]
        expected = min(known) if len(known) == 2 else None
        entry: Json = {"client": client, "server": server, "rail": rail, "test": test}
        choices = [_one(result, test, expected, limit) for result in seen.get(key, ())]
        if choices:
            chosen = min(choices, key=_how_good)
        else:
            chosen = {"verdict": UNKNOWN, "gbps": None, "share": None, "pings": None, "skipped": None}
            chosen["traffic"] = None
            chosen["error"] = _why_missing(hosts, client, server, rail, test) or silence
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
        pass  # it reports both success and failure
    elif test in BANDWIDTHS:
        if gbps is None:
            error = "no bandwidth could be read"
        elif share is None:
            error = "the rate of the link is not known"
        elif share < limit:
            verdict = FAIL
            error = "%s Gb/s are %s of the link's %s Gb/s, the limit is %s" % (
                speed(gbps), percent(share), show(expected), bound(limit),
            )  # fmt: skip
        else:
            verdict = PASS
    elif result["pings"] == 0:
        error = "no ping was seen"
    else:
        verdict = PASS
    traffic = result["traffic"]
    if verdict == PASS and traffic and traffic["quiet"] is False:
        verdict, error = FAIL, "it did not use only RDMA: %s" % (traffic["why"] or "no reason was given")
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
    if test == CUDA and not reasons:
        reasons = [text for text in [gpus.without({n: hosts[n] for n in (client, server) if n in hosts})] if text]
    return "no result: " + "; ".join(reasons) if reasons else None


__all__ = ("measured",)
