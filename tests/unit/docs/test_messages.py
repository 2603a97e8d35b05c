# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What docs/red-verdict.md quotes is what the code prints."""

from __future__ import annotations

import ast
import re
import typing as t

import pytest
import yaml

from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._fabric.table import table
from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._fabric.verdict import judge
from ansible_collections.rdmaops.gpu_fabric.tests.support import COLLECTION

PAGE = (COLLECTION / "docs/red-verdict.md").read_text(encoding="utf-8")
HOLE = "\0"
_PERCENT = re.compile(r"%(?:\([a-z_]+\))?[-0-9.*]*[sdrgf]")


def blocks(kind: str, page: str = PAGE) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```", page, re.M | re.S)


def joined(text: str) -> str:
    """Text with one blank for white space, and one hole for holes."""
    return re.sub(HOLE + r"+", HOLE, " ".join(text.split()))


def of_python(tree: ast.AST) -> t.Iterator[str]:
    """The texts of a source file, with a hole for what is put in."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield _PERCENT.sub(HOLE, node.value)
        elif isinstance(node, ast.JoinedStr):
            yield "".join(value.value if isinstance(value, ast.Constant) else HOLE for value in node.values)


def of_yaml(value: t.Any) -> t.Iterator[str]:
    """The texts of a file of tasks, with a hole for each expression."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from of_yaml(item)
    elif isinstance(value, str):
        yield re.sub(r"{{.*?}}|{%.*?%}", HOLE, value, flags=re.S)


def texts() -> set[str]:
    strings: set[str] = set()
    for path in COLLECTION.glob("plugins/**/*.py"):
        strings.update(of_python(ast.parse(path.read_text(encoding="utf-8"))))
    for path in COLLECTION.glob("roles/*/tasks/*.yml"):
        strings.update(of_yaml(yaml.safe_load(path.read_text(encoding="utf-8"))))
    return {joined(text) for text in strings}


TEXTS = texts()
ACCESS = (COLLECTION / "docs/cluster-access.md").read_text(encoding="utf-8")
QUOTED = [line for page in (PAGE, ACCESS) for block in blocks("text", page) for line in block.splitlines()]


@pytest.mark.parametrize("line", QUOTED)
def test_a_quoted_message_is_in_the_code(line: str) -> None:
    desired = joined(re.sub(r"<[a-z ]+>", HOLE, line))
    assert any(desired in text for text in TEXTS)


def test_there_are_messages_and_others_are_not_found() -> None:
    assert len(QUOTED) > 50
    assert not any(f"the port is {HOLE}, and not ACTIVE" in text for text in TEXTS)


def port(state: str) -> dict[str, t.Any]:
    return {
        "rail": 0, "device": "mlx5_0", "port": 1, "netdev": "ens1f0np0", "state": state, "rate_gbps": 100.0,
        "netdev_mtu": 9000, "active_mtu": 4096, "link_layer": "Ethernet", "protocol": "roce",
        "gid_index": 3,
    }  # fmt: skip


def test_the_report_that_is_shown_is_what_is_printed() -> None:
    states = {"gpu-1": "ACTIVE", "gpu-2": "ACTIVE", "gpu-3": "DOWN"}
    nodes = {
        name: {"reachable": True, "problems": [], "busy": [], "gpus": 0, "rails": [port(state)]}
        for name, state in states.items()
    }
    pairs = [["gpu-1", "gpu-2"], ["gpu-1", "gpu-3"], ["gpu-2", "gpu-3"]]
    result = {"client": "gpu-1", "server": "gpu-2", "rail": 0, "test": "ib_write_bw", "ok": True, "gbps": 97.2}
    desired = {"pairs": pairs, "rails": [0], "tests": ["ib_write_bw"]}
    shown = table(judge(nodes, [result], desired, 0.8, "2026-01-01T00:00:00Z"))
    print(shown)
    assert blocks("console") == [shown]
