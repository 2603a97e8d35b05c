# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""What the modules modprobe_options and rdma_system share: the rebuild of an initramfs, and who owns netns_mode."""

from __future__ import annotations

import typing as t

# The option that belongs to the module rdma_system, and the file in which it keeps it.
RDMA_OPTION = ("ib_core", "netns_mode")
RDMA_DROP_IN = "/etc/modprobe.d/zz-rdmaops-ib_core-netns_mode.conf"


class InitramfsHost:
    """The edges to the initramfs images below a root."""

    def __init__(self, root: str = "/") -> None:
        self.root = root

    def preflight(self, image: str, kernel: str) -> None:
        from .._initramfs import rebuild

        rebuild.preflight(image, self.root, kernel)

    def rebuild(self, image: str, kernel: str, verify: t.Callable[[t.Any], str | None]) -> None:
        from .._initramfs import rebuild

        rebuild.rebuild(image, kernel, self.root, rebuild.run, verify)


__all__ = ("RDMA_DROP_IN", "RDMA_OPTION", "InitramfsHost")
