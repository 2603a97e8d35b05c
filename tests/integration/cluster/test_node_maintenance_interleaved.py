# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Two runs of maintenance at once on a real API server: never two nodes out, never a cordon of others removed.

A run does with node_drain what role node_maintenance does, and stops at named points until it may go on, or is killed.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import typing as t
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._errors import FabricError
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._kubernetes.client import path
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._node_drain import node as memory
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._node_drain.lease import NAME, Lease
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._node_drain.manage import manage
from ansible_collections.rdmaops.gpu_fabric.tests.support import faults
from ansible_collections.rdmaops.gpu_fabric.tests.support.drains import (
    NEW_BOOT,
    OTHER_ID,
    SPACE,
    apart,
    call,
    cordoned,
    end_lease,
    holder,
    note,
    options,
    refused,
    two_nodes,
    untouched,
)
from ansible_collections.rdmaops.gpu_fabric.tests.support.kubelet import BOOT_ID, LABEL, MACHINE_ID, Lab
from ansible_collections.rdmaops.gpu_fabric.tests.support.objects import client

Json = t.Any
POINTS = (
    "before the Lease", "after the Lease", "after the cordon", "after the drain", "during the reboot",
    "before the uncordon",
)  # fmt: skip
ENDED = "ended"
LIMIT_S = 60
FORK = multiprocessing.get_context("fork")
OTHERS = {memory.NOTE: None}


class Machine(t.NamedTuple):
    """A host, which is in the wanted mode when its file is there."""

    name: str
    machine_id: str
    rebooted: Path


class Stops:
    """The points of a run, which reports each and waits for an answer."""

    def __init__(self, there: Connection) -> None:
        self.there = there
        take, write = Lease.take, memory.write

        def stopped_take(lease: Lease, node: str, admit: Json = None) -> None:
            if admit:
                self.at("before the Lease")
            take(lease, node, admit)
            if admit:
                self.at("after the Lease")

        def stopped_write(api: Json, node: Json, doing: str, make: Json) -> None:
            if doing.startswith("Uncordon node"):
                self.at("before the uncordon")
            write(api, node, doing, make)
            if doing.startswith("Cordon node"):
                self.at("after the cordon")

        Lease.take, memory.write = stopped_take, stopped_write  # type: ignore[method-assign]

    def at(self, point: str) -> None:
        self.there.send(point)
        self.there.recv()


def perform(there: Connection, kubeconfig: str, run: str, machines: t.Sequence[Machine]) -> None:
    """Do for each machine what the role does; the first failure ends the run, as in the playbook."""
    api, stops = client(kubeconfig), Stops(there)

    def call(machine: Machine, state: str, check: bool = False, **more: Json) -> Json:
        params = options(machine.name, state, run=run, machine_id=machine.machine_id, **more)
        return manage(params, check, api)

    def drained_and_back(machine: Machine) -> None:
        call(machine, "drained")
        stops.at("after the drain")
        stops.at("during the reboot")
        machine.rebooted.touch()
        status = {"status": {"nodeInfo": {"bootID": NEW_BOOT}}}
        api.merge(path("v1", "nodes", None, machine.name, "status"), status, "Booting")
        call(machine, "uncordoned", boot_id=NEW_BOOT, take_over=False)

    for machine in machines:
        try:
            if not machine.rebooted.exists():
                drained_and_back(machine)
            elif call(machine, "uncordoned", check=True)["maintenance"] is not None:
                call(machine, "uncordoned", boot_id=NEW_BOOT)
        except FabricError as exc:
            call(machine, "failed", failure=str(exc))
            there.send(str(exc))
            return
    there.send(ENDED)


