# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lines of code by directory, and the functions and files that are too long; documentation does not count.

python tests/tools/lines.py
"""

from __future__ import annotations

import ast
import collections
import io
import tokenize
import typing as t

from ansible_collections.rdmaops.gpu_fabric.tests.suite import tree

MOST_OF_A_FUNCTION, MOST_OF_A_FILE = 70, 450
DOCUMENTATION = {"DOCUMENTATION", "EXAMPLES", "RETURN"}
NO_CODE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def sources() -> dict[str, str]:
    """Return the text of each Python file of the repository by its path."""
    return {name: (tree.ROOT / name).read_text(encoding="utf-8") for name in tree.files("*.py")}


def documentation(module: ast.Module) -> set[int]:
    """Return the numbers of the lines that are docstrings, or a plugin's documentation."""
    lines: set[int] = set()
    for node in ast.walk(module):
        text: ast.stmt | None = None
        if (
            isinstance(node, (ast.Module, ast.ClassDef, *FUNCTIONS))
            and ast.get_docstring(node, clean=False) is not None
        ):
            text = node.body[0]
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            text = node if node.targets[0].id in DOCUMENTATION else None
        if text:
            lines.update(range(text.lineno, (text.end_lineno or text.lineno) + 1))
    return lines


def code(text: str) -> int:
    """Return the number of lines that are neither documentation nor comments nor blank."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines - documentation(ast.parse(text)))


def problems(texts: t.Mapping[str, str]) -> list[str]:
    """Return the functions and files that are too long, comments and blank lines included."""
    wrong = []
    for name, text in texts.items():
        module = ast.parse(text)
        prose = documentation(module)
        count = len(set(range(1, len(text.splitlines()) + 1)) - prose)
        if count > MOST_OF_A_FILE:
            wrong.append(f"{name}: {count} lines, and at most {MOST_OF_A_FILE} are allowed in a file")
        for node in ast.walk(module):
            if isinstance(node, FUNCTIONS):
                count = len(set(range(node.lineno, (node.end_lineno or node.lineno) + 1)) - prose)
                if count > MOST_OF_A_FUNCTION:
                    limit = f"at most {MOST_OF_A_FUNCTION} are allowed in a function"
                    wrong.append(f"{name}: {node.name}: {count} lines, and {limit}")
    return wrong


def main() -> None:
    texts = sources()
    counts: collections.Counter[str] = collections.Counter()
    for name, text in texts.items():
        parts = name.split("/")
        counts["/".join(parts[:2]) if parts[0] == "plugins" else parts[0]] += code(text)
    for directory, count in sorted(counts.items()):
        print(f"{count:8,}  {directory}")
    print(f"{sum(counts.values()):8,}  in {len(texts)} files")
    for line in problems(texts):
        print(line)


if __name__ == "__main__":
    main()
