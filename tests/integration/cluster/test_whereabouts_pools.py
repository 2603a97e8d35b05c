# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The audit of whereabouts' pools, and the freeing, against a real API server. The clock alone is the test's."""

from __future__ import annotations

import datetime
import json
import typing as t
import uuid
from collections.abc import Iterator

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._kubernetes.client import ApiError, Client
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._whereabouts import pools
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._whereabouts.pools import PoolsError, manage
from ansible_collections.rdmaops.gpu_fabric.tests.support import COLLECTION
from ansible_collections.rdmaops.gpu_fabric.tests.support.cluster import Cluster
from ansible_collections.rdmaops.gpu_fabric.tests.support.objects import apply_set, client, manifest

Json = t.Any
API = pools.API
POOL = "10.100.0.0-28"


class Lab:
    """Pools, a node and pods of the test's own, in a namespace of its own."""

    def __init__(self, plane: Cluster, namespace: str, node: str) -> None:
        self.plane, self.namespace, self.node = plane, namespace, node
        self.now = datetime.datetime(2026, 11, 21, 3, 0, 0)

    def apply(self, api: str, kind: str, name: str, **content: Json) -> None:
        self.plane.apply(manifest(api, kind, name, self.namespace, **content))

    def pool(self, **allocations: str) -> None:
        slots = {key[1:]: {"id": "sandbox-" + key, "podref": ref, "ifname": "net1"} for key, ref in allocations.items()}
        self.apply(API, "IPPool", POOL, spec={"range": "10.100.0.0/28", "allocations": slots})

    def reserve(self, address: str, ref: str) -> None:
        self.apply(API, "OverlappingRangeIPReservation", address, spec={"podref": ref})

    def pod(self, name: str, *addresses: str, phase: str = "Running") -> None:
        status = [{"name": "x/rail0", "interface": "net1", "ips": list(addresses)}]
        notes = {"k8s.v1.cni.cncf.io/network-status": json.dumps(status)} if addresses else {}
        spec = {"nodeName": self.node, "containers": [{"name": "c", "image": "none"}]}
        spec["terminationGracePeriodSeconds"] = 0
        self.apply("v1", "Pod", name, metadata={"annotations": notes}, spec=spec)
        ready = {"type": "Ready", "status": "True" if phase == "Running" else "False"}
        self._status("pod", name, {"phase": phase, "conditions": [ready]}, "-n", self.namespace)

    def ready(self, ready: bool) -> None:
        self._status("node", self.node, {"conditions": [{"type": "Ready", "status": "True" if ready else "Unknown"}]})

    def _status(self, kind: str, name: str, status: Json, *more: str) -> None:
        patch = json.dumps({"status": status})
        self.plane.kubectl("patch", kind, name, *more, "--subresource=status", "--type=merge", "-p", patch)

    def delete(self, name: str) -> None:
        self.plane.kubectl("delete", "pod", name, "-n", self.namespace, "--grace-period=0", "--force")

    def allocations(self) -> list[str]:
        return sorted(self.plane.json("get", "ippool", POOL, "-n", self.namespace)["spec"]["allocations"])

    def others(self) -> list[str]:
        """Nodes of other tests that are not ready hold nothing here."""
        items = self.plane.json("get", "nodes")["items"]
        return [item["metadata"]["name"] for item in items if item["metadata"]["name"] != self.node]

    def run(self, minutes: float = 0, check: bool = False, **more: Json) -> Json:
        params = {"namespace": self.namespace, "reclaim": True, "reclaim_after": 600, "exhausted_share": 0.9}
        params["dead_nodes"] = self.others()
        now = self.now + datetime.timedelta(minutes=minutes)
        return manage({**params, **more}, check, client(self.plane.kubeconfig), now)


@pytest.fixture
def lab(plane: Cluster) -> Iterator[Lab]:
    definitions = COLLECTION / "roles/secondary_network/files/whereabouts-definitions.yml"
    apply_set(plane, "secondary-network", files=[str(definitions)], adopt=True, force_conflicts=True)
    node = f"node-{uuid.uuid4().hex[:8]}"
    with plane.namespace() as namespace:
        plane.apply(manifest("v1", "Node", node))
        scene = Lab(plane, namespace, node)
        scene.ready(True)
        yield scene
        plane.kubectl("delete", "pods", "--all", "-n", namespace, "--grace-period=0", "--force")
        plane.kubectl("delete", "node", node)


