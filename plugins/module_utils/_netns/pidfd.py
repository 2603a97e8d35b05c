# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.
"""Open files of other processes, and the network namespaces that they keep."""

from __future__ import annotations

import errno
import fcntl
import os
import typing as t

from . import nsfs

__all__ = ("Kernel",)

# Numbers of all architectures: calls from 424 on share one table.
_PIDFD_OPEN, _PIDFD_GETFD = 434, 438
_PIDFD_THREAD = 0x80  # Linux 6.9
_SIOCGSKNS = 0x894C


class Kernel:
    """System calls that Python 3.8 has no function for."""

    def __init__(self) -> None:
        import ctypes

        self._ioctl = fcntl.ioctl
        self._errno = ctypes.get_errno
        self._call = ctypes.CDLL(None, use_errno=True).syscall
        self._call.argtypes = [ctypes.c_long] * 6
        self._call.restype = ctypes.c_long
        # kcmp(2) is older than the common table.
        self._kcmp = {"x86_64": 312, "aarch64": 272, "riscv64": 272, "ppc64le": 354, "s390x": 343}.get(
            os.uname().machine
        )

    def _syscall(self, number: int, *arguments: int) -> int:
        result = self._call(number, *(arguments + (0,) * (5 - len(arguments))))
        if result < 0:
            code = self._errno()
            raise OSError(code, os.strerror(code))
        return t.cast(int, result)

    def pidfd(self, task: int, thread: bool) -> int:
        return self._syscall(_PIDFD_OPEN, task, _PIDFD_THREAD if thread else 0)

    def socket_namespace(self, pidfd: int, fd: int) -> int | None:
        """The inode of a socket's namespace. None: the descriptor is closed, or no socket any more."""
        handle = self.open_socket_namespace(pidfd, fd)
        return None if handle is None else nsfs.close_for_inode(handle)

    def open_socket_namespace(self, pidfd: int, fd: int) -> int | None:
        try:
            copy = self._syscall(_PIDFD_GETFD, pidfd, fd, 0)
        except OSError as exc:
            if exc.errno == errno.EBADF:
                return None
            raise
        try:
            return self._ioctl(copy, _SIOCGSKNS)
        except OSError as exc:
            if exc.errno in (errno.ENOTTY, errno.EINVAL, errno.EBADFD):
                return None
            raise
        finally:
            os.close(copy)

    def net_namespace(self, path: str) -> int | None:
        """The namespace that an open file is on, by a path that leads to it."""
        try:
            handle = nsfs.by_link(path)
        except OSError as exc:
            if exc.errno == errno.EINVAL:
                return None
            raise
        return nsfs.close_for_inode(handle)

    def own_files(self, leader: int, thread: int) -> bool:
        """Whether a thread has its own descriptor table (unshare(CLONE_FILES))."""
        if self._kcmp is None:
            return False
        try:
            return self._syscall(self._kcmp, leader, thread, 2, 0, 0) != 0
        except OSError as exc:
            if exc.errno == errno.ENOSYS:  # a kernel without CONFIG_KCMP
                return False
            raise
