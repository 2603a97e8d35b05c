# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""After the teardown: what is there is what was there before the first run, and packages."""

from __future__ import annotations

import pytest

from ansible_collections.rdmaops.gpu_fabric.molecule.pods.tests import listing, podlab


@pytest.mark.parametrize("node", podlab.NODES)
def test_the_node_is_as_before(lab: podlab.PodLab, node: str) -> None:
    host = lab.nodes[node]
    left = listing.different(listing.kept()[node], listing.of_node(host))
    of_packages = listing.of_packages(host, left)
    rows = [f"{name}: {before} -> {after}" for name, (before, after) in left.items() if name not in of_packages]
    assert not rows, "\n".join(rows)


def test_the_cluster_is_as_before(lab: podlab.PodLab) -> None:
    assert listing.different(listing.kept()["cluster"], listing.of_cluster(lab)) == {}
