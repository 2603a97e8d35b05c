# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The benchmarks' hosts and processes as far as they are text and numbers, and the rows that are made of runs."""

from __future__ import annotations

import ipaddress
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._boot import grub_syntax
from ansible_collections.rdmaops.gpu_fabric.tests.benchmarks import (
    checks,
    demo,
    drift_hosts,
    hosts,
    processes,
    run,
    scale,
)
from ansible_collections.rdmaops.gpu_fabric.tests.benchmarks.drift_hosts import MIB, Run
from ansible_collections.rdmaops.gpu_fabric.tests.benchmarks.library import BenchmarkError, Case, Sample, table
from ansible_collections.rdmaops.gpu_fabric.tests.benchmarks.nodes import Place
from ansible_collections.rdmaops.gpu_fabric.tests.lab.progress import LabError

TICK = os.sysconf("SC_CLK_TCK")


def process(proc: Path, pid: int, ticks: tuple[int, int, int, int], children: str = "", pss: int = 0) -> None:
    """Write what /proc says of a process; its name has what a careless reader would split at."""
    (proc / f"{pid}/task/{pid}").mkdir(parents=True)
    (proc / f"{pid}/task/{pid}/children").write_text(children)
    before = "S 1 1 1 0 -1 4194560 100 0 0 0"
    (proc / f"{pid}/stat").write_text(f"{pid} (a) b) {before} {' '.join(map(str, ticks))} 20 0 1 0 5\n")
    (proc / f"{pid}/smaps_rollup").write_text(f"00-ff ---p 00000000 00:00 0 [rollup]\nRss: 9999 kB\nPss: {pss} kB\n")


def test_a_tree_has_worked_what_its_living_and_its_dead_have(tmp_path: Path) -> None:
    process(tmp_path, 10, (1, 2, 30, 40), "11 12 ")
    process(tmp_path, 11, (5, 0, 0, 0), "13")
    process(tmp_path, 13, (0, 7, 0, 1))
    # 12 has ended since.
    assert processes.tree(10, tmp_path) == [10, 11, 12, 13]
    assert processes.cpu(10, tmp_path) == 86 / TICK
    assert processes.cpu(99, tmp_path) == 0


def test_a_shared_page_counts_once(tmp_path: Path) -> None:
    process(tmp_path, 10, (0, 0, 0, 0), pss=100)
    process(tmp_path, 11, (0, 0, 0, 0), pss=24)
    assert processes.resident([10, 11, 12], tmp_path) == 124 * 1024


def test_the_peak_is_of_the_program_and_its_children() -> None:
    code = "import time; word = bytearray(48 << 20); print('there', flush=True); time.sleep(30)"
    with subprocess.Popen([sys.executable, "-c", code, "marked"], stdout=subprocess.PIPE) as child:
        assert child.stdout
        child.stdout.readline()
        peak = processes.Peak("marked", every=0.01)
        peak.watch(child.pid)
        ends = time.monotonic() + 10
        while not peak.bytes and time.monotonic() < ends:
            time.sleep(0.01)
        peak.stop()
        other = processes.Peak("nobody")
        other.look(child.pid)
        child.kill()
    assert (peak.processes, other.bytes) == (1, 0)
    assert 48 * MIB < peak.bytes < 200 * MIB


def test_every_host_has_an_address_of_its_own() -> None:
    addresses = [ipaddress.ip_address(hosts.address(number)) for number in range(1001)]
    network = ipaddress.ip_network(f"{hosts.NETWORK}/{hosts.PREFIX}")
    assert len(set(addresses)) == len(addresses)
    assert all(address in network and address.packed[-1] not in (0, 255) for address in addresses)


def test_the_boot_menu_names_the_kernel_and_no_mode() -> None:
    text = hosts.boot_menu("6.99.0-test")
    assert "/boot/vmlinuz-6.99.0-test " in text
    assert "/boot/initrd.img-6.99.0-test" in text
    assert "netns_mode" not in text
    assert grub_syntax.parse(text, "grub.cfg")


def test_the_inventory_trusts_no_stranger(tmp_path: Path) -> None:
    path = hosts.inventory(["gpu-1", "gpu-2"], tmp_path, {"answer": 42})
    group = json.loads(path.read_text())["all"]["children"]["gpu_nodes"]
    addresses = {name: row["ansible_host"] for name, row in group["hosts"].items()}
    assert addresses == {"gpu-1": hosts.address(1), "gpu-2": hosts.address(2)}
    assert group["vars"]["answer"] == 42
    assert "StrictHostKeyChecking=yes" in group["vars"]["ansible_ssh_common_args"]


def test_what_the_peer_compares_with_is_what_the_role_writes() -> None:
    text = checks.memlock()
    assert text.startswith("# Managed by Ansible (rdmaops.gpu_fabric)")
    assert text.endswith("[Service]\nLimitMEMLOCK=infinity\n")
    assert "{#" not in text


