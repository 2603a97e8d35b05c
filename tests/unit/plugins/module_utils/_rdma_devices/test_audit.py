# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which RDMA devices are stranded, over a host that is given by the test."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._netns.child import failed
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._netns.enter import EnterError
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._netns.survey import Holder, Namespace
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._rdma.pci_netdevs import Netdev
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._rdma_devices.audit import AuditHost, Card, audit

HOST, BLUE, POD = 4026531833, 4026532270, 4026532271
UID = "0b5e3a4e-8f0c-4b0e-9a34-4f6f2f4a1c11"
MOUNT = Holder("mount", "/run/netns/blue", 1, "systemd", None, None)
PAUSE = Holder("process", "/proc/9/ns/net", 9, "pause", None, {"uid": UID})
SLEEP = Holder("process", "/proc/7/ns/net", 7, "sleep 99", None, None)
SOCKET = Holder("socket", "/proc/8/fd/3", 8, "dhclient", "dhclient.service", None)


def rows(*names: str) -> dict[str, t.Any]:
    devices = [{"name": name, "index": int(name[-1]), "driver": "mlx5_ib", "ports": []} for name in names]
    return {"devices": devices, "unreadable": []}


def blue(*holders: Holder, name: str | None = "blue", more: int = 0) -> Namespace:
    return Namespace(BLUE, name, list(holders), len(holders) + more)


class FakeHost(AuditHost):
    """Namespaces and what is in them, look by look; the last look stays."""

    def __init__(self, *looks: list[tuple[Namespace, t.Any]], mode: str | None = "exclusive") -> None:
        super().__init__()
        self.looks = list(looks) or [[]]
        self.mode = mode
        self.problem: str | None = None
        self.waited: list[int] = []
        self.netdevs: list[Card] = []
        self.of_pods: dict[str, list[str]] = {}

    def claims(self) -> dict[str, list[str]]:
        return self.of_pods

    def system(self) -> tuple[bool, str | None]:
        return True, self.mode

    def own(self) -> int:
        return HOST

    def initial(self) -> int | None:
        return HOST

    def look(self, gather: t.Collection[str]) -> dict[str, t.Any]:
        self.cards = list(self.netdevs)
        return rows("mlx5_9")

    def netns_capable_drivers(self) -> set[str] | None:
        return set()

    def other_namespaces(self) -> tuple[list[Namespace], str | None]:
        self.spaces = {space.inode: space for space, _found in self.looks[0]}
        return list(self.spaces.values()), self.problem

    def look_inside(self, spaces: t.Sequence[Namespace], gather: t.Collection[str]) -> dict[int, t.Any]:
        return {
            space.inode: failed(str(answer), 0) if isinstance(answer, Exception) else {"value": answer}
            for space, answer in self.looks[0]
        }

    def pods(self) -> dict[str, tuple[str, str]]:
        return {UID: ("ml", "train-0")}

    def wait(self, seconds: int) -> None:
        self.waited.append(seconds)
        del self.looks[:-1]


def judged(host: FakeHost, *expected: str) -> list[tuple[t.Any, ...]]:
    rows = audit(expected, 30, host)["resources"]
    assert {row["desired"] for row in rows} == {"the host, or a running pod"}
    assert {row["kind"] for row in rows if row["name"].startswith("mlx5")} == {"rdma_device"}
    return [(row["name"], row["status"], row["live"], row["why"]) for row in rows]


AT_HOME = ("mlx5_9", "in_sync", "the host", None)


def test_the_host_and_a_pod_may_have_a_device() -> None:
    pod = Namespace(POD, "cni-1", [PAUSE], 1)
    host = FakeHost([(pod, rows("mlx5_0"))])
    assert judged(host) == [("mlx5_0", "in_sync", "pod ml/train-0", None), AT_HOME]
    assert host.waited == []


def test_the_claim_by_which_a_pod_has_a_device_is_named() -> None:
    host = FakeHost([(Namespace(POD, "cni-1", [PAUSE], 1), rows("mlx5_0"))])
    host.of_pods = {UID: ["ml/train-0-rail0-x7k2p", "ml/train-0-gpu-4hk9q"], "other": ["ml/other"]}
    live = "pod ml/train-0, by the claim ml/train-0-rail0-x7k2p, ml/train-0-gpu-4hk9q"
    assert judged(host) == [("mlx5_0", "in_sync", live, None), AT_HOME]


@pytest.mark.parametrize(
    ("space", "live"),
    [
        (blue(MOUNT), "netns blue, held by /run/netns/blue"),
        (blue(SLEEP, SOCKET, name=None), "net:[4026532270], held by process 7 (sleep 99), process 8 (dhclient)"),
        (blue(MOUNT, SLEEP, SOCKET, more=2), "netns blue, held by /run/netns/blue, process 7 (sleep 99), process 8 (dhclient) and 2 more"),
        (blue(SOCKET, SOCKET), "netns blue, held by process 8 (dhclient)"),
    ],
)  # fmt: skip
def test_a_device_that_neither_has_is_stranded(space: Namespace, live: str) -> None:
    host = FakeHost([(space, rows("mlx5_0"))])
    assert judged(host) == [("mlx5_0", "drift", live, None), AT_HOME]
    assert host.waited == [30]


def test_a_pod_that_begins_or_ends_is_no_drift() -> None:
    pod = Namespace(BLUE, "cni-1", [PAUSE], 1)
    begins = FakeHost([(blue(MOUNT), rows("mlx5_0"))], [(pod, rows("mlx5_0"))])
    assert judged(begins) == [("mlx5_0", "in_sync", "pod ml/train-0", None), AT_HOME]
    ends = FakeHost([(blue(MOUNT), rows("mlx5_0"))], [])
    assert judged(ends) == [AT_HOME]


