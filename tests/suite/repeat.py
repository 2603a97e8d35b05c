# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests that are red by chance: the same commit again and again, in another order each time, also beside busy loops.

An iteration that has ended is kept by commit, seed and number of busy loops, so that many of them may take several days.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import typing as t

from .parts import PARTS
from .runner import Runner, clock
from .tree import OUTPUT, cache, commit, git

if t.TYPE_CHECKING:
    from pathlib import Path

NAMES = ("unit", "integration", "cluster")

# Ends with the process that started it, however that ends.
LOOP = "import os\nparent = os.getppid()\nwhile os.getppid() == parent:\n    for _ in range(10**6): pass\n"


class Iteration(t.NamedTuple):
    """One run of the parts."""

    seed: int
    busy: int
    seconds: float
    # The share of the processors that others had, the busy loops among them.
    others: float
    # "part: test" -> passed, failed or skipped; and why, of those that did not pass
    statuses: dict[str, str]
    reasons: dict[str, str]

    @property
    def label(self) -> str:
        return f"seed {self.seed}, {self.busy} busy"


@contextlib.contextmanager
def busy_loops(number: int) -> t.Iterator[None]:
    loops = [subprocess.Popen([sys.executable, "-c", LOOP]) for _ in range(number)]
    try:
        yield
    finally:
        for loop in loops:
            loop.send_signal(signal.SIGKILL)
            loop.wait()


def options(seed: int) -> list[str]:
    """Return pytest's options for another order and other examples."""
    return [
        "--random-order-bucket=global",
        f"--random-order-seed={seed}",
        # Files go to the workers in that order too, not the longest first.
        "--no-loadscope-reorder",
        f"--hypothesis-seed={seed}",
    ]


def iterate(seed: int, busy: int, require_all: bool) -> Iteration | None:
    """Run the parts once; None if that was interrupted."""
    began = time.monotonic()
    # The loops are others: they are there before the runner looks.
    with busy_loops(busy):
        output = OUTPUT / "repeat" / f"seed-{seed}-busy-{busy}"
        runner = Runner(everything=False, require_all=require_all, output=output, pytest_options=options(seed))
        try:
            for part in PARTS:
                if part.name in NAMES:
                    runner.run(part)
        except KeyboardInterrupt:
            return None
        return Iteration(
            seed,
            busy,
            time.monotonic() - began,
            runner.pace.share(),
            {f"{check.part}: {check.name}": check.status for check in runner.checks},
            {f"{check.part}: {check.name}": check.reason for check in runner.checks if check.status != "passed"},
        )


def read(directory: Path) -> list[Iteration]:
    paths = sorted(directory.glob("*.json"))
    iterations = [Iteration(**json.loads(path.read_text(encoding="utf-8"))) for path in paths]
    return sorted(iterations, key=lambda iteration: (iteration.busy, iteration.seed))


def write(path: Path, iteration: Iteration) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(iteration._asdict()) + "\n", encoding="utf-8")
    os.replace(partial, path)


def differing(iterations: t.Sequence[Iteration]) -> dict[str, dict[str, list[str]]]:
    """Return the tests that were not the same each time: name -> status -> the iterations with it."""
    names = {name for iteration in iterations for name in iteration.statuses}
    results: dict[str, dict[str, list[str]]] = {}
    for name in sorted(names):
        by_status: dict[str, list[str]] = {}
        for iteration in iterations:
            by_status.setdefault(iteration.statuses.get(name, "absent"), []).append(iteration.label)
        if len(by_status) > 1:
            results[name] = by_status
    return results


def report(iterations: t.Sequence[Iteration], say: t.Callable[[str], object]) -> bool:
    """Print a line for each iteration, and what was not the same; return whether all passed each time."""
    say(f"\n{'seed':>6}{'busy':>6}{'time':>8}{'others':>8}{'passed':>9}{'failed':>8}{'skipped':>9}")
    for iteration in iterations:
        statuses = list(iteration.statuses.values())
        numbers = [statuses.count(status) for status in ("passed", "failed", "skipped")]
        say(
            f"{iteration.seed:>6}{iteration.busy:>6}{clock(iteration.seconds):>8}{iteration.others:>8.0%}"
            f"{numbers[0]:>9}{numbers[1]:>8}{numbers[2]:>9}"
        )
    results = differing(iterations)
    for name, by_status in results.items():
        say(f"\n{name}")
        for status, labels in by_status.items():
            say(f"  {status}: {len(labels)} times{'' if status == 'passed' else ': ' + '; '.join(labels)}")
        for reason in sorted({iteration.reasons[name] for iteration in iterations if iteration.reasons.get(name)}):
            say(f"  {reason}")
    always = {
        name
        for iteration in iterations
        for name, status in iteration.statuses.items()
        if status == "failed" and name not in results
    }
    for name in sorted(always):
        say(f"\n{name}\n  failed each time")
    say(f"\n{len(iterations)} runs, {len(results)} tests that differ, {len(always)} that failed each time")
    return not results and not always


def repeat(runs: int, busy: int, require_all: bool) -> int:
    """Run what is missing of so many iterations beside so many busy loops; report all of this commit."""
    if git("status", "--porcelain"):
        print("tests: iterations are kept by commit, and there are changes that are not committed", file=sys.stderr)
        return 2
    directory = cache() / "repeat" / commit()
    for seed in range(1, runs + 1):
        path = directory / f"seed-{seed}-busy-{busy}.json"
        if path.exists():
            print(f"seed {seed}, {busy} busy: done before", flush=True)
            continue
        print(f"\n=== seed {seed} of {runs}, {busy} busy", flush=True)
        iteration = iterate(seed, busy, require_all)
        if iteration is None:
            print("interrupted: this iteration is not kept", flush=True)
            break
        write(path, iteration)
    return 0 if report(read(directory), lambda text: print(text, flush=True)) else 1
