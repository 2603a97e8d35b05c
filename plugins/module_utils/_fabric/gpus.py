# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""The GPUs of a host or pod: which are in use, which is nearest to a port, and how a NIC reaches their memory."""

from __future__ import annotations

import re
import typing as t

from .host import Host

# nvidia-smi in a container names no processes, as their PIDs are not the container's.
_PROCESSES = ("--query-compute-apps=pid,process_name", "--format=csv,noheader")
_LOADS = ("--query-gpu=index,utilization.gpu", "--format=csv,noheader,nounits")
_ADDRESSES = ("--query-gpu=pci.bus_id", "--format=csv,noheader")

# nvidia-smi prints eight digits of the domain, sysfs four.
_ADDRESS = re.compile(r"(?m)^0{0,4}([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])[ \t\r]*$")
_MOST = 1024

_PCI = "/sys/bus/pci/devices/%s"
# The module as NCCL looks for it (ncclIbGdrModuleLoaded() in net_ib/gdr.cc), the last two by its names before 2021.
_PEERMEM = (
    "/sys/module/nvidia_peermem/version",
    "/sys/kernel/mm/memory_peers/nv_mem/version",
    "/sys/kernel/mm/memory_peers/nv_mem_nc/version",
)
_DRIVER, _RELEASE = "/proc/driver/nvidia/version", "/proc/sys/kernel/osrelease"


class Gpus(t.NamedTuple):
    """What nvidia-smi reports."""

    problems: list[str]
    busy: list[str]
    addresses: list[str] | None  # PCI addresses; None: not known


def survey(host: Host) -> Gpus:
    """Return the GPUs, and which of them are in use."""
    if host.which("nvidia-smi") is None:
        return Gpus([], [], [])
    status, text = host.run(["nvidia-smi", *(_PROCESSES if host.sees_processes else _LOADS)], 30)
    if status != 0:
        return Gpus(["cannot determine whether the GPUs are in use: nvidia-smi %s" % _ended(status, text)], [], None)
    rows = [[field.strip() for field in line.split(",", 1)] for line in text.strip().split("\n") if "," in line]
    if host.sees_processes:
        busy = ["a GPU is in use by %s (PID %s)" % (name, pid) for pid, name in rows]
    else:
        busy = [_in_use(gpu, load) for gpu, load in rows if load != "0"]
    status, text = host.run(["nvidia-smi", *_ADDRESSES], 30)
    if status != 0:
        return Gpus(["cannot determine the number of GPUs: nvidia-smi %s" % _ended(status, text)], busy, None)
    return Gpus([], busy, [address.lower() for address in _ADDRESS.findall(text)[:_MOST]])


def _in_use(gpu: str, load: str) -> str:
    if load.isdigit():
        return "GPU %s is in use (%s%% of the time)" % (gpu, load)
    # NVIDIA MIG user guide, "Device Monitoring": none is reported in MIG mode.
    text = "cannot determine whether GPU %s is in use: nvidia-smi reports no utilization (%s), as in MIG mode"
    return text % (gpu, load)


def _ended(status: int | None, text: str) -> str:
    if status is None:
        return "timed out after 30 s"
    return "exited with %d: %s" % (status, text.strip().split("\n")[-1][:200])


def choose(ports: t.Sequence[t.Mapping[str, t.Any]], gpus: t.Sequence[str], host: Host) -> list[dict[str, t.Any]]:
    """Return for each port by ``rail`` the PCI address of the ``gpu`` to measure with, or why there is none."""
    if not gpus:
        return [{"rail": port["rail"], "gpu": None, "dmabuf": True, "gpu_error": None} for port in ports]
    dmabuf, error = _peer_memory(host)
    addresses = [*gpus, *(port["pci_address"] for port in ports if port.get("pci_address"))]
    places = _places(addresses, host)
    choices = []
    for port in ports:
        gpu, why = (None, error) if error else _nearest(port, gpus, places)
        choices.append({"rail": port["rail"], "gpu": gpu, "dmabuf": dmabuf, "gpu_error": why})
    return choices


class _Place(t.NamedTuple):
    path: tuple[str, ...]  # bridges from the root, and the device
    numa_node: str


def _places(addresses: t.Sequence[str], host: Host) -> dict[str, _Place]:
    """Return where PCI devices are; one that sysfs does not show is left out."""
    paths = host.real_paths([_PCI % address for address in addresses])
    nodes = host.texts([_PCI % address + "/numa_node" for address in addresses])
    return {
        address: _Place(tuple(path.split("/")[3:]), node.strip())
        for address, path, node in zip(addresses, paths, nodes)
        if path.startswith("/sys/devices/")
    }


def _closeness(first: _Place, second: _Place) -> tuple[int, bool]:
    """Return how many bridges two devices share, and whether they have the same NUMA node."""
    shared = 0
    for bridges in zip(first.path, second.path):
        if bridges[0] != bridges[1]:
            break
        shared += 1
    return shared, first.numa_node == second.numa_node


def _nearest(
    port: t.Mapping[str, t.Any], gpus: t.Sequence[str], places: t.Mapping[str, _Place]
) -> tuple[str | None, str | None]:
    """Return the GPU with the shortest PCI path to a port; rails to which several are as near take turns."""
    address = port.get("pci_address")
    lost = [pci for pci in (address, *gpus) if pci and pci not in places]
    if lost:
        paths = ", ".join(_PCI % pci for pci in lost)
        return None, "cannot determine the GPU nearest to %s: %s cannot be read" % (port["device"], paths)
    near = sorted(gpus)
    if address:
        closeness = {gpu: _closeness(places[address], places[gpu]) for gpu in near}
        near = [gpu for gpu in near if closeness[gpu] == max(closeness.values())]
    return near[port["rail"] % len(near)], None


def _peer_memory(host: Host) -> tuple[bool, str | None]:
    """Return whether ib_write_bw shall register memory of GPUs by DMA-BUF (else by nvidia_peermem), or why by neither.

    DMA-BUF needs NVIDIA's open kernel modules and Linux 5.12 (NVIDIA GPU Operator, "GPUDirect RDMA and GPUDirect
    Storage"). perftest's usage lists what it was built with; it uses DMA-BUF only with the option (perftest#346).
    """
    _status, usage = host.run(["ib_write_bw", "--help"], 30)
    if "--use_cuda_bus_id" not in usage:
        return False, "ib_write_bw was built without CUDA (it has no --use_cuda_bus_id)"
    driver, release, *modules = host.texts([_DRIVER, _RELEASE, *_PEERMEM])
    kernel = re.match(r"(\d+)\.(\d+)", release)
    if "--use_cuda_dmabuf" not in usage:
        why = "ib_write_bw was built without it (it has no --use_cuda_dmabuf)"
    elif driver and "Open Kernel Module" not in driver:
        why = "the NVIDIA driver's kernel modules are not the open ones"
    elif kernel and (int(kernel.group(1)), int(kernel.group(2))) < (5, 12):
        why = "Linux %s is older than 5.12" % release.strip()
    else:
        return True, None
    if any(modules):
        return False, None
    return False, "GPUDirect RDMA by DMA-BUF is not possible, as %s, and nvidia_peermem is not loaded" % why


__all__ = ("Gpus", "choose", "survey")
