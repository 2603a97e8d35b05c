# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A real Prometheus of the test's own, and dashboards' queries put to it as Grafana puts them."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import time
import typing as t
import urllib.parse
import urllib.request
from pathlib import Path

from ansible_collections.rdmaops.gpu_fabric.tests.lab import ports
from ansible_collections.rdmaops.gpu_fabric.tests.support import COLLECTION, need_tool
from ansible_collections.rdmaops.gpu_fabric.tests.support.waiting import wait_for

Json = dict[str, t.Any]

DASHBOARDS = COLLECTION / "roles/monitoring/files/dashboards"
# What Prometheus itself makes: https://prometheus.io/docs/concepts/jobs_instances/ and .../configuration/alerting_rules/
OWN_NAMES = frozenset({"up", "ALERTS", "ALERTS_FOR_STATE"})
# Grafana's: https://grafana.com/docs/grafana/latest/dashboards/variables/add-template-variables/#global-variables
GRAFANA_NAMES = frozenset({"__rate_interval", "__interval", "__range"})

_KEYWORDS = (
    "and", "or", "unless", "by", "without", "on", "ignoring", "group_left", "group_right", "offset", "bool", "inf", "nan",
)  # fmt: skip
_VARIABLE = re.compile(r"\$(?:\{(\w+)(?::\w+)?\}|([A-Za-z_]\w*))")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_NOT_NAMES = re.compile(
    r"\{[^}]*\}"  # matchers
    r"|\[[^]]*\]"  # ranges
    r"|\b(?:by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)"
)


def dashboards() -> dict[str, Json]:
    """Return the dashboards by the names of their files."""
    return {path.name: json.loads(path.read_text()) for path in sorted(DASHBOARDS.glob("*.json"))}


def panels(dashboard: Json) -> list[Json]:
    """Return the panels, those of collapsed rows too."""
    panels = []
    for panel in dashboard["panels"]:
        panels += [panel, *panel.get("panels", [])]
    return panels


def names(expression: str) -> set[str]:
    """Return the names of metrics in an expression."""
    bare = _NOT_NAMES.sub(" ", _STRING.sub(" ", expression))
    words = re.findall(r"(?<![\w.])([A-Za-z_:][\w:]*)\b(?!\s*\()", bare)
    return {word for word in words if word.lower() not in _KEYWORDS}


def used_variables(text: str) -> set[str]:
    return {braced or plain for braced, plain in _VARIABLE.findall(text)}


def substituted(text: str, values: t.Mapping[str, str]) -> str:
    """Put values in the place of variables; one that has none is an error."""
    return _VARIABLE.sub(lambda match: values[match[1] or match[2]], text)


def version() -> tuple[int, ...]:
    done = subprocess.run([need_tool("prometheus"), "--version"], capture_output=True, text=True, timeout=60)
    match = re.search(r"version (\d+)\.(\d+)", done.stdout + done.stderr)
    assert match, done
    return int(match[1]), int(match[2])


class Prometheus:
    """A server that runs."""

    def __init__(self, process: subprocess.Popen[bytes], port: int, log: Path) -> None:
        self.process, self.port, self.log = process, port, log
        self.url = f"http://127.0.0.1:{port}"
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def get(self, path: str, **parameters: t.Any) -> t.Any:
        query = f"?{urllib.parse.urlencode(parameters, doseq=True)}" if parameters else ""
        with self._opener.open(self.url + path + query, timeout=30) as answer:
            return json.load(answer)["data"] if path.startswith("/api/") else answer.read()

    def query(self, expression: str) -> list[Json]:
        """Return the samples of an instant query."""
        return t.cast(list[Json], self.get("/api/v1/query", query=expression)["result"])

    def range(self, expression: str, seconds: float, step: float) -> list[Json]:
        now = time.time()
        data = self.get("/api/v1/query_range", query=expression, start=now - seconds, end=now, step=step)
        return t.cast(list[Json], data["result"])

    def label_values(self, definition: str, regex: str = "") -> list[str]:
        """Return what Grafana offers for a variable of the kind label_values(SELECTOR, LABEL), and of a regex the first group."""
        match = re.fullmatch(r"label_values\((.+), (\w+)\)", definition)
        assert match, definition
        values: list[str] = self.get(f"/api/v1/label/{match[2]}/values", **{"match[]": match[1]})
        if regex:
            values = [found[1] for value in values if (found := re.search(regex.strip("/"), value))]
        return values

    def until(self, expression: str, limit: float = 60) -> list[Json]:
        """Wait for an expression to have a result."""

        def report() -> str:
            return f"for {expression}: {self.log.read_text()[-3000:]}"

        return wait_for(lambda: self.query(expression), limit, pause=0.2, report=report)

    def is_ready(self) -> bool:
        assert self.process.poll() is None, self.log.read_text()
        with contextlib.suppress(OSError):
            self.get("/-/ready")
            return True
        return False

    def reloads(self) -> int:
        """Count how often it has read its configuration again."""
        return self.log.read_text().count("Completed loading of configuration file") - 1


@contextlib.contextmanager
def running(directory: Path, config: Path, *arguments: str) -> t.Iterator[Prometheus]:
    """Start a server on a configuration, and wait until it is ready."""
    log = directory / "prometheus.log"
    argv = [need_tool("prometheus"), f"--config.file={config}", f"--storage.tsdb.path={directory / 'data'}"]
    with ports.reserve() as reserved, log.open("wb") as sink:
        port = ports.number(reserved)
        argv += [f"--web.listen-address=127.0.0.1:{port}", "--web.enable-lifecycle", "--log.level=info", *arguments]
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=sink, stderr=subprocess.STDOUT)
        try:
            server = Prometheus(process, port, log)
            wait_for(server.is_ready, pause=0.1, report=log.read_text)
            yield server
        finally:
            process.terminate()
            process.wait(60)


__all__ = [
    "GRAFANA_NAMES",
    "OWN_NAMES",
    "Prometheus",
    "dashboards",
    "names",
    "panels",
    "running",
    "substituted",
    "used_variables",
    "version",
]
