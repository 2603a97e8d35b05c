# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""RDMA netlink: bytes built by hand, and (fixtures/nldev_*.json) recorded from a kernel."""

from __future__ import annotations

import contextlib
import errno
import json
import socket
import struct
import typing as t
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._rdma import nldev

FIXTURES = Path(__file__).parents[1] / "fixtures"
RECORDINGS = sorted(FIXTURES.glob("nldev_*.json"))


def answer(kind: int, payload: bytes = b"", flags: int = 0) -> bytes:
    """A datagram with one message; the sequence number is filled in when it is sent."""
    return struct.pack("=IHHII", 16 + len(payload), kind, flags, 0, 77) + payload


def status(code: int, text: str | None = None, capped: bool = True, request: bytes = b"x" * 8) -> bytes:
    payload = struct.pack("=i", -code) + struct.pack("=IHHII", 16 + len(request), 0x1407, 5, 0, 0)
    if not capped:
        payload += request
    if text is not None:
        payload += nldev.attribute(1, text)
    return answer(2, payload, (0x100 if capped else 0) | (0x200 if text is not None else 0))


def done(code: int | None = 0) -> bytes:
    return answer(3, b"" if code is None else struct.pack("=i", -code), 2)


class Fake(nldev.Transport):
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
        (message,) = nldev.messages(self.requests[-1])
        return message.type, message.flags, nldev.attributes(message.payload)


def u8(kind: int, value: int) -> bytes:
    return nldev.attribute(kind, value, "B")


def u64(kind: int, value: int) -> bytes:
    return nldev.attribute(kind, value, "Q")


def nested(kind: int, *children: bytes) -> bytes:
    return nldev.attribute(kind | 0x8000, b"".join(children))


# --- bytes ---------------------------------------------------------------------------------------------


def test_attribute_is_padded_and_its_length_is_not() -> None:
    assert nldev.attribute(2, "rxe0") == struct.pack("=HH", 9, 2) + b"rxe0\0" + b"\0\0\0"
    assert nldev.attribute(66, 1, "B") == struct.pack("=HHB", 5, 66, 1) + b"\0\0\0"
    assert nldev.attribute(1, 0) == struct.pack("=HHI", 8, 1, 0)


@given(st.lists(st.tuples(st.integers(0, 0x3FFF), st.binary(max_size=40)), max_size=8))
def test_attributes_come_back_as_they_went(values: list[tuple[int, bytes]]) -> None:
    data = b"".join(nldev.attribute(kind, value) for kind, value in values)
    assert nldev.attributes(data) == values


def test_flag_bits_of_an_attribute_type_are_not_its_number() -> None:
    assert nldev.attributes(struct.pack("=HH", 4, 0x8000 | 15)) == [(15, b"")]
    assert nldev.attributes(struct.pack("=HH", 4, 0x4000 | 15)) == [(15, b"")]


def test_two_messages_in_one_datagram() -> None:
    data = nldev.encode(1, nldev.DUMP, 7, b"12345") + b"\0\0\0" + nldev.encode(6, nldev.GET, 8)
    assert nldev.messages(data) == [
        nldev.Message(0x1401, 0x301, 7, b"12345"),
        nldev.Message(0x1406, 0x001, 8, b""),
    ]


def test_a_change_is_no_dump() -> None:
    """The kernel takes any bit of NLM_F_DUMP for a dump."""
    assert nldev.CHANGE & 0x300 == 0
    assert nldev.GET & 0x300 == 0


# function, bytes, what the error says
MALFORMED = [
    (nldev.messages, b"\0" * 15, "15 bytes where a message header needs 16"),
    (nldev.messages, struct.pack("=IHHII", 15, 1, 0, 0, 0), "a message of 15 bytes in 16"),
    (nldev.messages, struct.pack("=IHHII", 17, 1, 0, 0, 0), "a message of 17 bytes in 16"),
    (nldev.attributes, b"\0\0\0", "3 bytes where an attribute header needs 4"),
    (nldev.attributes, struct.pack("=HH", 3, 1), "an attribute of 3 bytes in 4"),
    (nldev.attributes, struct.pack("=HH", 9, 1) + b"1234", "an attribute of 9 bytes in 8"),
    (nldev.system_info, nldev.attribute(66, 1), "attribute 66 has 4 bytes"),
    (nldev.device, nldev.attribute(2, "x"), "attribute 1 is missing"),
    (nldev.device, nldev.attribute(1, 0), "attribute 2 is missing"),
    (nldev.port, nldev.attribute(1, 0) + nldev.attribute(2, "x"), "attribute 3 is missing"),
    (nldev.counters, nested(80, nested(81, nldev.attribute(82, "a"))), "attribute 83 is missing"),
]


