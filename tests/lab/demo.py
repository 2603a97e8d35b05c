# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""From nothing to two nodes in exclusive mode with RDMA traffic between them, shown on the terminal."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
import typing as t
from pathlib import Path

from ansible_collections.rdmaops.gpu_fabric.tests.lab import times

ROOT = Path(__file__).resolve().parents[2]
LAB = [sys.executable, str(ROOT / "tests/lab/lab.py")]
PLAYBOOK = [str(Path(sys.executable).parent / "ansible-playbook"), "-i", str(ROOT / "inventories/lab")]
REPORT = ROOT / ".cache/demo/report.json"
# What the lab and Ansible write down of the time that each of their steps takes.
LAB_TIMES = ROOT / ".cache/demo/lab-times.jsonl"
TASK_TIMES = ROOT / ".cache/demo/task-times.jsonl"
FABRIC = {kind: ROOT / ".cache/demo" / ("fabric." + kind) for kind in ("json", "html")}
NODES = ("gpu-1", "gpu-2")


class DemoError(Exception):
    """A step failed; the text names it and has its output."""


class Demo:
    """The steps, each timed and kept for the report."""

    def __init__(self) -> None:
        self.started = time.monotonic()
        self.steps: list[dict[str, t.Any]] = []

    def step(self, title: str, argv: list[str], limit_s: int, quiet: bool = False) -> str:
        """Run one command with its output on the terminal, unless quiet, and return its output."""
        begun = time.monotonic()
        print("\n==> %s" % title, flush=True)
        environment = dict(
            os.environ,
            ANSIBLE_FORCE_COLOR="1" if sys.stdout.isatty() else "0",
            PYTHONUNBUFFERED="1",
            LAB_TIMES=str(LAB_TIMES),
            ANSIBLE_CALLBACK_PLUGINS=str(ROOT / "tests/benchmarks/callback"),
            ANSIBLE_CALLBACKS_ENABLED="rdmaops.gpu_fabric.drift,task_times",
            TASK_TIMES=str(TASK_TIMES),
        )
        try:
            done = subprocess.run(
                argv,
                cwd=ROOT,
                env=environment,
                timeout=limit_s,
                check=False,
                text=True,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE if quiet else None,
                stderr=subprocess.STDOUT if quiet else None,
            )
        except subprocess.TimeoutExpired as exc:
            raise DemoError("%s: not done after %d s: %s" % (title, limit_s, " ".join(argv))) from exc
        took = time.monotonic() - begun
        self.steps.append({"step": title, "seconds": round(took, 1), "rc": done.returncode})
        if done.returncode != 0:
            raise DemoError("%s: exit status %d: %s\n%s" % (title, done.returncode, " ".join(argv), done.stdout or ""))
        print("    %.0f s" % took, flush=True)
        return done.stdout or ""

    def on(self, node: str, title: str, *argv: str, limit_s: int = 120) -> str:
        return self.step(title, [*LAB, "ssh", node, *argv], limit_s, quiet=True)

    def modes(self, when: str) -> dict[str, str]:
        modes = {}
        for node in NODES:
            text = self.on(node, "%s: rdma system on %s" % (when, node), "rdma", "system")
            match = re.search(r"netns (\w+)", text)
            if match is None:
                raise DemoError("rdma system on %s printed no mode: %s" % (node, text))
            modes[node] = match.group(1)
        return modes


def run() -> None:
    REPORT.parent.mkdir(parents=True, exist_ok=True)
    for path in (LAB_TIMES, TASK_TIMES):
        path.unlink(missing_ok=True)
    before_s = float(os.environ.get("DEMO_BEFORE_S") or 0)
    demo = Demo()
    demo.step("Boot two fresh nodes (the first time, their image is built)", [*LAB, "fresh", *NODES], 2400)
    for node in NODES:
        demo.on(node, "A network namespace on %s stands in for a pod" % node, "ip", "netns", "add", "pod")
    before = demo.modes("Before")
    consent = ["-e", "node_maintenance_reboot_ok=true"]
    for kind, path in FABRIC.items():
        path.unlink(missing_ok=True)
        consent += ["-e", "fabric_check_report_%s=%s" % (kind, path)]
    demo.step("Site, with consent to reboot", [*PLAYBOOK, "rdmaops.gpu_fabric.site", *consent], 2400)
    after = demo.modes("After")
    fabric = json.loads(FABRIC["json"].read_text(encoding="utf-8"))

    total = time.monotonic() - demo.started + before_s
    done = times.tasks(times.read_lines(TASK_TIMES))
    parts = times.parts(total, before_s, times.read_lines(LAB_TIMES), done)

    good = set(after.values()) == {"exclusive"} and fabric["verdict"] == "pass"
    report: dict[str, t.Any] = {
        "verdict": "pass" if good else "fail",
        "nodes": {node: {"before": before[node], "after": after[node]} for node in NODES},
        "fabric": {"verdict": fabric["verdict"], "reasons": fabric["reasons"], "page": str(FABRIC["html"])},
        "seconds": round(total, 1),
        "parts": parts,
        "steps": demo.steps,
        "slowest": [task._asdict() for task in sorted(done, key=lambda task: -task.seconds)[:20]],
    }
    REPORT.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")

    print("\n%-8s %-10s %-10s" % ("node", "before", "after"))
    for node in NODES:
        print("%-8s %-10s %-10s" % (node, before[node], after[node]))
    print("\n%-8s %-12s %-8s %s" % ("rail", "test", "verdict", "%s -> %s" % (NODES[0], NODES[1])))
    for pair in fabric["pairs"]:
        result = "%.4f Gb/s" % pair["gbps"] if pair["gbps"] is not None else "%s pings" % pair["pings"]
        print("%-8s %-12s %-8s %s" % ("rail%d" % pair["rail"], pair["test"], pair["verdict"], result))
    print("\nThe fabric, as a page: %s" % FABRIC["html"])
    print("\nWhere the time went: %s" % ", ".join("%s %.0f s" % item for item in parts.items()))
    print("\n%s in %.0f s. Report: %s" % (report["verdict"].upper(), report["seconds"], REPORT))
    print("The nodes are up: make lab-ssh NODE=gpu-1. Stop them by: make lab-down")
    if not good:
        raise DemoError("The nodes did not end as they should; see the table above")


def main() -> int:
    try:
        run()
    except DemoError as exc:
        print("\n%s" % exc, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
