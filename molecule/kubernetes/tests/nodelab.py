# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the scenario's tests do to machines, and to the playbook that runs on them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
import typing as t
from pathlib import Path

from ansible_collections.rdmaops.gpu_fabric.tests.support import COLLECTION
from ansible_collections.rdmaops.gpu_fabric.tests.support.lab_ssh import Guest, guest
from ansible_collections.rdmaops.gpu_fabric.tests.support.site import environment

EPHEMERAL = Path(os.environ["MOLECULE_EPHEMERAL_DIRECTORY"])
PLANE, NODES = "gpu-3", ("gpu-1", "gpu-2", "gpu-3")
BOOK = "rdmaops.gpu_fabric.kubernetes"
LIMIT_S = 3600


class Run(t.NamedTuple):
    rc: int
    output: str

    @property
    def changed(self) -> int:
        return sum(int(count) for count in re.findall(r"changed=(\d+)", self.output))


def command(*arguments: str, book: str = BOOK, **variables: t.Any) -> list[str]:
    program = str(Path(sys.executable).parent / "ansible-playbook")
    return [program, "-i", str(EPHEMERAL / "inventory"), book, *arguments, "-e", json.dumps(variables)]


def surroundings() -> dict[str, str]:
    return environment(ANSIBLE_STDOUT_CALLBACK="ansible.builtin.default", ANSIBLE_NOCOLOR="1")


def play(*arguments: str, book: str = BOOK, **variables: t.Any) -> Run:
    done = subprocess.run(
        command(*arguments, book=book, **variables), cwd=COLLECTION, env=surroundings(), stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=LIMIT_S, check=False,
    )  # fmt: skip
    return Run(done.returncode, done.stdout)


def begun(*arguments: str, **variables: t.Any) -> subprocess.Popen[bytes]:
    """Start the playbook, and do not wait for it."""
    return subprocess.Popen(
        command(*arguments, **variables), cwd=COLLECTION, env=surroundings(), stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip


def lab(*words: str) -> None:
    """A command of the lab's."""
    subprocess.run(
        [sys.executable, str(COLLECTION / "tests/lab/lab.py"), *words],
        stdin=subprocess.DEVNULL,
        timeout=900,
        check=True,
    )


def wait(what: str, so: t.Callable[[], bool], limit: float = 900, every: float = 1) -> None:
    end = time.monotonic() + limit
    while not so():
        if time.monotonic() > end:
            raise AssertionError(f"not within {limit:.0f} s: {what}")
        time.sleep(every)


def machine(name: str) -> Guest:
    return guest(name)
