# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The order in which files come to the disk: after a power cut, it has what was synced (fsync(2)) and maybe the rest."""

from __future__ import annotations

import os
import typing as t
from pathlib import Path

import pytest


def recorded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Record what is synced, and as what, renamed and removed from now on."""
    calls: list[str] = []
    fsync, unlink = os.fsync, os.unlink

    def recorded_fsync(handle: int) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{handle}"))
        fsync(handle)
        if path.is_dir():
            calls.append(f"fsync directory of {' '.join(sorted(os.listdir(path)))}")
        else:
            calls.append(f"fsync {path.name} of {path.stat().st_size} bytes")

    def recording(rename: t.Callable[[str, str], None]) -> t.Callable[[str, str], None]:
        def recorded_rename(source: str, target: str) -> None:
            rename(source, target)
            calls.append(f"rename {Path(source).name} {Path(target).name}")

        return recorded_rename

    def recorded_unlink(path: str, **keywords: t.Any) -> None:
        unlink(path, **keywords)
        calls.append(f"unlink {Path(path).name}")

    monkeypatch.setattr(os, "fsync", recorded_fsync)
    monkeypatch.setattr(os, "rename", recording(os.rename))
    monkeypatch.setattr(os, "replace", recording(os.replace))
    monkeypatch.setattr(os, "unlink", recorded_unlink)
    return calls


__all__ = ["recorded"]
