# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Python code of the controller, as a role copies it to nodes."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.rdmaops.gpu_fabric.plugins.filter.python_tree import python_tree


@pytest.fixture
def code(tmp_path: Path) -> str:
    for path in ("main.py", "kept/b.py", "kept/a.py", "kept/below/c.py", "left/d.py"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(f"# {path}\n")
    (tmp_path / "kept/__pycache__").mkdir()
    (tmp_path / "kept/__pycache__/a.cpython-311.pyc").write_bytes(b"\x00")
    (tmp_path / "README.md").write_text("left out")
    return str(tmp_path)


def test_a_whole_directory(code: str) -> None:
    tree = python_tree(code)
    assert list(tree) == ["kept/a.py", "kept/b.py", "kept/below/c.py", "left/d.py", "main.py"]
    assert tree["main.py"] == "# main.py\n"


def test_some_names_with_a_prefix(code: str) -> None:
    tree = python_tree(code, ["main.py", "kept"], "lib/")
    assert list(tree) == ["lib/kept/a.py", "lib/kept/b.py", "lib/kept/below/c.py", "lib/main.py"]


def test_a_missing_file_is_an_error(code: str) -> None:
    with pytest.raises(AnsibleFilterError, match=r"Reading the Python code in .*No such file or directory"):
        python_tree(code, ["none.py"])
