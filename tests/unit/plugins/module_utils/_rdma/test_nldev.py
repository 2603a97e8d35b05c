# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is asked of the RDMA netlink family, and what its answers mean."""

from __future__ import annotations

import errno
import struct
import typing as t

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._rdma import netlink, nldev
from ansible_collections.rdmaops.gpu_fabric.tests.support.failures import message_of
from ansible_collections.rdmaops.gpu_fabric.tests.unit.plugins.module_utils._rdma.kernel_answers import (
    Fake,
    answer,
    done,
    nested,
    status,
    u8,
    u64,
)


def test_sys_get() -> None:
    payload = u8(66, 1) + u8(93, 1) + u8(96, 0) + u8(103, 1)
    fake = Fake(answer(0x1406, payload))
    assert nldev.sys_get(fake) == nldev.SystemInfo("shared", True, False, True)
    assert fake.request() == (0x1406, netlink.GET, [])
    assert not fake.closed  # who opened it closes it


def test_sys_get_of_an_older_kernel_leaves_out_what_it_does_not_say() -> None:
    assert nldev.sys_get(Fake(answer(0x1406, u8(66, 0)))) == nldev.SystemInfo("exclusive", None, None, None)
    assert nldev.sys_get(Fake(answer(0x1406))) == nldev.SystemInfo(None, None, None, None)


@pytest.mark.parametrize(("mode", "value"), [("exclusive", b"\0"), ("shared", b"\1")])
def test_sys_set(mode: str, value: bytes) -> None:
    fake = Fake(status(0))
    nldev.sys_set_netns_mode(mode, fake)
    assert fake.request() == (0x1407, netlink.CHANGE, [(66, value)])


def test_sys_set_to_no_mode_sends_nothing() -> None:
    fake = Fake()
    with pytest.raises(KeyError):
        nldev.sys_set_netns_mode("private", fake)
    assert fake.requests == []


def a_device(index: int, name: str) -> bytes:
    return netlink.attribute(1, index) + netlink.attribute(2, name) + netlink.attribute(3, 1)


def test_a_dump_in_several_datagrams_with_index_zero() -> None:
    first = a_device(0, "rxe0") + u64(6, 4680977241177235892) + netlink.attribute(5, "") + u8(14, 1)
    second = a_device(1, "mlx5_0") + netlink.attribute(67, "roce") + netlink.attribute(5, "28.39.1002")
    fake = Fake(answer(0x1401, first, 2) + answer(0x1401, second, 2), done())
    assert nldev.devices(fake) == [
        nldev.Device(0, "rxe0", 1, "ca", None, "40f6:2bff:fe0e:a1b4", None, None, None),
        nldev.Device(1, "mlx5_0", 1, None, "roce", None, None, "28.39.1002", None),
    ]
    assert fake.request() == (0x1401, netlink.DUMP, [])


@pytest.mark.parametrize("end", [done(), done(None)])
def test_an_empty_dump(end: bytes) -> None:
    assert nldev.devices(Fake(end)) == []


def test_a_dump_that_fails_at_its_end() -> None:
    fake = Fake(answer(0x1401, a_device(0, "rxe0"), 2), done(errno.EMSGSIZE))
    message = message_of(nldev.NldevError, nldev.devices, fake)
    assert message == "Could not list RDMA devices: EMSGSIZE (Message too long)"


def test_ports() -> None:
    ours = a_device(0, "rxe0") + u8(12, 4) + u8(13, 5) + netlink.attribute(50, 3) + netlink.attribute(51, "d0")
    fake = Fake(answer(0x1405, ours, 2), done())
    assert nldev.ports(0, fake) == [nldev.Port(0, "rxe0", 1, "ACTIVE", "LINK_UP", "d0", 3, None, None, None, None)]
    assert fake.request() == (0x1405, netlink.DUMP, [(1, struct.pack("=I", 0))])


def test_an_unknown_state_is_named_by_its_number() -> None:
    fake = Fake(answer(0x1405, a_device(0, "x") + u8(12, 9) + u8(13, 0), 2), done())
    (port,) = nldev.ports(0, fake)
    assert (port.state, port.physical_state) == ("UNKNOWN (9)", "UNKNOWN (0)")


def test_resources() -> None:
    def entry(name: str, count: int) -> bytes:
        return nested(16, netlink.attribute(17, name), u64(18, count))

    payload = a_device(0, "rxe0") + nested(15, entry("pd", 1), entry("ctx", 2))
    assert nldev.resources(Fake(answer(0x1409, payload, 2), done())) == [
        nldev.Resources(0, "rxe0", {"pd": 1, "ctx": 2})
    ]


