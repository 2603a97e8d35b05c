# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""What an initramfs does with kernel modules: which it has, which it loads whatever happens, with which options."""

from __future__ import annotations

import typing as t

from .._errors import FabricError


class InitramfsError(FabricError):
    """An image could not be read or rebuilt; the text says which, why, and what unblocks it."""

    def __init__(self, text: str, cmd: t.Sequence[str] = (), rc: int | None = None, stderr: str = "") -> None:
        super().__init__(text)
        self.cmd = list(cmd)
        self.rc = rc
        self.stderr = stderr


class BrokenImage(Exception):
    """An image is not in the format of an initramfs; the text says why, after the name of the image."""


class Contents(t.NamedTuple):
    """Module names have ``_`` for ``-``; paths are as inside the image."""

    # The last image of the boot entry that has modules of a kernel, or the last if none has.
    image: str
    kind: str  # initramfs-tools, dracut, mkinitcpio or unknown
    modules: t.Sequence[str]
    # Loaded whatever hardware there is, with everything that they depend on.
    forced: t.Sequence[str]
    # Text of each modprobe.d file.
    modprobe: t.Mapping[str, str]
    # Options that a list of modules to load gives with a name ("ib_core netns_mode=1"): they beat modprobe.d's.
    arguments: t.Mapping[str, str] = {}
    # Direct dependencies, hard and soft.
    requires: t.Mapping[str, t.Sequence[str]] = {}
    # Which images have the modules of a kernel, by its version.
    versions: t.Mapping[str, t.Sequence[str]] = {}
    # Which modprobe.d files an image has, by the image.
    configurations: t.Mapping[str, t.Sequence[str]] = {}


def kernel_image(contents: Contents, kernel_version: str) -> str:
    """Return the image of a kernel, the only one of a boot entry that its tool can rebuild.

    An entry may load others before and after it: TuneD's profile cpu-partitioning adds tuned-initrd.img to all entries
    (initrd_add_dir of tuned/plugins/plugin_bootloader.py). Raises InitramfsError if not exactly one image
    is the kernel's, or if another image has modprobe.d files, which a rebuild does not change.
    """
    images = contents.versions.get(kernel_version, ())
    if len(images) != 1:
        text = "Looking for the initramfs to rebuild: of the images of the default boot entry, %s of kernel %s"
        those = " and ".join(images) + " have modules" if images else "none has modules"
        raise InitramfsError(text % (those, kernel_version) + "; rebuild the right one by hand")
    for image, paths in contents.configurations.items():
        if image != images[0] and paths:
            text = (
                "Rebuilding the initramfs %s: the default boot entry also loads %s, which has /%s and is not rebuilt; "
                "remove that file from the image, or the image from the boot entry"
            )
            raise InitramfsError(text % (images[0], image, paths[0]))
    return images[0]


def closure(requires: t.Mapping[str, t.Sequence[str]], names: t.Iterable[str]) -> list[str]:
    """Return the modules and everything that they need."""
    result: set[str] = set()
    todo = list(names)
    while todo:
        name = todo.pop()
        if name not in result:
            result.add(name)
            todo.extend(requires.get(name, ()))
    return sorted(result)


def from_cmdline(kind: str, cmdline: str) -> list[str]:
    """Return the modules that a kernel command line makes an initramfs load (dracut.cmdline(7))."""
    names = []
    for word in cmdline.replace('"', "").split():
        if word == "--":
            break
        key, _equals, value = word.partition("=")
        # systemd-modules-load(8) takes the last two, in an initramfs of dracut or mkinitcpio only.
        if kind != "initramfs-tools" and key in ("rd.driver.pre", "rd.modules_load", "modules_load"):
            names += [name.replace("-", "_") for name in value.split(",") if name]
    return names


def forced(contents: Contents, cmdline: str | None = None) -> list[str]:
    """Return what the image loads whatever hardware there is, when it is booted with ``cmdline``."""
    extra = from_cmdline(contents.kind, cmdline or "")
    present = set(contents.modules)
    return sorted(set(contents.forced) | {name for name in closure(contents.requires, extra) if name in present})


__all__ = (
    "BrokenImage",
    "Contents",
    "InitramfsError",
    "closure",
    "forced",
    "from_cmdline",
    "kernel_image",
)
