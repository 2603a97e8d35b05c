# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.
"""Network devices of PCI cards, by what they are, which is the same in every namespace and under every name."""

from __future__ import annotations

import os
import re
import typing as t

from . import drivers

__all__ = ("Function", "Netdev", "function_of", "netdevs", "represents")

# What devlink calls the ports of other functions (__devlink_port_phys_port_name_get() in net/devlink/port.c); a network
# port is p0. Documentation/networking/representors.rst
_REPRESENTOR = re.compile(r"(?:c\d+)?pf\d+(?:vf\d+|sf\d+)?\Z", re.ASCII)
# MODULE.NAME.ID (Documentation/driver-api/auxiliary_bus.rst). What virtio makes below a PCI function has no dots.
_AUXILIARY = re.compile(r"[^./]+\.[^/]+\.\d+\Z", re.ASCII)
_INFINIBAND = "32"  # ARPHRD_INFINIBAND


class Function(t.NamedTuple):
    """What network devices and RDMA devices are made on: a PCI function, or a sub-function, by its auxiliary device."""

    pci_address: str
    auxiliary: str | None = None

    def __str__(self) -> str:
        return "/".join(filter(None, self))


class Netdev(t.NamedTuple):
    """A network device, and what it is: a port, counted from 1, of a function."""

    name: str
    pci_address: str
    auxiliary: str | None = None
    port: int = 1
    infiniband: bool = False

    @property
    def function(self) -> Function:
        return Function(self.pci_address, self.auxiliary)

    @property
    def identity(self) -> str:
        return "%s%s" % (self.function, " port %d" % self.port if self.port != 1 else "")


def function_of(device: str) -> Function | None:
    """The function in the path that a device's ``device`` link leads to; None for software devices."""
    address = drivers.pci_address(device)
    if address is None:
        return None
    below = device.rsplit("/%s/" % address, 1)[1:]
    child = below[0].split("/", 1)[0] if below else ""
    return Function(address, child if _AUXILIARY.match(child) else None)


def represents(name: str, sys: str = "/sys") -> bool:
    """Whether a network device stands for the port of another function, as in switchdev mode."""
    return bool(_REPRESENTOR.match(_read("%s/class/net/%s/phys_port_name" % (sys, name))))


def netdevs(sys: str = "/sys") -> list[Netdev]:
    """Those of the namespace that this sysfs was mounted for.

    A function's own network devices: no representors, and no IPoIB interfaces that were added to another one, which
    have its PCI device as their parent, too (ipoib_get_iflink() in drivers/infiniband/ulp/ipoib/ipoib_main.c).
    """
    result = []
    for name in sorted(os.listdir(sys + "/class/net")):
        place = "%s/class/net/%s" % (sys, name)
        function = function_of(os.path.realpath(place + "/device"))
        if function is None or represents(name, sys) or _read(place + "/iflink") != _read(place + "/ifindex"):
            continue
        # Documentation/ABI/testing/sysfs-class-net: dev_port is counted from 0.
        port = int(_read(place + "/dev_port") or 0) + 1
        result.append(Netdev(name, *function, port, _read(place + "/type") == _INFINIBAND))
    return result


def _read(path: str) -> str:
    """A file's text; most drivers have no phys_port_name, for which the answer is EOPNOTSUPP."""
    try:
        with open(path, encoding="ascii", errors="replace") as stream:
            return stream.read().strip()
    except OSError:
        return ""
