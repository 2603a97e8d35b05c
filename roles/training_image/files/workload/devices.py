# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The device of a rank, and how the ranks communicate."""

from __future__ import annotations

import fcntl
import socket
import struct

import torch
import torch.distributed as dist
from common import WorkloadError

# linux/sockios.h
SIOCGIFADDR = 0x8915


def choose_device(use_cuda: bool | None, local_rank: int) -> torch.device:
    """Return this rank's device, made current: NCCL and allocations never use another rank's GPU."""
    if use_cuda is False:
        return torch.device("cpu")
    if not torch.cuda.is_available():
        if use_cuda:
            why = (
                "this PyTorch is built without CUDA" if torch.version.cuda is None else "no CUDA device is usable here"
            )
            raise WorkloadError("--use-cuda: %s (PyTorch %s)" % (why, torch.__version__))
        return torch.device("cpu")
    count = torch.cuda.device_count()
    if local_rank >= count:
        raise WorkloadError("Local rank %d needs GPU %d, but %d are visible here" % (local_rank, local_rank, count))
    torch.cuda.set_device(local_rank)
    return torch.device("cuda", local_rank)


def choose_backend(requested: str | None, device: torch.device) -> str:
    """Return the process group's backend. Raises WorkloadError for one that this PyTorch or device does not have."""
    if not dist.is_available():
        raise WorkloadError("PyTorch %s is built without torch.distributed" % torch.__version__)
    built = {"nccl": dist.is_nccl_available, "gloo": dist.is_gloo_available, "mpi": dist.is_mpi_available}
    available = [name for name, is_available in built.items() if is_available()]
    backend = requested or ("nccl" if device.type == "cuda" else "gloo")
    if backend == "nccl" and device.type != "cuda":
        raise WorkloadError("The backend nccl needs GPUs, but this rank is on a CPU: --backend gloo works there")
    if backend not in available:
        raise WorkloadError(
            "PyTorch %s is built without the backend %s; it has %s (--backend)"
            % (torch.__version__, backend, ", ".join(available) or "none")
        )
    return backend


def device_name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"


def interface_towards(address: str) -> str | None:
    """Return the network interface from which this host reaches ``address``.

    By default gloo uses the interface of the host's own name, which in a pod is the cluster's network, and waits half a
    minute if that name cannot be resolved.
    """
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((address, 9))
            mine = socket.inet_aton(probe.getsockname()[0])
            for _index, name in socket.if_nameindex():
                request = struct.pack("256s", name.encode()[:15])
                try:
                    answer = fcntl.ioctl(probe.fileno(), SIOCGIFADDR, request)
                except OSError:
                    continue  # an interface without an IPv4 address
                if answer[20:24] == mine:
                    return name
    except OSError:
        pass  # IPv6 only, or no route: gloo chooses
    return None


__all__ = ("choose_backend", "choose_device", "device_name", "interface_towards")
