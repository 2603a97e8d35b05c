# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Looking at devices, over a sysfs tree and netlink answers that are given by the test."""

from __future__ import annotations

import errno
import os
import shutil
import typing as t
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils import _command
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._rdma import devices, nldev
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._rdma.devices import look
from ansible_collections.rdmaops.gpu_fabric.tests.support.trees import write_tree

ZERO = "0000:0000:0000:0000:0000:0000:0000:0000"
V4 = "0000:0000:0000:0000:0000:ffff:0a5a:0001"
LOCAL = "fe80:0000:0000:0000:5054:00ff:fe90:0001"


class Card:
    """A device in a sysfs tree."""

    def __init__(self, sys: Path, name: str, index: int = 0) -> None:
        self.name, self.index = name, index
        self.netdev: str | None = "rail0"
        self.base = sys / "class/infiniband" / name
        self.port = self.base / "ports/1"
        self.write("ports/1/rate", "2.5 Gb/sec (1X SDR)")
        self.write("ports/1/link_layer", "Ethernet")
        self.write("ports/1/pkeys/0", "0xffff")
        self.write("ports/1/pkeys/1", "0x0000")
        for number, (gid, kind, netdev) in {
            0: (LOCAL, "RoCE v2", "rail0"),
            3: (V4, "IB/RoCE v1", "rail0"),
            4: (V4, "RoCE v2", "rail0"),
        }.items():
            self.gid(number, gid, kind, netdev)
        for number in (1, 2, 5):
            self.gid(number, ZERO)
        write_tree(sys, {"class/net/rail0/mtu": "4200\n"})

    def write(self, path: str, text: str) -> None:
        write_tree(self.base, {path: text + "\n"})

    def gid(self, index: int, gid: str, kind: str | None = None, netdev: str | None = None) -> None:
        self.write(f"ports/1/gids/{index}", gid)
        for name, text in {"types": kind, "ndevs": netdev}.items():
            if text is not None:
                self.write(f"ports/1/gid_attrs/{name}/{index}", text)

    def breaks(self, path: str) -> None:
        """Make reading a file an error: EISDIR stands for whatever a driver answers."""
        place = self.base / path
        place.unlink(missing_ok=True)
        place.mkdir(parents=True)


@pytest.fixture
def cards(monkeypatch: pytest.MonkeyPatch) -> list[Card]:
    known: list[Card] = []

    def row(card: Card) -> nldev.Device:
        return nldev.Device(card.index, card.name, 1, "ca", "roce", "5054:00ff:fe90:0001", None, None, None)

    def ports(index: int) -> list[nldev.Port]:
        (card,) = [card for card in known if card.index == index]
        return [nldev.Port(index, card.name, 1, "ACTIVE", "LINK_UP", card.netdev, 3, None, None, None, None)]

    monkeypatch.setattr(nldev, "devices", lambda: [row(card) for card in known])
    monkeypatch.setattr(nldev, "ports", ports)
    monkeypatch.setattr(nldev, "statistics", lambda index, port: {"sent": 5, "rcvd": 0})
    return known


def seen(tmp_path: Path, *gather: str) -> tuple[list[dict[str, t.Any]], list[dict[str, t.Any]]]:
    result = look(gather, str(tmp_path))
    return result["devices"], result["unreadable"]


def test_default(tmp_path: Path, cards: list[Card]) -> None:
    cards += [Card(tmp_path, "rxe1", 1), Card(tmp_path, "rxe0")]
    devices, unreadable = seen(tmp_path, "gids", "pkeys")
    assert unreadable == []
    assert [device["name"] for device in devices] == ["rxe0", "rxe1"]
    v4 = {"gid": V4, "netdev": "rail0", "ipv4": "10.90.0.1"}
    gids = [
        {"index": 0, "gid": LOCAL, "type": "RoCE v2", "netdev": "rail0", "ipv4": None},
        {"index": 3, "type": "RoCE v1", **v4},
        {"index": 4, "type": "RoCE v2", **v4},
    ]
    state = {"port": 1, "state": "ACTIVE", "physical_state": "LINK_UP", "link_layer": "Ethernet", "pkeys": ["0xffff"]}
    rate = {"rate_gbps": 2.5, "rate": "2.5 Gb/sec (1X SDR)", "netdev": "rail0", "netdev_mtu": 4200, "gids": gids}
    rate["representor"] = False
    port = {**state, **rate, **dict.fromkeys(("lid", "sm_lid", "lmc", "active_mtu", "counters", "hw_counters"))}
    names = {"name": "rxe0", "index": 0, "protocol": "roce", "node_type": "ca", "node_guid": "5054:00ff:fe90:0001"}
    unknown = (
        "driver",
        "pci_address",
        "auxiliary_device",
        "numa_node",
        "sys_image_guid",
        "firmware",
        "board_id",
        "users",
    )
    assert devices[0] == {**names, **dict.fromkeys(unknown), "ports": [port]}


