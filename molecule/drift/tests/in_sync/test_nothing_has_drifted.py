# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A cluster as it was brought up: an empty report, and exit status 0."""

from __future__ import annotations

from ansible_collections.rdmaops.gpu_fabric.molecule.drift.tests import nightly


def test_the_report_is_empty() -> None:
    night = nightly.by_hand()
    assert night.objects("drift", "unknown") == [], night.output
    assert night.report["verdict"] == "in_sync", night.output
    assert night.report["check_mode"] is True
    assert night.rc == 0, night.output
    # The run has examined them.
    kinds = {kind for _host, kind, _name in night.objects("in_sync")}
    assert {"rdma_system", "network_attachment", "helm_release", "node_label", "rdma_device"} <= kinds, kinds
