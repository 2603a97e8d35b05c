# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""The boot loader's files inside one root, their settings for one entry, and which loader it is."""

from __future__ import annotations

import os
import re
import typing as t

from .._cache import Signature, signature
from .._files import FileError, in_root, read_text
from .entry import BootEntry, Machine


class BootError(Exception):
    """The default entry cannot be determined; the text is that of ``problem``."""


class Files:
    """The files of one root, by the paths that they have inside it."""

    def __init__(self, root: str) -> None:
        self.root = root
        # Every path that was read, also absent ones: the result is valid until one of them changes.
        self.stamps: dict[str, Signature] = {}

    def real(self, path: str) -> str:
        real = in_root(self.root, path)
        self.stamps[path] = signature(real)
        return real

    def read(self, path: str) -> str | None:
        try:
            return read_text(self.real(path))
        except FileError as exc:
            raise BootError(str(exc)) from exc
        except ValueError:  # a NUL in a name
            return None

    def exists(self, path: str) -> bool:
        try:
            return os.path.exists(self.real(path))
        except (FileError, OSError, ValueError):
            return False

    def size(self, path: str) -> int:
        try:
            return os.stat(self.real(path)).st_size
        except (FileError, OSError, ValueError):
            return 0

    def is_dir(self, path: str) -> bool:
        try:
            return os.path.isdir(self.real(path))
        except (FileError, OSError, ValueError):
            return False

    def names(self, path: str) -> list[str]:
        try:
            return sorted(os.listdir(self.real(path)))
        except (FileNotFoundError, NotADirectoryError):
            return []
        except (FileError, OSError) as exc:
            raise BootError("Reading the directory %s: %s" % (path, getattr(exc, "strerror", None) or exc)) from exc

    def locate(self, path: str, machine: Machine, first: t.Sequence[str] = (), subvolumes: bool = True) -> str | None:
        """Return where a path of the boot loader lies in the running system.

        The loader counts from the root of its own partition: ``/vmlinuz`` is ``/boot/vmlinuz`` where /boot is a file
        system of its own, and ``/@/boot/vmlinuz`` or ``/BOOT/debian@/vmlinuz`` name a btrfs subvolume or ZFS dataset.
        """
        path = "/" + re.sub(r"^\([^)]*\)", "", path).strip("/")
        bases = ["/boot", ""] if machine.boot_is_mount else ["", "/boot"]
        bases = [*first, *bases, "/boot/efi", "/efi"]
        parts = path.split("/")[1:]
        for skip in range(len(parts) if subvolumes else 1):
            for base in bases:
                candidate = base + "/" + "/".join(parts[skip:])
                if self.exists(candidate):
                    return candidate
        return None


def kernel_version(files: Files, path: str | None) -> str | None:
    """Return a kernel's version from its name (that of the file behind a link), else from its x86 boot header."""
    if path is None:
        return None
    try:
        real = files.real(path)
    except FileError:
        return None
    for name in (path, real):
        match = re.search(r"/(?:vmlinu[xz]|kernel|linux|[bz]?[Ii]mage)-([^/]*\d[^/]*)$", name)
        match = match or re.search(r"/([^/]*\d[^/]*)/(?:linux|vmlinuz|kernel)$", name)
        if match:
            return re.sub(r"\.efi(\.signed)?$", "", match.group(1))
    try:
        with open(real, "rb") as image:
            head = image.read(0x8000)
    except OSError:
        return None
    # Documentation/arch/x86/boot.rst: "HdrS" at 0x202, at 0x20e the offset (less 0x200) of the version string.
    if head[0x202:0x206] != b"HdrS":
        return None
    start = int.from_bytes(head[0x20E:0x210], "little") + 0x200
    words = head[start : start + 256].split(b"\0")[0].decode("ascii", "replace").split()
    return words[0] if words else None


def finish(
    files: Files, machine: Machine, entry: BootEntry, linux: str, initrds: t.Iterable[str], first: t.Sequence[str] = ()
) -> BootEntry:
    """Find the kernel and the initramfs of an entry on this machine's file systems."""
    kernel = files.locate(linux, machine, first)
    images: list[str] = []
    problem = entry.problem
    if kernel is None:
        problem = problem or "The kernel %s, which %s boots, was not found" % (linux, entry.source)
    for name in initrds:
        path = files.locate(name, machine, first)
        if path is None:
            problem = problem or "The initramfs %s, which %s loads, was not found" % (name, entry.source)
        elif path not in images:
            images.append(path)
    version = entry.kernel_version or kernel_version(files, kernel or "/" + linux.lstrip("/"))
    return entry._replace(kernel=kernel, kernel_version=version, initrd=tuple(images), problem=problem)


__all__ = ("BootError", "Files", "finish", "kernel_version")
