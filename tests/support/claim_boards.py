# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""ResourceSlices of boards with eight GPUs, as the drivers gpu.nvidia.com and dra.net publish them, made by hand."""

from __future__ import annotations

import typing as t

ROOT = "resource.kubernetes.io/pcieRoot"
NUMA = "resource.kubernetes.io/numaNode"
Raw = dict[str, t.Any]


def attributes(values: t.Mapping[str, t.Any]) -> Raw:
    kinds = {str: "string", bool: "bool", int: "int"}
    return {name: {kinds[type(value)]: value} for name, value in values.items()}


def gpu(number: int, root: str, numa: int) -> Raw:
    values = {"type": "gpu", "productName": "NVIDIA H100 80GB HBM3", "index": number, ROOT: root, NUMA: numa}
    return {"name": "gpu-%d" % number, "attributes": attributes(values)}


def card(number: int, root: str, numa: int, *, rdma: bool = True) -> Raw:
    """dra.net publishes qualified names, and no ifName while a pod has the card."""
    names = {"dra.net/ifName": "rail%d" % number, "dra.net/rdma": rdma, "dra.net/mtu": 9000}
    return {"name": "pci-0000-%02x-00-0" % (number + 16), "attributes": attributes({**names, ROOT: root, NUMA: numa})}


def piece(driver: str, node: str, devices: t.Sequence[Raw], **pool: t.Any) -> Raw:
    about = {"name": node, "generation": 1, "resourceSliceCount": 1, **pool}
    return {"spec": {"driver": driver, "nodeName": node, "pool": about, "devices": list(devices)}}


def root(number: int) -> str:
    return "pci0000:%02x" % (number * 16)


def roots(layout: str) -> tuple[list[str], list[str]]:
    """Return the roots of eight GPUs, and those of the cards."""
    every = [root(number) for number in range(8)]
    four = [root(number // 2) for number in range(8)]
    return {
        # Each GPU with its card below one root, as on boards with a switch for each pair.
        "pairs": (every, every),
        # Two of each below each of four roots.
        "switches": (four, four),
        # Cards below roots of their own, beside the GPUs on the same processor.
        "apart": (every, [root(number + 8) for number in range(8)]),
        # Four cards, each beside two GPUs.
        "half": (four, [root(number) for number in range(4)]),
        # Two of the cards were put into the slots of others.
        "wrong_slots": (every, [*every[:6], every[0], every[0]]),
    }[layout]


def board(node: str, layout: str = "pairs") -> list[Raw]:
    """Return the slices of one node."""
    of_gpus, of_cards = roots(layout)
    gpus = [gpu(number, place, number // 4) for number, place in enumerate(of_gpus)]
    each = len(of_cards) // 2
    cards = [card(number, place, number // each) for number, place in enumerate(of_cards)]
    return [piece("gpu.nvidia.com", node, gpus), piece("dra.net", node, cards)]


CLASSES = {
    "gpu.nvidia.com": ("device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'gpu'",),
    "dra.net": ('device.driver == "dra.net"',),
    "mig.nvidia.com": ("device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'mig'",),
}


def request(name: str, device_class: str, *selectors: str, **more: t.Any) -> Raw:
    exactly: Raw = {"deviceClassName": device_class, **more}
    if selectors:
        exactly["selectors"] = [{"cel": {"expression": text}} for text in selectors]
    return {"name": name, "exactly": exactly}


def rail(number: int) -> Raw:
    attribute = 'device.attributes["dra.net"]'
    return request(
        "rail%d" % number, "dra.net", 'has(%s.ifName) && %s.ifName == "rail%d"' % (attribute, attribute, number)
    )


def template(*requests: Raw, constraints: t.Sequence[Raw] = (), config: t.Sequence[Raw] = ()) -> Raw:
    devices = {"requests": list(requests), "constraints": list(constraints), "config": list(config)}
    meta = {"name": "worker", "namespace": "ml"}
    return {"kind": "ResourceClaimTemplate", "metadata": meta, "spec": {"spec": {"devices": devices}}}


def pairs(count: int, attribute: str = ROOT) -> Raw:
    """A pod with GPUs, each with an RDMA card of its own below the same root."""
    rows = [request("gpu%d" % number, "gpu.nvidia.com") for number in range(count)]
    rows += [request("nic%d" % number, "dra.net", 'device.attributes["dra.net"].rdma') for number in range(count)]
    bound = [{"requests": ["gpu%d" % number, "nic%d" % number], "matchAttribute": attribute} for number in range(count)]
    return template(*rows, constraints=bound)
