# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What every test may use."""

from __future__ import annotations

import os
import shutil
import typing as t
from pathlib import Path

import pytest

COLLECTION = Path(__file__).resolve().parents[2]


def require_all() -> bool:
    """Whether a skip counts as a failure (REQUIRE_ALL=1, as in CI)."""
    return os.environ.get("REQUIRE_ALL", "") not in ("", "0", "false", "no")


def skip_or_fail(reason: str) -> t.NoReturn:
    """Skip for `reason`; fail where everything must be tested."""
    if require_all():
        pytest.fail(f"cannot be tested here, and REQUIRE_ALL is set: {reason}", pytrace=False)
    pytest.skip(reason)


def need_root() -> None:
    """Go on as root only."""
    if os.geteuid() != 0:
        skip_or_fail("needs root")


def need_tool(*names: str) -> str:
    """Return the path of the first tool that exists; skip when there is none."""
    directories = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])
    for name in names:
        path = shutil.which(name, path=directories)
        if path:
            return path
    skip_or_fail(f"needs the tool {' or '.join(names)}")


__all__ = ["COLLECTION", "need_root", "need_tool", "require_all", "skip_or_fail"]
