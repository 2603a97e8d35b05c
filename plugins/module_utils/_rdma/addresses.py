# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.
"""The GIDs that the network devices of one network namespace account for, from their addresses (rtnetlink(7))."""

from __future__ import annotations

import ipaddress
import os
import socket
import struct
import typing as t

from .netlink import attributes, messages, status

__all__ = ("address_of", "default_gid", "gids", "parse")

_RTM_NEWADDR, _RTM_GETADDR = 20, 22
_REQUEST_DUMP = 0x301
_NLMSG_ERROR, _NLMSG_DONE = 2, 3
_IFA_ADDRESS, _IFA_LOCAL = 1, 2
_TIMEOUT_S = 10.0


def address_of(gid: str) -> str:
    """A GID in the one text that an IPv6 address has, for comparison; what is not an address is returned as it is."""
    try:
        return str(ipaddress.IPv6Address(gid))
    except ValueError:
        return gid


def default_gid(mac: str) -> str | None:
    """The GID that RoCE makes of an Ethernet address (make_default_gid() in drivers/infiniband/core/cache.c)."""
    try:
        octets = bytes.fromhex(mac.replace(":", ""))
    except ValueError:
        return None
    if len(octets) != 6:
        return None
    interface = bytes([octets[0] ^ 2]) + octets[1:3] + b"\xff\xfe" + octets[3:]
    return str(ipaddress.IPv6Address(b"\xfe\x80" + bytes(6) + interface))


def parse(data: bytes) -> tuple[list[tuple[int, str]], bool]:
    """The index and the GID of each address in a datagram of answers, and whether the dump ends with it."""
    rows: list[tuple[int, str]] = []
    for message in messages(data):
        if message.type in (_NLMSG_ERROR, _NLMSG_DONE):
            code, _text = status(message)
            if code:
                raise OSError(code, "Could not list the addresses of network devices: %s" % os.strerror(code))
            return rows, True
        if message.type != _RTM_NEWADDR:
            continue
        # struct ifaddrmsg: family, length of the prefix, flags, scope, index of the network device.
        (index,) = struct.unpack_from("=I", message.payload, 4)
        values = dict(attributes(message.payload[8:]))
        packed = values.get(_IFA_LOCAL, values.get(_IFA_ADDRESS, b""))
        if len(packed) == 4:
            packed = bytes(10) + b"\xff\xff" + packed
        if len(packed) == 16:
            rows.append((index, str(ipaddress.IPv6Address(packed))))
    return rows, False


def gids(sys: str = "/sys") -> dict[str, list[str]]:
    """The GIDs of each network device of the namespace that the process is in, by its name."""
    names = dict(socket.if_nameindex())
    result: dict[str, list[str]] = {name: [] for name in names.values()}
    for name, known in result.items():
        default = default_gid(_mac(name, sys))
        if default is not None:
            known.append(default)
    for index, gid in _dump():
        if index in names:
            result[names[index]].append(gid)
    return result


def _mac(name: str, sys: str) -> str:
    try:
        with open("%s/class/net/%s/address" % (sys, name), encoding="ascii", errors="replace") as stream:
            return stream.read().strip()
    except OSError:
        return ""


def _dump() -> t.Iterator[tuple[int, str]]:
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.NETLINK_ROUTE) as route:
        route.settimeout(_TIMEOUT_S)
        route.bind((0, 0))
        route.send(struct.pack("=IHHIIB3xI", 24, _RTM_GETADDR, _REQUEST_DUMP, 1, 0, socket.AF_UNSPEC, 0))
        over = False
        while not over:
            data, sender = route.recvfrom(1 << 16)
            if sender[0] != 0:
                continue  # any process may send to our port
            rows, over = parse(data)
            yield from rows
