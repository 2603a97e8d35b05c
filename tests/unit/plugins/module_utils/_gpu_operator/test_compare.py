# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import base64
import copy
import typing as t

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._gpu_operator import compare

# what it is about, old, new, live, what is there after
MERGES = [
    ("defaults stay", {"a": 1}, {"a": 1}, {"a": 1, "default": 2}, {"a": 1, "default": 2}),
    ("an edit is put right", {"a": 1}, {"a": 1}, {"a": 5}, {"a": 1}),
    ("what the chart drops goes", {"a": 1, "b": 1}, {"a": 1}, {"a": 1, "b": 1, "c": 1}, {"a": 1, "c": 1}),
    ("null is no value", {"a": 1}, {"a": None, "b": None}, {"a": 1, "b": 2}, {"b": 2}),
    ("empty is as good as missing", None, {"a": {}, "b": [], "c": "", "d": False, "e": {"f": None}}, {}, {}),
    (
        "quantities",
        None,
        {"cpu": 0.2, "memory": "1Gi", "n": "1"},
        {"cpu": "200m", "memory": "1024Mi", "n": 1},
        {"cpu": "200m", "memory": "1024Mi", "n": 1},
    ),
    ("booleans are no numbers", None, {"a": True}, {"a": 1}, {"a": True}),
    (
        "by name, others stay",
        [{"name": "a", "v": 1}, {"name": "b"}],
        [{"name": "a", "v": 2}],
        [{"name": "b"}, {"name": "x"}, {"name": "a", "v": 1, "d": 0}],
        [{"name": "x"}, {"name": "a", "v": 2, "d": 0}],
    ),
    (
        "by mountPath",
        None,
        [{"name": "v", "mountPath": "/a"}, {"name": "v", "mountPath": "/b"}],
        [{"name": "v", "mountPath": "/b", "ro": 1}, {"name": "v", "mountPath": "/a"}],
        [{"name": "v", "mountPath": "/b", "ro": 1}, {"name": "v", "mountPath": "/a"}],
    ),
    ("a list is not a name", None, [{"name": ["a"], "v": 2}], [{"name": ["a"], "v": 1}], [{"name": ["a"], "v": 2}]),
    ("one by one", None, [{"verbs": ["get"]}], [{"verbs": ["get"], "x": 1}], [{"verbs": ["get"], "x": 1}]),
    ("another length", None, ["a"], ["a", "b"], ["a"]),
]


@pytest.mark.parametrize(("old", "new", "live", "after"), [row[1:] for row in MERGES], ids=[row[0] for row in MERGES])
def test_merge(old: t.Any, new: t.Any, live: t.Any, after: t.Any) -> None:
    before = copy.deepcopy((old, new, live))
    assert compare.merge(old, new, live) == after
    assert (old, new, live) == before
    assert compare.merge(new, new, after) == after  # once more changes nothing


json_like = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | st.sampled_from(["", "a", "1", "100m"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "name"]), inner, max_size=3),
    max_leaves=8,
)


@given(old=json_like, new=json_like, live=json_like)
def test_merging_twice_is_merging_once(old: t.Any, new: t.Any, live: t.Any) -> None:
    once = compare.merge(old, new, live)
    assert compare.changes(once, compare.merge(new, new, once)) == []


@given(one=json_like)
def test_nothing_differs_from_itself(one: t.Any) -> None:
    assert compare.changes(one, copy.deepcopy(one)) == []


SCHEMA: dict[str, t.Any] = {
    "type": "object",
    "properties": {
        "known": {"type": "string"},
        "nullable": {"type": "string", "nullable": True},
        "list": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "integer"}}}},
        "map": {"type": "object", "additionalProperties": {"type": "string"}},
        "free": {
            "type": "object",
            "x-kubernetes-preserve-unknown-fields": True,
            "properties": {"in": {"type": "object", "properties": {}}},
        },
        "made": {"type": "object", "default": {}, "properties": {"number": {"type": "integer", "default": 1}}},
    },
}


