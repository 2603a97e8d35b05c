# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes without machines on a real API server, and who plays their kubelet: it ends pods that are being deleted, and gives
signs of life.

Controllers, scheduler and budgets are real. A pod is bound by its nodeName, and a ReplicaSet of its labels adopts it.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
import typing as t
import uuid

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._kubernetes.client import ApiError, Client, path
from ansible_collections.rdmaops.gpu_fabric.tests.support.cluster import Cluster
from ansible_collections.rdmaops.gpu_fabric.tests.support.objects import client, manifest
from ansible_collections.rdmaops.gpu_fabric.tests.support.waiting import wait_for

Json = t.Any
MACHINE_ID = "0ab34fb1c9d84c2f8a4e0a6c1d2b7e55"
# As the kubelet does (nodeLeaseDurationSeconds / 4).
RENEW_S = 10.0
BOOT_ID = "0d8d4c1b-5f06-4c8e-9f54-4a53b1a7a6d2"
ADDRESS = "192.0.2.11"
# Which test a Node belongs to.
LABEL = "test-namespace"


class Lab:
    """One namespace, the nodes of a test, and their kubelet."""

    def __init__(self, plane: Cluster, namespace: str) -> None:
        self.plane, self.namespace = plane, namespace
        self.api = client(plane.kubeconfig)
        self.nodes: list[str] = []
        self._kubelet: subprocess.Popen[bytes] | None = None

    # What there is

    def node(self, name: str = "", **more: Json) -> str:
        """Make a Node as its kubelet would have registered it; `status` and `labels` may be given."""
        name = name or f"gpu-{uuid.uuid4().hex[:8]}"
        labels = {LABEL: self.namespace, **more.get("labels", {})}
        # The scheduler would put here what waits elsewhere; a pod that names its node does not ask it.
        spec = {"taints": [{"key": LABEL, "effect": "NoSchedule"}]}
        body = manifest("v1", "Node", name, metadata={"labels": labels}, spec=spec)
        self.api.create(path("v1", "nodes"), body, f"Making {name}")
        self.nodes.append(name)
        status = {
            "nodeInfo": {**self._info(), "machineID": MACHINE_ID, "bootID": BOOT_ID},
            "addresses": [{"type": "InternalIP", "address": ADDRESS}],
            "conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": _now()}],
            "allocatable": {"cpu": "8", "memory": "8Gi", "pods": "110", "nvidia.com/gpu": "8", "rdma/hca": "1k"},
        }
        status["capacity"] = status["allocatable"]
        self.status(name, **{**status, **more.get("status", {})})
        return name

    def _info(self) -> dict[str, str]:
        # Strings that a Node's status has to have (NodeSystemInfo).
        keys = ("architecture", "containerRuntimeVersion", "kernelVersion", "kubeProxyVersion", "kubeletVersion")
        return dict.fromkeys((*keys, "operatingSystem", "osImage", "systemUUID"), "")

    def status(self, name: str, **status: Json) -> None:
        patch = json.dumps({"status": status})
        self.plane.kubectl("patch", "node", name, "--subresource=status", "--type=merge", "-p", patch)

    def read(self, name: str) -> Json:
        return self.api.get(path("v1", "nodes", None, name), f"Reading {name}")

    def pods(self, node: str) -> list[str]:
        rows = self.api.items(path("v1", "pods"), "Listing", {"fieldSelector": f"spec.nodeName={node}"}) or []
        return sorted(str(row["metadata"]["name"]) for row in rows)

    def pod(self, node: str, name: str, *, managed: bool = True, annotations: Json = None, **spec: Json) -> Json:
        """Make a pod that runs on a node and is ready, by default one of a ReplicaSet."""
        container = {"name": "c", "image": "none", "resources": {"limits": spec.pop("limits", {})}}
        metadata = {"labels": {"app": name}, "annotations": annotations or {}}
        content = {"metadata": metadata, "spec": {"nodeName": node, "containers": [container], **spec}}
        at = path("v1", "pods", self.namespace)
        self.api.create(at, manifest("v1", "Pod", name, self.namespace, **content), f"Making {name}")
        conditions = [{"type": "Ready", "status": "True"}]
        self.api.merge(f"{at}/{name}/status", {"status": {"phase": "Running", "conditions": conditions}}, "Running")
        if managed:
            template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}}
            selector = {"matchLabels": {"app": name}}
            self.apply("apps/v1", "ReplicaSet", name, {"replicas": 1, "selector": selector, "template": template})
            self.until(lambda: bool(self.read_pod(name)["metadata"].get("ownerReferences")))
        return self.read_pod(name)

    def read_pod(self, name: str) -> Json:
        return self.api.get(path("v1", "pods", self.namespace, name), f"Reading {name}")

    def apply(self, api_version: str, kind: str, name: str, spec: Json) -> None:
        body = manifest(api_version, kind, name, self.namespace, spec=spec)
        self.plane.apply(body, options=["--force-conflicts"])

    def budget_only(self, name: str, least: int) -> None:
        selector = {"matchLabels": {"app": name}}
        self.apply("policy/v1", "PodDisruptionBudget", name, {"minAvailable": least, "selector": selector})

    def budget(self, name: str, least: int) -> None:
        """Make a budget for the pod of that name, and wait until its controller has seen it."""
        self.budget_only(name, least)
        at = path("policy/v1", "poddisruptionbudgets", self.namespace, name)

        def observed() -> bool:
            current = self.api.get(at, "Reading") or {}
            return bool(current["metadata"]["generation"] == current.get("status", {}).get("observedGeneration"))

        self.until(observed)

    def until(self, condition: t.Callable[[], bool], limit: float = 60) -> None:
        wait_for(condition, limit, pause=0.1)

    def __enter__(self) -> Lab:
        # A client counts its time by a signal, so that it works in the first thread of a process only.
        self._kubelet = subprocess.Popen(
            [sys.executable, "-m", __spec__.name, str(self.plane.kubeconfig), self.namespace]
        )
        return self

    def __exit__(self, *_exc: object) -> None:
        if self._kubelet:
            self._kubelet.kill()
            self._kubelet.wait()
        for name in self.nodes:
            self.plane.kubectl("delete", "node", name, "--ignore-not-found")


