# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The fabric between the two pods, measured by playbook `verify`."""

from __future__ import annotations

import pytest

from ansible_collections.rdmaops.gpu_fabric.molecule.pods.tests import podlab


def test_the_verdict(pods_report: podlab.Json) -> None:
    assert pods_report["verdict"] == "pass", pods_report["reasons"]
    assert pods_report["skipped"] == []


@pytest.mark.parametrize("test", ["rping", "ib_write_bw", "ib_write_bw_cm"])
def test_every_pair_was_measured(pods_report: podlab.Json, test: str) -> None:
    (pair,) = [row for row in pods_report["pairs"] if row["test"] == test]
    assert pair["verdict"] == "pass", pair
    if test != "rping":
        assert pair["gbps"] > 0


def test_memory_could_be_registered_without_the_right_to_exceed_the_limit(pods_report: podlab.Json) -> None:
    checks = [row for row in pods_report["checks"] if row["test"] == "memlock"]
    assert len(checks) == 2
    assert {check["verdict"] for check in checks} == {"pass"}
    assert {check["unlimited"] for check in checks} == {True}


def test_the_ethernet_stayed_quiet_while_rdma_counters_rose(pods_report: podlab.Json) -> None:
    """Soft-RoCE counts bytes since Linux 7.2; its packets use the rail's network device, not eth0."""
    for pair in pods_report["pairs"]:
        if pair["test"].startswith("ib_write_bw"):
            assert pair["quiet"] is True, pair
            assert pair["traffic"]["rdma_bytes"] > pair["traffic"]["sent_bytes"] > 1_000_000
            assert pair["traffic"]["ethernet_bytes"]["eth0"] < pair["traffic"]["allowed_bytes"]


def test_gpudirect_is_not_claimed(pods_report: podlab.Json) -> None:
    assert pods_report["gpudirect"]["proven"] is False
    assert "no GPUs" in pods_report["gpudirect"]["why"]
