# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What two pods on two nodes get in the mode exclusive, by claims and by attachments."""

from __future__ import annotations

import pytest

from ansible_collections.rdmaops.gpu_fabric.molecule.dra.tests import ways
from ansible_collections.rdmaops.gpu_fabric.molecule.pods.tests import podlab


@pytest.mark.parametrize("number", [1, 2])
def test_the_device_is_in_the_pod_with_its_card_and_an_address(
    lab: podlab.PodLab, held: dict[str, str], number: int
) -> None:
    way, pod, node = ways.way_of(lab), f"hold-{number}", f"gpu-{number}"
    assert held[pod] == node
    assert ways.links(lab, pod) == [("rxe0", way.netdev, "ACTIVE")]
    assert way.network in lab.inside(pod, "ip", "-4", "-o", "address", "show", "dev", way.netdev)
    assert lab.names_on_host(node) == ["rxe1"]
    audit = lab.module(node, "rdma_audit_info", expected=ways.ON_HOST, settle=5)
    places = {row["name"]: row["live"] for row in audit["resources"]}
    assert places["rxe0"].startswith(f"pod ml/{pod}{way.asked_by(pod)}")
    assert places[podlab.CARD].startswith(f"{way.netdev} in pod ml/{pod}{way.asked_by(pod)}")


def test_the_fabric_between_them(lab: podlab.PodLab, held: dict[str, str]) -> None:
    report = lab.verify(*held, tests=["rping", "ib_write_bw", "ib_write_bw_cm"])
    assert report["verdict"] == "pass", report["reasons"]
    assert report["skipped"] == []
    for pair in report["pairs"]:
        assert pair["verdict"] == "pass", pair
        if pair["test"].startswith("ib_write_bw"):
            assert pair["quiet"] is True, pair
    if ways.way_of(lab) is ways.CLAIMS:
        for node in report["nodes"]:
            (claim,) = node["claims"]
            assert claim.startswith("ml/hold-"), node
