# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts with either tool."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.tests.unit.plugins.module_utils._initramfs.rebuild_host import Host


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


@pytest.fixture
def dracut(tmp_path: Path) -> Host:
    return Host(tmp_path, "dracut")
