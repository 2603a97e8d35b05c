# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The name that a network device had on the host, as plugins record it and udev makes it."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils import _command
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._rdma.pci_netdevs import Netdev
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._rdma_devices import former
from ansible_collections.rdmaops.gpu_fabric.tests.support.trees import write_tree

CARD = Netdev("net1", "0000:07:00.0")
# What `udevadm test-builtin net_id` prints; made after systemd 252 (dev_pci_slot() in udev-builtin-net_id.c).
NET_ID = """Using default interface naming scheme 'v252'.
ID_NET_NAMING_SCHEME=v252
ID_NET_NAME_MAC=enxb8cef6aa0001
ID_OUI_FROM_DATABASE=Mellanox Technologies, Inc.
ID_NET_NAME_PATH=enp7s0np0
ID_NET_NAME_SLOT=ens7np0
"""


def record(device: str, name: str) -> str:
    """Return a file of sriov-cni 2.8 (NetConf in pkg/types/types.go), made by hand."""
    return json.dumps(
        {
            "cniVersion": "0.3.1",
            "name": "rail0",
            "type": "sriov",
            "OrigVfState": {"HostIFName": name},
            "deviceID": device,
        }
    )


@pytest.fixture
def names(tmp_path: Path) -> t.Callable[..., list[str]]:
    def names_of(
        alias: str = "", net_id: str = "", netdev: Netdev = CARD, altnames: t.Sequence[str] = (), **files: str
    ) -> list[str]:
        write_tree(tmp_path, files)
        inside = {"alias": alias, "altnames": altnames, "immutable": False, "net_id": net_id}
        return former.names(netdev, inside, str(tmp_path))

    return names_of


def test_records_come_before_the_alias_and_the_alias_before_udev(names: t.Callable[..., list[str]]) -> None:
    files = {"a-net1": record(CARD.pci_address, "rail0"), "b-net1": record("0000:08:00.0", "rail1"), "c-net1": "{"}
    assert names("leaf3", NET_ID, **files) == ["rail0", "leaf3", "ens7np0", "enp7s0np0"]


def test_a_sub_function_is_not_its_function(names: t.Callable[..., list[str]]) -> None:
    sub = CARD._replace(auxiliary="mlx5_core.sf.4")
    assert names(netdev=sub, a=record(CARD.pci_address, "rail0")) == []


def test_records_that_contradict_each_other_do_not_count(names: t.Callable[..., list[str]]) -> None:
    """An earlier pod's file was left behind."""
    assert names("ens7", a=record(CARD.pci_address, "rail0"), b=record(CARD.pci_address, "rail1")) == ["ens7"]


@pytest.mark.parametrize("alias", ["", "to leaf 3", "a/b", "..", "x" * 16])
def test_an_alias_that_is_no_name_does_not_count(names: t.Callable[..., list[str]], alias: str) -> None:
    assert names(alias) == []


# alternative names, what comes before those that udev would choose
ALTNAMES: list[tuple[list[str], list[str]]] = [
    (["enxb8cef6aa0001", "rail0", "enp7s0np0"], ["rail0"]),
    (["rail0", "storage0"], []),
    # The name that the device had is the one that udev has not made an alternative one.
    (["enxb8cef6aa0001", "enp7s0np0"], []),
    (["a/b"], []),
]


@pytest.mark.parametrize(("altnames", "first"), ALTNAMES)
def test_the_alternative_name_comes_before_udev(
    names: t.Callable[..., list[str]], altnames: list[str], first: list[str]
) -> None:
    assert names(net_id=NET_ID, altnames=altnames) == [*first, "ens7np0", "enp7s0np0"]


def test_an_alternative_name_comes_after_what_a_plugin_has_recorded(names: t.Callable[..., list[str]]) -> None:
    assert names("leaf3", NET_ID, altnames=["rail0"])[:2] == ["leaf3", "rail0"]


def test_without_udev_an_alternative_name_may_be_one_of_udev(names: t.Callable[..., list[str]]) -> None:
    assert names(altnames=["enp7s0np0"]) == []


def test_without_any_record_there_is_none(tmp_path: Path) -> None:
    inside = {"alias": "", "altnames": [], "immutable": False, "net_id": ""}
    assert former.names(CARD, inside, str(tmp_path / "none")) == []


# What `ip -json -details link` of iproute2 6.15 prints of such devices, without what does not matter here.
LINKS: list[tuple[str, list[str], bool]] = [
    ('[{"ifname":"net1","netns-immutable":true,"altnames":["rail0"]}]', ["rail0"], True),
    ('[{"ifname":"net1"}]', [], False),
    ("[{}]", [], False),
    ('Device "net1" does not exist.', [], False),
    ("[]", [], False),
    ("[1]", [], False),
    ("7", [], False),
]


@pytest.mark.parametrize(("link", "altnames", "immutable"), LINKS)
def test_what_the_namespace_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, link: str, altnames: list[str], immutable: bool
) -> None:
    write_tree(tmp_path, {"class/net/net1/ifalias": "ens7np0\n"})
    asked: list[t.Sequence[str]] = []

    def run(argv: t.Sequence[str], timeout: float) -> _command.Done:
        asked.append(argv)
        return _command.Done(0, link if argv[0] == "ip" else NET_ID, "")

    monkeypatch.setattr(_command, "run", run)
    assert former.inside("net1", str(tmp_path)) == {
        "alias": "ens7np0",
        "altnames": altnames,
        "immutable": immutable,
        "net_id": NET_ID,
    }
    assert asked == [
        ["ip", "-json", "-details", "link", "show", "dev", "net1"],
        ["udevadm", "test-builtin", "net_id", f"{tmp_path}/class/net/net1"],
    ]


@pytest.mark.parametrize("error", [FileNotFoundError("udevadm"), _command.TimedOut("", "")])
def test_without_udev(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    write_tree(tmp_path, {"class/net/net1/ifalias": "\n"})

    def run(argv: t.Sequence[str], timeout: float) -> _command.Done:
        raise error

    monkeypatch.setattr(_command, "run", run)
    assert former.inside("net1", str(tmp_path)) == {"alias": "", "altnames": [], "immutable": False, "net_id": ""}
