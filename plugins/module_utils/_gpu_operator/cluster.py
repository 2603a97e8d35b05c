# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""A cluster as the GPU Operator's module sees it: its kinds, live objects, CRDs, and the pods that hold GPUs."""

from __future__ import annotations

import re
import time
import typing as t

from .._kubernetes import client as kubernetes
from .._kubernetes.client import ApiError, Client, Object
from .._kubernetes.manifests import allocated
from .compare import Key

CRD = "apiextensions.k8s.io/v1"
POLICY = ("nvidia.com/v1", "ClusterPolicy")
GPU_CLUSTER = ("nvidia.com/v1alpha1", "GPUCluster")
DRIVER = ("nvidia.com/v1alpha1", "NVIDIADriver")
# Of the chart's CRDs; the second one is of its subchart node-feature-discovery, and computedomains.resource.nvidia.com
# is below the first one.
CRD_GROUPS = ("nvidia.com", "nfd.k8s-sigs.io")
# How long a changed CRD may take to be in force on the API server; it takes about a second.
_CRD_LIMIT_S = 60
# What NVIDIA's device plugin offers; other operators of NVIDIA's offer network devices under the same domain.
_GPU = re.compile(r"^nvidia\.com/(gpu(\.shared)?|mig-.*|pgpu|.*vgpu.*)$", re.IGNORECASE)
# NVIDIA's DRA driver for whole GPUs, MIG devices and passthrough; that for IMEX channels is compute-domain.nvidia.com.
_DRA_DRIVER = "gpu.nvidia.com"
# Those in which a claim has the fields that are read here.
_DRA_VERSIONS = ("resource.k8s.io/v1", "resource.k8s.io/v1beta2", "resource.k8s.io/v1beta1")


class Resource(t.NamedTuple):
    plural: str
    namespaced: bool


