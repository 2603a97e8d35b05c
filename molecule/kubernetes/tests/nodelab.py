# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs of the playbooks on the scenario's machines, and commands of the lab."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import typing as t
from pathlib import Path

from ansible_collections.rdmaops.gpu_fabric.tests.support import COLLECTION
from ansible_collections.rdmaops.gpu_fabric.tests.support.site import environment

EPHEMERAL = Path(os.environ["MOLECULE_EPHEMERAL_DIRECTORY"])
PLANE, NODES = "gpu-3", ("gpu-1", "gpu-2", "gpu-3")
# Of vars/settings.yml.
ENCRYPTION_KEY = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
BOOK = "rdmaops.gpu_fabric.kubernetes"
LIMIT_S = 3600
ENVIRONMENT = environment(ANSIBLE_STDOUT_CALLBACK="ansible.builtin.default", ANSIBLE_NOCOLOR="1")


class Run(t.NamedTuple):
    rc: int
    output: str

    @property
    def changed(self) -> int:
        return sum(int(count) for count in re.findall(r"changed=(\d+)", self.output))


def command(*arguments: str, book: str = BOOK, **variables: t.Any) -> list[str]:
    program = str(Path(sys.executable).parent / "ansible-playbook")
    return [program, "-i", str(EPHEMERAL / "inventory"), book, *arguments, "-e", json.dumps(variables)]


def play(*arguments: str, book: str = BOOK, **variables: t.Any) -> Run:
    done = subprocess.run(
        command(*arguments, book=book, **variables), cwd=COLLECTION, env=ENVIRONMENT, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=LIMIT_S, check=False,
    )  # fmt: skip
    return Run(done.returncode, done.stdout)


def start(*arguments: str, **variables: t.Any) -> subprocess.Popen[bytes]:
    """Start the playbook without waiting for its end."""
    return subprocess.Popen(
        command(*arguments, **variables), cwd=COLLECTION, env=ENVIRONMENT, stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip


def lab(*words: str) -> None:
    """Run a command of the lab."""
    subprocess.run(
        [sys.executable, str(COLLECTION / "tests/lab/lab.py"), *words],
        stdin=subprocess.DEVNULL,
        timeout=900,
        check=True,
    )
