# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.
"""Whether a kernel has the RDMA subsystem, by the indexes of its modules (depmod(8))."""

from __future__ import annotations

import os
import typing as t

from .sysfs import read

__all__ = ("Availability", "available")

_SUFFIXES = ("", ".xz", ".zst", ".gz")  # CONFIG_MODULE_COMPRESS_*


class Availability(t.NamedTuple):
    """`how` is "builtin", "module" or None (this kernel has no ib_core); `path` as in the kernel's index."""

    loaded: bool
    how: str | None
    path: str | None


def available(kernel: str | None = None, root: str = "/") -> Availability:
    """Whether a kernel (the running one by default) has ib_core, under `root`.

    `loaded` is about the running kernel of the machine whose /sys is under `root`.
    """
    kernel = kernel or os.uname().release
    loaded = os.path.isdir(os.path.join(root, "sys/module/ib_core"))
    # usr/lib first: if /lib is an absolute link, it would lead out of an image's root.
    for directory in ("usr/lib/modules", "lib/modules"):
        base = os.path.join(root, directory, kernel)
        path = _find(read(os.path.join(base, "modules.builtin")))
        if path:
            return Availability(loaded, "builtin", path)
        path = _find(read(os.path.join(base, "modules.dep")))
        if path:
            return Availability(loaded, "module", path)
    return Availability(loaded, None, None)


def _find(text: str | None) -> str | None:
    """ib_core's path in modules.dep ("path: dependencies") or modules.builtin ("path")."""
    position = -1
    while text:
        position = text.find("ib_core.ko", position + 1)
        if position < 0:
            break
        start = text.rfind("\n", 0, position) + 1
        end = text.find("\n", position)
        path = text[start : end if end >= 0 else len(text)].split(":", 1)[0].strip()
        if os.path.basename(path) in ["ib_core.ko" + suffix for suffix in _SUFFIXES]:
            return path
    return None