@pytest.mark.parametrize(("function", "data", "text"), MALFORMED)
def test_malformed(function: t.Callable[[bytes], object], data: bytes, text: str) -> None:
    with pytest.raises(nldev.NldevError) as caught:
        function(data)
    assert str(caught.value) == f"Could not read the kernel's RDMA netlink answer: EBADMSG (Bad message): {text}"
    assert caught.value.errno == errno.EBADMSG


DECODERS: list[t.Callable[[bytes], object]] = [
    nldev.messages,
    nldev.attributes,
    nldev.system_info,
    nldev.device,
    nldev.port,
    nldev.resource_summary,
    lambda data: nldev.resource_users(data, "ctx"),
    nldev.counters,
]
NUMBERS = st.sampled_from([1, 2, 3, 5, 6, 9, 12, 13, 15, 16, 17, 18, 28, 29, 51, 66, 80, 81, 82, 83, 86, 87])
# Well-formed attributes of our numbers with any content reach deeper than bytes alone.
CONTENT = st.recursive(
    st.binary(max_size=12),
    lambda inner: st.lists(st.tuples(NUMBERS, inner), max_size=4).map(
        lambda rows: b"".join(nldev.attribute(kind, value) for kind, value in rows)
    ),
    max_leaves=12,
)


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


# --- operations ----------------------------------------------------------------------------------------


def test_sys_get() -> None:
    payload = u8(66, 1) + u8(93, 1) + u8(96, 0) + u8(103, 1)
    fake = Fake(answer(0x1406, payload))
    assert nldev.sys_get(fake) == nldev.SystemInfo("shared", True, False, True)
    assert fake.request() == (0x1406, nldev.GET, [])
    assert not fake.closed  # who opened it closes it


def test_sys_get_of_an_older_kernel_leaves_out_what_it_does_not_say() -> None:
    assert nldev.sys_get(Fake(answer(0x1406, u8(66, 0)))) == nldev.SystemInfo("exclusive", None, None, None)
    assert nldev.sys_get(Fake(answer(0x1406))) == nldev.SystemInfo(None, None, None, None)


@pytest.mark.parametrize(("mode", "value"), [("exclusive", b"\0"), ("shared", b"\1")])
def test_sys_set(mode: str, value: bytes) -> None:
    fake = Fake(status(0))
    nldev.sys_set_netns_mode(mode, fake)
    assert fake.request() == (0x1407, nldev.CHANGE, [(66, value)])


def test_sys_set_to_no_mode_sends_nothing() -> None:
    fake = Fake()
    with pytest.raises(KeyError):
        nldev.sys_set_netns_mode("private", fake)
    assert fake.requests == []


def a_device(index: int, name: str) -> bytes:
    return nldev.attribute(1, index) + nldev.attribute(2, name) + nldev.attribute(3, 1)


def test_a_dump_in_several_datagrams_with_index_zero() -> None:
    first = a_device(0, "rxe0") + u64(6, 4680977241177235892) + nldev.attribute(5, "") + u8(14, 1)
    second = a_device(1, "mlx5_0") + nldev.attribute(67, "roce") + nldev.attribute(5, "28.39.1002")
    fake = Fake(answer(0x1401, first, 2) + answer(0x1401, second, 2), done())
    assert nldev.devices(fake) == [
        nldev.Device(0, "rxe0", 1, "ca", None, "40f6:2bff:fe0e:a1b4", None, None, None),
        nldev.Device(1, "mlx5_0", 1, None, "roce", None, None, "28.39.1002", None),
    ]
    assert fake.request() == (0x1401, nldev.DUMP, [])


@pytest.mark.parametrize("end", [done(), done(None)])
def test_an_empty_dump(end: bytes) -> None:
    assert nldev.devices(Fake(end)) == []


def test_a_dump_that_fails_at_its_end() -> None:
    with pytest.raises(nldev.NldevError) as caught:
        nldev.devices(Fake(answer(0x1401, a_device(0, "rxe0"), 2), done(errno.EMSGSIZE)))
    assert str(caught.value) == "Could not list RDMA devices: EMSGSIZE (Message too long)"


