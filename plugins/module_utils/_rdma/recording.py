# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.
"""What the kernel answers about the RDMA devices of one network namespace, before anything is made of it."""

from __future__ import annotations

import os
import re
import typing as t

from . import nldev, pci_netdevs, sysfs

__all__ = ("record",)

_DEVICE = ("node_type", "board_id", "parent")
_PORT = ("rate", "link_layer")
_NETDEV = ("mtu", "ifindex", "iflink", "dev_port", "type", "phys_port_name")
# A GID or a partition key that is not set.
_EMPTY = re.compile(r"(?:0x)?[0:]+\s*\Z")


class _Sysfs:
    """Files and links below ``root``, by their paths there: a text, or the number of the error."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.files: dict[str, t.Any] = {}
        self.links: dict[str, str] = {}

    def place(self, path: str) -> str:
        return "%s/%s" % (self.root, path)

    def text(self, path: str) -> t.Any:
        try:
            return sysfs.read(self.place(path))
        except sysfs.SysfsError as exc:
            return exc.__cause__.errno if isinstance(exc.__cause__, OSError) else None

    def keep(self, path: str) -> t.Any:
        content = self.text(path)
        if content is not None:
            self.files[path] = content
        return content

    def names(self, path: str) -> list[str]:
        try:
            return sysfs.names(self.place(path))
        except OSError:
            return []

    def follow(self, path: str) -> str | None:
        """Keep where a link leads to. None if there is none."""
        if not os.path.islink(self.place(path)):
            return None
        self.links[path] = os.path.relpath(os.path.realpath(self.place(path)), os.path.realpath(self.root))
        return self.links[path]

    def device(self, name: str, ports: t.Iterable[int]) -> set[str]:
        """Keep what Look and drivers.driver() read of a device; return the network devices of its GIDs."""
        base = "class/infiniband/" + name
        for file in _DEVICE:
            self.keep("%s/%s" % (base, file))
        parent = self.follow(base + "/device")
        if parent is not None:
            self.keep(parent + "/numa_node")
            self._drivers(parent)
        netdevs: set[str] = set()
        for number in ports:
            netdevs |= self._port("%s/ports/%d" % (base, number))
        return netdevs

    def _drivers(self, parent: str) -> None:
        """Keep the driver of a PCI device, and those of the auxiliary devices below it, of whatever name."""
        children = [child for child in self.names(parent) if not os.path.islink(self.place("%s/%s" % (parent, child)))]
        for device in (parent, *("%s/%s" % (parent, child) for child in children)):
            driver = self.follow(device + "/driver")
            if driver is not None:
                self.follow(driver + "/module")

    def _port(self, base: str) -> set[str]:
        netdevs = set()
        for file in _PORT:
            self.keep("%s/%s" % (base, file))
        for table in ("gids", "pkeys"):
            for index in self.names("%s/%s" % (base, table)):
                path = "%s/%s/%s" % (base, table, index)
                content = self.text(path)
                if content is None or (isinstance(content, str) and _EMPTY.match(content)):
                    continue
                self.files[path] = content
                if table == "gids":
                    self.keep("%s/gid_attrs/types/%s" % (base, index))
                    netdevs.add(self.keep("%s/gid_attrs/ndevs/%s" % (base, index)))
        return {name.strip() for name in netdevs if isinstance(name, str)}

    def netdev(self, name: str) -> None:
        """Keep what Look and pci_netdevs.netdevs() read of a network device."""
        base = "class/net/" + name
        self.follow(base + "/device")
        self.follow(base + "/master")
        for file in _NETDEV:
            self.keep("%s/%s" % (base, file))


def record(sys: str = "/sys") -> dict[str, t.Any]:
    """The answers of the namespace of the calling process (JSON): rows of netlink, files and links of sysfs.

    Of sysfs, only what this collection reads of RDMA devices, and of network devices that have a PCI device or a GID.
    """
    tree = _Sysfs(sys)
    devices = []
    netdevs: set[str] = set()
    for row in nldev.devices():
        ports: list[nldev.Port] = []
        error = None
        try:
            ports = nldev.ports(row.index)
        except nldev.NldevError as exc:
            error = exc.errno
        netdevs |= tree.device(row.name, [port.port for port in ports])
        netdevs |= {port.netdev for port in ports if port.netdev}
        rows = [dict(port._asdict(), subnet_prefix=None) for port in ports]
        devices.append({"device": dict(row._asdict()), "ports": rows, "errno": error})
    for name in tree.names("class/net"):
        place = tree.place("class/net/" + name)
        if name in netdevs or pci_netdevs.function_of(os.path.realpath(place + "/device")):
            tree.netdev(name)
    return {"devices": devices, "files": tree.files, "links": tree.links}
