# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sets of objects and labels of nodes, against a real API server."""

from __future__ import annotations

import json
import typing as t
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._errors import FabricError
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._kubernetes import node_condition, node_labels
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._kubernetes.client import OWNER
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._kubernetes.manifests import ObjectsError
from ansible_collections.rdmaops.gpu_fabric.tests.support import site
from ansible_collections.rdmaops.gpu_fabric.tests.support.cluster import Cluster
from ansible_collections.rdmaops.gpu_fabric.tests.support.failures import message_of
from ansible_collections.rdmaops.gpu_fabric.tests.support.objects import apply_set as run
from ansible_collections.rdmaops.gpu_fabric.tests.support.objects import client, definition, manifest

Json = t.Any


@pytest.fixture
def name(plane: Cluster) -> Iterator[str]:
    """A name for an owner, a namespace and a group of resources; all gone afterwards."""
    text = f"set-{uuid.uuid4().hex[:8]}"
    yield text
    for kind in ("namespace", "crd", "clusterrole"):
        plane.kubectl("delete", kind, "-l", f"{OWNER}={text}", "--wait=false", check=False)


def statuses(result: Json) -> list[str]:
    return [row["live"] for row in result["resources"]]


def config(name: str, namespace: str | None = None, **content: Json) -> Json:
    return manifest("v1", "ConfigMap", name, namespace, **content)


def whole(name: str) -> list[Json]:
    # The order is that of a manifest written by hand: what others need stands last.
    return [
        manifest(f"{name}.test/v1", "Thing", "one", name, spec={"size": 1}),
        manifest("v1", "ServiceAccount", "user", name),
        definition(f"{name}.test", "v1", "things", "Thing", "Namespaced", {"size": {"type": "integer"}}),
        manifest("v1", "Namespace", name),
    ]


def test_four_steps_from_nothing_with_a_definition_of_its_own(plane: Cluster, name: str) -> None:
    planned = run(plane, name, *whole(name), check=True)
    assert planned["actions"] == [
        f"Make Namespace {name}",
        f"Make CustomResourceDefinition things.{name}.test",
        f"Make ServiceAccount {name}/user",
        f"Make Thing {name}/one",
    ]
    assert plane.kubectl("get", "namespace", name, "--ignore-not-found") == ""
    done = run(plane, name, *whole(name))
    assert (done["actions"], done["resources"]) == (planned["actions"], planned["resources"])
    assert plane.json("get", f"things.{name}.test", "one", "-n", name)["spec"] == {"size": 1}
    for check in (False, True):
        again = run(plane, name, *whole(name), check=check)
        assert (again["changed"], again["actions"], again["diff"]) == (False, [], [])
        assert statuses(again) == ["present"] * 4


def test_a_change_is_shown_and_a_field_dropped_is_removed(plane: Cluster, name: str) -> None:
    with plane.namespace() as namespace:
        run(plane, name, config("c", namespace, data={"a": "1", "b": "2"}))
        plane.kubectl("annotate", "configmap", "c", "-n", namespace, "somebody=else")
        assert run(plane, name, config("c", namespace, data={"b": "2", "a": "1"}))["changed"] is False
        result = run(plane, name, config("c", namespace, data={"a": "3"}), check=True)
        assert result["actions"] == [f"Change ConfigMap {namespace}/c"]
        assert '"a": "1"' in result["diff"][0]["before"]
        assert '"a": "3"' in result["diff"][0]["after"]
        assert '"b"' not in result["diff"][0]["after"]
        run(plane, name, config("c", namespace, data={"a": "3"}))
        live = plane.json("get", "configmap", "c", "-n", namespace)
        assert live["data"] == {"a": "3"}
        assert live["metadata"]["annotations"] == {"somebody": "else"}


def test_secrets_are_not_shown(plane: Cluster, name: str) -> None:
    with plane.namespace() as namespace:
        result = run(plane, name, manifest("v1", "Secret", "s", namespace, stringData={"password": "hunter2"}))
        assert "hunter2" not in json.dumps(result)
        assert "aHVudGVyMg" not in json.dumps(result)
        assert "(hidden)" in result["diff"][0]["after"]


