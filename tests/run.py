# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run the parts of `make test` or `make test-all`, each within its time, and count what passed, failed and was skipped."""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import typing as t

from ansible_collections.rdmaops.gpu_fabric.tests.suite import repeat, resume
from ansible_collections.rdmaops.gpu_fabric.tests.suite.parts import PARTS
from ansible_collections.rdmaops.gpu_fabric.tests.suite.report import report
from ansible_collections.rdmaops.gpu_fabric.tests.suite.runner import Runner
from ansible_collections.rdmaops.gpu_fabric.tests.suite.tree import OUTPUT, ROOT, cache, commit, files

# What the budgets of `make test` may add up to, in seconds on two processors without other work.
TOTAL_LIMIT = 40 * 60
# What it may take on a machine that is slow, or busy with other work: CI stops it after 90 minutes.
CEILING = 85 * 60


def parse() -> argparse.Namespace:
    names = [part.name for part in PARTS]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"one or more of: {', '.join(names)}")
    parser.add_argument("--all", action="store_true", help="every scenario and the tests marked `long`")
    parser.add_argument("--from", dest="first", metavar="PART", help="with --all: this part and those after it")
    parser.add_argument("--repeat", type=int, default=0, metavar="N", help=f"{', '.join(repeat.NAMES)}: N times")
    parser.add_argument("--busy", type=int, default=0, metavar="N", help="with --repeat: beside N busy loops")
    arguments = parser.parse_args()
    unknown = sorted({*arguments.parts, *([arguments.first] if arguments.first else [])} - set(names))
    if unknown:
        parser.error(f"no such part: {', '.join(unknown)}. The parts are: {', '.join(names)}")
    if arguments.first and (arguments.parts or not arguments.all):
        parser.error("--from goes with --all, and without names of parts")
    if arguments.repeat and (arguments.parts or arguments.all):
        parser.error(f"--repeat runs {', '.join(repeat.NAMES)}, and goes without other parts")
    return arguments


def run_all(arguments: argparse.Namespace, require_all: bool) -> tuple[Runner, str]:
    """Run what was chosen, or what has not passed."""
    names = [part.name for part in PARTS]
    chosen = [part for part in PARTS if part.name in arguments.parts]
    if arguments.first:
        chosen = list(PARTS[names.index(arguments.first) :])
    runner = Runner(everything=True, require_all=require_all, commit=commit())
    return runner, resume.run_rest(runner, PARTS, resume.State(cache() / "test-all"), chosen)


def run_parts(arguments: argparse.Namespace, require_all: bool) -> tuple[Runner, str]:
    parts = [part for part in PARTS if (part.name in arguments.parts if arguments.parts else part.budget)]
    # Parts that are named may take what they need; `make test` as a whole may not.
    runner = Runner(everything=False, require_all=require_all, limit=float("inf") if arguments.parts else CEILING)
    try:
        for part in parts:
            runner.run(part)
    except KeyboardInterrupt:
        runner.add("interrupted", "failed")
    return runner, report(runner, parts)


def handle_termination(_number: int, _frame: object) -> t.NoReturn:
    raise KeyboardInterrupt


def main() -> int:
    arguments = parse()
    try:
        files("galaxy.yml")
    except (OSError, subprocess.SubprocessError) as error:
        print(f"tests: git must list the files of {ROOT}, a clone of the repository: {error}", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, handle_termination)
    # A shell has what it starts in the background ignore it, and all that is started from here with it: what a part is
    # ended by, and what some tests send.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    require_all = os.environ.get("REQUIRE_ALL", "") not in ("", "0", "false", "no")
    if arguments.repeat:
        return repeat.repeat(arguments.repeat, arguments.busy, require_all)
    OUTPUT.mkdir(parents=True, exist_ok=True)
    runner, last = (run_all if arguments.all else run_parts)(arguments, require_all)
    print(last, flush=True)
    return 1 if any(check.status == "failed" for check in runner.checks) else 0


if __name__ == "__main__":
    sys.exit(main())
