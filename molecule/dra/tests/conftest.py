# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The cluster whose pods get RDMA devices by claims."""

from __future__ import annotations

from ansible_collections.rdmaops.gpu_fabric.molecule.pods.tests.fixtures import lab

__all__ = ["lab"]
