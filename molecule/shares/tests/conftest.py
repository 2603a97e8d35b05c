# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The cluster whose pods share the RDMA devices of their node."""

from __future__ import annotations

import pytest
from testinfra.host import Host

from ansible_collections.rdmaops.gpu_fabric.molecule.pods.tests import podlab


@pytest.fixture(scope="session")
def lab(nodes: dict[str, Host]) -> podlab.PodLab:
    return podlab.PodLab(nodes)
