# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts that are this machine, for runs with the callback drift."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.tests.support.drift import Place


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """Two hosts."""
    return Place(tmp_path, ["gpu-1", "gpu-2"])


@pytest.fixture
def host(tmp_path: Path) -> Place:
    """One host."""
    return Place(tmp_path, ["gpu-1"])
