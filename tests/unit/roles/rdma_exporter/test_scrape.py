# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whole scrapes over a made-up sysfs, over netlink as it was recorded, and over namespaces that are given by the test."""

from __future__ import annotations

import errno
import json
import os
import shutil
import struct
import threading
import typing as t
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._netns import quick_survey
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._netns.child import Answer, failed
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._netns.quick_survey import Spaces
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._netns.survey import Holder, Namespace, Unreadable
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._rdma import netlink, nldev
from ansible_collections.rdmaops.gpu_fabric.roles.rdma_exporter.files.rdma_exporter import collector, walk
from ansible_collections.rdmaops.gpu_fabric.roles.rdma_exporter.files.rdma_exporter.collector import Settings
from ansible_collections.rdmaops.gpu_fabric.roles.rdma_exporter.files.rdma_exporter.kept import KeptFiles
from ansible_collections.rdmaops.gpu_fabric.roles.rdma_exporter.files.rdma_exporter.look import Exporter
from ansible_collections.rdmaops.gpu_fabric.tests.support import COLLECTION
from ansible_collections.rdmaops.gpu_fabric.tests.unit.roles.rdma_exporter.series import Series
from ansible_collections.rdmaops.gpu_fabric.tests.unit.roles.rdma_exporter.tree import Tree, node

RECORDING = COLLECTION / "tests/unit/plugins/module_utils/fixtures/nldev_linux-7.2.12_iproute2-6.15.0.json"


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path / "sys")


@pytest.fixture(autouse=True)
def files(monkeypatch: pytest.MonkeyPatch) -> t.Iterator[None]:
    """What exporters keep open goes with the test: an exporter's own end is that of its process."""
    made: list[KeptFiles] = []
    init = KeptFiles.__init__

    def recorded(one: KeptFiles, most: int) -> None:
        init(one, most)
        made.append(one)

    monkeypatch.setattr(KeptFiles, "__init__", recorded)
    yield
    for one in made:
        one.close()


class Site:
    """An exporter and what it has served."""

    def __init__(self, tree: Tree, **settings: t.Any) -> None:
        given = {"limit": 20.0, "total": 60.0, **settings}
        self.exporter = Exporter(Settings(sysfs=str(tree.root), **given), "test")

    def scrape(self) -> Series:
        return Series(self.exporter.scrape())


def test_every_counter_of_every_port(tmp_path: Path) -> None:
    """A file is a series, whatever its name: 64 of each port, and none of them is a gauge."""
    site = Site(node(tmp_path / "sys", 4, 64))
    found = site.scrape()
    counters = [(name, labels, value) for name, labels, value in found.samples if labels.get("port")]
    counters = [row for row in counters if found.types[row[0]] == "counter"]
    assert len(counters) == 4 * 64
    assert {value for _name, _labels, value in counters} >= {1234567.0, 123456789012.0}
    assert found.value("rdma_port_rcv_data_bytes_total", device="mlx5_2") == 4 * (123456789012 + 8)
    (labels,) = [labels for labels in found.labels("rdma_hw_out_of_sequence_total") if labels["device"] == "mlx5_3"]
    expected = {"device": "mlx5_3", "port": "1", "netdev": "rail3", "link_layer": "Ethernet", "netns": "host"}
    assert labels == expected
    assert found.value("rdma_port_state_id", device="mlx5_0") == 4
    assert found.value("rdma_port_physical_state_id", device="mlx5_0") == 5
    assert found.value("rdma_port_rate_bytes_per_second", device="mlx5_0") == 50e9
    assert found.value("rdma_port_netdev_mtu_bytes", device="mlx5_0") == 9000
    assert found.value("rdma_exporter_scrape_complete") == 1
    assert found.of("rdma_device_present") == dict.fromkeys(["mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3"], 1.0)
    assert found.unreadable() == set()


def test_a_node_without_rdma(tree: Tree) -> None:
    shutil.rmtree(tree.root / "class")
    found = Site(tree, expected=("mlx5_0",)).scrape()
    assert found.value("rdma_subsystem_loaded") == 0
    assert found.of("rdma_device_present") == {"mlx5_0": 0}
    assert found.of("rdma_device_expected") == {"mlx5_0": 1}
    assert found.devices() == set()
    assert "rdma_netns_mode" not in found.types


