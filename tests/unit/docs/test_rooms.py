# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rooms below plugins/: imports go down only, and the page shows what the code does."""

from __future__ import annotations

import ast
import re

import pytest

from ansible_collections.rdmaops.gpu_fabric.tests.support import COLLECTION
from ansible_collections.rdmaops.gpu_fabric.tests.tools import rooms

TEXTS = rooms.sources()
GRAPH = rooms.imports(TEXTS)
PAGE = (COLLECTION / "docs/architecture.md").read_text(encoding="utf-8")
# Beside the packages; whoever adds one finds out that it wants a room.
MOST_FILES = 8


def relative(name: str, target: str) -> str:
    """Return the line by which one file imports another."""
    package, _slash, file = target.rpartition("/")
    return "from %s%s import %s\n" % ("." * len(name.split("/")), package.replace("/", "."), file)


def test_imports_go_down_only() -> None:
    wrong = rooms.problems(GRAPH)
    upward = [line for line in wrong if "is not below it" in line]
    print(
        f"\nrooms: {len(rooms.LEVEL)} in {len(rooms.LEVELS)} levels, {len(GRAPH)} files, "
        f"{len(rooms.cycles(GRAPH))} cycles, {len(upward)} upward imports"
    )
    assert wrong == []


def test_every_import_between_rooms_is_wrong_the_other_way_round() -> None:
    arrows = [(name, target) for name in GRAPH for target in GRAPH[name] if rooms.room(name) != rooms.room(target)]
    assert len(arrows) > 300
    assert [(name, target) for name, target in arrows if rooms.allowed(target, name)] == []


@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("module_utils/_boot/default", "module_utils/_files"),
        ("module_utils/_rdma_mode/manage", "module_utils/_kmod/plan"),
        ("action/fabric_verdict", "plugin_utils/_fabric/verdict"),
    ],
)
def test_an_import_that_is_turned_round_in_the_text(name: str, target: str) -> None:
    line = relative(target, name)
    for text in (line, f"def late():\n    {line}", f"if TYPE_CHECKING:\n    {line}"):
        turned = {name: "", target: TEXTS[target] + text}
        assert f"{target} imports {name}, which is not below it" in rooms.problems(rooms.imports(turned))


def test_a_cycle_inside_a_room_is_found() -> None:
    name, target = "module_utils/_kmod/plan", "module_utils/_kmod/config"
    turned = {name: TEXTS[name], target: TEXTS[target] + relative(target, name)}
    (wrong,) = rooms.problems(rooms.imports(turned))
    assert wrong.startswith("a cycle: ")
    assert name in wrong
    assert target in wrong


def test_a_file_without_a_room_is_found() -> None:
    wrong = rooms.problems(rooms.imports({"module_utils/_attic/x": ""}))
    assert "module_utils/_attic/x is in no room of tests/tools/rooms.py" in wrong


def test_few_files_stand_outside_of_rooms() -> None:
    # __init__ has nothing but the sentence that says what the directory is.
    beside = [name for name in TEXTS if re.fullmatch(r"module_utils/(?!__init__)[^/]+", name)]
    assert len(beside) <= MOST_FILES, beside


def test_imports_below_plugins_are_relative() -> None:
    absolute = [
        name
        for name, text in TEXTS.items()
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(rooms.PACKAGE)
    ]
    assert absolute == []


def test_the_page_has_the_rooms_and_the_picture() -> None:
    for row in rooms.table(TEXTS):
        assert row in PAGE, f"{row}\n(python tests/tools/rooms.py prints the rows)"
    assert rooms.PICTURE.read_text(encoding="utf-8") == rooms.picture(TEXTS), "python tests/tools/rooms.py draws it"


def test_unit_tests_lie_where_the_code_does() -> None:
    """A directory of tests for a room has the room's name."""
    for kind in ("module_utils", "plugin_utils"):
        for path in (COLLECTION / "tests/unit/plugins" / kind).rglob("test_*.py"):
            room = path.parent.relative_to(COLLECTION / "tests/unit").as_posix()
            assert (COLLECTION / room).is_dir(), path


def test_twenty_questions_have_an_answer() -> None:
    section = PAGE.split("## Twenty-five questions", 1)[1].split("\n## ", 1)[0]
    rows = re.findall(r"^\| ([^|]+) \| `([^`|]+)` \|$", section, re.M)
    assert len(rows) >= 20
    for question, path in rows:
        assert (COLLECTION / path).exists(), f"{question}: {path}"
