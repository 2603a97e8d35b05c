# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Taking network devices back, over a host whose namespaces are given by the test."""

from __future__ import annotations

import errno
import socket
import sys
import types
import typing as t

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils import _command
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._netns.child import failed
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._netns.enter import EnterError
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._netns.survey import Holder, Namespace
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._rdma import pci_netdevs
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._rdma.pci_netdevs import Netdev
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._rdma_devices import netdev
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._rdma_devices.netdev import (
    DeviceError,
    Host,
    Look,
    manage,
)
from ansible_collections.rdmaops.gpu_fabric.tests.support.failures import message_of

CARD, OTHER = "0000:07:00.0", "0000:08:00.0"
LEFT = Namespace(5, "cni-1", [Holder("mount", "/run/netns/cni-1", 1, "systemd", None, None)], 1)
POD = Namespace(6, None, [Holder("process", "/proc/9/ns/net", 9, "pause", None, {"uid": "u"})], 1)


class FakeHost(Host):
    def __init__(self, spaces: list[tuple[Namespace, t.Any]], *here: Netdev, problem: str | None = None) -> None:
        self.spaces, self.own, self.problem = spaces, list(here), problem
        self.taken: list[tuple[int, str, str]] = []
        self.lost = False
        self.former: list[str] = []
        self.immutable = False
        self.renamed: str | None = None
        self.virtual = ["lo", "cni0"]

    def names(self) -> list[str]:
        return [*self.virtual, *(netdev.name for netdev in self.own)]

    def look(self, space: Namespace, netdev: Netdev) -> Look:
        return Look(self.former, self.immutable)

    def here(self) -> list[Netdev]:
        return self.own

    def others(self) -> tuple[list[Namespace], str | None]:
        return [space for space, _rows in self.spaces], self.problem

    def inside(self, spaces: t.Sequence[Namespace]) -> dict[int, t.Any]:
        return {
            space.inode: failed(str(rows), 0) if isinstance(rows, Exception) else {"value": list(rows)}
            for space, rows in self.spaces
        }

    def pods(self) -> dict[str, tuple[str, str]]:
        return {"u": ("ml", "train-0")}

    def take(self, space: Namespace, device: Netdev, name: str) -> None:
        self.taken.append((space.inode, device.name, name))
        next(rows for namespace, rows in self.spaces if namespace is space).remove(device)
        if not self.lost:
            self.own.append(device._replace(name=self.renamed or name))


def params(**given: t.Any) -> dict[str, t.Any]:
    return {"pci_address": CARD, "auxiliary_device": None, "port": 1, "name": None, "disrupt": False, **given}


def test_drill() -> None:
    host = FakeHost([(LEFT, [Netdev("net1", CARD)])], Netdev("eth0", OTHER))
    looked = manage(params(name="rail0"), True, host)
    assert not host.taken
    done = manage(params(name="rail0"), False, host)
    assert host.taken == [(5, "net1", "rail0")]
    assert looked == done
    assert done["changed"]
    assert done["actions"] == ["Take the network device net1 (0000:07:00.0) from netns cni-1 to the host as rail0"]
    assert done["after"] == {"name": "rail0", "netns": "the host"}
    assert (done["resources"][0]["status"], done["resources"][0]["live"]) == ("drift", "netns cni-1")
    for check in (False, True):
        again = manage(params(name="rail0"), check, host)
        assert not again["changed"]
        assert again["resources"][0]["status"] == "in_sync"


def test_it_gets_the_name_that_it_had_on_the_host() -> None:
    host = FakeHost([(LEFT, [Netdev("net1", CARD)])])
    host.former = ["ens7np0", "enp7s0np0"]
    assert manage(params(), False, host)["after"] == {"name": "ens7np0", "netns": "the host"}
    assert host.taken == [(5, "net1", "ens7np0")]


def test_two_cards_that_a_plugin_called_the_same() -> None:
    other = LEFT._replace(inode=7, name="cni-2")
    host = FakeHost([(LEFT, [Netdev("net1", CARD)]), (other, [Netdev("net1", OTHER)])])
    for address, name in ((CARD, "ens7np0"), (OTHER, "ens8np0")):
        host.former = [name]
        assert manage(params(pci_address=address), False, host)["after"]["name"] == name


