# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Before the first run: nothing of the collection is there, and what is there is listed."""

from __future__ import annotations

from ansible_collections.rdmaops.gpu_fabric.molecule.pods.tests import listing, podlab


def test_nothing_of_the_collection_is_there(lab: podlab.PodLab) -> None:
    rows = {name: listing.of_node(host) for name, host in lab.nodes.items()}
    rows["cluster"] = listing.of_cluster(lab)
    listing.keep(rows)
    assert [(place, name) for place, names in rows.items() for name in names if "rdmaops" in name] == []
