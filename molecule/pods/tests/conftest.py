# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The cluster with its pods, and what the playbook measures between them."""

from __future__ import annotations

import pytest

from ansible_collections.rdmaops.gpu_fabric.molecule.pods.tests import podlab
from ansible_collections.rdmaops.gpu_fabric.molecule.pods.tests.fixtures import lab, metrics
from ansible_collections.rdmaops.gpu_fabric.tests.support import prometheus


@pytest.fixture(scope="session")
def pods_report(lab: podlab.PodLab, metrics: prometheus.Prometheus) -> podlab.Json:
    """The report of playbook verify on the fabric between the two pods that wait."""
    assert metrics.query("rdma_subsystem_loaded")
    return lab.verify("hold-0", "hold-1", tests=["ibv_devinfo", "memlock", "rping", "ib_write_bw", "ib_write_bw_cm"])


__all__ = ["lab", "metrics", "pods_report"]
