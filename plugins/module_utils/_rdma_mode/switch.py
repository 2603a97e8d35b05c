# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""How the mode is changed, and what is reported about a host that has none; needed only there."""

from __future__ import annotations

import errno
import os
import typing as t

from .._decision import Declined
from .._initramfs.contents import kernel_image
from .._module_params import prediction
from .model import MODULE, PARAMETER, ModeError

if t.TYPE_CHECKING:  # pragma: no cover
    from .model import Host


def to_rebuild(src: prediction.Sources) -> tuple[str, str]:
    """Return the image of the default boot entry and the kernel that it is for."""
    if src.contents is None or src.entry is None or src.entry.kernel_version is None:
        raise ModeError(
            "Rebuilding the initramfs of the default boot entry: the version of its kernel is not known. "
            "Rebuild it by hand, or set initramfs to report"
        )
    return kernel_image(src.contents, src.entry.kernel_version), src.entry.kernel_version


def image_mismatch(contents: t.Any, configured: str | None) -> str | None:
    """Return why a new initramfs is not what it should be, or None."""
    state = prediction.initramfs_state(contents, MODULE, PARAMETER)
    if state is None:
        return "its modprobe.d files cannot be read"
    if prediction.initramfs_stale(state, configured):
        return "it carries netns_mode=%s instead of %s" % (state["value"], configured)
    return None


def switch(host: Host, live: str | None, desired: str, runtime: str) -> None:
    """Switch the live mode and read it back. Raises Declined if another network namespace came in between."""
    try:
        host.switch(desired)
    except OSError as exc:
        if exc.errno != errno.EBUSY or runtime == "require":
            raise
        raise Declined from exc
    mode = host.live()
    if mode != desired:
        raise ModeError(
            "Switching the RDMA subsystem from %s to %s: the kernel reported success, but the mode is %s"
            % (live, desired, mode)
        )


def result_without_rdma(params: t.Mapping[str, t.Any], host: Host) -> dict[str, t.Any]:
    if params["on_absent"] == "fail":
        raise ModeError(
            "Looking for the RDMA subsystem: kernel %s has ib_core neither loaded, nor built in, nor among its "
            "modules. Install the modules of this kernel (Debian: linux-image, Ubuntu: linux-modules-extra, "
            "RHEL: kernel-modules-core), or set on_absent to ignore for hosts without RDMA" % os.uname().release
        )
    nothing = {"running": None, "next_boot": None}
    return {
        "changed": False,
        "actions": [],
        "diff": [],
        "mode": {
            "desired": params["netns_mode"],
            "configured": None,
            "cmdline": nothing,
            "initramfs": None,
            "live": None,
            "next_boot": None,
        },
        "reboot_required": False,
        "reboot_would_help": None,
        "reboot_reason": "",
        "reboot_cause": None,
        "initramfs_stale": None,
        "conflicts": [],
        "blockers": [],
        "users": [],
        "boot_id": host.boot_id(),
        "boot_entry": None,
        "warnings": [],
        "problems": ["this kernel has no RDMA subsystem"],
        "after": {
            "live": None,
            "next_boot": None,
            "reboot_required": False,
            "reboot_would_help": None,
            "initramfs_stale": None,
            "reason": "",
        },
        "resources": [],
    }


__all__ = ("image_mismatch", "result_without_rdma", "switch", "to_rebuild")