def test_ports() -> None:
    ours = a_device(0, "rxe0") + u8(12, 4) + u8(13, 5) + nldev.attribute(50, 3) + nldev.attribute(51, "d0")
    fake = Fake(answer(0x1405, ours, 2), done())
    assert nldev.ports(0, fake) == [
        nldev.Port(0, "rxe0", 1, "ACTIVE", "LINK_UP", "d0", 3, None, None, None, None),
    ]
    assert fake.request() == (0x1405, nldev.DUMP, [(1, struct.pack("=I", 0))])


def test_an_unknown_state_is_named_by_its_number() -> None:
    fake = Fake(answer(0x1405, a_device(0, "x") + u8(12, 9) + u8(13, 0), 2), done())
    (port,) = nldev.ports(0, fake)
    assert (port.state, port.physical_state) == ("UNKNOWN (9)", "UNKNOWN (0)")


def test_resources() -> None:
    def entry(name: str, count: int) -> bytes:
        return nested(16, nldev.attribute(17, name), u64(18, count))

    payload = a_device(0, "rxe0") + nested(15, entry("pd", 1), entry("ctx", 2))
    assert nldev.resources(Fake(answer(0x1409, payload, 2), done())) == [
        nldev.Resources(0, "rxe0", {"pd": 1, "ctx": 2})
    ]


def test_users() -> None:
    table = nested(86, nested(87, nldev.attribute(28, 4711)), nested(87, nldev.attribute(29, "ib_core")), nested(87))
    fake = Fake(answer(0x1416, a_device(0, "rxe0") + table, 2), done())
    assert nldev.users(0, "ctx", fake) == [
        nldev.User("ctx", 4711, None),
        nldev.User("ctx", None, "ib_core"),
        nldev.User("ctx", None, None),
    ]


def test_link_add_and_delete() -> None:
    fake = Fake(status(0), status(0))
    nldev.link_add("rxe0", "rxe", "d0", fake)
    assert fake.request() == (0x1403, nldev.CHANGE, [(2, b"rxe0\0"), (65, b"rxe\0"), (51, b"d0\0")])
    nldev.link_del(0, fake)
    assert fake.request() == (0x1404, nldev.CHANGE, [(1, struct.pack("=I", 0))])


def test_set_netns() -> None:
    fake = Fake(status(0))
    nldev.set_netns(0, 5, fake)
    assert fake.request() == (0x1402, nldev.CHANGE, [(1, struct.pack("=I", 0)), (68, struct.pack("=I", 5))])


def test_chardev() -> None:
    # huge_encode_dev(): the minor number's upper bits lie above the major number
    fake = Fake(answer(0x140F, nldev.attribute(70, "uverbs300") + u64(71, 1) + u64(72, 0x1E7 << 8 | 0x10002C)))
    assert nldev.chardev(0, "uverbs", fake) == nldev.Chardev("uverbs300", 1, 0x1E7, 300)
    assert fake.request() == (0x140F, nldev.GET, [(1, struct.pack("=I", 0)), (69, b"uverbs\0")])


def test_statistics() -> None:
    table = nested(80, nested(81, nldev.attribute(82, "sent_pkts"), u64(83, 1 << 40)))
    assert nldev.statistics(0, 1, Fake(answer(0x1411, table))) == {"sent_pkts": 1 << 40}


# --- what can go wrong ---------------------------------------------------------------------------------

# operation, errno, the kernel's sentence or None, message
REFUSALS: list[tuple[t.Callable[[nldev.Transport], object], int, str | None, str]] = [
    (
        lambda fake: nldev.sys_set_netns_mode("exclusive", fake),
        errno.EBUSY,
        None,
        (
            "Could not set the RDMA network namespace mode to exclusive: EBUSY (Device or resource busy). Network "
            "namespaces other than the initial one exist; the mode can be switched when they are gone, or by a reboot"
        ),
    ),
    (
        lambda fake: nldev.sys_set_netns_mode("shared", fake),
        errno.EINVAL,
        None,
        (
            "Could not set the RDMA network namespace mode to shared: EINVAL (Invalid argument). This kernel cannot "
            "switch the mode (new in Linux 5.2)"
        ),
    ),
    (
        lambda fake: nldev.sys_set_netns_mode("shared", fake),
        errno.EPERM,
        None,
        (
            "Could not set the RDMA network namespace mode to shared: EPERM (Operation not permitted). This needs "
            "CAP_NET_ADMIN in the initial user namespace: run as root of the host (become: true)"
        ),
    ),
    (
        lambda fake: nldev.set_netns(0, 3, fake),
        errno.EOPNOTSUPP,
        None,
        (
            "Could not move the RDMA device with index 0 to another network namespace: EOPNOTSUPP (Operation not "
            "supported). The RDMA subsystem is in shared mode, or the device's driver cannot move a device (it has no "
            "disassociate_ucontext)"
        ),
    ),
    (
        lambda fake: nldev.link_add("r", "rxe", "d9", fake),
        errno.ENODEV,
        "no such netdev",
        (
            "Could not add the RDMA link r of type rxe on d9: ENODEV (No such device): the kernel reports: no such "
            "netdev. This network namespace has no such network device"
        ),
    ),
    (
        lambda fake: nldev.ports(7, fake),
        errno.EINVAL,
        None,
        (
            "Could not list the ports of the RDMA device with index 7: EINVAL (Invalid argument). No RDMA device has "
            "this index in this network namespace"
        ),
    ),
]


