# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.
"""The RDMA devices of one network namespace: netlink for what it reports, sysfs for the rest.

What exists and cannot be read is None in its place and a line in ``unreadable``; nothing is made up.
"""

from __future__ import annotations

import errno
import ipaddress
import os
import re
import typing as t

from .. import _command
from . import drivers, nldev, pci_netdevs, sysfs
from .sysfs import SysfsError

__all__ = ("KNOBS", "Look", "counter", "gid_ipv4", "look", "rate_gbps")

_EMPTY_GID = re.compile(r"[0:]+\Z")
_RATE = re.compile(r"(\d+(?:\.\d+)?) Gb/sec")

# Knobs and settings among the files of hw_counters/: writable, and no counters (lifespan: hw_stats, in ms).
KNOBS = ("lifespan",)


def rate_gbps(text: str) -> float | None:
    """The rate of a port from sysfs (rate_show() in drivers/infiniband/core/sysfs.c): "10 Gb/sec (1X FDR10)"."""
    match = _RATE.match(text)
    return float(match.group(1)) if match else None


def gid_ipv4(gid: str) -> str | None:
    """The IPv4 address that a GID maps (RFC 4291, 2.5.5.2), or None."""
    try:
        mapped = ipaddress.IPv6Address(gid).ipv4_mapped
    except ValueError:
        return None
    return None if mapped is None else str(mapped)


def counter(text: str) -> int | None:
    """A counter's value; None for a text that is none."""
    text = text.strip()
    # 64 bits have at most 20 digits.
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 20 else None


def _program(pid: int) -> str:
    try:
        with open("/proc/%d/comm" % pid, encoding="utf-8", errors="replace") as stream:
            return "%s (PID %d)" % (stream.read().strip(), pid)
    except OSError:
        return "PID %d" % pid  # it has ended meanwhile