def a_run(number: int, wall: float, cpu: float, mib: int) -> Run:
    return Run(number, wall, cpu / 4, cpu * 3 / 4, mib * MIB)


def test_what_a_host_costs_more_in_a_large_run_is_seen() -> None:
    runs = {
        1: [a_run(1, 5, 4, 80)],
        10: [a_run(10, 20, 30, 200), a_run(10, 24, 32, 220), a_run(10, 22, 31, 210)],
        100: [a_run(100, 220, 400, 260)],
    }
    rows = {case.name: case for case in drift_hosts.cases(runs)}
    assert rows["drift run, 1 host, for each"].subject.values == [5]
    assert rows["drift run, 10 hosts, for each"].subject.values == [2.0, 2.4, 2.2]
    assert rows["drift run, 10 hosts, controller's memory"].subject.median == 210
    assert "220 s in all, 1.00 s of the CPU on the controller" in table([rows["drift run, 100 hosts, for each"]])
    wall, cpu, memory = (rows[f"drift run, {unit} for each of 100 hosts"] for unit in ("seconds", "CPU", "memory"))
    assert (wall.ratio, wall.met) == (pytest.approx(1.0), True)
    assert (cpu.ratio, cpu.met) == (pytest.approx(400 / 100 / 3.1), False)
    assert (memory.ratio, memory.met) == (pytest.approx(2.6 / 21), True)
    of_ten = [name for name in rows if name.startswith("drift run, 10 hosts")]
    assert [case.name for case in drift_hosts.cases({10: runs[10]})] == of_ten


def test_a_host_that_was_not_found_in_sync_is_named(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    report.write_text(json.dumps({"hosts": {"gpu-1": {"status": "in_sync"}, "gpu-2": {"status": "drift"}}}))
    drift_hosts.judge(report, ["gpu-1"])
    with pytest.raises(BenchmarkError, match=r"2 of 3 hosts are not in sync, gpu-2 for one: see .*report\.json"):
        drift_hosts.judge(report, ["gpu-1", "gpu-2", "gpu-3"])


def test_the_demonstration_is_read_from_its_report(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    with pytest.raises(BenchmarkError, match="there is no report of a demonstration: run 'make demo'"):
        demo.read(path)
    report = {"verdict": "pass", "seconds": 300.0, "slowest": [{"name": "Install", "action": "package", "seconds": 50}]}
    path.write_text(json.dumps(report))
    with pytest.raises(BenchmarkError, match="without its times: run 'make demo'"):
        demo.read(path)
    parts = {
        "packages of this machine": 10.0,
        "image": 0.0,
        "boot": 60.0,
        "packages of the nodes": 50.0,
        "reboot": 80.0,
    }
    path.write_text(json.dumps({**report, "parts": {**parts, "the collection": 100.0}}))
    whole, *rest = demo.rows(demo.read(path))
    assert (whole.ratio, whole.note) == (1.5, "pass; the slowest tasks: Install 50 s")
    assert [(row.name, row.subject.median) for row in rest][-1] == ("make demo, the collection", 100.0)


def test_the_made_up_cluster_is_planned_and_linted() -> None:
    rows = scale.cases(6)
    assert [row.name for row in rows] == [
        "rail plan and lint, 6 nodes x 8 rails",
        "lint that finds 48 faults, 6 nodes x 8 rails",
        "schedule of all pairs, 6 nodes",
        "schedule of a ring, 6 nodes",
    ]
    assert all(row.met for row in rows)


def test_a_case_without_a_lab_says_how_to_get_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "bench.json"
    absent = tmp_path / "hosts.yml"
    monkeypatch.setattr(sys, "argv", ["bench", "gpu_node", "--inventory", str(absent), "--json", str(target)])
    assert run.main() == 1
    assert "start the lab by 'make lab-up'" in capsys.readouterr().out
    result = json.loads(target.read_text())
    assert result["cases"] == []
    assert result["problems"][0].startswith("gpu_node: there is no ")


def test_what_one_case_runs_into_does_not_keep_the_others_from_being_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(_place: Place) -> list[Case]:
        raise LabError("kube-apiserver did not start")

    def sound(_place: Place) -> list[Case]:
        return [Case("sound", "s", Sample([1.0]))]

    target = tmp_path / "bench.json"
    monkeypatch.setattr(run, "CASES", {"broken": broken, "sound": sound})
    monkeypatch.setattr(sys, "argv", ["bench", "--json", str(target)])
    assert run.main() == 1
    assert "not measured: broken: kube-apiserver did not start" in capsys.readouterr().out
    result = json.loads(target.read_text())
    assert [case["name"] for case in result["cases"]] == ["sound"]