def test_udev_may_rename_it_at_once() -> None:
    host = FakeHost([(LEFT, [Netdev("net1", CARD)])])
    host.renamed = "rail0"
    assert manage(params(), False, host)["after"]["name"] == "rail0"


def test_a_sub_function_is_found_although_its_function_is_on_the_host() -> None:
    sub = Netdev("net1", CARD, "mlx5_core.sf.4")
    host = FakeHost([(LEFT, [sub])], Netdev("ens7np0", CARD))
    assert not manage(params(), False, host)["changed"]
    done = manage(params(auxiliary_device="mlx5_core.sf.4", name="ens7s4"), False, host)
    assert host.taken == [(5, "net1", "ens7s4")]
    assert (done["changed"], done["resources"][0]["name"]) == (True, "0000:07:00.0/mlx5_core.sf.4")
    assert done["actions"] == [
        "Take the network device net1 (0000:07:00.0/mlx5_core.sf.4) from netns cni-1 to the host as ens7s4"
    ]


def test_the_second_port_is_found_although_the_first_is_on_the_host() -> None:
    host = FakeHost([(LEFT, [Netdev("net1", CARD, port=2)])], Netdev("ens7", CARD))
    assert manage(params(port=2, name="ens7d1"), False, host)["changed"]
    assert host.taken == [(5, "net1", "ens7d1")]


def test_it_keeps_its_name() -> None:
    host = FakeHost([(LEFT, [Netdev("net1", CARD)])])
    assert manage(params(), False, host)["after"]["name"] == "net1"
    assert manage(params(name="rail0"), False, host)["after"]["name"] == "net1", "at home it is not renamed"


# the host, what is said
REFUSALS = [
    (
        FakeHost([(POD, [Netdev("net1", CARD)])]),
        "Taking the network device net1 (0000:07:00.0) back to the host: pod ml/train-0 is running and has it. Delete "
        "that pod, or set disrupt to true",
    ),
    (
        FakeHost([(LEFT, [Netdev("net1", CARD)])], Netdev("net1", OTHER)),
        "Taking the network device net1 (0000:07:00.0) back to the host as net1: the host already has a network device of "
        "that name. Choose another one (name)",
    ),
    (
        FakeHost([(LEFT, [Netdev("cni0", CARD)])]),
        "Taking the network device cni0 (0000:07:00.0) back to the host as cni0: the host already has a network device of "
        "that name. Choose another one (name)",
    ),
    (
        FakeHost([], Netdev("eth0", OTHER)),
        "No network device of this host is 0000:07:00.0. The host's own namespace has: 0000:08:00.0 (eth0)",
    ),
    (
        FakeHost([(LEFT, [Netdev("net1", CARD, "mlx5_core.sf.4"), Netdev("net2", CARD, port=2)])]),
        "No network device of this host is 0000:07:00.0. The host's own namespace has: none. Other namespaces have, at "
        "this PCI address: 0000:07:00.0/mlx5_core.sf.4 (net1), 0000:07:00.0 port 2 (net2)",
    ),
    (
        FakeHost([(LEFT, [Netdev("net1", CARD), Netdev("net2", CARD)])]),
        "Several network devices are 0000:07:00.0, and nothing tells them apart: net1, net2. Move one with "
        "'ip link set netns'",
    ),
    (
        FakeHost([(LEFT, EnterError("Could not open it"))]),
        "No network device of this host is 0000:07:00.0. The host's own namespace has: none. It may be in a namespace "
        "that was not searched: Could not open it",
    ),
]


@pytest.mark.parametrize(("host", "text"), REFUSALS)
def test_refusals_change_nothing(host: FakeHost, text: str) -> None:
    assert message_of(DeviceError, manage, params(), False, host) == text
    assert not host.taken


@pytest.mark.parametrize("check", [False, True])
@pytest.mark.parametrize("name", [None, "rail0"])
def test_a_device_that_the_kernel_keeps_is_not_taken(name: str | None, check: bool) -> None:
    host = FakeHost([(LEFT, [Netdev("net1", CARD)])])
    host.immutable = True
    assert message_of(DeviceError, manage, params(name=name), check, host) == (
        "Taking the network device net1 (0000:07:00.0) back to the host: the kernel keeps it in its network namespace "
        "(netns-immutable). mlx5 does so in switchdev mode: set the card to legacy mode in that namespace ('devlink dev "
        "eswitch set')"
    )
    assert not host.taken