def test_what_was_not_asked_for_is_not_looked_at(tmp_path: Path, cards: list[Card]) -> None:
    cards.append(Card(tmp_path, "rxe0"))
    for path in ("ports/1/gids", "ports/1/pkeys"):
        shutil.rmtree(cards[0].base / path)
    rows, unreadable = seen(tmp_path)
    (port,) = rows[0]["ports"]
    assert (port["gids"], port["pkeys"], port["counters"], port["hw_counters"], unreadable) == (None,) * 4 + ([],)


def test_empty_gids_of_a_table_of_256(tmp_path: Path, cards: list[Card]) -> None:
    cards.append(Card(tmp_path, "rxe0"))
    for index in range(6, 256):
        cards[0].gid(index, ZERO)
    assert len(seen(tmp_path, "gids")[0][0]["ports"][0]["gids"]) == 3
    every = seen(tmp_path, "empty_gids")[0][0]["ports"][0]["gids"]
    assert [gid["index"] for gid in every] == list(range(256))
    assert every[200] == {"index": 200, "gid": ZERO, "type": None, "netdev": None, "ipv4": None}


def test_counters(tmp_path: Path, cards: list[Card], monkeypatch: pytest.MonkeyPatch) -> None:
    card = Card(tmp_path, "mlx5_0")
    cards.append(card)
    card.write("ports/1/counters/port_rcv_data", "123")
    card.write("ports/1/counters/odd", "N/A (no PMA)")
    card.breaks("ports/1/counters/broken")
    (device,), unreadable = seen(tmp_path, "counters", "hw_counters")
    assert device["ports"][0]["counters"] == {"port_rcv_data": 123}
    assert device["ports"][0]["hw_counters"] == {"rcvd": 0, "sent": 5}
    assert unreadable == [
        {"device": "mlx5_0", "what": "ports/1/counters/broken", "error": "EISDIR (Is a directory)"},
        {"device": "mlx5_0", "what": "ports/1/counters/odd", "error": "'N/A (no PMA)' is not a number"},
    ]

    def refuse(code: int) -> t.Callable[[int, int], dict[str, int]]:
        def statistics(index: int, port: int) -> dict[str, int]:
            raise nldev.NldevError(code, "read the counters")

        return statistics

    card.write("ports/1/hw_counters/lifespan", "10")
    card.write("ports/1/hw_counters/sends", "7")
    monkeypatch.setattr(nldev, "statistics", refuse(errno.EINVAL))
    assert seen(tmp_path, "hw_counters")[0][0]["ports"][0]["hw_counters"] == {"sends": 7}
    monkeypatch.setattr(nldev, "statistics", refuse(errno.EIO))
    (device,), unreadable = seen(tmp_path, "hw_counters")
    assert device["ports"][0]["hw_counters"] is None
    assert unreadable[0]["error"] == "Could not read the counters: EIO (Input/output error)"


