# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""Files that the collection reads, as seen inside a root directory."""

from __future__ import annotations

import errno
import os
import re
import typing as t

from ._errors import FabricError

HEADER = "# Managed by Ansible (rdmaops.gpu_fabric). Local changes will be overwritten."

# A chain of symbolic links longer than this is a loop (path_resolution(7): the kernel's own limit).
MAX_LINKS = 40

# Suffix of the copies kept before a foreign file is changed. kmod and dracut read "*.conf" only.
BACKUP_SUFFIX = ".rdmaops-backup"


class FileError(FabricError):
    """A file could not be read or written; the text says which, why, and what unblocks it."""


def because(exc: OSError) -> str:
    """Return why a file could not be read or written, and what unblocks it."""
    reason = exc.strerror or str(exc)
    if exc.errno in (errno.EACCES, errno.EPERM):
        return "%s; run as root (become: true)" % reason
    if exc.errno == errno.EROFS:
        return "%s; remount it writable, or manage the image that it comes from" % reason
    if exc.errno == errno.ENOSPC:
        return "%s; free some space" % reason
    return reason


def refuse_nul(**paths: str) -> None:
    """Refuse options that name a file and have a NUL, at which the kernel would end the name."""
    for option, path in paths.items():
        if "\0" in path:
            raise FileError("%s is %r; a path cannot have a NUL" % (option, path))


def in_root(root: str, path: str) -> str:
    """Return where ``path``, as seen inside the directory ``root``, lies on this machine.

    Symbolic links are followed inside ``root``, absolute ones too, and ``..`` never leaves it, as chroot(2) has it.
    The last component need not exist.
    """
    base = os.path.abspath(root)
    if base == "/":
        return os.path.realpath(path)
    todo = [part for part in path.split("/") if part]
    done: list[str] = []
    links = 0
    while todo:
        part = todo.pop(0)
        if part == ".":
            continue
        if part == "..":
            done = done[:-1]
            continue
        here = os.path.join(base, *done, part)
        try:
            target = os.readlink(here)
        except OSError:
            done.append(part)
            continue
        links += 1
        if links > MAX_LINKS:
            raise FileError("Resolving %s inside %s: too many levels of symbolic links" % (path, root))
        if target.startswith("/"):
            done = []
        todo = [step for step in target.split("/") if step] + todo
    return os.path.join(base, *done)


def is_conf(name: str) -> bool:
    """Return whether a file of a drop-in directory counts. (Up to 32 kmod read ``*.alias`` too, undocumented.)"""
    return name.endswith(".conf") and not name.startswith(".")


def drop_ins(paths: t.Iterable[str], directories: t.Sequence[str]) -> list[str]:
    """Return the files of drop-in directories that count, in the order of their names (modprobe.d(5), sysctl.d(5)).

    Of several with one name, that is the one in the first of ``directories``. Files elsewhere are left out.
    """
    named: dict[str, tuple[int, str]] = {}
    for path in paths:
        directory, name = os.path.split(path)
        if directory in directories and is_conf(name):
            rank = directories.index(directory)
            if name not in named or rank < named[name][0]:
                named[name] = (rank, path)
    return [named[name][1] for name in sorted(named, key=os.fsencode)]


def unescape_mount(text: str) -> str:
    r"""Return a field of /proc/self/mounts or mountinfo with a space for ``\040`` (mangle_path() in fs/seq_file.c)."""
    return re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), text)


def read_text(path: str) -> str | None:
    """Return the text of ``path``, or None if it does not exist. Bytes that are not UTF-8 survive a write."""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape", newline="") as stream:
            return stream.read()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as exc:
        raise FileError("Reading %s: %s" % (path, because(exc))) from exc


def is_ours(text: str | None) -> bool:
    """Return whether a file's text has the collection's header among its first lines."""
    return text is not None and HEADER in text.split("\n", 5)[:5]


__all__ = (
    "BACKUP_SUFFIX",
    "HEADER",
    "FileError",
    "because",
    "drop_ins",
    "in_root",
    "is_conf",
    "is_ours",
    "read_text",
    "refuse_nul",
    "unescape_mount",
)
