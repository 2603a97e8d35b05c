# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What stops a rebuild is known before it begins."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._initramfs import rebuild as module
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._initramfs.contents import InitramfsError
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._initramfs.rebuild import Maker, preflight, tools
from ansible_collections.rdmaops.gpu_fabric.tests.support.failures import message_of
from ansible_collections.rdmaops.gpu_fabric.tests.unit.plugins.module_utils._initramfs.images import (
    VERSION,
    Member,
    cpio,
)
from ansible_collections.rdmaops.gpu_fabric.tests.unit.plugins.module_utils._initramfs.rebuild_host import (
    DRACUT,
    IMAGE,
    INITRAMFS_TOOLS,
    OLD,
    Host,
)

TOOLS: list[tuple[list[str], list[str]]] = [
    # executables, tools
    ([], []),
    (["usr/sbin/mkinitramfs"], ["initramfs-tools"]),
    (["usr/bin/dracut"], ["dracut"]),
    (["usr/bin/dracut", "usr/sbin/mkinitramfs"], ["initramfs-tools", "dracut"]),
]


@pytest.mark.parametrize(("names", "expected"), TOOLS)
def test_tools(tmp_path: Path, names: list[str], expected: list[str]) -> None:
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch(0o755)
    assert tools(str(tmp_path)) == expected


class TestPreflight:
    def refused(self, host: Host, version: str | None = VERSION) -> str:
        before = host.beside()
        message = message_of(InitramfsError, preflight, IMAGE, str(host.root), version)
        assert host.beside() == before
        prefix = f"Rebuilding the initramfs {IMAGE}: "
        assert message.startswith(prefix)
        return message[len(prefix) :]

    def test_good(self, host: Host) -> None:
        assert preflight(IMAGE, str(host.root)) == Maker("initramfs-tools", "unknown")

    @pytest.mark.parametrize(("mark", "name"), [(DRACUT, "dracut"), (INITRAMFS_TOOLS, "initramfs-tools")])
    def test_the_tool_that_created_the_image(self, host: Host, mark: Member, name: str) -> None:
        host.program("dracut")
        host.file(IMAGE, OLD + cpio(mark))
        assert preflight(IMAGE, str(host.root)) == Maker(name, name)

    def test_an_image_of_which_the_tool_is_not_known(self, host: Host) -> None:
        host.program("dracut")
        assert self.refused(host) == (
            "it does not show which tool created it, and both mkinitramfs (initramfs-tools) and dracut are installed; "
            "build the image with the tool that created it, or remove the other one"
        )

    @pytest.mark.parametrize(("mark", "name"), [(DRACUT, "dracut"), (Member("init_functions"), "mkinitcpio")])
    def test_an_image_of_a_tool_that_is_not_there(self, host: Host, mark: Member, name: str) -> None:
        host.file(IMAGE, OLD + cpio(mark))
        assert self.refused(host) == (
            f"it was created by {name}, and of mkinitramfs (initramfs-tools) and dracut this system has initramfs-tools; "
            "build the image with the tool that created it"
        )

    def test_an_image_that_cannot_be_read(self, host: Host) -> None:
        host.file(IMAGE, b"?" * 99)
        with pytest.raises(InitramfsError, match=f"^Reading the initramfs {IMAGE}: it begins with 0x3f3f3f3f3f3f"):
            preflight(IMAGE, str(host.root))

    def test_no_tool(self, host: Host) -> None:
        (host.root / "usr/sbin/mkinitramfs").unlink()
        assert self.refused(host) == (
            "neither mkinitramfs (initramfs-tools) nor dracut is installed; build the image with the tool that created it"
        )

    def test_no_image(self, host: Host) -> None:
        host.image.unlink()
        message = message_of(InitramfsError, preflight, IMAGE, str(host.root), VERSION)
        assert message == f"Reading the initramfs {IMAGE}: No such file or directory"

    def test_no_modules(self, host: Host) -> None:
        assert self.refused(host, "5.0") == (
            "/lib/modules/5.0/modules.dep is missing: install the modules of kernel 5.0, or boot a kernel that has them"
        )

    def test_updates_are_switched_off(self, host: Host) -> None:
        host.file("etc/initramfs-tools/update-initramfs.conf", "# update_initramfs=no\nupdate_initramfs=no # mine\n")
        assert self.refused(host) == (
            "/etc/initramfs-tools/update-initramfs.conf:2 says update_initramfs=no; set it to yes, or build and check "
            "the image yourself"
        )

    def test_full(self, host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "free_bytes", lambda _path: 2 * len(OLD) - 1)
        assert self.refused(host) == (
            f"/boot has 0.0 MiB ({2 * len(OLD) - 1} bytes) free and 0.0 MiB ({2 * len(OLD)} bytes) are needed (twice "
            "the image); remove old kernels, or enlarge that file system"
        )
        with pytest.raises(InitramfsError):
            host.rebuild()
        assert host.calls == []

    def test_full_of_previous_images_of_removed_kernels(self, host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
        orphan = host.image.with_name("initrd.img-5.10.rdmaops-previous")
        orphan.write_bytes(b"x" * 8192)
        os.sync()
        room = os.stat(orphan).st_blocks * 512
        monkeypatch.setattr(module, "free_bytes", lambda _path: 2 * len(OLD) - room)
        assert preflight(IMAGE, str(host.root)) == Maker("initramfs-tools", "unknown")
        monkeypatch.setattr(module, "free_bytes", lambda _path: 2 * len(OLD) - room - 1)
        assert self.refused(host).startswith(f"/boot has 0.0 MiB ({2 * len(OLD) - 1} bytes) free and ")
        # Another name of the file keeps its blocks.
        os.link(orphan, host.root / "other")
        monkeypatch.setattr(module, "free_bytes", lambda _path: 2 * len(OLD) - 1)
        assert self.refused(host).startswith(f"/boot has 0.0 MiB ({2 * len(OLD) - 1} bytes) free and ")

    def test_not_writable(self, host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
        allowed = os.access
        monkeypatch.setattr(
            os, "access", lambda path, mode: allowed(path, mode) and not (mode == os.W_OK and "boot" in str(path))
        )
        assert self.refused(host) == "/boot is not writable; run as root (become: true)"
