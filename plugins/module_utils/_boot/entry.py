# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""What the boot loader starts by default, and what cannot be read from the files alone."""

from __future__ import annotations

import os
import typing as t

# Set by boot loaders (https://systemd.io/BOOT_LOADER_INTERFACE/; of GRUB's modules, by bli), and by systemd-stub(7).
LOADER_VARIABLES = (
    "LoaderInfo",
    "LoaderEntryOneShot",
    "LoaderEntryDefault",
    "LoaderEntryLastBooted",
    "LoaderImageIdentifier",
    "StubInfo",
    "StubImageIdentifier",
)


class BootEntry(t.NamedTuple):
    """The default entry of the boot loader; paths are those inside the root."""

    kind: str
    source: str | None = None
    line: int | None = None
    cmdline: str | None = None
    kernel: str | None = None
    kernel_version: str | None = None
    initrd: t.Sequence[str] = ()
    title: str | None = None
    problem: str | None = None
    # (file, line, text) of everything that the command line was put together from: a variable may come from grubenv.
    parts: t.Sequence[tuple[str, int, str]] = ()
    # Which tool writes the arguments, for messages: a generated file is not the place to edit.
    remedy: str | None = None

    def where(self, argument: str) -> tuple[str | None, int | None]:
        """Return file and line from which a word of the command line comes (the last place that has it)."""
        for path, line, text in reversed(self.parts):
            if argument in text.split():
                return path, line
        return self.source, self.line


class Machine(t.NamedTuple):
    """What cannot be read from the files alone."""

    efi: bool = False
    boot_is_mount: bool = False
    ostree: bool = False
    machine: str = "x86_64"
    # LOADER_VARIABLES, as far as they are set.
    loader: t.Mapping[str, str] = {}

    @classmethod
    def of(cls, root: str = "/") -> Machine:
        """Read the facts; those of the firmware belong to the running machine only, never to an image's directory."""
        here = os.path.abspath(root) == "/"
        loader = {}
        if here:
            for name in LOADER_VARIABLES:
                try:
                    with open("/sys/firmware/efi/efivars/%s-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f" % name, "rb") as var:
                        # Four bytes of attributes, then UTF-16 with a final NUL.
                        loader[name] = var.read(4096)[4:].decode("utf-16-le", "replace").split("\0")[0]
                except OSError:
                    continue
        try:
            mounted = os.stat(os.path.join(root, "boot")).st_dev != os.stat(root).st_dev
        except OSError:
            mounted = False
        return cls(
            efi=os.path.isdir("/sys/firmware/efi" if here else os.path.join(root, "boot/efi/EFI")),
            boot_is_mount=mounted,
            ostree=os.path.exists("/run/ostree-booted" if here else os.path.join(root, "ostree/repo")),
            machine=os.uname().machine,
            loader=loader,
        )


__all__ = ("BootEntry", "Machine")
