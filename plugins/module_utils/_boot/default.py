# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""What the machine boots next by default: kernel, arguments, initramfs, and the file that sets it."""

from __future__ import annotations

from .._cache import load, save, signature
from .entry import BootEntry, Machine

# Raised when the meaning of the cached values changes.
CACHE_FORMAT = 1


def default_entry(
    root: str = "/", machine: Machine | None = None, cache: str | None = "/run/rdmaops/boot.json"
) -> BootEntry:
    """Return what boots by default next; what is unknown is None, with the reason in ``problem``.

    The result is cached in ``cache`` for the running system (``root="/"``) until a file that it depends on changes.
    """
    machine = Machine.of(root) if machine is None else machine
    if root != "/":
        cache = None
    if cache is not None:
        saved = load(cache, CACHE_FORMAT, list(machine))
        if saved is not None:
            try:
                if all(signature(path) == tuple(stamp) for path, stamp in saved["seen"].items()):
                    return BootEntry(*saved["entry"])
            except (AttributeError, KeyError, TypeError):
                pass  # a file that we did not write: read everything again
    # The parser of GRUB's language takes 4 ms to import.
    from .files import Files
    from .loader import find

    files = Files(root)
    entry = find(files, machine)
    if cache is not None and entry.cmdline is not None:
        save(cache, CACHE_FORMAT, list(machine), {"seen": files.stamps, "entry": list(entry)}, files.stamps.values())
    return entry


__all__ = ("default_entry",)
