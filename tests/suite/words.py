# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The words of texts for users: pages, documentation, argument specifications, messages; held against words.txt."""

from __future__ import annotations

import ast
import re
import typing as t
from pathlib import Path

LIST = Path(__file__).with_name("words.txt")
# Where users read: whole files, and of Python the strings.
PAGES = (
    "README.md",
    "CONTRIBUTING.md",
    "CODE_OF_CONDUCT.md",
    "MAINTAINERS.md",
    "SECURITY.md",
    "CHANGELOG.md",
    "docs/*.md",
    "docs/**/*.md",
    "inventories/**/*.md",
    "plugins/**/*.j2",
)
YAML = (
    "roles/*/meta/argument_specs.yml",
    "roles/*/tasks/*.yml",
    "roles/*/defaults/*.yml",
    "playbooks/*.yml",
    "inventories/**/*.yml",
    "plugins/filter/*.yml",
    "changelogs/*.yaml",
)
PYTHON = ("plugins/**/*.py", "roles/*/files/**/*.py")


class Turn(t.NamedTuple):
    """A turn to avoid."""

    pattern: re.Pattern[str]
    instead: str


def turns(text: str) -> list[Turn]:
    """Return the turns of a list."""
    rows = [line.split("\t") for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [Turn(re.compile(pattern.strip(), re.IGNORECASE | re.MULTILINE), instead) for pattern, instead in rows]


def strings(source: str) -> t.Iterator[tuple[int, str]]:
    """Yield the strings of a Python file, each with the line that it begins on."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value


def matches(text: str, avoided: t.Sequence[Turn], line: int = 1) -> t.Iterator[str]:
    """Yield what is wrong in a text whose first line has the number ``line``."""
    for turn in avoided:
        for match in turn.pattern.finditer(text):
            yield "%d: '%s': %s" % (line + text.count("\n", 0, match.start()), match.group().strip(), turn.instead)


def problems(root: Path) -> list[str]:
    """Return each turn in the texts for users, by file and line."""
    avoided = turns(LIST.read_text(encoding="utf-8"))
    wrong = []
    for path in sorted({path for pattern in (*PAGES, *YAML, *PYTHON) for path in root.glob(pattern)}):
        text = path.read_text(encoding="utf-8")
        name = path.relative_to(root).as_posix()
        if path.suffix != ".py":
            wrong += [f"{name}:{problem}" for problem in matches(text, avoided)]
            continue
        # How a paragraph begins is a matter of pages: the docstring of a class may begin with a place.
        anywhere = [turn for turn in avoided if not turn.pattern.pattern.startswith("^")]
        wrong += [f"{name}:{problem}" for line, part in strings(text) for problem in matches(part, anywhere, line)]
    return wrong
