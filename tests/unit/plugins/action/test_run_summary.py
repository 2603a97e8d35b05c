# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The action run_summary, by ansible-playbook: it reads the facts of all hosts of the play, also of failed ones."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.tests.support import site
from ansible_collections.rdmaops.gpu_fabric.tests.unit.plugins.plugin_utils._run_summary.test_summary import facts

Json = t.Any
VERDICT = {
    "verdict": "unknown",
    "report": {"nodes": [{"name": "gpu-1", "verdict": "unknown"}, {"name": "gpu-2", "verdict": "pass"}]},
}
SUMMARY = {
    "name": "Summary",
    "hosts": "gpu_nodes",
    "tasks": [
        {
            "name": "Show the nodes",
            "ansible.builtin.import_role": {"name": "rdmaops.gpu_fabric.gpu_node", "tasks_from": "summary"},
        }
    ],
}


def play(directory: Path, *arguments: str, tasks: list[Json], hosts: int = 3, **keywords: Json) -> site.Run:
    inventory = {"gpu_nodes": {"hosts": {f"gpu-{number}": site.HERE for number in range(1, hosts + 1)}}}
    argv = site.book(directory, {"tasks": tasks}, {**SUMMARY, **keywords}, inventory=inventory)
    return site.ansible_playbook(*argv, *arguments, limit=120)


def set_facts(**more: Json) -> Json:
    return {"name": "Role gpu_node", "ansible.builtin.set_fact": facts(**more)}


def summary(run: site.Run) -> list[str]:
    return t.cast("list[str]", run.result("Show the nodes, and what to do next")["summary"])


def test_check_mode_and_a_run(tmp_path: Path) -> None:
    tasks = [set_facts(), {"name": "Verify", "ansible.builtin.set_fact": {"fabric_check_verdict": VERDICT}}]
    run = play(tmp_path, "--check", tasks=tasks)
    assert (run.rc, run.changed()) == (0, 0), run.output
    # Check mode measures nothing, so a node is not unknown for that reason.
    assert summary(run) == [
        "Summary of 3 nodes: 3 in sync (check mode: nothing was changed)",
        "gpu-1, gpu-2, gpu-3: in sync, mode exclusive",
    ]
    run = play(tmp_path, tasks=tasks)
    assert summary(run) == [
        "Summary of 3 nodes: 2 in sync; fabric check: UNKNOWN",
        "gpu-1: mode exclusive, fabric unknown",
        "gpu-2: in sync, mode exclusive, fabric pass",
        "gpu-3: in sync, mode exclusive",
        "Next:",
        "  * Read the table of the fabric check above; docs/red-verdict.md explains each message.",
    ]
    assert run.result("Show the nodes, and what to do next")["next"] == [summary(run)[-1][4:]]


def test_a_failed_node_is_in_it(tmp_path: Path) -> None:
    fails = {"name": "Break", "ansible.builtin.fail": {"msg": "no"}, "when": "inventory_hostname == 'gpu-1'"}
    run = play(tmp_path, tasks=[fails, set_facts()])
    assert run.rc == 2
    assert summary(run)[:3] == [
        "Summary of 3 nodes: 1 failed, 2 in sync",
        "gpu-1: failed in this run, or was not reached: see its message above",
        "gpu-2, gpu-3: in sync, mode exclusive",
    ]


def test_nodes_without_facts_are_not_in_sync(tmp_path: Path) -> None:
    assert summary(play(tmp_path, tasks=[])) == [
        "Summary of 3 nodes: nothing is known of them",
        "gpu-1, gpu-2, gpu-3: nothing is known of it",
    ]


def test_playbook_site_shows_it_once(tmp_path: Path) -> None:
    run = play(tmp_path, tasks=[set_facts()], vars={"__gpu_node_summary_later": True})
    assert run.result("Show the nodes, and what to do next")["skipped"]
    assert "Summary of" not in run.output


@pytest.mark.parametrize("hosts", [20])
def test_twenty_hosts_in_sync_print_two_lines(tmp_path: Path, hosts: int) -> None:
    inventory = {"gpu_nodes": {"hosts": {f"gpu-{number:02}": site.HERE for number in range(1, hosts + 1)}}}
    argv = site.book(tmp_path, {"tasks": [set_facts()]}, SUMMARY, inventory=inventory)
    run = site.ansible_playbook(*argv, "--check", limit=120, **site.AS_A_USER)
    after = run.output[run.output.index("PLAY [Summary]") : run.output.index("PLAY RECAP")].splitlines()
    assert [line for line in after if line and not line.startswith(("PLAY", "TASK"))] == [
        "Summary of 20 nodes: 20 in sync (check mode: nothing was changed)",
        "gpu-01, gpu-02, gpu-03, gpu-04, gpu-05, gpu-06, gpu-07, gpu-08 and 12 more: in sync, mode exclusive",
        "ok: [gpu-01]",
    ]


def test_colors_are_for_a_terminal(tmp_path: Path) -> None:
    tasks = [set_facts()]
    assert "\x1b[" not in play(tmp_path, tasks=tasks).output
    inventory = {"gpu_nodes": {"hosts": {"gpu-1": site.HERE}}}
    argv = site.book(tmp_path, {"tasks": tasks}, SUMMARY, inventory=inventory)
    forced = site.ansible_playbook(
        *argv, limit=120, ANSIBLE_STDOUT_CALLBACK="ansible.builtin.default", ANSIBLE_FORCE_COLOR="1"
    )
    assert "\x1b[0;32mgpu-1: in sync, mode exclusive\x1b[0m" in forced.output