def test_consent_takes_it_from_a_pod() -> None:
    host = FakeHost([(POD, [Netdev("net1", CARD)])])
    assert manage(params(disrupt=True), False, host)["netns"] == "pod ml/train-0"


def test_the_result_is_proven() -> None:
    host = FakeHost([(LEFT, [Netdev("net1", CARD)])])
    host.lost = True
    with pytest.raises(DeviceError, match="No network device of this host"):
        manage(params(), False, host)


# --- rtnetlink ---


class Refused(Exception):
    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class Route:
    """Stands in for pyroute2's IPRoute."""

    sent: t.ClassVar[list[tuple[str, dict[str, t.Any]]]] = []
    ran: t.ClassVar[list[t.Sequence[str]]] = []
    code = 0

    def __enter__(self) -> Route:
        return self

    def __exit__(self, *_exception: object) -> None:
        pass

    def link(self, command: str, **attributes: t.Any) -> None:
        Route.sent.append((command, attributes))
        if Route.code:
            raise Refused(Route.code)


@pytest.fixture
def route(monkeypatch: pytest.MonkeyPatch) -> type[Route]:
    monkeypatch.setitem(sys.modules, "pyroute2", types.SimpleNamespace(IPRoute=Route))
    monkeypatch.setitem(sys.modules, "pyroute2.netlink", types.SimpleNamespace())
    monkeypatch.setitem(sys.modules, "pyroute2.netlink.exceptions", types.SimpleNamespace(NetlinkError=Refused))
    monkeypatch.setattr(Route, "sent", [])
    monkeypatch.setattr(Route, "ran", [])
    monkeypatch.setattr(_command, "run", lambda argv, _timeout: Route.ran.append(argv))
    monkeypatch.setattr(socket, "if_nametoindex", {"net1": 7}.__getitem__)
    monkeypatch.setattr(pci_netdevs, "netdevs", lambda: [Netdev("net1", CARD)])
    return Route


def test_the_device_is_moved_by_its_index(route: type[Route]) -> None:
    assert netdev._move(Netdev("net1", CARD), 5, "rail0") == ""
    assert route.sent == [("set", {"index": 7, "net_ns_fd": 5, "ifname": "rail0"})]
    assert route.ran == [["ip", "link", "property", "del", "dev", "net1", "altname", "rail0"]]


def test_the_kernel_refuses(route: type[Route], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(route, "code", errno.EEXIST)
    assert netdev._move(Netdev("net1", CARD), 5, "rail0") == "the kernel refused to move or rename it: File exists"


@pytest.mark.parametrize("rows", [[], [Netdev("net1", OTHER)]], ids=["gone", "another card"])
def test_another_device_is_not_moved(route: type[Route], monkeypatch: pytest.MonkeyPatch, rows: list[Netdev]) -> None:
    monkeypatch.setattr(pci_netdevs, "netdevs", lambda: rows)
    text = "it is no longer in its network namespace under that name. Run again"
    assert netdev._move(Netdev("net1", CARD), 5, "rail0") == text
    assert route.sent == []


class WithoutPyroute2(FakeHost):
    take = Host.take


@pytest.fixture
def without_pyroute2(monkeypatch: pytest.MonkeyPatch) -> WithoutPyroute2:
    monkeypatch.setitem(sys.modules, "pyroute2", None)
    monkeypatch.setitem(sys.modules, "pyroute2.netlink.exceptions", None)
    return WithoutPyroute2([(LEFT, [Netdev("net1", CARD)])])


def test_check_mode_does_not_need_pyroute2(without_pyroute2: WithoutPyroute2) -> None:
    assert manage(params(name="rail0"), True, without_pyroute2)["actions"] == [
        "Take the network device net1 (0000:07:00.0) from netns cni-1 to the host as rail0"
    ]


def test_without_pyroute2_nothing_is_moved(without_pyroute2: WithoutPyroute2) -> None:
    message = message_of(DeviceError, manage, params(name="rail0"), False, without_pyroute2)
    assert message.startswith(
        "Taking the network device net1 (0000:07:00.0) back to the host as rail0: Failed to import the required Python "
        "library (pyroute2) on "
    )
    assert message.endswith(
        "The package is python3-pyroute2; the role gpu_node installs it with gpu_node_return_stranded_ok=true"
    )
