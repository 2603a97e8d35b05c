# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The list of words of part lint finds what it is for."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.tests.suite import words

TURNS = words.turns(words.LIST.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("The file is written anew.", "1: 'anew': again, re-create, rebuild"),
        ("One line.\nIt was told twice.", "2: 'was told': is reported, is shown"),
        ("'x' is no pod", "1: 'is no pod': is not a valid ..., has no ..."),
        ("It is no longer there, and there is no pod.", None),
        ("Where it runs matters.", "1: 'Where i': If ..."),
        ("The place where it runs.", None),
    ],
)
def test_turns(text: str, match: str | None) -> None:
    assert list(words.matches(text, TURNS)) == ([match] if match else [])


def test_strings_of_python_count_and_comments_do_not(tmp_path: Path) -> None:
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins/x.py").write_text('# made anew\nMESSAGE = (\n    "it was "\n    "written anew"\n)\n')
    (tmp_path / "README.md").write_text("# Made anew\n")
    assert words.problems(tmp_path) == [
        "README.md:1: 'anew': again, re-create, rebuild",
        "plugins/x.py:3: 'anew': again, re-create, rebuild",
    ]
