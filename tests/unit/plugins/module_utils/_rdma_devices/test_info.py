# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""All namespaces put together, over a host that is given by the test."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._netns import walk
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._netns.child import attempt
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._netns.enter import EnterError
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._netns.survey import Holder, Namespace
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._rdma.addresses import address_of
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._rdma_devices.info import Host, gather_info

HOST, BLUE, POD = 4026531833, 4026532270, 4026532271
UID = "0b5e3a4e-8f0c-4b0e-9a34-4f6f2f4a1c11"
BLUE_SPACE = Namespace(BLUE, "blue", [Holder("mount", "/run/netns/blue", 1, "systemd", None, None)], 1)
# As a pod sees it that has /run/netns of the host, such as thick Multus and dranet: that pod is not in the namespace.
MOUNT = Holder("mount", "/run/netns/cni-1", 5, "dranet", None, {"uid": "of-dranet"})
PAUSE = Holder("process", "/proc/9/ns/net", 9, "pause", None, {"uid": UID})
OWN = [address_of("fe80::42:acff:fe11:2"), address_of("::ffff:10.90.0.1")]
POD_SPACE = Namespace(POD, "cni-1", [MOUNT, PAUSE], 2)


def row(name: str, index: int, driver: str | None = "mlx5_ib") -> dict[str, t.Any]:
    return {"name": name, "index": index, "driver": driver, "ports": []}


class FakeHost(Host):
    def __init__(self, mode: str | None = "exclusive", loaded: bool = True) -> None:
        self.known = (loaded, mode)
        self.here: dict[str, t.Any] = {"devices": [row("mlx5_2", 2)], "unreadable": []}
        self.inside: dict[int, t.Any] = {
            BLUE: {"devices": [row("mlx5_1", 1, None)], "unreadable": []},
            POD: {"devices": [row("mlx5_0", 0)], "unreadable": [{"device": "mlx5_0", "what": "x", "error": "EIO"}]},
        }
        self.problem: str | None = None
        self.logs = {UID: ("ml", "train-0")}

    def system(self) -> tuple[bool, str | None]:
        return self.known

    def own(self) -> int:
        return HOST

    def initial(self) -> int | None:
        return HOST

    def look(self, gather: t.Collection[str]) -> dict[str, t.Any]:
        return self.here

    def netns_capable_drivers(self) -> set[str] | None:
        return {"mlx5_ib"}

    def look_in_pod(self, pod: str, gather: t.Collection[str]) -> dict[str, t.Any]:
        return {**self.inside[POD], "inode": POD, "uid": UID, "gids": {"eth0": [], "lo": ["::1"], "net1": OWN}}

    def other_namespaces(self) -> tuple[list[Namespace], str | None]:
        return [BLUE_SPACE, POD_SPACE], self.problem

    def look_inside(self, spaces: t.Sequence[Namespace], gather: t.Collection[str]) -> dict[int, t.Any]:
        return {space.inode: attempt(lambda: self._inside(space)) for space in spaces}  # noqa: B023

    def _inside(self, space: Namespace) -> t.Any:
        if isinstance(self.inside[space.inode], Exception):
            raise self.inside[space.inode]
        return self.inside[space.inode]

    def pods(self) -> dict[str, tuple[str, str]]:
        return self.logs

    def claims(self) -> dict[str, list[str]]:
        return {UID: ["ml/train-0-rail0-x7k2p"], "other": ["ml/other"]}


def test_all_namespaces() -> None:
    result = gather_info(["gids"], True, FakeHost())
    assert result["netns_mode"] == "exclusive"
    pod = {"namespace": "ml", "name": "train-0", "uid": UID, "claims": ["ml/train-0-rail0-x7k2p"]}
    assert [(device["name"], device["netns"], device["pod"]) for device in result["devices"]] == [
        ("mlx5_0", {"inode": POD, "name": "cni-1", "initial": False}, pod),
        ("mlx5_1", {"inode": BLUE, "name": "blue", "initial": False}, None),
        ("mlx5_2", {"inode": HOST, "name": None, "initial": True}, None),
    ]
    assert [(device["can_change_netns"], device["can_change_netns_source"]) for device in result["devices"]] == [
        (True, "it is in another network namespace than the host's"),
        (True, "it is in another network namespace than the host's"),
        (True, "mlx5_ib has disassociate_ucontext (/proc/kallsyms)"),
    ]
    assert result["unreadable"] == [
        {"device": "mlx5_0", "what": "x", "error": "EIO", "netns": {"inode": POD, "name": "cni-1"}}
    ]


def test_a_pod_without_a_log_has_its_uid() -> None:
    host = FakeHost()
    host.logs = {}
    pod = gather_info([], True, host)["devices"][0]["pod"]
    assert (pod["namespace"], pod["name"], pod["uid"]) == (None, None, UID)


@pytest.mark.parametrize("mode", ["shared", None])
def test_shared_devices_are_the_hosts(mode: str | None) -> None:
    result = gather_info([], True, FakeHost(mode))
    assert [device["name"] for device in result["devices"]] == ["mlx5_2"]
    assert result["devices"][0]["netns"]["initial"]


