# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What stays of the device plugin once it has been taken back."""

from __future__ import annotations

import pytest

from ansible_collections.rdmaops.gpu_fabric.molecule.pods.tests import podlab


def test_the_cluster_has_no_daemonset(lab: podlab.PodLab) -> None:
    assert lab.cluster.kubectl("get", "daemonsets", "--all-namespaces", "-o", "name") == ""


@pytest.mark.parametrize("node", podlab.NODES)
def test_a_node_has_no_file_and_offers_nothing(lab: podlab.PodLab, node: str) -> None:
    assert "rdmaops" not in lab.nodes[node].check_output("ls /etc/modules-load.d")
    # The kubelet lists a resource with a capacity of 0 for as long as it runs.
    lab.wait(
        "no shares",
        lambda: lab.cluster.json("get", "node", node)["status"]["allocatable"].get("rdma/hca_shared") in (None, "0"),
    )
