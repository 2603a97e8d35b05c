# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kernels and initramfs images in the running system, and the versions of kernels."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.tests.unit.plugins.module_utils._boot.boot_tree import boot


@pytest.mark.parametrize("path", ["/@/boot/vmlinuz-5.1", "/BOOT/debian_1@/vmlinuz-5.1", "(hd0,gpt2)/boot/vmlinuz-5.1"])
def test_subvolumes(tmp_path: Path, path: str) -> None:
    files = {"boot/vmlinuz-5.1": "x", "boot/grub/grub.cfg": f"menuentry a {{\nlinux {path} ro\n}}\n"}
    default = boot(tmp_path, files)
    assert (default.kernel, default.kernel_version) == ("/boot/vmlinuz-5.1", "5.1")
    assert default.remedy == "edit /boot/grub/grub.cfg"


def test_missing_initramfs(tmp_path: Path) -> None:
    default = boot(tmp_path, {"boot/grub/grub.cfg": "menuentry a {\nlinux /k x\ninitrd /i\n}", "k": "x"})
    assert (default.cmdline, default.initrd) == ("x", ())
    assert default.problem == "The initramfs /i, which /boot/grub/grub.cfg loads, was not found"


def test_links_stay_inside_the_root(tmp_path: Path) -> None:
    (tmp_path / "boot/grub").mkdir(parents=True)
    (tmp_path / "vmlinuz").symlink_to("/boot/vmlinuz-9.9")
    (tmp_path / "boot/grub/grub.cfg").symlink_to("/boot/grub/real.cfg")
    default = boot(tmp_path, {"boot/vmlinuz-9.9": "x", "boot/grub/real.cfg": "menuentry a { linux /vmlinuz here }"})
    assert (default.kernel, default.kernel_version) == ("/vmlinuz", "9.9")


def test_version_from_the_boot_header(tmp_path: Path) -> None:
    image = bytearray(0x4000)
    image[0x202:0x206] = b"HdrS"
    image[0x20E:0x210] = (0x3000 - 0x200).to_bytes(2, "little")
    image[0x3000:0x3020] = b"6.7.8-custom (root@build) #1 SMP".ljust(32, b"\0")
    files = {"boot/grub/grub.cfg": "menuentry a { linux /bzImage x }", "bzImage": bytes(image)}
    assert boot(tmp_path, files).kernel_version == "6.7.8-custom"
