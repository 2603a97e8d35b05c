# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The fabric between the two pods, measured by playbook `verify`."""

from __future__ import annotations

import podlab
import pytest


def test_the_verdict(pods_report: podlab.Json) -> None:
    assert pods_report["verdict"] == "pass", pods_report["reasons"]
    assert pods_report["skipped"] == []


@pytest.mark.parametrize("test", ["rping", "ib_write_bw", "ib_write_bw_cm"])
def test_every_pair_was_measured(pods_report: podlab.Json, test: str) -> None:
    (pair,) = [one for one in pods_report["pairs"] if one["test"] == test]
    assert pair["verdict"] == "pass", pair
    if test != "rping":
        assert pair["gbps"] > 0


def test_memory_could_be_registered_without_the_right_to_exceed_the_limit(pods_report: podlab.Json) -> None:
    checks = [one for one in pods_report["checks"] if one["test"] == "memlock"]
    assert len(checks) == 2
    assert {one["verdict"] for one in checks} == {"pass"}
    assert {one["unlimited"] for one in checks} == {True}


def test_the_ethernet_stayed_quiet_while_rdma_counters_rose(pods_report: podlab.Json) -> None:
    """Soft-RoCE counts bytes since Linux 7.2; its packets go by the rail's network device, and not by eth0."""
    for one in pods_report["pairs"]:
        if one["test"].startswith("ib_write_bw"):
            assert one["quiet"] is True, one
            assert one["traffic"]["rdma_bytes"] > one["traffic"]["sent_bytes"] > 1_000_000
            assert one["traffic"]["ethernet_bytes"]["eth0"] < one["traffic"]["allowed_bytes"]


def test_gpudirect_is_not_claimed(pods_report: podlab.Json) -> None:
    assert pods_report["gpudirect"]["proven"] is False
    assert "no GPUs" in pods_report["gpudirect"]["why"]
