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

Json = t.Any
PROGRAM = str(Path(sys.executable).parent / "ansible-playbook")
INVENTORY = COLLECTION / "inventories/lab/hosts.yml"
# Variables of a host that is this machine.
HERE = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
# An inventory whose one host, this machine, is the one with the kubeconfig.
KUBERNETES_API = {"kubernetes_api": {"hosts": {"here": HERE}}}
# For runs whose output is what a user sees.
AS_A_USER = {"ANSIBLE_STDOUT_CALLBACK": "ansible.builtin.default", "ANSIBLE_NOCOLOR": "1"}


class Run(t.NamedTuple):
    """How ansible-playbook ended; ``tasks`` are (task, host, result) in the order in which they were done."""

    rc: int
    tasks: list[tuple[str, str, dict[str, t.Any]]]
    stats: dict[str, dict[str, int]]
    output: str

    def result(self, task: str) -> dict[str, t.Any]:
        """Return the last result of a task by the end of its name."""
        return self.results(task)[-1]

    def results(self, task: str) -> list[dict[str, t.Any]]:
        """Return the results of a task by the end of its name, in the order in which they came."""
        return [result for name, _host, result in self.tasks if name.endswith(task)]

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


def role(name: str, tasks_from: str = "main", **variables: Json) -> Json:
    """Return a task that includes a role of the collection."""
    include = {"name": f"rdmaops.gpu_fabric.{name}", "tasks_from": tasks_from}
    return {"name": f"Role {name}", "ansible.builtin.include_role": include, "vars": variables}


def rescued(task: Json) -> Json:
    """Return a task after whose failure the play goes on: its message stands in the output."""
    return {"name": "Refused", "block": [task], "rescue": [{"ansible.builtin.meta": "noop"}]}


def hosts(directory: Path, inventory: Json = None, variables: Json = None) -> list[str]:
    """Write an inventory, by default of `localhost` alone, and extra variables, and return the arguments for them.

    Variables are in a file, because Ansible prints its command line with -vvvv.
    """
    directory.mkdir(parents=True, exist_ok=True)
    inventory_file, variables_file = directory / "hosts.json", directory / "variables.json"
    inventory_file.write_text(json.dumps(inventory or {"all": {"hosts": {"localhost": HERE}}}))
    variables_file.write_text(json.dumps(variables or {}))
    return ["-i", str(inventory_file), "-e", f"@{variables_file}"]


def book(directory: Path, *plays: Json, inventory: Json = None, variables: Json = None) -> list[str]:
    """Write plays, by default on all hosts of the inventory, and return the arguments of ansible-playbook for them."""
    arguments, path = hosts(directory, inventory, variables), directory / "book.json"
    head = {"name": "Test", "hosts": "all", "gather_facts": False}
    path.write_text(json.dumps([{**head, **play} for play in plays]))
    return [*arguments, str(path)]


def run_tasks(
    directory: Path,
    tasks: t.Iterable[Json],
    *arguments: str,
    inventory: Json = None,
    variables: Json = None,
    **keywords: t.Any,
) -> Run:
    """Run tasks on all hosts of the inventory, by default on this machine."""
    argv = book(directory, {"tasks": list(tasks)}, inventory=inventory, variables=variables)
    return ansible_playbook(*argv, *arguments, **keywords)


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


__all__ = [
    "AS_A_USER",
    "HERE",
    "INVENTORY",
    "KUBERNETES_API",
    "PROGRAM",
    "Run",
    "ansible_playbook",
    "book",
    "command",
    "environment",
    "hosts",
    "module",
    "playbook",
    "rescued",
    "role",
    "run_tasks",
    "understood",
]