class Run:
    """A run in a process of its own."""

    def __init__(self, lab: Lab, name: str, machines: t.Sequence[Machine]) -> None:
        self.here, there = FORK.Pipe()
        self.process = FORK.Process(
            target=perform, args=(there, str(lab.plane.kubeconfig), name, machines), daemon=True
        )
        self.process.start()
        there.close()
        self.last = self._next()

    def _next(self) -> str:
        assert self.here.poll(LIMIT_S), "the run neither ends nor comes to its next point"
        return str(self.here.recv())

    def to(self, point: str) -> Run:
        """Let it go on until it is at a point."""
        while self.last != point:
            assert self.last in POINTS, self.last
            self.here.send("go on")
            self.last = self._next()
        return self

    def end(self) -> str:
        """Let it go on to its end, and return how that was."""
        while self.last in POINTS:
            self.here.send("go on")
            self.last = self._next()
        self.process.join(LIMIT_S)
        return self.last

    def kill(self) -> None:
        os.kill(self.process.pid or 0, signal.SIGKILL)
        self.process.join(LIMIT_S)
        assert self.process.exitcode == -signal.SIGKILL


class Site:
    """Two nodes that have to be rebooted, and the runs about them."""

    def __init__(self, lab: Lab, place: Path) -> None:
        self.lab = lab
        names = two_nodes(lab)
        identities = zip(names, (MACHINE_ID, OTHER_ID), strict=True)
        self.both = [Machine(name, machine_id, place / name) for name, machine_id in identities]
        self.a, self.b = self.both
        self.runs: list[Run] = []
        self.since = ""

    def run(self, *machines: Machine) -> Run:
        self.runs.append(Run(self.lab, f"run-{len(self.runs)}", machines or self.both))
        return self.runs[-1]

    def begin(self) -> None:
        """Bring both back to where a reboot is due."""
        for run in self.runs:
            run.process.kill()
            run.process.join(LIMIT_S)
        self.runs = []
        for machine in self.both:
            machine.rebooted.unlink(missing_ok=True)
            body = {"metadata": {"annotations": OTHERS}, "spec": {"unschedulable": None}}
            self.lab.api.merge(memory.node_path(machine.name), body, "Uncordoning")
            status = {"status": {"nodeInfo": {"bootID": BOOT_ID}}}
            self.lab.api.merge(path("v1", "nodes", None, machine.name, "status"), status, "As before")
        if holder(self.lab):
            end_lease(self.lab)
        listed = self.lab.api.request("GET", path("v1", "nodes"), "Listing", query=self.mine)
        self.since = listed["metadata"]["resourceVersion"]

    @property
    def mine(self) -> Json:
        return {"labelSelector": f"{LABEL}={self.lab.namespace}"}

    def most_out(self) -> int:
        """Return how many nodes were out at the same time since the beginning, by what a watch says of each change."""
        query = {**self.mine, "watch": "1", "resourceVersion": self.since, "timeoutSeconds": "1"}
        out: set[str] = set()
        most = 0
        for line in self.lab.api.raw(path("v1", "nodes"), "Watching", query).splitlines():
            node = json.loads(line)["object"]
            assert node["kind"] == "Node", node
            ours = memory.is_cordoned(node) and memory.managers(node) != ["kubectl"]
            (out.add if ours else out.discard)(memory.name_of(node))
            most = max(most, len(out))
        assert most, "no node was out at any time"
        return most

    def in_service(self) -> bool:
        names = [machine.name for machine in self.both]
        return all((note(self.lab, name), cordoned(self.lab, name)) == (None, False) for name in names)

    def recordon(self) -> None:
        """What an administrator does who wants the first node for something else."""
        self.lab.plane.kubectl("uncordon", self.a.name)
        self.lab.plane.kubectl("cordon", self.a.name)

    def foreign(self) -> bool:
        node = self.lab.read(self.a.name)
        return memory.is_cordoned(node) and memory.managers(node) == ["kubectl"]


@pytest.fixture
def site(lab: Lab, tmp_path: Path) -> Iterator[Site]:
    both = Site(lab, tmp_path)
    both.begin()
    yield both
    both.begin()


