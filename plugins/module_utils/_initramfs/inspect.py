# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""What an initramfs contains: read once, and remembered until a file changes."""

from __future__ import annotations

import os
import typing as t

from .._cache import load, save, signature
from .._files import in_root
from .contents import Contents, InitramfsError

# Raised when the meaning of the cached values changes.
CACHE_FORMAT = 2
CACHE = "/run/rdmaops/initramfs"

# Beside an image while a new one was put in its place and the boot loader's hooks have not all been run.
UNFINISHED = ".rdmaops-unfinished"


def unfinished(image: str, root: str = "/") -> bool:
    """Return whether a rebuild of ``image`` was stopped after the new image was in place: it must be repeated."""
    return os.path.lexists(in_root(root, image) + UNFINISHED)


def inspect(images: t.Sequence[str], root: str = "/", cache: str | None = CACHE) -> Contents:
    """Return what the images, loaded one after the other, contain.

    It is remembered under ``cache`` until one of the files changes.
    """
    if not images:
        raise InitramfsError("The boot entry has no initramfs to look into")
    real = [in_root(root, image) for image in images]
    signatures = [signature(path) for path in real]
    key = [list(images), root, signatures]
    place = None
    if cache is not None:
        place = os.path.join(cache, (root + images[-1]).strip("/").replace("/", "-") + ".json")
        kept = load(place, CACHE_FORMAT, key)
        if isinstance(kept, list) and len(kept) == len(Contents._fields):
            return Contents(*kept)
    from .reader import read

    contents = read(list(zip(images, real)))
    if place is not None and [signature(path) for path in real] == signatures:
        save(place, CACHE_FORMAT, key, list(contents), signatures)
    return contents


__all__ = ("CACHE", "UNFINISHED", "inspect", "unfinished")
