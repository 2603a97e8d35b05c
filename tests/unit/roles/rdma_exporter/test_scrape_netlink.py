# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whole scrapes over netlink as it was recorded."""

from __future__ import annotations

import errno
import json
import struct
import typing as t

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._rdma import netlink, nldev
from ansible_collections.rdmaops.gpu_fabric.tests.support import COLLECTION
from ansible_collections.rdmaops.gpu_fabric.tests.unit.roles.rdma_exporter.site import Site
from ansible_collections.rdmaops.gpu_fabric.tests.unit.roles.rdma_exporter.tree import Tree

pytestmark = pytest.mark.usefixtures("closed_files")

RECORDING = COLLECTION / "tests/unit/plugins/module_utils/fixtures/nldev_linux-7.2.12_iproute2-6.15.0.json"


class Recorded:
    """A socket that answers as the recorded kernel did, by the request less its sequence number."""

    exchanges: t.ClassVar[dict[str, list[str]]] = {}

    def __init__(self) -> None:
        self.sequence = b""
        self.replies: list[bytes] = []

    def send(self, data: bytes) -> None:
        self.sequence = data[8:12]
        exchange = self.exchanges.get((data[:8] + data[12:]).hex())
        if exchange is None:
            # What the kernel says to a driver without counters.
            refusal = struct.pack("=IHHIIi", 36, 2, 0, 0, 0, -errno.EINVAL) + data[:16]
            self.replies = [refusal]
        else:
            self.replies = [bytes.fromhex(text) for text in exchange]

    def receive(self) -> bytes:
        reply = bytearray(self.replies.pop(0))
        offset = 0
        while offset < len(reply):
            (length,) = struct.unpack_from("=I", reply, offset)
            reply[offset + 8 : offset + 12] = self.sequence
            offset += length + (-length % 4)
        return bytes(reply)

    def close(self) -> None:
        pass


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, t.Any]]:
    exchanges: list[dict[str, t.Any]] = json.loads(RECORDING.read_text())["exchanges"]
    table: dict[str, list[str]] = {}
    for row in exchanges:
        table.setdefault(row["request"][:16] + row["request"][24:], row["replies"])
    monkeypatch.setattr(Recorded, "exchanges", table)
    monkeypatch.setattr(netlink, "Transport", Recorded)
    return exchanges


def test_counters_by_netlink_as_a_kernel_answered(
    tree: Tree, recorded: list[dict[str, t.Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    tree.loaded()
    for number, name in enumerate(("rxe0", "rxe1")):
        tree.device(name, number, netdev=f"rail{number}").counters(symbol_error=number)
        # Read where netlink does not answer; the recording has the counters of rxe0 alone.
        tree.write(f"class/infiniband/{name}/ports/1/hw_counters/sysfs_only", "1")
    wanted = nldev.statistics(0, 1)
    assert wanted
    scrape = Site(tree).scrape()
    for name, value in wanted.items():
        assert scrape.value(f"rdma_hw_{name}_total", device="rxe0", port="1") == value
    assert scrape.of("rdma_hw_sysfs_only_total") == {"rxe1": 1}
    assert scrape.unreadable() == set()
    assert scrape.of("rdma_port_symbol_error_total") == {"rxe0": 0, "rxe1": 1}
    assert scrape.value("rdma_subsystem_loaded") == 1
    assert {row["mode"]: scrape.value("rdma_netns_mode", **row) for row in scrape.labels("rdma_netns_mode")} == {
        "exclusive": 0,
        "shared": 1,
    }
    (info,) = [row for row in scrape.labels("rdma_device_info") if row["device"] == "rxe0"]
    assert (info["protocol"], info["node_guid"]) == ("roce", "5054:00ff:fe90:0001")
    # Without netlink the same tree is read by its files.
    without = Site(tree, netlink=False).scrape()
    assert without.of("rdma_hw_sysfs_only_total") == {"rxe0": 1, "rxe1": 1}
