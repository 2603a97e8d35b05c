# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Netlink: messages, attributes, and conversations that fail."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import struct
import typing as t

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._rdma import netlink, nldev
from ansible_collections.rdmaops.gpu_fabric.tests.support.failures import message_of
from ansible_collections.rdmaops.gpu_fabric.tests.unit.plugins.module_utils._rdma.kernel_answers import (
    CONTENT,
    Fake,
    answer,
    nested,
    status,
    u8,
)


def test_attribute_is_padded_and_its_length_is_not() -> None:
    assert netlink.attribute(2, "rxe0") == struct.pack("=HH", 9, 2) + b"rxe0\0" + b"\0\0\0"
    assert netlink.attribute(66, 1, "B") == struct.pack("=HHB", 5, 66, 1) + b"\0\0\0"
    assert netlink.attribute(1, 0) == struct.pack("=HHI", 8, 1, 0)


@given(st.lists(st.tuples(st.integers(0, 0x3FFF), st.binary(max_size=40)), max_size=8))
def test_attributes_come_back_as_they_went(values: list[tuple[int, bytes]]) -> None:
    data = b"".join(netlink.attribute(kind, value) for kind, value in values)
    assert netlink.attributes(data) == values


def test_flag_bits_of_an_attribute_type_are_not_its_number() -> None:
    assert netlink.attributes(struct.pack("=HH", 4, 0x8000 | 15)) == [(15, b"")]
    assert netlink.attributes(struct.pack("=HH", 4, 0x4000 | 15)) == [(15, b"")]


def test_two_messages_in_one_datagram() -> None:
    data = netlink.encode(1, netlink.DUMP, 7, b"12345") + b"\0\0\0" + netlink.encode(6, netlink.GET, 8)
    assert netlink.messages(data) == [
        netlink.Message(0x1401, 0x301, 7, b"12345"),
        netlink.Message(0x1406, 0x001, 8, b""),
    ]


def test_a_change_is_no_dump() -> None:
    """The kernel takes any bit of NLM_F_DUMP for a dump."""
    assert netlink.CHANGE & 0x300 == 0
    assert netlink.GET & 0x300 == 0


# function, bytes, what the error says
MALFORMED = [
    (netlink.messages, b"\0" * 15, "15 bytes where a message header needs 16"),
    (netlink.messages, struct.pack("=IHHII", 15, 1, 0, 0, 0), "a message of 15 bytes in 16"),
    (netlink.messages, struct.pack("=IHHII", 17, 1, 0, 0, 0), "a message of 17 bytes in 16"),
    (netlink.attributes, b"\0\0\0", "3 bytes where an attribute header needs 4"),
    (netlink.attributes, struct.pack("=HH", 3, 1), "an attribute of 3 bytes in 4"),
    (netlink.attributes, struct.pack("=HH", 9, 1) + b"1234", "an attribute of 9 bytes in 8"),
    (nldev.system_info, netlink.attribute(66, 1), "attribute 66 has 4 bytes"),
    (nldev.device, netlink.attribute(2, "x"), "attribute 1 is missing"),
    (nldev.device, netlink.attribute(1, 0), "attribute 2 is missing"),
    (nldev.port, netlink.attribute(1, 0) + netlink.attribute(2, "x"), "attribute 3 is missing"),
    (nldev.counters, nested(80, nested(81, netlink.attribute(82, "a"))), "attribute 83 is missing"),
]


@pytest.mark.parametrize(("function", "data", "text"), MALFORMED)
def test_malformed(function: t.Callable[[bytes], object], data: bytes, text: str) -> None:
    with pytest.raises(nldev.NldevError) as caught:
        function(data)
    assert str(caught.value) == f"Could not read the kernel's RDMA netlink answer: EBADMSG (Bad message): {text}"
    assert caught.value.errno == errno.EBADMSG


DECODERS: list[t.Callable[[bytes], object]] = [
    netlink.messages,
    netlink.attributes,
    nldev.system_info,
    nldev.device,
    nldev.port,
    nldev.resource_summary,
    lambda data: nldev.resource_users(data, "ctx"),
    nldev.counters,
]


@given(st.one_of(st.binary(max_size=200), CONTENT))
def test_any_bytes_give_a_value_or_the_typed_error(data: bytes) -> None:
    for decoder in DECODERS:
        with contextlib.suppress(nldev.NldevError):
            decoder(data)


@given(
    st.lists(
        st.builds(
            answer,
            st.sampled_from([1, 2, 3, 0x1401, 0x1405, 0x1406]),
            st.one_of(st.binary(max_size=40), CONTENT).map(lambda data: data + b"\0" * (-len(data) % 4)),
            st.sampled_from([0, 2, 0x100, 0x200, 0x300]),
        ),
        max_size=4,
    )
)
def test_any_conversation_gives_a_value_or_the_typed_error(replies: list[bytes]) -> None:
    for operation in (nldev.sys_get, nldev.devices, nldev.resources):
        fake = Fake(*replies, TimeoutError())
        with contextlib.suppress(nldev.NldevError):
            operation(fake)


def refuse_sockets(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    def refuse(*_arguments: object) -> t.NoReturn:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(netlink.socket, "socket", refuse)


def test_no_family(monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_sockets(monkeypatch, errno.EPROTONOSUPPORT)
    assert message_of(nldev.NotLoaded, nldev.sys_get) == (
        "Could not read the RDMA subsystem's settings: EPROTONOSUPPORT (Protocol not supported). "
        "The kernel has no RDMA netlink: ib_core is not loaded"
    )


def test_no_permission_for_a_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_sockets(monkeypatch, errno.EACCES)
    with pytest.raises(nldev.NldevError, match="EACCES") as caught:
        nldev.sys_get()
    assert not isinstance(caught.value, nldev.NotLoaded)


def test_silence_is_a_time_limit() -> None:
    # TimeoutError from Python 3.10 on.
    timeout = socket.timeout("timed out")
    assert message_of(nldev.NldevError, nldev.sys_get, Fake(timeout)) == (
        "Could not read the RDMA subsystem's settings: ETIMEDOUT (Connection timed out): no answer from the kernel"
    )


def test_answers_to_an_earlier_request_are_passed_over() -> None:
    stale = struct.pack("=IHHII", 16 + 8, 0x1406, 0, 0xDEAD, 77) + u8(66, 1)
    assert nldev.sys_get(Fake(stale, answer(0x1406, u8(66, 0)))).netns_mode == "exclusive"


def test_an_answer_of_another_kind() -> None:
    with pytest.raises(nldev.NldevError, match="a message of type 0x1401 to command 6"):
        nldev.sys_get(Fake(answer(0x1401)))


def test_the_socket_that_was_opened_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[Fake] = []

    def open_transport() -> Fake:
        opened.append(Fake(answer(0x1406, u8(66, 1)), status(errno.EPERM)))
        return opened[-1]

    monkeypatch.setattr(netlink, "Transport", open_transport)
    assert nldev.sys_get().netns_mode == "shared"
    with pytest.raises(nldev.NldevError):
        nldev.sys_set_netns_mode("shared")
    assert [transport.closed for transport in opened] == [True, True]
