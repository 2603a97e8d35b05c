# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The drift run over 1, 10, 50 and 100 hosts that are network namespaces: its cost for each, and how it grows."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import typing as t
from pathlib import Path

from ansible_collections.rdmaops.gpu_fabric.tests.benchmarks import checks, hosts, processes
from ansible_collections.rdmaops.gpu_fabric.tests.benchmarks.library import BenchmarkError, Case, Sample, environment
from ansible_collections.rdmaops.gpu_fabric.tests.benchmarks.nodes import Place

PLAYBOOK = "rdmaops.gpu_fabric.drift"
# How many hosts: a hundred take minutes on two cores, so they come once. Ten, which the slope is measured from, come
# before and after the large runs: a busy minute of the machine is not to be taken for growth.
ORDER = (1, 10, 50, 10, 100, 10, 1)
SMALL = 10
# Ansible's own default would be 5; the controller's memory goes by them and not by the hosts.
FORKS = 10
# What a host costs in a large run over what it costs in a small one: what grows faster than the hosts is above 1, and
# between two runs of the same a busy machine makes a difference of a tenth.
GOAL = 1.1
LIMIT_S = 1800
MIB = 1024 * 1024


class Run(t.NamedTuple):
    """One drift run: seconds of the clock and of processors, and the most memory of ansible-playbook and its forks."""

    hosts: int
    wall: float
    controller: float
    nodes: float
    peak: int

    @property
    def cpu(self) -> float:
        return self.controller + self.nodes


def drift_run(up: hosts.Hosts, workplace: Path) -> Run:
    """Run the playbook in check mode, look at its report, and return what it cost."""
    settings, report = up.workplace / "ansible.cfg", workplace / "drift_hosts.json"
    settings.write_text("[defaults]\ncallbacks_enabled = rdmaops.gpu_fabric.drift\n")
    report.unlink(missing_ok=True)
    argv = [*up.enter, str(Path(sys.executable).parent / "ansible-playbook"), "--inventory", str(up.inventory)]
    argv += ["--check", "--diff", "--forks", str(FORKS), PLAYBOOK]
    settled = {"ANSIBLE_CONFIG": str(settings), "ANSIBLE_FORCE_COLOR": "0", "RDMAOPS_DRIFT_REPORT": str(report)}
    before, began = processes.cpu(up.hub), time.monotonic()
    worked = os.times()
    with (workplace / "drift_hosts.log").open("wb") as log:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=environment({**up.environment, **settled}),
        )
        peak = processes.Peak("ansible-playbook")
        peak.watch(process.pid)
        try:
            status = process.wait(timeout=LIMIT_S)
        except subprocess.TimeoutExpired as error:
            raise BenchmarkError(f"{PLAYBOOK} on {len(up.names)} hosts was stopped after {LIMIT_S} s") from error
        finally:
            peak.stop()
            if process.poll() is None:
                process.kill()
                process.wait()
    wall, after = time.monotonic() - began, os.times()
    controller = after.children_user + after.children_system - worked.children_user - worked.children_system
    if status != 0:
        raise BenchmarkError(f"{PLAYBOOK} on {len(up.names)} hosts exited with {status}: see {log.name}")
    judge(report, up.names)
    return Run(len(up.names), wall, controller, processes.cpu(up.hub) - before, peak.bytes)


def judge(report: Path, names: t.Sequence[str]) -> None:
    """See that every host was looked at, and found as it should be."""
    hosts = {name: entry for name, entry in json.loads(report.read_text())["hosts"].items() if name != "localhost"}
    odd = sorted(name for name in names if hosts.get(name, {}).get("status") != "in_sync")
    if odd:
        raise BenchmarkError(f"{len(odd)} of {len(names)} hosts are not in sync, {odd[0]} for one: see {report}")


def variables() -> dict[str, t.Any]:
    """Return what the hosts' wishes are. They have no RDMA device: the stranded ones are looked for once, not twice."""
    return {"gpu_node_module_options": checks.OPTIONS, "drift_settle": 0}


def each(runs: t.Mapping[int, list[Run]], size: int, key: str) -> Sample:
    """Return one of the costs, for a host."""
    return Sample([getattr(run, key) / run.hosts for run in runs[size]])


def cases(runs: t.Mapping[int, list[Run]]) -> list[Case]:
    """Return a row for each size, and the slope: what a host of the largest run costs in hosts of a small one."""
    cases = []
    for size, runs_of_size in sorted(runs.items()):
        title = f"drift run, {size} host{'' if size == 1 else 's'}"
        peak = Sample([run.peak / MIB for run in runs_of_size])
        note = f"{Sample([run.wall for run in runs_of_size]).median:.0f} s in all, {Sample([run.controller / size for run in runs_of_size]).median:.2f} s of the CPU on the controller"
        cases.append(Case(f"{title}, for each", "s", each(runs, size, "wall"), note=note))
        cases.append(Case(f"{title}, for each, CPU", "s", each(runs, size, "cpu")))
        cases.append(Case(f"{title}, controller's memory", "MiB", peak))
    small, large = SMALL if SMALL in runs else min(runs), max(runs)
    if small == large:
        return cases
    for quantity, key, unit, scale in (
        ("seconds", "wall", "s", 1.0),
        ("CPU", "cpu", "s", 1.0),
        ("memory", "peak", "MiB", 1.0 / MIB),
    ):
        subject, peer = (Sample([value * scale for value in each(runs, size, key).values]) for size in (large, small))
        cases.append(Case(f"drift run, {quantity} for each of {large} hosts", unit, subject, f"of {small}", peer, GOAL))
    return cases


def drift_hosts(place: Place) -> list[Case]:
    below = checks.layer(place.workplace)
    runs: dict[int, list[Run]] = {}
    for number, size in enumerate(ORDER, 1):
        with hosts.running(size, below=below, variables=variables()) as up:
            run = drift_run(up, place.workplace)
        runs.setdefault(size, []).append(run)
        print(
            f"  run {number} of {len(ORDER)}, hosts: {size}: {run.wall:.1f} s, CPU {run.cpu:.1f} s, "
            f"controller {run.peak / MIB:.0f} MiB",
            flush=True,
        )
    return cases(runs)


CASES: dict[str, t.Callable[[Place], list[Case]]] = {"drift_hosts": drift_hosts}

__all__ = ["CASES", "Run", "cases"]
