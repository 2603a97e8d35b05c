# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""A cache under /run for what was read from files that have not changed since."""

from __future__ import annotations

import contextlib
import json
import os
import stat
import time
import typing as t

# (device, inode, size, mtime_ns, ctime_ns) of a file or directory; empty if there is none.
Signature = t.Tuple[int, ...]

# Of a file that is younger (nanoseconds), a second change might leave the same signature.
# FAT keeps times of two seconds: a file changed that recently may change again without a trace.
RACY_NS = 3 * 10**9


def signature(path: str) -> Signature:
    """Return what changes when a file is changed or replaced."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return ()
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def load(path: str, number: int, key: t.Any) -> t.Any:
    """Return what was saved under the same format number and key; None for anything else.

    A file that is missing, broken, of another format or owner, or writable by others counts as nothing saved.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(handle, encoding="utf-8") as stream:
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o022:
                return None
            saved = json.load(stream)
        # In JSON, tuples become lists.
        if saved["format"] == number and saved["key"] == json.loads(json.dumps(key)):
            return saved["value"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        pass
    return None


def save(path: str, number: int, key: t.Any, value: t.Any, signatures: t.Iterable[Signature] = ()) -> None:
    """Save a value, whole or not at all. If it cannot be saved, or not safely yet, the files are read again."""
    now = time.time_ns()
    if any(stamp and now - max(stamp[3:5]) < RACY_NS for stamp in signatures):
        return
    temporary = "%s.%d" % (path, os.getpid())
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    except OSError:
        return
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            json.dump({"format": number, "key": key, "value": value}, stream)
        os.rename(temporary, path)
    except (OSError, ValueError, TypeError):
        with contextlib.suppress(OSError):
            os.unlink(temporary)


__all__ = ("Signature", "load", "save", "signature")
