# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What results say about objects: a table of rules, values and diffs of any kind, and nothing that no_log hides."""

from __future__ import annotations

import json
import typing as t

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._drift.objects import (
    FAILED,
    OK,
    SKIPPED,
    UNREACHABLE,
    Task,
    objects_of,
)
from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._drift.report import OBJECT_KEYS
from ansible_collections.rdmaops.gpu_fabric.tests.unit.plugins.plugin_utils._drift.test_diff import CHANGE, VALUES

Json = t.Any
COPY = Task(name="Copy it", action="ansible.builtin.copy", check_mode=True, diff=True)
OWN = Task(name="Ours", action="rdmaops.gpu_fabric.rdma_system", check_mode=True, diff=True)
CENSORED = {"censored": "hidden"}
WHEN = {"skip_reason": "Conditional result was False", "false_condition": "x"}
MESSAGE = "remote module (x) does not support check mode"


def values(name: str, task: Task, outcome: str, result: Json) -> list[Json]:
    """Return one field of every object that a result is about."""
    return [entry[name] for entry in objects_of(task, outcome, result)]


def action(name: str, **more: Json) -> Task:
    return COPY._replace(action=name, **more)


# the task, how it ended, its result, the statuses of the objects
RULES: dict[str, tuple[Task, str, Json, list[str]]] = {
    "in sync": (COPY, OK, {"changed": False}, ["in_sync"]),
    "drift": (COPY, OK, {"changed": True}, ["drift"]),
    "no word on changed": (COPY, OK, {}, ["in_sync"]),
    "failed": (COPY, FAILED, {"changed": True, "msg": "no"}, ["unknown"]),
    "unreachable": (COPY, UNREACHABLE, {"unreachable": True}, ["unknown"]),
    "left out by when": (COPY, SKIPPED, {"skipped": True, **WHEN}, []),
    "left out by when, in 2.18": (COPY, SKIPPED, {"skip_reason": "Conditional result was False"}, []),
    "left out by when, by its condition only": (COPY, SKIPPED, {"false_condition": "x"}, []),
    "an empty loop": (COPY, SKIPPED, {"skipped_reason": "No items in the list", "results": []}, []),
    "no check mode": (COPY, SKIPPED, {"msg": MESSAGE}, ["unknown"]),
    "skipped without a reason": (COPY, SKIPPED, {}, ["unknown"]),
    "creates of a script": (action("ansible.builtin.script"), SKIPPED, {"msg": "skipped, since /x exists"}, ["in_sync"]),
    "steering": (action("ansible.builtin.add_host"), OK, {"changed": True}, []),
    "steering that is skipped": (action("ansible.builtin.wait_for"), SKIPPED, {"msg": MESSAGE}, []),
    "steering that fails": (action("ansible.builtin.assert"), FAILED, {"msg": "no"}, ["unknown"]),
    "looking": (action("ansible.builtin.stat"), OK, {"changed": False}, []),
    "looking without check mode": (action("ansible.builtin.stat"), SKIPPED, {"msg": MESSAGE}, ["unknown"]),
    "an info module": (action("kubernetes.core.k8s_info"), OK, {"resources": [{"kind": "Pod"}]}, []),
    "a facts module": (action("ansible.builtin.package_facts"), OK, {}, []),
    "a module that is called so and changes": (action("ansible.builtin.uri"), OK, {"changed": True}, ["drift"]),
    "a command that only looks": (action("x.y.z", never_changes=True), OK, {"changed": False}, []),
    "a handler": (COPY._replace(handler=True), OK, {"changed": True}, []),
    "a handler without check mode": (COPY._replace(handler=True), SKIPPED, {"msg": MESSAGE}, []),
    "a handler that fails": (COPY._replace(handler=True), FAILED, {}, ["unknown"]),
    "in the background": (COPY, OK, {"ansible_job_id": "j1", "finished": 0, "changed": True}, ["unknown"]),
    "in the background, waited for": (COPY, OK, {"ansible_job_id": "j1", "finished": 1, "changed": True}, ["drift"]),
    "censored": (COPY, OK, {**CENSORED, "changed": True}, ["drift"]),
    "censored and skipped": (COPY, SKIPPED, CENSORED, ["unknown"]),
    "the verdict": (action("rdmaops.gpu_fabric.drift_verdict"), FAILED, {"msg": "drift"}, []),
    "results of a module itself": (COPY, OK, {"changed": True, "results": [{"item": 1}]}, ["drift"]),
    "results that are texts": (COPY, OK, {"changed": True, "results": ["installed"]}, ["drift"]),
    "of ours, nothing to tell": (OWN, OK, {"changed": False}, []),
    "of ours, changed": (OWN, OK, {"changed": True}, ["drift"]),
    "of ours, no resources": (OWN, OK, {"changed": True, "resources": []}, []),
    "of ours, failed": (OWN, FAILED, {"resources": [{"kind": "k", "name": "n", "status": "in_sync"}]}, ["in_sync", "unknown"]),
    "of ours, a status nobody knows": (OWN, OK, {"resources": [{"kind": "k", "name": "n", "status": "ok"}]}, ["unknown"]),
    "of ours, a handler": (OWN._replace(handler=True), OK, {"resources": [{"kind": "k", "name": "n", "status": "drift"}]}, ["drift"]),
    "of ours, censored": (OWN, OK, {**CENSORED, "changed": True, "resources": [{"status": "in_sync"}]}, ["drift"]),
    "resources of others": (COPY, OK, {"changed": False, "resources": [{"status": "drift"}]}, ["in_sync"]),
}  # fmt: skip


