# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is left of the claims once they have been taken back."""

from __future__ import annotations

import pytest

from ansible_collections.rdmaops.gpu_fabric.molecule.dra.tests import ways
from ansible_collections.rdmaops.gpu_fabric.molecule.pods.tests import podlab


@pytest.mark.parametrize(
    "kind",
    ["daemonsets", "resourceclaimtemplates", "resourceclaims", "deviceclasses", "clusterroles,clusterrolebindings"],
)
def test_nothing_is_left_in_the_cluster(lab: podlab.PodLab, kind: str) -> None:
    ours = ("-l", "rdmaops.gpu-fabric/owner") if kind.startswith("cluster") else ()
    assert lab.cluster.json("get", kind, "-A", *ours)["items"] == []


@pytest.mark.parametrize("node", podlab.NODES)
def test_the_devices_are_on_the_host(lab: podlab.PodLab, node: str) -> None:
    ways.until_back(lab, node)