def serve(api: Client, namespace: str) -> t.NoReturn:
    """End what is being deleted, as a kubelet does that has stopped the containers, and renew the Leases of the nodes."""
    renewed = 0.0
    while True:
        time.sleep(0.2)
        # A kubelet goes on when the API server is away.
        with contextlib.suppress(ApiError):
            if time.monotonic() - renewed > RENEW_S:
                for node in api.items(path("v1", "nodes"), "Listing", {"labelSelector": f"{LABEL}={namespace}"}) or []:
                    renew(api, str(node["metadata"]["name"]))
                renewed = time.monotonic()
            for raw in api.items(path("v1", "pods", namespace), "Listing") or []:
                meta = raw["metadata"]
                if meta.get("deletionTimestamp") and raw["spec"].get("nodeName"):
                    body = {"gracePeriodSeconds": 0, "preconditions": {"uid": meta["uid"]}}
                    api.request("DELETE", path("v1", "pods", namespace, meta["name"]), "Ending", body=body)


def renew(api: Client, name: str) -> None:
    """Renew a node's Lease: 40 seconds after the last renewal its Ready becomes Unknown (node lifecycle controller)."""
    api_version, space = "coordination.k8s.io/v1", "kube-node-lease"
    spec = {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": f"{_now()[:-1]}.000000Z"}
    body = manifest(api_version, "Lease", name, space, spec=spec)
    api.apply(path(api_version, "leases", space, name), body, "Renewing", manager="kubelet", force=True)


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


__all__ = ["ADDRESS", "BOOT_ID", "MACHINE_ID", "Lab", "serve"]

if __name__ == "__main__":
    serve(client(sys.argv[1]), sys.argv[2])
