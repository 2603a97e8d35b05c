# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The action kubernetes_plan: what it returns, and that it fails with everything that stands against a plan."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
import yaml
from ansible.errors import AnsibleError
from ansible.parsing.dataloader import DataLoader

from ansible_collections.rdmaops.gpu_fabric.plugins.action import kubernetes_plan as plugin
from ansible_collections.rdmaops.gpu_fabric.plugins.modules import kubernetes_plan as documentation
from ansible_collections.rdmaops.gpu_fabric.tests.support.actions import run_action
from ansible_collections.rdmaops.gpu_fabric.tests.unit.plugins.plugin_utils._kubernetes.kubernetes_hosts import (
    cluster,
    host,
    node,
    plane_member,
    settings,
)
from ansible_collections.rdmaops.gpu_fabric.tests.unit.plugins.plugin_utils._kubernetes.plans import KNOWN

Json = t.Any


def act(diff: bool = False, no_log: bool = False, **given: Json) -> Json:
    return run_action(plugin, given, diff=diff, no_log=no_log)


def nodes(**worker: Json) -> Json:
    return {"cp-1": host("cp-1", 10, control_plane=True), "gpu-1": host("gpu-1", 11, **worker)}


def test_a_plan() -> None:
    done = act(nodes=nodes(), settings=settings())
    assert not done.get("failed")
    assert done["changed"] is False
    assert done["plan"]["leader"] == "cp-1"
    assert {name: host["action"] for name, host in done["plan"]["hosts"].items()} == {"cp-1": "init", "gpu-1": "join"}
    assert (done["problems"], done["differences"], done["diff"]) == ([], [], [])
    assert {resource["kind"] for resource in done["resources"]} == {"kubernetes_node"}


class Shown:
    """What the action showed on the terminal."""

    def __init__(self) -> None:
        self.text = ""

    def display(self, text: str, color: str | None = None, stderr: bool = False) -> None:
        self.text += text


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> Shown:
    made = Shown()
    monkeypatch.setattr(plugin, "display", made)
    return made


def test_all_problems_are_reported_at_once(shown: Shown) -> None:
    unfit = nodes(host={"swap": ["/swap"], "cgroup": "v1"})
    done = act(nodes=unfit, settings=settings(), control_plane=["cp-0", "cp-1"])
    # The role fails: what a failed task returns is printed.
    assert not done.get("failed")
    assert done["msg"].startswith("Creating a cluster of these hosts: nothing was changed. ")
    assert shown.text.startswith("What prevents a cluster of these hosts:\n  * ")
    for text in ("gpu-1: swap is on (/swap)", "gpu-1: /sys/fs/cgroup is cgroup v1", "cp-0 could not be checked"):
        assert any(text in problem for problem in done["problems"])
        assert text in shown.text
    assert {name: host["action"] for name, host in done["plan"]["hosts"].items()} == {"cp-1": "refuse", "gpu-1": "none"}


def test_the_problems_of_many_hosts_fit_on_a_screen(shown: Shown) -> None:
    many = {f"gpu-{number:02}": host(f"gpu-{number:02}", 20 + number, host={"swap": ["/swap"]}) for number in range(64)}
    done = act(nodes={**nodes(), **many}, settings=settings())
    assert len(done["problems"]) >= 64
    lines = shown.text.splitlines()
    assert len(lines) <= plugin.MAX_LINES + 2
    assert max(map(len, lines)) <= 120
    listed = sum(line.startswith("  * ") for line in lines)
    assert lines[-1] == f"  and {len(done['problems']) - listed} more"
    assert (
        f"nothing was changed. {len(done['problems'])} problems; first: {done['problems'][0].rstrip('.')}"
        in done["msg"]
    )
    assert len(done["msg"]) < 600


def test_without_a_problem_nothing_is_shown(shown: Shown) -> None:
    assert "msg" not in act(nodes=nodes(), settings=settings())
    act(nodes=nodes(host={"swap": ["/swap"]}), settings=settings(), no_log=True)
    assert shown.text == ""


def of_ansible(value: Json) -> Json:
    """Return a value as variables have it: its texts are Ansible's own kind of str."""
    loaded = DataLoader().load(yaml.safe_dump(value))
    assert type(next(iter(loaded))) is not str
    return loaded


@pytest.mark.parametrize(
    ("more", "shown"), [({}, False), ({"diff": True}, True), ({"diff": True, "no_log": True}, False)]
)
def test_a_difference_is_shown_whatever_kind_of_text_it_is(
    more: Json, shown: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    printed: list[str] = []
    monkeypatch.setattr(plugin.display, "display", lambda text, **_color: printed.append(text))
    given = {"apiServer": {"extraArgs": [{"name": "v", "value": "2"}]}}
    live = cluster(node("cp-1", 10, control_plane=True), **KNOWN)
    there = {"cp-1": host("cp-1", 10, control_plane=True, membership=plane_member("cp-1"), cluster=live)}
    wish = of_ansible(settings(cluster_configuration=given))
    done = act(nodes=there, settings=wish, on_difference="report", **more)
    assert not done.get("failed")
    assert [difference["path"] for difference in done["differences"]] == ["apiServer.extraArgs"]
    assert done["warnings"] == [
        'kubeadm-config of the cluster has apiServer.extraArgs null, and [{"name": "v", "value": "2"}] is wanted'
    ]
    assert "  extraArgs:\n  - name: v\n    value: '2'\n" in done["diff"][0]["after"]
    assert [("+    value: '2'" in text) for text in printed] == [True] * shown

    refused = act(nodes=there, settings=wish, **more)
    assert "warnings" not in refused
    assert done["warnings"][0] in refused["msg"]
    diffs = [text for text in printed if "+    value: '2'" in text]
    assert len(diffs) == 2 * shown


def test_options_reach_the_plan() -> None:
    small = nodes(host={"memory_mib": 900})
    assert "1000 are needed" in act(nodes=small, settings=settings(), min_memory_mib=1000)["msg"]
    assert "overlaps 10.244.0.0/14" in act(nodes=small, settings=settings(), avoid=["10.244.0.0/14"])["msg"]
    assert "kubernetes_source is local" in act(nodes=small, settings=settings(), source="local")["msg"]
    assert not act(nodes=small, settings=settings()).get("failed")


@pytest.mark.parametrize("given", [{}, {"nodes": {}, "settings": "x"}, {"nodes": {}, "settings": {}, "source": "x"}])
def test_bad_arguments(given: Json) -> None:
    with pytest.raises(AnsibleError):
        act(**given)


def test_settings_that_are_none() -> None:
    assert "must be str" in act(nodes=nodes(), settings={})["msg"]


def test_the_documentation_has_the_options_of_the_action() -> None:
    options = yaml.safe_load(documentation.DOCUMENTATION)["options"]
    assert set(options) == set(documentation.ARGUMENT_SPEC)
    for name, spec in documentation.ARGUMENT_SPEC.items():
        assert options[name].get("default") == spec.get("default"), name
    assert Path(plugin.__file__).stem == yaml.safe_load(documentation.DOCUMENTATION)["module"]