def test_only_the_own_namespace_unless_asked() -> None:
    assert [device["name"] for device in gather_info([], False, FakeHost())["devices"]] == ["mlx5_2"]


def test_what_nobody_could_look_into_is_told() -> None:
    host = FakeHost()
    host.problem = "Could not look for network namespaces everywhere"
    host.inside[BLUE] = EnterError("Could not open the network namespace blue: its holder is gone")
    result = gather_info([], True, host)
    assert [device["name"] for device in result["devices"]] == ["mlx5_0", "mlx5_2"]
    blue = {"inode": BLUE, "name": "blue"}
    assert result["unreadable"][:2] == [
        {"device": None, "what": "network namespaces", "error": host.problem, "netns": None},
        {"device": None, "what": "network namespace", "error": str(host.inside[BLUE]), "netns": blue},
    ]


def test_what_no_time_was_left_for_is_one_line() -> None:
    host = FakeHost()
    host.inside[BLUE] = host.inside[POD] = TimeoutError(walk.NOT_REACHED)
    error = "No time was left to look into 2 of 2 network namespaces: blue, cni-1"
    row = {"device": None, "what": "network namespaces", "error": error, "netns": None}
    assert gather_info([], True, host)["unreadable"] == [row]


def test_without_ib_core_there_is_nothing() -> None:
    assert gather_info([], True, FakeHost(None, loaded=False)) == {"netns_mode": None, "devices": [], "unreadable": []}


# --- in a pod


def gid(index: int, netdev: str | None, text: str = "") -> dict[str, t.Any]:
    text = text or "0000:0000:0000:0000:0000:ffff:0a5a:0001"
    return {"index": index, "gid": text, "type": "RoCE v2", "netdev": netdev, "ipv4": None}


def port(number: int, netdev: str | None, gids: t.Any, link_layer: str = "Ethernet") -> dict[str, t.Any]:
    return {"port": number, "netdev": netdev, "link_layer": link_layer, "gids": gids}


def test_a_pod_in_exclusive_mode_has_what_is_in_its_namespace() -> None:
    result = gather_info([], False, FakeHost(), "ml/train-0")
    (device,) = result["devices"]
    pod = {"namespace": "ml", "name": "train-0", "uid": UID, "claims": ["ml/train-0-rail0-x7k2p"]}
    assert (device["name"], device["pod"]) == ("mlx5_0", pod)
    assert device["netns"] == {"inode": POD, "name": None, "initial": False}
    assert device["can_change_netns"] is True
    assert result["unreadable"] == [
        {"device": "mlx5_0", "what": "x", "error": "EIO", "netns": {"inode": POD, "name": None}}
    ]


def test_a_pod_in_shared_mode_has_the_ports_and_gids_of_its_own_network_devices() -> None:
    host = FakeHost("shared")
    ports = [port(1, None, [gid(0, "ens1"), gid(4, "net1")]), port(2, "ens2", [gid(0, "ens2")]), port(3, "net1", [])]
    infiniband = [port(1, None, [gid(0, None)], "InfiniBand")]
    host.inside[POD]["devices"] = [
        {**row("mlx5_0", 0), "ports": ports},
        {**row("mlx5_1", 1), "ports": [port(1, "ens3", [gid(3, "ens3")])]},
        {**row("mlx5_2", 2), "ports": infiniband},
    ]
    result = gather_info(["gids"], False, host, "ml/train-0")["devices"]
    assert [(device["name"], [entry["port"] for entry in device["ports"]]) for device in result] == [
        ("mlx5_0", [1, 3]),
        ("mlx5_2", [1]),
    ]
    assert [entry["index"] for entry in result[0]["ports"][0]["gids"]] == [4]
    assert result[1]["ports"] == infiniband


def test_a_pod_does_not_have_the_gids_of_another_pods_network_device_of_that_name() -> None:
    """The kernel prints names of network devices without their namespace (print_ndev() in drivers/infiniband/core/sysfs.c)."""
    host = FakeHost("shared")
    own, local = gid(4, "net1"), gid(5, "net1", "fe80:0000:0000:0000:0042:acff:fe11:0002")
    others = [gid(6, "net1", "0000:0000:0000:0000:0000:ffff:0a5a:0002"), gid(7, "net1", "fe80::42:acff:fe11:3")]
    host.inside[POD]["devices"] = [
        {**row("mlx5_0", 0), "ports": [port(1, None, [own, local, *others])]},
        {**row("mlx5_1", 1), "ports": [port(1, None, others)]},
    ]
    (device,) = gather_info(["gids"], False, host, "ml/train-0")["devices"]
    assert [entry["index"] for entry in device["ports"][0]["gids"]] == [4, 5]


def test_a_pod_with_the_hosts_network(monkeypatch: pytest.MonkeyPatch) -> None:
    host = FakeHost()
    look = {**host.here, "inode": HOST, "uid": UID, "gids": {}}
    monkeypatch.setattr(host, "look_in_pod", lambda pod, gather: look)
    (device,) = gather_info([], False, host, "ml/train-0")["devices"]
    assert (device["netns"]["initial"], device["name"]) == (True, "mlx5_2")
