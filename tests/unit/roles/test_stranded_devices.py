# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What gpu_node moves back to the host: the loops over what rdma_audit_info returned."""

from __future__ import annotations

import typing as t

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._netns.survey import Namespace
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._rdma.pci_netdevs import Netdev
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._rdma_devices.audit import Card, audit
from ansible_collections.rdmaops.gpu_fabric.tests.support import COLLECTION
from ansible_collections.rdmaops.gpu_fabric.tests.support.role_values import values
from ansible_collections.rdmaops.gpu_fabric.tests.unit.plugins.module_utils._rdma_devices.test_audit import (
    BLUE,
    HOST,
    MOUNT,
    PAUSE,
    POD,
    FakeHost,
    blue,
    rows,
)

Json = t.Any
CARD = "0000:07:00.0"
GUID = "0c42:a103:0065:1f2e"
OMIT = "__omit_place_holder__"
TASKS = {"Move them back": "rdma_device", "Move their network devices back": "network_device"}


def stranded(*netdevs: Card) -> Json:
    """Return what rdma_audit_info returns of a host with two devices in a namespace that is left, and one in a pod."""
    left, held = rows("mlx5_0", "mlx5_1"), rows("mlx5_2")
    left["devices"][0]["node_guid"] = GUID
    left["devices"][1]["node_guid"] = "0000:0000:0000:0000"
    pod = Namespace(POD, "cni-1", [PAUSE], 1)
    host = FakeHost([(blue(MOUNT), left), (pod, held)])
    host.netdevs = list(netdevs)
    return audit([], 0, host)


def moved(audited: Json) -> dict[str, list[Json]]:
    """Return the arguments of each module, item by item."""
    role = values(COLLECTION / "roles/gpu_node")
    site = {"__gpu_node_audit": audited, "omit": OMIT}
    calls = {}
    for name, module in TASKS.items():
        items = role.task("devices.yml", name, "loop", **site)
        fqcn = f"rdmaops.gpu_fabric.{module}"
        arguments = [role.task("devices.yml", name, fqcn, **site, item=item) for item in items]
        calls[module] = [{key: value for key, value in one.items() if value != OMIT} for one in arguments]
    return calls


def test_what_is_moved_back() -> None:
    netdevs = [
        Card(Netdev("eth0", "0000:01:00.0"), HOST),
        Card(Netdev("net1", "0000:02:00.0"), POD),
        Card(Netdev("net1", CARD), BLUE),
        Card(Netdev("net2", CARD, "mlx5_core.sf.4"), BLUE),
        Card(Netdev("net3", CARD, port=2), BLUE),
    ]
    calls = moved(stranded(*netdevs))
    # By its node GUID, which is unique on the host, unless it is zero.
    assert calls["rdma_device"] == [
        {"name": GUID, "state": "detached"},
        {"name": "mlx5_1", "state": "detached"},
    ]
    assert [{**call, "port": int(call["port"])} for call in calls["network_device"]] == [
        {"pci_address": CARD, "port": 1},
        {"pci_address": CARD, "port": 2},
        {"pci_address": CARD, "auxiliary_device": "mlx5_core.sf.4", "port": 1},
    ]


def test_what_is_at_home_or_in_a_pod_stays() -> None:
    pod = Namespace(POD, "cni-1", [PAUSE], 1)
    host = FakeHost([(pod, rows("mlx5_2"))])
    host.netdevs = [Card(Netdev("eth0", "0000:01:00.0"), HOST), Card(Netdev("net1", "0000:02:00.0"), POD)]
    assert moved(audit([], 0, host)) == {"rdma_device": [], "network_device": []}
