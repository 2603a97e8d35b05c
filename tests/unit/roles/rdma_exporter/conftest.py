# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fixtures of scrapes."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.roles.rdma_exporter.files.rdma_exporter.kept import KeptFiles
from ansible_collections.rdmaops.gpu_fabric.tests.unit.roles.rdma_exporter.tree import Tree


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path / "sys")


@pytest.fixture
def closed_files(monkeypatch: pytest.MonkeyPatch) -> t.Iterator[None]:
    """Close what exporters keep open: an exporter itself keeps it until its process ends."""
    created: list[KeptFiles] = []
    init = KeptFiles.__init__

    def recorded(kept: KeptFiles, most: int) -> None:
        init(kept, most)
        created.append(kept)

    monkeypatch.setattr(KeptFiles, "__init__", recorded)
    yield
    for kept in created:
        kept.close()