def test_a_second_run_waits_for_the_lease(lab: Lab) -> None:
    node, second = two_nodes(lab)
    call(lab, node)
    for check in (True, False):
        message = refused(lab, second, check=check, run="two", machine_id=OTHER_ID)
        assert f"Taking the Lease {SPACE}/{NAME}: the run one has held it since 20" in message
        assert f"kubectl delete lease -n {SPACE} {NAME}" in message
        assert "the run one has held it" in refused(lab, node, "uncordoned", check=check, run="two")
    # A node that no run maintains can still be checked.
    assert call(lab, second, "uncordoned", run="two", machine_id=OTHER_ID)["changed"] is False
    assert not cordoned(lab, second)
    # A Lease that has run out can be taken.
    end_lease(lab)
    assert call(lab, second, run="two", machine_id=OTHER_ID, max_unavailable=2)["changed"] is True
    assert holder(lab) == "two"
    assert "the run two has held it" in refused(lab, node)


@pytest.mark.fault("run stopped")
def test_killed_in_the_middle(lab: Lab) -> None:
    node = lab.node()
    lab.pod(node, "web")
    lab.budget("web", 1)
    with apart(lab, node):
        lab.until(lambda: cordoned(lab, node))
    assert (note(lab, node)["run"], note(lab, node)["failed"], holder(lab)) == ("one", None, "one")
    lab.budget("web", 0)
    assert "the run one has held it" in refused(lab, node, run="two")
    end_lease(lab)
    done = call(lab, node, run="two")
    assert f"Continue with node {node}, which run one cordoned" in done["actions"]
    assert (lab.pods(node), note(lab, node)["step"]) == ([], "drained")
    assert call(lab, node, "uncordoned", run="two")["changed"] is True
    assert untouched(lab, node)


def test_a_node_that_failed_counts(lab: Lab) -> None:
    node, second = two_nodes(lab)
    call(lab, node)
    call(lab, node, "failed", failure="the host did not come back")
    assert holder(lab) == ""
    for check in (True, False):
        message = refused(lab, second, check=check, run="two", machine_id=OTHER_ID)
        assert (
            f"Draining node {second}: max_unavailable is 1, and as many nodes are in maintenance already: {node} (run one, "
            f"failed: the host did not come back). Bring them back first: run the same playbook for them (--limit {node})"
        ) in message
    assert not cordoned(lab, second)
    assert holder(lab) == ""


HELD = "the run run-0 has held it since"
LOST = ("the run run-0 has lost it", "it is no longer in maintenance by the run run-0", "has held it since")


def beside(site: Site, point: str, machines: t.Sequence[Machine]) -> None:
    """A second run while the first one is at a point; both reach their ends."""
    first = site.run().to(point)
    message = site.run(*machines).end()
    assert message == ENDED if point == POINTS[0] else HELD in message, message
    assert first.end() == ENDED
    assert site.run().end() == ENDED
    assert site.in_service()


def decided(site: Site, point: str, machines: t.Sequence[Machine]) -> None:
    """The second run has looked, found nothing in its way, and goes on when the first one is at a point."""
    second = site.run(*machines).to(POINTS[0])
    first = site.run().to(point)
    message = second.end()
    assert "the run run-1 has held it since" in message, message
    assert first.end() == ENDED
    assert site.run().end() == ENDED
    assert site.in_service()


def killed(site: Site, point: str, machines: t.Sequence[Machine]) -> None:
    """The first run is killed: others wait for its Lease, then for its node, and a run for that goes on."""
    site.run().to(point).kill()
    out = POINTS.index(point) >= POINTS.index("after the cordon")
    if point != POINTS[0]:
        assert HELD in site.run(*machines).end()
        end_lease(site.lab)
    assert cordoned(site.lab, site.a.name) is out
    message = site.run(*machines).end()
    if out and site.a not in machines:
        reason = f"max_unavailable is 1, and as many nodes are in maintenance already: {site.a.name} (run run-0)"
        assert reason in message
        assert not cordoned(site.lab, site.b.name)
    else:
        assert message == ENDED
    assert site.run().end() == ENDED
    assert site.in_service()


