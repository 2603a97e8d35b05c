# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: python_tree
short_description: Read a directory of Python code, to copy it to nodes
version_added: 0.1.0
description:
  - Reads the Python files of a directory on the controller and of all directories below it. Other files, such as
    compiled ones, are left out.
author:
  - rdmaops contributors (@rdmaops)
positional: names, prefix
options:
  _input:
    description: The directory on the controller.
    type: path
    required: true
  names:
    description: Only these files and directories in it. An empty list means all.
    type: list
    elements: str
    default: []
  prefix:
    description: What to prepend to each path in the result.
    type: str
    default: ""
"""

EXAMPLES = r"""
- name: Copy a program to the host
  rdmaops.gpu_fabric.owned_files:
    files: >-
      {{ (role_path ~ '/files') | rdmaops.gpu_fabric.python_tree(prefix='/usr/local/lib/program/')
         | dict2items(key_name='path', value_name='content') }}
"""

RETURN = r"""
_value:
  description: The text of each file by its path, relative to the directory, in the order of the paths.
  type: dict
  sample: {"__main__.py": "import program", "program/__init__.py": ""}
"""

import typing as t
from pathlib import Path

from ansible.errors import AnsibleFilterError


def _python_files(path: Path) -> list[Path]:
    """Return a file, or the Python files of a directory."""
    return sorted(path.rglob("*.py")) if path.is_dir() else [path]


def python_tree(directory: str, names: t.Sequence[str] = (), prefix: str = "") -> dict[str, str]:
    """Return texts by paths."""
    root = Path(directory)
    paths = [path for name in sorted(names or ["."]) for path in _python_files(root / name)]
    try:
        return {prefix + path.relative_to(root).as_posix(): path.read_text(encoding="utf-8") for path in paths}
    except OSError as exc:
        raise AnsibleFilterError("Reading the Python code in %s: %s" % (directory, exc)) from exc


class FilterModule:
    """The filter of this file."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Return filters by name."""
        return {"python_tree": python_tree}
