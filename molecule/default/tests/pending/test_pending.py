# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Everything is in place and nothing was rebooted."""

from __future__ import annotations

from testinfra.host import Host

from ansible_collections.rdmaops.gpu_fabric.molecule.default.tests import node


def test_the_next_boot_is_configured(host: Host) -> None:
    assert node.mode(host) == "shared"
    assert node.effective_options(host) == ["netns_mode=0"]
    assert host.file(node.DROP_IN).mode == 0o644


def test_the_initramfs_agrees(host: Host) -> None:
    if node.has_ib_core(host):
        assert "options ib_core netns_mode=0" in node.drop_in_of_image(host)


def test_packages(host: Host) -> None:
    for name in ("rdma-core", "perftest", "rdmacm-utils"):
        assert host.package(name).is_installed


def test_the_runtime_will_lock_memory(host: Host) -> None:
    drop_in = host.file("/etc/systemd/system/containerd.service.d/50-rdmaops-memlock.conf")
    assert "LimitMEMLOCK=infinity" in drop_in.content_string.splitlines()


def test_no_leftover_of_a_write(host: Host) -> None:
    assert host.check_output("find /etc /boot -name '*.rdmaops-new*'") == ""
