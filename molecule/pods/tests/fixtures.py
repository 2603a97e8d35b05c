# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The cluster with its pods, and the Prometheus that scrapes its nodes: fixtures of the scenarios that have pods."""

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


__all__ = ["lab", "metrics"]
