# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""`make test-all` takes hours: what has passed is not run again for as long as what it read stays the same."""

from __future__ import annotations

import contextlib
import hashlib
import json
import typing as t

from .report import report
from .runner import Outcome, Part, Runner, clock
from .tree import digest

if t.TYPE_CHECKING:
    from pathlib import Path

# What users get of the repository less its pages: git's pathspecs.
CODE = (
    ":(exclude)docs",
    ":(exclude,glob)**/*.md",
    ":(exclude)changelogs",
    ":(exclude)tests",
    ":(exclude)molecule",
    ":(exclude).ci",
)


def key(part: Part) -> str:
    """Return a hash of what a part reads."""
    if part.pages:
        return digest(".")
    return hashlib.sha256((digest(*CODE) + digest(*part.tests)).encode()).hexdigest()


class State:
    """What has passed, a file for each part and each state of what it reads."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def path(self, part: Part) -> Path:
        return self.directory / part.name / f"{key(part)}.json"

    def passed(self, part: Part, require_all: bool) -> Outcome | None:
        """Return what a part showed of the files as they are, if it has passed."""
        with contextlib.suppress(FileNotFoundError):
            outcome = Outcome(**json.loads(self.path(part).read_text(encoding="utf-8")))
            if not (require_all and outcome.counts["skipped"]):
                return outcome
        return None

    def expected(self, part: Part) -> float:
        """Return how many seconds a part takes: what it took the last time, or its budget."""
        kept = sorted((self.directory / part.name).glob("*.json"), key=lambda path: path.stat().st_mtime)
        return float(json.loads(kept[-1].read_text(encoding="utf-8"))["seconds"]) if kept else part.budget_all

    def keep(self, path: Path, outcome: Outcome) -> None:
        if not outcome.counts["failed"]:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(outcome._asdict()) + "\n", encoding="utf-8")


def say_what_is_left(runner: Runner, state: State, parts: t.Sequence[Part]) -> None:
    times = {part.name: state.expected(part) for part in parts}
    listed = ", ".join(f"{name} {clock(seconds)}" for name, seconds in times.items())
    hours, minutes = divmod(round(sum(times.values()) / 60), 60)
    runner.say(f"\nleft: {listed}: {hours} h {minutes} min in all")


def run_rest(runner: Runner, parts: t.Sequence[Part], state: State, chosen: t.Sequence[Part] = ()) -> str:
    """Run the chosen parts, or those that have not passed; return the report's last line."""
    earlier = {}
    for part in parts:
        outcome = state.passed(part, runner.require_all)
        if outcome and part not in chosen:
            earlier[part.name] = outcome
            runner.say(f"{part.name}: passed at {outcome.commit[:7]}, {outcome.ended}")
    left = list(chosen) or [part for part in parts if part.name not in earlier]
    try:
        while left:
            say_what_is_left(runner, state, left)
            part = left.pop(0)
            # What was read is what was there when it began.
            path = state.path(part)
            state.keep(path, runner.run(part))
    except KeyboardInterrupt:
        runner.add("interrupted", "failed")
    return report(runner, parts, earlier)
