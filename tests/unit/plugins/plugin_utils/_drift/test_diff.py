# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Diffs and values of any kind as text, and as JSON."""

from __future__ import annotations

import typing as t

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._drift.diff import (
    MAX_COMPARED,
    MAX_DEPTH,
    MAX_TEXT,
    diff_text,
    plain,
    text,
)

Json = t.Any
CHANGE = {"before": "a\n", "after": "b\n", "before_header": "/x", "after_header": "/y"}
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.binary()
    | st.text(st.characters(categories=["Cs"])),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner) | st.tuples(inner, inner),
    max_leaves=4,
)


@pytest.mark.parametrize(
    ("diff", "shown"),
    [
        (None, None),
        ([], None),
        ({}, None),
        ({"before": "a", "after": "a"}, None),
        ({"before": None, "after": "x\n"}, "--- before\n+++ after\n@@ -0,0 +1 @@\n+x"),
        ({"after": "x\n"}, "--- before\n+++ after\n@@ -0,0 +1 @@\n+x"),
        ({"before": "x\n"}, "--- before\n+++ after\n@@ -1 +0,0 @@\n-x"),
        ({"before": "x\n", "before_header": "/x", "after_header": ""}, "--- /x\n+++ after\n@@ -1 +0,0 @@\n-x"),
        ({"before": b"\xff", "after": b""}, "--- before\n+++ after\n@@ -1 +0,0 @@\n-\ufffd"),
        ({"before": {"b": 1}, "after": {"b": 2}}, '--- before\n+++ after\n@@ -1,3 +1,3 @@\n {\n- "b": 1\n+ "b": 2\n }'),
        ({"before": ["ä"], "after": []}, '--- before\n+++ after\n@@ -1,3 +1 @@\n-[\n- "ä"\n-]\n+[]'),
        ({"before": {"a": 1, "b": 2}, "after": {"b": 2, "a": 1}}, None),
        ({"before": "a\n", "after": "a"}, "--- before\n+++ after\n(they differ only in line endings)"),
        ({"prepared": "as it is\n"}, "as it is"),
        ({"prepared": ["as", "it"]}, "['as', 'it']"),
        ({"src_binary": 1, "dst_larger": 104448}, "104448\n1"),
        ({"src_binary": 1, "dst_binary": 0}, "1"),
        ([CHANGE, {"prepared": "p"}], "--- /x\n+++ /y\n@@ -1 +1 @@\n-a\n+b\np"),
        ("text", "text"),
        (
            {"before": "", "after": "x" * (MAX_COMPARED + 1)},
            f"--- before\n+++ after\n(0 and {MAX_COMPARED + 1} characters: too long to compare)",
        ),
        (
            {"before": "x" * 3, "after": "x" * (2 * MAX_COMPARED)},
            f"--- before\n+++ after\n(3 and {2 * MAX_COMPARED} characters: too long to compare)",
        ),
    ],
)
def test_diffs(diff: Json, shown: str | None) -> None:
    assert diff_text(diff, 8192) == shown


def test_texts_are_compared_as_long_as_they_are_not_too_long() -> None:
    before, after = "x" * 9, "y" * (MAX_COMPARED - 9)
    shown = diff_text({"before": before, "after": after}, 2 * MAX_COMPARED)
    assert shown == f"--- before\n+++ after\n@@ -1 +1 @@\n-{before}\n+{after}"


def test_a_diff_is_cut() -> None:
    cut = diff_text({"prepared": "x" * 50}, 10)
    assert cut == "x" * 10 + "... (cut, 50 characters in all)"
    assert diff_text({"prepared": "xy"}, 1) == "x... (cut, 2 characters in all)"
    assert diff_text({"prepared": "x"}, 0) is None


class Tagged(str):
    """As Ansible marks texts; str() of an unsafe text of ansible-core 2.18 is that text."""

    def __str__(self) -> str:
        return self


def test_values_are_plain() -> None:
    assert type(plain(Tagged("x"))) is str
    assert type(plain({Tagged("k"): 1})) is dict
    assert plain({1: (2, {3}), None: b"\xc3\xa9"}) == {"1": [2, [3]], "None": "é"}
    assert plain([float("nan"), float("inf"), 1.5, True]) == ["nan", "inf", 1.5, True]
    assert plain("x" * (MAX_TEXT + 1)) == "x" * MAX_TEXT + f"... (cut, {MAX_TEXT + 1} characters in all)"
    assert plain("x" * MAX_TEXT) == "x" * MAX_TEXT
    assert text(b"a" * 100, 4) == "aaaa... (cut, 100 characters in all)"
    assert text("ä".encode(), 1) == "ä"


def nested(wrap: t.Callable[[Json], Json], inner: Json, levels: int) -> Json:
    for _level in range(levels):
        inner = wrap(inner)
    return inner


@pytest.mark.parametrize(
    ("wrap", "kept"),
    [
        (lambda inner: {"k": inner}, lambda inner: {"k": inner}),
        (lambda inner: [inner], lambda inner: [inner]),
        (lambda inner: (inner,), lambda inner: [inner]),
        (lambda inner: frozenset([inner]), lambda inner: [inner]),
    ],
    ids=["dict", "list", "tuple", "frozenset"],
)
def test_values_that_are_nested_too_deep_are_cut(
    wrap: t.Callable[[Json], Json], kept: t.Callable[[Json], Json]
) -> None:
    assert plain(nested(wrap, "end", MAX_DEPTH)) == nested(kept, "end", MAX_DEPTH)
    assert plain(nested(wrap, "end", MAX_DEPTH + 1)) == nested(kept, "... (deeper than 20 levels)", MAX_DEPTH)


@given(VALUES, VALUES)
def test_any_diff_gives_text(before: Json, after: Json) -> None:
    for diff in ({"before": before, "after": after}, [before, {"after": after}], {"prepared": before}, before):
        assert isinstance(diff_text(diff, 100), (str, type(None)))
