# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""No text reaches a shell: commands are lists of words, everywhere in what runs on hosts and on the controller."""

from __future__ import annotations

import ast
import re
import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.rdmaops.gpu_fabric.tests.support import COLLECTION

SOURCES = sorted([*COLLECTION.glob("plugins/**/*.py"), *COLLECTION.glob("roles/*/files/**/*.py")])
TASKS = sorted([*COLLECTION.glob("roles/*/tasks/**/*.yml"), *COLLECTION.glob("roles/*/handlers/*.yml")])
# Functions whose text a shell reads.
SHELLS = {"os.system", "os.popen", "subprocess.getoutput", "subprocess.getstatusoutput"}


def literals(tree: ast.Module) -> set[str]:
    """Names of the module's constants that are a literal text, into which nothing can be put."""
    return {
        ast.unparse(target)
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        for target in node.targets
    }


def shells(source: str) -> list[str]:
    calls = []
    tree = ast.parse(source)
    # A container has no other interpreter that is sure to be there: its shell may read a literal text.
    fixed = literals(tree)
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func)
        calls += [name] if name in SHELLS else []
        calls += [
            f"{name}({word.arg}=...)"
            for word in node.keywords
            if word.arg in ("shell", "use_unsafe_shell") and ast.unparse(word.value) != "False"
        ]
        for word in (ast.unparse(argument) for argument in node.args[:1]):
            script = re.match(r"\['(?:/bin/)?(?:ba)?sh', '-c', (.*?)[],]", word)
            calls += [f"{name}({word})"] if script and script[1] not in fixed else []
    return calls


def relative(path: Path) -> str:
    return str(path.relative_to(COLLECTION))


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_code(path: Path) -> None:
    assert shells(path.read_text()) == []


def each(tasks: t.Any) -> t.Iterator[dict[str, t.Any]]:
    for task in tasks or []:
        yield task
        for part in ("block", "rescue", "always"):
            yield from each(task.get(part))


@pytest.mark.parametrize("path", TASKS, ids=relative)
def test_tasks(path: Path) -> None:
    for task in each(yaml.safe_load(path.read_text())):
        assert not {"shell", "raw", "ansible.builtin.shell", "ansible.builtin.raw"} & task.keys(), task["name"]
        command = task.get("ansible.builtin.command")
        # A text is taken apart at blanks and quotes; a list is not.
        assert command is None or (isinstance(command, dict) and "argv" in command), task["name"]


@pytest.mark.parametrize(
    "source",
    [
        "os.system(x)",
        "subprocess.run(x, shell=True)",
        "m.run_command(x, use_unsafe_shell=y)",
        "run(['sh', '-c', x])",
        "run(['sh', '-c', 'echo ' + x])",
        "run(['/bin/bash', '-c', f'echo {x}', 'bash'])",
        "X = 'echo %s' % y\nrun(['sh', '-c', X, 'sh'])",
    ],
)
def test_the_search_finds_shells(source: str) -> None:
    assert len(shells(source)) == 1


def test_a_literal_text_with_arguments_is_no_text_of_others() -> None:
    assert shells("X = 'echo \"$1\"'\nrun(['sh', '-c', X, 'sh', y])") == []
