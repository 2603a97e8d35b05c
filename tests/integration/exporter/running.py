# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The exporter as the role puts it together, run by the distribution's Python."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import tempfile
import typing as t
import urllib.error
import urllib.request
from pathlib import Path

from ansible_collections.rdmaops.gpu_fabric.tests.support import site, skip_or_fail
from ansible_collections.rdmaops.gpu_fabric.tests.support.waiting import wait_for

PYTHON = "/usr/bin/python3"


def play(workplace: Path, *tasks: t.Any, check: bool = False) -> site.Run:
    """Run tasks on this machine, the host `here`; the output is what a user sees."""
    inventory = {"all": {"hosts": {"here": site.HERE}}}
    arguments = ["--diff", *(["--check"] if check else [])]
    return site.run_tasks(workplace, tasks, *arguments, inventory=inventory, limit=300, **site.AS_A_USER)


def role(tasks_from: str = "main", **variables: t.Any) -> t.Any:
    return site.role("rdma_exporter", tasks_from, **variables)


class Commands(t.NamedTuple):
    """What the two units run: the process that answers HTTP, and the one that looks."""

    serve: list[str]
    look: list[str]

    def further(self, serve: t.Sequence[str] = (), look: t.Sequence[str] = ()) -> Commands:
        return Commands([*self.serve, *serve], [*self.look, *look])

    def socket(self) -> Path:
        return Path(self.look[self.look.index("--look.socket") + 1])


def places(workplace: Path) -> dict[str, str]:
    """Return the role's variables for files in a directory of the test."""
    return {
        "rdma_exporter_directory": str(workplace / "lib"),
        "__rdma_exporter_unit_directory": str(workplace),
        "__rdma_exporter_socket": str(workplace / "look.sock"),
    }


def install(workplace: Path, **variables: t.Any) -> Commands:
    """Have the role write the exporter, and return the commands of its units."""
    done = play(workplace, role("code.yml", **{**places(workplace), **variables}))
    assert done.rc == 0, done.output
    return Commands(command(workplace / "rdma_exporter.service"), command(workplace / "rdma_exporter-look.service"))


def settings(unit: Path, name: str) -> list[str]:
    """Return the values of a setting of a unit."""
    lines = [line.partition("=") for line in unit.read_text().splitlines()]
    return [value for key, _equals, value in lines if key == name]


def command(unit: Path) -> list[str]:
    (text,) = settings(unit, "ExecStart")
    return text.split()


def libraries() -> None:
    """Go on where the distribution's Python has what a web configuration needs."""
    asked = subprocess.run([PYTHON, "-I", "-c", "import bcrypt, yaml"], capture_output=True, timeout=60, check=False)
    if asked.returncode != 0:
        skip_or_fail("needs the packages python3-bcrypt and python3-yaml")


class Running:
    """Processes that serve metrics; the first one answers HTTP."""

    def __init__(self, processes: t.Sequence[subprocess.Popen[str]], port: int, scheme: str = "http") -> None:
        self.processes, self.port, self.scheme = processes, port, scheme

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
        pages = [int(Path(f"/proc/{process.pid}/statm").read_text().split()[1]) for process in self.processes]
        return sum(pages) * os.sysconf("SC_PAGE_SIZE")

    def cpu(self) -> float:
        """Seconds of the processor so far, of all threads and of children that ended."""
        stats = [Path(f"/proc/{process.pid}/stat").read_text() for process in self.processes]
        fields = [stat.rpartition(")")[2].split()[11:15] for stat in stats]
        return sum(int(ticks) for row in fields for ticks in row) / os.sysconf("SC_CLK_TCK")

    def descriptors(self) -> int:
        return sum(len(os.listdir(f"/proc/{process.pid}/fd")) for process in self.processes)


@contextlib.contextmanager
def process(argv: t.Sequence[str], ready: t.Callable[[], object]) -> t.Iterator[subprocess.Popen[str]]:
    """Start a process, and wait until what it is asked raises nothing."""
    with tempfile.TemporaryFile("w+") as errors:
        null = subprocess.DEVNULL
        started = subprocess.Popen(list(argv), stdin=null, stdout=null, stderr=errors, text=True)

        def printed() -> str:
            errors.seek(0)
            return errors.read()

        def is_ready() -> bool:
            assert started.poll() is None, f"{argv[0]} did not start: {printed()}"
            with contextlib.suppress(OSError):
                ready()
                return True
            return False

        try:
            wait_for(is_ready, pause=0.05, report=printed)
            yield started
        finally:
            started.terminate()
            started.wait(timeout=60)


@contextlib.contextmanager
def running(argv: t.Sequence[str], port: int, scheme: str = "http") -> t.Iterator[Running]:
    """Start a process that answers HTTP."""
    with process(argv, lambda: socket.create_connection(("127.0.0.1", port), timeout=1).close()) as answering:
        yield Running([answering], port, scheme)


@contextlib.contextmanager
def exporting(commands: Commands, port: int, scheme: str = "http") -> t.Iterator[Running]:
    """Start both processes of the exporter."""
    path = commands.socket()
    path.unlink(missing_ok=True)
    with process(commands.look, path.stat) as look, running(commands.serve, port, scheme) as serve:
        yield Running([*serve.processes, look], port, scheme)


__all__ = [
    "PYTHON",
    "Commands",
    "Running",
    "exporting",
    "install",
    "libraries",
    "places",
    "play",
    "process",
    "role",
    "running",
    "settings",
]