def test_what_cannot_be_read_is_named_and_null(tmp_path: Path, cards: list[Card]) -> None:
    card = Card(tmp_path, "mlx5_0")
    cards += [card, Card(tmp_path, "mlx5_1", 1)]
    card.breaks("ports/1/rate")
    card.breaks("ports/1/gids/4")
    (card.port / "link_layer").unlink()
    (broken, whole), unreadable = seen(tmp_path, "gids")
    assert (broken["ports"][0]["rate_gbps"], broken["ports"][0]["link_layer"]) == (None, None)
    assert [gid["index"] for gid in broken["ports"][0]["gids"]] == [0, 3]
    assert whole["ports"][0]["rate_gbps"] == 2.5
    assert unreadable == [
        {"device": "mlx5_0", "what": "ports/1/rate", "error": "EISDIR (Is a directory)"},
        {"device": "mlx5_0", "what": "ports/1/gids/4", "error": "EISDIR (Is a directory)"},
        {"device": "mlx5_0", "what": "ports/1/link_layer", "error": "ENOENT (No such file or directory)"},
    ]


def test_a_rate_that_is_none_is_not_zero(tmp_path: Path, cards: list[Card]) -> None:
    cards.append(Card(tmp_path, "mlx5_0"))
    cards[0].write("ports/1/rate", "fast")
    (device,), unreadable = seen(tmp_path)
    assert device["ports"][0]["rate_gbps"] is None
    assert unreadable == [{"device": "mlx5_0", "what": "ports/1/rate", "error": "'fast' is not a rate"}]


def test_a_device_without_sysfs_is_there_all_the_same(tmp_path: Path, cards: list[Card]) -> None:
    cards.append(Card(tmp_path, "mlx5_0"))
    shutil.rmtree(cards[0].base)
    (device,), unreadable = seen(tmp_path, "gids")
    assert (device["name"], device["ports"][0]["state"], device["ports"][0]["gids"]) == ("mlx5_0", "ACTIVE", None)
    assert unreadable == [
        {"device": "mlx5_0", "what": "sysfs", "error": f"{tmp_path}/class/infiniband/mlx5_0 is missing"}
    ]


def test_a_device_that_goes_while_we_look_is_gone(
    tmp_path: Path, cards: list[Card], monkeypatch: pytest.MonkeyPatch
) -> None:
    cards += [Card(tmp_path, "mlx5_0"), Card(tmp_path, "mlx5_1", 1)]
    ports = nldev.ports

    def going(index: int) -> list[nldev.Port]:
        if index == 1:
            gone = cards.pop()
            shutil.rmtree(gone.base)
            raise nldev.NldevError(errno.EINVAL, "list the ports")
        return ports(index)

    monkeypatch.setattr(nldev, "ports", going)
    rows, unreadable = seen(tmp_path, "gids")
    assert ([device["name"] for device in rows], unreadable) == (["mlx5_0"], [])


def test_the_netdev_of_a_bond_is_the_bond(tmp_path: Path, cards: list[Card]) -> None:
    card = Card(tmp_path, "mlx5_bond_0")
    cards.append(card)
    for index in (0, 3, 4):
        card.gid(index, V4, "RoCE v2", "bond0")
    write_tree(tmp_path, {"class/net/bond0/mtu": "9000\n"})
    (tmp_path / "class/net/rail0/master").symlink_to("../bond0")
    (device,), _unreadable = seen(tmp_path, "gids")
    assert (device["ports"][0]["netdev"], device["ports"][0]["netdev_mtu"]) == ("bond0", 9000)


DEVINFO = "hca_id:\tmlx5_0\n\t\tport:\t1\n\t\t\tstate:\t\t\tPORT_ACTIVE (4)\n\t\t\tmax_mtu:\t\t4096 (5)\n%s"
ASKED: list[tuple[t.Any, int | None, list[str]]] = [
    # what ibv_devinfo does, active_mtu, errors
    ((0, DEVINFO % "\t\t\tactive_mtu:\t\t1024 (3)\n"), 1024, []),
    ((0, DEVINFO % ""), None, ["ibv_devinfo -d mlx5_0 -i 1 exited with status 0: max_mtu: 4096 (5)"]),
    ((1, "Failed to open device\n"), None, ["ibv_devinfo -d mlx5_0 -i 1 exited with status 1: Failed to open device"]),
    (FileNotFoundError(2, "gone"), None, ["ibv_devinfo is not installed (package ibverbs-utils)"]),
    (_command.TimedOut("", ""), None, ["ibv_devinfo -d mlx5_0 -i 1 timed out after 20 s and was killed"]),
]