@pytest.mark.parametrize(("operation", "code", "text", "message"), REFUSALS)
@pytest.mark.parametrize("capped", [True, False])
def test_refusal(
    operation: t.Callable[[nldev.Transport], object], code: int, text: str | None, message: str, capped: bool
) -> None:
    with pytest.raises(nldev.NldevError) as caught:
        operation(Fake(status(code, text, capped)))
    assert str(caught.value) == message
    assert caught.value.errno == code
    assert message.split(": ")[1].startswith(f"{caught.value.name} (")
    assert caught.value.detail == ("" if text is None else f"the kernel reports: {text}")


def test_no_family(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_arguments: object) -> t.NoReturn:
        raise OSError(errno.EPROTONOSUPPORT, "Protocol not supported")

    monkeypatch.setattr(nldev.socket, "socket", refuse)
    with pytest.raises(nldev.NotLoaded) as caught:
        nldev.sys_get()
    assert str(caught.value) == (
        "Could not read the RDMA subsystem's settings: EPROTONOSUPPORT (Protocol not supported). "
        "The kernel has no RDMA netlink: ib_core is not loaded"
    )


def test_no_permission_for_a_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_arguments: object) -> t.NoReturn:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(nldev.socket, "socket", refuse)
    with pytest.raises(nldev.NldevError, match="EACCES") as caught:
        nldev.sys_get()
    assert not isinstance(caught.value, nldev.NotLoaded)


