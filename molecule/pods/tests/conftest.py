# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The cluster with its pods, and the Prometheus that scrapes its nodes."""

from __future__ import annotations

import typing as t

import pytest
from testinfra.host import Host

from ansible_collections.rdmaops.gpu_fabric.molecule.pods.tests import podlab
from ansible_collections.rdmaops.gpu_fabric.tests.support import prometheus


@pytest.fixture(scope="session")
def lab(nodes: dict[str, Host]) -> podlab.PodLab:
    return podlab.PodLab(nodes)


@pytest.fixture(scope="session")
def metrics() -> t.Iterator[prometheus.Prometheus]:
    """A Prometheus with the configuration of role monitoring. It continues with the data of the one before it."""
    with prometheus.running(podlab.PROMETHEUS, podlab.PROMETHEUS / "prometheus.yml") as server:
        server.until('count(up{job="rdma_exporter"} == 1) == 2', podlab.SCRAPE_S)
        yield server


@pytest.fixture(scope="session")
def pods_report(lab: podlab.PodLab, metrics: prometheus.Prometheus) -> podlab.Json:
    """The report of playbook verify on the fabric between the two pods that wait."""
    assert metrics.query("rdma_subsystem_loaded")
    return lab.verify("hold-0", "hold-1", tests=["ibv_devinfo", "memlock", "rping", "ib_write_bw", "ib_write_bw_cm"])