@pytest.mark.parametrize(("task", "outcome", "result", "statuses"), RULES.values(), ids=RULES)
def test_rules(task: Task, outcome: str, result: Json, statuses: list[str]) -> None:
    entries = objects_of(task, outcome, result)
    assert [entry["status"] for entry in entries] == statuses
    for entry in entries:
        assert set(entry) - {"job"} == set(OBJECT_KEYS)


@pytest.mark.parametrize(
    ("outcome", "result", "why"),
    [
        (FAILED, {"msg": "no such file"}, "the task failed: no such file"),
        (FAILED, {}, "the task failed"),
        (FAILED, {"reason": "no tasks.yml"}, "the task failed: no tasks.yml"),
        (FAILED, {"msg": "no such file", "reason": "no tasks.yml"}, "the task failed: no such file"),
        (FAILED, {**CENSORED, "msg": "secret"}, "the task failed"),
        (FAILED, {"msg": "x" * 600}, "the task failed: " + "x" * 500 + "... (cut, 600 characters in all)"),
        (UNREACHABLE, {"msg": "refused"}, "the host could not be reached: refused"),
        (UNREACHABLE, {}, "the host could not be reached"),
        (SKIPPED, {"msg": MESSAGE}, "the task was skipped: " + MESSAGE),
        (SKIPPED, CENSORED, "the task was skipped, and no_log hides why"),
        (OK, {"ansible_job_id": "1"}, "the task runs in the background, and its result was not seen"),
        (OK, {"changed": True}, None),
    ],
)
def test_why(outcome: str, result: Json, why: str | None) -> None:
    assert values("why", COPY, outcome, result) == [why]


# how it ended, its result, the status and the diff
@pytest.mark.parametrize(
    ("outcome", "result", "seen"),
    [
        (OK, {}, [("in_sync", None, None)]),
        (OK, {"changed": True, "diff": {"prepared": "+x"}}, [("drift", None, True)]),
        (SKIPPED, CENSORED, [("unknown", None, None)]),
    ],
)
def test_what_is_not_known_of_a_task_is_not_assumed(outcome: str, result: Json, seen: list[Json]) -> None:
    entries = objects_of(Task("Do it", "x.y.z"), outcome, result)
    assert [(entry["status"], entry["diff"], entry["repaired"]) for entry in entries] == seen


JOB = {"ansible_job_id": "j1", "finished": 0}


# the job whose result is to replace the object
@pytest.mark.parametrize(
    ("task", "outcome", "result", "job"),
    [
        (COPY, OK, JOB, "j1"),
        (COPY, OK, {"ansible_job_id": "j1"}, "j1"),
        (COPY, FAILED, JOB, "j1"),
        (COPY, OK, {**JOB, "finished": 1}, None),
        (COPY, FAILED, {**JOB, "finished": 1}, None),
        (COPY, FAILED, {}, None),
        (action("ansible.builtin.async_status"), FAILED, JOB, None),
    ],
)
def test_the_job_that_an_object_waits_for(task: Task, outcome: str, result: Json, job: str | None) -> None:
    (entry,) = objects_of(task, outcome, result)
    assert entry.get("job") == job


