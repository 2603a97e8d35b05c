# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""Files that the collection writes: whole or not at all, also after a power cut."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat

from ._files import BACKUP_SUFFIX, MAX_LINKS, FileError, because, read_text

# Errors of a file system without extended attributes, or for one that only root may set. ENOENT: another run has
# removed the file since.
_NO_ATTRIBUTE = (errno.ENODATA, errno.ENOTSUP, errno.EPERM, errno.ENOENT)
# Checksums of the content, which are wrong for the new file (security/integrity/ima and evm in the kernel).
_SUMS = ("security.ima", "security.evm")


def fsync_directory(path: str) -> None:
    """Make a rename in the directory ``path`` survive a power cut (fsync(2): the directory needs one of its own)."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def atomic_write(path: str, text: str, mode: int = 0o644) -> None:
    """Write ``text`` to ``path`` so that any reader, at any time, sees the old file or the new one.

    An existing file's owner, mode and extended attributes (ACL, SELinux label) are kept; a new one gets ``mode``,
    whatever the umask is. A symbolic link stays, and the file to which it leads is written, unless another user could
    lead it elsewhere. Another hard link to the file keeps the old text, as with ``sed -i``.
    """
    try:
        target = _target(path)
        directory, name = os.path.split(target)
        # kmod, udev and systemd read no dot files. The name is fixed, so that a leftover of a power cut is used up by
        # the write that follows it.
        temporary = os.path.join(directory, ".%s.rdmaops-new" % name)
        os.makedirs(directory, exist_ok=True)
        handle = _alone(temporary, target)
        with os.fdopen(handle, "w", encoding="utf-8", errors="surrogateescape", newline="") as stream:
            try:
                stream.write(text)
                stream.flush()
                _copy_attributes(target, stream.fileno(), mode)
                os.fsync(stream.fileno())
                os.rename(temporary, target)
            except (OSError, UnicodeEncodeError):
                _discard(temporary)
                raise
        fsync_directory(directory)
    except (OSError, UnicodeEncodeError) as exc:
        if isinstance(exc, OSError):
            raise FileError("Writing %s: %s" % (path, because(exc))) from exc
        # JSON and YAML can name one half of a pair ("\ud800"), which is not a character.
        bad = exc.object[exc.start : exc.start + 1]
        raise FileError(
            "Writing %s: it contains the character %a, which cannot be stored in a file. Remove it" % (path, bad)
        ) from exc


def _target(path: str) -> str:
    """Return the regular file that ``path`` leads to; only a link's path is checked."""
    target = _followed(path) if os.path.islink(path) else path
    if os.path.exists(target) and not os.path.isfile(target):
        raise FileError("Writing %s: %s is not a regular file. Name another path" % (path, target))
    return target


def _followed(path: str) -> str:
    """Follow a link as the kernel does, and check that only root and this user can change the path."""
    todo = os.path.abspath(path).split("/")
    here, links = "/", 0
    while todo:
        part = todo.pop(0)
        step = os.path.normpath(os.path.join(here, part))
        try:
            status = os.lstat(step)
        except FileNotFoundError:
            if not todo:
                return step
            raise FileError("Writing %s: it is a symbolic link, and %s does not exist" % (path, step)) from None
        why = _changeable(status)
        if why:
            raise FileError(
                "Writing %s: it is a symbolic link, and the path to its target includes %s, which %s. Replace the link "
                "with a file, or give the target an owner and permissions like those of /etc" % (path, step, why)
            )
        if not stat.S_ISLNK(status.st_mode):
            here = step
            continue
        links += 1
        if links > MAX_LINKS:
            raise FileError("Writing %s: %s" % (path, os.strerror(errno.ELOOP)))
        text = os.readlink(step)
        here = "/" if text.startswith("/") else here
        todo = text.split("/") + todo
    return here


def _changeable(status: os.stat_result) -> str | None:
    """Return how others could put something else in the place of a directory, a link or a file."""
    if status.st_uid not in (0, os.geteuid()):
        return "belongs to user ID %d" % status.st_uid
    # Where each user has a group of the same name, directories are made with its write bit.
    others = 0o002 if status.st_gid in (0, os.getegid()) else 0o022
    # In a sticky directory, a name of root's is root's alone (unlink(2), rename(2)).
    if stat.S_ISDIR(status.st_mode) and status.st_mode & others and not status.st_mode & stat.S_ISVTX:
        return "is writable by users other than its owner"
    return None


def _alone(temporary: str, target: str) -> int:
    """Open ``temporary``, empty, for one writer at a time: two runs may write the same file of a host at once.

    A writer that waited for the lock (flock(2)) finds its file renamed to the target, and starts again.
    """
    while True:
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
        try:
            status = os.fstat(handle)
            # In /tmp another user may have created it, to own the file or hold its lock, or linked a file of ours.
            # A leftover may have the owner of the file that was to be replaced.
            owners = [os.geteuid()] + ([os.stat(target).st_uid] if os.path.exists(target) else [])
            if not stat.S_ISREG(status.st_mode) or status.st_uid not in owners or status.st_nlink > 1:
                raise FileError(
                    "Writing %s: %s is in the way and was not created by this user. Remove it" % (target, temporary)
                )
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
    # The error that is being reported may prevent this too.
    with contextlib.suppress(OSError):
        os.unlink(temporary)


def _copy_attributes(path: str, handle: int, mode: int) -> None:
    try:
        old = os.stat(path)
    except FileNotFoundError:
        os.fchmod(handle, mode)
        return
    if (old.st_uid, old.st_gid) != (os.geteuid(), os.getegid()):
        os.fchown(handle, old.st_uid, old.st_gid)
    # After the owner, whose change clears set-user-ID bits and capabilities (chown(2)).
    os.fchmod(handle, stat.S_IMODE(old.st_mode))
    # A control node need not run Linux.
    if hasattr(os, "listxattr"):
        _copy_extended(path, handle)


def _copy_extended(path: str, handle: int) -> None:
    try:
        names = set(os.listxattr(path)).difference(_SUMS)
    except OSError as exc:
        if exc.errno not in _NO_ATTRIBUTE:
            raise
        return
    for name in names:
        try:
            os.setxattr(handle, name, os.getxattr(path, name))
        except OSError as exc:
            if exc.errno not in _NO_ATTRIBUTE:
                raise


def backup(path: str) -> str:
    """Copy ``path`` to a free name beside it that no configuration reader reads, and return that name."""
    text = read_text(path)
    if text is None:
        raise FileError("Backing up %s: no such file" % path)
    number = 0
    while True:
        name = path + BACKUP_SUFFIX + (".%d" % number if number else "")
        existing = read_text(name)
        if existing == text:
            return name
        if existing is None:
            atomic_write(name, text, stat.S_IMODE(os.stat(path).st_mode))
            return name
        number += 1


def remove(path: str) -> None:
    """Remove ``path`` for good; a missing one is fine."""
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
