# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.
"""What /sys shows about RDMA, without a socket."""

from __future__ import annotations

import os

from .._errors import FabricError

__all__ = ("SysfsError", "attributes", "devices", "live_mode", "names", "read")


class SysfsError(FabricError):
    """A source exists and could not be read or understood; the text says which and why."""


def read(path: str) -> str | None:
    """The text of a file; None if there is none."""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as stream:
            return stream.read()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as exc:
        raise SysfsError("Could not read %s: %s" % (path, exc.strerror)) from exc


def names(path: str) -> list[str]:
    """What is in a directory, in the order of the names. OSError if it cannot be listed."""
    return sorted(os.listdir(path))


def attributes(path: str) -> list[tuple[str, str | OSError]]:
    """The files of a directory in the order of their names, with the text of each or why there is none.

    OSError if the directory cannot be listed.
    """
    result: list[tuple[str, str | OSError]] = []
    for name in names(path):
        try:
            text = read("%s/%s" % (path, name))
        except SysfsError as exc:
            cause = exc.__cause__
            result.append((name, cause if isinstance(cause, OSError) else OSError(str(exc))))
        else:
            if text is not None:  # else it went while we looked
                result.append((name, text))
    return result


def live_mode(root: str = "/sys") -> str | None:
    """The mode in force, also after `rdma system set`; None when ib_core is not loaded."""
    module = os.path.join(root, "module/ib_core")
    path = os.path.join(module, "parameters/netns_mode")
    text = read(path)
    if text is None:
        if not os.path.isdir(module):
            return None
        raise SysfsError(
            "ib_core is loaded, but %s is missing: its kernel or driver package is older than Linux 5.2, "
            "which introduced the network namespace mode" % path
        )
    # The parameter is the boolean ib_devices_shared_netns (drivers/infiniband/core/device.c).
    mode = {"Y": "shared", "N": "exclusive"}.get(text.strip())
    if mode is None:
        raise SysfsError("Could not parse %s: it has %r instead of Y or N" % (path, text[:40]))
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