# conditional, in check mode, the module has a check mode: the objects of a censored task that was skipped
@pytest.mark.parametrize(
    ("conditional", "check_mode", "predicts", "number"),
    [
        (True, True, True, 0),
        (True, True, False, 1),
        (True, False, False, 0),
        (False, True, True, 1),
        (False, False, True, 1),
    ],
)
def test_a_censored_task_that_was_skipped(conditional: bool, check_mode: bool, predicts: bool, number: int) -> None:
    task = COPY._replace(conditional=conditional, check_mode=check_mode)
    assert len(objects_of(task, SKIPPED, CENSORED, predicts=lambda: predicts)) == number


@pytest.mark.parametrize(
    ("result", "arguments", "name"),
    [
        ({"dest": "/d", "path": "/p"}, {"dest": "/a"}, "/d"),
        ({"path": "/p"}, {}, "/p"),
        ({"invocation": {"module_args": {"name": ["a", "b"]}}}, {}, "a, b"),
        ({"invocation": {"module_args": {"name": "a"}}}, {"path": "secret"}, "a"),
        ({"invocation": {"module_args": {}}}, {"path": "secret"}, "Copy it"),
        ({"invocation": {"module_args": "hidden"}}, {"path": "secret"}, "Copy it"),
        ({"invocation": "hidden"}, {"path": "secret"}, "Copy it"),
        ({}, {"path": "/p"}, "/p"),
        ({"name": ""}, {"name": 5}, "Copy it"),
        ({"name": [1, 2]}, {}, "Copy it"),
        ({"name": [], "unit": "u"}, {}, "u"),
        ({"name": ["a", 2], "unit": "u"}, {}, "u"),
        ({}, {"path": "{{ place }}/p", "name": "n"}, "n"),
        ({}, {"path": ["{{ item }}"]}, "Copy it"),
        ({"path": "x" * 501}, {}, "x" * 500 + "... (cut, 501 characters in all)"),
        ({**CENSORED, "path": "/p"}, {"path": "/p"}, "Copy it"),
        ({"changed": True, "dest": "/d", "path": "/p", "name": "n", "unit": "u"}, {}, "/d"),
        ({"changed": True, "path": "/p", "name": "n", "unit": "u"}, {}, "/p"),
        ({"changed": True, "name": "n", "unit": "u"}, {}, "n"),
        ({"changed": True, "unit": "u.service"}, {}, "u.service"),
        ({"changed": True}, {}, "Copy it"),
    ],
)
def test_names(result: Json, arguments: Json, name: str) -> None:
    (entry,) = objects_of(COPY._replace(arguments=arguments), OK, result)
    assert entry["name"] == name
    assert entry["kind"] == "ansible.builtin.copy"


def test_resources_of_ours_as_they_are() -> None:
    resource = {
        "kind": "k", "name": "n", "status": "drift", "desired": {"a": [1]}, "configured": None, "live": "x",
        "next_boot": False, "why": "because",
    }  # fmt: skip
    task = OWN._replace(role="rdmaops.gpu_fabric.gpu_node", delegate_to="other")
    (entry,) = objects_of(task, OK, {"changed": True, "resources": [{**resource, "more": "no"}, "text"]})
    place = {"role": task.role, "task": "Ours", "action": OWN.action, "item": None, "delegated_to": "other"}
    assert entry == {**resource, **place, "diff": None, "repaired": False}


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({}, None),
        ({"why": "", "reason": ""}, None),
        ({"why": "because"}, "because"),
        ({"reason": "in use"}, "in use"),
        ({"why": "", "reason": "in use"}, "in use"),
        ({"why": "because", "reason": "in use"}, "because"),
        ({"why": "x" * 501}, "x" * 500 + "... (cut, 501 characters in all)"),
    ],
)
def test_why_a_resource_is_so(said: Json, why: str | None) -> None:
    assert values("why", OWN, OK, {"resources": [{"kind": "k", "name": "n", "status": "drift", **said}]}) == [why]


