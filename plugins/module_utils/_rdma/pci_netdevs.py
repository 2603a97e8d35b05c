# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.
"""Network devices of PCI cards, whose address stays whatever namespace they are in and are called there."""

from __future__ import annotations

import os
import typing as t

from . import drivers

__all__ = ("Netdev", "netdevs")


class Netdev(t.NamedTuple):
    name: str
    pci_address: str


def netdevs(sys: str = "/sys") -> list[Netdev]:
    """Those of the namespace that this sysfs was mounted for."""
    result = []
    for name in sorted(os.listdir(sys + "/class/net")):
        address = drivers.pci_address(os.path.realpath("%s/class/net/%s/device" % (sys, name)))
        if address:
            result.append(Netdev(name, address))
    return result
