# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lets the tests of this scenario import podlab.py, from wherever Molecule starts them."""

from __future__ import annotations

import pathlib
import sys
import typing as t

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))

import podlab

from ansible_collections.rdmaops.gpu_fabric.tests.support import prometheus


@pytest.fixture(scope="session")
def lab() -> podlab.PodLab:
    return podlab.PodLab()


@pytest.fixture(scope="session")
def metrics() -> t.Iterator[prometheus.Prometheus]:
    """A Prometheus on what role monitoring wrote. The next one goes on where this one ended."""
    with prometheus.running(podlab.PROMETHEUS, podlab.PROMETHEUS / "prometheus.yml") as server:
        server.until('count(up{job="rdma_exporter"} == 1) == 2', podlab.SCRAPE_S)
        yield server


@pytest.fixture(scope="session")
def pods_report(lab: podlab.PodLab, metrics: prometheus.Prometheus) -> podlab.Json:
    """What playbook verify says of the fabric between the two pods that wait."""
    assert metrics.query("rdma_subsystem_loaded")
    return lab.verify("hold-0", "hold-1", tests=["ibv_devinfo", "memlock", "rping", "ib_write_bw", "ib_write_bw_cm"])
