# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which paths are lost with a reboot, from the mounts of nodes of several kinds (proc_pid_mountinfo(5))."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._boot import default
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._boot.entry import BootEntry
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._module_params import persistence, prediction
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._module_params.persistence import lost_at_reboot

ETC, VAR = "/etc/modprobe.d", "/var/lib/rdmaops"
DISK = "22 1 253:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw\n"
# Warewulf 4 with root=tmpfs, xCAT's stateless images: the root file system is in memory.
TMPFS_ROOT = "1 1 0:2 / / rw - rootfs rootfs rw\n22 1 0:21 / / rw,relatime - tmpfs rootfs rw,mode=755\n"
ROOTFS = "1 1 0:2 / / rw - rootfs none rw,size=65852412k\n"
RAMFS = "22 1 0:21 / / rw,relatime - ramfs none rw\n"
# Ubuntu's overlayroot=tmpfs.
OVERLAYROOT = (
    "22 1 0:27 / / rw,relatime shared:1 - overlay overlayroot rw,lowerdir=/media/root-ro,"
    "upperdir=/media/root-rw/overlay,workdir=/media/root-rw/overlay-workdir\n"
    "30 22 253:1 / /media/root-ro ro,relatime - ext4 /dev/vda1 ro\n"
    "31 22 0:26 / /media/root-rw rw,relatime - tmpfs tmpfs-root rw\n"
)
# systemd.volatile=state: /var is in memory, and /etc on the disk.
STATE = DISK + "40 22 0:35 / /var rw,nosuid,nodev shared:20 - tmpfs tmpfs rw,mode=755\n"
# A container's root: the upper directory is the host's.
HIDDEN = (
    "500 400 0:60 / / rw,relatime - overlay overlay rw,lowerdir=/l/A:/l/B,upperdir=/srv/c/diff,workdir=/srv/c/work\n"
)
ON_DISK = (
    DISK
    + "41 22 0:36 / /etc rw - overlay overlay rw,lowerdir=/etc,upperdir=/srv/my\\040etc/up,workdir=/srv/my\\040etc/w\n"
)
# bootc and ostree with transient /etc: the upper directory is below /run.
TRANSIENT = (
    "22 1 0:20 / / ro - overlay composefs ro,lowerdir=/run/ostree/.private/cfsroot-lower\n"
    "23 22 253:1 /ostree/deploy/x/var /var rw - xfs /dev/vda3 rw\n"
    "24 22 0:24 / /run rw - tmpfs tmpfs rw\n"
    "25 22 0:30 / /etc rw - overlay overlay rw,lowerdir=usr/etc,upperdir=/run/ostree/transient-etc/upper,workdir=/run/w\n"
)

CASES = [
    # mounts, path, what is said
    (DISK, ETC, None),
    (DISK + "50 22 0:50 / /etcetera rw - tmpfs tmpfs rw\n", ETC, None),
    (DISK + "50 22 0:50 / /etc rw - tmpfs tmpfs rw\n51 50 253:1 /etc /etc rw - ext4 /dev/vda1 rw\n", ETC, None),
    (TMPFS_ROOT, ETC, "/etc/modprobe.d is in memory (tmpfs on /) and lost at a reboot"),
    (ROOTFS, VAR, "/var/lib/rdmaops is in memory (rootfs on /) and lost at a reboot"),
    (RAMFS, VAR, "/var/lib/rdmaops is in memory (ramfs on /) and lost at a reboot"),
    (OVERLAYROOT, ETC, "/etc/modprobe.d is in memory (overlay on /, tmpfs on /media/root-rw) and lost at a reboot"),
    (STATE, ETC, None),
    (STATE, VAR, "/var/lib/rdmaops is in memory (tmpfs on /var) and lost at a reboot"),
    (
        HIDDEN,
        ETC,
        "whether /etc/modprobe.d survives a reboot is not known (overlay on /, whose upper directory /srv/c/diff cannot be seen)",
    ),
    (ON_DISK, ETC, None),
    (
        ON_DISK[len(DISK) :],
        ETC,
        "whether /etc/modprobe.d survives a reboot is not known (overlay on /etc, whose upper directory /srv/my etc/up "
        "cannot be seen)",
    ),
    (TRANSIENT, ETC, "/etc/modprobe.d is in memory (overlay on /etc, tmpfs on /run) and lost at a reboot"),
    (TRANSIENT, VAR, None),
    # read-only: there is nothing to lose
    (TRANSIENT, "/usr/lib/modprobe.d", None),
    ("", ETC, None),
    ("no such line\n", ETC, None),
]


@pytest.mark.parametrize(("mounts", "path", "reason"), CASES)
def test_lost_at_reboot(mounts: str, path: str, reason: str | None) -> None:
    assert lost_at_reboot(mounts, path) == reason


def test_the_next_boot_of_a_node_without_a_disk_is_not_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A grub.cfg in its image is not what it boots."""
    mounts = tmp_path / "mountinfo"
    mounts.write_text(TMPFS_ROOT)
    monkeypatch.setattr(persistence, "MOUNTS", str(mounts))
    monkeypatch.setattr("os.path.realpath", lambda path: path)
    stray = BootEntry("grub", "/boot/grub/grub.cfg", cmdline="ro ib_core.netns_mode=0", kernel_version="7.2")
    monkeypatch.setattr(default, "default_entry", lambda _root: stray)
    assert prediction.sources(str(tmp_path), "ib_core").entry == stray
    result = prediction.sources("/", "ib_core")
    assert (result.contents, result.has_initramfs) == (None, None)
    assert result.entry is not None
    assert (result.entry.kind, result.entry.cmdline) == ("unknown", None)
    assert result.problems[-1] == (
        "/etc/modprobe.d is in memory (tmpfs on /) and lost at a reboot: the node's image determines what it boots. Add a "
        "file of modprobe.d to the image"
    )
    state = prediction.parameter_state(result, "ib_core", "netns_mode", "0")
    assert (state.next_boot.known, state.stale) == (False, None)


def test_what_else_must_survive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(STATE)
    monkeypatch.setattr(persistence, "MOUNTS", str(mounts))
    monkeypatch.setattr("os.path.realpath", lambda path: path)
    assert persistence.problem([ETC]) is None
    assert persistence.problem([ETC, VAR]) is not None
    monkeypatch.setattr(persistence, "MOUNTS", str(tmp_path / "gone"))
    assert persistence.problem([ETC, VAR]) is None