def test_prune_and_default() -> None:
    lost: list[tuple[str, t.Any]] = []
    given = {
        "known": "x",
        "new": {"a": 1},
        "nullable": None,
        "list": [{"a": 1, "b": 2}],
        "map": {"any": "x"},
        "free": {"x": 1, "in": {"y": 1}},
    }
    kept = compare.prune(given, SCHEMA, "spec", lost)
    assert kept == {
        "known": "x",
        "nullable": None,
        "list": [{"a": 1}],
        "map": {"any": "x"},
        "free": {"x": 1, "in": {}},
        "made": {"number": 1},
    }
    assert lost == [("spec.new", {"a": 1}), ("spec.list[0].b", 2), ("spec.free.in.y", 1)]


def test_without_a_schema_all_is_kept() -> None:
    assert compare.prune({"a": 1}, None, "spec", []) == {"a": 1}


def test_changes_name_the_path() -> None:
    before = {"spec": {"containers": [{"name": "a", "image": "x"}], "gone": 1, "list": [1, 2]}}
    after = {"spec": {"containers": [{"name": "a", "image": "y"}], "list": [1, 3]}}
    assert compare.changes(before, after) == [
        compare.Change("spec.containers[a].image", "x", "y"),
        compare.Change("spec.gone", 1, None),
        compare.Change("spec.list[1]", 2, 3),
    ]


def test_secrets_are_hidden_and_their_change_is_seen() -> None:
    one = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"key": "QUJD", "same": "eA=="}}
    other = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"key": "WFla", "same": "eA=="}}
    before, after = compare.mask(one, other), compare.mask(other, one)
    assert "QUJD" not in str(before)
    assert "WFla" not in str(after)
    assert before["data"]["key"] != compare.HIDDEN
    assert before["data"]["same"] == after["data"]["same"] == compare.HIDDEN
    assert before["metadata"] == {"name": "s"}


def test_secrets_by_their_names() -> None:
    given = {
        "ngcToken": "hidden1",
        "imagePullSecrets": ["regcred"],
        "secretName": "shown",
        "env": [{"name": "API_KEY", "value": "hidden2"}, {"name": "MODE", "value": "shown"}],
    }
    assert compare.secrets(given) == {"hidden1", "hidden2"}
    masked = str(compare.mask(given))
    assert "hidden1" not in masked
    assert "hidden2" not in masked
    assert masked.count("shown") == 2
    assert "regcred" in masked


def test_a_masked_change() -> None:
    hidden = compare.mask_change(compare.Change("spec.env[API_TOKEN].value", "old-one", "new-one"), "Deployment")
    assert (hidden.before, hidden.after) == (compare.HIDDEN, "(hidden, different)")
    hidden = compare.mask_change(compare.Change("data.x", "b2xk", "bmV3"), "Secret")
    assert "b2xk" not in str(hidden)
    assert compare.mask_change(compare.Change("spec.driver.version", "1", "2"), "ClusterPolicy").after == "2"


def test_prepared_as_helm_sends_it() -> None:
    made = compare.prepared({"kind": "Secret", "metadata": {"name": "s"}, "stringData": {"a": "b"}}, "r", "n")
    assert made["data"] == {"a": base64.b64encode(b"b").decode()}
    assert "stringData" not in made
    assert made["metadata"]["annotations"] == {"meta.helm.sh/release-name": "r", "meta.helm.sh/release-namespace": "n"}


def test_hooks_are_apart() -> None:
    objects, hooks = compare.documents(
        "---\n# Source: x\nkind: A\nmetadata: {name: a, creationTimestamp: 2024-01-01T00:00:00Z}\n---\n---\nkind: Job\n"
        "metadata: {name: j, annotations: {helm.sh/hook: pre-upgrade}}\n---\nkind: List\nitems: [{kind: B}]\n"
    )
    assert [one["kind"] for one in objects] == ["A", "B"]
    assert [one["kind"] for one in hooks] == ["Job"]
    assert objects[0]["metadata"]["creationTimestamp"] == "2024-01-01T00:00:00Z"
