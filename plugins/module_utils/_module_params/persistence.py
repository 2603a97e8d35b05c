# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""Whether what is written survives a reboot: a node without a disk has its root file system in memory."""

from __future__ import annotations

import os
import re
import typing as t

from .._files import unescape_mount

MOUNTS = "/proc/self/mountinfo"

IN_MEMORY = ("tmpfs", "ramfs", "rootfs")


class _Mount(t.NamedTuple):
    point: str
    kind: str
    options: str


def _mount_of(mounts: str, path: str) -> _Mount | None:
    """Return the mount that a path is on: of the longest mount points above it the last one."""
    result = None
    for line in mounts.splitlines():
        fields, _dash, more = line.partition(" - ")
        before, after = fields.split(), more.split()
        if len(before) < 6 or len(after) < 3:
            continue
        point = unescape_mount(before[4])
        above = point == "/" or path == point or path.startswith(point + "/")
        if above and (result is None or len(point) >= len(result.point)):
            result = _Mount(point, after[0], after[2])
    return result


def lost_at_reboot(mounts: str, path: str) -> str | None:
    """Return why a path of these mounts (proc_pid_mountinfo(5)) is lost at a reboot, or may be; None if it is not."""
    mount = _mount_of(mounts, path)
    if mount is None:
        return None
    where = "%s on %s" % (mount.kind, mount.point)
    upper = re.search(r"(?:^|,)upperdir=([^,]*)", mount.options) if mount.kind == "overlay" else None
    if upper:
        directory = unescape_mount(upper.group(1))
        below = _mount_of(mounts, directory)
        if below is None or below.kind == "overlay":
            text = "whether %s survives a reboot is not known (%s, whose upper directory %s cannot be seen)"
            return text % (path, where, directory)
        mount = below
        where += ", %s on %s" % (below.kind, below.point)
    return "%s is in memory (%s) and lost at a reboot" % (path, where) if mount.kind in IN_MEMORY else None


def problem(paths: t.Iterable[str]) -> str | None:
    """Return why the next boot of this machine cannot be predicted from its files: one of the paths is lost with it."""
    try:
        with open(MOUNTS, encoding="utf-8", errors="surrogateescape") as stream:
            mounts = stream.read()
    except OSError:
        return None
    for path in paths:
        reason = lost_at_reboot(mounts, os.path.realpath(path))
        if reason is not None:
            return "%s: the node's image determines what it boots. Add a file of modprobe.d to the image" % reason
    return None


__all__ = ("lost_at_reboot", "problem")
