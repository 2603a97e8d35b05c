# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whole scrapes over namespaces that are given by the test."""

from __future__ import annotations

import errno
import json
import typing as t
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._netns import quick_survey
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._netns.child import Answer, failed
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._netns.quick_survey import Spaces
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._netns.survey import Holder, Namespace, Unreadable
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._rdma import nldev
from ansible_collections.rdmaops.gpu_fabric.roles.rdma_exporter.files.rdma_exporter import collector, walk
from ansible_collections.rdmaops.gpu_fabric.tests.unit.roles.rdma_exporter.site import Site
from ansible_collections.rdmaops.gpu_fabric.tests.unit.roles.rdma_exporter.tree import Tree, device_inside

pytestmark = pytest.mark.usefixtures("closed_files")


UID = "11111111-2222-3333-4444-555555555555"
INITIAL = 4026531840
IN_POD = {"netns": "pod", "pod_namespace": "ml", "pod_name": "train-0"}


def space(inode: int, name: str | None = None, uid: str | None = None) -> Namespace:
    pod = {"uid": uid} if uid else None
    # A pod that sees the mount of a namespace, as dranet does, is not in it.
    mount = Holder("mount", f"/run/netns/{inode}", 5, "dranet", None, {"uid": "of-dranet"})
    return Namespace(inode, name, [mount, Holder("process", f"/proc/{inode}/ns/net", inode, "", None, pod)], 2)


def device(name: str, index: int, **counters: int) -> dict[str, t.Any]:
    return device_inside(name, index, hw_counters=counters)


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
        self.claims = tmp_path / "dra_manager_state"
        self.site = Site(tree, pod_logs=str(logs), claims=str(self.claims))
        monkeypatch.setattr(nldev, "sys_get", lambda: nldev.SystemInfo("exclusive", True, False, True))
        monkeypatch.setattr(collector, "look", lambda *arguments: {"devices": self.host, "unreadable": []})
        monkeypatch.setattr(
            quick_survey, "spaces", lambda proc: Spaces(INITIAL, self.own, self.spaces, self.unreadable)
        )
        monkeypatch.setattr(walk.Walker, "walk", lambda walker, spaces, limit, deadline: self.answers(spaces))

    def answers(self, spaces: t.Sequence[Namespace]) -> dict[int, Answer]:
        empty = {"value": {"devices": [], "netdevs": {}, "unreadable": []}}
        return {space.inode: self.inside.get(space.inode, empty) for space in spaces}

    def has(self, inode: int, *devices: dict[str, t.Any], **netdevs: list[int]) -> None:
        self.inside[inode] = {"value": {"devices": list(devices), "netdevs": netdevs, "unreadable": []}}


