# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The fabric between the two pods, measured by the playbook `verify`."""

from __future__ import annotations

import json
from pathlib import Path

import podlab
import pytest

TESTS = ["ibv_devinfo", "memlock", "rping", "ib_write_bw", "ib_write_bw_cm"]


@pytest.fixture(scope="module")
def report(lab: podlab.PodLab, tmp_path_factory: pytest.TempPathFactory) -> podlab.Json:
    place: Path = tmp_path_factory.mktemp("fabric")
    done = lab.verify(
        "hold-0", "hold-1", tests=TESTS, report=place / "fabric.json", page=podlab.EPHEMERAL / "fabric.html"
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found: podlab.Json = json.loads((place / "fabric.json").read_text())
    return found


def test_the_verdict(report: podlab.Json) -> None:
    assert report["verdict"] == "pass", report["reasons"]
    assert report["skipped"] == []


@pytest.mark.parametrize("test", ["rping", "ib_write_bw", "ib_write_bw_cm"])
def test_every_pair_was_measured(report: podlab.Json, test: str) -> None:
    (pair,) = [one for one in report["pairs"] if one["test"] == test]
    assert pair["verdict"] == "pass", pair
    if test != "rping":
        assert pair["gbps"] > 0


def test_memory_could_be_registered_without_the_right_to_exceed_the_limit(report: podlab.Json) -> None:
    checks = [one for one in report["checks"] if one["test"] == "memlock"]
    assert len(checks) == 2
    assert {one["verdict"] for one in checks} == {"pass"}
    assert {one["unlimited"] for one in checks} == {True}


def test_the_ethernet_stayed_quiet_while_rdma_counters_rose(report: podlab.Json) -> None:
    """Soft-RoCE counts bytes since Linux 7.2; its packets go by the rail's network device, and not by eth0."""
    for one in report["pairs"]:
        if one["test"].startswith("ib_write_bw"):
            assert one["quiet"] is True, one
            assert one["traffic"]["rdma_bytes"] > one["traffic"]["sent_bytes"] > 1_000_000
            assert one["traffic"]["ethernet_bytes"]["eth0"] < one["traffic"]["allowed_bytes"]


def test_gpudirect_is_not_claimed(report: podlab.Json) -> None:
    assert report["gpudirect"]["proven"] is False
    assert "there are no GPUs" in report["gpudirect"]["why"]
