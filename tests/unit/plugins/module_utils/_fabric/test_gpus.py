# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which GPU a port is measured with, and how its memory is registered."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._fabric import gpus
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._fabric.readiness import ready
from ansible_collections.rdmaops.gpu_fabric.tests.unit.plugins.module_utils._fabric.fake_host import FakeHost

# perftest 25.01's usage, of a build with CUDA and of one with DMA-BUF too
CUDA = (
    "      --use_cuda=<cuda device id> Use CUDA specific device for GPUDirect RDMA testing\n"
    "      --use_cuda_bus_id=<cuda full BUS id> Use CUDA specific device, based on its full PCIe address,"
    " for GPUDirect RDMA testing\n"
)
DMABUF = CUDA + "      --use_cuda_dmabuf Use CUDA DMA-BUF for GPUDirect RDMA testing\n"
# driver 550.54.15's two kinds of kernel modules
OPEN = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.54.15  Release Build  (dvs-builder@U16)\n"
CLOSED = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 22:23:56 UTC 2024\n"
DRIVER, RELEASE = "/proc/driver/nvidia/version", "/proc/sys/kernel/osrelease"
PEERMEM = {"/sys/module/nvidia_peermem/version": "550.54.15\n"}

# Four GPUs and two NICs: two PCIe switches, with two GPUs and a NIC each.
SWITCHES = {
    "0000:17:00.0": "/sys/devices/pci0000:15/0000:15:01.0/0000:16:00.0/0000:16:01.0/0000:17:00.0",
    "0000:18:00.0": "/sys/devices/pci0000:15/0000:15:01.0/0000:16:00.0/0000:16:02.0/0000:18:00.0",
    "0000:19:00.0": "/sys/devices/pci0000:15/0000:15:01.0/0000:16:00.0/0000:16:03.0/0000:19:00.0",
    "0000:97:00.0": "/sys/devices/pci0000:95/0000:95:01.0/0000:96:00.0/0000:96:01.0/0000:97:00.0",
    "0000:98:00.0": "/sys/devices/pci0000:95/0000:95:01.0/0000:96:00.0/0000:96:02.0/0000:98:00.0",
    "0000:99:00.0": "/sys/devices/pci0000:95/0000:95:01.0/0000:96:00.0/0000:96:03.0/0000:99:00.0",
}
GPUS = ["0000:98:00.0", "0000:18:00.0", "0000:19:00.0", "0000:99:00.0"]
# Virtual machines have each device on a root port of its own.
FLAT = {
    address: "/sys/devices/pci%s/%s" % (address.split(":")[0] + ":" + address.split(":")[1], address)
    for address in ("0000:05:00.0", "0000:06:00.0", "0000:85:00.0", "0000:86:00.0")
}


def port(rail: int, address: str | None) -> dict[str, t.Any]:
    return {"rail": rail, "device": "mlx5_%d" % rail, "port": 1, "pci_address": address}


def choose(
    ports: list[dict[str, t.Any]], addresses: list[str], paths: dict[str, str], usage: str = DMABUF, **files: str
) -> list[tuple[t.Any, ...]]:
    host = FakeHost((1, usage))
    host.links = {"/sys/bus/pci/devices/" + address: path for address, path in paths.items()}
    nodes = {f"/sys/bus/pci/devices/{address}/numa_node": f"{int(address[5] >= '8')}\n" for address in paths}
    host.files = {DRIVER: OPEN, RELEASE: "6.8.0-45-generic\n", **nodes, **files}
    choices = gpus.choose(ports, addresses, host)
    assert [choice["rail"] for choice in choices] == [port["rail"] for port in ports]
    return [(choice["gpu"], choice["dmabuf"], choice["gpu_error"]) for choice in choices]


def test_the_gpus_behind_the_same_switch_are_nearest() -> None:
    chosen = choose([port(0, "0000:97:00.0"), port(1, "0000:17:00.0")], GPUS, SWITCHES)
    assert chosen == [("0000:98:00.0", True, None), ("0000:19:00.0", True, None)]


