# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The cluster, and pods that keep the rail on both nodes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ansible_collections.rdmaops.gpu_fabric.molecule.dra.tests import ways
from ansible_collections.rdmaops.gpu_fabric.molecule.pods.tests import podlab
from ansible_collections.rdmaops.gpu_fabric.molecule.pods.tests.fixtures import lab

PODS = {"hold-1": "gpu-1", "hold-2": "gpu-2"}


@pytest.fixture(scope="module")
def held(lab: podlab.PodLab) -> Iterator[dict[str, str]]:
    """The nodes of two pods that have the rail, by the pods' names."""
    first, second = (ways.pod_with_rail(lab, name, node) for name, node in PODS.items())
    with first, second:
        lab.ready(*PODS)
        for pod in PODS:
            ways.has_device(lab, pod)
        yield PODS


__all__ = ["held", "lab"]
