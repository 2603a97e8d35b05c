# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""GIDs of network devices, from what rtnetlink answers."""

from __future__ import annotations

import errno
import ipaddress
import struct

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._rdma import addresses
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._rdma.netlink import attribute

NEWADDR, ERROR, DONE = 20, 2, 3
FAMILIES = {4: 2, 16: 10}


def message(kind: int, payload: bytes) -> bytes:
    return struct.pack("=IHHII", 16 + len(payload), kind, 2, 1, 0) + payload


def address(index: int, *values: tuple[int, str]) -> bytes:
    """Return a message of RTM_NEWADDR (inet_fill_ifaddr() in net/ipv4/devinet.c, inet6_fill_ifaddr())."""
    packed = [(kind, ipaddress.ip_address(text).packed) for kind, text in values]
    header = struct.pack("=BBBBI", FAMILIES[len(packed[0][1])], 24, 0, 0, index)
    return message(NEWADDR, header + b"".join(attribute(kind, value) for kind, value in packed))


def test_the_local_address_counts_not_that_of_the_other_end() -> None:
    data = (
        address(3, (1, "10.90.0.254"), (2, "10.90.0.1"))
        + address(3, (1, "fe80::1"))
        + address(4, (1, "2001:db8::2"), (2, "2001:db8::1"))
    )
    rows = [(3, "::ffff:a5a:1"), (3, "fe80::1"), (4, "2001:db8::1")]
    assert addresses.parse(data) == ([(index, addresses.address_of(gid)) for index, gid in rows], False)
    assert addresses.parse(data + message(DONE, struct.pack("=i", 0)))[1]


def test_an_error_is_raised() -> None:
    with pytest.raises(OSError, match="Could not list the addresses of network devices: Operation not permitted"):
        addresses.parse(message(ERROR, struct.pack("=i", -errno.EPERM) + bytes(16)))


@pytest.mark.parametrize(
    ("mac", "gid"),
    [("b8:ce:f6:aa:00:01", "fe80::bace:f6ff:feaa:1"), ("00:00:10:29:fe:80:00:00", None), ("", None), ("x", None)],
)
def test_the_gid_of_an_ethernet_address(mac: str, gid: str | None) -> None:
    assert addresses.default_gid(mac) == gid


def test_a_gid_has_one_text() -> None:
    assert addresses.address_of("0000:0000:0000:0000:0000:ffff:0a5a:0001") == addresses.address_of("::ffff:10.90.0.1")
    assert addresses.address_of("fe80:0000:0000:0000:bace:f6ff:feaa:0001") == "fe80::bace:f6ff:feaa:1"
    assert addresses.address_of("?") == "?"


def test_this_namespace_has_its_loopback_address() -> None:
    assert addresses.address_of("::ffff:127.0.0.1") in addresses.gids()["lo"]
