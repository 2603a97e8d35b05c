# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The cluster that kubeadm has created, with the functions that the scenario `pods` uses on its own."""

from __future__ import annotations

import os

import pytest
from testinfra.host import Host

from ansible_collections.rdmaops.gpu_fabric.molecule.pods.tests import podlab

os.environ["LAB_CLUSTER"] = "kubeadm"


@pytest.fixture(scope="session")
def lab(nodes: dict[str, Host]) -> podlab.PodLab:
    return podlab.PodLab(nodes)
