# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.
"""The RDMA netlink family (what `rdma` of iproute2 speaks) on a plain socket.

Numbers: include/uapi/rdma/rdma_netlink.h. The family has no header: attributes follow the
message header. Everything is seen from the network namespace in which the socket was opened; only
set_netns() looks at the namespace of the calling thread.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
import typing as t

from .._errors import FabricError

__all__ = (
    "CHANGE",
    "DUMP",
    "GET",
    "NODE_TYPES",
    "PHYSICAL_STATES",
    "STATES",
    "Chardev",
    "Device",
    "Message",
    "NldevError",
    "NotLoaded",
    "Port",
    "Resources",
    "SystemInfo",
    "Transport",
    "User",
    "attribute",
    "attributes",
    "chardev",
    "devices",
    "encode",
    "link_add",
    "link_del",
    "messages",
    "owners",
    "ports",
    "resources",
    "set_netns",
    "statistics",
    "sys_get",
    "sys_set_netns_mode",
    "users",
)

_NETLINK_RDMA = 20
_SOL_NETLINK, _NETLINK_CAP_ACK, _NETLINK_EXT_ACK = 270, 10, 11
_TYPE = 5 << 10  # RDMA_NL_NLDEV; a message's type is client << 10 | command
_NLMSG_ERROR, _NLMSG_DONE = 2, 3
_MULTI, _CAPPED, _ACK_TLVS = 0x002, 0x100, 0x200

# The family takes a message for a dump when any bit of NLM_F_DUMP (0x300) is set (rdma_nl_rcv_msg()), and
# NLM_F_REPLACE and NLM_F_EXCL are those bits: a change must not carry them.
GET, CHANGE, DUMP = 0x001, 0x005, 0x301

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


class Message(t.NamedTuple):
    type: int
    flags: int
    sequence: int
    payload: bytes


class NldevError(FabricError, OSError):
    """The kernel refused, or its answer cannot be understood."""

    def __init__(self, code: int, operation: str, detail: str = "", hint: str = "") -> None:
        self.operation = operation
        # Two names have this number; the kernel calls it EOPNOTSUPP.
        self.name = "EOPNOTSUPP" if code == errno.EOPNOTSUPP else errno.errorcode.get(code, str(code))
        self.detail = detail
        self.hint = hint
        said = "%s (%s)" % (self.name, os.strerror(code))
        self.message = "Could not %s: %s%s" % (operation, said, ": " + detail if detail else "")
        if hint:
            self.message += ". " + hint
        super().__init__(code, self.message)

    def __str__(self) -> str:
        return self.message


class NotLoaded(NldevError):
    """The kernel has no RDMA netlink family: ib_core is not loaded."""


# --- bytes ---------------------------------------------------------------------------------------------


def attribute(kind: int, value: int | str | bytes, size: str = "I") -> bytes:
    """One attribute, padded. `size` is the struct letter of an integer."""
    if isinstance(value, int):
        value = struct.pack("=" + size, value)
    elif isinstance(value, str):
        value = value.encode("utf-8", "surrogateescape") + b"\0"
    return struct.pack("=HH", len(value) + 4, kind) + value + b"\0" * (-len(value) % 4)


def encode(command: int, flags: int, sequence: int, payload: bytes = b"") -> bytes:
    return struct.pack("=IHHII", 16 + len(payload), _TYPE | command, flags, sequence, 0) + payload


def _malformed(what: str) -> NldevError:
    return NldevError(errno.EBADMSG, "read the kernel's RDMA netlink answer", what)


def messages(data: bytes) -> list[Message]:
    """The messages of one datagram."""
    found = []
    offset = 0
    while offset < len(data):
        if len(data) - offset < 16:
            raise _malformed("%d bytes where a message header needs 16" % (len(data) - offset))
        length, kind, flags, sequence, _port = struct.unpack_from("=IHHII", data, offset)
        if length < 16 or length > len(data) - offset:
            raise _malformed("a message of %d bytes in %d" % (length, len(data) - offset))
        found.append(Message(kind, flags, sequence, data[offset + 16 : offset + length]))
        offset += length + (-length % 4)
    return found


def attributes(data: bytes) -> list[tuple[int, bytes]]:
    """The attributes of a message or of a nested attribute, in order."""
    found = []
    offset = 0
    while offset < len(data):
        if len(data) - offset < 4:
            raise _malformed("%d bytes where an attribute header needs 4" % (len(data) - offset))
        length, kind = struct.unpack_from("=HH", data, offset)
        if length < 4 or length > len(data) - offset:
            raise _malformed("an attribute of %d bytes in %d" % (length, len(data) - offset))
        # The two highest bits are NLA_F_NESTED and NLA_F_NET_BYTEORDER.
        found.append((kind & 0x3FFF, data[offset + 4 : offset + length]))
        offset += length + (-length % 4)
    return found


class _Fields:
    """Attributes by number; None for what the kernel left out."""

    def __init__(self, data: bytes) -> None:
        self._values = dict(attributes(data))

    def _number(self, kind: int, size: str) -> int | None:
        value = self._values.get(kind)
        if value is None:
            return None
        if len(value) != struct.calcsize("=" + size):
            raise _malformed("attribute %d has %d bytes" % (kind, len(value)))
        return t.cast(int, struct.unpack("=" + size, value)[0])

    def u8(self, kind: int) -> int | None:
        return self._number(kind, "B")

    def u32(self, kind: int) -> int | None:
        return self._number(kind, "I")

    def u64(self, kind: int) -> int | None:
        return self._number(kind, "Q")

    def text(self, kind: int) -> str | None:
        value = self._values.get(kind)
        return None if value is None else value.split(b"\0", 1)[0].decode("utf-8", "surrogateescape")

    def flag(self, kind: int) -> bool | None:
        value = self.u8(kind)
        return None if value is None else bool(value)

    def guid(self, kind: int) -> str | None:
        value = self.u64(kind)
        if value is None:
            return None
        digits = "%016x" % value
        return ":".join(digits[i : i + 4] for i in range(0, 16, 4))

    def nested(self, kind: int) -> list[tuple[int, bytes]]:
        return attributes(self._values.get(kind, b""))

    def need(self, kind: int, value: t.Any) -> t.Any:
        if value is None:
            raise _malformed("attribute %d is missing" % kind)
        return value

    def device(self) -> tuple[int, str]:
        return self.need(_DEV_INDEX, self.u32(_DEV_INDEX)), self.need(_DEV_NAME, self.text(_DEV_NAME))


def _code(number: int | None, names: dict[int, str]) -> str | None:
    return None if number is None else names.get(number, "UNKNOWN (%d)" % number)


def _failure(message: Message) -> tuple[int, str]:
    """(errno, the kernel's sentence) of NLMSG_ERROR and NLMSG_DONE; errno 0 is success."""
    if len(message.payload) < 4:
        # An old kernel may end a dump without a status.
        if message.type == _NLMSG_DONE and not message.payload:
            return 0, ""
        raise _malformed("a status of %d bytes" % len(message.payload))
    code = -struct.unpack_from("=i", message.payload)[0]
    if code < 0:
        raise _malformed("status %d" % -code)
    start = 4
    if message.type == _NLMSG_ERROR:
        # The request comes back, only its header when NLM_F_CAPPED is set (netlink_ack()).
        start = 20
        if not message.flags & _CAPPED and len(message.payload) >= 8:
            length = struct.unpack_from("=I", message.payload, 4)[0]
            start = 4 + length + (-length % 4)
    if not code or not message.flags & _ACK_TLVS:
        return code, ""
    return code, _Fields(message.payload[start:]).text(1) or ""


def system_info(payload: bytes) -> SystemInfo:
    fields = _Fields(payload)
    # RDMA_NLDEV_SYS_ATTR_NETNS_MODE is the kernel's "devices are shared" boolean.
    shared = fields.flag(66)
    mode = None if shared is None else "shared" if shared else "exclusive"
    return SystemInfo(mode, fields.flag(93), fields.flag(96), fields.flag(103))


def device(payload: bytes) -> Device:
    fields = _Fields(payload)
    index, name = fields.device()
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
    fields = _Fields(payload)
    index, name = fields.device()
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
    fields = _Fields(payload)
    index, name = fields.device()
    entries = [_Fields(value) for kind, value in fields.nested(15) if kind == 16]
    return Resources(index, name, {entry.need(17, entry.text(17)): entry.need(18, entry.u64(18)) for entry in entries})


def resource_users(payload: bytes, kind: str) -> list[User]:
    table = _RESOURCE_KINDS[kind][1]
    entries = [_Fields(value) for number, value in _Fields(payload).nested(table) if number == table + 1]
    return [User(kind, entry.u32(28), entry.text(29)) for entry in entries]


def counters(payload: bytes) -> dict[str, int]:
    entries = [_Fields(value) for kind, value in _Fields(payload).nested(80) if kind == 81]
    return {entry.need(82, entry.text(82)): entry.need(83, entry.u64(83)) for entry in entries}


# --- socket --------------------------------------------------------------------------------------------


class Transport:
    """The socket's edge: tests replace it."""

    def __init__(self, timeout: float = 10.0) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _NETLINK_RDMA)
        try:
            self._socket.settimeout(timeout)
            for option in (_NETLINK_CAP_ACK, _NETLINK_EXT_ACK):
                self._socket.setsockopt(_SOL_NETLINK, option, 1)
            self._socket.bind((0, 0))
        except BaseException:
            self._socket.close()
            raise

    def send(self, data: bytes) -> None:
        self._socket.send(data)

    def receive(self) -> bytes:
        # A dump's datagram is at most 32 KiB (netlink_dump() in net/netlink/af_netlink.c).
        while True:
            data, _ancillary, flags, sender = self._socket.recvmsg(65536)
            if sender[0] == 0:  # from the kernel; any process may send to our port
                break
        if flags & socket.MSG_TRUNC:
            raise _malformed("a datagram of more than 65536 bytes")
        return data

    def close(self) -> None:
        self._socket.close()