@pytest.fixture
def machine(tree: Tree, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Node:
    return Node(tree, monkeypatch, tmp_path)


def test_devices_of_pods(machine: Node) -> None:
    machine.host = [device("mlx5_0", 0, sent=1)]
    machine.spaces = [space(7, uid=UID), space(8, "lab"), space(9, uid="other")]
    machine.has(7, device("mlx5_1", 1, sent=2))
    machine.has(8, device("mlx5_2", 2, sent=3))
    machine.has(9, device("mlx5_3", 3, sent=4))
    series = machine.site.scrape()
    assert series.of("rdma_hw_sent_total") == {"mlx5_0": 1, "mlx5_1": 2, "mlx5_2": 3, "mlx5_3": 4}
    where = {row["device"]: row for row in series.labels("rdma_hw_sent_total")}
    port = {"device": "mlx5_1", "port": "1", "netdev": "net1", "link_layer": "Ethernet"}
    assert where["mlx5_1"] == {**port, **IN_POD}
    assert (where["mlx5_2"]["netns"], where["mlx5_3"]["netns"]) == ("other", "pod")
    assert "pod_name" not in where["mlx5_3"]
    (info,) = [row for row in series.labels("rdma_device_info") if row["device"] == "mlx5_1"]
    assert info["pod_uid"] == UID
    kinds = {
        row["netns"]: series.value("rdma_network_namespaces", **row) for row in series.labels("rdma_network_namespaces")
    }
    assert kinds == {"host": 1, "pod": 2, "other": 1}


def test_the_claims_of_a_pod(machine: Node) -> None:
    machine.spaces = [space(7, uid=UID), space(9, uid="other")]
    machine.has(7, device("mlx5_1", 1))
    machine.has(9, device("mlx5_3", 3))
    rows = [
        {"ClaimName": "train-0-rail1-x7k2p", "Namespace": "ml", "PodUIDs": {UID: {}}},
        {"ClaimName": "train-0-rail0-4hk9q", "Namespace": "ml", "PodUIDs": {UID: {}}},
    ]
    machine.claims.write_text(json.dumps({"Data": json.dumps({"ClaimInfoStateList": rows})}))
    series = machine.site.scrape()
    assert {row["device"]: row.get("claims") for row in series.labels("rdma_device_info")} == {
        "mlx5_1": "ml/train-0-rail0-4hk9q,ml/train-0-rail1-x7k2p",
        "mlx5_3": None,
    }


def test_network_devices_of_pods_that_have_rdma_devices(machine: Node) -> None:
    machine.spaces = [space(7, uid=UID), space(8, "lab"), space(9, uid="other")]
    machine.has(7, device("mlx5_1", 1), lo=[1, 2], eth0=[3, 4], net1=[5, 6])
    # Without a pod's name, two of them would have the same labels.
    machine.has(8, device("mlx5_2", 2), eth0=[7, 8])
    machine.has(9, device("mlx5_3", 3), eth0=[9, 10])
    series = machine.site.scrape()
    for metric, values in {"receive": {"eth0": 3, "net1": 5}, "transmit": {"eth0": 4, "net1": 6}}.items():
        name = f"rdma_netdev_{metric}_bytes_total"
        assert {row["netdev"]: series.value(name, **row) for row in series.labels(name)} == values
        assert all(row == {"netdev": row["netdev"], **IN_POD} for row in series.labels(name))


NETDEVS = """\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
  net1:    1000       2    0    0    0     0          0         0       50       3    0    0    0     0       0          0
"""


def test_a_look_inside_reads_network_devices_where_there_are_rdma_devices(
    machine: Node, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "dev"
    monkeypatch.setattr(collector, "_NETDEVS", str(path))
    assert collector.look_inside(True)["netdevs"] == {}
    machine.host = [device("mlx5_1", 1)]
    answer = collector.look_inside(True)
    (line,) = answer["unreadable"]
    assert (answer["netdevs"], line["device"], line["what"]) == ({}, "", "network_devices")
    path.write_text(NETDEVS)
    assert collector.look_inside(True)["netdevs"] == {"net1": (1000, 50)}


def test_one_name_in_two_namespaces(machine: Node) -> None:
    """From Linux 7.3 on, a name is unique in its namespace only."""
    machine.host = [device("mlx5_0", 0, sent=1)]
    machine.spaces = [space(7, uid=UID)]
    machine.has(7, device("mlx5_0", 1, sent=2))
    series = machine.site.scrape()
    values = {row["netns"]: series.value("rdma_hw_sent_total", **row) for row in series.labels("rdma_hw_sent_total")}
    assert values == {"host": 1, "pod": 2}


def test_devices_that_no_label_tells_apart(machine: Node, capfd: pytest.CaptureFixture[str]) -> None:
    """Prometheus refuses a scrape with two values of one series."""
    machine.spaces = [space(7, "blue"), space(8, "red")]
    machine.has(7, device("mlx5_0", 0, sent=1))
    machine.has(8, device("mlx5_0", 1, sent=2))
    series = machine.site.scrape()
    assert series.of("rdma_hw_sent_total") == {"mlx5_0": 1}
    (row,) = series.labels("rdma_unreadable")
    assert (row["device"], row["what"], row["error"]) == ("mlx5_0", "device", "clash")
    text = "mlx5_0 (index 1): another device in a network namespace of the kind other has this name, and its metrics are shown"
    assert text in capfd.readouterr().err


def test_a_namespace_that_does_not_answer(machine: Node, capfd: pytest.CaptureFixture[str]) -> None:
    machine.spaces = [space(7, uid=UID), space(8, "lab")]
    machine.has(7, device("mlx5_1", 1, sent=2))
    machine.has(8, device("mlx5_2", 2, sent=3))
    machine.site.scrape()
    machine.inside[7] = failed("no answer from inside within 2 s", errno.ETIMEDOUT)
    series = machine.site.scrape()
    assert series.of("rdma_hw_sent_total") == {"mlx5_2": 3}
    (row,) = series.labels("rdma_unreadable")
    assert row == {"what": "devices", "error": "ETIMEDOUT", **IN_POD}
    # It may well be in there.
    assert series.of("rdma_device_present") == {"mlx5_2": 1}
    assert series.value("rdma_exporter_scrape_complete") == 0
    assert "Could not look into net:[7]: no answer from inside within 2 s" in capfd.readouterr().err


def test_a_namespace_that_goes_during_the_walk(machine: Node) -> None:
    machine.spaces = [space(7, uid=UID)]
    machine.has(7, device("mlx5_1", 1, sent=2))
    machine.site.scrape()
    machine.inside[7] = failed("its holder is gone", errno.ENOENT)
    scrape = machine.site.scrape()
    # No error, and no word about a device that is on its way back.
    assert scrape.unreadable() == set()
    assert scrape.of("rdma_device_present") == {}
    machine.spaces, machine.host = [], [device("mlx5_1", 1, sent=2)]
    assert machine.site.scrape().of("rdma_device_present") == {"mlx5_1": 1}


def test_a_device_that_moves_is_looked_for_again_before_it_is_missed(
    machine: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.host = [device("mlx5_1", 1, sent=2)]
    machine.spaces = [space(7, uid=UID)]
    machine.site.scrape()
    looks: list[int] = []

    def arrives_late(spaces: t.Sequence[Namespace]) -> dict[int, Answer]:
        looks.append(1)
        machine.host = []
        devices = [device("mlx5_1", 1, sent=2)] if len(looks) > 1 else []
        return {7: {"value": {"devices": devices, "netdevs": {}, "unreadable": []}}}

    monkeypatch.setattr(machine, "answers", arrives_late)
    scrape = machine.site.scrape()
    assert scrape.of("rdma_device_present") == {"mlx5_1": 1}
    assert [row["netns"] for row in scrape.labels("rdma_hw_sent_total")] == ["pod"]
    assert len(looks) == 2


def test_a_device_that_is_seen_in_two_places_has_one_series(machine: Node) -> None:
    """It went back to the host between the two looks."""
    machine.host = [device("mlx5_1", 1, sent=3)]
    machine.spaces = [space(7, uid=UID)]
    machine.has(7, device("mlx5_1", 1, sent=2))
    scrape = machine.site.scrape()
    assert scrape.of("rdma_hw_sent_total") == {"mlx5_1": 3}
    assert len(scrape.labels("rdma_hw_sent_total")) == 1


def test_processes_that_cannot_be_looked_at(machine: Node) -> None:
    machine.unreadable = [Unreadable("/proc/7/ns/net", "EACCES"), Unreadable("/proc/8/ns/net", "EACCES")]
    scrape = machine.site.scrape()
    assert scrape.unreadable() == {("", "", "network_namespaces", "EACCES")}
    assert scrape.value("rdma_exporter_scrape_complete") == 0


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
    scrape = Site(tree, netns=False).scrape()
    assert scrape.of("rdma_hw_sent_total") == {"mlx5_0": 1}


def test_the_mode_cannot_be_told(machine: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused() -> nldev.SystemInfo:
        raise nldev.NldevError(errno.EPERM, "read the RDMA subsystem's settings")

    monkeypatch.setattr(nldev, "sys_get", refused)
    machine.host = [device("mlx5_0", 0, sent=1)]
    scrape = machine.site.scrape()
    assert scrape.unreadable() == {("", "", "netns_mode", "EPERM")}
    assert scrape.of("rdma_hw_sent_total") == {"mlx5_0": 1}
    assert scrape.value("rdma_exporter_scrape_complete") == 0
    assert "rdma_netns_mode" not in scrape.types
