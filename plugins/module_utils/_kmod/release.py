# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""What the kmod of a system reads: before release 29, which RHEL 8 and 9 have, not /usr/local/lib/modprobe.d.

libkmod.c got that directory with the patch "Support /usr/local for configuration files", and kmod 28 of Debian 11 does
not read it.
"""

from __future__ import annotations

import os

from .._files import FileError, in_root

USR_LOCAL = "/usr/local/lib/modprobe.d"
# The library's version in kmod 29 (kmod 25: 2.3.3, 28: 2.3.6, 30: 2.4.0).
_LIBRARY_OF_29 = (2, 3, 7)
_LIBRARY = "libkmod.so."


def _versions(root: str) -> list[tuple[int, ...]]:
    """Return the versions of libkmod in a root, from the names of its files."""
    versions = []
    multiarch = "/usr/lib/%s-linux-gnu" % os.uname().machine
    for directory in ("/usr/lib64", multiarch, "/usr/lib", multiarch[4:], "/lib64", "/lib"):
        try:
            names = os.listdir(in_root(root, directory))
        except (FileError, OSError):
            continue
        for name in names:
            numbers = name[len(_LIBRARY) :].split(".")
            if name.startswith(_LIBRARY) and len(numbers) == 3 and all(number.isdigit() for number in numbers):
                versions.append(tuple(int(number) for number in numbers))
    return versions


def reads_usr_local(root: str) -> bool:
    """Return whether the kmod of a root reads /usr/local/lib/modprobe.d; one without a library is held to be new."""
    versions = _versions(root)
    return not versions or max(versions) >= _LIBRARY_OF_29


__all__ = ("USR_LOCAL", "reads_usr_local")