def test_silence_is_a_time_limit() -> None:
    with pytest.raises(nldev.NldevError) as caught:
        # TimeoutError from Python 3.10 on.
        nldev.sys_get(Fake(socket.timeout("timed out")))
    assert str(caught.value) == (
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

    def open_one() -> Fake:
        opened.append(Fake(answer(0x1406, u8(66, 1)), status(errno.EPERM)))
        return opened[-1]

    monkeypatch.setattr(nldev, "Transport", open_one)
    assert nldev.sys_get().netns_mode == "shared"
    with pytest.raises(nldev.NldevError):
        nldev.sys_set_netns_mode("shared")
    assert [one.closed for one in opened] == [True, True]


# --- recordings ----------------------------------------------------------------------------------------


class Replay(nldev.Transport):
    """A recorded conversation: the request must be the recorded one but for its sequence number."""

    def __init__(self, exchange: dict[str, t.Any]) -> None:
        self._request = bytes.fromhex(exchange["request"])
        self._replies = [bytes.fromhex(reply) for reply in exchange["replies"]]
        self._recorded = struct.unpack_from("=I", self._request, 8)[0]
        self._sequence = b""

    def send(self, data: bytes) -> None:
        self._sequence = data[8:12]
        assert data[:8] + data[12:] == self._request[:8] + self._request[12:]

    def receive(self) -> bytes:
        reply = self._replies.pop(0)
        out = bytearray(reply)
        offset = 0
        while offset < len(reply):
            length, _kind, _flags, sequence = struct.unpack_from("=IHHI", reply, offset)
            # The kernel repeats the number of the request in every message.
            assert sequence == self._recorded
            out[offset + 8 : offset + 12] = self._sequence
            offset += length + (-length % 4)
        return bytes(out)

    def close(self) -> None:
        pass


class Recording:
    def __init__(self, path: Path) -> None:
        content = json.loads(path.read_text(encoding="utf-8"))
        self.rdma: dict[str, t.Any] = content["rdma"]
        self.user_pid: int = content["user_pid"]
        self._exchanges: list[dict[str, t.Any]] = content["exchanges"]

    def call(self, name: str, *arguments: t.Any, error: str | None = None) -> t.Any:
        (exchange, *_later) = [
            row
            for row in self._exchanges
            if (row["call"], row["arguments"], row["error"]) == (name, list(arguments), error)
        ]
        return getattr(nldev, name)(*arguments, transport=Replay(exchange))

    def refused(self) -> list[tuple[str, list[t.Any], str]]:
        return [(row["call"], row["arguments"], row["error"]) for row in self._exchanges if row["error"]]


@pytest.fixture(params=RECORDINGS, ids=lambda path: path.stem)
def recording(request: pytest.FixtureRequest) -> Recording:
    return Recording(request.param)


def test_there_are_recordings() -> None:
    assert RECORDINGS


def test_recorded_settings_are_what_rdma_prints(recording: Recording) -> None:
    info = recording.call("sys_get")
    words = recording.rdma["system"].split()
    printed = dict(zip(words[::2], words[1::2]))
    assert info.netns_mode == printed["netns"]
    for value, word in (
        (info.privileged_qkey, "privileged-qkey"),
        (info.copy_on_fork, "copy-on-fork"),
        (info.monitor, "monitor"),
    ):
        assert ("on" if value else "off") == printed[word]


def test_recorded_devices_are_what_rdma_prints(recording: Recording) -> None:
    found = recording.call("devices")
    assert [
        {
            "ifindex": row.index,
            "ifname": row.name,
            "node_type": row.node_type,
            "protocol": row.protocol,
            "node_guid": row.node_guid,
            "sys_image_guid": row.sys_image_guid,
        }
        for row in found
    ] == recording.rdma["dev"]


def test_recorded_ports_are_what_rdma_prints(recording: Recording) -> None:
    found = [port for device in recording.call("devices") for port in recording.call("ports", device.index)]
    assert [
        {
            "ifindex": row.index,
            "ifname": row.name,
            "port": row.port,
            "state": row.state,
            "physical_state": row.physical_state,
            "netdev": row.netdev,
            "netdev_index": row.netdev_index,
        }
        for row in found
    ] == recording.rdma["link"]


def test_recorded_resources_are_what_rdma_prints(recording: Recording) -> None:
    found = recording.call("resources")
    assert [{"ifindex": row.index, "ifname": row.name, **row.counts} for row in found] == recording.rdma["resource"]


def test_recorded_objects_are_as_many_as_counted(recording: Recording) -> None:
    (counted,) = [row for row in recording.rdma["resource"] if row["ifindex"] == 0]
    for kind in ("ctx", "qp", "cm_id", "cq", "mr", "pd", "srq"):
        assert len(recording.call("users", 0, kind)) == counted[kind], kind


def test_recorded_users(recording: Recording) -> None:
    assert recording.call("users", 0, "ctx") == [nldev.User("ctx", recording.user_pid, None)]
    assert recording.call("users", 0, "qp") == [nldev.User("qp", None, "ib_core")]


def test_recorded_counters_are_what_rdma_prints(recording: Recording) -> None:
    (printed,) = recording.rdma["statistic"]
    assert {"ifname": "rxe0", "port": 1, **recording.call("statistics", 0, 1)} == printed


def test_recorded_character_device_is_what_sysfs_says(recording: Recording) -> None:
    found = recording.call("chardev", 0, "uverbs")
    assert recording.rdma["uverbs"] == {found.name: f"{found.major}:{found.minor}"}


# What 7.2 answered; "sys_set_netns_mode" first with a namespace there, then as an ordinary user.
RECORDED_REFUSALS = [
    ("chardev", [0, "no such client"], "EOPNOTSUPP"),
    ("statistics", [0, 9], "EINVAL"),
    ("ports", [99], "EINVAL"),
    ("link_add", ["rdt0", "rxe", "no-such-netdev"], "ENODEV"),
    ("link_add", ["rdt0", "no-such-type", "lo"], "EINVAL"),
    ("link_add", ["rdt0", "rxe", "rail0"], "EEXIST"),
    ("link_del", [99], "EINVAL"),
    ("set_netns", [0, 3], "EOPNOTSUPP"),
    ("set_netns", [99, 4], "EINVAL"),
    ("sys_set_netns_mode", ["exclusive"], "EBUSY"),
    ("sys_set_netns_mode", ["exclusive"], "EPERM"),
]


def test_recorded_refusals(recording: Recording) -> None:
    assert recording.refused() == RECORDED_REFUSALS
    for name, arguments, error in RECORDED_REFUSALS:
        with pytest.raises(nldev.NldevError) as caught:
            recording.call(name, *arguments, error=error)
        assert caught.value.name == error


def test_recorded_change_that_is_none(recording: Recording) -> None:
    assert recording.call("sys_set_netns_mode", "shared") is None