def test_what_kubectl_apply_notes_of_a_secret_is_not_shown(plane: Cluster, name: str) -> None:
    with plane.namespace() as namespace:
        desired = manifest("v1", "Secret", "s", namespace, stringData={"password": "other"})
        live = manifest("v1", "Secret", "s", namespace, data={"password": "aHVudGVyMg=="})
        plane.kubectl("apply", "-f", "-", stdin=json.dumps(live))
        results = [run(plane, name, desired, check=check, adopt=True, force_conflicts=True) for check in (True, False)]
        results.append(run(plane, name, desired, state="absent"))
        for result in results:
            assert "last-applied-configuration" in result["diff"][0]["before"]
            assert "aHVudGVyMg" not in json.dumps(result)


def test_drift_is_mended(plane: Cluster, name: str) -> None:
    with plane.namespace() as namespace:
        desired = config("c", namespace, data={"a": "1"})
        run(plane, name, desired)
        plane.kubectl("patch", "configmap", "c", "-n", namespace, "--type=merge", "-p", '{"data":{"a":"9"}}')
        text = "Another manager has set these fields: remove them .* or set force_conflicts"
        with pytest.raises(ObjectsError, match=text):
            run(plane, name, desired, check=True)
        assert statuses(run(plane, name, desired, force_conflicts=True)) == ["different"]
        assert plane.json("get", "configmap", "c", "-n", namespace)["data"] == {"a": "1"}


def test_prune_takes_this_owners_only(plane: Cluster, name: str) -> None:
    with plane.namespace() as namespace:
        first = config("a", namespace)
        run(plane, name, first, config("b", namespace))
        run(plane, f"{name}-other", config("c", namespace))
        plane.kubectl("create", "configmap", "d", "-n", namespace)
        assert run(plane, name, first)["actions"] == []
        run(plane, name, manifest("v1", "ServiceAccount", "user", namespace))
        result = run(plane, name, first, prune=True, check=True)
        assert result["actions"] == [f"Remove ConfigMap {namespace}/b"]
        run(plane, name, first, prune=True)
        result = run(plane, name, first, prune=True, prune_kinds=["v1/ServiceAccount"])
        assert result["actions"] == [f"Remove ServiceAccount {namespace}/user"]
        names = plane.kubectl("get", "configmaps", "-n", namespace, "-o", "name")
        assert [letter for letter in "abcd" if f"configmap/{letter}\n" in names] == ["a", "c", "d"]
        assert run(plane, name, first, prune=True)["changed"] is False


def test_two_installations_leave_each_others_objects(plane: Cluster, name: str) -> None:
    with plane.namespace() as here, plane.namespace() as there:
        for namespace in (here, there):
            run(plane, name, config("a", namespace), config("b", namespace), namespace=namespace)
        result = run(plane, name, config("a", here), namespace=here, prune=True)
        assert result["actions"] == [f"Remove ConfigMap {here}/b"]
        names = sorted(plane.kubectl("get", "configmaps", "-A", "-l", f"{OWNER}={name}", "-o", "name").split())
        assert names == ["configmap/a", "configmap/a", "configmap/b"]
        both = run(plane, name, config("a", here), namespace=here, prune=True, prune_namespaces=[there])
        assert sorted(both["actions"]) == [f"Remove ConfigMap {there}/a", f"Remove ConfigMap {there}/b"]


def test_a_namespace_is_made_if_it_is_needed_and_goes_with_consent(plane: Cluster, name: str) -> None:
    desired = config("c", name)
    offered = {"namespaces": [{"metadata": {"name": name, "labels": {"example.org/level": "privileged"}}}]}
    with pytest.raises(ObjectsError, match=f"Make the namespace {name} first, or put it into the set"):
        run(plane, name, desired)
    try:
        todo = [f"Make Namespace {name}", f"Make ConfigMap {name}/c"]
        for check in (True, False):
            assert run(plane, name, desired, check=check, **offered)["actions"] == todo
        again = run(plane, name, desired, namespaces=[{"metadata": {"name": name}}])
        assert (again["actions"], statuses(again)) == ([], ["present"])
        labels = plane.json("get", "namespace", name)["metadata"]["labels"]
        assert (labels["example.org/level"], labels[OWNER]) == ("privileged", "namespaces")
        gone = run(plane, name, desired, state="absent", **offered)
        assert (gone["actions"], gone["kept"]) == ([f"Remove ConfigMap {name}/c"], [])
        for consent in (False, True):
            gone = run(plane, "namespaces", prune=True, prune_kinds=["v1/Namespace"], remove_definitions=consent)
            kept = f"Namespace {name}: what is in it would go too; consent by remove_definitions"
            assert (f"Remove Namespace {name}" in gone["actions"], kept in gone["kept"]) == (consent, not consent)
    finally:
        plane.kubectl("delete", "namespace", name, "--ignore-not-found", "--wait=false")


