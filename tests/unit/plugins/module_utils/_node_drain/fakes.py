# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes, pods, an API server and a clock for the tests of the drain."""

from __future__ import annotations

import copy
import time
import typing as t

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._kubernetes.client import MANAGER, ApiError
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._node_drain import lease as leases
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._node_drain import manage as node_drain
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._node_drain import node as memory
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._node_drain import pods as rules
from ansible_collections.rdmaops.gpu_fabric.tests.support.module import options_of

Json = t.Any


def node(name: str, machine: str = "", *ips: str, **more: Json) -> Json:
    addresses = [{"type": "InternalIP", "address": ip} for ip in ips]
    addresses += [{"type": "Hostname", "address": name}, {"type": "ExternalIP", "address": "203.0.113.1"}]
    status = {"nodeInfo": {"machineID": machine, "bootID": "b1"}, "addresses": addresses}
    return {"metadata": {"name": name, **more.get("metadata", {})}, "spec": more.get("spec", {}), "status": status}


def owned(*names: str) -> Json:
    """Return the managedFields of a Node, of which these have set whether pods may come."""
    status = {"manager": "kubelet", "operation": "Update", "fieldsV1": {"f:status": {"f:conditions": {}}}}
    return [status, *({"manager": name, "fieldsV1": {"f:spec": {"f:unschedulable": {}}}} for name in names)]


def pod(**more: Json) -> Json:
    owner = {"kind": "Job", "name": "train", "controller": True}
    meta = {"namespace": "ml", "name": "p", "uid": "u", "ownerReferences": [owner], **more.pop("meta", {})}
    resources = {"limits": more.pop("limits", {})}
    spec = {"containers": [{"name": "c", "resources": resources}], **more.pop("spec", {})}
    return {"metadata": meta, "spec": spec, "status": {"phase": "Running", **more}}


PATTERNS = ["nvidia.com/*", "*gpu*", "*rdma*"]
NET = "k8s.v1.cni.cncf.io/networks"


STAYS = (
    ". The node stays cordoned, with this in its annotation rdmaops.gpu-fabric/maintenance, and the next run continues from "
    "there"
)

FREE = pod()
CONSENTS = {
    rules.DEVICES: pod(limits={"nvidia.com/gpu": "1"}),
    rules.FORCE: pod(meta={"ownerReferences": []}),
    rules.EMPTY_DIR: pod(spec={"volumes": [{"name": "s", "emptyDir": {}}]}),
}


LEASES = "/apis/coordination.k8s.io/v1/namespaces/rdmaops-system/leases"


class Overtaken:
    """An API server at which somebody else is always a little faster, a number of times."""

    def __init__(self, times: int, code: int = 409) -> None:
        self.times, self.code = times, code
        self.raw: Json = None

    def get(self, path: str, _doing: str) -> Json:
        assert path == LEASES + "/rdmaops-gpu-fabric-maintenance"
        return copy.deepcopy(self.raw)

    def create(self, path: str, body: Json, doing: str, dry_run: bool = False) -> Json:
        assert path == LEASES
        return self.replace(path + "/" + body["metadata"]["name"], body, doing)

    def replace(self, path: str, body: Json, doing: str) -> Json:
        assert path == LEASES + "/rdmaops-gpu-fabric-maintenance"
        if self.times:
            self.times -= 1
            raise ApiError(doing, self.code)
        self.raw = copy.deepcopy(body)
        return copy.deepcopy(body)


def lease_of(server: Json, run: str, duration: int = 600) -> leases.Lease:
    return leases.Lease(t.cast("t.Any", server), run, {"lease_duration": duration, "lease_namespace": "rdmaops-system"})


class Plane:
    """An API server with one Node and a Lease. Each look at the pods has the next of ``looks``; the last one stays."""

    def __init__(self, *looks: list[Json], **more: Json) -> None:
        self.node = node("a", "m1", "192.0.2.1", **more)
        self.node["metadata"].update(uid="n", resourceVersion="1")
        self.lease: Json = None
        self.looks = list(looks)
        self.rehearsed: list[str] = []
        self.evicted: list[str] = []
        self.written: list[str] = []
        self.others: list[Json] = []
        self.lists: dict[str, Json] = {}
        # what is refused the next time: a part of what is being done, and the error
        self.errors: list[tuple[str, ApiError]] = []

    def _refuse(self, doing: str) -> None:
        for number, (part, error) in enumerate(self.errors):
            if part in doing:
                del self.errors[number]
                raise error

    def items(self, path: str, doing: str, query: Json = None) -> Json:
        self._refuse(doing)
        if path == "/api/v1/nodes":
            return copy.deepcopy([*self.others, self.node])
        if path == "/api/v1/pods":
            assert query == {"fieldSelector": "spec.nodeName=a"}
            return copy.deepcopy(self.looks.pop(0) if len(self.looks) > 1 else self.looks[0])
        return self.lists[path]

    def get(self, path: str, doing: str) -> Json:
        self._refuse(doing)
        return copy.deepcopy(self.node if path == "/api/v1/nodes/a" else self.lease)

    def merge(self, path: str, body: Json, doing: str) -> None:
        self._refuse("Writing: " + doing)
        assert path == "/api/v1/nodes/a"
        known = {key: self.node["metadata"][key] for key in ("uid", "resourceVersion")}
        assert known.items() <= body["metadata"].items()
        self.written.append(doing)
        if "unschedulable" in body.get("spec", {}):
            self.node["metadata"]["managedFields"] = owned(MANAGER)
        self.node["spec"].update(body.get("spec", {}))
        self.node["metadata"].setdefault("annotations", {}).update(body["metadata"].get("annotations", {}))

    def create(self, path: str, body: Json, doing: str, **more: Json) -> Json:
        if not path.endswith("/eviction"):
            return body if more.get("dry_run") else self.replace(path, body, doing)
        meta = body["metadata"]
        assert path == f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}/eviction"
        assert (body["apiVersion"], body["kind"], more["patient"]) == ("policy/v1", "Eviction", False)
        self._refuse(("Rehearsing: " if more["dry_run"] else "") + doing)
        assert body["deleteOptions"]["preconditions"]["uid"]
        (self.rehearsed if more["dry_run"] else self.evicted).append(meta["name"])
        return {}

    def replace(self, _path: str, body: Json, _doing: str) -> Json:
        self.lease = copy.deepcopy(body)
        return body

    @property
    def cordoned(self) -> bool:
        return memory.is_cordoned(self.node)

    @property
    def note(self) -> Json:
        return memory.note_of(self.node)

    def manage(self, check: bool = False, **more: Json) -> Json:
        limits = dict.fromkeys(("drain_timeout", "ready_timeout", "lease_duration"), 60)
        host = {"name": "a", "run": "one", "reason": "a test", "machine_id": "m1", "wait_ready": False}
        params = options_of("node_drain", **{**host, **limits, **more})
        return node_drain.manage(params, check, t.cast("t.Any", self))


class Clock:
    """Time that goes by only in sleep."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1_790_000_000.0
        monkeypatch.setattr(time, "time", lambda: self.now)
        monkeypatch.setattr(time, "monotonic", lambda: self.now)
        monkeypatch.setattr(time, "sleep", self.sleep)

    def sleep(self, seconds: float) -> None:
        self.now += seconds
