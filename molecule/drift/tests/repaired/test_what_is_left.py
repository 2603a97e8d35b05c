# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""After `site` without consent to reboot: only what needs a reboot is left, and it is reported."""

from __future__ import annotations

from ansible_collections.rdmaops.gpu_fabric.molecule.drift.tests import nightly


def test_only_the_mode_that_needs_a_reboot() -> None:
    night = nightly.by_hand()
    assert night.objects("drift", "unknown") == [("gpu-2", "rdma_system", "netns_mode")], night.output
    left = night.first("gpu-2", "rdma_system")
    assert (left["live"], left["next_boot"]) == ("shared", "exclusive")
    assert "reboot" in night.output
    assert night.rc == 2
