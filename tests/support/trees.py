# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files below a directory that stands for a host's root, its /proc or its /sys."""

from __future__ import annotations

import typing as t
from pathlib import Path


def write_tree(root: Path, files: t.Mapping[str, str | bytes]) -> None:
    """Write files below a directory; their paths may begin with a slash."""
    for name, content in files.items():
        path = root / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8", "surrogateescape"))


__all__ = ["write_tree"]
