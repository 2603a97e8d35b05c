# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.
"""Netlink messages of the RDMA family on a plain socket: bytes, requests and answers.

Numbers: include/uapi/linux/netlink.h and include/uapi/rdma/rdma_netlink.h. The family has no header: attributes follow
the message header.
"""

from __future__ import annotations

import errno
import itertools
import os
import socket
import struct
import typing as t

from .._errors import FabricError

__all__ = (
    "CHANGE",
    "DUMP",
    "GET",
    "Fields",
    "Message",
    "NldevError",
    "NotLoaded",
    "Request",
    "Transport",
    "ask",
    "attribute",
    "attributes",
    "encode",
    "malformed",
    "messages",
    "single",
    "status",
)

_NETLINK_RDMA = 20
_SOL_NETLINK, _NETLINK_CAP_ACK, _NETLINK_EXT_ACK = 270, 10, 11
_TYPE = 5 << 10  # RDMA_NL_NLDEV; a message's type is client << 10 | command
_NLMSG_ERROR, _NLMSG_DONE = 2, 3
_CAPPED, _ACK_TLVS = 0x100, 0x200

# The family takes a message for a dump when any bit of NLM_F_DUMP (0x300) is set (rdma_nl_rcv_msg()), and
# NLM_F_REPLACE and NLM_F_EXCL are those bits: a change must not carry them.
GET, CHANGE, DUMP = 0x001, 0x005, 0x301


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
        error = "%s (%s)" % (self.name, os.strerror(code))
        self.message = "Could not %s: %s%s" % (operation, error, ": " + detail if detail else "")
        if hint:
            self.message += ". " + hint
        super().__init__(code, self.message)

    def __str__(self) -> str:
        return self.message


class NotLoaded(NldevError):
    """The kernel has no RDMA netlink family: ib_core is not loaded."""


def attribute(kind: int, value: int | str | bytes, size: str = "I") -> bytes:
    """One attribute, padded. `size` is the struct letter of an integer."""
    if isinstance(value, int):
        value = struct.pack("=" + size, value)
    elif isinstance(value, str):
        value = value.encode("utf-8", "surrogateescape") + b"\0"
    return struct.pack("=HH", len(value) + 4, kind) + value + b"\0" * (-len(value) % 4)


def encode(command: int, flags: int, sequence: int, payload: bytes = b"") -> bytes:
    return struct.pack("=IHHII", 16 + len(payload), _TYPE | command, flags, sequence, 0) + payload


def malformed(problem: str) -> NldevError:
    return NldevError(errno.EBADMSG, "read the kernel's RDMA netlink answer", problem)


def _split(data: bytes, header: str, element: str) -> t.Iterator[tuple[t.Any, bytes]]:
    """Yield the fields of each header, of which the first is a length, and what follows the header."""
    size = struct.calcsize(header)
    offset = 0
    while offset < len(data):
        rest = len(data) - offset
        if rest < size:
            raise malformed("%d bytes where %s header needs %d" % (rest, element, size))
        fields = struct.unpack_from(header, data, offset)
        if not size <= fields[0] <= rest:
            raise malformed("%s of %d bytes in %d" % (element, fields[0], rest))
        yield fields, data[offset + size : offset + fields[0]]
        offset += fields[0] + (-fields[0] % 4)


def messages(data: bytes) -> list[Message]:
    """The messages of one datagram."""
    parts = _split(data, "=IHHII", "a message")
    return [Message(kind, flags, sequence, payload) for (_length, kind, flags, sequence, _port), payload in parts]


def attributes(data: bytes) -> list[tuple[int, bytes]]:
    """The attributes of a message or of a nested attribute, in order."""
    # The two highest bits are NLA_F_NESTED and NLA_F_NET_BYTEORDER.
    return [(kind & 0x3FFF, payload) for (_length, kind), payload in _split(data, "=HH", "an attribute")]


class Fields:
    """Attributes by number; None for what the kernel left out."""

    def __init__(self, data: bytes) -> None:
        self._values = dict(attributes(data))

    def _number(self, kind: int, size: str) -> int | None:
        value = self._values.get(kind)
        if value is None:
            return None
        if len(value) != struct.calcsize("=" + size):
            raise malformed("attribute %d has %d bytes" % (kind, len(value)))
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
            raise malformed("attribute %d is missing" % kind)
        return value


def status(message: Message) -> tuple[int, str]:
    """(errno, the kernel's sentence) of NLMSG_ERROR and NLMSG_DONE; errno 0 is success."""
    if len(message.payload) < 4:
        # An old kernel may end a dump without a status.
        if message.type == _NLMSG_DONE and not message.payload:
            return 0, ""
        raise malformed("a status of %d bytes" % len(message.payload))
    code = -struct.unpack_from("=i", message.payload)[0]
    if code < 0:
        raise malformed("status %d" % -code)
    start = 4
    if message.type == _NLMSG_ERROR:
        # The request comes back, only its header when NLM_F_CAPPED is set (netlink_ack()).
        start = 20
        if not message.flags & _CAPPED and len(message.payload) >= 8:
            length = struct.unpack_from("=I", message.payload, 4)[0]
            start = 4 + length + (-length % 4)
    if not code or not message.flags & _ACK_TLVS:
        return code, ""
    return code, Fields(message.payload[start:]).text(1) or ""


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
            raise malformed("a datagram of more than 65536 bytes")
        return data

    def close(self) -> None:
        self._socket.close()


class Request(t.NamedTuple):
    """A request, with its name for messages, and what unblocks it by error number."""

    command: int
    operation: str
    payload: bytes = b""
    flags: int = GET
    hints: t.Mapping[int, str] = {}


_NOT_PERMITTED = "This needs CAP_NET_ADMIN in the initial user namespace: run as root of the host (become: true)"


def ask(transport: Transport | None, request: Request) -> list[bytes]:
    """Return the payloads of the answers to a request; a socket opened here is closed here."""
    own = None
    try:
        if transport is None:
            transport = own = _open(request.operation)
        return _converse(transport, request)
    except NldevError:
        raise
    except socket.timeout as exc:  # not TimeoutError before Python 3.10
        raise NldevError(errno.ETIMEDOUT, request.operation, "no answer from the kernel") from exc
    except OSError as exc:
        hint = _NOT_PERMITTED if exc.errno == errno.EPERM else ""
        raise NldevError(exc.errno or errno.EIO, request.operation, hint=hint) from exc
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


_requests = itertools.count()


def _converse(transport: Transport, request: Request) -> list[bytes]:
    # A number that no later request repeats.
    sequence = next(_requests) % 0x7FFFFFFF + 1
    transport.send(encode(request.command, request.flags, sequence, request.payload))
    answers: list[bytes] = []
    while True:
        for message in messages(transport.receive()):
            if message.sequence != sequence:
                continue  # an answer to an earlier request that ran into its time limit
            if message.type in (_NLMSG_ERROR, _NLMSG_DONE):
                code, text = status(message)
                if code:
                    hint = request.hints.get(code) or (_NOT_PERMITTED if code == errno.EPERM else "")
                    detail = "the kernel reports: " + text if text else ""
                    raise NldevError(code, request.operation, detail, hint)
                return answers
            if message.type != _TYPE | request.command:
                raise malformed("a message of type 0x%x to command %d" % (message.type, request.command))
            answers.append(message.payload)
            if request.flags == GET:
                return answers


def single(answers: list[bytes]) -> bytes:
    if len(answers) != 1:
        raise malformed("%d answers instead of one" % len(answers))
    return answers[0]