@pytest.mark.parametrize(("does", "mtu", "errors"), ASKED, ids=range(len(ASKED)))
def test_active_mtu(
    tmp_path: Path, cards: list[Card], monkeypatch: pytest.MonkeyPatch, does: t.Any, mtu: int | None, errors: list[str]
) -> None:
    cards.append(Card(tmp_path, "mlx5_0"))

    def run(_argv: list[str], _timeout: float, **_more: t.Any) -> _command.Done:
        if isinstance(does, Exception):
            raise does
        return _command.Done(does[0], does[1], "")

    monkeypatch.setattr(_command, "run", run)
    (device,), unreadable = seen(tmp_path, "active_mtu")
    assert device["ports"][0]["active_mtu"] == mtu
    assert [line["error"] for line in unreadable] == errors


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("400 Gb/sec (4X NDR)", 400.0),
        ("2.5 Gb/sec (1X SDR)", 2.5),
        ("0 Gb/sec", 0.0),
        ("Gb/sec", None),
        ("", None),
    ],
)
def test_rate(text: str, rate: float | None) -> None:
    assert devices.rate_gbps(text) == rate


@given(st.text(max_size=60) | st.just("²"))
def test_texts_of_any_kind_are_read(text: str) -> None:
    for function in (devices.rate_gbps, devices.gid_ipv4, devices.counter):
        function(text)


def test_ipv4_of_a_gid() -> None:
    addresses = [devices.gid_ipv4(gid) for gid in (V4, LOCAL, ZERO, "junk")]
    assert addresses == ["10.90.0.1", None, None, None]


def test_who_has_it_open(tmp_path: Path, cards: list[Card], monkeypatch: pytest.MonkeyPatch) -> None:
    cards += [Card(tmp_path, "rxe0")]
    owners: list[tuple[int | None, str | None]] = [(None, "nvme_rdma"), (os.getpid(), None), (None, None)]
    monkeypatch.setattr(nldev, "owners", lambda index: owners)
    (row,), unreadable = seen(tmp_path, "users")
    command = Path("/proc/self/comm").read_text().strip()
    assert row["users"] == [f"{command} (PID {os.getpid()})", "a process that cannot be seen"]
    assert unreadable == []

    def refused(_index: int) -> t.Any:
        raise nldev.NldevError(errno.EPERM, "list the users")

    monkeypatch.setattr(nldev, "owners", refused)
    (row,), unreadable = seen(tmp_path, "users")
    assert row["users"] is None
    assert [(entry["device"], entry["what"]) for entry in unreadable] == [("rxe0", "users")]


def test_a_port_of_another_function(tmp_path: Path, cards: list[Card], monkeypatch: pytest.MonkeyPatch) -> None:
    """mlx5 in switchdev mode: port 1 is the card's own, the others are its virtual functions'."""
    cards.append(Card(tmp_path, "mlx5_0"))
    row = nldev.devices()[0]._replace(ports=2)
    rows = [nldev.ports(0)[0]._replace(port=number, netdev=name) for number, name in ((1, "rail0"), (2, "rail0_0"))]
    monkeypatch.setattr(nldev, "devices", lambda: [row])
    monkeypatch.setattr(nldev, "ports", lambda index: rows)
    write_tree(tmp_path / "class/net", {"rail0/phys_port_name": "p0\n", "rail0_0/phys_port_name": "pf0vf0\n"})
    ports = seen(tmp_path)[0][0]["ports"]
    assert [(port["netdev"], port["representor"]) for port in ports] == [("rail0", False), ("rail0_0", True)]


def test_the_device_of_a_sub_function(tmp_path: Path, cards: list[Card]) -> None:
    cards.append(Card(tmp_path, "mlx5_2"))
    place = tmp_path / "devices/pci0000:00/0000:08:00.0/mlx5_core.sf.4"
    place.mkdir(parents=True)
    (cards[0].base / "device").symlink_to(place)
    (device,) = seen(tmp_path)[0]
    assert (device["pci_address"], device["auxiliary_device"]) == ("0000:08:00.0", "mlx5_core.sf.4")
