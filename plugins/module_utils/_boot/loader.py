# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""Which boot loader it is, and its default entry."""

from __future__ import annotations

import re

from .._files import FileError
from .efi import firmware_entry, grub_config, systemd_boot_entry
from .entry import BootEntry, Machine
from .files import BootError, Files
from .grub import grub_entry

GRUB_CONFIGS = ("/boot/grub/grub.cfg", "/boot/grub2/grub.cfg")

NOTHING_FOUND = (
    "No boot loader configuration was found: looked for grub.cfg in /boot/grub, /boot/grub2 and /boot/efi/EFI/*, for "
    "loader/entries and EFI/Linux in /boot, /boot/efi and /efi"
)


def _grub(files: Files, machine: Machine) -> BootEntry | None:
    configs = [path for path in GRUB_CONFIGS if files.exists(path)]
    config = None
    if machine.efi and configs != [GRUB_CONFIGS[0]]:
        # RHEL 8 keeps the real file on the EFI partition, RHEL 9 and Debian a few lines there that go on elsewhere.
        config = grub_config(files)
    if config is None and len({files.read(path) for path in configs}) > 1:
        raise BootError(
            "Two configurations of GRUB were found, and it cannot be determined which is used: %s; remove the one that "
            "is not" % " and ".join(configs)
        )
    if config is None and not configs:
        return None
    return grub_entry(files, machine, config or configs[0])


def _find(files: Files, machine: Machine) -> BootEntry:
    order = [_grub, systemd_boot_entry]
    if machine.loader.get("LoaderInfo", "").startswith("systemd-boot"):
        order.reverse()
    for look in (firmware_entry, *order):
        entry = look(files, machine)
        if entry is None:
            continue
        if machine.ostree or (entry.cmdline and re.search(r"(^|\s)ostree=", entry.cmdline)):
            owned = "The kernel arguments and the initramfs belong to an ostree deployment: a change creates a new one"
            return entry._replace(
                kind="ostree",
                problem=entry.problem or owned,
                remedy="change the arguments of the next deployment with rpm-ostree kargs (or the kargs.d of bootc)",
            )
        return entry
    return BootEntry("unknown", problem=NOTHING_FOUND)


def find(files: Files, machine: Machine) -> BootEntry:
    """Return the default entry; strange or unreadable files end in its ``problem``, never in an exception."""
    try:
        return _find(files, machine)
    except (BootError, FileError) as exc:
        return BootEntry("unknown", problem=str(exc))
    except (ValueError, OSError, RecursionError, OverflowError) as exc:
        return BootEntry("unknown", problem="The boot loader configuration could not be parsed: %s" % exc)


__all__ = ("find",)
