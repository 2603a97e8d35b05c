# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""An initramfs rebuilt with either tool: the new image is checked before it replaces the old one."""

from __future__ import annotations

import errno
import os
import typing as t
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils import _files
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._initramfs import rebuild as module
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._initramfs.contents import InitramfsError
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._initramfs.rebuild import DRACUT_DROP_IN, run
from ansible_collections.rdmaops.gpu_fabric.tests.support.failures import message_of
from ansible_collections.rdmaops.gpu_fabric.tests.support.waiting import limits_count_from
from ansible_collections.rdmaops.gpu_fabric.tests.unit.plugins.module_utils._initramfs.images import (
    VERSION,
    Member,
    cpio,
    text,
)
from ansible_collections.rdmaops.gpu_fabric.tests.unit.plugins.module_utils._initramfs.rebuild_host import (
    AFTER,
    DRACUT,
    IMAGE,
    INITRAMFS_TOOLS,
    MODULE,
    NAME,
    NEW,
    OLD,
    Host,
)


def test_initramfs_tools(host: Host) -> None:
    contents = host.rebuild()
    assert (contents.image, contents.modules) == (IMAGE, ["ib_core"])
    ((chroot, root, env, directory, command, option, new, version),) = host.calls
    assert (chroot, root, env) == ("chroot", str(host.root), "env")
    assert (command, option, version) == ("mkinitramfs", "-o", VERSION)
    assert directory.startswith("TMPDIR=/var/tmp/rdmaops-initramfs.")
    assert new.startswith(f"/boot/.{NAME}.rdmaops-new.")
    assert host.beside() == AFTER
    assert host.scratch() == []


def test_dracut(dracut: Host) -> None:
    dracut.rebuild()
    (argv,) = dracut.calls
    assert argv[2:6] == ["env", "NO_POST_UPDATE_HOOKS=1", "dracut", "--tmpdir"]
    assert (argv[7], argv[9]) == ("--force", VERSION)
    assert dracut.beside() == AFTER
    assert not (dracut.root / DRACUT_DROP_IN.lstrip("/")).exists()


@pytest.mark.parametrize(("mark", "command"), [(DRACUT, "dracut"), (INITRAMFS_TOOLS, "mkinitramfs")])
def test_with_both_tools_the_image_decides(host: Host, mark: Member, command: str) -> None:
    host.program("dracut")
    host.file(IMAGE, OLD + cpio(mark))
    host.images = [NEW + cpio(mark)]
    assert command in host.rebuild_command()


def test_an_image_of_another_tool_is_not_put_in_place(dracut: Host) -> None:
    old = OLD + cpio(DRACUT)
    dracut.file(IMAGE, old)
    for mark, kind in ((INITRAMFS_TOOLS, "initramfs-tools"), (MODULE, "unknown")):
        dracut.images = [NEW + cpio(mark)]
        assert message_of(InitramfsError, dracut.rebuild) == (
            f"Rebuilding the initramfs {IMAGE}: the tool that created the new image is {kind}, that of the image in place "
            "is dracut (exit code 0). The previous image is in place."
        )
        assert dracut.beside() == {NAME: old}


def test_dracut_generic_image_needs_the_drop_in(dracut: Host) -> None:
    dracut.images = [OLD, NEW]
    dracut.rebuild()
    assert len(dracut.calls) == 2
    assert (dracut.root / DRACUT_DROP_IN.lstrip("/")).read_text() == (
        f"{_files.HEADER}\n"
        "# A generic image (hostonly=no) does not get /etc/modprobe.d.\n"
        'install_items+=" /etc/modprobe.d/zz-rdmaops-*.conf "\n'
    )
    assert dracut.beside() == AFTER
    dracut.images = [NEW]
    dracut.rebuild()
    assert len(dracut.calls) == 3


def test_dracut_still_stale(dracut: Host) -> None:
    dracut.images = [OLD]
    assert message_of(InitramfsError, dracut.rebuild) == (
        f"Rebuilding the initramfs {IMAGE}: the new image has the same fault: it lacks the option. "
        "The previous image is in place."
    )
    assert len(dracut.calls) == 2
    assert dracut.beside() == {NAME: OLD}
    assert not (dracut.root / DRACUT_DROP_IN.lstrip("/")).exists()
    assert dracut.scratch() == []


def test_the_tool_fails(host: Host) -> None:
    host.result = (1, "", "one\ntwo\nthree\nfour\nfive\nE: no space left\n")
    with pytest.raises(InitramfsError) as caught:
        host.rebuild()
    assert str(caught.value) == (
        f"Rebuilding the initramfs {IMAGE}: mkinitramfs failed (exit code 1): two / three / four / five / "
        "E: no space left. The previous image is in place."
    )
    assert (caught.value.rc, caught.value.cmd[2]) == (1, "mkinitramfs")
    assert host.beside() == {NAME: OLD}


BAD_IMAGES = [
    # the tool's image, text after "Rebuilding the initramfs IMAGE: "
    (
        cpio(text("x", "")),
        f"the new image has no modules of kernel {VERSION} (exit code 0). The previous image is in place.",
    ),
    (NEW[:-60], None),
    (b"", None),
]


@pytest.mark.parametrize(("image", "problem"), BAD_IMAGES)
def test_the_new_image_is_bad(host: Host, image: bytes, problem: str | None) -> None:
    host.images = [image]
    message = message_of(InitramfsError, host.rebuild)
    if problem is None:
        assert message.startswith(f"Reading the initramfs {IMAGE}: it ")
    else:
        assert message == f"Rebuilding the initramfs {IMAGE}: {problem}"
    assert host.beside() == {NAME: OLD}
    assert host.scratch() == []


