# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbook awx, against a controller that answers as AWX 24.6.1 does."""

from __future__ import annotations

import json
import re
import socket
import typing as t
from pathlib import Path

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._awx.client import AwxError
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._awx.objects import manage
from ansible_collections.rdmaops.gpu_fabric.tests.support import COLLECTION
from ansible_collections.rdmaops.gpu_fabric.tests.support.controller import Controller
from ansible_collections.rdmaops.gpu_fabric.tests.support.failures import message_of
from ansible_collections.rdmaops.gpu_fabric.tests.support.role_values import with_templates
from ansible_collections.rdmaops.gpu_fabric.tests.support.site import HERE, Run, ansible_playbook, hosts

Json = dict[str, t.Any]
SECRET = "Xk7-hunter2-Qz9"
TEMPLATES = ("site", "verify", "drift", "reboot", "image", "train", "experiment", "monitoring")
PLAYBOOKS = [f"playbooks/{name}.yml" for name in TEMPLATES]
# One drill with everything that can be chosen.
NOTIFIED = {
    "awx_notification_type": "webhook",
    "awx_notification_configuration": {"url": "https://hooks.example.org/drift", "headers": {}},
    "awx_notification_secrets": {"password": SECRET},
}
CHOSEN = {
    **NOTIFIED,
    "awx_organization": "hpc",
    "awx_organization_manage": True,
    "awx_execution_environment_image": "registry.example.org/gpu-fabric:1",
    "awx_execution_environment_credential": "registry",
    "awx_project_credential": "git",
    "awx_credentials": ["nodes", "vault"],
    "awx_forks": 20,
    "awx_drift_extra_vars": {"drift_path": "/srv/drift"},
}


@pytest.fixture
def controller() -> t.Iterator[Controller]:
    """A controller that has what the role refers to, beside enough else to fill pages."""
    kinds = {"nodes": "Machine", "vault": "Vault", "git": "Source Control", "registry": "Registry"}
    with Controller(PLAYBOOKS) as controller:
        default = controller.add("organizations", name="Default")
        galaxy = controller.add("credentials", name="Ansible Galaxy")
        for name, kind in kinds.items():
            number = controller.add("credential_types", name=kind)
            controller.add("credentials", name=name, credential_type=number)
        controller.lists[default, "galaxy_credentials"] = [galaxy]
        controller.forget()
        yield controller


def variables(controller: Controller, **given: t.Any) -> Json:
    """Return what a site gives the role, without what is None."""
    every = {
        "awx_controller_host": controller.url,
        "awx_controller_oauthtoken": controller.token,
        "awx_project_url": "https://git.example.org/site.git",
        "awx_inventory_path": "inventories/example/hosts.yml",
        "awx_credentials": ["nodes"],
        "awx_request_timeout": 10,
        **given,
    }
    return {key: value for key, value in every.items() if value is not None}


class Site(t.NamedTuple):
    """Who keeps AWX's objects."""

    place: Path
    controller: Controller

    def run(self, *arguments: str, **given: t.Any) -> Run:
        """Run the playbook."""
        self.controller.forget()
        inventory = {"awx": {"hosts": {"localhost": HERE}}}
        known = hosts(self.place, inventory, variables(self.controller, **given))
        return ansible_playbook(*known, "rdmaops.gpu_fabric.awx", *arguments, cwd=self.place, limit=300)

    def result(self, *, check: bool = False, **given: t.Any) -> Json:
        """Do what the role's one task does, in this process."""
        self.controller.forget()
        return manage(self.options(**given), check)

    def options(self, **given: t.Any) -> Json:
        """Return what the role gives the module."""
        loader = DataLoader()
        known = {}
        for part in ("defaults", "vars"):
            known.update(with_templates(loader, COLLECTION / "roles" / "awx" / part / "main.yml"))
        known.update(variables(self.controller, **given))
        tasks = with_templates(loader, COLLECTION / "roles" / "awx" / "tasks" / "main.yml")
        templar = Templar(loader, variables={**known, "omit": None})
        return {**templar.template(tasks[0]["rdmaops.gpu_fabric.awx_objects"]), "validate_certs": True}

    def refused(self, *, check: bool = False, **given: t.Any) -> str:
        """Try what has to fail with nothing changed, and return what was said."""
        message = message_of(AwxError, self.result, check=check, **given)
        assert self.controller.writes() == []
        return message

    def failed(self, **given: t.Any) -> str:
        """Try what has to fail on the way."""
        return message_of(AwxError, self.result, **given)


