# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs of ansible-playbook with the callback drift, on hosts that are this machine."""

from __future__ import annotations

import functools
import json
import os
import socket
import subprocess
import sys
import typing as t
from pathlib import Path

from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._drift.report import OBJECT_KEYS, validate
from ansible_collections.rdmaops.gpu_fabric.tests.lab import ports

Json = dict[str, t.Any]
PROGRAM = Path(sys.executable).parent / "ansible-playbook"


def entry(status: str = "in_sync", name: str = "n", **more: t.Any) -> Json:
    """Return an object as it stands in a report."""
    task = {"task": "T", "action": "x.y.module", "kind": "k"}
    return {**dict.fromkeys(OBJECT_KEYS), **task, "name": name, "status": status, **more}


class Ran(t.NamedTuple):
    """How a run ended; ``report`` is what the callback wrote."""

    rc: int
    output: str
    report: Json

    def objects(self, host: str) -> dict[str, str]:
        """Return names to statuses of a host's objects."""
        return {row["name"]: row["status"] for row in self.rows(host)}

    def rows(self, host: str) -> list[Json]:
        """Return what the report has of a host's objects."""
        return t.cast("list[Json]", self.report["hosts"][host]["objects"])

    def whys(self, host: str) -> list[str]:
        return [row["why"] for row in self.rows(host) if row["why"]]

    def hosts(self) -> dict[str, str]:
        """Return names to statuses of hosts."""
        return {host: entry["status"] for host, entry in self.report["hosts"].items()}


class Place:
    """A directory with an inventory of hosts that are this machine, and a playbook."""

    def __init__(self, path: Path, hosts: t.Sequence[str]) -> None:
        self.path = path
        lines = [f"{host} ansible_connection=local" for host in hosts]
        lines += ["[all:vars]", f"ansible_python_interpreter={sys.executable}", f"place={path}"]
        (path / "hosts").write_text("\n".join(lines) + "\n")
        (path / "ansible.cfg").write_text("[defaults]\ncallbacks_enabled = rdmaops.gpu_fabric.drift\n")
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")}
        self.environment.update(
            ANSIBLE_CONFIG=str(path / "ansible.cfg"),
            # Otherwise the starter of a job and its poller may use different home directories.
            ANSIBLE_ASYNC_DIR=str(path / "async"),
            ANSIBLE_FORCE_COLOR="0",
            ANSIBLE_NOCOLOR="1",
            COLUMNS="120",
            RDMAOPS_DRIFT_REPORT=str(path / "report.json"),
        )

    def write(self, *plays: Json, name: str = "play.yml") -> Path:
        book = self.path / name
        book.write_text(json.dumps([{"gather_facts": False, **play} for play in plays]))
        return book

    @property
    def book(self) -> str:
        """The playbook of `write`, if it was given no other name."""
        return str(self.path / "play.yml")

    def module(self, name: str, *lines: str) -> None:
        """Write a module of the playbook's own."""
        library = self.path / "library"
        library.mkdir()
        head = ("#!/usr/bin/python", "from ansible.module_utils.basic import AnsibleModule")
        (library / f"{name}.py").write_text("\n".join((*head, *lines)) + "\n")

    def command(self, *arguments: str) -> list[str]:
        return [str(PROGRAM), "-i", str(self.path / "hosts"), *arguments]

    def run(self, *arguments: str, **environment: str) -> Ran:
        command = self.command(*(arguments or (self.book, "--check")))
        known: t.Any = {"env": {**self.environment, **environment}, "cwd": self.path, "stdin": subprocess.DEVNULL}
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, **known)
        written = self.path / "report.json"
        report = json.loads(written.read_text()) if written.exists() else {}
        if report:
            validate(report, "the report")
        return Ran(done.returncode, done.stdout + done.stderr, report)

    def play(self, *tasks: Json, **more: t.Any) -> Json:
        return {"name": "Look", "hosts": "all", "tasks": list(tasks), **more}

    def check(self, *tasks: Json, **more: t.Any) -> Ran:
        """Run tasks on all hosts in check mode, and judge."""
        self.write(self.play(*tasks, **more), VERDICT)
        return self.run()


def verdict(**arguments: t.Any) -> Json:
    tasks = [{"name": "Verdict", "rdmaops.gpu_fabric.drift_verdict": arguments}]
    return {"name": "Judge", "hosts": "localhost", "tasks": tasks}


VERDICT = verdict()


def copy(name: str, content: str = "x\n", **more: t.Any) -> Json:
    return {"name": f"Copy {name}", "ansible.builtin.copy": {"dest": "{{ place }}/" + name, "content": content}, **more}


def run_it(program: str, *arguments: str, **more: t.Any) -> Json:
    return {"name": f"Run {program}", "ansible.builtin.command": {"argv": [program, *arguments]}, **more}


@functools.cache
def _reserved() -> socket.socket:
    return ports.reserve()


def closed_port() -> int:
    """A port that refuses connections, as long as this process runs."""
    return ports.number(_reserved())


__all__ = ["PROGRAM", "VERDICT", "Json", "Place", "Ran", "closed_port", "copy", "entry", "run_it", "verdict"]