_HINTS: dict[t.Any, str] = {
    errno.EPERM: "This needs CAP_NET_ADMIN in the initial user namespace: run as root of the host (become: true)",
    (_CMD_SYS_SET, errno.EBUSY): "Network namespaces other than the initial one exist; the mode can be switched "
    "when they are gone, or by a reboot",
    (_CMD_SYS_SET, errno.EINVAL): "This kernel cannot switch the mode (new in Linux 5.2)",
    (_CMD_SYS_GET, errno.EINVAL): "This kernel does not support it (new in Linux 5.1)",
    (_CMD_SET, errno.EOPNOTSUPP): "The RDMA subsystem is in shared mode, or the device's driver cannot move a "
    "device (it has no disassociate_ucontext)",
    (_CMD_SET, errno.ENODEV): "The device is not in the network namespace of the calling thread, but in the socket's",
    (_CMD_SET, errno.EINVAL): "No RDMA device has this index in this network namespace, or the descriptor "
    "is not a network namespace",
    (_CMD_PORT_GET, errno.EINVAL): "No RDMA device has this index in this network namespace",
    (_CMD_NEWLINK, errno.ENODEV): "This network namespace has no such network device",
    (_CMD_NEWLINK, errno.EEXIST): "The network device already has a link, or the name is in use (names are unique "
    "in the whole system, also across network namespaces)",
    (_CMD_NEWLINK, errno.EINVAL): "The kernel has no such link type (module rdma-link-TYPE)",
}


