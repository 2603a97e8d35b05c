# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""No function and no file is too long; documentation does not count."""

from __future__ import annotations

import pytest

from ansible_collections.rdmaops.gpu_fabric.tests.tools import lines

LONG_TEXT = '"""' + "text\n" * 500 + '"""\n'


def test_no_function_and_no_file_is_too_long() -> None:
    assert lines.problems(lines.sources()) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x = 1\n" * 450, []),
        ("x = 1\n" * 400 + "# why\n" * 51, ["a.py: 451 lines, and at most 450 are allowed in a file"]),
        (LONG_TEXT + "DOCUMENTATION = " + LONG_TEXT + "x = 1\n", []),
        ("def f():\n" + "    x = 1\n" * 69, []),
        ("class C:\n    async def f(self):\n" + "        x = 1\n" * 70,
         ["a.py: f: 71 lines, and at most 70 are allowed in a function"]),
    ],
)  # fmt: skip
def test_what_is_too_long_is_named_with_its_count(text: str, expected: list[str]) -> None:
    assert lines.problems({"a.py": text}) == expected


def test_lines_of_code() -> None:
    assert lines.code('"""Doc."""\n\n# why\nx = [\n    1,  # one\n\n]\ny = """\n# text\n"""\n') == 6
