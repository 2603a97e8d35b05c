# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Answers of the RDMA netlink family, built by hand."""

from __future__ import annotations

import struct

from hypothesis import strategies as st

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._rdma import netlink


def answer(kind: int, payload: bytes = b"", flags: int = 0) -> bytes:
    """A datagram with one message; the sequence number is filled in when it is sent."""
    return struct.pack("=IHHII", 16 + len(payload), kind, flags, 0, 77) + payload


def status(code: int, text: str | None = None, capped: bool = True, request: bytes = b"x" * 8) -> bytes:
    payload = struct.pack("=i", -code) + struct.pack("=IHHII", 16 + len(request), 0x1407, 5, 0, 0)
    if not capped:
        payload += request
    if text is not None:
        payload += netlink.attribute(1, text)
    return answer(2, payload, (0x100 if capped else 0) | (0x200 if text is not None else 0))


def done(code: int | None = 0) -> bytes:
    return answer(3, b"" if code is None else struct.pack("=i", -code), 2)


class Fake(netlink.Transport):
    """Answers with the datagrams given, under the sequence number of the request."""

    def __init__(self, *replies: bytes | OSError) -> None:
        self.requests: list[bytes] = []
        self.replies = list(replies)
        self.closed = False

    def send(self, data: bytes) -> None:
        self.requests.append(data)

    def receive(self) -> bytes:
        reply = self.replies.pop(0)
        if isinstance(reply, OSError):
            raise reply
        sequence = struct.unpack_from("=I", self.requests[-1], 8)[0]
        out = b""
        offset = 0
        while offset < len(reply):
            length, kind, flags, number, port = struct.unpack_from("=IHHII", reply, offset)
            number = sequence - 1 if number == 0xDEAD else sequence
            out += struct.pack("=IHHII", length, kind, flags, number, port)
            out += reply[offset + 16 : offset + length + (-length % 4)]
            offset += length + (-length % 4)
        return out

    def close(self) -> None:
        self.closed = True

    def request(self) -> tuple[int, int, list[tuple[int, bytes]]]:
        (message,) = netlink.messages(self.requests[-1])
        return message.type, message.flags, netlink.attributes(message.payload)


def u8(kind: int, value: int) -> bytes:
    return netlink.attribute(kind, value, "B")


def u64(kind: int, value: int) -> bytes:
    return netlink.attribute(kind, value, "Q")


def nested(kind: int, *children: bytes) -> bytes:
    return netlink.attribute(kind | 0x8000, b"".join(children))


NUMBERS = st.sampled_from([1, 2, 3, 5, 6, 9, 12, 13, 15, 16, 17, 18, 28, 29, 51, 66, 80, 81, 82, 83, 86, 87])


# Well-formed attributes of our numbers with any content reach deeper than bytes alone.
CONTENT = st.recursive(
    st.binary(max_size=12),
    lambda inner: st.lists(st.tuples(NUMBERS, inner), max_size=4).map(
        lambda rows: b"".join(netlink.attribute(kind, value) for kind, value in rows)
    ),
    max_leaves=12,
)
