# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Software links, over the host of the tests of devices."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._rdma_devices.link import Host, LinkError, manage
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._rdma_devices.move import DeviceError
from ansible_collections.rdmaops.gpu_fabric.tests.support.failures import message_of
from ansible_collections.rdmaops.gpu_fabric.tests.unit.plugins.module_utils._rdma_devices import test_move as devices

HOST, BLUE = devices.HOST, devices.BLUE


class FakeHost(devices.FakeHost, Host):
    def __init__(self, places: dict[int, list[devices.Row]], mode: str | None = "exclusive") -> None:
        super().__init__(places, mode)
        self.cards = {HOST: ["eth1", "lo"], BLUE: ["net1"]}
        self.held = []

    def netdevs(self, handle: int) -> list[str]:
        return self.cards[handle]

    def add(self, handle: int, name: str, link_type: str, netdev: str) -> None:
        assert netdev in self.cards[handle]
        driver = {"rxe": "rdma_rxe", "siw": "siw"}[link_type]
        self.places[HOST].append(devices.device(name, 5, driver, [netdev] if handle == HOST else []))
        self.now = self.now or "exclusive"

    def delete(self, handle: int, index: int) -> None:
        self.places[handle] = [row for row in self.places[handle] if row["index"] != index]


def params(**given: t.Any) -> dict[str, t.Any]:
    return {**devices.params(name="rxe0", state="present"), "type": "rxe", "netdev": "eth1", **given}


@pytest.mark.parametrize(
    ("option", "inode", "text", "mode"),
    [
        ({}, HOST, "the host", "exclusive"),
        ({}, HOST, "the host", "shared"),
        ({}, HOST, "the host", None),
        ({"netns": "blue", "netdev": "net1"}, BLUE, "netns blue", "exclusive"),
        ({"netns": "blue", "netdev": "net1"}, HOST, "netns blue", "shared"),
    ],
)
def test_made_and_again_and_removed(option: dict[str, t.Any], inode: int, text: str, mode: str | None) -> None:
    host = FakeHost({}, mode)
    asked = manage(params(**option), True, host)
    assert host.places[HOST] == []
    host.now = mode
    done = manage(params(**option), False, host)
    for result in (asked, done):
        assert result["changed"]
        netdev = option.get("netdev", "eth1")
        assert result["actions"] == [f"Create the RDMA link rxe0 of type rxe on {netdev} in {text}"]
        assert result["link"] is None
    assert [row["name"] for row in host.places[inode]] == ["rxe0"]
    again = manage(params(**option), False, host)
    assert (again["changed"], again["resources"][0]["status"]) == (False, "in_sync")
    gone = manage(params(state="absent"), False, host)
    assert gone["changed"]
    assert not any(host.places.values())
    assert not manage(params(state="absent"), False, host)["changed"]
    assert host.open_now == []


REFUSALS: list[tuple[t.Callable[[FakeHost], None], dict[str, t.Any], str]] = [
    # what is so, option, text
    (
        lambda host: None,
        {"netdev": "eth7"},
        "Creating the RDMA link rxe0: no network device eth7 in the host. There are: eth1, lo. A link does not "
        "survive the move of its network device: move that first",
    ),
    (
        lambda host: host.places[HOST].append(devices.device("rxe0", 1, "rdma_rxe", ["lo"])),
        {},
        "Creating the RDMA link rxe0 of type rxe on eth1 in the host: a device of that name already exists (rdma_rxe on "
        "lo in the host). Remove it first (state: absent), or choose another name",
    ),
    (
        lambda host: host.places[BLUE].append(devices.device("rxe0", 1, "rdma_rxe", [])),
        {},
        "Creating the RDMA link rxe0 of type rxe on eth1 in the host: a device of that name already exists (rdma_rxe on "
        "no network device in netns blue). Remove it first (state: absent), or choose "
        "another name",
    ),
    (
        lambda host: host.places[HOST].append(devices.device("rxe0", 1, "mlx5_ib")),
        {"state": "absent"},
        "Removing the RDMA link rxe0: it is not a software link but a device of the driver mlx5_ib, which is not removed",
    ),
    (
        lambda host: (host.places[HOST].append(devices.device("rxe0", 1, "rdma_rxe")), host.held.append((7, None)))[1],
        {"state": "absent"},
        "Removing the RDMA link rxe0: it is in use by ib_write_bw (PID 7). Stop them, or set disrupt to true",
    ),
]


@pytest.mark.parametrize(("so", "option", "text"), REFUSALS, ids=range(len(REFUSALS)))
def test_refusals_change_nothing(so: t.Callable[[FakeHost], None], option: dict[str, t.Any], text: str) -> None:
    host = FakeHost({})
    so(host)
    before = {inode: list(rows) for inode, rows in host.places.items()}
    assert message_of(LinkError, manage, params(**option), False, host) == text
    assert (host.places, host.open_now) == (before, [])


def test_a_link_that_cannot_move_is_removed_again() -> None:
    host = FakeHost({})
    host.move_error = OSError(95, "Operation not supported")
    with pytest.raises(LinkError, match="could not be moved there, and was removed again"):
        manage(params(netns="blue", netdev="net1"), False, host)
    assert (any(host.places.values()), host.open_now) == (False, [])


def test_a_name_is_used_once_on_a_host() -> None:
    """Even from Linux 7.3 on: a link is made in the initial namespace, where the name must be free, and is moved then."""
    host = FakeHost({HOST: [devices.device("rxe0", 5, "rdma_rxe", ["eth1"])]})
    message = message_of(LinkError, manage, params(netns="blue", netdev="net1"), False, host)
    assert message == (
        "Creating the RDMA link rxe0 of type rxe on net1 in netns blue: a device of that name already exists (rdma_rxe on "
        "eth1 in the host). Remove it first (state: absent), or choose another name"
    )


def test_a_link_is_never_taken_for_another_of_its_name() -> None:
    host = FakeHost({BLUE: [devices.device("rxe0", 2, "rdma_rxe"), devices.device("rxe0", 3, "rdma_rxe")]})
    with pytest.raises(DeviceError, match="Several RDMA devices of this host are named rxe0: "):
        manage(params(state="absent"), False, host)
    assert len(host.places[BLUE]) == 2