def _request(
    transport: Transport | None, command: int, operation: str, payload: bytes = b"", flags: int = GET
) -> list[bytes]:
    """One request and the payloads of its answers; a socket opened here is closed here."""
    own = None
    try:
        if transport is None:
            transport = own = _open(operation)
        return _converse(transport, command, operation, payload, flags)
    except NldevError:
        raise
    except socket.timeout as exc:  # not TimeoutError before Python 3.10
        raise NldevError(errno.ETIMEDOUT, operation, "no answer from the kernel") from exc
    except OSError as exc:
        raise NldevError(exc.errno or errno.EIO, operation, hint=_HINTS.get(exc.errno, "")) from exc
    finally:
        if own is not None:
            own.close()


def _open(operation: str) -> Transport:
    try:
        return Transport()
    except OSError as exc:
        if exc.errno != errno.EPROTONOSUPPORT:
            raise
        hint = "The kernel has no RDMA netlink: ib_core is not loaded"
        raise NotLoaded(errno.EPROTONOSUPPORT, operation, hint=hint) from exc


_sequence = 0


def _converse(transport: Transport, command: int, operation: str, payload: bytes, flags: int) -> list[bytes]:
    global _sequence  # noqa: PLW0603 - a number that no later request repeats
    _sequence = _sequence % 0x7FFFFFFF + 1
    transport.send(encode(command, flags, _sequence, payload))
    answers: list[bytes] = []
    while True:
        for message in messages(transport.receive()):
            if message.sequence != _sequence:
                continue  # an answer to an earlier request that ran into its time limit
            if message.type in (_NLMSG_ERROR, _NLMSG_DONE):
                code, text = _failure(message)
                if code:
                    hint = _HINTS.get((command, code)) or _HINTS.get(code, "")
                    raise NldevError(code, operation, "the kernel reports: " + text if text else "", hint)
                return answers
            if message.type != _TYPE | command:
                raise _malformed("a message of type 0x%x to command %d" % (message.type, command))
            answers.append(message.payload)
            if flags == GET:
                return answers


# --- operations ----------------------------------------------------------------------------------------


def _one(answers: list[bytes]) -> bytes:
    if len(answers) != 1:
        raise _malformed("%d answers instead of one" % len(answers))
    return answers[0]


