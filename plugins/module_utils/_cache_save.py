# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""Keep what was read from files: the writing half of _cache, needed only when something was read anew."""

from __future__ import annotations

import json
import os
import time
import typing as t

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._cache import Signature

# FAT keeps times of two seconds: a file changed that recently may change again without a trace.
RACY_NS = 3 * 10**9


def save(path: str, number: int, key: t.Any, value: t.Any, signatures: t.Iterable[Signature] = ()) -> None:
    """Save a value, whole or not at all. That it cannot be saved, or not safely yet, is no error: it is read again."""
    now = time.time_ns()
    if any(seen and now - max(seen[3:5]) < RACY_NS for seen in signatures):
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
        try:
            os.unlink(temporary)
        except OSError:
            pass


__all__ = ("save",)
