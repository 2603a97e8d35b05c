# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.
"""Open a network namespace by a path behind which another user may have put anything else.

With O_PATH nothing is opened yet (open(2)): a FIFO does not block, and no driver learns of it. What the handle is on is
then asked of the kernel alone, and only a namespace is opened, through the handle.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct

__all__ = ("INITIAL_USER", "by_link", "by_mount", "close_for_inode", "file_id", "is_net_namespace", "owner")

# PROC_USER_INIT_INO of include/linux/proc_ns.h, the same since Linux 3.8
INITIAL_USER = 0xEFFFFFFD

_CLONE_NEWNET = 0x40000000
_NS_GET_USERNS, _NS_GET_NSTYPE = 0xB701, 0xB703
_STATX = {"x86_64": 332, "aarch64": 291, "riscv64": 291, "ppc64le": 383, "s390x": 379}.get(os.uname().machine)
_AT_EMPTY_PATH, _AT_STATX_DONT_SYNC, _STATX_INO = 0x1000, 0x4000, 0x100


def is_net_namespace(handle: int) -> bool:
    """Whether a file that is open is a network namespace (ioctl_ns(2))."""
    try:
        return fcntl.ioctl(handle, _NS_GET_NSTYPE) == _CLONE_NEWNET
    except OSError:
        return False


def owner(handle: int) -> int | None:
    """The inode of the user namespace that owns a namespace; None: none that this process may know (ioctl_ns(2))."""
    try:
        user = fcntl.ioctl(handle, _NS_GET_USERNS)
    except OSError:
        return None
    return close_for_inode(user)


def close_for_inode(handle: int) -> int:
    """Close a file, and return the inode that it was."""
    try:
        return os.fstat(handle).st_ino
    finally:
        os.close(handle)


def file_id(handle: int) -> tuple[int, int]:
    """Device and inode of an open file, as the kernel knows them: a dead NFS server is not contacted (statx(2))."""
    import ctypes

    result = ctypes.create_string_buffer(256)
    arguments = (handle, b"", _AT_EMPTY_PATH | _AT_STATX_DONT_SYNC, _STATX_INO, result)
    if _STATX is None or ctypes.CDLL(None).syscall(_STATX, *arguments) != 0:
        status = os.fstat(handle)
        return status.st_dev, status.st_ino
    inode, major, minor = struct.unpack_from("=32xQ96xII", result)
    return os.makedev(major, minor), inode


def by_link(path: str, inode: int | None = None, directory: int | None = None) -> int:
    """Open what a link of /proc/PID leads to. OSError if that is not the network namespace ``inode`` (None: any)."""
    return _opened(os.open(path, os.O_PATH | os.O_CLOEXEC, dir_fd=directory), path, inode)


def by_mount(point: str, inode: int, root: str = "/") -> int:
    """The same by a mount point. No symbolic link is followed below ``root``: mount tables have paths without any."""
    handle = os.open(root, os.O_PATH | os.O_CLOEXEC)
    for name in point.strip("/").split("/"):
        try:
            below = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=handle)
        finally:
            os.close(handle)
        handle = below
    return _opened(handle, point, inode)


def _opened(link: int, path: str, inode: int | None) -> int:
    """Open what an O_PATH handle is on, and close that."""
    handle = None
    try:
        device, number = file_id(link)
        if inode not in (None, number):
            raise OSError(errno.ENOENT, "the file was replaced", path)
        # There is one nsfs, so all namespaces are of one device. Reading NSFS_MAGIC would query the file system.
        if device == os.stat("/proc/self/ns/net").st_dev:
            handle = os.open("/proc/self/fd/%d" % link, os.O_RDONLY | os.O_CLOEXEC)
    finally:
        os.close(link)
    if handle is not None and is_net_namespace(handle):
        return handle
    if handle is not None:
        os.close(handle)
    raise OSError(errno.EINVAL, "it is not a network namespace", path)