def test_a_leak_is_freed_after_two_sightings(lab: Lab) -> None:
    ref = f"{lab.namespace}/gone"
    lab.pod("here", "10.100.0.1")
    lab.pool(_1=f"{lab.namespace}/here", _2=ref)
    lab.reserve("10.100.0.1", f"{lab.namespace}/here")
    lab.reserve("10.100.0.2", ref)
    message = lab.run(reclaim=False)
    assert (message["changed"], [row["address"] for row in message["leaked"]]) == (False, ["10.100.0.2"])
    planned = lab.run(check=True)
    first = lab.run()
    assert planned["actions"] == first["actions"]
    assert first["actions"] == [f"Record which addresses of pool {POOL} have lost their pod, and since when"]
    for check in (False, True):
        assert lab.run(9, check=check)["changed"] is False
    checked, done = lab.run(10, check=True), lab.run(10)
    actions = [f"Free 10.100.0.2 ({ref}) of pool {POOL}", "Delete the OverlappingRangeIPReservation 10.100.0.2"]
    assert done["actions"] == checked["actions"] == actions
    assert lab.allocations() == ["1"]
    reserved = lab.plane.kubectl("get", "overlappingrangeipreservations", "-n", lab.namespace, "-o", "name")
    assert reserved.split() == ["overlappingrangeipreservation.whereabouts.cni.cncf.io/10.100.0.1"]
    again = lab.run(11)
    assert (again["changed"], again["clean"]) == (False, True)


def test_a_pod_of_the_same_name_keeps_its_new_address_only(lab: Lab) -> None:
    lab.pod("worker", "10.100.0.1")
    lab.pool(_1=f"{lab.namespace}/worker", _2=f"{lab.namespace}/worker")
    lab.run()
    # Another pod of that name: another UID, so the wait starts again.
    lab.delete("worker")
    lab.pod("worker", "10.100.0.1")
    assert lab.run(11)["leaked"][0]["first_seen"] is None
    lab.run(22)
    assert lab.allocations() == ["1"]


def test_pods_that_are_not_up_and_nodes_that_are_not_ready_hold(lab: Lab) -> None:
    lab.pod("pending", phase="Pending")
    lab.pod("done", phase="Succeeded")
    lab.pool(_1=f"{lab.namespace}/pending", _2=f"{lab.namespace}/done")
    for minutes in (0, 11, 22):
        result = lab.run(minutes)
        assert (len(result["held"]), result["leaked"], result["changed"]) == (2, [], False)
    lab.pool(_3=f"{lab.namespace}/gone")
    lab.ready(False)
    for minutes in (0, 11, 22):
        result = lab.run(minutes)
        assert result["nodes_not_ready"] == [lab.node]
        assert "may still run on a node that is not ready" in result["held"][-1]["why"]
    assert "3" in lab.allocations()
    lab.run(33, dead_nodes=[*lab.others(), lab.node])
    lab.run(44, dead_nodes=[*lab.others(), lab.node])
    assert "3" not in lab.allocations()


def test_whereabouts_was_faster(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.pool(_1=f"{lab.namespace}/gone")
    lab.run()
    real = pools.read

    def slow(connection: Client, namespace: str) -> Json:
        world = real(connection, namespace)
        # The pod is back between the look and the write, and is given its old address, as AssignIP() does.
        patch = json.dumps({"spec": {"allocations": {"1": {"id": "new"}}}})
        lab.plane.kubectl("patch", "ippool", POOL, "-n", namespace, "--type=merge", "-p", patch)
        return world

    monkeypatch.setattr(pools, "read", slow)
    with pytest.raises(PoolsError, match="it was changed in the meantime, so nothing was done to it.*run again"):
        lab.run(10)
    assert lab.allocations() == ["1"]


def test_rights_that_are_missing_are_named(lab: Lab) -> None:
    nobody = client(lab.plane.user("nobody-at-all"))
    params = {"namespace": lab.namespace, "reclaim": False, "reclaim_after": 600, "exhausted_share": 0.9}
    with pytest.raises(ApiError, match="Listing the IPPools of whereabouts .* Give this user that right by a Role"):
        manage({**params, "dead_nodes": []}, True, nobody)