def test_knobs_are_no_counters_and_a_whole_devices_counters_have_no_port(tree: Tree) -> None:
    card = tree.device("mlx5_0").hw_counters(lifespan=10, rx_bytes=7, active_qps=3)
    card.write("hw_counters/lifespan", "10")
    card.write("hw_counters/tx_bytes", "9")
    found = Site(tree).scrape()
    assert "lifespan" not in found.text
    assert found.labels("rdma_hw_tx_bytes_total") == [{"device": "mlx5_0", "netns": "host"}]
    assert (found.types["rdma_hw_active_qps"], found.value("rdma_hw_active_qps")) == ("gauge", 3)


def test_what_cannot_be_read_is_said_and_no_zero_is_made_up(tree: Tree, capfd: pytest.CaptureFixture[str]) -> None:
    one = tree.device("mlx5_0").counters(symbol_error=1, link_downed=2).hw_counters(out_of_buffer=3, rx_pkts=4)
    tree.device("mlx5_1", 1, netdev="rail1").counters(symbol_error=5)
    one.write("ports/1/counters/symbol_error", "N/A (no PMA)")
    one.write("ports/1/counters/port_rcv_errors", "-1")
    one.breaks("ports/1/hw_counters/out_of_buffer")
    one.breaks("ports/1/rate")
    one.write("ports/1/state", "9: NEW")
    site = Site(tree)
    found = site.scrape()
    assert found.unreadable() == {
        ("mlx5_0", "1", "counters/symbol_error", "text"),
        ("mlx5_0", "1", "counters/port_rcv_errors", "text"),
        ("mlx5_0", "1", "hw_counters/out_of_buffer", "EISDIR"),
        ("mlx5_0", "1", "rate", "EISDIR"),
    }
    assert found.of("rdma_port_symbol_error_total") == {"mlx5_1": 5}
    assert found.of("rdma_port_link_downed_total") == {"mlx5_0": 2}
    assert found.of("rdma_hw_rx_pkts_total") == {"mlx5_0": 4}
    assert "rdma_hw_out_of_buffer_total" not in found.types
    assert found.of("rdma_port_rate_bytes_per_second") == {"mlx5_1": 50e9}
    assert found.of("rdma_port_state_id") == {"mlx5_1": 4}
    # One counter does not hide a device.
    assert found.value("rdma_exporter_scrape_complete") == 1
    said = capfd.readouterr().err
    assert "mlx5_0: ports/1/counters/symbol_error: 'N/A (no PMA)' is not a number" in said
    assert "mlx5_0: ports/1/hw_counters/out_of_buffer: EISDIR (Is a directory)" in said
    site.scrape()
    assert capfd.readouterr().err == ""


