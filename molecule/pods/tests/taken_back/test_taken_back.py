# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""After the teardown: what is there is what was there before the first run, and packages."""

from __future__ import annotations

import time
import typing as t

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
    """Namespaces end when the cluster has removed what is in them."""
    before = listing.kept()["cluster"]
    left: t.Collection[str] = ()
    end = time.monotonic() + 180
    while time.monotonic() < end and (left := listing.different(before, listing.of_cluster(lab))):
        time.sleep(5)
    assert not left, "\n".join(left)