def test_what_is_somebody_elses_stops_everything(plane: Cluster, name: str) -> None:
    with plane.namespace() as namespace:
        plane.kubectl("create", "configmap", "theirs", "-n", namespace, "--from-literal=a=1")
        theirs = config("theirs", namespace)
        assert message_of(ObjectsError, run, plane, name, config("ours", namespace), theirs) == (
            f"Applying ConfigMap {namespace}/theirs: it is there already and was not made by this collection. Set adopt to "
            "take it over, or leave it out"
        )
        assert plane.kubectl("get", "configmap", "ours", "-n", namespace, "--ignore-not-found") == ""
        absent = run(plane, name, theirs, state="absent")
        assert absent["kept"] == [f"ConfigMap {namespace}/theirs: it is not this owner's"]
        assert run(plane, name, theirs, adopt=True)["actions"] == [f"Change ConfigMap {namespace}/theirs"]
        assert run(plane, name, theirs)["changed"] is False
        with pytest.raises(ObjectsError, match=f"it is there already and belongs to {name}"):
            run(plane, f"{name}-other", theirs)


def test_absent_keeps_what_holds_other_things(plane: Cluster, name: str) -> None:
    run(plane, name, *whole(name))
    result = run(plane, name, *whole(name), state="absent", check=True)
    assert result["actions"] == [f"Remove Thing {name}/one", f"Remove ServiceAccount {name}/user"]
    assert sorted(result["kept"]) == [
        f"CustomResourceDefinition things.{name}.test: what is in it would go too; consent by remove_definitions",
        f"Namespace {name}: what is in it would go too; consent by remove_definitions",
    ]
    assert run(plane, name, *whole(name), state="absent")["actions"] == result["actions"]
    assert run(plane, name, *whole(name), state="absent")["changed"] is False
    result = run(plane, name, *whole(name), state="absent", remove_definitions=True)
    assert result["actions"] == [f"Remove CustomResourceDefinition things.{name}.test", f"Remove Namespace {name}"]
    plane.kubectl("wait", "--for=delete", f"crd/things.{name}.test", f"namespace/{name}", "--timeout=60s")
    again = run(plane, name, *whole(name), state="absent")
    assert (again["changed"], statuses(again)) == (False, ["absent"] * 4)


# objects, part of the message
BAD: list[tuple[Json, str]] = [
    ([{"kind": "ConfigMap", "metadata": {"name": "x"}}], "Reading the objects: object 1 of 1 has no apiVersion"),
    ([{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}}], "object 1 of 1 has no metadata.name"),
    ([manifest("v1", "Confmap", "x")], "the API server knows no Confmap of v1"),
    ([config("x")] * 2, "ConfigMap default/x is there twice"),
    ([config("x", dat={})], ".dat: field not declared in schema"),
    ([config("x", "nowhere")], "Make the namespace nowhere first, or put it into the set"),
]


@pytest.mark.parametrize(("objects", "text"), BAD)
def test_bad_objects_change_nothing(plane: Cluster, name: str, objects: Json, text: str) -> None:
    for check in (True, False):
        message = message_of(FabricError, run, plane, name, config(name), *objects, check=check)
        assert text.replace("object 1 of 1", "object 2 of 2") in message
    assert plane.kubectl("get", "configmap", name, "--ignore-not-found") == ""


def test_files(plane: Cluster, name: str, tmp_path: Path) -> None:
    with plane.namespace() as namespace:
        manifest = tmp_path / "m.yml"
        manifest.write_text(
            "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\n---\napiVersion: v1\nkind: List\nitems:\n"
            "  - {apiVersion: v1, kind: ConfigMap, metadata: {name: b}}\n"
        )
        result = run(plane, name, files=[str(manifest)], namespace=namespace)
        assert result["actions"] == [f"Make ConfigMap {namespace}/a", f"Make ConfigMap {namespace}/b"]
        manifest.write_text("a: [\n")
        with pytest.raises(ObjectsError, match="m.yml: it is not YAML"):
            run(plane, name, files=[str(manifest)])
    with pytest.raises(ObjectsError, match="Reading /nowhere.yml: No such file"):
        run(plane, name, files=["/nowhere.yml"])


