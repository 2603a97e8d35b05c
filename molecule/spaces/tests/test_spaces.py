# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Faults between 32 nodes that are network namespaces of one machine: each is blamed, and nothing else is, ten times of ten.

An emulated machine has one processor. Two of them have the same fabric each, and give half of the verdicts.

What is measured, judged and measured again is the collection's own, by the same code as the role's. Only Ansible is missing,
which would take minutes for a round on an emulated machine (spaces.py).
"""

from __future__ import annotations

import base64
import concurrent.futures
import itertools
import json
import os
import subprocess
import sys
import tarfile
import typing as t
import zlib
from pathlib import Path

import pytest
from testinfra.host import Host

from ansible_collections.rdmaops.gpu_fabric.molecule.spaces.tests import spaces as spaces_program
from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._fabric.repeat import again
from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._fabric.schedule import rounds
from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._fabric.test_plan import plan_tests
from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._fabric.verdict import judge
from ansible_collections.rdmaops.gpu_fabric.tests.support import COLLECTION

Json = t.Any
NODES, RAILS = 32, 2
NAMES = [f"n{place:02}" for place in range(NODES)]
TESTS = ["ib_write_bw"]
PORT = {"port": 1, "state": "ACTIVE", "rate_gbps": 0.004, "netdev_mtu": 1500, "active_mtu": 1024, "gid_index": 1}
PROGRAM = "/root/spaces/ansible_collections/rdmaops/gpu_fabric/molecule/spaces/tests/spaces.py"
# Seconds that a measurement sends, how many are made at once, and bytes of a message, all of which arrive after the end.
# Sixteen at once, at this rate, take all of an emulated processor.
SECONDS, AT_ONCE, SIZE = 2, 8, 1024
# Of the link's rate, and of the best of a rail: on an emulated machine, good ones differ by a third.
SHARE = 0.5
TIMES, HEALTHY = 10, 20
# A quarter of spaces.RATE
SLOW = "tbf rate 1mbit burst 16kb limit 200kb"


class Spaces:
    def __init__(self, machine: Host) -> None:
        self.machine = machine
        self.nodes: Json = {
            name: {
                "reachable": True,
                "problems": [],
                "busy": [],
                "rails": [
                    {
                        "rail": rail,
                        "device": f"{name}x{rail}",
                        "netdev": f"rail{rail}",
                        "ipv4": f"10.77.{rail}.{place}",
                        **PORT,
                    }
                    for rail in range(RAILS)
                ],
            }
            for place, name in enumerate(NAMES, 1)
        }

    def call(self, *arguments: str) -> str:
        return self.machine.check_output(f"PYTHONPATH=/root/spaces python3 {PROGRAM} {' '.join(arguments)}")

    def measured(self, pairs_of_rounds: list[list[Json]]) -> list[Json]:
        plan = {"at_once": AT_ONCE, "rounds": [self._turn(pairs) for pairs in pairs_of_rounds]}
        return t.cast(
            "list[Json]",
            json.loads(self.call("run", base64.b64encode(zlib.compress(json.dumps(plan).encode())).decode())),
        )

    def _turn(self, pairs: list[Json]) -> Json:
        sides = {"serve": "server", "measure": "client"}
        return {
            key: {
                pair[side]: plan_tests(self.nodes, pairs, pair[side], side, TESTS, seconds=SECONDS, size=SIZE)
                for pair in pairs
            }
            for key, side in sides.items()
        }

    def report(self) -> Json:
        """Measure all, and again what failed, as the role does."""
        planned = rounds(NAMES, "ring")
        pairs = [[pair["client"], pair["server"]] for pair in itertools.chain.from_iterable(planned)]
        request = {"pairs": pairs, "rails": list(range(RAILS)), "tests": TESTS}
        results = self.measured(planned)
        first = judge(self.nodes, results, request, SHARE, "", limits={"min_of_best": SHARE})
        repeats = again(first)
        results += [{**result, "again": True} for result in (self.measured(repeats) if repeats else [])]
        return judge(self.nodes, results, request, SHARE, "", limits={"min_of_best": SHARE})


class Fabrics:
    """The same nodes on each machine."""

    def __init__(self, machines: t.Iterable[Host]) -> None:
        self.spaces = [Spaces(machine) for machine in machines]

    def on_each(self, action: t.Callable[[Spaces], t.Any]) -> list[t.Any]:
        """Do it on all machines at once."""
        with concurrent.futures.ThreadPoolExecutor(len(self.spaces)) as pool:
            return list(pool.map(action, self.spaces))

    def execute(self, commands: list[str]) -> None:
        self.on_each(lambda spaces: spaces.machine.check_output("; ".join(commands)))

    def reports(self, times: int) -> list[Json]:
        parts = self.on_each(lambda spaces: [spaces.report() for _ in range(times // len(self.spaces))])
        reports = list(itertools.chain.from_iterable(parts))
        assert len(reports) == times
        return reports


@pytest.fixture(scope="module")
def fabrics(nodes: dict[str, Host], tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[Fabrics]:
    archive = tmp_path_factory.mktemp("spaces") / "code.tar"
    with tarfile.open(archive, "w") as tar:
        for path in (*(COLLECTION / "plugins/module_utils").rglob("*.py"), Path(__file__).with_name("spaces.py")):
            tar.add(path, f"ansible_collections/rdmaops/gpu_fabric/{path.relative_to(COLLECTION)}")

    def create(spaces: Spaces) -> None:
        spaces.machine.ansible("copy", f"src={archive} dest=/root/spaces.tar", check=False)
        spaces.machine.check_output("mkdir -p /root/spaces; tar -C /root/spaces -xf /root/spaces.tar")
        spaces.call("create", str(NODES), str(RAILS))

    def remove(spaces: Spaces) -> None:
        spaces.call("remove")
        spaces.machine.check_output("rm -r /root/spaces /root/spaces.tar")

    result = Fabrics(nodes.values())
    result.on_each(create)
    yield result
    result.on_each(remove)


class Fault(t.NamedTuple):
    """The commands that cause a fault and remove it, and what has to be blamed: kind, node or pair, rail."""

    cause: list[str]
    remove: list[str]
    blamed: tuple[str, t.Any, int | None]


def slow(node: str, *rails: int, sends: bool = True, receives: bool = True) -> tuple[list[str], list[str]]:
    cause, remove = [], []
    for rail in rails:
        if sends:
            cause.append(f"tc -n {node} qdisc change dev rail{rail} root handle 1: {SLOW}")
            remove.append(f"tc -n {node} qdisc change dev rail{rail} root handle 1: {spaces_program.RATE}")
        if receives:
            cause.append(f"tc qdisc add dev {node}r{rail} root {SLOW}")
            remove.append(f"tc qdisc del dev {node}r{rail} root")
    return cause, remove


def slow_between(first: str, second: str, rail: int) -> tuple[list[str], list[str]]:
    """Slow is what each receives of the other."""
    cause = []
    for node, other in ((first, second), (second, first)):
        port, address = f"{node}r{rail}", f"10.77.{rail}.{NAMES.index(other) + 1}"
        cause += [
            f"tc qdisc add dev {port} root handle 1: prio bands 4",
            f"tc qdisc add dev {port} parent 1:4 {SLOW}",
            f"tc filter add dev {port} parent 1: protocol ip u32 match ip src {address} flowid 1:4",
        ]
    return cause, [f"tc qdisc del dev {node}r{rail} root" for node in (first, second)]


def lossy(rail: int) -> tuple[list[str], list[str]]:
    cause = [f"tc -n {name} qdisc add dev rail{rail} parent 1: netem loss 5% limit 1000" for name in NAMES]
    # A parent that has lost its child drops everything.
    root = [f"tc -n {name} qdisc VERB dev rail{rail} root handle 1: {spaces_program.RATE}" for name in NAMES]
    return cause, [line.replace("VERB", verb) for line in root for verb in ("del", "add")]


def flapping(node: str, rail: int) -> tuple[list[str], list[str]]:
    loop = f"while :; do ip link set {node}r{rail} down; sleep 1.5; ip link set {node}r{rail} up; sleep 0.5; done"
    return (
        [f"systemd-run --quiet --collect --unit=flapping sh -c '{loop}'"],
        ["systemctl stop flapping", f"ip link set {node}r{rail} up"],
    )


FAULTS = {
    "a slow port": Fault(*slow("n05", 1), ("port", "n05", 1)),
    "a card that is slow in one direction": Fault(*slow("n11", 0, receives=False), ("port", "n11", 0)),
    "a slow path": Fault(*slow_between("n20", "n21", 1), ("pair", ["n20", "n21"], 1)),
    "a slow node": Fault(*slow("n30", 0, 1), ("node", "n30", None)),
    "a port that flaps": Fault(*flapping("n08", 1), ("port", "n08", 1)),
    "loss on a rail": Fault(*lossy(1), ("rail", None, 1)),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_blamed_and_nothing_else(fabrics: Fabrics, name: str) -> None:
    fault = FAULTS[name]
    fabrics.execute(fault.cause)
    try:
        reports = fabrics.reports(TIMES)
    finally:
        fabrics.execute(fault.remove)
    verdicts = [
        [(suspect["kind"], suspect["node"] or suspect["pair"], suspect["rail"]) for suspect in report["suspects"]]
        for report in reports
    ]
    assert verdicts == [[fault.blamed]] * TIMES, [report["reasons"] for report in reports]


def test_a_healthy_fabric_on_a_busy_machine_never_fails(fabrics: Fabrics) -> None:
    """The processors of this machine are busy, too, on which the emulated ones run."""
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(os.cpu_count() or 1)]
    try:
        reports = fabrics.reports(HEALTHY)
    finally:
        for process in busy:
            process.kill()
            process.wait()
    failed = [report["reasons"] for report in reports if report["verdict"] == "fail"]
    assert failed == []
