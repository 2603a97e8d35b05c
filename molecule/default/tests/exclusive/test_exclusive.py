# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The nodes came back in exclusive mode, in every source."""

from __future__ import annotations

import json

from testinfra.host import Host

from ansible_collections.rdmaops.gpu_fabric.molecule.default.tests import node


def test_the_live_mode(host: Host) -> None:
    assert node.mode(host) == "exclusive"
    assert host.file("/sys/module/ib_core/parameters/netns_mode").content_string.strip() == "N"


def test_modprobe_agrees(host: Host) -> None:
    assert node.effective_options(host) == ["netns_mode=0"]


def test_an_initramfs_with_ib_core_was_rebuilt_and_the_one_before_is_kept(host: Host) -> None:
    if node.has_ib_core(host):
        assert "options ib_core netns_mode=0" in node.drop_in_of_image(host)
        assert host.file(node.image(host) + ".rdmaops-previous").exists
    else:
        assert not host.file(node.image(host) + ".rdmaops-previous").exists


def test_the_boot_entry_does_not_set_it(host: Host) -> None:
    assert "ib_core.netns_mode" not in host.file("/boot/grub/grub.cfg").content_string
    assert "ib_core.netns_mode" not in host.file("/proc/cmdline").content_string


def test_the_cause_of_the_reboot_is_forgotten(host: Host) -> None:
    assert not host.file("/var/lib/rdmaops/reboot.yml").exists


def test_both_rails_are_up(host: Host) -> None:
    links = json.loads(host.check_output("rdma -j link"))
    assert {(link["ifname"], link["state"], link["netdev"]) for link in links} == {
        ("rxe0", "ACTIVE", "rail0"),
        ("rxe1", "ACTIVE", "rail1"),
    }