def test_without_a_common_bridge_the_numa_node_decides() -> None:
    ports = [port(0, "0000:85:00.0"), port(1, "0000:05:00.0")]
    assert [gpu for gpu, *_ in choose(ports, ["0000:06:00.0", "0000:86:00.0"], FLAT)] == [
        "0000:86:00.0",
        "0000:06:00.0",
    ]


def test_rails_to_which_several_gpus_are_as_near_take_turns() -> None:
    chosen = choose([port(rail, None) for rail in range(3)], ["0000:86:00.0", "0000:06:00.0"], FLAT)
    assert [gpu for gpu, *_ in chosen] == ["0000:06:00.0", "0000:86:00.0", "0000:06:00.0"]


def test_a_device_that_sysfs_does_not_show_has_no_nearest_gpu() -> None:
    ((gpu, _dmabuf, why),) = choose([port(1, "0000:17:00.0")], ["0000:06:00.0"], FLAT)
    text = "cannot determine the GPU nearest to mlx5_1: /sys/bus/pci/devices/0000:17:00.0 cannot be read"
    assert (gpu, why) == (None, text)


NOT_POSSIBLE = "GPUDirect RDMA by DMA-BUF is not possible, as %s, and nvidia_peermem is not loaded"
CLOSED_WHY = NOT_POSSIBLE % "the NVIDIA driver's kernel modules are not the open ones"
WAYS: list[tuple[str, dict[str, str], bool, str | None]] = [
    # usage, files, DMA-BUF, why not
    (DMABUF, {}, True, None),
    (DMABUF, PEERMEM, True, None),
    (DMABUF, {DRIVER: ""}, True, None),
    (DMABUF, {RELEASE: ""}, True, None),
    (DMABUF, {RELEASE: "5.12.0\n"}, True, None),
    (DMABUF, {DRIVER: CLOSED, **PEERMEM}, False, None),
    (DMABUF, {DRIVER: CLOSED, "/sys/kernel/mm/memory_peers/nv_mem/version": "1.1-0\n"}, False, None),
    (DMABUF, {DRIVER: CLOSED}, False, CLOSED_WHY),
    (DMABUF, {RELEASE: "5.4.0-200-generic\n", **PEERMEM}, False, None),
    (DMABUF, {RELEASE: "4.18.0-553.el8_10.x86_64\n"}, False, NOT_POSSIBLE % "Linux 4.18.0-553.el8_10.x86_64 is older than 5.12"),
    (CUDA, PEERMEM, False, None),
    (CUDA, {}, False, NOT_POSSIBLE % "ib_write_bw was built without it (it has no --use_cuda_dmabuf)"),
    ("      --tclass=<value>", PEERMEM, False, "ib_write_bw was built without CUDA (it has no --use_cuda_bus_id)"),
]  # fmt: skip


@pytest.mark.parametrize(("usage", "files", "dmabuf", "why"), WAYS, ids=range(len(WAYS)))
def test_dmabuf_where_it_is_possible(usage: str, files: dict[str, str], dmabuf: bool, why: str | None) -> None:
    gpu = None if why else "0000:06:00.0"
    assert choose([port(0, "0000:05:00.0")], ["0000:06:00.0"], FLAT, usage, **files) == [(gpu, dmabuf, why)]


def test_placements_of_a_host() -> None:
    """nvidia-smi 550.54.15 prints a domain of eight digits, and capitals."""
    host = FakeHost((0, "\n"), (0, "00000000:06:00.0\n0000000A:86:00.0\n"), (1, CUDA))
    ports = [port(0, None), {"rail": 1, "device": None, "port": None, "state": "absent"}]
    result = ready(["ib_write_bw_cuda"], [], ports, host)
    assert result["gpus"] == 2
    assert [(entry["rail"], entry["gpu"]) for entry in result["placements"]] == [(0, None)]
    assert [argv[:2] for argv in host.ran[1:]] == [["nvidia-smi", "--query-gpu=pci.bus_id"], ["ib_write_bw", "--help"]]
    host = FakeHost((0, "\n"), (0, "0000000A:86:00.0\n"))
    assert gpus.survey(host).addresses == ["000a:86:00.0"]
    host = FakeHost((0, "\n"), (0, "00000000:06:00.0\n"))
    assert [entry["gpu"] for entry in ready(["rping"], [], ports, host)["placements"]] == [None]
