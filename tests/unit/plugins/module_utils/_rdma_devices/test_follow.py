# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which RDMA device follows which network device, over a host that is given by the test."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._netns.survey import Holder, Namespace
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._rdma.pci_netdevs import Function, Netdev
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._rdma_devices import follow

ADDRESS, OTHER_ADDRESS = "0000:07:00.0", "0000:08:00.0"
CARD, OTHER = Function(ADDRESS), Function(OTHER_ADDRESS)
SUB = Function(ADDRESS, "mlx5_core.sf.4")
PROCESS = Holder("process", "/proc/7/ns/net", 7, "", None, None)
SPACE = Namespace(5, "cni-1", [PROCESS, Holder("mount", "/run/netns/cni-1", 1, "", None, None)], 2)
OTHER_SPACE = Namespace(6, None, [Holder("process", "/proc/9/ns/net", 9, "", None, None)], 1)
POD = follow.Place(SPACE, "net1", ())
RXE = follow.Link("rxe0", "rxe", ADDRESS)


class FakeHost(follow.Host):
    def __init__(
        self,
        devices: list[follow.Device],
        netdevs: list[Netdev],
        places: dict[Function, list[follow.Place]] | None = None,
    ) -> None:
        self.known, self.cards, self.there = devices, netdevs, places or {}
        self.looks: list[set[Function]] = []
        self.done: list[follow.Step] = []
        self.error: OSError | None = None
        self.problem: str | None = None

    def devices(self) -> list[follow.Device]:
        return self.known

    def netdevs(self) -> list[Netdev]:
        return self.cards

    def places(self, functions: t.Collection[Function]) -> tuple[dict[Function, list[follow.Place]], str | None]:
        self.looks.append(set(functions))
        return {function: rows for function, rows in self.there.items() if function in functions}, self.problem

    def carry_out(self, step: follow.Step) -> None:
        if self.error:
            raise self.error
        self.done.append(step)


def follower(host: FakeHost, *links: follow.Link, **names: list[str]) -> tuple[follow.Follower, list[str]]:
    reports: list[str] = []
    return follow.Follower(links, names.get("include", []), names.get("exclude", []), host, reports.append), reports


def test_a_device_goes_where_its_network_device_went() -> None:
    host = FakeHost(
        [follow.Device("mlx5_0", CARD), follow.Device("mlx5_1", OTHER)], [Netdev("eth2", OTHER_ADDRESS)], {CARD: [POD]}
    )
    program, reports = follower(host)
    assert program.once()
    assert host.done == [follow.Step("mlx5_0", None, "net1", POD)]
    assert reports == ["mlx5_0 is with net1 in /run/netns/cni-1"]
    assert host.looks == [{CARD}], "only what is missing is looked for"


def test_nothing_is_looked_for_while_all_is_here() -> None:
    host = FakeHost([follow.Device("mlx5_0", CARD)], [Netdev("eth1", ADDRESS)])
    program, reports = follower(host)
    assert program.once()
    assert (host.done, host.looks, reports) == ([], [], [])


@pytest.mark.parametrize(
    "host",
    [FakeHost([], [], {CARD: [POD]}), FakeHost([follow.Device("siw0", None)], [])],
    ids=["away with its network device", "without a PCI address"],
)
def test_a_device_that_needs_nothing(host: FakeHost) -> None:
    program, _reports = follower(host)
    assert program.once()
    assert (host.looks, host.done) == ([], [])


@pytest.mark.parametrize(
    ("names", "moved"),
    [({"include": ["mlx5_1"]}, []), ({"exclude": ["mlx5_0"]}, []), ({"include": ["mlx5_0"]}, ["mlx5_0"])],
)
def test_devices_can_be_left_out(names: dict[str, list[str]], moved: list[str]) -> None:
    host = FakeHost([follow.Device("mlx5_0", CARD)], [], {CARD: [POD]})
    program, _reports = follower(host, **names)
    program.once()
    assert [step.device for step in host.done] == moved


def test_it_waits_for_a_network_device_that_is_nowhere_and_says_so_once() -> None:
    host = FakeHost([follow.Device("mlx5_0", CARD)], [])
    program, reports = follower(host)
    assert not program.once()
    assert not program.once()
    assert reports == ["mlx5_0: the network device of 0000:07:00.0 is in no network namespace that could be seen"]
    host.there = {CARD: [POD]}
    assert program.once()
    assert reports[1:] == ["mlx5_0 is with net1 in /run/netns/cni-1"]


def test_it_says_that_it_could_not_look_everywhere() -> None:
    host = FakeHost([follow.Device("mlx5_0", CARD)], [])
    host.problem = "No time was left to look into 2 of 500 network namespaces: net:[7], net:[8]"
    program, reports = follower(host)
    assert not program.once()
    assert reports == [
        "mlx5_0: the network device of 0000:07:00.0 is in no network namespace that could be seen. " + host.problem
    ]