class Cluster:
    """The edge to the API server."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.version = ""
        self.api_versions: list[str] = []
        self.kinds: dict[tuple[str, str], Resource] = {}
        self._to_come: set[tuple[str, str]] = set()

    def discover(self) -> None:
        """Read the version and every kind that is served: what a chart may look up in .Capabilities."""
        about = self.client.get("/version", "Asking the API server for its version") or {}
        self.version = str(about.get("gitVersion") or "")
        for version, kinds in self.client.served().items():
            self.api_versions.append(version)
            for served in kinds:
                self.kinds[(version, served.kind)] = Resource(served.plural, served.namespaced)
                self.api_versions.append("%s/%s" % (version, served.kind))

    def learn(self, definition: Object) -> None:
        """Note the kinds of a CRD that is to be created."""
        spec = definition["spec"]
        for version in spec.get("versions") or []:
            key = ("%s/%s" % (spec["group"], version["name"]), str(spec["names"]["kind"]))
            if key not in self.kinds:
                self._to_come.add(key)
                self.kinds[key] = Resource(str(spec["names"]["plural"]), spec.get("scope") != "Cluster")

    def served(self, key: Key) -> bool:
        """Whether the API server served this kind at discovery."""
        return (key.api_version, key.kind) in self.kinds and (key.api_version, key.kind) not in self._to_come

    def key(self, document: Object, namespace: str) -> Key:
        metadata = document.get("metadata") or {}
        resource = self.kinds.get((str(document.get("apiVersion")), str(document.get("kind"))))
        inside = resource is None or resource.namespaced
        return Key(
            str(document.get("apiVersion")),
            str(document["kind"]),
            str(metadata.get("namespace") or namespace) if inside else "",
            str(metadata.get("name")),
        )

    def path(self, key: Key, *, name: bool = True) -> str:
        resource = self.kinds[(key.api_version, key.kind)]
        namespace = key.namespace if resource.namespaced else None
        return kubernetes.path(key.api_version, resource.plural, namespace, key.name if name else None)

    def read(self, key: Key) -> Object | None:
        if (key.api_version, key.kind) not in self.kinds:
            return None
        return self.client.get(self.path(key), "Reading the %s" % key)

    def namespace(self, name: str) -> Object | None:
        return self.client.get(kubernetes.path("v1", "namespaces", None, name), "Reading the namespace %s" % name)

    def definition(self, name: str) -> Object | None:
        doing = "Reading the CustomResourceDefinition %s" % name
        return self.client.get(kubernetes.path(CRD, "customresourcedefinitions", None, name), doing)

    def definitions(self) -> list[str]:
        """Return the names of the CRDs of CRD_GROUPS, and of groups below these."""
        crds = self.client.items(kubernetes.path(CRD, "customresourcedefinitions"), "Listing the CRDs") or []
        groups = {crd["metadata"]["name"]: "." + crd["spec"]["group"] for crd in crds}
        return sorted(name for name, group in groups.items() if group.endswith(tuple("." + of for of in CRD_GROUPS)))

    def all_of(self, kind: tuple[str, str]) -> list[Object]:
        """Return every object of a kind without namespaces, whoever created it."""
        resource = self.kinds.get(kind)
        if resource is None:
            return []
        return self.client.items(kubernetes.path(kind[0], resource.plural), "Listing the %s" % resource.plural) or []

    def apply_definition(self, definition: Object) -> None:
        """Create or renew a CRD and wait until it is served."""
        name = definition["metadata"]["name"]
        body = {key: value for key, value in definition.items() if key != "status"}
        body["metadata"] = {key: value for key, value in body["metadata"].items() if key != "creationTimestamp"}
        doing = "Applying the CustomResourceDefinition %s" % name
        self.client.apply(kubernetes.path(CRD, "customresourcedefinitions", None, name), body, doing, force=True)
        deadline = time.monotonic() + _CRD_LIMIT_S
        while True:
            status = (self.definition(name) or {}).get("status") or {}
            conditions = {condition["type"]: condition["status"] for condition in status.get("conditions") or []}
            if conditions.get("Established") == "True":
                return
            if time.monotonic() > deadline:
                raise ApiError(
                    "%s: it was accepted, but is not established after %d s: %s. Check its status"
                    % (doing, _CRD_LIMIT_S, status.get("conditions") or "no conditions")
                )
            time.sleep(0.3)

    def try_out(self, key: Key, document: Object) -> Object:
        """Return what the API server would keep of an object, by a dry run under another name."""
        body = dict(document)
        body["metadata"] = {"generateName": key.name[:50] + "-"}
        if key.namespace:
            body["metadata"]["namespace"] = key.namespace
        return self.client.create(self.path(key, name=False), body, "Trying the %s by a dry run" % key, dry_run=True)

    def wait_for_crd(self, key: Key, document: Object, is_complete: t.Callable[[Object], bool]) -> None:
        """Wait until a renewed CRD is in force for an object: the API server needs a moment."""
        deadline = time.monotonic() + _CRD_LIMIT_S
        while True:
            try:
                if is_complete(self.try_out(key, document)):
                    return
            except ApiError as exc:
                if not exc.missing or time.monotonic() > deadline:
                    raise
            if time.monotonic() > deadline:
                return  # what is lost is found and reported after the release has been applied
            time.sleep(0.3)

    def gpu_pods(self) -> list[dict[str, str]]:
        """Return the pods that hold GPUs, also those that use them without requesting them."""
        query = {"fieldSelector": "status.phase!=Succeeded,status.phase!=Failed"}
        pods = self.client.items(kubernetes.path("v1", "pods"), "Listing the pods that use GPUs", query) or []
        claims = self._gpu_claims()
        holders = []
        for pod in pods:
            use = _gpu_use(pod, claims.get(pod["metadata"].get("uid"), ""))
            if use and pod["spec"].get("nodeName"):
                metadata = pod["metadata"]
                holders.append(
                    {
                        "namespace": metadata["namespace"],
                        "name": metadata["name"],
                        "node": pod["spec"]["nodeName"],
                        "holds": use,
                    }
                )
        return sorted(holders, key=lambda pod: (pod["namespace"], pod["name"]))

    def _gpu_claims(self) -> dict[str, str]:
        """Return the ResourceClaim by which a pod holds a GPU, by the UID of the pod.

        A claim with admin access (DRAAdminAccess) looks at a device that another one holds.
        """
        kind = next((version for version in _DRA_VERSIONS if (version, "ResourceClaim") in self.kinds), None)
        if kind is None:
            return {}
        claims = self.client.items(kubernetes.path(kind, "resourceclaims"), "Listing the ResourceClaims for GPUs") or []
        result = {}
        for claim in claims:
            devices = allocated(claim)
            if any(device.get("driver") == _DRA_DRIVER and not device.get("adminAccess") for device in devices):
                for user in claim["status"].get("reservedFor") or []:
                    result[str(user["uid"])] = "ResourceClaim %s" % claim["metadata"]["name"]
        return result


def _gpu_use(pod: Object, claim: str = "") -> str:
    """Return what of a GPU a pod holds: resources that it requests, else device files, else its claim."""
    spec = pod["spec"]
    for container in (spec.get("containers") or []) + (spec.get("initContainers") or []):
        resources = container.get("resources") or {}
        for name, amount in {**(resources.get("requests") or {}), **(resources.get("limits") or {})}.items():
            if _GPU.match(name) and str(amount) != "0":
                return "%s: %s" % (name, amount)
    # Pods of the operator's own DaemonSets come and go with the driver.
    if (pod["metadata"].get("labels") or {}).get("app.kubernetes.io/managed-by") == "gpu-operator":
        return ""
    for volume in spec.get("volumes") or []:
        path = (volume.get("hostPath") or {}).get("path") or ""
        if path.startswith("/dev/nvidia"):
            return path
    return claim


__all__ = ("CRD", "DRIVER", "GPU_CLUSTER", "POLICY", "Cluster", "Resource")
