# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Make small mistakes in the code that decides, one at a time, and count those that the unit tests find.

python tests/mutants/run.py [--seed TEXT] [--count N] [--only ID ...]

mutations.py says which mistakes. mutants.toml has the groups of files, the tests of each group, and the mutants that are
claimed to behave as the code does. The seed chooses mutants by their text, not by their place: after an edit, those of
other lines stay chosen. The tests run in copies of the checkout. Exits 0 if 95 % of the mutants are found, at most 5 % are
claimed equivalent, and each claim is about a mutant of the code that no test finds.
"""

from __future__ import annotations

import argparse
import collections
import concurrent.futures
import contextlib
import itertools
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
import typing as t
from pathlib import Path

from ansible_collections.rdmaops.gpu_fabric.tests.mutants.mutations import Mutant, changed, chosen, mutants_of
from ansible_collections.rdmaops.gpu_fabric.tests.suite import tree
from ansible_collections.rdmaops.gpu_fabric.tests.suite.tree import ROOT

SETTINGS = Path(__file__).with_name("mutants.toml")
COUNT = 50
FOUND, EQUIVALENT = 0.95, 0.05
OUTCOMES = ("failed", "limit", "equivalent", "survived")


class Copy:
    """A copy of the checkout, imported before the one that is installed."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._root = directory / tree.FQCN_PATH
        for name in tree.files():
            (self._root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, self._root / name)

    def outcome(self, tests: list[str], limit: float | None) -> str:
        """Run the tests until one fails."""
        options = ["-x", "-q", "--tb=line", "-p", "no:cacheprovider", f"--basetemp={self._directory / 'tmp'}"]
        with (self._directory / "output").open("w+") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "pytest", *options, *tests],
                cwd=self._root,
                env={**tree.clean_environment(), "PYTHONPATH": str(self._directory)},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
            try:
                code = process.wait(limit)
            except subprocess.TimeoutExpired:
                return "limit"
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            # 1: a test failed. 2: a file of tests cannot be imported.
            if code not in (0, 1, 2) or (code and limit is None):
                output.seek(0)
                raise RuntimeError(output.read())
        return "failed" if code else "survived"

    def outcome_with(self, mutant: Mutant, moment: int, tests: list[str], limit: float) -> str:
        """Run the tests with the mutant in place."""
        path = self._root / mutant.path
        source, before = path.read_text(), path.stat()
        path.write_text(changed(source, mutant))
        # Python knows a stale .pyc by the size and the time, in seconds, of its source.
        os.utime(path, (moment, moment))
        try:
            return self.outcome(tests, limit)
        finally:
            path.write_text(source)
            os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def files(patterns: list[str]) -> list[str]:
    """Return the files of the checkout that the patterns name."""
    return [str(path.relative_to(ROOT)) for pattern in patterns for path in sorted(ROOT.glob(pattern))]


def run(mutants: dict[str, list[Mutant]], tests: dict[str, list[str]]) -> t.Iterator[tuple[str, Mutant, str]]:
    """Yield each mutant with its group, and what became of it."""
    workers = os.cpu_count() or 1
    copies: queue.Queue[Copy] = queue.Queue()

    def seconds(group: str) -> float:
        copy, start = copies.get(), time.monotonic()
        copy.outcome(tests[group], None)
        copies.put(copy)
        return time.monotonic() - start

    def outcome(moment: int, group: str, mutant: Mutant) -> tuple[str, Mutant, str]:
        own = f"test_{Path(mutant.path).stem}"
        own_first = sorted(tests[group], key=lambda test: Path(test).stem != own)
        copy = copies.get()
        result = copy.outcome_with(mutant, moment, own_first, limits[group])
        copies.put(copy)
        return group, mutant, result

    with (
        tempfile.TemporaryDirectory(prefix="mutants-") as directory,
        concurrent.futures.ThreadPoolExecutor(workers) as pool,
    ):
        for number in range(workers):
            copies.put(Copy(Path(directory) / str(number)))
        limits = {group: 30 + 4 * taken for group, taken in zip(mutants, pool.map(seconds, mutants), strict=True)}
        tasks = [(group, mutant) for group, members in mutants.items() for mutant in members]
        yield from pool.map(outcome, itertools.count(1), *zip(*tasks, strict=True))


def score(counts: collections.Counter[str]) -> float:
    """Return the share of the mutants that were found, of those that are not equivalent."""
    return (counts["failed"] + counts["limit"]) / max(1, counts.total() - counts["equivalent"])


def enough(counts: collections.Counter[str]) -> bool:
    """Say whether so many were found, and so few are claimed equivalent, as is asked for."""
    return score(counts) >= FOUND and counts["equivalent"] <= EQUIVALENT * counts.total()


def table(counts: dict[str, collections.Counter[str]]) -> str:
    """Return the counts of each group, and their sum."""
    total = sum(counts.values(), collections.Counter())
    lines = ["{:<10}{:>9}{:>9}{:>9}{:>12}{:>10}{:>9}".format("group", "mutants", *OUTCOMES, "found")]
    for group, row in {**counts, "total": total}.items():
        numbers = (row.total(), *(row[outcome] for outcome in OUTCOMES))
        lines.append("{:<10}{:>9}{:>9}{:>9}{:>12}{:>10}{:>9.1%}".format(group, *numbers, score(row)))
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", default="1")
    parser.add_argument("--count", type=int, default=COUNT, help="how many mutants of each group")
    parser.add_argument("--only", nargs="+", help="these mutants, and no other")
    arguments = parser.parse_args()
    settings = tomllib.loads(SETTINGS.read_text())
    claims: dict[str, str] = settings["equivalent"]
    mutants: dict[str, list[Mutant]] = {}
    tests: dict[str, list[str]] = {}
    stale = set(claims)
    for group, values in settings["group"].items():
        every = [mutant for path in files(values["files"]) for mutant in mutants_of(path, (ROOT / path).read_text())]
        stale -= {mutant.identity for mutant in every}
        tests[group] = files(values["tests"])
        mutants[group] = chosen(every, arguments.seed, arguments.count)
        if arguments.only:
            mutants[group] = [mutant for mutant in every if mutant.identity in arguments.only]
    mutants = {group: members for group, members in mutants.items() if members}

    wrong = [f"claimed equivalent, and not in the code: {identity}" for identity in sorted(stale)]
    counts: dict[str, collections.Counter[str]] = {group: collections.Counter() for group in mutants}
    for group, mutant, outcome in run(mutants, tests):
        claimed = mutant.identity in claims
        counts[group]["equivalent" if claimed and outcome == "survived" else outcome] += 1
        if claimed and outcome != "survived":
            wrong.append(f"claimed equivalent, and found: {mutant}")
        elif outcome == "survived" and not claimed:
            print(f"survived: {mutant}", flush=True)
    print(table(counts), *wrong, sep="\n")
    return 0 if enough(sum(counts.values(), collections.Counter())) and not wrong else 1


if __name__ == "__main__":
    sys.exit(main())