@pytest.fixture
def site(controller: Controller, tmp_path: Path) -> Site:
    return Site(tmp_path, controller)


def statuses(result: Json) -> dict[str, str]:
    return {f"{resource['kind']} {resource['name']}": resource["status"] for resource in result["resources"]}


def played(site: Site, *arguments: str, **given: t.Any) -> Json:
    run = site.run(*arguments, **given)
    assert run.rc == 0, run.output
    return run.result("Apply the AWX objects")


def test_the_second_run_posts_nothing(site: Site) -> None:
    """Check, do, do again, check again."""
    checked = played(site, "--check", "--diff", **CHOSEN)
    assert site.controller.writes() == []
    done = played(site, "--diff", **CHOSEN)
    written = site.controller.writes()
    assert written
    again = played(site, "--diff", **CHOSEN)
    assert site.controller.writes() == []
    checked_again = played(site, "--check", "--diff", **CHOSEN)
    assert site.controller.writes() == []
    assert [result["changed"] for result in (checked, done, again, checked_again)] == [True, True, False, False]
    # What is foretold is what is done.
    for key in ("actions", "diff", "resources"):
        assert checked[key] == done[key]
        assert again[key] == checked_again[key]
    assert len(done["actions"]) == len(written)
    assert (again["actions"], again["diff"]) == ([], [])
    assert set(statuses(done).values()) == {"drift"}
    # A secret that is not shown is not known to be right.
    others = {name: status for name, status in statuses(again).items() if status != "in_sync"}
    assert others == {"awx_notification_secret gpu-fabric password": "unknown"}


def test_what_awx_has_then(site: Site) -> None:
    controller = site.controller
    site.result(**CHOSEN)
    drift = controller.named("job_templates", "gpu-fabric drift")
    expected = {"job_type": "check", "diff_mode": True, "playbook": "playbooks/drift.yml", "forks": 20}
    expected["survey_enabled"] = True
    assert {key: drift[key] for key in expected} == expected
    assert json.loads(drift["extra_vars"]) == {"drift_path": "/srv/drift"}
    assert controller.names("job_templates", "gpu-fabric drift", "notification_templates_error") == ["gpu-fabric"]
    assert drift["summary_fields"]["organization"]["name"] == "hpc"
    for name in TEMPLATES:
        template = controller.named("job_templates", f"gpu-fabric {name}")
        assert (template["allow_simultaneous"], template["job_slice_count"]) == (False, 1)
        assert template["ask_job_slice_count_on_launch"] is False
        assert template["summary_fields"]["execution_environment"]["name"] == "gpu-fabric"
        assert controller.names("job_templates", template["name"], "credentials") == ["nodes", "vault"]
        assert (template["job_type"] == "check") == (name == "drift")
    # Who starts a reboot without an answer to the survey has not consented.
    (question,) = controller.surveys[controller.named("job_templates", "gpu-fabric reboot")["id"]]["spec"]
    asked = (question["variable"], question["default"], question["required"])
    assert asked == ("node_maintenance_reboot_ok", "false", True)
    schedule = controller.named("schedules", "gpu-fabric drift")
    assert schedule["unified_job_template"] == drift["id"]
    assert schedule["rrule"].startswith("DTSTART:")
    source = controller.named("inventory_sources", "gpu-fabric")
    assert (source["source_path"], source["update_on_launch"]) == ("inventories/example/hosts.yml", True)
    assert controller.names("organizations", "hpc", "galaxy_credentials") == ["Ansible Galaxy"]
    notification = controller.named("notification_templates", "gpu-fabric")
    assert controller.secrets[notification["id"]] == {"password": SECRET}
    workflow_nodes = controller.objects["workflow_job_template_nodes"]
    nodes = {node["identifier"]: number for number, node in workflow_nodes.items()}
    edges = {
        (identifier, edge): controller.lists.get((number, edge), [])
        for identifier, number in nodes.items()
        for edge in ("success_nodes", "failure_nodes", "always_nodes")
    }
    assert {key: ends for key, ends in edges.items() if ends} == {
        ("drift", "failure_nodes"): [nodes["approval"]],
        ("approval", "success_nodes"): [nodes["site"]],
    }


def test_playbooks_and_survey_variables_exist() -> None:
    """The templates name what the repository has."""
    text = (COLLECTION / "roles" / "awx" / "vars" / "main.yml").read_text()
    named = set(re.findall(r"playbook: (\S+)", text))
    assert named == set(PLAYBOOKS)
    missing = [name for name in named if not (COLLECTION / name).is_file()]
    assert not missing
    assert "node_maintenance_reboot_ok:" in (COLLECTION / "roles/node_maintenance/meta/argument_specs.yml").read_text()
    assert "drift_publish:" in (COLLECTION / "roles/drift/meta/argument_specs.yml").read_text()


