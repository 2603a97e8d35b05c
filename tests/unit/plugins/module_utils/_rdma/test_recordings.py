# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Conversations recorded from a kernel (fixtures/nldev_*.json), compared with what `rdma` printed."""

from __future__ import annotations

import json
import struct
import typing as t
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._rdma import netlink, nldev

FIXTURES = Path(__file__).parents[1] / "fixtures"


RECORDINGS = sorted(FIXTURES.glob("nldev_*.json"))


class Replay(netlink.Transport):
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
    for word in ("privileged-qkey", "copy-on-fork", "monitor"):
        assert ("on" if getattr(info, word.replace("-", "_")) else "off") == printed[word]


def as_printed(rows: t.Any, *names: str) -> list[dict[str, t.Any]]:
    return [{"ifindex": row.index, "ifname": row.name, **{name: getattr(row, name) for name in names}} for row in rows]


def test_recorded_devices_are_what_rdma_prints(recording: Recording) -> None:
    names = ("node_type", "protocol", "node_guid", "sys_image_guid")
    assert as_printed(recording.call("devices"), *names) == recording.rdma["dev"]


def test_recorded_ports_are_what_rdma_prints(recording: Recording) -> None:
    rows = [port for device in recording.call("devices") for port in recording.call("ports", device.index)]
    names = ("port", "state", "physical_state", "netdev", "netdev_index")
    assert as_printed(rows, *names) == recording.rdma["link"]


def test_recorded_resources_are_what_rdma_prints(recording: Recording) -> None:
    rows = recording.call("resources")
    assert [{"ifindex": row.index, "ifname": row.name, **row.counts} for row in rows] == recording.rdma["resource"]


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
    rows = recording.call("chardev", 0, "uverbs")
    assert recording.rdma["uverbs"] == {rows.name: f"{rows.major}:{rows.minor}"}


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
