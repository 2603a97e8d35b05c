# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Claims that a board can satisfy, and claims that it cannot, with the sentence for each of these."""

from __future__ import annotations

import typing as t

from ansible_collections.rdmaops.gpu_fabric.tests.support import claim_boards as boards
from ansible_collections.rdmaops.gpu_fabric.tests.support.claim_boards import (
    NUMA,
    ROOT,
    Raw,
    board,
    pairs,
    rail,
    request,
)


def claimed(device: str, driver: str = "dra.net") -> Raw:
    results = [{"driver": driver, "pool": "a", "device": device, "request": "rail0"}]
    return {
        "metadata": {"namespace": "ml", "name": "worker-0-net"},
        "status": {"allocation": {"devices": {"results": results}}},
    }


def tainted(pieces: list[Raw], device: str) -> list[Raw]:
    for piece in pieces:
        for raw in piece["spec"]["devices"]:
            if raw["name"] == device:
                raw["taints"] = [{"key": "rdmaops/cable", "value": "loose", "effect": "NoSchedule"}]
    return pieces


def in_pod(pieces: list[Raw], device: str) -> list[Raw]:
    """What dra.net leaves of a card whose network device is in a pod."""
    for piece in pieces:
        for raw in piece["spec"]["devices"]:
            if raw["name"] == device:
                raw["attributes"] = {ROOT: raw["attributes"][ROOT], "dra.net/rdma": {"bool": False}}
    return pieces


def bound(*names: str, attribute: str = ROOT, kind: str = "matchAttribute") -> Raw:
    return {"requests": list(names), kind: attribute}


def opaque(driver: str, requests: t.Sequence[str] = (), **parameters: t.Any) -> Raw:
    return {"requests": list(requests), "opaque": {"driver": driver, "parameters": parameters}}


GPU = "gpu.nvidia.com"
ONE_PAIR = boards.template(request("gpu", GPU), rail(0), constraints=[bound("gpu", "rail0")])

POSSIBLE: dict[str, tuple[Raw, list[Raw]]] = {
    "eight pairs on a board of pairs": (pairs(8), board("a")),
    "eight pairs, two below each switch": (pairs(8), board("a", "switches")),
    "one rail by its name": (boards.template(rail(7)), board("a")),
    "all cards": (boards.template(request("all", "dra.net", allocationMode="All")), board("a")),
    "four GPUs of one processor": (
        boards.template(request("gpus", GPU, count=4), constraints=[bound("gpus", attribute=NUMA)]),
        board("a"),
    ),
    "cards of different roots": (
        boards.template(request("nics", "dra.net", count=8), constraints=[bound("nics", kind="distinctAttribute")]),
        board("a"),
    ),
    "the second of two alternatives": (
        boards.template(
            {
                "name": "gpu",
                "firstAvailable": [
                    {"name": "slice", "deviceClassName": "mig.nvidia.com"},
                    {"name": "whole", "deviceClassName": GPU},
                ],
            },
            rail(0),
            constraints=[bound("gpu/whole", "rail0")],
        ),
        board("a"),
    ),
    "a taint that is tolerated": (
        boards.template(
            request("nics", "dra.net", count=8, tolerations=[{"key": "rdmaops/cable", "operator": "Exists"}])
        ),
        tainted(board("a"), "pci-0000-10-00-0"),
    ),
    "a card in use that shows itself": (boards.template(rail(0)), board("a")),
}

