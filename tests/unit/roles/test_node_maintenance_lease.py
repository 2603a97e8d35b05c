# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The Lease of a drain is longer than all that node_maintenance waits for until it gives the node back."""

from __future__ import annotations

import inspect
import typing as t

import pytest
import yaml

from ansible_collections.rdmaops.gpu_fabric.tests.support import COLLECTION
from ansible_collections.rdmaops.gpu_fabric.tests.support.role_values import tasks_of, values

Json = t.Any
TASKS = COLLECTION / "roles/node_maintenance/tasks"
# These run on the controller and wait for nothing.
AT_ONCE = {"ansible.builtin.assert", "ansible.builtin.fail", "ansible.builtin.set_fact"}
INCLUDE = "ansible.builtin.include_tasks"
MEASURE = "Measure the fabric between the node and others"
DEVICES = "Look for the RDMA devices that were there before"


def loaded(file: str) -> list[Json]:
    return list(tasks_of(yaml.safe_load((TASKS / file).read_text())))


def module_of(task: Json) -> str:
    return next((name for name in task if "." in name), "")


def between() -> list[tuple[str, Json]]:
    """Return the tasks between the drain and the return, with their files."""
    names = [task["name"] for task in loaded("cluster.yml")]
    first, last = names.index("Drain the node"), names.index("Return the node to the cluster")
    todo = [("cluster.yml", task) for task in loaded("cluster.yml")[first + 1 : last]]
    tasks = []
    while todo:
        file, task = todo.pop(0)
        if module_of(task) == INCLUDE:
            todo = [(task[INCLUDE], step) for step in loaded(task[INCLUDE])] + todo
        else:
            tasks.append((file, task))
    return tasks


@pytest.mark.parametrize("verify", ["none", "fabric"])
@pytest.mark.parametrize("reboot", [60, "900", 7200])
@pytest.mark.parametrize("ready", [1, "600", 3600])
@pytest.mark.parametrize(("hosts", "forks", "waves"), [(1, 5, 1), (5, 5, 1), (6, 5, 2), (7, 1, 7)])
def test_the_lease_covers_every_wait(
    verify: str, reboot: Json, ready: Json, hosts: int, forks: int, waves: int
) -> None:
    role = values(COLLECTION / "roles/node_maintenance")
    given = {
        "node_maintenance_reboot_timeout": reboot,
        "node_maintenance_ready_timeout": ready,
        "node_maintenance_verify": verify,
        "ansible_play_batch": ["host"] * hosts,
        "ansible_forks": forks,
        "__node_maintenance_api_host": "cp",
    }
    waited = 0
    seen = set()
    for file, task in between():
        if "block" in task or module_of(task) in AT_ONCE:
            continue
        if task["name"] == MEASURE:
            # No round is begun after that; one that has begun may take as long again, or else the Lease is lost.
            assert task["vars"]["fabric_check_time_limit"] == "{{ node_maintenance_verify_timeout }}"
            waited += 2 * int(role.value("node_maintenance_verify_timeout", **given)) if verify == "fabric" else 0
            continue
        limit = int(role.task(file, task["name"], "timeout", **given))
        seen.add(module_of(task))
        if module_of(task) == "rdmaops.gpu_fabric.node_reboot":
            # It may use up both of its waits before its task is stopped.
            assert limit >= 2 * int(reboot) + 60
        if task["name"] == DEVICES:
            # The last look begins a pause after the time is over.
            waited += int(ready) + int(role.task(file, DEVICES, "delay", **given))
        waited += limit
    own = {f"rdmaops.gpu_fabric.{name}" for name in ("node_reboot", "owned_files", "rdma_info", "rdma_system")}
    assert seen == own
    name = "Bring the Kubernetes node to state {{ __node_maintenance_state }}"
    lease = int(role.task("node.yml", name, "lease_duration", **given))
    # And the time until the module has renewed it.
    assert lease >= waves * waited + 60


def test_the_wait_for_devices_ends_by_the_clock() -> None:
    role = values(COLLECTION / "roles/node_maintenance")
    missing = {"__node_maintenance_missing": ["guid"]}
    assert role.task("devices.yml", DEVICES, "until", **missing, __node_maintenance_ends=0.0) is True
    assert role.task("devices.yml", DEVICES, "until", **missing, __node_maintenance_ends="1.0") is True
    assert role.task("devices.yml", DEVICES, "until", **missing, __node_maintenance_ends=2e10) is False
    assert role.task("devices.yml", "Verify that they are back", "that", **missing) is False


def test_how_often_ansible_waits_at_a_reboot() -> None:
    from ansible.plugins.action import reboot

    source = inspect.getsource(reboot.ActionModule.validate_reboot)
    assert source.count("self.do_until_success_or_timeout(") == 2
