# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The workflow repair runs what was approved: the commit that the drift report is of, or nothing.

AWX hands a job the artifacts of the nodes before it, and over these the workflow's extra variables
(awx/main/models/workflow.py, get_job_kwargs), and adds awx_project_revision (awx/main/models/jobs.py, awx_meta_vars).
"""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.rdmaops.gpu_fabric.tests.integration.awx import test_awx
from ansible_collections.rdmaops.gpu_fabric.tests.support import COLLECTION
from ansible_collections.rdmaops.gpu_fabric.tests.support.controller import Controller
from ansible_collections.rdmaops.gpu_fabric.tests.support.site import HERE, Run, ansible_playbook, book

A, B = "a" * 40, "b" * 40
DONE = {"name": "Repair", "ansible.builtin.debug": {"msg": "repaired"}}


def role(tasks_from: str) -> dict[str, t.Any]:
    named = {"name": "rdmaops.gpu_fabric.drift", "tasks_from": tasks_from}
    return {"name": "Role", "ansible.builtin.import_role": named, "run_once": True}


def job(place: Path, tasks: list[dict[str, t.Any]] | str, variables: dict[str, t.Any], *more: str) -> Run:
    """Run tasks, or a playbook of ours, with the extra variables that AWX gives a job."""
    inventory = {"gpu_nodes": {"hosts": {"gpu-1": HERE, "gpu-2": HERE}}}
    play = {"any_errors_fatal": True, "tasks": tasks}
    *arguments, path = book(place, play, inventory=inventory, variables=variables)
    environment = {"ANSIBLE_CALLBACKS_ENABLED": "rdmaops.gpu_fabric.drift", "ANSIBLE_SHOW_CUSTOM_STATS": "true"}
    playbook = tasks if isinstance(tasks, str) else path
    return ansible_playbook(*arguments, playbook, *more, cwd=place, limit=300, **environment)


def artifacts(run: Run) -> dict[str, t.Any]:
    return dict(json.loads(run.output[run.output.find("{\n") : run.output.rfind("}") + 1])["global_custom_stats"])


@pytest.fixture
def workflow_variables(tmp_path: Path) -> dict[str, t.Any]:
    """The extra variables of the workflow, as the role awx posts them."""
    with Controller(test_awx.PLAYBOOKS) as controller:
        controller.add("organizations", name="Default")
        controller.add("credentials", name="nodes", credential_type=controller.add("credential_types", name="Machine"))
        controller.add("credentials", name="Ansible Galaxy")
        test_awx.Site(tmp_path, controller).result()
        extra_vars = controller.named("workflow_job_templates", "gpu-fabric repair")["extra_vars"]
        return dict(yaml.safe_load(extra_vars) or {})


def test_the_commit_of_the_report_is_repaired_and_no_other(
    tmp_path: Path, workflow_variables: dict[str, t.Any]
) -> None:
    looked = job(tmp_path, [role("begin")], {**workflow_variables, "awx_project_revision": A}, "--check")
    assert looked.rc == 0, looked.output
    message = artifacts(looked)
    assert message["drift_revision"] == A
    given = {**message, **workflow_variables}
    same = job(tmp_path, [role("approved"), DONE], {**given, "awx_project_revision": A})
    assert same.rc == 0, same.output
    assert same.result("Repair")["msg"] == "repaired"
    other = job(tmp_path, [role("approved"), DONE], {**given, "awx_project_revision": B})
    assert other.rc == 2, other.output
    assert other.results("Repair") == []
    assert other.messages() == (
        f"Repairing what was approved: the drift report is of the project's revision {A}, and this job would run {B}. "
        "Nothing was changed. Start the workflow again, and approve the report on the branch's current revision."
    )


def test_an_approval_without_a_revision_is_none(tmp_path: Path, workflow_variables: dict[str, t.Any]) -> None:
    """As after a drift job that ended before it had looked at anything."""
    done = job(tmp_path, [role("approved"), DONE], {**workflow_variables, "awx_project_revision": A})
    assert done.rc == 2, done.output
    assert f"the drift report is of the project's revision (unknown), and this job would run {A}" in done.messages()


def test_a_job_of_its_own_needs_no_approval(tmp_path: Path) -> None:
    done = job(tmp_path, [role("approved"), DONE], {"awx_project_revision": B})
    assert done.rc == 0, done.output
    assert done.result("Repair")["msg"] == "repaired"


@pytest.mark.parametrize("more", [(), ("--limit", "gpu-2")])
def test_site_begins_with_it(tmp_path: Path, workflow_variables: dict[str, t.Any], more: tuple[str, ...]) -> None:
    given = {**workflow_variables, "drift_revision": A, "awx_project_revision": B}
    done = job(tmp_path, str(COLLECTION / "playbooks/site.yml"), given, *more)
    assert done.rc == 2, done.output
    assert "Nothing was changed. Start the workflow again" in done.messages()
    assert done.changed() == 0
    # The check of the inventory, and this one.
    assert len(done.output.split('"play": {')) == 3
