# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""From nothing to two nodes in exclusive mode with RDMA traffic between them, told on the terminal."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
import typing as t
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LAB = [sys.executable, str(ROOT / "tests/lab/lab.py")]
PLAYBOOK = [str(Path(sys.executable).parent / "ansible-playbook"), "-i", str(ROOT / "inventories/lab")]
REPORT = ROOT / ".cache/demo/report.json"
NODES = ("gpu-1", "gpu-2")
RAILS = (0, 1)
PINGS = 5


class DemoError(Exception):
    """A step did not end as it should; the text says which and what it printed."""


class Demo:
    """The steps, each timed and kept for the report."""

    def __init__(self) -> None:
        self.started = time.monotonic()
        self.steps: list[dict[str, t.Any]] = []

    def step(self, title: str, argv: list[str], limit_s: int, quiet: bool = False) -> str:
        """Run one command with its output on the terminal, unless quiet, and return its output."""
        begun = time.monotonic()
        print("\n==> %s" % title, flush=True)
        environment = dict(os.environ, ANSIBLE_FORCE_COLOR="1" if sys.stdout.isatty() else "0", PYTHONUNBUFFERED="1")
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
        found = {}
        for node in NODES:
            text = self.on(node, "%s: rdma system on %s" % (when, node), "rdma", "system")
            match = re.search(r"netns (\w+)", text)
            if match is None:
                raise DemoError("rdma system on %s printed no mode: %s" % (node, text))
            found[node] = match.group(1)
        return found

    def rping(self, rail: int) -> int:
        """Ping over one rail, the first node as server, and return how many pings came back."""
        address = "10.90.%d.1" % rail
        serve = "systemd-run --quiet --collect --unit=rping-%d timeout 60 rping -s -a %s -C %d" % (rail, address, PINGS)
        listening = "timeout 30 sh -c 'until rdma resource show cm_id | grep -q LISTEN; do sleep 1; done'"
        self.on(NODES[0], "rping on rail %d: server" % rail, "%s && %s" % (serve, listening))
        client = ["timeout", "60", "rping", "-c", "-v", "-a", address, "-C", str(PINGS)]
        return self.on(NODES[1], "rping on rail %d: client" % rail, *client).count("ping data: rdma-ping-")


def run() -> None:
    demo = Demo()
    demo.step("Boot two virgin nodes (the first time, their image is built)", [*LAB, "fresh", *NODES], 2400)
    for node in NODES:
        demo.on(node, "A network namespace on %s stands in for a pod" % node, "ip", "netns", "add", "pod")
    before = demo.modes("Before")
    demo.step(
        "Site, with consent to reboot",
        [*PLAYBOOK, "rdmaops.gpu_fabric.site", "-e", "node_maintenance_reboot_ok=true"],
        2400,
    )
    after = demo.modes("After")
    pings = {rail: demo.rping(rail) for rail in RAILS}

    good = set(after.values()) == {"exclusive"} and set(pings.values()) == {PINGS}
    report: dict[str, t.Any] = {
        "verdict": "pass" if good else "fail",
        "nodes": {node: {"before": before[node], "after": after[node]} for node in NODES},
        "rping": {"rail%d" % rail: count for rail, count in pings.items()},
        "seconds": round(time.monotonic() - demo.started, 1),
        "steps": demo.steps,
    }
    REPORT.parent.mkdir(parents=True, exist_ok=True)
    REPORT.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")

    print("\n%-8s %-10s %-10s" % ("node", "before", "after"))
    for node in NODES:
        print("%-8s %-10s %-10s" % (node, before[node], after[node]))
    print("\n%-8s %s" % ("rail", "rping %s -> %s" % (NODES[1], NODES[0])))
    for rail, count in pings.items():
        print("%-8s %d of %d came back" % ("rail%d" % rail, count, PINGS))
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
