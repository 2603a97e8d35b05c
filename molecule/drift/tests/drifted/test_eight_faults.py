# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The report contains what faults.yml has done, no more and no less, whoever starts the run."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.molecule.drift.tests import nightly

FAULTS = [
    ("control-plane", "helm_release", "gpu-operator/gpu-operator"),
    ("gpu-1", "network_attachment", "default/rail1"),
    ("gpu-1", "node_label", "gpu-1 ack.node.gpu.schedule"),
    ("gpu-1", "rdma_device", "rxe1"),
    ("gpu-1", "rdma_system", "netns_mode"),
    ("gpu-2", "ansible.builtin.package", "perftest"),
    ("gpu-2", "modprobe_option", "ib_ipoib.send_queue_size"),
    ("gpu-2", "rdma_system", "netns_mode"),
]


@pytest.fixture(scope="module")
def night() -> nightly.Night:
    return nightly.by_hand()


def test_exactly_these(night: nightly.Night) -> None:
    assert night.objects("drift") == FAULTS, night.output
    assert night.objects("unknown") == [], night.output


def test_the_run_fails(night: nightly.Night) -> None:
    assert night.rc == 2, night.output
    assert night.report["verdict"] == "drift"


def test_each_is_reported_with_what_is_wrong(night: nightly.Night) -> None:
    stale = night.first("gpu-1", "rdma_system")
    assert (stale["desired"], stale["live"], stale["next_boot"]) == ("exclusive", "exclusive", "shared")
    switched = night.first("gpu-2", "rdma_system")
    assert (switched["desired"], switched["live"], switched["next_boot"]) == ("exclusive", "shared", "exclusive")
    assert "lost" in str(night.first("gpu-1", "rdma_device")["live"])


def test_awx_gets_the_same_report(night: nightly.Night, tmp_path: Path) -> None:
    """And nothing was repaired meanwhile: a run in check mode that reports drift reports it again."""
    job = nightly.by_awx(tmp_path)
    assert job.objects("drift", "unknown") == night.objects("drift", "unknown"), job.output
    assert (job.rc, job.report["verdict"]) == (night.rc, night.report["verdict"])
