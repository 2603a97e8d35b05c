# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""Files that the collection writes: whole or not at all, also after a power cut."""

from __future__ import annotations

import errno
import fcntl
import os
import stat

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._files import (
    BACKUP_SUFFIX,
    FileError,
    because,
    read_text,
)


def fsync_directory(path: str) -> None:
    """Make a rename in the directory ``path`` survive a power cut (fsync(2): the directory needs one of its own)."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def atomic_write(path: str, text: str, mode: int = 0o644) -> None:
    """Write ``text`` to ``path`` so that any reader, at any time, sees the old file or the new one.

    An existing file's owner, mode and SELinux label are kept; a new one gets ``mode``, whatever the umask is.
    """
    directory, name = os.path.split(path)
    # kmod, udev and systemd read no dot files. The name is fixed, so that a leftover of a power cut is used up by
    # the write that follows it.
    temporary = os.path.join(directory, ".%s.rdmaops-new" % name)
    try:
        os.makedirs(directory, exist_ok=True)
        with os.fdopen(_alone(temporary), "w", encoding="utf-8", errors="surrogateescape", newline="") as stream:
            try:
                stream.write(text)
                stream.flush()
                _copy_attributes(path, stream.fileno(), mode)
                os.fsync(stream.fileno())
                os.rename(temporary, path)
            except (OSError, UnicodeEncodeError):
                _discard(temporary)
                raise
        fsync_directory(directory)
    except (OSError, UnicodeEncodeError) as exc:
        if isinstance(exc, OSError):
            raise FileError("Writing %s: %s" % (path, because(exc))) from exc
        # JSON and YAML can name one half of a pair ("\ud800"), which stands for nothing.
        bad = exc.object[exc.start : exc.start + 1]
        raise FileError(
            "Writing %s: it has the character %a, which no file can hold. Take it out" % (path, bad)
        ) from exc


def _alone(temporary: str) -> int:
    """Open ``temporary``, empty, for one writer at a time: two runs may write the same file of a host at once.

    Who waits for the lock (flock(2)) gets a file that its last writer has given the wanted name, and begins anew.
    """
    while True:
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            if _is_named(handle, temporary):
                os.ftruncate(handle, 0)
                return handle
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)


def _is_named(handle: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), os.lstat(path))
    except FileNotFoundError:
        return False


def _discard(temporary: str) -> None:
    try:
        os.unlink(temporary)
    except OSError:
        pass  # the fault that is being told stops this too


def _copy_attributes(path: str, handle: int, mode: int) -> None:
    try:
        old = os.stat(path)
    except FileNotFoundError:
        os.fchmod(handle, mode)
        return
    os.fchmod(handle, stat.S_IMODE(old.st_mode))
    if (old.st_uid, old.st_gid) != (os.geteuid(), os.getegid()):
        os.fchown(handle, old.st_uid, old.st_gid)
    try:
        os.setxattr(handle, "security.selinux", os.getxattr(path, "security.selinux"))
    except OSError as exc:
        # ENOENT: another run has removed the file since.
        if exc.errno not in (errno.ENODATA, errno.ENOTSUP, errno.EPERM, errno.ENOENT):
            raise


def backup(path: str) -> str:
    """Copy ``path`` to a free name beside it that no configuration reader takes, and return that name."""
    text = read_text(path)
    if text is None:
        raise FileError("Backing up %s: no such file" % path)
    number = 0
    while True:
        name = path + BACKUP_SUFFIX + (".%d" % number if number else "")
        kept = read_text(name)
        if kept == text:
            return name
        if kept is None:
            atomic_write(name, text, stat.S_IMODE(os.stat(path).st_mode))
            return name
        number += 1


def remove(path: str) -> None:
    """Remove ``path`` for good; one that is gone already is fine."""
    try:
        os.unlink(path)
        fsync_directory(os.path.dirname(path))
    except FileNotFoundError:
        return
    except OSError as exc:
        raise FileError("Removing %s: %s" % (path, because(exc))) from exc


def free_bytes(path: str) -> int:
    """Return the bytes that root may still write to the file system of ``path``."""
    space = os.statvfs(path)
    return space.f_bfree * space.f_frsize


__all__ = ("atomic_write", "backup", "free_bytes", "fsync_directory", "remove")
