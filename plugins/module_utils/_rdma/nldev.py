# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.
"""The RDMA netlink family (what `rdma` of iproute2 speaks): devices, ports, objects, links and the netns mode.

Numbers: include/uapi/rdma/rdma_netlink.h. Everything is seen from the network namespace in which the socket was
opened; only set_netns() looks at the namespace of the calling thread.
"""

from __future__ import annotations

import errno
import os
import typing as t

from .netlink import (
    CHANGE,
    DUMP,
    GET,
    Fields,
    NldevError,
    NotLoaded,
    Request,
    Transport,
    ask,
    attribute,
    single,
)

__all__ = (
    "NODE_TYPES",
    "PHYSICAL_STATES",
    "STATES",
    "Chardev",
    "Device",
    "NldevError",
    "NotLoaded",
    "Port",
    "Resources",
    "SystemInfo",
    "User",
    "chardev",
    "devices",
    "link_add",
    "link_del",
    "owners",
    "ports",
    "resources",
    "set_netns",
    "statistics",
    "sys_get",
    "sys_set_netns_mode",
    "users",
)

_CMD_GET, _CMD_NEWLINK, _CMD_DELLINK, _CMD_SET = 1, 3, 4, 2
_CMD_PORT_GET, _CMD_SYS_GET, _CMD_SYS_SET, _CMD_RES_GET = 5, 6, 7, 9
_CMD_CHARDEV, _CMD_STAT_GET = 15, 17

_DEV_INDEX, _DEV_NAME, _PORT_INDEX = 1, 2, 3
NODE_TYPES = {1: "ca", 2: "switch", 3: "router", 4: "rnic", 5: "usnic", 6: "usnic_udp", 7: "unspecified"}
STATES = {0: "NOP", 1: "DOWN", 2: "INIT", 3: "ARMED", 4: "ACTIVE", 5: "ACTIVE_DEFER"}
# 4 is IB_PORT_PHYS_STATE_PORT_CONFIGURATION_TRAINING; `rdma link` prints ARMED for it.
PHYSICAL_STATES = {
    1: "SLEEP",
    2: "POLLING",
    3: "DISABLED",
    4: "TRAINING",
    5: "LINK_UP",
    6: "LINK_ERROR_RECOVER",
    7: "PHY_TEST",
}
# kind: (command, attribute of the table); the attribute after the table's is its entry
_RESOURCE_KINDS = {
    "qp": (10, 19),
    "cm_id": (11, 30),
    "cq": (12, 35),
    "mr": (13, 40),
    "pd": (14, 46),
    "ctx": (22, 86),
    "srq": (23, 88),
}


class SystemInfo(t.NamedTuple):
    """None: this kernel does not report it."""

    netns_mode: str | None
    copy_on_fork: bool | None
    privileged_qkey: bool | None
    monitor: bool | None


class Device(t.NamedTuple):
    index: int  # type: ignore[assignment]  # hides tuple.index()
    name: str
    ports: int
    node_type: str | None
    protocol: str | None
    node_guid: str | None
    sys_image_guid: str | None
    firmware: str | None
    parent: str | None


class Port(t.NamedTuple):
    """netdev is None too when the network device is in another network namespace than the reader."""

    index: int  # type: ignore[assignment]  # hides tuple.index()
    name: str
    port: int
    state: str | None
    physical_state: str | None
    netdev: str | None
    netdev_index: int | None
    lid: int | None
    sm_lid: int | None
    lmc: int | None
    subnet_prefix: str | None


class Resources(t.NamedTuple):
    index: int  # type: ignore[assignment]  # hides tuple.index()
    name: str
    counts: dict[str, int]


class User(t.NamedTuple):
    """Who owns an RDMA object: a process, or the part of the kernel with that name.

    Both None: a process in a PID namespace that the reader cannot see.
    """

    kind: str
    pid: int | None
    kernel: str | None


class Chardev(t.NamedTuple):
    name: str
    abi: int
    major: int
    minor: int


def _code(number: int | None, names: dict[int, str]) -> str | None:
    return None if number is None else names.get(number, "UNKNOWN (%d)" % number)


