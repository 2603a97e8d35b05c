# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Two GPU nodes without machines: who plays their kubelets keeps them ready and lets the pods of jobs come to an end."""

from __future__ import annotations

import contextlib
import datetime
import threading
import typing as t
from collections.abc import Iterator

import kubernetes
import urllib3

from ansible_collections.rdmaops.gpu_fabric.tests.support.cluster import Cluster
from ansible_collections.rdmaops.gpu_fabric.tests.support.objects import manifest

Json = t.Any
IMAGE = "registry.example/train@sha256:" + "0" * 64
NODES = ("gpu-1", "gpu-2")
GPUS = 8


class Kubelets(threading.Thread):
    """Keeps two nodes ready and lets their pods come to an end."""

    def __init__(self, plane: Cluster) -> None:
        super().__init__(daemon=True)
        # Not by the collection's client, whose time limits are signals, which a thread does not get.
        self.api = kubernetes.client.CoreV1Api(kubernetes.config.new_client_from_config(str(plane.kubeconfig)))
        self.over = threading.Event()
        self.beaten = threading.Event()

    def run(self) -> None:
        while not self.over.is_set():
            # A pod may be gone before it is written to, and a busy API server cut a connection.
            with contextlib.suppress(kubernetes.client.ApiException, urllib3.exceptions.HTTPError):
                for node in NODES:
                    self.beat(node)
                self.beaten.set()
                for pod in self.api.list_pod_for_all_namespaces().items:
                    self.advance(self.api.api_client.sanitize_for_serialization(pod))
            self.over.wait(0.5)

    def beat(self, node: str) -> None:
        now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "lastHeartbeatTime": now}
        resources = {"nvidia.com/gpu": str(GPUS), "rdma/rdma": "1", "cpu": "64", "memory": "512Gi", "pods": "110"}
        self.api.patch_node_status(
            node, {"status": {"conditions": [ready], "capacity": resources, "allocatable": resources}}
        )

    def advance(self, pod: Json) -> None:
        name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
        phase = pod["status"].get("phase")
        if not pod["spec"].get("nodeName"):
            return
        if pod["metadata"].get("deletionTimestamp"):
            self.api.delete_namespaced_pod(name, namespace, grace_period_seconds=0)
            return
        status = {"phase": "Running"} if phase == "Pending" else fate(pod) if phase == "Running" else None
        if status:
            self.api.patch_namespaced_pod_status(name, namespace, {"status": status})


def fate(pod: Json) -> Json | None:
    """Return the status in which a running pod ends, by its name: `long...` does not end, rank 1 of `oom` is killed."""
    job, _dash, rank = pod["metadata"]["name"].rpartition("-")
    if job == "oom" and rank == "1":
        state = {"terminated": {"reason": "OOMKilled", "exitCode": 137}}
        container = {"name": "pytorch", "image": IMAGE, "imageID": "", "ready": False, "restartCount": 0}
        return {"phase": "Failed", "containerStatuses": [{**container, "state": state}]}
    return None if job.startswith("long") or job == "oom" else {"phase": "Succeeded"}


@contextlib.contextmanager
def two_nodes(plane: Cluster) -> Iterator[Kubelets]:
    """Two nodes with GPUs, and their kubelets."""
    plane.apply(*(manifest("v1", "Node", name) for name in NODES))
    kubelets = Kubelets(plane)
    kubelets.start()
    assert kubelets.beaten.wait(60)
    for name in NODES:
        plane.kubectl("wait", "--for=condition=Ready", f"node/{name}", "--timeout=60s")
    try:
        yield kubelets
    finally:
        kubelets.over.set()
        kubelets.join(30)


__all__ = ["GPUS", "IMAGE", "NODES", "Kubelets", "fate", "two_nodes"]
