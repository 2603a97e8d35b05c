# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The cluster that has trained."""

from __future__ import annotations

from ansible_collections.rdmaops.gpu_fabric.molecule.pods.tests.fixtures import lab, metrics

__all__ = ["lab", "metrics"]
