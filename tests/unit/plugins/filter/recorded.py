# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Recorded output of tools. fixtures/SOURCES.md says where it is from."""

from __future__ import annotations

from pathlib import Path


def read(name: str) -> str:
    return (Path(__file__).parent / "fixtures" / name).read_text()
