# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The collection run against nodes of the lab, as a user runs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import typing as t
from pathlib import Path

from ansible_collections.rdmaops.gpu_fabric.tests.support import COLLECTION

PROGRAM = str(Path(sys.executable).parent / "ansible-playbook")
INVENTORY = COLLECTION / "inventories/lab/hosts.yml"


class Run(t.NamedTuple):
    """How ansible-playbook ended; ``tasks`` are (task, host, result) in the order in which they were done."""

    rc: int
    tasks: list[tuple[str, str, dict[str, t.Any]]]
    stats: dict[str, dict[str, int]]
    output: str

    def result(self, task: str) -> dict[str, t.Any]:
        """Return the last result of a task by the end of its name."""
        return [result for name, _host, result in self.tasks if name.endswith(task)][-1]

    def messages(self) -> str:
        """Return the messages of failed tasks."""
        return "\n".join(str(result.get("msg")) for _name, _host, result in self.tasks if result.get("failed"))

    def changed(self) -> int:
        return sum(counted["changed"] for counted in self.stats.values())


def command(book: str, node: str, *arguments: str, **variables: t.Any) -> list[str]:
    """Return the argument list of ansible-playbook."""
    return [PROGRAM, "-i", str(INVENTORY), book, "--limit", node, "-e", json.dumps(variables), *arguments]


def environment(**further: str) -> dict[str, str]:
    known = {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")}
    return {**known, "ANSIBLE_STDOUT_CALLBACK": "ansible.posix.json", "ANSIBLE_FORCE_COLOR": "0", **further}


def understood(rc: int, output: str) -> Run:
    """Read what the JSON callback printed."""
    begin = output.find("{\n")
    try:
        document = json.loads(output[begin:]) if begin >= 0 else {}
    except ValueError:
        document = {}
    tasks = [
        (task["task"]["name"], host, result)
        for play in document.get("plays", [])
        for task in play["tasks"]
        for host, result in task["hosts"].items()
    ]
    return Run(rc, tasks, document.get("stats", {}), output)


def ansible_playbook(*arguments: str, cwd: Path | None = None, limit: float = 1200, **further: str) -> Run:
    """Run ansible-playbook with these arguments; further variables of its environment may be given."""
    done = subprocess.run(
        [PROGRAM, *arguments],
        env=environment(**further),
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=limit,
        check=False,
    )
    return understood(done.returncode, done.stdout)._replace(output=done.stdout + done.stderr)


def playbook(book: str, node: str, *arguments: str, limit: float = 1200, **variables: t.Any) -> Run:
    """Run a playbook on one node."""
    return ansible_playbook(*command(book, node, *arguments, **variables)[1:], limit=limit)


def module(node: str, name: str, /, check: bool = False, **options: t.Any) -> dict[str, t.Any]:
    """Run one module on one node and return its result, failed or not."""
    task = {"name": "module", "rdmaops.gpu_fabric." + name: options, "check_mode": check}
    play = [{"name": "One module", "hosts": "gpu_nodes", "gather_facts": False, "tasks": [task]}]
    with tempfile.NamedTemporaryFile("w", suffix=".yml") as book:
        book.write(json.dumps(play))
        book.flush()
        run = playbook(book.name, node)
    assert run.tasks, run.output
    return run.result("module")


__all__ = ["INVENTORY", "Run", "ansible_playbook", "command", "environment", "module", "playbook", "understood"]
