# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One place for the cluster: module_defaults of the action group, and the variables that all roles take."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.rdmaops.gpu_fabric.tests.support import COLLECTION, site

Json = t.Any
GROUP = "group/rdmaops.gpu_fabric.kubernetes"
RUNTIME = yaml.safe_load((COLLECTION / "meta/runtime.yml").read_text())
OBJECT = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "namespace": "default"}}
# What each module of the group requires.
REQUIRED: dict[str, Json] = {
    "cluster_objects": {"owner": "x", "objects": [OBJECT]},
    "fabric_probe": {"state": "ready", "pod": "default/x", "exec": "api"},
    "gpu_info": {},
    "gpu_operator": {"chart": "/nonexistent"},
    "network_attachment": {"owner": "x", "attachments": []},
    "node_drain": {"name": "x", "state": "drained", "run": "x", "reason": "x", "addresses": ["192.0.2.1"]},
    "node_image_info": {"name": "x"},
    "node_condition": {"conditions": [{"node": "x"}]},
    "node_labels": {"nodes": ["x"], "labels": {"a": "b"}},
    "rdma_mode_conflict_info": {"nodes": ["x"], "netns_mode": "exclusive"},
    "resource_claim_template_info": {},
    "service_account_token": {"names": ["x"], "nodes": ["x"], "namespace": "default"},
    "ssh_secret": {"name": "x", "namespace": "default", "owner": "x"},
    "training_job_check_info": {"objects": [OBJECT]},
    "training_job_info": {"kind": "pods", "name": "x"},
    "transport_info": {"namespace": "default", "name": "x"},
    "whereabouts_pools": {},
}


def test_the_group_has_the_modules_with_the_options_of_a_connection() -> None:
    modules = {
        path.stem
        for path in (COLLECTION / "plugins/modules").glob("*.py")
        if "  - rdmaops.gpu_fabric._kubernetes\n" in path.read_text(encoding="utf-8")
    }
    assert set(RUNTIME["action_groups"]["kubernetes"]) == modules == set(REQUIRED)
    assert RUNTIME["action_groups"]["kubernetes"] == sorted(modules)


def failing(name: str, options: Json) -> Json:
    return {"name": name, f"rdmaops.gpu_fabric.{name}": options, "ignore_errors": True}


def test_defaults_of_the_group_reach_every_module(tmp_path: Path) -> None:
    nowhere = str(tmp_path / "nowhere")
    play = {"module_defaults": {GROUP: {"kubeconfig": nowhere}}}
    play["tasks"] = [failing(name, options) for name, options in REQUIRED.items()]
    done = site.ansible_playbook(*site.book(tmp_path, play), limit=300)
    for name in REQUIRED:
        assert f"Reading the kubeconfig {nowhere}: no such file" in done.result(name).get("msg", ""), done.result(name)


def test_defaults_of_a_play_reach_the_modules_of_roles(tmp_path: Path) -> None:
    """Roles pass options one by one: a default of the group in a role would replace all of the play's."""
    play = {
        "module_defaults": {GROUP: {"timeout": 0, "proxy": "http://proxy.invalid"}},
        "tasks": [site.rescued(site.role("node_labels", node_labels_labels={"a": "b"}))],
    }
    done = site.ansible_playbook(*site.book(tmp_path, play, inventory={**site.KUBERNETES_API}), limit=120)
    assert "timeout is 0; it must be at least 1 second" in done.messages(), done.output


ROLES = {
    "node_labels": {"node_labels_labels": {"a": "b"}},
    "gpu_operator": {"gpu_operator_chart": "/nonexistent"},
    "training_job": {"training_job_name": "x", "training_job_image": "x", "training_job_command": ["true"]},
}


@pytest.mark.parametrize("role", ROLES)
def test_a_role_reads_the_common_kubeconfig(role: str, tmp_path: Path) -> None:
    common, own = str(tmp_path / "common"), str(tmp_path / "own")
    tasks = [site.rescued(site.role(role, **{**ROLES[role], **more})) for more in ({}, {f"{role}_kubeconfig": own})]
    given = {"variables": {"kubernetes_api_kubeconfig": common}, "inventory": {**site.KUBERNETES_API}}
    done = site.run_tasks(tmp_path, tasks, "--check", **given, limit=120)
    first, second = done.messages().split("\n")[:2]
    assert f"Reading the kubeconfig {common}: no such file" in first, done.output
    assert f"Reading the kubeconfig {own}: no such file" in second, done.output
