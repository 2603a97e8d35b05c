# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which driver a device has, and whether it can move."""

from __future__ import annotations

import os
import typing as t
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._rdma import drivers
from ansible_collections.rdmaops.gpu_fabric.tests.support.trees import write_tree

PCI = "devices/pci0000:00/0000:00:03.0/0000:07:00.0"


def link(path: Path, target: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    target.mkdir(parents=True, exist_ok=True)
    path.symlink_to(os.path.relpath(target, path.parent))


def card(sys: Path, name: str, driver: str, auxiliary: tuple[str, str] | None = None) -> None:
    link(sys / "class/infiniband" / name / "device", sys / PCI)
    link(sys / PCI / "driver", sys / "bus/pci/drivers" / driver)
    link(sys / "bus/pci/drivers" / driver / "module", sys / "module" / driver)
    if auxiliary:
        child, module = auxiliary
        place = sys / PCI / child
        link(place / "driver", sys / "bus/auxiliary/drivers" / (module + ".rdma"))
        link(sys / "bus/auxiliary/drivers" / (module + ".rdma") / "module", sys / "module" / module)


CARDS = [
    # PCI driver, auxiliary device and its module, driver
    ("mlx5_core", ("mlx5_core.rdma.0", "mlx5_ib"), "mlx5_ib"),
    ("ice", ("ice.roce.0", "irdma"), "irdma"),
    ("ice", ("ice.iwarp.1", "irdma"), "irdma"),
    # mlx5 in switchdev mode (mlx5r_rep_id_table in drivers/infiniband/hw/mlx5/ib_rep.c)
    ("mlx5_core", ("mlx5_core.rdma-rep.0", "mlx5_ib"), "mlx5_ib"),
    # irdma on idpf (drivers/infiniband/hw/irdma/ig3rdma_if.c)
    ("idpf", ("idpf.8086.rdma.core.0", "irdma"), "irdma"),
    ("idpf", ("idpf.8086.rdma.vdev.3", "irdma"), "irdma"),
    ("mlx5_core", ("mlx5_core.eth.0", "mlx5_core"), "mlx5_core"),
    ("mlx5_core", ("mlx5_core.eth-rep.0", "mlx5_core"), "mlx5_core"),
    ("mlx5_core", ("mlx5_core.multiport.0", "mlx5_ib"), "mlx5_core"),
    ("mlx4_core", None, "mlx4_ib"),
    ("efa", None, "efa"),
]


@pytest.mark.parametrize(("pci", "auxiliary", "expected"), CARDS)
def test_driver_of_a_card(tmp_path: Path, pci: str, auxiliary: tuple[str, str] | None, expected: str) -> None:
    card(tmp_path, "x", pci, auxiliary)
    assert drivers.driver("x", str(tmp_path)) == expected


def test_driver_of_software_devices(tmp_path: Path) -> None:
    files = {"rxe0/parent": "eth0", "siw0/node_type": "4: RNIC", "odd/node_type": "?"}
    write_tree(tmp_path / "class/infiniband", files)
    names = [drivers.driver(name, str(tmp_path)) for name in ("rxe0", "siw0", "odd", "gone")]
    assert names == ["rdma_rxe", "siw", None, None]


def test_pci_address() -> None:
    assert drivers.pci_address("/sys/" + PCI) == "0000:07:00.0"
    assert drivers.pci_address("/sys/" + PCI + "/mlx5_core.rdma.0") == "0000:07:00.0"
    assert drivers.pci_address("/sys/devices/virtual/infiniband/rxe0/device") is None


KALLSYMS = b"""ffffffff81000000 T _stext
0000000000000000 t mlx5_ib_disassociate_ucontext\t[mlx5_ib]
0000000000000000 t irdma_disassociate_ucontext\t[irdma]
0000000000000000 t hns_roce_disassociate_ucontext\t[hns_roce_hw_v2]
0000000000000000 t rxe_disassociate_ucontext
0000000000000000 d bnxt_re_disassociate_ucontext\t[bnxt_re]
0000000000000000 t __pfx_efa_disassociate_ucontext_not\t[efa]
0000000000000000 t uverbs_disassociate_api\t[ib_uverbs]
"""


def test_symbols() -> None:
    assert drivers.symbols(KALLSYMS) == {"mlx5_ib", "irdma", "hns_roce_hw_v2", "rdma_rxe"}


def test_movers_are_kept_until_a_driver_is_loaded_anew(tmp_path: Path) -> None:
    symbols, sys = tmp_path / "kallsyms", tmp_path / "sys"
    (sys / "module/ib_core/holders/mlx5_ib").mkdir(parents=True)
    (sys / "module/mlx5_ib").mkdir()
    arguments: dict[str, t.Any] = {"kallsyms": str(symbols), "cache": str(tmp_path / "c/movers.json"), "sys": str(sys)}
    assert drivers.netns_capable_drivers(**arguments) is None
    symbols.write_bytes(b"")
    assert drivers.netns_capable_drivers(**arguments) is None
    symbols.write_bytes(KALLSYMS)
    first = drivers.netns_capable_drivers(**arguments)
    assert first is not None
    assert "irdma" in first
    symbols.write_bytes(b"0 T _stext\n")
    assert drivers.netns_capable_drivers(**arguments) == first
    (sys / "module/ib_core/holders/irdma").mkdir()
    (sys / "module/irdma").mkdir()
    assert drivers.netns_capable_drivers(**arguments) == set()


ABILITIES = [
    # driver, moved, able, can, source
    ("mlx5_ib", False, {"mlx5_ib"}, True, "mlx5_ib has disassociate_ucontext (/proc/kallsyms)"),
    ("efa", False, {"mlx5_ib"}, False, "efa has no disassociate_ucontext (/proc/kallsyms)"),
    ("efa", True, set(), True, "it is in another network namespace than the host's"),
    (None, False, {"mlx5_ib"}, None, "its driver is not known"),
    ("efa", False, None, None, "the kernel's symbols cannot be read"),
]


@pytest.mark.parametrize(("driver", "moved", "able", "can", "source"), ABILITIES)
def test_ability(driver: str | None, moved: bool, able: set[str] | None, can: bool | None, source: str) -> None:
    assert drivers.ability(driver, moved, able) == drivers.Ability(can, source)