def _device(fields: Fields) -> tuple[int, str]:
    return fields.need(_DEV_INDEX, fields.u32(_DEV_INDEX)), fields.need(_DEV_NAME, fields.text(_DEV_NAME))


def system_info(payload: bytes) -> SystemInfo:
    fields = Fields(payload)
    # RDMA_NLDEV_SYS_ATTR_NETNS_MODE is the kernel's "devices are shared" boolean.
    shared = fields.flag(66)
    mode = None if shared is None else "shared" if shared else "exclusive"
    return SystemInfo(mode, fields.flag(93), fields.flag(96), fields.flag(103))


def device(payload: bytes) -> Device:
    fields = Fields(payload)
    index, name = _device(fields)
    return Device(
        index,
        name,
        fields.u32(_PORT_INDEX) or 0,
        _code(fields.u8(14), NODE_TYPES),
        fields.text(67),
        fields.guid(6),
        fields.guid(7),
        fields.text(5) or None,
        fields.text(100),
    )


def port(payload: bytes) -> Port:
    fields = Fields(payload)
    index, name = _device(fields)
    return Port(
        index,
        name,
        fields.need(_PORT_INDEX, fields.u32(_PORT_INDEX)),
        _code(fields.u8(12), STATES),
        _code(fields.u8(13), PHYSICAL_STATES),
        fields.text(51),
        fields.u32(50),
        fields.u32(9),
        fields.u32(10),
        fields.u8(11),
        fields.guid(8),
    )


def resource_summary(payload: bytes) -> Resources:
    fields = Fields(payload)
    index, name = _device(fields)
    entries = [Fields(value) for kind, value in fields.nested(15) if kind == 16]
    return Resources(index, name, {entry.need(17, entry.text(17)): entry.need(18, entry.u64(18)) for entry in entries})


def resource_users(payload: bytes, kind: str) -> list[User]:
    table = _RESOURCE_KINDS[kind][1]
    entries = [Fields(value) for number, value in Fields(payload).nested(table) if number == table + 1]
    return [User(kind, entry.u32(28), entry.text(29)) for entry in entries]


def counters(payload: bytes) -> dict[str, int]:
    entries = [Fields(value) for kind, value in Fields(payload).nested(80) if kind == 81]
    return {entry.need(82, entry.text(82)): entry.need(83, entry.u64(83)) for entry in entries}


_HINTS: dict[int, dict[int, str]] = {
    _CMD_SYS_SET: {
        errno.EBUSY: "Network namespaces other than the initial one exist; the mode can be switched when they are "
        "gone, or by a reboot",
        errno.EINVAL: "This kernel cannot switch the mode (new in Linux 5.2)",
    },
    _CMD_SYS_GET: {errno.EINVAL: "This kernel does not support it (new in Linux 5.1)"},
    _CMD_SET: {
        errno.EOPNOTSUPP: "The RDMA subsystem is in shared mode, or the device's driver cannot move a device (it has "
        "no disassociate_ucontext)",
        errno.ENODEV: "The device is not in the network namespace of the calling thread, but in the socket's",
        errno.EEXIST: "Another RDMA device in that network namespace has its name. Rename one of the two: rdma dev set "
        "NAME name OTHER",
        errno.EINVAL: "No RDMA device has this index in this network namespace, or the descriptor is not a network "
        "namespace",
    },
    _CMD_PORT_GET: {errno.EINVAL: "No RDMA device has this index in this network namespace"},
    _CMD_NEWLINK: {
        errno.ENODEV: "This network namespace has no such network device",
        errno.EEXIST: "The network device already has a link, or the name is in use (before Linux 7.3 also if that is "
        "in another network namespace)",
        errno.EINVAL: "The kernel has no such link type (module rdma-link-TYPE)",
    },
}


def _ask(
    transport: Transport | None, command: int, operation: str, payload: bytes = b"", flags: int = GET
) -> list[bytes]:
    return ask(transport, Request(command, operation, payload, flags, _HINTS.get(command, {})))


def sys_get(transport: Transport | None = None) -> SystemInfo:
    return system_info(single(_ask(transport, _CMD_SYS_GET, "read the RDMA subsystem's settings")))


