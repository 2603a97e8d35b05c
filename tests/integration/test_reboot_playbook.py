# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Playbook reboot on hosts without a cluster: it looks at all of them at once, and works on those that are due.

The hosts are this machine, which is not rebooted, see tests/support/maintenance.py. With a cluster it is tested in
tests/integration/cluster.
"""

from __future__ import annotations

import json
import sys
import typing as t
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.tests.support import site
from ansible_collections.rdmaops.gpu_fabric.tests.support.maintenance import RAILS, VARIABLES, copied, write_interpreter

Json = t.Any
LOOK = "Look at the mode of the RDMA subsystem"
BEFORE, AFTER = "11111111-1111-1111-1111-111111111111", "22222222-2222-2222-2222-222222222222"


class Fleet:
    """Hosts in the desired mode, but for some that are due."""

    def __init__(self, place: Path, number: int, due: t.Collection[int] = ()) -> None:
        self.place = place
        self.collections = copied(place / "collections")
        self.hosts: dict[str, Json] = {}
        for place_of_host in range(1, number + 1):
            name = f"gpu-{place_of_host:02}"
            folder = place / name
            folder.mkdir()
            new = {"boot_id": AFTER, "mode": "exclusive", "devices": RAILS}
            mode = "shared" if place_of_host in due else "exclusive"
            machine = {"boot_id": BEFORE, "mode": mode, "devices": RAILS, "next": new, "then": []}
            (folder / "machine.json").write_text(json.dumps(machine))
            python = folder / "python"
            write_interpreter(python, TEST_MACHINE=folder / "machine.json")
            variables = {"ansible_python_interpreter": str(python), "test_memory": str(folder)}
            self.hosts[name] = {**site.HERE, **variables}

    def mode(self, number: int) -> str:
        return str(json.loads((self.place / f"gpu-{number:02}/machine.json").read_text())["mode"])

    def change(self, number: int, **changes: Json) -> None:
        path = self.place / f"gpu-{number:02}/machine.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))

    def run(self, *arguments: str, as_a_user: bool = False, **variables: Json) -> site.Run:
        extra = {
            **VARIABLES,
            "node_maintenance_lock_path": str(self.place / "lock"),
            **variables,
        }
        argv = site.hosts(self.place, {"gpu_nodes": {"hosts": self.hosts}}, extra)
        path = {"ANSIBLE_COLLECTIONS_PATH": str(self.collections), "ANSIBLE_FORKS": "10"}
        shown = site.AS_A_USER if as_a_user else {}
        return site.ansible_playbook(*argv, "rdmaops.gpu_fabric.reboot", *arguments, limit=400, **path, **shown)


def looked_at(run: site.Run) -> list[str]:
    return [host for name, host, _result in run.tasks if name.endswith(LOOK)]


def rebooted(run: site.Run) -> list[str]:
    return [host for name, host, _result in run.tasks if name.endswith("Reboot the node")]


def test_nothing_is_due(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path, 12)
    run = fleet.run("--check")
    assert (run.rc, run.changed()) == (0, 0), run.output
    # Each of them once, in one play.
    assert sorted(looked_at(run)) == sorted(fleet.hosts)
    assert run.result("Report the nodes that are due")["msg"] == "0 of 12 nodes are due"
    assert "Could not match" not in run.output
    assert run.result("Show the nodes, and what to do next")["summary"] == [
        "Summary of 12 nodes: 12 in sync (check mode: nothing was changed)",
        "gpu-01, gpu-02, gpu-03, gpu-04, gpu-05, gpu-06, gpu-07, gpu-08 and 4 more: in sync, mode exclusive",
    ]


def test_only_those_that_are_due_are_rebooted_one_at_a_time(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path, 5, due=[2, 4])
    check = fleet.run("--check", node_maintenance_reboot_ok=True)
    assert check.rc == 0, check.output
    assert check.result("Report the nodes that are due")["msg"] == "2 of 5 nodes are due: gpu-02, gpu-04"
    assert sorted(looked_at(check)[:5]) == sorted(fleet.hosts)
    assert looked_at(check)[5:] == ["gpu-02", "gpu-04"]
    assert [fleet.mode(number) for number in (2, 4)] == ["shared", "shared"]

    refused = fleet.run()
    assert refused.rc == 2
    assert refused.result("Report the nodes that are due")["msg"] == "2 of 5 nodes are due: gpu-02, gpu-04"
    assert "A reboot of gpu-02 is pending: The running mode is shared" in refused.messages()
    assert "gpu-04 is pending" not in refused.messages()

    done = fleet.run(node_maintenance_reboot_ok=True)
    assert done.rc == 0, done.output
    assert rebooted(done) == ["gpu-02", "gpu-04"]
    assert [fleet.mode(number) for number in (2, 4)] == ["exclusive", "exclusive"]
    assert done.result("Show the nodes, and what to do next")["summary"] == [
        "Summary of 5 nodes: 2 rebooted, 3 in sync",
        "gpu-02, gpu-04: rebooted, mode shared -> exclusive",
        "gpu-01, gpu-03, gpu-05: in sync, mode exclusive",
    ]
    again = fleet.run(node_maintenance_reboot_ok=True)
    assert (again.rc, again.changed(), rebooted(again)) == (0, 0, []), again.output


@pytest.mark.long
def test_a_node_is_examined_again_right_before_its_reboot(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path, 3, due=[1, 2])
    # The reboot of the first brings the second into its mode.
    argv = [
        sys.executable,
        "-c",
        "import json, sys; p = sys.argv[1]; m = json.load(open(p)); m['mode'] = 'exclusive'; json.dump(m, open(p, 'w'))",
    ]
    fleet.change(1, then=[[*argv, str(tmp_path / "gpu-02/machine.json")]])
    done = fleet.run(node_maintenance_reboot_ok=True)
    assert done.rc == 0, done.output
    assert done.result("Report the nodes that are due")["msg"] == "2 of 3 nodes are due: gpu-01, gpu-02"
    assert rebooted(done) == ["gpu-01"]


@pytest.mark.long
def test_the_first_failure_ends_the_run(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path, 3, due=[1, 2, 3])
    fleet.change(1, broken="Timed out waiting for last boot time check")
    done = fleet.run(node_maintenance_reboot_ok=True)
    assert done.rc == 2, done.output
    assert rebooted(done) == ["gpu-01"]
    assert [fleet.mode(number) for number in (2, 3)] == ["shared", "shared"]


@pytest.mark.parametrize(
    "broken", [{"ansible_python_interpreter": "/none"}, {"ansible_connection": "ssh", "ansible_port": 9}]
)
def test_a_node_that_cannot_be_examined_ends_the_run_before_any_reboot(tmp_path: Path, broken: Json) -> None:
    fleet = Fleet(tmp_path, 3, due=[1, 3])
    fleet.hosts["gpu-02"].update(broken, ansible_host="127.0.0.1")
    done = fleet.run(node_maintenance_reboot_ok=True)
    assert done.rc in (2, 4), done.output
    assert rebooted(done) == []
    assert [fleet.mode(number) for number in (1, 3)] == ["shared", "shared"]


def test_what_a_user_sees(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path, 5, due=[2, 4])
    run = fleet.run("--check", as_a_user=True)
    assert run.rc == 0, run.output
    after = run.output[run.output.index("PLAY [Summary]") : run.output.index("PLAY RECAP")].splitlines()
    assert [line for line in after if line and not line.startswith(("PLAY", "TASK", "ok:"))] == [
        "Summary of 5 nodes: 2 due for a reboot, 3 in sync (check mode: nothing was changed)",
        "gpu-02, gpu-04: mode shared -> exclusive at the next boot, reboot due and would help",
        "gpu-01, gpu-03, gpu-05: in sync, mode exclusive",
        "Next:",
        "  * Reboot gpu-02, gpu-04: playbook rdmaops.gpu_fabric.reboot, or site, with -e node_maintenance_reboot_ok=true",
    ]