# what the task said: whether its drift is repaired
@pytest.mark.parametrize(
    ("outcome", "check_mode", "result", "repaired"),
    [
        (OK, False, {"changed": True}, True),
        (OK, True, {"changed": True}, False),
        (OK, False, {"changed": False}, False),
        (OK, False, {"changed": True, "reboot_required": True}, False),
        (FAILED, False, {"changed": True}, False),
    ],
)
def test_whether_ours_is_repaired(outcome: str, check_mode: bool, result: Json, repaired: bool) -> None:
    resources = [{"kind": "k", "name": "n", "status": "drift"}, {"kind": "k", "name": "o", "status": "in_sync"}]
    entries = objects_of(OWN._replace(check_mode=check_mode), outcome, {**result, "resources": resources})
    assert [entry["repaired"] for entry in entries[:2]] == [repaired, None]


def test_whether_others_are_repaired() -> None:
    assert values("repaired", COPY, OK, {"changed": True}) == [False]
    assert values("repaired", COPY._replace(check_mode=False), OK, {"changed": True}) == [True]
    assert values("repaired", COPY._replace(check_mode=False), OK, {"changed": False}) == [None]


# What steers a run is no object even if it reports a change; what looks is none unless it does.
STEERS = (
    "add_host fail fetch group_by include_role include_tasks include_vars meta pause reboot set_fact set_stats tempfile"
)
LOOKS = "find gather_facts getent ping setup slurp stat uri service_facts"


@pytest.mark.parametrize("name", [*STEERS.split(), *LOOKS.split()])
@pytest.mark.parametrize("changed", [True, False])
def test_what_is_no_object(name: str, changed: bool) -> None:
    assert values("status", action("ansible.builtin." + name), OK, {"changed": changed}) == (
        ["drift"] if changed and name not in STEERS.split() else []
    )


# --- loops --------------------------------------------------------------------------------------------------------


def item(label: Json, **more: Json) -> Json:
    return {"ansible_loop_var": "item", "item": label, "_ansible_item_label": label, **more}


def test_items() -> None:
    results = [
        item("a", changed=False),
        item("b", changed=True),
        item("c", failed=True, msg="no"),
        item("d", skipped=True, **WHEN),
        item("e", skipped=True, msg=MESSAGE),
        item("f", unreachable=True),
        item("g", failed=True, failed_when_result=False, changed=False),
        item("h", failed_when_result=True),
    ]
    entries = objects_of(COPY, FAILED, {"results": results, "changed": True, "msg": "One or more items failed"})
    statuses = {"in_sync": "ag", "drift": "b", "unknown": "cefh"}
    expected = sorted((name, status) for status, names in statuses.items() for name in names)
    assert [(entry["item"], entry["status"]) for entry in entries] == expected
    assert [entry["name"] for entry in entries] == [entry["item"] for entry in entries]


def test_a_loop_that_fails_though_no_item_did() -> None:
    entries = objects_of(COPY, FAILED, {"results": [item("a")], "msg": "no"})
    assert [(entry["item"], entry["status"]) for entry in entries] == [("a", "in_sync"), (None, "unknown")]


def test_censored_items_end_as_their_events_say() -> None:
    results = [{**CENSORED, "changed": True}, CENSORED, CENSORED, {**CENSORED, "changed": False}]
    entries = objects_of(COPY, FAILED, {**CENSORED, "results": results}, outcomes=[OK, FAILED, SKIPPED, OK])
    statuses = [(entry["item"], entry["status"]) for entry in entries]
    assert statuses == [("#1", "drift"), ("#2", "unknown"), ("#3", "unknown"), ("#4", "in_sync")]
    # Without them nothing is told of which one it was, but that one failed is.
    without_events = values("status", COPY, FAILED, {**CENSORED, "results": results})
    assert without_events == ["drift", "in_sync", "in_sync", "in_sync", "unknown"]


