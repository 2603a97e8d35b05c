# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The callback drift in runs that end early: hosts and plays that were not reached are unknown, and never in sync."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._drift.report import validate
from ansible_collections.rdmaops.gpu_fabric.tests.support.drift import Json, Place, closed_port, copy, run_it
from ansible_collections.rdmaops.gpu_fabric.tests.support.waiting import wait_for


def test_an_unreachable_host(place: Place) -> None:
    with (place.path / "hosts").open("a") as hosts:
        hosts.write(f"[far]\ngpu-3 ansible_host=127.0.0.1 ansible_port={closed_port()} ansible_connection=ssh\n")
    (place.path / "a").write_text("x\n")
    ran = place.check(copy("a"))
    assert ran.rc == 4 or ran.rc == 2
    assert ran.report["verdict"] == "unknown"
    assert ran.hosts() == {"gpu-1": "in_sync", "gpu-2": "in_sync", "gpu-3": "unknown"}
    assert "could not be reached" in ran.whys("gpu-3")[0]


def test_a_host_that_vanishes_keeps_what_was_seen(place: Place) -> None:
    facts = {"ansible_connection": "ssh", "ansible_port": closed_port(), "ansible_host": "127.0.0.1"}
    vanish = {"name": "Vanish", "ansible.builtin.set_fact": facts, "when": "inventory_hostname == 'gpu-2'"}
    ran = place.check(copy("a"), vanish, copy("b"))
    assert sorted(ran.objects("gpu-2").values()) == ["drift", "unknown"]
    assert set(ran.objects("gpu-1").values()) == {"drift"}


def serial(path: Path) -> Place:
    place = Place(path, ["gpu-1", "gpu-2", "gpu-3"])
    (path / "a").write_text("x\n")
    return place


def test_serial_batches(tmp_path: Path) -> None:
    place = serial(tmp_path)
    ran = place.check(copy("a"), serial=1)
    assert ran.rc == 0, ran.output
    assert list(ran.report["hosts"]) == ["gpu-1", "gpu-2", "gpu-3"]
    assert ran.report["complete"] is True


def test_batches_that_were_not_come_to_are_unknown(tmp_path: Path) -> None:
    place = serial(tmp_path)
    fail = run_it("false", check_mode=False, when="inventory_hostname == 'gpu-2'")
    ran = place.check(copy("a"), fail, serial=1, max_fail_percentage=0)
    assert ran.hosts() == {"gpu-1": "in_sync", "gpu-2": "unknown", "gpu-3": "unknown"}
    assert ran.report["complete"] is False
    assert ran.report["verdict"] == "unknown"
    assert "gpu-3: play 'Look' ended before this host's turn" in ran.report["incomplete"]
    assert "play 'Judge' was not reached" in ran.report["incomplete"]
    assert ran.rc == 2


@pytest.mark.parametrize(
    "how", [{"any_errors_fatal": True}, pytest.param({"max_fail_percentage": 10}, marks=pytest.mark.long)]
)
def test_hosts_that_were_stopped_are_unknown(tmp_path: Path, how: Json) -> None:
    place = serial(tmp_path)
    fail = run_it("false", check_mode=False, when="inventory_hostname == 'gpu-2'")
    ran = place.check(copy("a"), fail, copy("z"), **how)
    assert ran.hosts() == dict.fromkeys(("gpu-1", "gpu-2", "gpu-3"), "unknown")
    assert ran.report["complete"] is False
    assert "ended early" in ran.whys("gpu-1")[0]


def test_hosts_that_go_on_after_a_rescue_are_not_stopped(tmp_path: Path) -> None:
    place = serial(tmp_path)
    failing = run_it("false", check_mode=False, when="inventory_hostname == 'gpu-2'")
    rescue = [{"name": "Say", "ansible.builtin.debug": {"msg": "rescued"}}]
    ran = place.check({"block": [failing], "rescue": rescue}, copy("a"), any_errors_fatal=True)
    assert ran.hosts() == {"gpu-1": "in_sync", "gpu-2": "unknown", "gpu-3": "in_sync"}
    assert ran.report["complete"] is True


@pytest.mark.fault("run stopped")
@pytest.mark.parametrize(
    "number",
    [signal.SIGKILL, *(pytest.param(number, marks=pytest.mark.long) for number in (signal.SIGTERM, signal.SIGINT))],
)
def test_an_interrupted_run_is_not_complete(host: Place, number: int) -> None:
    (host.path / "a").write_text("x\n")
    wait = run_it("sleep", "60", check_mode=False)
    # Whether its result is still taken in is a matter of chance: it has to be no object.
    there = run_it("touch", str(host.path / "there"), check_mode=False, changed_when=False)
    host.write(host.play(copy("a")), host.play(there, wait))
    argv, null = host.command(host.book, "--check"), subprocess.DEVNULL
    process = subprocess.Popen(argv, env=host.environment, stdin=null, stdout=null, stderr=null, start_new_session=True)
    try:
        wait_for((host.path / "there").exists, 120, pause=0.2)
        # Ctrl-C on a terminal reaches all processes.
        os.killpg(process.pid, number)
        assert process.wait(60) != 0
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(60)
    report = validate(json.loads((host.path / "report.json").read_text()), "the report")
    assert report["complete"] is False
    assert report["verdict"] == "unknown"
    assert report["finished"] is None
    assert report["hosts"]["gpu-1"]["objects"][0]["status"] == "in_sync"


@pytest.mark.long
def test_a_second_playbook_that_is_not_come_to(host: Place) -> None:
    (host.path / "a").write_text("x\n")
    first = host.write(host.play(copy("a")), name="first.yml")
    bad = host.write(host.play(run_it("false", check_mode=False, ignore_errors=False)), name="bad.yml")
    always = {"RDMAOPS_DRIFT_TABLE": "always"}
    ran = host.run(str(first), str(first), "--check", **always)
    assert ran.report["complete"] is True
    assert ran.output.count("Drift: ") == 1
    ran = host.run(str(bad), str(first), "--check", **always)
    assert ran.report["complete"] is False
    assert ran.output.count("Drift: ") == 1