def test_users() -> None:
    table = nested(
        86, nested(87, netlink.attribute(28, 4711)), nested(87, netlink.attribute(29, "ib_core")), nested(87)
    )
    fake = Fake(answer(0x1416, a_device(0, "rxe0") + table, 2), done())
    assert nldev.users(0, "ctx", fake) == [
        nldev.User("ctx", 4711, None),
        nldev.User("ctx", None, "ib_core"),
        nldev.User("ctx", None, None),
    ]


def test_link_add_and_delete() -> None:
    fake = Fake(status(0), status(0))
    nldev.link_add("rxe0", "rxe", "d0", fake)
    assert fake.request() == (0x1403, netlink.CHANGE, [(2, b"rxe0\0"), (65, b"rxe\0"), (51, b"d0\0")])
    nldev.link_del(0, fake)
    assert fake.request() == (0x1404, netlink.CHANGE, [(1, struct.pack("=I", 0))])


def test_set_netns() -> None:
    fake = Fake(status(0))
    nldev.set_netns(0, 5, fake)
    assert fake.request() == (0x1402, netlink.CHANGE, [(1, struct.pack("=I", 0)), (68, struct.pack("=I", 5))])


def test_chardev() -> None:
    # huge_encode_dev(): the minor number's upper bits lie above the major number
    fake = Fake(answer(0x140F, netlink.attribute(70, "uverbs300") + u64(71, 1) + u64(72, 0x1E7 << 8 | 0x10002C)))
    assert nldev.chardev(0, "uverbs", fake) == nldev.Chardev("uverbs300", 1, 0x1E7, 300)
    assert fake.request() == (0x140F, netlink.GET, [(1, struct.pack("=I", 0)), (69, b"uverbs\0")])


def test_statistics() -> None:
    table = nested(80, nested(81, netlink.attribute(82, "sent_pkts"), u64(83, 1 << 40)))
    assert nldev.statistics(0, 1, Fake(answer(0x1411, table))) == {"sent_pkts": 1 << 40}


# operation, errno, the kernel's sentence or None, message
REFUSALS: list[tuple[t.Callable[[netlink.Transport], object], int, str | None, str]] = [
    (
        lambda fake: nldev.sys_set_netns_mode("exclusive", fake),
        errno.EBUSY,
        None,
        "Could not set the RDMA network namespace mode to exclusive: EBUSY (Device or resource busy). Network "
        "namespaces other than the initial one exist; the mode can be switched when they are gone, or by a reboot",
    ),
    (
        lambda fake: nldev.sys_set_netns_mode("shared", fake),
        errno.EINVAL,
        None,
        "Could not set the RDMA network namespace mode to shared: EINVAL (Invalid argument). This kernel cannot "
        "switch the mode (new in Linux 5.2)",
    ),
    (
        lambda fake: nldev.sys_set_netns_mode("shared", fake),
        errno.EPERM,
        None,
        "Could not set the RDMA network namespace mode to shared: EPERM (Operation not permitted). This needs "
        "CAP_NET_ADMIN in the initial user namespace: run as root of the host (become: true)",
    ),
    (
        lambda fake: nldev.set_netns(0, 3, fake),
        errno.EOPNOTSUPP,
        None,
        "Could not move the RDMA device with index 0 to another network namespace: EOPNOTSUPP (Operation not "
        "supported). The RDMA subsystem is in shared mode, or the device's driver cannot move a device (it has no "
        "disassociate_ucontext)",
    ),
    (
        lambda fake: nldev.link_add("r", "rxe", "d9", fake),
        errno.ENODEV,
        "no such netdev",
        "Could not add the RDMA link r of type rxe on d9: ENODEV (No such device): the kernel reports: no such "
        "netdev. This network namespace has no such network device",
    ),
    (
        lambda fake: nldev.ports(7, fake),
        errno.EINVAL,
        None,
        "Could not list the ports of the RDMA device with index 7: EINVAL (Invalid argument). No RDMA device has "
        "this index in this network namespace",
    ),
]


@pytest.mark.parametrize(("operation", "code", "text", "message"), REFUSALS)
@pytest.mark.parametrize("capped", [True, False])
def test_refusal(
    operation: t.Callable[[netlink.Transport], object], code: int, text: str | None, message: str, capped: bool
) -> None:
    with pytest.raises(nldev.NldevError) as caught:
        operation(Fake(status(code, text, capped)))
    assert str(caught.value) == message
    assert caught.value.errno == code
    assert message.split(": ")[1].startswith(f"{caught.value.name} (")
    assert caught.value.detail == ("" if text is None else f"the kernel reports: {text}")