def sys_get(transport: Transport | None = None) -> SystemInfo:
    return system_info(_one(_request(transport, _CMD_SYS_GET, "read the RDMA subsystem's settings")))


def sys_set_netns_mode(mode: str, transport: Transport | None = None) -> None:
    """`mode` is shared or exclusive. Setting the mode in force is always allowed."""
    value = {"exclusive": 0, "shared": 1}[mode]
    operation = "set the RDMA network namespace mode to %s" % mode
    _request(transport, _CMD_SYS_SET, operation, attribute(66, value, "B"), CHANGE)


def devices(transport: Transport | None = None) -> list[Device]:
    return [device(answer) for answer in _request(transport, _CMD_GET, "list RDMA devices", flags=DUMP)]


def ports(index: int, transport: Transport | None = None) -> list[Port]:
    operation = "list the ports of the RDMA device with index %d" % index
    answers = _request(transport, _CMD_PORT_GET, operation, attribute(_DEV_INDEX, index), DUMP)
    return [port(answer) for answer in answers]


def resources(transport: Transport | None = None) -> list[Resources]:
    """How many objects (pd, cq, qp, cm_id, mr, ctx, srq) each device has, the kernel's own included."""
    answers = _request(transport, _CMD_RES_GET, "count the objects of RDMA devices", flags=DUMP)
    return [resource_summary(answer) for answer in answers]


def users(index: int, kind: str = "ctx", transport: Transport | None = None) -> list[User]:
    """The owners of a device's objects of one kind: ctx, qp, cm_id, cq, mr, pd or srq."""
    operation = "list the %s objects of the RDMA device with index %d" % (kind, index)
    answers = _request(transport, _RESOURCE_KINDS[kind][0], operation, attribute(_DEV_INDEX, index), DUMP)
    return [user for answer in answers for user in resource_users(answer, kind)]


def owners(index: int, transport: Transport | None = None) -> list[tuple[int | None, str | None]]:
    """PID and part of the kernel of everybody who has an object of any kind of a device."""
    found: dict[tuple[int | None, str | None], None] = {}
    for kind in _RESOURCE_KINDS:
        try:
            found.update({(user.pid, user.kernel): None for user in users(index, kind, transport)})
        except NldevError as exc:
            # Older kernels have fewer of the lists (ctx and srq came with Linux 5.14); qp, cq and mr are in all.
            if exc.errno != errno.EINVAL or kind not in ("ctx", "srq"):
                raise
    return list(found)


def link_add(name: str, link_type: str, netdev: str, transport: Transport | None = None) -> None:
    operation = "add the RDMA link %s of type %s on %s" % (name, link_type, netdev)
    payload = attribute(_DEV_NAME, name) + attribute(65, link_type) + attribute(51, netdev)
    _request(transport, _CMD_NEWLINK, operation, payload, CHANGE)


def link_del(index: int, transport: Transport | None = None) -> None:
    operation = "delete the RDMA link with index %d" % index
    _request(transport, _CMD_DELLINK, operation, attribute(_DEV_INDEX, index), CHANGE)


def set_netns(index: int, fd: int, transport: Transport | None = None) -> None:
    """Move a device, which must be in the calling thread's network namespace, to the one that `fd` is open on.

    Look first where it is: to "move" it where it is already resets it and cuts off its users.
    """
    operation = "move the RDMA device with index %d to another network namespace" % index
    payload = attribute(_DEV_INDEX, index) + attribute(68, fd)
    _request(transport, _CMD_SET, operation, payload, CHANGE)


def chardev(index: int, name: str, transport: Transport | None = None) -> Chardev:
    """The character device of a device by the client's name (uverbs, umad, issm, rdma_cm)."""
    operation = "find the %s character device of the RDMA device with index %d" % (name, index)
    payload = attribute(_DEV_INDEX, index) + attribute(69, name)
    fields = _Fields(_one(_request(transport, _CMD_CHARDEV, operation, payload)))
    number = fields.need(72, fields.u64(72))
    return Chardev(
        fields.need(70, fields.text(70)), fields.need(71, fields.u64(71)), os.major(number), os.minor(number)
    )


def statistics(index: int, port_number: int, transport: Transport | None = None) -> dict[str, int]:
    """The hardware counters of a port."""
    operation = "read the counters of port %d of the RDMA device with index %d" % (port_number, index)
    payload = attribute(_DEV_INDEX, index) + attribute(_PORT_INDEX, port_number)
    return counters(_one(_request(transport, _CMD_STAT_GET, operation, payload)))
