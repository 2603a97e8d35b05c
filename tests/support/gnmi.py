# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The role switch_telemetry and what it works with: its variables, gNMIc, and switches with counters that grow."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import re
import subprocess
import typing as t
import urllib.request
from pathlib import Path

from ansible_collections.rdmaops.gpu_fabric.tests.lab import tools
from ansible_collections.rdmaops.gpu_fabric.tests.lab.certificates import Authority
from ansible_collections.rdmaops.gpu_fabric.tests.support import COLLECTION, skip_or_fail
from ansible_collections.rdmaops.gpu_fabric.tests.support.role_values import values
from ansible_collections.rdmaops.gpu_fabric.tests.support.waiting import wait_for

Json = t.Any
ROLE = COLLECTION / "roles/switch_telemetry"


def value(name: str, **site: Json) -> Json:
    """Return one of the role's variables for what a site has set."""
    return values(ROLE).value(name, **site)


def program(name: str) -> Path:
    """Return a program of the lab, or skip where it is to be had in no way."""
    try:
        return tools.get(name)
    except tools.Unavailable as error:
        skip_or_fail(str(error))


def elements(path: str) -> Json:
    """Return a gNMI path as protobuf's JSON has it."""
    elements = []
    for name, keys in re.findall(r"/([^/\[]+)((?:\[[^]]*\])*)", path):
        elements.append({"name": name, "key": dict(re.findall(r"\[([^=]+)=([^]]*)\]", keys))})
    return {"elem": elements}


def notification(leaves: t.Mapping[str, Json]) -> str:
    """Return the leaves of a switch, by path, as the program reads them: counters grow, JSON stays."""
    updates = []
    for path, begin in leaves.items():
        typed = {"uintVal": str(begin)} if isinstance(begin, int) else {"jsonIetfVal": encoded(begin)}
        updates.append({"path": elements(path), "val": typed})
    return json.dumps({"update": updates})


def encoded(document: Json) -> str:
    # Protobuf's JSON has bytes in Base64.
    return base64.b64encode(json.dumps(document).encode()).decode()


class Switches:
    """Switches on this machine, and the authority that has signed their certificates."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.authority = Authority(directory, "ca")
        self._running: list[subprocess.Popen[str]] = []

    def start(self, name: str, leaves: t.Mapping[str, Json], *, password: str, basic: bool = False) -> int:
        """Start a switch whose user is `admin`, and return its port."""
        self.authority.keep(name, self.authority.server(name, [name, "127.0.0.1"]))
        counters = self.directory / f"{name}.json"
        counters.write_text(notification(leaves))
        argv = [str(program("gnmi_target")), "-counters", str(counters), "-user", "admin"]
        argv += ["-cert", str(self.directory / f"{name}.crt"), "-key", str(self.directory / f"{name}.key")]
        argv += ["-basic"] if basic else []
        known: t.Any = {"env": {**os.environ, "GNMI_TARGET_PASSWORD": password}, "stdin": subprocess.DEVNULL}
        process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, **known)
        self._running.append(process)
        assert process.stdout
        return int(process.stdout.readline().rpartition(":")[2])

    def __enter__(self) -> Switches:
        return self

    def __exit__(self, *_exc: object) -> None:
        for process in self._running:
            process.kill()
            process.wait(30)
            assert process.stdout
            process.stdout.close()


class Collector:
    """gNMIc as the unit starts it."""

    def __init__(self, process: subprocess.Popen[str], port: int, log: Path) -> None:
        self.process, self.port, self.log = process, port, log

    def metrics(self) -> str:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"http://127.0.0.1:{self.port}/metrics", timeout=10) as answer:
            return t.cast(str, answer.read().decode())

    def series(self) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
        """Return the value of each series by name and labels."""
        samples = {}
        for line in self.metrics().splitlines():
            matched = re.fullmatch(r"(\w+)\{(.*)\} (\S+)", line)
            if matched:
                samples[matched[1], frozenset(re.findall(r'(\w+)="([^"]*)"', matched[2]))] = float(matched[3])
        return samples

    def wait(self, condition: t.Callable[[], Json], limit: float = 60) -> Json:
        """Return what a condition has become."""

        def attempt() -> Json:
            with contextlib.suppress(OSError):
                if result := condition():
                    return result
            assert self.process.poll() is None, self.log.read_text()[-4000:]
            return None

        return wait_for(attempt, limit, pause=0.1, report=lambda: self.log.read_text()[-4000:])


@contextlib.contextmanager
def collecting(unit: Path, port: int, log: Path) -> t.Iterator[Collector]:
    """Run what a unit starts, with its environment; a shell reads an EnvironmentFile as systemd does."""
    lines = dict(line.split("=", 1) for line in unit.read_text().splitlines() if "=" in line)
    script = 'set -a; . "$0"; exec "$@"'
    argv = ["sh", "-c", script, lines["EnvironmentFile"], *lines["ExecStart"].split()]
    with log.open("w") as target:
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=target, stderr=target, text=True)
        try:
            yield Collector(process, port, log)
        finally:
            process.terminate()
            process.wait(30)


__all__ = ["ROLE", "Collector", "Switches", "collecting", "elements", "notification", "program", "value"]