# --- labels of nodes -------------------------------------------------------------------------------------------------


@pytest.fixture
def node(plane: Cluster) -> Iterator[str]:
    text = f"node-{uuid.uuid4().hex[:8]}"
    plane.apply(manifest("v1", "Node", text))
    yield text
    plane.kubectl("delete", "node", text)


def label(plane: Cluster, node: str, labels: Json, state: str = "present", check: bool = False) -> Json:
    return node_labels.manage({"nodes": [node], "labels": labels, "state": state}, check, client(plane.kubeconfig))


def labels_of(plane: Cluster, node: str) -> Json:
    return plane.json("get", "node", node)["metadata"].get("labels", {})


def test_labels_there_and_back(plane: Cluster, node: str) -> None:
    plane.kubectl("label", "node", node, "ack.node.gpu.schedule=default", "other=stays")
    desired = {"ack.node.gpu.schedule": "topology", "new": "1"}
    planned = label(plane, node, desired, check=True)
    assert planned["actions"] == [f"Label node {node}: ack.node.gpu.schedule=topology, new=1"]
    assert labels_of(plane, node)["ack.node.gpu.schedule"] == "default"
    assert label(plane, node, desired)["resources"] == planned["resources"]
    assert labels_of(plane, node) == {**desired, "other": "stays"}
    for check in (False, True):
        assert label(plane, node, desired, check=check)["changed"] is False
    # A second value does not become what was before.
    label(plane, node, {"ack.node.gpu.schedule": "share"})
    back = label(plane, node, {}, "restored", check=True)
    assert back["actions"] == [f"Label node {node}: ack.node.gpu.schedule=default, new removed"]
    label(plane, node, {}, "restored")
    assert labels_of(plane, node) == {"ack.node.gpu.schedule": "default", "other": "stays"}
    assert node_labels.BEFORE not in plane.json("get", "node", node)["metadata"].get("annotations", {})
    assert label(plane, node, {}, "restored")["changed"] is False


def test_what_somebody_has_changed_meanwhile_is_left(plane: Cluster, node: str) -> None:
    label(plane, node, {"a": "1", "b": "1"})
    plane.kubectl("label", "node", node, "a=2", "--overwrite")
    result = label(plane, node, {}, "restored")
    assert result["kept"] == [f"{node}: a: it was changed to 2 meanwhile"]
    assert labels_of(plane, node) == {"a": "2"}


@pytest.mark.parametrize(
    ("labels", "text"),
    [
        ({"a b": "1"}, "'a b' is not a valid label key"),
        ({"a": True}, "a is True; a label's value is a text"),
        ({"a": "-x"}, "a is '-x'"),
    ],
)
def test_bad_labels(plane: Cluster, node: str, labels: Json, text: str) -> None:
    with pytest.raises(node_labels.LabelsError, match=text):
        label(plane, node, labels)


def test_a_node_that_is_not_there(plane: Cluster, node: str) -> None:
    text = "the cluster has no node nobody. There are: .*give the cluster's"
    with pytest.raises(node_labels.LabelsError, match=text):
        label(plane, "nobody", {"a": "1"})


# --- a condition of nodes --------------------------------------------------------------------------------------------
@pytest.fixture
def nodes(plane: Cluster) -> Iterator[list[str]]:
    names = [f"conditions-{uuid.uuid4().hex[:8]}" for _ in range(2)]
    plane.apply(*(manifest("v1", "Node", name) for name in names))
    yield names
    plane.kubectl("delete", "node", *names)


def conditions(plane: Cluster, *wanted: Json, check: bool = False, state: str = "present") -> Json:
    known = {"status": "Unknown", "reason": "NotChecked", "why": ""}
    params = {"conditions": [{**known, **row} for row in wanted], "type": "RdmaFabricReady", "state": state}
    return node_condition.manage(params, check, client(plane.kubeconfig))


def condition_of(plane: Cluster, node: str) -> Json:
    live = plane.json("get", "node", node)["status"].get("conditions") or []
    return next((row for row in live if row["type"] == "RdmaFabricReady"), None)


