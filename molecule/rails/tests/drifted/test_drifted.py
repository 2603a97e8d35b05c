# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Playbook drift reports a changed setting and a removed rule."""

from __future__ import annotations

from ansible_collections.rdmaops.gpu_fabric.molecule.drift.tests import nightly


def test_the_nightly_run_reports_them() -> None:
    night = nightly.by_hand("--tags", "nodes")
    assert night.rc == 2, night.output
    assert night.objects("drift", "unknown") == [
        ("gpu-1", "host_rail", "rail1"),
        ("gpu-1", "sysctl", "net.ipv4.conf.rail0.arp_ignore"),
    ]
    setting = night.first("gpu-1", "sysctl")
    assert (setting["desired"], setting["live"], setting["next_boot"]) == (1, 0, 1)