def test_a_device_that_moves_meanwhile_is_unknown() -> None:
    other = Namespace(POD, "red", [MOUNT], 1)
    host = FakeHost([(blue(MOUNT), rows("mlx5_0"))], [(other, rows("mlx5_0"))])
    assert judged(host)[0] == (
        "mlx5_0", "unknown", "netns red, held by /run/netns/blue", "it is being moved between network namespaces",
    )  # fmt: skip


def test_network_devices_of_cards_are_found_by_their_address() -> None:
    pod = Namespace(POD, "cni-1", [PAUSE], 1)
    host = FakeHost([(pod, rows()), (blue(MOUNT), rows())])
    host.netdevs = [
        Card(Netdev("eth0", "0000:01:00.0"), HOST),
        Card(Netdev("net1", "0000:02:00.0"), POD),
        Card(Netdev("net1", "0000:03:00.0"), BLUE),
    ]
    assert judged(host, "0000:03:00.0", "0000:04:00.0") == [
        AT_HOME,
        ("0000:01:00.0", "in_sync", "eth0 on the host", None),
        ("0000:02:00.0", "in_sync", "net1 in pod ml/train-0", None),
        ("0000:03:00.0", "drift", "net1 in netns blue, held by /run/netns/blue", None),
        ("0000:04:00.0", "drift", "nowhere", None),
    ]
    assert host.waited == [30]


def test_a_function_is_not_its_sub_function_or_its_other_port() -> None:
    """A stranded sub-function, and a stranded port of a card with two on one PCI address: all else is where it belongs."""
    host = FakeHost([(blue(MOUNT), rows())])
    host.netdevs = [
        Card(Netdev("ens1f0", "0000:01:00.0"), HOST),
        Card(Netdev("net1", "0000:01:00.0", "mlx5_core.sf.4"), BLUE),
        Card(Netdev("ens2", "0000:02:00.0"), HOST),
        Card(Netdev("net2", "0000:02:00.0", port=2), BLUE),
    ]
    where = "in netns blue, held by /run/netns/blue"
    assert judged(host, "0000:01:00.0", "0000:01:00.0/mlx5_core.sf.4", "0000:01:00.0/mlx5_core.sf.5") == [
        AT_HOME,
        ("0000:01:00.0", "in_sync", "ens1f0 on the host", None),
        ("0000:01:00.0/mlx5_core.sf.4", "drift", "net1 " + where, None),
        ("0000:02:00.0", "in_sync", "ens2 on the host", None),
        ("0000:02:00.0 port 2", "drift", "net2 " + where, None),
        ("0000:01:00.0/mlx5_core.sf.5", "drift", "nowhere", None),
    ]
    drifted = [row for row in audit([], 0, host)["resources"] if row["status"] == "drift"]
    assert [(row["pci_address"], row["auxiliary_device"], row["port"]) for row in drifted] == [
        ("0000:01:00.0", "mlx5_core.sf.4", 1),
        ("0000:02:00.0", None, 2),
    ]


def test_one_name_in_two_namespaces() -> None:
    """From Linux 7.3 on, a name is unique in its namespace only."""
    inside = rows("mlx5_9")
    inside["devices"][0].update(index=4, node_guid="b8ce:f603:00aa:0001")
    host = FakeHost([(blue(MOUNT), inside)])
    assert judged(host) == [("mlx5_9", "drift", "netns blue, held by /run/netns/blue", None), AT_HOME]
    assert audit([], 0, host)["resources"][0]["node_guid"] == "b8ce:f603:00aa:0001"


def test_a_device_is_expected_by_its_guid_or_address_too() -> None:
    host = FakeHost()
    own = rows("mlx5_9")
    own["devices"][0].update(node_guid="b8ce:f603:00aa:0001", pci_address="0000:07:00.0")
    host.look = lambda gather: own  # type: ignore[method-assign]
    assert judged(host, "b8ce:f603:00aa:0001", "0000:07:00.0") == [AT_HOME]


def test_what_is_expected_and_nowhere() -> None:
    assert judged(FakeHost(), "mlx5_9", "mlx5_0") == [AT_HOME, ("mlx5_0", "drift", "nowhere", None)]


def test_what_cannot_be_looked_into_is_unknown() -> None:
    host = FakeHost([(blue(MOUNT), EnterError("Could not open it"))])
    host.problem = "Could not look everywhere"
    assert judged(host, "mlx5_0") == [
        AT_HOME,
        ("network namespaces", "unknown", None, "network namespaces: Could not look everywhere"),
        ("blue", "unknown", None, "network namespace: Could not open it"),
        ("mlx5_0", "unknown", None, "not all network namespaces could be looked at"),
    ]


@pytest.mark.parametrize("mode", ["shared", None])
def test_in_shared_mode_nothing_can_be_stranded(mode: str | None) -> None:
    host = FakeHost([(blue(MOUNT), rows("mlx5_0"))], mode=mode)
    assert judged(host) == [AT_HOME]
    # A container sees what the host has.
    host.own = lambda: BLUE  # type: ignore[method-assign]
    assert judged(host) == [AT_HOME]


def test_a_whole_result() -> None:
    row: dict[str, t.Any] = {
        "kind": "rdma_device",
        "name": "mlx5_9",
        "status": "in_sync",
        "desired": "the host, or a running pod",
    }
    row.update(configured=None, live="the host", next_boot=None, why=None, node_guid=None)
    assert audit([], 0, FakeHost()) == {"netns_mode": "exclusive", "resources": [row]}
