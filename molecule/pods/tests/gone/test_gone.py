# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The pods are gone, and a pod whose sandbox is killed gets its device again."""

from __future__ import annotations

import podlab
import pytest


@pytest.mark.parametrize("node", podlab.NODES)
def test_the_card_and_the_device_are_back(lab: podlab.PodLab, node: str) -> None:
    assert lab.pods() == []
    lab.wait("the device is back on the host", lambda: lab.names_on_host(node) == ["rxe0", "rxe1"])
    card = lab.nodes[node].shell("basename $(readlink -f /sys/class/net/rail0/device/..)").strip()
    assert card == podlab.CARD
    audit = lab.module(node, "rdma_audit", expected=["rxe0", "rxe1"], settle=5)
    assert {one["status"] for one in audit["resources"]} == {"in_sync"}
    places = {one["name"]: one["live"] for one in audit["resources"]}
    assert (places["rxe0"], places[podlab.CARD]) == ("the host", "rail0 on the host")


def test_no_address_is_left(lab: podlab.PodLab) -> None:
    pools = lab.cluster.json("get", "ippools.whereabouts.cni.cncf.io", "-n", "kube-system")["items"]
    assert [one for pool in pools for one in (pool["spec"].get("allocations") or {}).values()] == []


def test_a_pod_whose_sandbox_is_killed_gets_its_device_again(lab: podlab.PodLab) -> None:
    """And one whose container is killed keeps it: the network namespace is the sandbox's."""
    node = lab.nodes["gpu-1"]

    def space(pod: str) -> str:
        return lab.inside(pod, "readlink", "/proc/self/ns/net", check=False).strip()

    def container() -> str:
        return str(lab.pod("again")["status"]["containerStatuses"][0].get("containerID"))

    with lab.run_pod("again", "gpu-1", rail=True, restartPolicy="Always"):
        lab.ready("again")
        lab.wait("the device is in the pod", lambda: [one["ifname"] for one in lab.devices("again")] == ["rxe0"])
        first_space, first = space("again"), container()
        node.shell("pkill -KILL -f '^sleep infinity'")
        lab.wait("another container runs", lambda: container() != first)
        lab.ready("again")
        assert space("again") == first_space
        assert [one["ifname"] for one in lab.devices("again")] == ["rxe0"]
        node.shell("pkill -KILL -x pause")
        lab.wait("the pod has another sandbox", lambda: space("again") not in ("", first_space), podlab.POD_S)
        lab.ready("again")
        lab.wait(
            "the device is in the new sandbox", lambda: [one["ifname"] for one in lab.devices("again")] == ["rxe0"]
        )
        assert lab.names_on_host("gpu-1") == ["rxe1"]
    lab.wait("the device is back", lambda: lab.names_on_host("gpu-1") == ["rxe0", "rxe1"])