def test_einval_of_a_counter(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    """What some drivers answer while the link is down."""
    tree.device("mlx5_0").counters(symbol_error=1).hw_counters(rx_pkts=2)
    real = os.pread
    bad = os.stat(tree.root / "class/infiniband/mlx5_0/ports/1/hw_counters/rx_pkts").st_ino

    def pread(handle: int, size: int, offset: int) -> bytes:
        if os.fstat(handle).st_ino == bad:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        return real(handle, size, offset)

    monkeypatch.setattr(os, "pread", pread)
    site = Site(tree)
    for _turn in range(2):
        found = site.scrape()
        assert found.unreadable() == {("mlx5_0", "1", "hw_counters/rx_pkts", "EINVAL")}
        assert found.of("rdma_port_symbol_error_total") == {"mlx5_0": 1}


def test_two_counters_with_one_name(tree: Tree) -> None:
    tree.device("mlx5_0").hw_counters(**{"rx-pkts": 1, "rx.pkts": 2})
    found = Site(tree).scrape()
    assert found.of("rdma_hw_rx_pkts_total") == {"mlx5_0": 1}
    assert found.unreadable() == {("mlx5_0", "1", "hw_counters/rx.pkts", "clash")}


def test_a_device_that_goes_takes_its_series_along_and_is_missed(tree: Tree) -> None:
    one = tree.device("mlx5_0").counters(symbol_error=1)
    tree.device("mlx5_1", 1, netdev="rail1").counters(symbol_error=2)
    site = Site(tree, expected=("mlx5_0", "mlx5_7"))
    assert site.scrape().of("rdma_device_present") == {"mlx5_0": 1, "mlx5_1": 1, "mlx5_7": 0}
    shutil.rmtree(one.place)
    found = site.scrape()
    assert found.of("rdma_device_present") == {"mlx5_0": 0, "mlx5_1": 1, "mlx5_7": 0}
    assert found.of("rdma_port_symbol_error_total") == {"mlx5_1": 2}
    assert found.devices() == {"mlx5_1"}
    # It comes back.
    tree.device("mlx5_0").counters(symbol_error=9)
    assert site.scrape().of("rdma_port_symbol_error_total") == {"mlx5_0": 9, "mlx5_1": 2}


def test_a_device_that_is_renamed_is_not_missed(tree: Tree) -> None:
    one = tree.device("mlx5_0").counters(symbol_error=1)
    site = Site(tree)
    site.scrape()
    one.place.rename(one.place.parent / "rocep7s0f0")
    found = site.scrape()
    assert found.of("rdma_device_present") == {"rocep7s0f0": 1}
    assert found.of("rdma_port_symbol_error_total") == {"rocep7s0f0": 1}


def test_a_list_that_cannot_be_read(tree: Tree) -> None:
    tree.device("mlx5_0").counters(symbol_error=1)
    site = Site(tree)
    site.scrape()
    shutil.rmtree(tree.root / "class")
    tree.write("class/infiniband", "no directory")
    found = site.scrape()
    assert found.unreadable() == {("", "", "devices", "other")}
    assert found.value("rdma_exporter_scrape_complete") == 0
    # Whether it is gone nobody knows.
    assert found.of("rdma_device_present") == {}


def test_a_look_that_hangs(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    tree.device("mlx5_0")
    site = Site(tree, limit=0.2)
    come_back = threading.Event()
    monkeypatch.setattr(collector, "look", lambda *arguments: come_back.wait(60))
    try:
        assert site.scrape().unreadable() == {("", "", "devices", "ETIMEDOUT")}
    finally:
        come_back.set()


# --- netlink -------------------------------------------------------------------------------------------


class Recorded:
    """A socket that answers as the recorded kernel did, by the request less its sequence number."""

    exchanges: t.ClassVar[dict[str, list[str]]] = {}

    def __init__(self) -> None:
        self.sequence = b""
        self.replies: list[bytes] = []

    def send(self, data: bytes) -> None:
        self.sequence = data[8:12]
        found = self.exchanges.get((data[:8] + data[12:]).hex())
        if found is None:
            # What the kernel says to a driver without counters.
            refusal = struct.pack("=IHHIIi", 36, 2, 0, 0, 0, -errno.EINVAL) + data[:16]
            self.replies = [refusal]
        else:
            self.replies = [bytes.fromhex(text) for text in found]

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
    found = Site(tree).scrape()
    for name, value in wanted.items():
        assert found.value(f"rdma_hw_{name}_total", device="rxe0", port="1") == value
    assert found.of("rdma_hw_sysfs_only_total") == {"rxe1": 1}
    assert found.unreadable() == set()
    assert found.of("rdma_port_symbol_error_total") == {"rxe0": 0, "rxe1": 1}
    assert found.value("rdma_subsystem_loaded") == 1
    assert {row["mode"]: found.value("rdma_netns_mode", **row) for row in found.labels("rdma_netns_mode")} == {
        "exclusive": 0,
        "shared": 1,
    }
    (info,) = [row for row in found.labels("rdma_device_info") if row["device"] == "rxe0"]
    assert (info["protocol"], info["node_guid"]) == ("roce", "5054:00ff:fe90:0001")
    # Without netlink the same tree is read by its files.
    without = Site(tree, netlink=False).scrape()
    assert without.of("rdma_hw_sysfs_only_total") == {"rxe0": 1, "rxe1": 1}


# --- namespaces ----------------------------------------------------------------------------------------

UID = "11111111-2222-3333-4444-555555555555"
INITIAL = 4026531840


def space(inode: int, name: str | None = None, uid: str | None = None) -> Namespace:
    pod = {"uid": uid} if uid else None
    return Namespace(inode, name, [Holder("process", f"/proc/{inode}/ns/net", inode, "", None, pod)], 1)


def device(name: str, index: int, **counters: int) -> dict[str, t.Any]:
    port = {
        "port": 1,
        "state": "ACTIVE",
        "physical_state": "LINK_UP",
        "link_layer": "Ethernet",
        "rate_gbps": 400.0,
        "netdev": f"net{index}",
        "netdev_mtu": 4200,
        "counters": {},
        "hw_counters": counters,
    }
    about = dict.fromkeys(("driver", "protocol", "node_type", "firmware", "board_id", "pci_address", "node_guid"))
    return {"name": name, "index": index, "hw_counters": {}, "ports": [port], **about}


class Node:
    """A node in exclusive mode whose namespaces, and what is in them, the test says."""

    def __init__(self, tree: Tree, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        tree.loaded(shared=False)
        self.host: list[dict[str, t.Any]] = []
        self.spaces: list[Namespace] = []
        self.unreadable: list[Unreadable] = []
        self.inside: dict[int, Answer] = {}
        self.own = INITIAL
        logs = tmp_path / "pods"
        (logs / f"ml_train-0_{UID}").mkdir(parents=True)
        self.site = Site(tree, pod_logs=str(logs))
        monkeypatch.setattr(nldev, "sys_get", lambda: nldev.SystemInfo("exclusive", True, False, True))
        monkeypatch.setattr(collector, "look", lambda *arguments: {"devices": self.host, "unreadable": []})
        monkeypatch.setattr(
            quick_survey, "spaces", lambda proc: Spaces(INITIAL, self.own, self.spaces, self.unreadable)
        )
        monkeypatch.setattr(walk.Walker, "walk", lambda walker, found, limit, deadline: self.answers(found))

    def answers(self, found: t.Sequence[Namespace]) -> dict[int, Answer]:
        empty = {"value": {"devices": [], "unreadable": []}}
        return {one.inode: self.inside.get(one.inode, empty) for one in found}

    def has(self, inode: int, *devices: dict[str, t.Any]) -> None:
        self.inside[inode] = {"value": {"devices": list(devices), "unreadable": []}}


@pytest.fixture
def machine(tree: Tree, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Node:
    return Node(tree, monkeypatch, tmp_path)


def test_devices_of_pods(machine: Node) -> None:
    machine.host = [device("mlx5_0", 0, sent=1)]
    machine.spaces = [space(7, uid=UID), space(8, "lab"), space(9, uid="other")]
    machine.has(7, device("mlx5_1", 1, sent=2))
    machine.has(8, device("mlx5_2", 2, sent=3))
    machine.has(9, device("mlx5_3", 3, sent=4))
    found = machine.site.scrape()
    assert found.of("rdma_hw_sent_total") == {"mlx5_0": 1, "mlx5_1": 2, "mlx5_2": 3, "mlx5_3": 4}
    where = {row["device"]: row for row in found.labels("rdma_hw_sent_total")}
    assert where["mlx5_1"] == {
        "device": "mlx5_1",
        "port": "1",
        "netdev": "net1",
        "link_layer": "Ethernet",
        "netns": "pod",
        "pod_namespace": "ml",
        "pod_name": "train-0",
    }
    assert (where["mlx5_2"]["netns"], where["mlx5_3"]["netns"]) == ("other", "pod")
    assert "pod_name" not in where["mlx5_3"]
    (info,) = [row for row in found.labels("rdma_device_info") if row["device"] == "mlx5_1"]
    assert info["pod_uid"] == UID
    kinds = {
        row["netns"]: found.value("rdma_network_namespaces", **row) for row in found.labels("rdma_network_namespaces")
    }
    assert kinds == {"host": 1, "pod": 2, "other": 1}


def test_a_namespace_that_does_not_answer(machine: Node, capfd: pytest.CaptureFixture[str]) -> None:
    machine.spaces = [space(7, uid=UID), space(8, "lab")]
    machine.has(7, device("mlx5_1", 1, sent=2))
    machine.has(8, device("mlx5_2", 2, sent=3))
    machine.site.scrape()
    machine.inside[7] = failed("no answer from inside within 2 s", errno.ETIMEDOUT)
    found = machine.site.scrape()
    assert found.of("rdma_hw_sent_total") == {"mlx5_2": 3}
    (row,) = found.labels("rdma_unreadable")
    assert row == {
        "what": "devices",
        "error": "ETIMEDOUT",
        "netns": "pod",
        "pod_namespace": "ml",
        "pod_name": "train-0",
    }
    # It may well be in there.
    assert found.of("rdma_device_present") == {"mlx5_2": 1}
    assert found.value("rdma_exporter_scrape_complete") == 0
    assert "Could not look into net:[7]: no answer from inside within 2 s" in capfd.readouterr().err


def test_a_namespace_that_goes_during_the_walk(machine: Node) -> None:
    machine.spaces = [space(7, uid=UID)]
    machine.has(7, device("mlx5_1", 1, sent=2))
    machine.site.scrape()
    machine.inside[7] = failed("its holder is gone", errno.ENOENT)
    found = machine.site.scrape()
    # No error, and no word about a device that is on its way back.
    assert found.unreadable() == set()
    assert found.of("rdma_device_present") == {}
    machine.spaces, machine.host = [], [device("mlx5_1", 1, sent=2)]
    assert machine.site.scrape().of("rdma_device_present") == {"mlx5_1": 1}


def test_a_device_that_moves_is_looked_for_again_before_it_is_missed(
    machine: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.host = [device("mlx5_1", 1, sent=2)]
    machine.spaces = [space(7, uid=UID)]
    machine.site.scrape()
    looks: list[int] = []

    def arrives_late(found: t.Sequence[Namespace]) -> dict[int, Answer]:
        looks.append(1)
        machine.host = []
        devices = [device("mlx5_1", 1, sent=2)] if len(looks) > 1 else []
        return {7: {"value": {"devices": devices, "unreadable": []}}}

    monkeypatch.setattr(machine, "answers", arrives_late)
    found = machine.site.scrape()
    assert found.of("rdma_device_present") == {"mlx5_1": 1}
    assert [row["netns"] for row in found.labels("rdma_hw_sent_total")] == ["pod"]
    assert len(looks) == 2


def test_a_device_that_is_seen_in_two_places_has_one_series(machine: Node) -> None:
    """It went back to the host between the two looks."""
    machine.host = [device("mlx5_1", 1, sent=3)]
    machine.spaces = [space(7, uid=UID)]
    machine.has(7, device("mlx5_1", 1, sent=2))
    found = machine.site.scrape()
    assert found.of("rdma_hw_sent_total") == {"mlx5_1": 3}
    assert len(found.labels("rdma_hw_sent_total")) == 1


def test_processes_that_cannot_be_looked_at(machine: Node) -> None:
    machine.unreadable = [Unreadable("/proc/7/ns/net", "EACCES"), Unreadable("/proc/8/ns/net", "EACCES")]
    found = machine.site.scrape()
    assert found.unreadable() == {("", "", "network_namespaces", "EACCES")}
    assert found.value("rdma_exporter_scrape_complete") == 0


def test_an_exporter_in_a_namespace_of_its_own(machine: Node) -> None:
    machine.own = 99
    machine.host = [device("mlx5_9", 9, sent=1)]
    machine.spaces = [space(INITIAL)]
    machine.has(INITIAL, device("mlx5_0", 0, sent=2))
    where = {row["device"]: row["netns"] for row in machine.site.scrape().labels("rdma_hw_sent_total")}
    assert where == {"mlx5_9": "other", "mlx5_0": "host"}


def test_namespaces_can_be_left_out(tree: Tree, machine: Node) -> None:
    machine.host = [device("mlx5_0", 0, sent=1)]
    machine.spaces = [space(7, uid=UID)]
    machine.has(7, device("mlx5_1", 1, sent=2))
    found = Site(tree, netns=False).scrape()
    assert found.of("rdma_hw_sent_total") == {"mlx5_0": 1}


def test_the_mode_cannot_be_told(machine: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused() -> nldev.SystemInfo:
        raise nldev.NldevError(errno.EPERM, "read the RDMA subsystem's settings")

    monkeypatch.setattr(nldev, "sys_get", refused)
    machine.host = [device("mlx5_0", 0, sent=1)]
    found = machine.site.scrape()
    assert found.unreadable() == {("", "", "netns_mode", "EPERM")}
    assert found.of("rdma_hw_sent_total") == {"mlx5_0": 1}
    assert found.value("rdma_exporter_scrape_complete") == 0
    assert "rdma_netns_mode" not in found.types