def overtaken(site: Site, point: str, machines: t.Sequence[Machine]) -> None:
    """The first run stands still until its Lease is over and another one has begun, or found its node out."""
    first = site.run().to(point)
    end_lease(site.lab)
    message = site.run(*machines).end()
    if site.a in machines or point == "after the Lease":
        assert message == ENDED
        message = first.end()
        assert any(text in message for text in LOST), message
        assert site.run().end() == ENDED
    else:
        assert f"{site.a.name} (run run-0)" in message
        assert first.end() == ENDED
    assert site.in_service()


def recordoned(site: Site, point: str, _machines: t.Sequence[Machine]) -> None:
    """An administrator uncordons and cordons the node that the first run is at, which goes on."""
    first = site.run().to(point)
    site.recordon()
    message = first.end()
    assert any(text in message for text in ("kubectl has cordoned it", "no longer keeps it cordoned")) or (
        # It reboots a node that is out of the cluster, and then finds a cordon that is not its own.
        message == ENDED and point in ("after the drain", "during the reboot")
    ), message
    assert site.foreign()
    site.run().end()
    assert site.foreign()


def killed_and_recordoned(site: Site, point: str, machines: t.Sequence[Machine]) -> None:
    """The same after the first run was killed; other runs leave that node alone."""
    site.run().to(point).kill()
    end_lease(site.lab)
    site.recordon()
    message = site.run(*machines).end()
    if site.a in machines and not site.a.rebooted.exists():
        assert "kubectl has cordoned it, so it is left alone" in message
    assert site.foreign()
    site.run().end()
    assert site.foreign()


Scenario = t.Callable[[Site, str, t.Sequence[Machine]], None]
BY_KILL = (killed, killed_and_recordoned)
ONLY_B, BOTH = "run for the other node", "run for both nodes"


def interleavings() -> Iterator[tuple[Scenario, str, str]]:
    for number, point in enumerate(POINTS):
        for nodes in (BOTH, ONLY_B):
            yield beside, point, nodes
            yield killed, point, nodes
            if number >= POINTS.index("after the Lease"):
                yield decided, point, nodes
                yield overtaken, point, nodes
            if number >= POINTS.index("after the cordon"):
                yield killed_and_recordoned, point, nodes
        if number >= POINTS.index("after the cordon"):
            yield recordoned, point, BOTH


QUICK = [
    (beside, "during the reboot", ONLY_B),
    (decided, "after the Lease", ONLY_B),
    (killed, "after the drain", ONLY_B),
    (overtaken, "after the Lease", BOTH),
    (killed_and_recordoned, "after the cordon", BOTH),
]


def try_all(site: Site, chosen: t.Sequence[tuple[Scenario, str, str]], capsys: pytest.CaptureFixture[str]) -> None:
    with faults.tried("two runs at once", "node_maintenance") as tally:
        for scenario, point, nodes in chosen:
            with tally.one(f"{scenario.__name__}, {point}, a {nodes}"):
                site.begin()
                scenario(site, point, site.both if nodes == BOTH else [site.b])
                assert site.most_out() == 1
        by_kill = sum(scenario in BY_KILL for scenario, _point, _nodes in chosen)
        summary = f"{tally.tried} interleavings, {by_kill} by kill -9, lost {len(tally.lost)}"
        with capsys.disabled():
            print(f"\n  node_maintenance: {summary}", flush=True)


def test_two_runs_at_once(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    try_all(site, QUICK, capsys)


@pytest.mark.long
def test_two_runs_at_all_points(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    chosen = [interleaving for interleaving in interleavings() if interleaving not in QUICK]
    assert len(chosen) >= 30
    assert sum(scenario in BY_KILL for scenario, _point, _nodes in chosen) >= 10
    try_all(site, chosen, capsys)
