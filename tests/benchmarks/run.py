# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run the benchmarks, print one table and write one JSON document."""

from __future__ import annotations

import argparse
import datetime
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from ansible_collections.rdmaops.gpu_fabric.tests.benchmarks import (
    checks,
    cluster,
    demo,
    drift,
    drift_hosts,
    exporter,
    nodes,
    scale,
)
from ansible_collections.rdmaops.gpu_fabric.tests.benchmarks.library import BenchmarkError, Case, document, table
from ansible_collections.rdmaops.gpu_fabric.tests.lab.progress import LabError

ROOT = Path(__file__).resolve().parents[2]
OUTPUT = ROOT / ".cache" / "bench"
LAB = ROOT / "tests" / "lab" / "lab.py"
INVENTORY = Path(os.environ.get("LAB_INVENTORY") or ROOT / "inventories" / "lab") / "hosts.yml"

# What one case runs into is said, and the others are measured.
UNMEASURED = (BenchmarkError, LabError, AssertionError, OSError, subprocess.SubprocessError)

# These need a host of the lab, and the first one wants it as it comes.
LAB_CASES = {**checks.LAB, **nodes.CASES}
CASES = {
    **LAB_CASES,
    **checks.CASES,
    **cluster.CASES,
    **drift.CASES,
    **drift_hosts.CASES,
    **exporter.CASES,
    **scale.CASES,
    **demo.CASES,
}


def qemu_of(host: str) -> int | None:
    """Return the process of a node of the lab."""
    argv = [sys.executable, str(LAB), "status", "--json"]
    asked = subprocess.run(argv, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL, check=False)
    if asked.returncode != 0:
        return None
    return next((node["pid"] for node in json.loads(asked.stdout) if node["node"] == host), None)


def end(number: int, _frame: object) -> None:
    """Clean up when terminated, too: hosts, control planes and directories are ended on the way out."""
    sys.exit(128 + number)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"one or more of: {', '.join(CASES)}")
    parser.add_argument("--inventory", type=Path, default=INVENTORY)
    parser.add_argument("--host", default="gpu-1", help="the host of the inventory to measure on (default: gpu-1)")
    parser.add_argument("--runs", type=int, default=nodes.RUNS, help=f"of each kind (default: {nodes.RUNS})")
    parser.add_argument("--json", type=Path, default=OUTPUT / "bench.json", help="where the document goes")
    arguments = parser.parse_args()
    unknown = sorted(set(arguments.cases) - set(CASES))
    if unknown:
        parser.error(f"no such case: {', '.join(unknown)}. The cases are: {', '.join(CASES)}")
    selected = set(arguments.cases) or set(CASES)
    lab = arguments.inventory.exists()
    no_lab = f"there is no {os.path.relpath(arguments.inventory)}: start the lab by 'make lab-up'"

    started = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    pid = qemu_of(arguments.host) if lab and arguments.inventory == INVENTORY and selected & set(LAB_CASES) else None
    place = nodes.Place(arguments.inventory.resolve(), arguments.host, OUTPUT, pid, arguments.runs)
    cases: list[Case] = []
    problems: list[str] = []
    for name, measure in CASES.items():
        if name not in selected:
            continue
        if name in LAB_CASES and not lab:
            problems.append(f"{name}: {no_lab}")
            continue
        print(f"measuring {name} on {place.host if name in LAB_CASES else 'this machine'}", flush=True)
        try:
            cases += measure(place)
        except UNMEASURED as error:
            problems.append(f"{name}: {error}")

    arguments.json.parent.mkdir(parents=True, exist_ok=True)
    arguments.json.write_text(json.dumps(document(cases, started, problems), indent=1) + "\n")
    if cases:
        print(f"\n{table(cases)}")
    for problem in problems:
        print(f"\nnot measured: {problem}")
    print(f"\n{os.path.relpath(arguments.json)}")
    return 1 if problems or any(case.met is False for case in cases) else 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, end)
    sys.exit(main())
