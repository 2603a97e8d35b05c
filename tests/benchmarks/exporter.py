# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a series of the exporter costs, against node_exporter's infiniband collector on the same made-up sysfs."""

from __future__ import annotations

import contextlib
import http.client
import shutil
import tempfile
import typing as t
from pathlib import Path

from ansible_collections.rdmaops.gpu_fabric.tests.benchmarks.library import (
    BenchmarkError,
    Case,
    Sample,
    interleave,
    limited,
)
from ansible_collections.rdmaops.gpu_fabric.tests.benchmarks.nodes import CPU, Place
from ansible_collections.rdmaops.gpu_fabric.tests.integration.exporter.running import (
    Running,
    exporting,
    install,
    running,
)
from ansible_collections.rdmaops.gpu_fabric.tests.lab import ports
from ansible_collections.rdmaops.gpu_fabric.tests.unit.roles.rdma_exporter.tree import node

PORTS = 16
COUNTERS = 64
# Processor time comes in ticks of 10 ms, about what a scrape takes: so many are measured at a time.
SCRAPES = 50
BATCHES = 10
# For each series: node_exporter has a third of them.
GOAL = 1.0
LIMIT_MIB = 40.0
MIB = 1024 * 1024


def scrape(exporter: Running) -> bytes:
    """Ask as Prometheus does: compressed, on a connection that stays."""
    connection = http.client.HTTPConnection("127.0.0.1", exporter.port, timeout=60)
    try:
        for _turn in range(SCRAPES):
            connection.request("GET", "/metrics", headers={"Accept-Encoding": "gzip"})
            answer = connection.getresponse().read()
    finally:
        connection.close()
    return answer


def cost(exporter: Running) -> float:
    """Return milliseconds of the processor for a scrape."""
    before = exporter.cpu()
    scrape(exporter)
    return (exporter.cpu() - before) * 1000 / SCRAPES


def series(exporter: Running) -> int:
    """Return how many samples are about a port."""
    return sum(line[:1] != b"#" and b'port="' in line for line in exporter.get().splitlines())


def cpu_and_memory(place: Place) -> list[Case]:
    peer = shutil.which("prometheus-node-exporter")
    if peer is None:
        raise BenchmarkError("there is no prometheus-node-exporter (package prometheus-node-exporter)")
    with tempfile.TemporaryDirectory(prefix="rdmaops-bench-") as base, contextlib.ExitStack() as stack:
        workplace = Path(base)
        tree = node(workplace / "sys", PORTS, COUNTERS)
        ours, theirs = (ports.number(stack.enter_context(ports.reserve())) for _ in range(2))
        commands = install(workplace, rdma_exporter_listen_address=f"127.0.0.1:{ours}")
        exporter = stack.enter_context(exporting(commands.further(look=["--path.sysfs", str(tree.root)]), ours))
        argv = [peer, "--collector.disable-defaults", "--collector.infiniband", f"--path.sysfs={tree.root}"]
        other = stack.enter_context(running([*argv, f"--web.listen-address=127.0.0.1:{theirs}"], theirs))
        scrapes = interleave(
            {"ours": lambda: cost(exporter), "theirs": lambda: cost(other)}, runs=min(BATCHES, place.runs)
        )
        counted = {"ours": series(exporter), "theirs": series(other)}
        if counted["ours"] < PORTS * COUNTERS:
            raise BenchmarkError(f"the exporter has {counted['ours']} series of {PORTS * COUNTERS} counters")
        memory = {"ours": exporter.resident() / MIB, "theirs": other.resident() / MIB}
    return cases(scrapes, counted, memory)


def cases(scrapes: t.Mapping[str, Sample], counted: t.Mapping[str, int], memory: t.Mapping[str, float]) -> list[Case]:
    """Return the rows, of milliseconds for a scrape, series and MiB."""
    title = f"rdma_exporter, scrape of {PORTS} ports x {COUNTERS}"
    note = f"{counted['ours']} series, node_exporter {counted['theirs']}"
    each = {name: Sample([value * 1000 / counted[name] for value in sample.values]) for name, sample in scrapes.items()}
    peer = "node_exporter"
    return [
        Case(title + CPU, "ms", scrapes["ours"], peer, scrapes["theirs"], note=note),
        Case(f"{title}, for each series{CPU}", "us", each["ours"], peer, each["theirs"], GOAL),
        limited(
            "rdma_exporter, resident", "MiB", Sample([memory["ours"]]), LIMIT_MIB, f"{peer} {memory['theirs']:.1f}"
        ),
    ]


CASES: dict[str, t.Callable[[Place], list[Case]]] = {"exporter": cpu_and_memory}

__all__ = ["CASES"]