def test_what_somebody_changes_by_hand_is_drift_and_repaired(site: Site) -> None:
    controller = site.controller
    site.result(**NOTIFIED)
    drift = controller.named("job_templates", "gpu-fabric drift")["id"]
    controller.change("job_templates", drift, {"job_type": "run", "allow_simultaneous": True, "extra_vars": "a: b"})
    controller.lists[drift, "credentials"] = [controller.named("credentials", "vault")["id"]]
    controller.surveys[drift]["spec"][0]["default"] = "url"
    nodes = controller.objects["workflow_job_template_nodes"]
    identifiers = {node["identifier"]: number for number, node in nodes.items()}
    approval = nodes[identifiers["approval"]]["unified_job_template"]
    controller.change("workflow_approval_templates", approval, {"timeout": 5})
    # The approval is gone around.
    controller.lists[identifiers["drift"], "failure_nodes"] = [identifiers["site"]]
    workflow = controller.named("workflow_job_templates", "gpu-fabric repair")["id"]
    extra = controller.create("workflow_job_template_nodes", {"workflow_job_template": workflow, "identifier": "extra"})
    notification = controller.named("notification_templates", "gpu-fabric")["id"]
    controller.change("notification_templates", notification, {"description": "x"})
    checked = site.result(check=True, **NOTIFIED)
    assert site.controller.writes() == []
    assert checked["actions"] == [
        "Change notification template gpu-fabric: description",
        "Change job template gpu-fabric drift: allow_simultaneous, extra_vars, job_type",
        "Remove vault from the credentials of the job template gpu-fabric drift",
        "Add nodes to the credentials of the job template gpu-fabric drift",
        "Write the survey of the job template gpu-fabric drift",
        "Delete the node extra of the workflow gpu-fabric repair",
        "Write the approval of the node approval of the workflow gpu-fabric repair",
        "Remove from the failure_nodes of the workflow gpu-fabric repair, node drift: site",
        "Add to the failure_nodes of the workflow gpu-fabric repair, node drift: approval",
    ]
    assert {name for name, status in statuses(checked).items() if status == "drift"} == {
        "awx_notification_template gpu-fabric",
        "awx_job_template gpu-fabric drift",
        "awx_workflow gpu-fabric repair",
    }
    (shown,) = [diff for diff in checked["diff"] if diff["before_header"] == "job template gpu-fabric drift"]
    before, after = shown["before"].splitlines(), shown["after"].splitlines()
    assert [line for line in before if line not in after] == [
        "allow_simultaneous: true",
        'credentials: ["vault"]',
        'extra_vars: "a: b"',
        'job_type: "run"',
        'survey_spec.spec.0.default: "url"',
    ]
    assert site.result(**NOTIFIED)["actions"] == checked["actions"]
    assert extra["id"] not in nodes
    assert site.result(**NOTIFIED)["changed"] is False
    # What was written beside the secret has not taken it away.
    assert list(controller.secrets.values()) == [{"password": SECRET}]


def test_what_is_not_ours_is_left_alone(site: Site) -> None:
    controller = site.controller
    other = controller.add("inventories", name="other", organization="Default")
    site.result()
    controller.change("job_templates", controller.named("job_templates", "gpu-fabric site")["id"], {"verbosity": 3})
    before = json.dumps(controller.objects["inventories"][other])
    assert site.result()["changed"] is False
    assert json.dumps(controller.objects["inventories"][other]) == before


def test_a_secret_is_nowhere_to_be_seen(site: Site) -> None:
    made = site.run("--diff", "-vvv", **NOTIFIED)
    # A url is none of AWX's secrets: it can be compared, and is hidden all the same.
    url = "https://hooks.example.org/" + SECRET
    changed = {**NOTIFIED, "awx_notification_secrets": {"password": SECRET + "2", "url": url}}
    updated = site.run("--diff", "-vvv", awx_update_secrets=True, **changed)
    assert [made.changed(), updated.changed()] == [1, 1]
    assert list(site.controller.secrets.values()) == [{"password": SECRET + "2"}]
    assert site.controller.named("notification_templates", "gpu-fabric")["notification_configuration"]["url"] == url
    for run in (made, updated):
        assert "notification template gpu-fabric" in run.output
        assert SECRET not in run.output
        assert site.controller.token not in run.output
    # Without the consent to write it, it is unknown whether it is another.
    assert site.result(**changed)["changed"] is False


