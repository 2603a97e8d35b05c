# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The variables of many hosts: what is wrong is said once, with where it is set."""

from __future__ import annotations

import time
import typing as t

from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._run_check.hosts import Inventory
from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._run_check.known import load
from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._run_check.variables import Judge, Variables

Json = t.Any
KNOWN = load()
HOSTS = ["gpu-1", "gpu-2", "gpu-3", "cp-1"]


def judged(raw: Json, extra: Json = None, play: Json = None, value: Json = None) -> Judge:
    raw = {host: raw.get(host, {}) for host in (*HOSTS, *raw)}
    groups = {"all": [*raw], "gpu_nodes": HOSTS[:3], "rack_1": HOSTS[:2]}
    inventory = Inventory(groups, ["hosts"], list(raw), "")
    return Judge(
        KNOWN, Variables(raw, value or (lambda host, name: raw[host][name]), extra or {}, play or {}), inventory
    )


def test_where_a_variable_is_set() -> None:
    given = {"gpu_node_netns_mod": "shared"}
    for hosts, where in (
        (["gpu-1", "gpu-2", "gpu-3"], "group gpu_nodes"),
        (["gpu-1", "gpu-2"], "group rack_1"),
        (["gpu-2"], "host gpu-2"),
        (["gpu-1", "cp-1"], "2 hosts, such as gpu-1"),
        (HOSTS, "all hosts"),
    ):
        (sentence,) = judged({host: dict(given) for host in hosts}).sentences()
        assert (
            sentence
            == f"gpu_node_netns_mod ({where}) is not a variable of role gpu_node. Did you mean gpu_node_netns_mode?"
        )
    extra = judged({host: dict(given) for host in HOSTS}, extra=given)
    assert "gpu_node_netns_mod (extra variable) is not a variable" in extra.sentences()[0]
    assert "gpu_node_netns_mod (variable of the play) is not a variable" in judged({}, play=given).sentences()[0]


def test_different_values_are_different_mistakes() -> None:
    raw = {
        "gpu-1": {"gpu_node_runtime": "x"},
        "gpu-2": {"gpu_node_runtime": "y"},
        "gpu-3": {"gpu_node_runtime": "never"},
    }
    assert judged(raw).sentences() == [
        "gpu_node_runtime (host gpu-1) is x, and must be auto, never or require.",
        "gpu_node_runtime (host gpu-2) is y, and must be auto, never or require.",
    ]


def test_templates() -> None:
    template = "{{ mode }}"
    raw = {host: {"gpu_node_netns_mode": template} for host in HOSTS}
    values = {"gpu-1": "shared", "gpu-2": "private", "gpu-3": "{{ mode }}"}
    judge = judged(raw, value=lambda host, _name: values[host])
    assert judge.sentences() == ["gpu_node_netns_mode (host gpu-2) is private, and must be exclusive or shared."]

    def refuse(_host: str, _name: str) -> None:
        raise AssertionError("a lookup is not for this check")

    raw = {"gpu-1": {"gpu_node_netns_mode": "{{ lookup('ansible.builtin.pipe', 'pass show mode') }}"}}
    assert judged(raw, value=refuse).sentences() == []


class Vaulted:
    """A value that Ansible decrypts where it is used."""


def test_a_vaulted_value_is_not_shown() -> None:
    raw = {"gpu-1": {"gpu_node_netns_mode": Vaulted()}}
    assert judged(raw, value=lambda _host, _name: "hunter2").sentences() == [
        "gpu_node_netns_mode (host gpu-1) does not have the right content."
    ]


def test_names_of_others() -> None:
    given = {"kubernetes_audit": True, "__private": 1, "_x": 1, "ansible_host": "x", "rails": [], "gpu_node_names": 1}
    judge = judged({"gpu-1": given})
    assert judge.unknown == {"kubernetes_audit"}
    assert len(judge.sentences()) == 1
    judge = judged({"gpu-1": given, "gpu-2": {"site_foreign_variables": ["kubernetes_audit", "gpu_node_names"]}})
    assert (judge.unknown, judge.sentences()) == (set(), [])


def test_required() -> None:
    needed = ["awx_project_url", "awx_credentials"]
    assert judged({}).sentences(needed) == ["awx_project_url and awx_credentials are not set, and role awx needs them."]
    assert judged({"cp-1": dict.fromkeys(needed, "x")}).sentences(needed) == []
    assert judged({}, extra=dict.fromkeys(needed, "x")).sentences(needed) == []
    assert judged({}, play=dict.fromkeys(needed, "x")).sentences(needed) == []
    (sentence,) = judged({"cp-1": {"awx_project_ulr": "x"}}).sentences(needed[:1])
    assert sentence.endswith("Did you mean awx_project_url?")


def test_a_thousand_hosts() -> None:
    """With the variables of Kubespray's size. A tenth of a second on an idle machine."""
    group = {f"kube_variable_{number}": number for number in range(400)} | {f"kubernetes_x{n}y": n for n in range(100)}
    own = dict.fromkeys(list(KNOWN.variables)[:100])
    raw = {f"gpu-{number}": {**group, **own, "rack": number} for number in range(1000)}
    began = time.process_time()
    judged(raw)
    assert time.process_time() - began < 5
