# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is wrong with the values of variables, in a few words; nothing is where Ansible finds nothing."""

from __future__ import annotations

import re
import typing as t

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._run_check.message import MESSAGE, message
from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._run_check.values import listed, mistake

SPEC: dict[str, dict[str, t.Any]] = {
    "mode": {"type": "str", "choices": ["exclusive", "shared"], "default": "exclusive"},
    "ok": {"type": "bool", "default": False},
    "seconds": {"type": "int"},
    "share": {"type": "float"},
    "tests": {"type": "list", "elements": "str", "choices": ["rping", "memlock"]},
    "ports": {"type": "list", "elements": "int"},
    "options": {"type": "dict"},
    "secret": {"type": "dict", "no_log": True},
    "targets": {"type": "list", "elements": "dict", "options": {"name": {"type": "str", "required": True}}},
    "node_maintenance_batch": {"type": "raw"},
}


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("mode", "shared", ""),
        ("mode", "Shared", "is Shared, and must be exclusive or shared"),
        ("mode", None, "is null, and must be exclusive or shared"),
        ("ok", "no", ""),
        ("ok", "yess", "is yess, and must be a boolean (true or false)"),
        ("ok", [], "is [], and must be a boolean (true or false)"),
        ("seconds", "30", ""),
        ("seconds", None, ""),
        ("seconds", "30 s", "is 30 s, and must be an integer"),
        ("share", "80%", "is 80%, and must be a number"),
        ("tests", "rping,memlock", ""),
        ("tests", ["rping", "ping", "pong"], "has ping and pong, and may have rping and memlock"),
        ("options", "x", "is x, and must be a dictionary"),
        ("options", {"a": 1}, ""),
        ("secret", "hunter2", "is not a dictionary"),
        ("targets", [{"name": "a"}], ""),
        ("targets", [{}], "does not fit: missing required arguments: name found in targets"),
        ("node_maintenance_batch", 4, ""),
        ("node_maintenance_batch", "25%", ""),
        ("node_maintenance_batch", [1, "50%"], ""),
        ("node_maintenance_batch", True, "is true, and must be a number of nodes, at least 1, or a share such as 25%"),
        ("node_maintenance_batch", "-1", "is -1, and must be a number of nodes, at least 1, or a share such as 25%"),
        ("node_maintenance_batch", [], "is [], and must be a number of nodes, at least 1, or a share such as 25%"),
    ],
)
def test_values(name: str, value: t.Any, said: str) -> None:
    assert mistake(name, SPEC[name], value) == said


def test_elements() -> None:
    assert mistake("ports", SPEC["ports"], ["x"]).startswith("does not fit: ")
    assert "hunter2" not in mistake("ports", {**SPEC["ports"], "no_log": True}, ["hunter2"])


def test_lists() -> None:
    assert listed([]) == ""
    assert listed("a") == "a"
    assert listed("ab", "or") == "a or b"
    assert listed("abc") == "a, b and c"
    assert listed("abcdef", most=4) == "a, b, c and 3 more"


@pytest.mark.parametrize("count", range(1, 40))
@pytest.mark.parametrize("length", [20, 170, 280, 5000])
def test_a_message_is_short_and_counts_what_it_leaves_out(count: int, length: int) -> None:
    text = message(["x" * (length - 1) + "."] * count)
    assert len(text) <= MESSAGE
    assert text.endswith("Nothing was done.")
    shown = len(re.findall(r"x+\.", text))
    rest = count - shown
    assert shown >= 1
    assert ("There is 1 more mistake." in text) == (rest == 1)
    assert (f"There are {rest} more mistakes." in text) == (rest > 1)