def test_a_condition_is_set_and_taken_back(plane: Cluster, nodes: list[str]) -> None:
    first, second = nodes
    broken = {"node": first, "status": "False", "reason": "FabricCheckFailed", "why": "rail 1: the port is DOWN"}
    good = {"node": first, "status": "True", "reason": "FabricCheckPassed"}
    planned = conditions(plane, broken, check=True)
    assert condition_of(plane, first) is None
    done = conditions(plane, broken)
    assert (
        done["actions"]
        == planned["actions"]
        == [f"Set the condition RdmaFabricReady of node {first} to False FabricCheckFailed"]
    )
    live = condition_of(plane, first)
    assert (live["status"], live["reason"], live["message"]) == ("False", "FabricCheckFailed", broken["why"])
    assert live["lastTransitionTime"] == live["lastHeartbeatTime"]
    for check in (False, True):
        assert not conditions(plane, broken, check=check)["changed"]
    assert conditions(plane, {**broken, "why": "rail 2"})["changed"]
    assert condition_of(plane, first)["lastTransitionTime"] == live["lastTransitionTime"]
    assert conditions(plane, good)["changed"]
    assert condition_of(plane, first)["status"] == "True"
    gone = conditions(plane, good, state="absent")
    assert gone["actions"] == [f"Remove the condition RdmaFabricReady of node {first}"]
    assert condition_of(plane, first) is None
    assert not conditions(plane, good, state="absent")["changed"]
    assert condition_of(plane, second) is None


def test_a_condition_of_another_tool_is_left_alone(plane: Cluster, nodes: list[str]) -> None:
    mine = {"node": nodes[0], "status": "True", "reason": "FabricCheckPassed"}
    assert conditions(plane, mine)["changed"]
    # It was ours, and is not any more.
    rows = [{"type": "RdmaFabricReady", "status": "False", "reason": "Other"}]
    for node in nodes:
        patch = json.dumps({"status": {"conditions": rows}})
        plane.kubectl("patch", "node", node, "--subresource=status", "--type=strategic", "-p", patch)
    for state in ("present", "absent"):
        result = conditions(plane, mine, {**mine, "node": nodes[1]}, state=state)
        assert not result["changed"]
        assert result["kept"] == [f"{node}: another tool has set its condition RdmaFabricReady" for node in nodes]
        assert [row["status"] for row in result["resources"]] == ["unknown", "unknown"]
    assert [condition_of(plane, node)["reason"] for node in nodes] == ["Other", "Other"]


def test_conditions_that_cannot_be(plane: Cluster, nodes: list[str]) -> None:
    text = message_of(FabricError, conditions, plane, {"node": "gpu-99"})
    assert text.startswith("Setting conditions: the cluster has no node gpu-99. There are: ")
    text = message_of(FabricError, conditions, plane, {"node": nodes[0], "reason": "two words"})
    assert (
        text
        == f"Setting the condition of {nodes[0]}: 'two words' is not a valid reason. Use a word such as FabricCheckFailed"
    )


@pytest.mark.long
def test_the_role_fabric_check_sets_the_condition_by_its_verdict(
    plane: Cluster, nodes: list[str], tmp_path: Path
) -> None:
    """This machine's kernel has no RDMA device, so that nothing is measured."""
    groups = {"gpu_nodes": {"hosts": dict.fromkeys(nodes, site.HERE)}, **site.KUBERNETES_API}
    variables = {
        "ansible_become": False,
        "fabric_check_kubeconfig": str(plane.kubeconfig),
        "fabric_check_fail_on": [],
        "fabric_check_node_condition": True,
    }
    play = {"hosts": "gpu_nodes", "roles": ["rdmaops.gpu_fabric.fabric_check"]}
    for number, changed in enumerate((1, 0)):
        argv = site.book(tmp_path / str(number), play, inventory={"all": {"children": groups}}, variables=variables)
        run = site.ansible_playbook(*argv, limit=300)
        assert run.rc == 0, run.output
        assert len([row for row in run.results("Set the condition of the nodes") if row.get("changed")]) == changed
    for node in nodes:
        assert (condition_of(plane, node)["status"], condition_of(plane, node)["reason"]) == (
            "Unknown",
            "FabricCheckUnknown",
        )