def sys_set_netns_mode(mode: str, transport: Transport | None = None) -> None:
    """`mode` is shared or exclusive. Setting the mode in force is always allowed."""
    value = {"exclusive": 0, "shared": 1}[mode]
    operation = "set the RDMA network namespace mode to %s" % mode
    _ask(transport, _CMD_SYS_SET, operation, attribute(66, value, "B"), CHANGE)


def devices(transport: Transport | None = None) -> list[Device]:
    return [device(answer) for answer in _ask(transport, _CMD_GET, "list RDMA devices", flags=DUMP)]


def ports(index: int, transport: Transport | None = None) -> list[Port]:
    operation = "list the ports of the RDMA device with index %d" % index
    answers = _ask(transport, _CMD_PORT_GET, operation, attribute(_DEV_INDEX, index), DUMP)
    return [port(answer) for answer in answers]


def resources(transport: Transport | None = None) -> list[Resources]:
    """How many objects (pd, cq, qp, cm_id, mr, ctx, srq) each device has, the kernel's own included."""
    answers = _ask(transport, _CMD_RES_GET, "count the objects of RDMA devices", flags=DUMP)
    return [resource_summary(answer) for answer in answers]


def users(index: int, kind: str = "ctx", transport: Transport | None = None) -> list[User]:
    """The owners of a device's objects of one kind: ctx, qp, cm_id, cq, mr, pd or srq."""
    operation = "list the %s objects of the RDMA device with index %d" % (kind, index)
    answers = _ask(transport, _RESOURCE_KINDS[kind][0], operation, attribute(_DEV_INDEX, index), DUMP)
    return [user for answer in answers for user in resource_users(answer, kind)]


def owners(index: int, transport: Transport | None = None) -> list[tuple[int | None, str | None]]:
    """PID or part of the kernel of each owner of an object, of any kind, of a device."""
    owned: dict[tuple[int | None, str | None], None] = {}
    for kind in _RESOURCE_KINDS:
        try:
            owned.update({(user.pid, user.kernel): None for user in users(index, kind, transport)})
        except NldevError as exc:
            # Older kernels have fewer of the lists (ctx and srq came with Linux 5.14); qp, cq and mr are in all.
            if exc.errno != errno.EINVAL or kind not in ("ctx", "srq"):
                raise
    return list(owned)


def link_add(name: str, link_type: str, netdev: str, transport: Transport | None = None) -> None:
    operation = "add the RDMA link %s of type %s on %s" % (name, link_type, netdev)
    payload = attribute(_DEV_NAME, name) + attribute(65, link_type) + attribute(51, netdev)
    _ask(transport, _CMD_NEWLINK, operation, payload, CHANGE)


def link_del(index: int, transport: Transport | None = None) -> None:
    operation = "delete the RDMA link with index %d" % index
    _ask(transport, _CMD_DELLINK, operation, attribute(_DEV_INDEX, index), CHANGE)


def set_netns(index: int, fd: int, transport: Transport | None = None) -> None:
    """Move a device, which must be in the calling thread's network namespace, to the one that `fd` is open on.

    Look first where it is: to "move" it where it is already resets it and cuts off its users.
    """
    operation = "move the RDMA device with index %d to another network namespace" % index
    payload = attribute(_DEV_INDEX, index) + attribute(68, fd)
    _ask(transport, _CMD_SET, operation, payload, CHANGE)


def chardev(index: int, name: str, transport: Transport | None = None) -> Chardev:
    """The character device of a device by the client's name (uverbs, umad, issm, rdma_cm)."""
    operation = "find the %s character device of the RDMA device with index %d" % (name, index)
    payload = attribute(_DEV_INDEX, index) + attribute(69, name)
    fields = Fields(single(_ask(transport, _CMD_CHARDEV, operation, payload)))
    number = fields.need(72, fields.u64(72))
    return Chardev(
        fields.need(70, fields.text(70)), fields.need(71, fields.u64(71)), os.major(number), os.minor(number)
    )


def statistics(index: int, port_number: int, transport: Transport | None = None) -> dict[str, int]:
    """The hardware counters of a port."""
    operation = "read the counters of port %d of the RDMA device with index %d" % (port_number, index)
    payload = attribute(_DEV_INDEX, index) + attribute(_PORT_INDEX, port_number)
    return counters(single(_ask(transport, _CMD_STAT_GET, operation, payload)))
