# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.
"""What /sys and the module indexes tell about RDMA, without a socket."""

from __future__ import annotations

import os
import typing as t

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._errors import FabricError

__all__ = ("Availability", "SysfsError", "available", "devices", "live_mode")

_SUFFIXES = ("", ".xz", ".zst", ".gz")  # CONFIG_MODULE_COMPRESS_*


class SysfsError(FabricError):
    """A source exists and could not be read or understood; the text says which and why."""


class Availability(t.NamedTuple):
    """`how` is "builtin", "module" or None (this kernel has no ib_core); `path` as in the kernel's index."""

    loaded: bool
    how: str | None
    path: str | None


def _read(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as stream:
            return stream.read()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as exc:
        raise SysfsError("Could not read %s: %s" % (path, exc.strerror)) from exc


def live_mode(root: str = "/sys") -> str | None:
    """The mode in force, also after `rdma system set`; None when ib_core is not loaded."""
    module = os.path.join(root, "module/ib_core")
    path = os.path.join(module, "parameters/netns_mode")
    text = _read(path)
    if text is None:
        if not os.path.isdir(module):
            return None
        raise SysfsError(
            "ib_core is loaded, but there is no %s: its kernel or driver package is older than Linux 5.2, "
            "which brought the network namespace mode" % path
        )
    # The parameter is the boolean ib_devices_shared_netns (drivers/infiniband/core/device.c).
    mode = {"Y": "shared", "N": "exclusive"}.get(text.strip())
    if mode is None:
        raise SysfsError("Could not understand %s: it has %r where Y or N belongs" % (path, text[:40]))
    return mode


def devices(root: str = "/sys") -> list[str]:
    """Names of the RDMA devices in the network namespace for which this sysfs was mounted."""
    path = os.path.join(root, "class/infiniband")
    try:
        return sorted(os.listdir(path))
    except FileNotFoundError:
        return []
    except OSError as exc:
        raise SysfsError("Could not list %s: %s" % (path, exc.strerror)) from exc


def available(kernel: str | None = None, root: str = "/") -> Availability:
    """Whether a kernel (the running one by default) has ib_core, under `root`.

    `loaded` is about the running kernel of the machine whose /sys is under `root`.
    """
    kernel = kernel or os.uname().release
    loaded = os.path.isdir(os.path.join(root, "sys/module/ib_core"))
    # usr/lib first: where /lib is an absolute link, it would lead out of an image's root.
    for directory in ("usr/lib/modules", "lib/modules"):
        base = os.path.join(root, directory, kernel)
        path = _find(_read(os.path.join(base, "modules.builtin")))
        if path:
            return Availability(loaded, "builtin", path)
        path = _find(_read(os.path.join(base, "modules.dep")))
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
