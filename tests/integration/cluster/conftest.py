# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A control plane that tests may stop, and that has no CRDs but theirs; nodes on it that can be drained."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ansible_collections.rdmaops.gpu_fabric.tests.support.cluster import Cluster, cluster, private
from ansible_collections.rdmaops.gpu_fabric.tests.support.drains import lease_namespace
from ansible_collections.rdmaops.gpu_fabric.tests.support.kubelet import Lab


@pytest.fixture(scope="module")
def own_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with private(tmp_path_factory.mktemp("lab-state")) as plane:
        yield plane


@pytest.fixture
def plane() -> Cluster:
    """The lab's control plane, which all tests share."""
    return cluster()


@pytest.fixture
def lab(own_cluster: Cluster) -> Iterator[Lab]:
    with own_cluster.namespace() as namespace, Lab(own_cluster, namespace) as lab, lease_namespace(own_cluster):
        yield lab