def test_network_devices_in_two_places_leave_it_where_it_is() -> None:
    """As of a card with two ports and one RDMA device, such as ConnectX-3."""
    host = FakeHost([follow.Device("mlx4_0", CARD)], [], {CARD: [POD, follow.Place(OTHER_SPACE, "net1", ())]})
    program, reports = follower(host)
    assert not program.once()
    assert host.done == []
    assert reports == [
        "mlx4_0: the network devices of 0000:07:00.0 are in several network namespaces (/proc/9/ns/net, /run/netns/cni-1), "
        "but it can be in only one"
    ]


def test_two_ports_in_one_place_are_one_place() -> None:
    host = FakeHost([follow.Device("mlx4_0", CARD)], [], {CARD: [POD, POD._replace(netdev="net2")]})
    program, _reports = follower(host)
    assert program.once()
    assert [step.device for step in host.done] == ["mlx4_0"]


def test_a_sub_function_goes_where_its_own_network_device_went() -> None:
    """The PCI address is that of its function, whose network device is with the host."""
    devices = [follow.Device("mlx5_0", CARD), follow.Device("mlx5_2", SUB)]
    host = FakeHost(devices, [Netdev("ens7np0", ADDRESS)], {SUB: [POD]})
    program, reports = follower(host)
    assert program.once()
    assert host.looks == [{SUB}]
    assert reports == ["mlx5_2 is with net1 in /run/netns/cni-1"]


def test_one_port_of_two_in_a_pod_leaves_the_device_where_it_is() -> None:
    """ConnectX-3: one device for both ports."""
    devices = [follow.Device("mlx4_0", CARD, incomplete=True)]
    host = FakeHost(devices, [Netdev("ens7", ADDRESS)], {CARD: [POD]})
    program, reports = follower(host)
    assert not program.once()
    assert reports == [
        "mlx4_0: the network devices of 0000:07:00.0 are in several network namespaces (/run/netns/cni-1, the host), but it "
        "can be in only one"
    ]


def test_a_port_without_network_device_is_nothing_to_wait_for() -> None:
    host = FakeHost([follow.Device("mlx4_0", CARD, incomplete=True)], [Netdev("ens7", ADDRESS)])
    program, reports = follower(host)
    assert program.once()
    assert (host.done, reports) == ([], [])


def test_an_infiniband_device_does_not_replace_the_pods_ipoib() -> None:
    host = FakeHost([follow.Device("mlx5_0", CARD)], [], {CARD: [POD._replace(infiniband=True)]})
    program, reports = follower(host)
    assert not program.once()
    assert host.done == []
    assert reports == [
        "mlx5_0: its IPoIB network device net1 is in /run/netns/cni-1, and it is not moved there: the kernel would replace "
        "that network device by a new one without addresses. Use the network plugin ib-sriov with rdmaIsolation, which "
        "moves the RDMA device first"
    ]


@pytest.mark.parametrize("name", ["mlx5_0", "b8ce:f603:00aa:0001", ADDRESS])
def test_a_device_is_left_out_under_any_name(name: str) -> None:
    """From Linux 7.3 on, a device may come back from a pod as ibdevN."""
    devices = [follow.Device("mlx5_0", CARD, "b8ce:f603:00aa:0001"), follow.Device("mlx5_1", OTHER)]
    assert follow.members(devices, [], [], [name]) == {"mlx5_1": OTHER}
    assert follow.members(devices, [], [name], []) == {"mlx5_0": CARD}


def test_a_software_link_is_made_in_the_pod_and_again_on_the_host() -> None:
    host = FakeHost([], [], {CARD: [POD]})
    program, _reports = follower(host, RXE)
    assert program.once()
    assert host.done == [follow.Step("rxe0", RXE, "net1", POD)]
    host.there = {CARD: [POD._replace(devices=("rxe0",))]}
    assert program.once()
    assert len(host.done) == 1
    host.there, host.cards = {}, [Netdev("rail0", ADDRESS)]
    assert program.once()
    assert host.done[1:] == [follow.Step("rxe0", RXE, "rail0", None)]
    host.known = [follow.Device("rxe0", None)]
    assert program.once()
    assert len(host.done) == 2


def test_a_link_that_was_made_and_not_moved_is_moved() -> None:
    """It is born in the host's namespace, and this program may have been ended in between."""
    host = FakeHost([follow.Device("rxe0", None)], [], {CARD: [POD]})
    program, _reports = follower(host, RXE)
    assert program.once()
    assert host.done == [follow.Step("rxe0", None, "net1", POD)]


def test_what_fails_is_said_once_and_tried_again() -> None:
    host = FakeHost([follow.Device("mlx5_0", CARD)], [], {CARD: [POD]})
    host.error = OSError("in use by ib_write_bw (PID 7)")
    program, reports = follower(host)
    assert not program.once()
    assert not program.once()
    assert reports == ["in use by ib_write_bw (PID 7)"]
    host.error = None
    assert program.once()
    assert reports[1:] == ["mlx5_0 is with net1 in /run/netns/cni-1"]


def test_the_modules_get_all_their_parameters() -> None:
    target = {"netns": "/run/netns/x", "pid": None, "container": None, "pod": None}
    params = follow._params("mlx5_0", "attached", netns="/run/netns/x")
    assert params == {"name": "mlx5_0", "state": "attached", "disrupt": False, **target}