def test_hooks_run_with_the_names_in_place(host: Host) -> None:
    host.file("etc/initramfs/post-update.d/boot-loader", "")
    host.rebuild()
    hooks = ["run-parts", "--arg=" + VERSION, "--arg=" + IMAGE, "/etc/initramfs/post-update.d"]
    assert host.calls[1] == ["chroot", str(host.root), *hooks]
    assert host.beside() == AFTER


def test_a_hook_fails(host: Host) -> None:
    host.file("etc/initramfs/post-update.d/boot-loader", "")
    host.hook = (1, "", "no boot partition\n")
    assert message_of(InitramfsError, host.rebuild) == (
        f"Rebuilding the initramfs {IMAGE}: a hook in /etc/initramfs/post-update.d failed (exit code 1): "
        "no boot partition. The previous image is in place."
    )
    # Some hooks may have taken the new image: that the work is unfinished is remembered.
    assert host.beside() == {NAME: OLD, NAME + ".rdmaops-previous": OLD, NAME + ".rdmaops-unfinished": b""}
    host.hook = (0, "", "")
    host.rebuild()
    assert host.beside() == AFTER


def test_a_file_system_without_links(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    def link(*_names: str) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", link)
    host.rebuild()
    assert host.beside() == AFTER


def test_the_entry_names_a_link(host: Host) -> None:
    (host.root / "initrd.img").symlink_to("boot/" + NAME)
    contents = host.rebuild("/initrd.img")
    assert contents.image == "/initrd.img"
    assert host.calls[0][6].startswith(f"/boot/.{NAME}.rdmaops-new.")
    assert host.beside() == AFTER
    assert (host.root / "initrd.img").is_symlink()


COPY = f"/efi/debian/{VERSION}/{NAME}"


def test_the_entry_names_a_copy_that_a_hook_makes(host: Host) -> None:
    host.file(COPY, OLD)
    host.file("etc/initramfs/post-update.d/systemd-boot", "")

    def hook(argv: t.Sequence[str], timeout: float) -> tuple[int, str, str]:
        if "run-parts" in argv:
            host.file(COPY, host.image.read_bytes())
        return host.run(argv, timeout)

    contents = host.rebuild(COPY, hook)
    assert contents.image == COPY
    assert host.calls[1][3:5] == ["--arg=" + VERSION, "--arg=" + IMAGE]
    assert host.beside() == AFTER
    assert [path.name for path in (host.root / COPY.lstrip("/")).parent.iterdir()] == [NAME]


def test_a_copy_that_no_hook_makes(host: Host) -> None:
    host.file(COPY, OLD)
    host.file("etc/initramfs/post-update.d/other", "")
    assert message_of(InitramfsError, host.rebuild, COPY) == (
        f"Rebuilding the initramfs {COPY}: {IMAGE} is new and good, and no hook in /etc/initramfs/post-update.d brought "
        "it to where it is booted from: it lacks the option"
    )


def test_leftovers_of_a_killed_run_go(host: Host) -> None:
    host.file(f"/boot/.{NAME}.rdmaops-new.0a1b2c3d", "half")
    host.file("/var/tmp/rdmaops-initramfs.dead/mkinitramfs_x/file", "x")
    host.file("/boot/.initrd.img-other.rdmaops-new.0a1b2c3d", "someone else's")
    host.rebuild()
    assert host.beside() == {**AFTER, ".initrd.img-other.rdmaops-new.0a1b2c3d": b"someone else's"}
    assert host.scratch() == []


def test_previous_images_of_removed_kernels_go(host: Host) -> None:
    """Neither the package manager nor the tool knows of them."""
    host.file("/boot/initrd.img-5.10.rdmaops-previous", "of a kernel that is gone")
    host.file("/boot/initrd.img-5.10.rdmaops-unfinished", "")
    host.file("/boot/initrd.img-6.1", "another kernel's")
    host.file("/boot/initrd.img-6.1.rdmaops-previous", "another kernel's")
    host.file("/boot/notes.rdmaops", "someone else's")
    host.rebuild()
    others = {"initrd.img-6.1": b"another kernel's", "initrd.img-6.1.rdmaops-previous": b"another kernel's"}
    assert host.beside() == {**AFTER, **others, "notes.rdmaops": b"someone else's"}


def test_two_at_once(host: Host) -> None:
    def nested(argv: t.Sequence[str], timeout: float) -> tuple[int, str, str]:
        problem = "another rebuild is running; wait for it"
        assert message_of(InitramfsError, host.rebuild) == f"Rebuilding the initramfs {IMAGE}: {problem}"
        return host.run(argv, timeout)

    host.rebuild(run=nested)
    assert host.beside() == AFTER


class TestRun:
    def test_result(self) -> None:
        assert run(["sh", "-c", "echo out; echo $LC_ALL >&2; exit 3"], 60) == (3, "out\n", "C\n")

    def test_missing(self) -> None:
        assert run(["/nothing/here"], 10) == (127, "", "/nothing/here: No such file or directory")

    def test_children_can_clean_up_at_the_timeout(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        begun = tmp_path / "begun"
        limits_count_from(begun, monkeypatch)
        script = f"(trap 'echo cleaned' TERM; echo begun; touch {begun}; sleep 60 & wait) & wait"
        assert run(["sh", "-c", script], 1) == (124, "begun\ncleaned\n", "\nstopped after 1 seconds")

    def test_what_ignores_sigterm_is_killed(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "GRACE", 0.1)
        deaf, survived = tmp_path / "deaf", tmp_path / "survived"
        limits_count_from(deaf, monkeypatch)
        script = f"trap '' TERM; touch {deaf}; sleep 60; touch {survived}"
        assert run(["sh", "-c", script], 0.1)[0] == 124
        assert not survived.exists()