class Look:
    """One look at the namespace of the calling process. ``gather`` are the subsets that rdma_info has.

    ``files`` has read(), names() and attributes() as the module sysfs has them.
    """

    def __init__(self, gather: t.Collection[str], sys: str = "/sys", files: t.Any = sysfs) -> None:
        self.gather = gather
        self.sys = sys
        self.files = files
        self.unreadable: list[dict[str, t.Any]] = []

    def failed(self, device: str | None, part: str, exc: Exception) -> None:
        if isinstance(exc, OSError) and exc.strerror and not isinstance(exc, nldev.NldevError):
            error = "%s (%s)" % (errno.errorcode.get(exc.errno or 0, "?"), exc.strerror)
        else:
            error = str(exc)
        self.unreadable.append({"device": device, "what": part, "error": error})

    def _text(self, device: str, path: str, *, needed: bool = False) -> str | None:
        """The text of a file below the device's directory; a device may be without it, unless it is ``needed``."""
        try:
            text = self.files.read("%s/class/infiniband/%s/%s" % (self.sys, device, path))
        except SysfsError as exc:
            self.failed(device, path, exc.__cause__ if isinstance(exc.__cause__, OSError) else exc)
            return None
        if text is None and needed:
            self.failed(device, path, FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT)))
        return None if text is None else text.strip()

    def _names(self, device: str, path: str) -> list[str]:
        try:
            names: list[str] = self.files.names("%s/class/infiniband/%s/%s" % (self.sys, device, path))
            return names
        except FileNotFoundError:
            return []
        except OSError as exc:
            self.failed(device, path, exc)
            return []

    def devices(self) -> list[dict[str, t.Any]]:
        """Every device, in the order of its index."""
        result = []
        for row in sorted(nldev.devices(), key=lambda row: row.index):
            try:
                ports = sorted(nldev.ports(row.index), key=lambda port: port.port)
            except nldev.NldevError as exc:
                if exc.errno == errno.EINVAL and row.index not in [other.index for other in nldev.devices()]:
                    continue  # it went while we looked
                self.failed(row.name, "ports", exc)
                ports = []
            place = "%s/class/infiniband/%s" % (self.sys, row.name)
            sysfs = os.path.isdir(place)
            if not sysfs:
                self.failed(row.name, "sysfs", SysfsError("%s is missing" % place))
            device = self._device(row, ports, sysfs)
            if not os.path.isdir(place) and row.index not in [other.index for other in nldev.devices()]:
                # It went while we looked.
                self.unreadable = [line for line in self.unreadable if line["device"] != row.name]
                continue
            result.append(device)
        return result

    def _device(self, row: nldev.Device, ports: t.Sequence[nldev.Port], sysfs: bool) -> dict[str, t.Any]:
        driver, pci_address, auxiliary = self._origin(row.name) if sysfs else (None, None, None)
        numa = counter(self._text(row.name, "device/numa_node") or "") if sysfs else None
        return {
            "name": row.name,
            "index": row.index,
            "driver": driver,
            "protocol": row.protocol,
            "node_type": row.node_type,
            "pci_address": pci_address,
            "auxiliary_device": auxiliary,
            "numa_node": numa,
            "node_guid": row.node_guid,
            "sys_image_guid": row.sys_image_guid,
            "firmware": row.firmware,
            "board_id": (self._text(row.name, "board_id") or None) if sysfs else None,
            "ports": [self._port(row, port, sysfs) for port in ports],
            "users": self._users(row) if "users" in self.gather else None,
        }

    def _users(self, row: nldev.Device) -> list[str] | None:
        """Who has objects of the device, in addition to the kernel itself; PIDs as this process counts them."""
        try:
            pids = [pid for pid, kernel in nldev.owners(row.index) if kernel is None]
        except nldev.NldevError as exc:
            self.failed(row.name, "users", exc)
            return None
        return ["a process that cannot be seen" if pid is None else _program(pid) for pid in sorted(pids, key=str)]

    def _origin(self, device: str) -> tuple[str | None, str | None, str | None]:
        """Driver, PCI address and auxiliary device."""
        place = "%s/class/infiniband/%s/device" % (self.sys, device)
        function = pci_netdevs.function_of(os.path.realpath(place))
        return (drivers.driver(device, self.sys), *(function or (None, None)))

    def _port(self, row: nldev.Device, port: nldev.Port, sysfs: bool) -> dict[str, t.Any]:
        place = "ports/%d" % port.port
        rate = self._text(row.name, place + "/rate", needed=True) if sysfs else None
        speed = None if rate is None else rate_gbps(rate)
        if rate is not None and speed is None:
            self.failed(row.name, place + "/rate", ValueError("%r is not a rate" % rate[:40]))
        gids = self._gids(row.name, place) if sysfs and {"gids", "empty_gids"} & set(self.gather) else None
        netdev = self._netdev(port.netdev, gids)
        return {
            "port": port.port,
            "state": port.state,
            "physical_state": port.physical_state,
            "link_layer": (self._text(row.name, place + "/link_layer", needed=True) or None) if sysfs else None,
            "rate_gbps": speed,
            "rate": rate,
            "lid": port.lid,
            "sm_lid": port.sm_lid,
            "lmc": port.lmc,
            "netdev": netdev,
            "netdev_mtu": self._netdev_number(row.name, netdev, "mtu") if netdev else None,
            "representor": pci_netdevs.represents(netdev, self.sys) if netdev and row.ports > 1 else False,
            "active_mtu": self._active_mtu(row.name, port.port) if "active_mtu" in self.gather else None,
            "pkeys": self._pkeys(row.name, place) if sysfs and "pkeys" in self.gather else None,
            "gids": gids,
            "counters": self._counters(row.name, place + "/counters") if sysfs and "counters" in self.gather else None,
            "hw_counters": self._hw_counters(row, port.port, sysfs) if "hw_counters" in self.gather else None,
        }

    def _netdev(self, netdev: str | None, gids: t.Sequence[t.Mapping[str, t.Any]] | None) -> str | None:
        """The network device that has the port's addresses: of a bond the bond, if the driver names a member."""
        if netdev is None or not gids:
            return netdev
        owners = {gid["netdev"] for gid in gids if gid["netdev"]}
        try:
            master = os.path.basename(os.readlink("%s/class/net/%s/master" % (self.sys, netdev)))
        except OSError:
            return netdev
        return master if master in owners and netdev not in owners else netdev

    def _netdev_number(self, device: str, netdev: str, attribute: str) -> int | None:
        """Read a number of a network device (Documentation/ABI/testing/sysfs-class-net)."""
        try:
            text = self.files.read("%s/class/net/%s/%s" % (self.sys, netdev, attribute))
        except SysfsError as exc:
            self.failed(device, "%s of %s" % (attribute, netdev), exc)
            return None
        return None if text is None else counter(text)

    def _gids(self, device: str, place: str) -> list[dict[str, t.Any]]:
        gids = []
        layer = None
        for index in sorted(int(name) for name in self._names(device, place + "/gids") if name.isdigit()):
            gid = self._text(device, "%s/gids/%d" % (place, index))
            if gid is None:
                continue
            if _EMPTY_GID.match(gid):
                if "empty_gids" in self.gather:
                    gids.append({"index": index, "gid": gid, "type": None, "netdev": None, "ipv4": None})
                continue
            kind = self._attribute(device, "%s/gid_attrs/types/%d" % (place, index))
            if kind == "IB/RoCE v1":
                # One text for two things (ib_cache_gid_type_str() in drivers/infiniband/core/cache.c).
                layer = layer or self._text(device, place + "/link_layer")
                kind = "IB" if layer == "InfiniBand" else "RoCE v1"
            gids.append(
                {
                    "index": index,
                    "gid": gid,
                    "type": kind,
                    "netdev": self._attribute(device, "%s/gid_attrs/ndevs/%d" % (place, index)),
                    "ipv4": gid_ipv4(gid),
                }
            )
        return gids

    def _attribute(self, device: str, path: str) -> str | None:
        try:
            text = self.files.read("%s/class/infiniband/%s/%s" % (self.sys, device, path))
        except SysfsError as exc:
            # The answer for an entry that is empty (by now), and for a GID without a network device.
            if not isinstance(exc.__cause__, OSError) or exc.__cause__.errno != errno.EINVAL:
                self.failed(device, path, exc.__cause__ if isinstance(exc.__cause__, OSError) else exc)
            return None
        return (text or "").strip() or None

    def _pkeys(self, device: str, place: str) -> list[str]:
        """The partition keys in use, by index; entries of zero are empty."""
        keys = []
        for index in sorted(int(name) for name in self._names(device, place + "/pkeys") if name.isdigit()):
            key = self._text(device, "%s/pkeys/%d" % (place, index))
            if key and key.strip("0x"):
                keys.append(key)
        return keys

    def _counters(self, device: str, path: str) -> dict[str, int]:
        counters: dict[str, int] = {}
        try:
            files = self.files.attributes("%s/class/infiniband/%s/%s" % (self.sys, device, path))
        except FileNotFoundError:
            return counters
        except OSError as exc:
            self.failed(device, path, exc)
            return counters
        self._counted(device, path, files, counters)
        return counters

    def _counted(
        self, device: str, path: str, files: t.Iterable[tuple[str, str | OSError]], counters: dict[str, int]
    ) -> None:
        """Add what is a number, and note what is none."""
        for name, text in files:
            if name in KNOBS:
                continue
            value = counter(text) if isinstance(text, str) else None
            if value is not None:
                counters[name] = value
            elif isinstance(text, str):
                # pma.c answers "N/A (no PMA)" for what the card does not count.
                self.failed(device, "%s/%s" % (path, name), ValueError("%r is not a number" % text.strip()[:40]))
            else:
                self.failed(device, "%s/%s" % (path, name), text)

    def _hw_counters(self, row: nldev.Device, port: int, sysfs: bool) -> dict[str, int] | None:
        try:
            return dict(sorted(nldev.statistics(row.index, port).items()))
        except nldev.NldevError as exc:
            # A driver without counters; before Linux 5.1 also a kernel without the command.
            if exc.errno not in (errno.EINVAL, errno.EOPNOTSUPP):
                self.failed(row.name, "ports/%d/hw_counters" % port, exc)
                return None
        return self._counters(row.name, "ports/%d/hw_counters" % port) if sysfs else None

    def _active_mtu(self, device: str, port: int) -> int | None:
        """The MTU in use, in bytes; it takes a user context, so the tool of rdma-core is used."""
        argv = ["ibv_devinfo", "-d", device, "-i", str(port)]
        try:
            done = _command.run(argv, 20, merged=True)
        except FileNotFoundError:
            self.failed(
                device,
                "active_mtu",
                ValueError("ibv_devinfo is not installed (package ibverbs-utils)"),
            )
            return None
        except OSError as exc:
            self.failed(device, "active_mtu", exc)
            return None
        except _command.TimedOut:
            self.failed(device, "active_mtu", ValueError("%s timed out after 20 s and was killed" % " ".join(argv)))
            return None
        match = re.search(r"^\s*active_mtu:\s+(\d+) \(\d+\)\s*$", done.out, re.M)
        if done.status != 0 or not match:
            output = " ".join(done.out.strip().split("\n")[-1].split())[:200]
            self.failed(
                device,
                "active_mtu",
                ValueError("%s exited with status %d: %s" % (" ".join(argv), done.status, output)),
            )
            return None
        return int(match.group(1))


def look(gather: t.Collection[str], sys: str = "/sys") -> dict[str, t.Any]:
    """The devices of the calling process's namespace and what could not be read of them."""
    view = Look(gather, sys)
    return {"devices": view.devices(), "unreadable": view.unreadable}
