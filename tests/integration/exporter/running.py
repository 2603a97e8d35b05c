# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The exporter as the role puts it together, run by the distribution's Python."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import typing as t
import urllib.error
import urllib.request
from pathlib import Path

from ansible_collections.rdmaops.gpu_fabric.tests.support import skip_or_fail
from ansible_collections.rdmaops.gpu_fabric.tests.support.site import environment

ROLE = "rdmaops.gpu_fabric.rdma_exporter"
PYTHON = "/usr/bin/python3"


def play(workplace: Path, *tasks: t.Any, check: bool = False, **variables: t.Any) -> subprocess.CompletedProcess[str]:
    """Run tasks on this machine; `variables` are the play's."""
    workplace.mkdir(parents=True, exist_ok=True)
    inventory = workplace / "hosts.json"
    local = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    inventory.write_text(json.dumps({"all": {"hosts": {"here": local}}}))
    book = workplace / "playbook.yml"
    head = {"name": "Exporter", "hosts": "all", "gather_facts": False, "vars": variables}
    book.write_text(json.dumps([{**head, "tasks": list(tasks)}]))
    argv = [str(Path(sys.executable).parent / "ansible-playbook"), "-i", str(inventory), str(book), "--diff"]
    argv += ["--check"] if check else []
    known = environment(ANSIBLE_STDOUT_CALLBACK="ansible.builtin.default")
    return subprocess.run(
        argv, env=known, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300, check=False
    )


def role(tasks_from: str = "main", **variables: t.Any) -> t.Any:
    arguments = {"name": ROLE, "tasks_from": tasks_from}
    return {"name": "Role", "ansible.builtin.include_role": arguments, "vars": variables}


def install(workplace: Path, **variables: t.Any) -> tuple[Path, list[str]]:
    """Have the role write the exporter, and return its directory and the command of its unit."""
    places = {"rdma_exporter_directory": str(workplace / "lib"), "__rdma_exporter_unit_directory": str(workplace)}
    done = play(workplace, role("code.yml", **places, **variables))
    if done.returncode != 0:
        raise AssertionError(done.stdout + done.stderr)
    unit = (workplace / "rdma_exporter.service").read_text()
    (command,) = [line.partition("=")[2].split() for line in unit.splitlines() if line.startswith("ExecStart=")]
    return workplace / "lib", command


def libraries() -> None:
    """Go on where the distribution's Python has what a web configuration needs."""
    asked = subprocess.run([PYTHON, "-I", "-c", "import bcrypt, yaml"], capture_output=True, timeout=60, check=False)
    if asked.returncode != 0:
        skip_or_fail("needs the packages python3-bcrypt and python3-yaml")


class Running:
    """A process that serves metrics."""

    def __init__(self, process: subprocess.Popen[str], port: int, scheme: str = "http") -> None:
        self.process, self.port, self.scheme = process, port, scheme

    def get(self, path: str = "/metrics", **keywords: t.Any) -> bytes:
        headers = keywords.pop("headers", {})
        request = urllib.request.Request(f"{self.scheme}://127.0.0.1:{self.port}{path}", headers=headers)
        opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=keywords.get("context"))
        )
        with opener.open(request, timeout=30) as answer:
            return t.cast(bytes, answer.read())

    def resident(self) -> int:
        """Bytes of memory in use."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def cpu(self) -> float:
        """Seconds of the processor so far, of all threads and of children that ended."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return sum(int(field) for field in fields[11:15]) / os.sysconf("SC_CLK_TCK")

    def descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))


@contextlib.contextmanager
def running(argv: t.Sequence[str], port: int, scheme: str = "http") -> t.Iterator[Running]:
    """Start an exporter and wait until its port answers."""
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            list(argv), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors, text=True
        )
        try:
            until = time.monotonic() + 60
            while True:
                if process.poll() is not None or time.monotonic() > until:
                    process.kill()
                    process.wait()
                    errors.seek(0)
                    raise AssertionError(f"{argv[0]} did not start: {errors.read()}")
                with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                    break
                time.sleep(0.05)
            yield Running(process, port, scheme)
        finally:
            process.terminate()
            process.wait(timeout=60)


__all__ = ["PYTHON", "ROLE", "Running", "install", "libraries", "play", "role", "running"]