# What is claimed, of which board, the code, and the sentence.
IMPOSSIBLE: dict[str, tuple[Raw, list[Raw], str, str]] = {
    "cards below roots of their own": (
        pairs(8),
        board("a", "apart"),
        "split",
        "requests gpu0, nic0 cannot have one value of resource.kubernetes.io/pcieRoot: gpu0 has pci0000:00, pci0000:10, "
        "pci0000:20, pci0000:30 and 4 more; nic0 has pci0000:80, pci0000:90, pci0000:a0, pci0000:b0 and 4 more. "
        "With matchAttribute resource.kubernetes.io/numaNode there is a solution, where that is close enough",
    ),
    "one pair, split": (
        ONE_PAIR,
        board("a", "apart"),
        "split",
        "requests gpu, rail0 cannot have one value of resource.kubernetes.io/pcieRoot",
    ),
    "cards in the wrong slots": (
        pairs(8),
        board("a", "wrong_slots"),
        "too_few_together",
        "8 constraints on resource.kubernetes.io/pcieRoot, for which 6 values have devices of all their requests "
        "(pci0000:00, pci0000:10, pci0000:20, pci0000:30 and 2 more)",
    ),
    "more pairs than cards": (
        pairs(8),
        board("a", "half"),
        "too_few_devices",
        "requests nic0, nic1, nic2, nic3 and 4 more ask for 8 devices, and 4 match: pci-0000-10-00-0, ",
    ),
    "more GPUs than there are": (
        boards.template(request("gpus", GPU, count=9)),
        board("a"),
        "too_few_devices",
        "request gpus asks for 9 devices, and 8 match: gpu-0, gpu-1, gpu-2, gpu-3 and 4 more",
    ),
    "a rail twice": (
        boards.template({**rail(0), "name": "one"}, {**rail(0), "name": "two"}),
        board("a"),
        "too_few_devices",
        "requests one, two ask for 2 devices, and 1 match: pci-0000-10-00-0",
    ),
    "a driver that is not there": (
        ONE_PAIR,
        board("a")[1:],
        "driver_missing",
        "request gpu: no device is of class gpu.nvidia.com; the drivers with devices are: dra.net",
    ),
    "no driver at all": (
        boards.template(rail(0)),
        [],
        "driver_missing",
        "request rail0: no device is of class dra.net; the drivers with devices are: none",
    ),
    "a class that does not exist": (
        boards.template(request("gpu", "nvidia.com")),
        board("a"),
        "class_missing",
        "request gpu: there is no DeviceClass nvidia.com (there are: dra.net, gpu.nvidia.com, mig.nvidia.com)",
    ),
    "a class of another kind of device": (
        boards.template(request("gpu", "mig.nvidia.com")),
        board("a"),
        "driver_missing",
        "request gpu: no device is of class mig.nvidia.com",
    ),
    "a rail that no card is": (
        boards.template(rail(8)),
        board("a"),
        "none_selected",
        "request rail8: its selectors are true of none of the 8 devices of class dra.net "
        "(dra.net/ifName is rail0, rail1, rail2, rail3 and 4 more)",
    ),
    "an attribute of the other driver": (
        boards.template(request("nic", "dra.net", 'has(device.attributes["gpu.nvidia.com"].index)')),
        board("a"),
        "none_selected",
        "(none has gpu.nvidia.com/index)",
    ),
    "cards without RDMA": (
        pairs(1),
        [board("a")[0], boards.piece("dra.net", "a", [boards.card(0, boards.root(0), 0, rdma=False)])],
        "none_selected",
        "(dra.net/rdma is False)",
    ),
    "a tainted rail": (
        boards.template(rail(0)),
        tainted(board("a"), "pci-0000-10-00-0"),
        "device_tainted",
        "request rail0: what it could have is tainted: pci-0000-10-00-0 (rdmaops/cable=loose:NoSchedule)",
    ),
    "an expression without an answer": (
        boards.template(request("nic", "dra.net", 'device.attributes["dra.net"].speed == "400G"')),
        board("a"),
        "expression_aborts",
        "request nic: an expression has no answer: for the device pci-0000-10-00-0, it has no attribute dra.net/speed; "
        "the scheduler gives up the whole claim then. Test for the attribute first",
    ),
    "an attribute that a driver does not publish": (
        boards.template(request("gpu", GPU), rail(0), constraints=[bound("gpu", "rail0", attribute="dra.net/ifName")]),
        board("a"),
        "attribute_missing",
        "no device of request gpu has the attribute dra.net/ifName (driver gpu.nvidia.com). "
        "With matchAttribute resource.kubernetes.io/pcieRoot there is a solution",
    ),
    "five GPUs of one processor": (
        boards.template(request("gpus", GPU, count=5), constraints=[bound("gpus", attribute=NUMA)]),
        board("a"),
        "split",
        "request gpus cannot have one value of resource.kubernetes.io/numaNode: gpus has 0, 1",
    ),
    "all cards, and of one root": (
        boards.template(request("all", "dra.net", allocationMode="All"), constraints=[bound("all")]),
        board("a"),
        "split",
        "request all cannot have one value of resource.kubernetes.io/pcieRoot",
    ),
    "different roots where they are shared": (
        boards.template(request("gpus", GPU, count=8), constraints=[bound("gpus", kind="distinctAttribute")]),
        board("a", "switches"),
        "same_value",
        "request gpus cannot have different values of resource.kubernetes.io/pcieRoot",
    ),
    "alternatives none of which there is": (
        boards.template(
            {
                "name": "gpu",
                "firstAvailable": [
                    {"name": "slice", "deviceClassName": "mig.nvidia.com"},
                    {"name": "amd", "deviceClassName": "gpu.amd.com"},
                ],
            }
        ),
        board("a"),
        "driver_missing",
        "request gpu: no device is of class mig.nvidia.com",
    ),
    "a pool of an earlier generation": (
        boards.template(request("nics", "dra.net", count=8)),
        [*board("a"), boards.piece("dra.net", "a", [boards.card(0, boards.root(0), 0)], generation=2)],
        "too_few_devices",
        "request nics asks for 8 devices, and 1 match: pci-0000-10-00-0",
    ),
}
