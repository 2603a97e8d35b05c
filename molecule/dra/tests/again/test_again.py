# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Claims after attachments: what is on the nodes and in the cluster is what was there before them."""

from __future__ import annotations

import pytest

from ansible_collections.rdmaops.gpu_fabric.molecule.dra.tests import ways
from ansible_collections.rdmaops.gpu_fabric.molecule.pods.tests import listing, podlab

# They may have objects of others, and are removed by consent only (secondary_network_remove_definitions), with the pools.
DEFINITIONS = ("apiservices.", "customresourcedefinitions.", "ippools.whereabouts.cni.cncf.io ")
# Of dranet's pods, which are others now.
SCOPES, SLICES = "unit cri-containerd-", "resourceslices.resource.k8s.io "


@pytest.mark.parametrize("node", podlab.NODES)
def test_the_node_is_as_before(lab: podlab.PodLab, node: str) -> None:
    left = listing.different(listing.kept()[node], listing.of_node(lab.nodes[node]))
    assert {name: row for name, row in left.items() if not name.startswith(SCOPES)} == {}


def test_the_cluster_is_as_before(lab: podlab.PodLab) -> None:
    left = listing.different(listing.kept()["cluster"], listing.of_cluster(lab))
    assert {name for name in left if not name.startswith((*DEFINITIONS, SLICES))} == set()


@pytest.mark.parametrize("node", podlab.NODES)
def test_a_pod_has_the_device_and_the_host_has_it_again(lab: podlab.PodLab, node: str) -> None:
    assert ways.way_of(lab) is ways.CLAIMS
    with ways.pod_with_rail(lab, "again", node):
        lab.ready("again")
        ways.has_device(lab, "again")
    ways.until_back(lab, node)
