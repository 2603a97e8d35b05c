# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run prints at its end."""

from __future__ import annotations

import collections
import json
import typing as t

from .runner import Outcome, Part, Runner, budget_of, clock, counts
from .tree import ROOT


def note(outcome: Outcome | None) -> str:
    if outcome is None:
        return "  not run"
    if outcome.stopped:
        return "  STOPPED: out of time"
    if outcome.seconds > outcome.allowed:
        return "  over budget"
    return ""


def report_parts(runner: Runner, parts: t.Sequence[Part], earlier: t.Mapping[str, Outcome]) -> None:
    """Print a line for each part, and the sum."""
    width = max(14, *(len(part.name) + 1 for part in parts))
    runner.say(f"\n{'part':{width}}{'budget':>8}{'time':>8}{'others':>8}{'passed':>9}{'failed':>8}{'skipped':>9}")
    total: collections.Counter[str] = collections.Counter()
    seconds = 0.0
    for part in parts:
        outcome = runner.outcomes.get(part.name) or earlier.get(part.name)
        line = f"{part.name:{width}}{clock(outcome.allowed if outcome else budget_of(part, runner.everything)):>8}"
        if outcome:
            total.update(outcome.counts)
            seconds += outcome.seconds
            line += f"{clock(outcome.seconds):>8}{outcome.others:>8.0%}"
            line += f"{outcome.counts['passed']:>9}{outcome.counts['failed']:>8}{outcome.counts['skipped']:>9}"
        if part.name not in runner.outcomes and outcome:
            line += f"  at {outcome.commit[:7]}, {outcome.ended}"
        runner.say(line + note(outcome))
    runner.say(
        f"{'total':{width}}{'':>8}{clock(seconds):>8}{'':>8}"
        f"{total['passed']:>9}{total['failed']:>8}{total['skipped']:>9}"
    )


def report_reasons(runner: Runner) -> None:
    """Print what failed and what was skipped, and why."""
    for status in ("skipped", "failed"):
        reasons = collections.Counter(
            (check.part, check.reason if status == "skipped" else f"{check.name}: {check.reason}")
            for check in runner.checks
            if check.status == status
        )
        if reasons:
            runner.say(f"\n{status}:")
        for (name, reason), number in sorted(reasons.items()):
            runner.say(f"  {name}: {f'{number} times: ' if number > 1 else ''}{reason}")


def report_faults(runner: Runner, outcomes: t.Iterable[Outcome]) -> dict[str, tuple[int, int]]:
    """Print what was tried and lost by kind, if anything was."""
    tried: collections.Counter[str] = collections.Counter()
    lost: collections.Counter[str] = collections.Counter()
    for outcome in outcomes:
        for kind, (number, losses) in outcome.faults.items():
            tried[kind] += number
            lost[kind] += losses
    if tried:
        width = max(26, *(len(kind) + 2 for kind in tried))
        runner.say(f"\n{'faults and hostile input':{width}}{'tried':>10}{'lost':>8}")
        for kind in sorted(tried):
            runner.say(f"{kind:{width}}{tried[kind]:>10}{lost[kind]:>8}")
        runner.say(f"{'total':{width}}{tried.total():>10}{lost.total():>8}")
    return {kind: (tried[kind], lost[kind]) for kind in sorted(tried)}


def report(runner: Runner, parts: t.Sequence[Part], earlier: t.Mapping[str, Outcome] | None = None) -> str:
    """Print the tables, what failed and what was skipped; return the last line.

    `earlier` has what parts showed before that are not run again.
    """
    report_parts(runner, parts, earlier or {})
    report_reasons(runner)
    outcomes = {**(earlier or {}), **runner.outcomes}
    faults = report_faults(runner, outcomes.values())
    runner.say(
        f"\nlogs and reports: {runner.output.relative_to(ROOT) if runner.output.is_relative_to(ROOT) else runner.output}/"
    )
    summary = {
        "parts": {
            name: {
                "budget_s": round(outcome.allowed, 1),
                "seconds": round(outcome.seconds, 1),
                "others": round(outcome.others, 3),
                "stopped": outcome.stopped,
                **outcome.counts,
            }
            for name, outcome in outcomes.items()
        },
        "faults": {kind: {"tried": tried, "lost": lost} for kind, (tried, lost) in faults.items()},
        "checks": [check._asdict() for check in runner.checks],
    }
    (runner.output / "summary.json").write_text(json.dumps(summary, indent=1) + "\n")
    total = collections.Counter(counts(check for check in runner.checks if check.part not in runner.outcomes))
    for outcome in outcomes.values():
        total.update(outcome.counts)
    return f"{total['passed']} passed, {total['failed']} failed, {total['skipped']} skipped"
