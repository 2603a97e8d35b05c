# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the drift callback costs: a check-mode run on fifty local hosts, with and without it."""

from __future__ import annotations

import json
import sys
import typing as t
from pathlib import Path

from ansible_collections.rdmaops.gpu_fabric.tests.benchmarks.library import (
    BenchmarkError,
    Case,
    interleave,
    time_command,
)
from ansible_collections.rdmaops.gpu_fabric.tests.benchmarks.nodes import Place

HOSTS = 50
PAIRS = 5
GOAL = 1.05

TASKS: list[dict[str, t.Any]] = [
    {
        "name": "A directory that is not there",
        "ansible.builtin.file": {"path": "/nonexistent/{{ inventory_hostname }}", "state": "directory"},
    },
    {"name": "A file that is there", "ansible.builtin.file": {"path": "/etc/hostname", "state": "file"}},
]


def cost(place: Place) -> list[Case]:
    """Measure processor time in pairs, there and back; everything that the callback can write is written."""
    workplace = place.workplace / "drift"
    workplace.mkdir(parents=True, exist_ok=True)
    inventory = workplace / "hosts.json"
    local = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    hosts = {f"host-{number:02d}": local for number in range(HOSTS)}
    inventory.write_text(json.dumps({"all": {"hosts": hosts}}))
    playbook = workplace / "playbook.yml"
    playbook.write_text(json.dumps([{"name": "Look", "hosts": "all", "gather_facts": False, "tasks": TASKS}]))
    report = workplace / "report.json"
    report.unlink(missing_ok=True)
    argv = [str(Path(sys.executable).parent / "ansible-playbook"), "--inventory", str(inventory), str(playbook)]
    argv += ["--check", "--diff"]

    def run(enabled: bool) -> float:
        # In place of the checkout's own ansible.cfg, which enables the callback.
        settings = workplace / ("with.cfg" if enabled else "without.cfg")
        settings.write_text("[defaults]\n" + ("callbacks_enabled = rdmaops.gpu_fabric.drift\n" if enabled else ""))
        environment = {
            "ANSIBLE_CONFIG": str(settings),
            "ANSIBLE_FORCE_COLOR": "0",
            "RDMAOPS_DRIFT_REPORT": str(report),
            "RDMAOPS_DRIFT_HTML": str(workplace / "report.html"),
            "RDMAOPS_DRIFT_PROMETHEUS": str(workplace / "report.prom"),
        }
        return time_command(argv, limit=1200, env=environment).cpu

    samples = interleave({"without": lambda: run(False), "with": lambda: run(True)}, runs=min(PAIRS, place.runs))
    drift_report = json.loads(report.read_text())
    objects = sum(len(entry["objects"]) for entry in drift_report["hosts"].values())
    if (len(drift_report["hosts"]), objects) != (HOSTS, HOSTS * len(TASKS)):
        raise BenchmarkError(f"the report has {objects} objects on {len(drift_report['hosts'])} hosts")
    title = f"drift callback, {HOSTS} hosts, CPU"
    return [Case(title, "s", samples["with"], "without it", samples["without"], GOAL, f"{objects} objects")]


CASES: dict[str, t.Callable[[Place], list[Case]]] = {"drift": cost}

__all__ = ["CASES"]
