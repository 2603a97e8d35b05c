# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What shares a PCI address, in sysfs trees made after the drivers of Linux 6.12."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._rdma.pci_netdevs import (
    Function,
    Netdev,
    function_of,
    netdevs,
    represents,
)
from ansible_collections.rdmaops.gpu_fabric.tests.support.trees import write_tree

PCI = "devices/pci0000:00/0000:00:03.0/0000:08:00.0"
CARD = "0000:08:00.0"


class Tree:
    def __init__(self, sys: Path) -> None:
        self.sys = sys
        self.index = itertools.count(2)

    def netdev(self, name: str, below: str = "", iflink: int | None = None, **files: object) -> None:
        """Add a network device of the card; ``below`` is the rest of the path of its parent."""
        index = next(self.index)
        texts = {"ifindex": index, "iflink": index if iflink is None else iflink, "type": 1, "dev_port": 0, **files}
        place = self.sys / PCI / below / "net" / name
        write_tree(place, {file: f"{text}\n" for file, text in texts.items()})
        (place / "device").symlink_to("../..")
        (self.sys / "class/net").mkdir(parents=True, exist_ok=True)
        (self.sys / "class/net" / name).symlink_to(place)


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


def test_a_sub_function_is_another_function(tree: Tree) -> None:
    tree.netdev("ens1f0np0", phys_port_name="p0")
    tree.netdev("ens1f0s4", "mlx5_core.sf.4")
    assert netdevs(str(tree.sys)) == [Netdev("ens1f0np0", CARD), Netdev("ens1f0s4", CARD, "mlx5_core.sf.4")]
    assert [netdev.identity for netdev in netdevs(str(tree.sys))] == [CARD, f"{CARD}/mlx5_core.sf.4"]


def test_two_ports_of_one_function(tree: Tree) -> None:
    """mlx4, one function for both."""
    tree.netdev("ens1", dev_port=0)
    tree.netdev("ens1d1", dev_port=1)
    assert [(netdev.name, netdev.identity) for netdev in netdevs(str(tree.sys))] == [
        ("ens1", CARD),
        ("ens1d1", f"{CARD} port 2"),
    ]


@pytest.mark.parametrize("port", ["pf0vf0", "pf0vf12", "pf0sf88", "pf1", "c1pf0vf3"])
def test_a_representor_is_not_the_cards_own(tree: Tree, port: str) -> None:
    tree.netdev("ens1f0np0", phys_port_name="p0")
    tree.netdev("ens1f0npf0vf0", phys_port_name=port)
    assert [netdev.name for netdev in netdevs(str(tree.sys))] == ["ens1f0np0"]
    assert represents("ens1f0npf0vf0", str(tree.sys))
    assert not represents("ens1f0np0", str(tree.sys))
    assert not represents("gone", str(tree.sys))


def test_an_ipoib_interface_with_another_pkey_is_not_the_cards_own(tree: Tree) -> None:
    tree.netdev("ib0", type=32)
    tree.netdev("ib0.8001", iflink=2, type=32)
    assert netdevs(str(tree.sys)) == [Netdev("ib0", CARD, infiniband=True)]


def test_what_virtio_adds_to_the_path_is_no_sub_function(tree: Tree) -> None:
    tree.netdev("ens5", "virtio2")
    (tree.sys / "class/net/lo").mkdir()
    assert netdevs(str(tree.sys)) == [Netdev("ens5", CARD)]


def test_the_function_of_a_path() -> None:
    assert function_of(f"/sys/{PCI}") == Function(CARD)
    assert function_of(f"/sys/{PCI}/mlx5_core.sf.4") == Function(CARD, "mlx5_core.sf.4")
    assert function_of("/sys/devices/virtual/infiniband/rxe0/device") is None
