# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The way back, switched live."""

from __future__ import annotations

from testinfra.host import Host

from ansible_collections.rdmaops.gpu_fabric.molecule.default.tests import node


def test_the_mode(host: Host) -> None:
    assert node.mode(host) == "shared"
    assert node.effective_options(host) == ["netns_mode=1"]


def test_the_initramfs_follows(host: Host) -> None:
    if node.has_ib_core(host):
        assert "options ib_core netns_mode=1" in node.drop_in_of_image(host)
