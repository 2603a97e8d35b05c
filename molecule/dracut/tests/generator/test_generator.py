# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each node keeps the image of the tool that created it."""

from __future__ import annotations

from testinfra.host import Host

from ansible_collections.rdmaops.gpu_fabric.molecule.default.tests import node

GENERATORS = {"gpu-1": "dracut", "gpu-2": "initramfs-tools"}


def test_the_image_is_of_the_nodes_own_tool(host: Host) -> None:
    assert node.generator(host) == GENERATORS[host.backend.get_hostname()]


def test_the_node_has_booted_it(host: Host) -> None:
    """systemd runs in dracut's image only (InitRDTimestampMonotonic in org.freedesktop.systemd1(5) is 0 without it)."""
    ran = host.check_output("systemctl show --value --property InitRDTimestampMonotonic") != "0"
    assert ran == (GENERATORS[host.backend.get_hostname()] == "dracut")


def test_mkinitramfs_is_on_both_nodes(host: Host) -> None:
    assert host.file("/usr/sbin/mkinitramfs").exists
