# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Messages name an option of a module, and the variable of the role that sets it."""

from __future__ import annotations

import re
import typing as t

import pytest
import yaml

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils import _errors
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._errors import API, VARIABLES, in_roles
from ansible_collections.rdmaops.gpu_fabric.tests.support import COLLECTION
from ansible_collections.rdmaops.gpu_fabric.tests.support.failures import message_of
from ansible_collections.rdmaops.gpu_fabric.tests.support.module import argument_spec
from ansible_collections.rdmaops.gpu_fabric.tests.support.role_values import tasks_of

OWN = "rdmaops.gpu_fabric."
ROLE_OPTIONS = {
    name
    for path in COLLECTION.glob("roles/*/meta/argument_specs.yml")
    for spec in yaml.safe_load(path.read_text())["argument_specs"].values()
    for name in spec.get("options") or {}
}
# Set by way of a variable of the role's own.
INDIRECT = {
    ("host_rails", "on_conflict"): "roles/gpu_node/vars/main.yml",
    ("modprobe_options", "on_conflict"): "roles/gpu_node/vars/main.yml",
    ("rdma_mode_conflict_info", "on_conflict"): "roles/gpu_node/tasks/conflicts.yml",
}


def given() -> dict[tuple[str, str], str]:
    """What the tasks of roles give to options of modules, all of it for each."""
    texts: dict[tuple[str, str], str] = {}
    for path in COLLECTION.glob("roles/*/tasks/*.yml"):
        for task in tasks_of(yaml.safe_load(path.read_text()) or []):
            for name, arguments in task.items():
                for option, value in arguments.items() if name.startswith(OWN) and isinstance(arguments, dict) else ():
                    key = (name[len(OWN) :], option)
                    texts[key] = f"{texts.get(key, '')} {value}"
    return texts


GIVEN = given()
ROWS = [(module, option, text) for module, options in VARIABLES.items() for option, text in options.items()]


@pytest.mark.parametrize(("module", "option", "text"), ROWS)
def test_a_variable_sets_the_option(module: str, option: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert option in argument_spec(module, monkeypatch)
    variable = text.split()[0]
    assert variable in ROLE_OPTIONS
    place = INDIRECT.get((module, option))
    where = (COLLECTION / place).read_text() if place else GIVEN[module, option]
    assert re.search(rf"\b{variable}\b", where)


@pytest.mark.parametrize("module", sorted({module for module, _option in GIVEN} & set(VARIABLES)))
def test_no_variable_with_a_name_of_several_words_is_missing(module: str) -> None:
    """Of a module whose messages name options: those of one word may be words of a sentence."""
    direct = {
        option: match.group(1)
        for (name, option), text in GIVEN.items()
        for match in [re.fullmatch(r" \{\{ ([a-z_]+)(?: \| [a-z(), ]+)? \}\}", text)]
        if name == module and "_" in option and match and match.group(1) in ROLE_OPTIONS
    }
    messages = "\n".join(path.read_text() for path in COLLECTION.glob("plugins/module_utils/**/*.py"))
    named = {option for option in direct if re.search(rf"\"[^\"]*(?:[Ss]et|[Rr]aise|with|see) {option}\b", messages)}
    assert {option: direct[option] for option in named} == {
        option: VARIABLES[module].get(option, "").split(" ")[0] for option in named
    }


MESSAGES: list[tuple[str, str, str]] = [
    (
        "rdmaops.gpu_fabric.rdma_system",
        "install it, or set on_absent to ignore for hosts without RDMA",
        ". In roles: on_absent is gpu_node_on_absent.",
    ),
    ("rdma_system", "x. set on_absent.", ". In roles: on_absent is gpu_node_on_absent."),
    (
        "gpu_operator",
        "Looking for helm: not found. Install helm 3.8 or newer on the host that runs this task, or set helm_binary",
        ". In roles: helm_binary is gpu_operator_helm_binary.",
    ),
    ("gpu_operator", "It needs consent: set disrupt to true", ". In roles: disrupt is gpu_operator_disrupt_ok."),
    (
        "node_drain",
        "ml/train: holds nvidia.com/gpu: 8 (evict_gpu_pods); ml/x: has no controller (force)",
        ". In roles: evict_gpu_pods is node_maintenance_evict_gpu_pods, force is node_maintenance_force.",
    ),
    (
        "whereabouts_pools",
        "Reading the kubeconfig /k: it has no context prd. It has: prod. Set the option context to one of them",
        ". In roles: context is kubernetes_api_context (or the role's own, such as training_job_context).",
    ),
    (
        "cluster_objects",
        "Reading the kubeconfig /k: no such file. Set its path in the option kubeconfig or in K8S_AUTH_KUBECONFIG",
        ". In roles: kubeconfig is kubernetes_api_kubeconfig (or the role's own, such as node_maintenance_kubeconfig).",
    ),
    ("node_drain", "the pod was stopped by force", ""),
    ("kubeadm", "set on_absent", ""),
]


@pytest.mark.parametrize(("module", "message", "more"), MESSAGES)
def test_messages(module: str, message: str, more: str) -> None:
    assert in_roles(module, message) == (message.rstrip(".") + more if more else message)


def test_common_variables_are_those_of_the_role_kubernetes() -> None:
    assert {word for text in API.values() for word in re.findall(r"[a-z]+_[a-z_]+", text)} <= ROLE_OPTIONS


def test_a_module_ends_with_both_names() -> None:
    class Failed(Exception):
        pass

    class Module:
        _name = "rdmaops.gpu_fabric.rdma_system"

        def fail_json(self, **result: t.Any) -> t.NoReturn:
            raise Failed(result)

    text = message_of(Failed, _errors.fail, Module(), ValueError("set on_absent"), conflicts=[])
    assert text == str({"msg": "set on_absent. In roles: on_absent is gpu_node_on_absent.", "conflicts": []})
