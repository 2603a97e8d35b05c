# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the API server is, with which kubeconfig, and as whom: one set of variables for all roles."""

from __future__ import annotations

import re
import typing as t

import pytest
import yaml

from ansible_collections.rdmaops.gpu_fabric.tests.support import COLLECTION
from ansible_collections.rdmaops.gpu_fabric.tests.support.role_values import tasks_of, values

Json = t.Any
OWN = "rdmaops.gpu_fabric."
GROUP: list[str] = yaml.safe_load((COLLECTION / "meta/runtime.yml").read_text())["action_groups"]["kubernetes"]
# It creates the cluster, with kubeconfigs of its own.
ROLES = sorted({path.parents[1].name for path in COLLECTION.glob("roles/*/tasks/*.yml")} - {"kubernetes"})


def options(role: str) -> set[str]:
    specs = yaml.safe_load((COLLECTION / f"roles/{role}/meta/argument_specs.yml").read_text())["argument_specs"]
    return {name for spec in specs.values() for name in spec.get("options") or {}}


def with_option(name: str) -> list[str]:
    return [role for role in ROLES if f"{role}_{name}" in options(role)]


@pytest.mark.parametrize("name", ["kubeconfig", "context"])
@pytest.mark.parametrize("role", with_option("kubeconfig"))
def test_a_role_takes_the_common_kubeconfig(role: str, name: str) -> None:
    variable = f"{role}_{name}"
    # The drift report is published from the controller.
    site: Json = {"groups": {"kubernetes_api": ["localhost"]}}
    assert values(COLLECTION / "roles" / role).value(variable, **site) == ""
    site[f"kubernetes_api_{name}"] = "/etc/kubernetes/admin.conf"
    assert values(COLLECTION / "roles" / role).value(variable, **site) == "/etc/kubernetes/admin.conf"


def test_a_kubeconfig_may_be_a_dictionary() -> None:
    config = {"apiVersion": "v1", "users": [{"name": "x", "user": {"token": "t"}}]}
    assert (
        values(COLLECTION / "roles/node_labels").value("node_labels_kubeconfig", kubernetes_api_kubeconfig=config)
        == config
    )


@pytest.mark.parametrize("name", ["kubeconfig", "context"])
def test_a_kubeconfig_of_another_host_is_not_that_of_the_controller(name: str) -> None:
    site: Json = {"groups": {"kubernetes_api": ["cp-1"]}, f"kubernetes_api_{name}": "/etc/kubernetes/admin.conf"}
    assert values(COLLECTION / "roles/drift").value(f"drift_{name}", **site) == ""


@pytest.mark.parametrize("role", with_option("api_host"))
def test_a_role_takes_the_common_host(role: str) -> None:
    variable = f"{role}_api_host"
    value = values(COLLECTION / "roles" / role).value
    assert value(variable, groups={}) == ""
    assert value(variable, groups={"kubernetes_api": []}) == ""
    assert value(variable, groups={"kubernetes_api": ["cp-1", "cp-2"]}) == "cp-1"
    assert value(variable, groups={"kubernetes_api": ["cp-1"]}, kubernetes_api_host="cp-2") == "cp-2"
    assert value(variable, groups={"kubernetes_api": ["cp-1"]}, kubernetes_api_host="") == ""


def test_the_common_variables_are_documented_and_have_a_type() -> None:
    main = yaml.safe_load((COLLECTION / "roles/kubernetes/meta/argument_specs.yml").read_text())["argument_specs"][
        "main"
    ]
    kinds = {name: spec["type"] for name, spec in main["options"].items() if name.startswith("kubernetes_api_")}
    assert kinds == {
        "kubernetes_api_host": "str",
        "kubernetes_api_kubeconfig": "raw",
        "kubernetes_api_context": "str",
        "kubernetes_api_become": "bool",
    }


def api_tasks() -> t.Iterator[tuple[str, Json, Json]]:
    """Yield each task of a role that connects to the API server, with its place and the module's options."""
    for role in ROLES:
        for path in sorted((COLLECTION / "roles" / role / "tasks").glob("*.yml")):
            for task in tasks_of(yaml.safe_load(path.read_text()) or []):
                for module in GROUP:
                    if OWN + module in task:
                        yield f"{role}/{path.name}: {task['name']}", task, task[OWN + module]


TASKS = {place: (task, arguments) for place, task, arguments in api_tasks()}


@pytest.mark.parametrize("place", TASKS)
def test_a_task_on_the_cluster_uses_them(place: str) -> None:
    task, arguments = TASKS[place]
    role = "training_job" if place.startswith("experiment/") else place.partition("/")[0]
    for name in ("kubeconfig", "context"):
        # Empty means the module's own default.
        assert re.fullmatch(rf"{{{{ {role}_{name} \|.*default\(omit, true\) }}}}", arguments[name]), arguments[name]
    # On the host of the play itself, the play decides unless the variable is set.
    default = "false" if "delegate_to" in task else "omit"
    assert f"kubernetes_api_become | default({default})" in task["become"]


def test_there_are_such_tasks() -> None:
    assert len(TASKS) > 25
