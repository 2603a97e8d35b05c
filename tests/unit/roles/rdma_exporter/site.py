# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""An exporter over a tree of files."""

from __future__ import annotations

import typing as t

from ansible_collections.rdmaops.gpu_fabric.roles.rdma_exporter.files.rdma_exporter.collector import Settings
from ansible_collections.rdmaops.gpu_fabric.roles.rdma_exporter.files.rdma_exporter.look import Exporter
from ansible_collections.rdmaops.gpu_fabric.tests.unit.roles.rdma_exporter.series import Series
from ansible_collections.rdmaops.gpu_fabric.tests.unit.roles.rdma_exporter.tree import Tree


class Site:
    """An exporter and what it has served."""

    def __init__(self, tree: Tree, **settings: t.Any) -> None:
        defaults = {"limit": 20.0, "total": 60.0}
        self.exporter = Exporter(Settings(sysfs=str(tree.root), **{**defaults, **settings}), "test")

    def scrape(self) -> Series:
        return Series(self.exporter.scrape())
