# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A boot entry with several initramfs images: which of them is rebuilt."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._initramfs.contents import InitramfsError
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._module_params import manage as module_params
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._module_params.prediction import sources
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._rdma_mode import switch
from ansible_collections.rdmaops.gpu_fabric.tests.support.failures import message_of
from ansible_collections.rdmaops.gpu_fabric.tests.support.trees import write_tree
from ansible_collections.rdmaops.gpu_fabric.tests.unit.plugins.module_utils._initramfs.images import (
    DIRECTORY,
    MICROCODE,
    TREE,
    VERSION,
    Member,
    cpio,
    text,
)

IMAGE = f"/boot/initramfs-{VERSION}.img"
OVERLAY = "/boot/tuned-initrd.img"
CONF = "etc/modprobe.d/tuned.conf"
# What the profile cpu-partitioning of TuneD 2.20 puts into its overlay ("find . | cpio -co").
TUNED = (
    Member(".", mode=DIRECTORY),
    Member("./etc/systemd", mode=DIRECTORY),
    text("./etc/systemd/system.conf", "[Manager]\nCPUAffinity=0 1\n"),
    Member("./usr/lib/dracut/hooks/pre-udev", mode=DIRECTORY),
    text("./usr/lib/dracut/hooks/pre-udev/00-tuned-pre-udev.sh", "#!/bin/sh\n"),
)
DRACUT = (*TREE, Member("usr/lib/dracut", mode=DIRECTORY))


def rhel(root: Path, *overlay: Member, image: tuple[Member, ...] = DRACUT, initrd: str = "") -> str:
    """Write what RHEL 9 and TuneD write for the default entry of GRUB; return the root."""
    (root / "usr/bin").mkdir(parents=True)
    (root / "usr/bin/dracut").touch(0o755)
    variables = "# GRUB Environment Block\ntuned_params=skew_tick=1\ntuned_initrd=/boot/tuned-initrd.img\n"
    entry = (
        f"title Red Hat Enterprise Linux\nversion {VERSION}\nlinux /boot/vmlinuz-{VERSION}\n"
        f"initrd {initrd}{IMAGE} $tuned_initrd\noptions root=/dev/sda2 ro $tuned_params\n"
    )
    files: dict[str, str | bytes] = {
        "boot/grub2/grub.cfg": "load_env -f /boot/grub2/grubenv\nblscfg\n",
        "boot/grub2/grubenv": variables.ljust(1024, "#"),
        f"boot/loader/entries/m-{VERSION}.conf": entry,
        f"boot/vmlinuz-{VERSION}": "x",
        f"lib/modules/{VERSION}/modules.dep": "",
        "boot/early.img": MICROCODE,
        IMAGE: cpio(*image),
        OVERLAY: cpio(*overlay),
    }
    write_tree(root, files)
    return str(root)


def actions(root: str) -> list[str]:
    """Return what the module would do to change a parameter of ib_core."""
    given = {"name": "ib_core", "options": {"netns": "1"}, "state": "present", "path": None, "root": root}
    task = module_params.check({**given, "on_conflict": "fail", "initramfs": "rebuild"})
    result = module_params.manage(task, True, module_params.Host(root), [])
    assert result["parameters"]["netns"]["initramfs"]["image"] == IMAGE
    return t.cast("list[str]", result["actions"])


def test_an_overlay_of_tuned_is_not_the_image(tmp_path: Path) -> None:
    root = rhel(tmp_path, *TUNED)
    assert actions(root) == ["Write /etc/modprobe.d/zz-rdmaops-ib_core.conf", f"Rebuild {IMAGE}"]
    assert switch.to_rebuild(sources(root, "ib_core")) == (IMAGE, VERSION)


def test_an_early_image_is_not_the_image(tmp_path: Path) -> None:
    root = rhel(tmp_path, *TUNED, initrd="/boot/early.img ")
    assert switch.to_rebuild(sources(root, "ib_core")) == (IMAGE, VERSION)


def test_an_overlay_that_has_a_modprobe_d_file(tmp_path: Path) -> None:
    root = rhel(tmp_path, *TUNED, text(CONF, "options ib_core netns=0\n"))
    assert message_of(InitramfsError, actions, root) == (
        f"Rebuilding the initramfs {IMAGE}: the default boot entry also loads {OVERLAY}, which has /{CONF} and is not "
        "rebuilt; remove that file from the image, or the image from the boot entry"
    )


# modules in the overlay, what the message says of the images
IMAGES = [
    (VERSION, f"{IMAGE} and {OVERLAY} have modules of kernel {VERSION}"),
    ("5.14", None),
]


@pytest.mark.parametrize(("version", "problem"), IMAGES)
def test_an_overlay_with_modules(tmp_path: Path, version: str, problem: str | None) -> None:
    root = rhel(tmp_path, text(f"usr/lib/modules/{version}/extra/x.ko", ""))
    if problem is None:
        assert switch.to_rebuild(sources(root, "ib_core")) == (IMAGE, VERSION)
        return
    assert message_of(InitramfsError, switch.to_rebuild, sources(root, "ib_core")) == (
        f"Looking for the initramfs to rebuild: of the images of the default boot entry, {problem}; "
        "rebuild the right one by hand"
    )


def test_no_image_with_modules_of_the_kernel(tmp_path: Path) -> None:
    root = rhel(tmp_path, *TUNED, image=(text("usr/lib/modules/5.14/kernel/ib_core.ko", ""),))
    assert message_of(InitramfsError, switch.to_rebuild, sources(root, "ib_core")) == (
        f"Looking for the initramfs to rebuild: of the images of the default boot entry, none has modules of kernel "
        f"{VERSION}; rebuild the right one by hand"
    )