def test_names_that_are_not_there_are_told_before_anything_is_changed(site: Site) -> None:
    none = "and the controller has none of that name"
    for check in (False, True):
        output = site.refused(check=check, awx_credentials=["nodes", "nobody"], awx_project_credential="nothing")
        assert output.startswith(f"Nothing was changed on {site.controller.url}: ")
        for referring, credential in (("project gpu-fabric", "nothing"), ("job template gpu-fabric site", "nobody")):
            assert f"{referring} refers to the credential {credential}, {none}" in output
    assert f"refers to the organization hpc, {none}" in site.refused(awx_organization="hpc")
    for organization in ("hpc", "ml"):
        site.controller.add("organizations", name=organization)
        site.controller.add("credentials", name="twice", organization=organization)
    output = site.refused(awx_credentials=["twice"], awx_organization_manage=True, awx_organization="new")
    assert "refers to the credential twice, and the controller has 2 of that name" in output
    # Another organization's is not ours.
    output = site.refused(awx_credentials=["twice"])
    assert f"refers to the credential twice, {none}" in output


def test_a_playbook_that_awx_has_not_fetched(site: Site) -> None:
    site.result()
    site.controller.playbooks.remove("playbooks/drift.yml")
    output = site.refused()
    missing = "AWX's copy of the project gpu-fabric has no playbook playbooks/drift.yml"
    assert f"job template gpu-fabric drift: {missing}" in output
    assert "Update the project in AWX" in output


def test_without_a_galaxy_credential_awx_installs_nothing(site: Site) -> None:
    site.controller.lists.clear()
    assert "The organization Default has no Galaxy credential" in "".join(site.result(check=True)["warnings"])


def test_a_project_that_cannot_be_fetched(site: Site) -> None:
    site.controller.update_ends = "failed"
    assert site.failed() == (
        "Create project gpu-fabric: AWX could not fetch the project from "
        "https://git.example.org/site.git: its update is failed. The output is in AWX under the project's jobs; check "
        "the address, the branch and the credential"
    )
    site.controller.update_looks = 1000
    output = site.failed(awx_project_timeout=1, awx_project_branch="other")
    late = "AWX did not fetch the project within 1 s (project_timeout)"
    assert output.startswith(f"Change project gpu-fabric: scm_branch: {late}")
    # The next run goes on where this one has stopped.
    site.controller.update_ends, site.controller.update_looks = "successful", 1
    assert site.result(awx_project_branch="third")["changed"] is True
    assert site.result(awx_project_branch="third")["changed"] is False


def test_what_the_controller_refuses_is_told(site: Site) -> None:
    controller = site.controller
    output = site.refused(awx_controller_oauthtoken="wrong")
    denied = f"{controller.url} answered 401: Authentication credentials were not provided"
    assert output.startswith(f"Looking for the organization Default: {denied}")
    assert output.endswith("Set a valid token (controller_oauthtoken), or the correct user name and password")
    output = site.refused(awx_controller_oauthtoken=None)
    assert "set controller_oauthtoken, or controller_username and controller_password" in output
    output = site.failed(awx_controller_oauthtoken=controller.auditor)
    denied = f"{controller.url} answered 403: You do not have permission to perform this action"
    assert f"Create project gpu-fabric: {denied}" in output
    output = site.failed(awx_drift_rrule="FREQ=DAILY")
    denied = f'{controller.url} answered 400: {{"rrule": ["Valid DTSTART required'
    assert f"Create schedule gpu-fabric drift: {denied}" in output
    by_user = {"awx_controller_oauthtoken": None, "awx_controller_username": "admin"}
    assert site.result(awx_controller_password=controller.password, **by_user)["changed"] is True


def test_a_controller_that_is_not_there(site: Site) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        output = site.refused(awx_controller_host=address)
        assert output.startswith(f"Looking for the organization Default: {address} cannot be reached: ")
        assert "Connection refused" in output
        # As a user meets it.
        run = site.run(awx_controller_host=address)
        assert run.rc == 2
        assert "cannot be reached" in run.messages()
        silent.listen()
        output = site.refused(awx_controller_host=address, awx_request_timeout=1)
        assert output == f"Looking for the organization Default: {address} did not answer within 1 s (request_timeout)"
    assert "controller_host is 'ftp://x'" in site.refused(awx_controller_host="ftp://x")
    assert "Reading the CA certificates in ca_path /nonexistent: " in site.refused(awx_ca_path="/nonexistent")