@pytest.mark.parametrize(
    ("label", "shown"),
    [
        ("a", "a"),
        (7, "7"),
        ({"name": "jo", "password": "hunter2"}, "jo"),
        ({"path": "/p", "password": "hunter2"}, "/p"),
        ({"password": "hunter2"}, "#1"),
        ({"name": {"x": "hunter2"}, "id": 3}, "3"),
        (["hunter2"], "#1"),
        (None, "#1"),
        (True, "#1"),
        ("", "#1"),
        ("x" * 300, "x" * 200 + "... (cut, 300 characters in all)"),
    ],
)
def test_what_items_are_called(label: Json, shown: str) -> None:
    (entry,) = objects_of(COPY, OK, {"results": [item(label)]})
    assert entry["item"] == shown
    assert "hunter2" not in json.dumps(entry)


def test_the_label_of_loop_control_names_an_item() -> None:
    assert values("item", COPY, OK, {"results": [{**item({"name": "hunter2"}), "_ansible_item_label": "jo"}]}) == ["jo"]


def test_the_loop_variable_where_there_is_no_label() -> None:
    assert values("item", COPY, OK, {"results": [{"ansible_loop_var": "user", "user": "jo"}]}) == ["jo"]


def test_resources_of_items() -> None:
    results = [item(label, resources=[{"kind": "k", "name": "n", "status": "in_sync"}]) for label in ("a", "b")]
    entries = objects_of(OWN, OK, {"results": results})
    assert [(entry["name"], entry["item"]) for entry in entries] == [("n", "a"), ("n", "b")]


# --- diffs ---------------------------------------------------------------------------------------------


def test_a_diff_stands_with_the_first_drift() -> None:
    resources = [{"kind": "k", "name": n, "status": s} for n, s in (("a", "in_sync"), ("b", "drift"), ("c", "drift"))]
    assert values("diff", OWN, OK, {"changed": True, "diff": CHANGE, "resources": resources}) == [
        None,
        "--- /x\n+++ /y\n@@ -1 +1 @@\n-a\n+b",
        None,
    ]


@pytest.mark.parametrize(
    ("task", "outcome", "result"),
    [
        (COPY._replace(diff=False), OK, {"changed": True}),
        (COPY, OK, {"changed": True, **CENSORED}),
        (COPY, OK, {"changed": False}),
        (COPY, FAILED, {"changed": True}),
    ],
)
def test_no_diff(task: Task, outcome: str, result: Json) -> None:
    assert values("diff", task, outcome, {**result, "diff": CHANGE}) == [None]


RESULTS = st.dictionaries(
    st.sampled_from(
        [
            "changed", "failed", "skipped", "unreachable", "msg", "diff", "results", "resources", "censored", "item",
            "ansible_loop_var", "_ansible_item_label", "invocation", "path", "name", "skip_reason", "ansible_job_id",
            "finished", "failed_when_result", "reason", "reboot_required",
        ]
    ),
    VALUES,
)  # fmt: skip


@given(
    st.sampled_from([COPY, OWN, OWN._replace(check_mode=False)]),
    st.sampled_from([OK, FAILED, SKIPPED, UNREACHABLE]),
    RESULTS,
    st.lists(RESULTS, max_size=3),
)
def test_any_result_gives_json(task: Task, outcome: str, result: Json, items: Json) -> None:
    for answer in (result, {**result, "results": [{"ansible_loop_var": "item", **entry} for entry in items]}):
        entries = objects_of(task, outcome, answer)
        json.dumps(entries, allow_nan=False)
        for entry in entries:
            assert entry["status"] in ("in_sync", "drift", "unknown")
            assert isinstance(entry["name"], str)
            assert isinstance(entry["kind"], str)
        if outcome in (FAILED, UNREACHABLE):
            assert any(entry["status"] == "unknown" for entry in entries)


@settings(max_examples=40)
@given(RESULTS, st.text(min_size=8, alphabet="\u0416\u0417"))
def test_nothing_of_a_censored_result(result: Json, secret: str) -> None:
    """Ansible empties such a result; were something left in it, it would not be taken."""
    hidden = dict.fromkeys((*result, "msg", "path", "diff", "name", "reason"), secret)
    result = {**hidden, "changed": True, "censored": "hidden"}
    for task in (COPY._replace(arguments={"path": secret}), OWN):
        for outcome in (OK, FAILED, SKIPPED, UNREACHABLE):
            assert secret not in json.dumps(objects_of(task, outcome, result), ensure_ascii=False)
            assert secret not in json.dumps(
                objects_of(task, outcome, {**CENSORED, "results": [result]}), ensure_ascii=False
            )
