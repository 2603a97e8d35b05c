# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Draining nodes of a control plane by the module's code: its options, and what a node and the Lease look like."""

from __future__ import annotations

import concurrent.futures
import contextlib
import json
import subprocess
import sys
import typing as t
from collections.abc import Iterator

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._errors import FabricError
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._kubernetes.client import path
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._node_drain import lease as node_drain_lease
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._node_drain.manage import manage
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._node_drain.node import NOTE
from ansible_collections.rdmaops.gpu_fabric.tests.support.cluster import Cluster
from ansible_collections.rdmaops.gpu_fabric.tests.support.failures import message_of
from ansible_collections.rdmaops.gpu_fabric.tests.support.kubelet import MACHINE_ID, Lab
from ansible_collections.rdmaops.gpu_fabric.tests.support.objects import manifest

Json = t.Any
SPACE = "rdmaops-system"
LEASE = path("coordination.k8s.io/v1", "leases", SPACE, node_drain_lease.NAME)
OTHER_ID = "f" * 32
NAMESPACE = manifest("v1", "Namespace", SPACE)
NEW_BOOT = "5c0bd1e4-9a4c-4b4e-8f3e-7f2f3a1f0c11"


@contextlib.contextmanager
def lease_namespace(plane: Cluster) -> Iterator[None]:
    """The namespace of the Lease, which an administrator creates; the Lease is deleted afterwards."""
    plane.apply(NAMESPACE)
    yield
    plane.kubectl("delete", "lease", "-n", SPACE, node_drain_lease.NAME, "--ignore-not-found")


def options(node: str, state: str = "drained", **more: Json) -> Json:
    run = {"run": "one", "reason": "a test", "failure": None, "take_over": True, "lease_namespace": SPACE}
    host: Json = {"machine_id": MACHINE_ID, "addresses": [], "on_absent": "fail", "boot_id": None, "wait_ready": True}
    limits = {"drain_timeout": 60, "ready_timeout": 60, "lease_duration": 600, "max_unavailable": 1}
    consents = ("control_plane_ok", "evict_gpu_pods", "force", "delete_emptydir_data", "missing_ok")
    resources = {"device_resources": ["nvidia.com/*", "*gpu*", "*rdma*"]}
    known = {**run, **host, **limits, **dict.fromkeys(consents, False), **resources}
    return {"name": node, "state": state, **known, **more}


def two_nodes(lab: Lab) -> tuple[str, str]:
    """Create two Nodes, the second with a machine ID other than `MACHINE_ID`."""
    return lab.node(), lab.node(status={"nodeInfo": {"machineID": OTHER_ID}})


def call(lab: Lab, node: str, state: str = "drained", check: bool = False, **more: Json) -> Json:
    return manage(options(node, state, **more), check, lab.api)


def refused(lab: Lab, node: str, state: str = "drained", check: bool = False, **more: Json) -> str:
    """Return the message with which the module refuses."""
    api = more.pop("api", lab.api)
    return message_of(FabricError, manage, options(node, state, **more), check, api)


def note(lab: Lab, node: str) -> Json:
    text = lab.read(node)["metadata"].get("annotations", {}).get(NOTE)
    return json.loads(text) if text else None


def cordoned(lab: Lab, node: str) -> bool:
    return bool(lab.read(node)["spec"].get("unschedulable"))


def holder(lab: Lab) -> str:
    lease = lab.api.get(LEASE, "Reading the Lease")
    return str(lease["spec"].get("holderIdentity") or "") if lease else ""


def untouched(lab: Lab, node: str) -> bool:
    return not cordoned(lab, node) and note(lab, node) is None and holder(lab) == ""


@contextlib.contextmanager
def meanwhile(act: t.Callable[[], object]) -> Iterator[None]:
    """Do something while the block runs. A client works in the main thread only, kubectl in any."""
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        action = pool.submit(act)
        yield
        action.result()


def end_lease(lab: Lab) -> None:
    """Let a Lease expire, as if it had not been renewed."""
    lease = lab.api.get(LEASE, "Reading") or {}
    lease["spec"]["renewTime"] = "2026-01-01T00:00:00.000000Z"
    lab.api.replace(LEASE, lease, "Letting it end")


def finalizers(lab: Lab, name: str, names: list[str] | None) -> None:
    lab.api.merge(path("v1", "pods", lab.namespace, name), {"metadata": {"finalizers": names}}, "Finalizers")


# A client measures its time by a signal, so clients that work at the same time need a process each.
APART = """
import json, sys
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._errors import FabricError
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._node_drain.manage import manage
from ansible_collections.rdmaops.gpu_fabric.tests.support.objects import client
try:
    manage(json.loads(sys.argv[1]), False, client(sys.argv[2], timeout=5))
except FabricError as exc:
    sys.exit(str(exc))
"""


@contextlib.contextmanager
def apart(lab: Lab, node: str, **more: Json) -> Iterator[subprocess.Popen[str]]:
    """Drain a node in a process of its own, which prints on stderr why it failed."""
    argv = [sys.executable, "-c", APART, json.dumps(options(node, **more)), str(lab.plane.kubeconfig)]
    with subprocess.Popen(argv, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


__all__ = [
    "LEASE",
    "NAMESPACE",
    "NEW_BOOT",
    "OTHER_ID",
    "SPACE",
    "apart",
    "call",
    "cordoned",
    "end_lease",
    "finalizers",
    "holder",
    "lease_namespace",
    "meanwhile",
    "note",
    "options",
    "refused",
    "two_nodes",
    "untouched",
]
