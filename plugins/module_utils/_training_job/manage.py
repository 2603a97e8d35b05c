# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""The Kubernetes objects of a training job."""

from __future__ import annotations

import hashlib
import json
import typing as t

from .bundle import FILE, bundle
from .kinds import CUSTOM, GROUPS, MAKERS, WORKERS, api_object, patched_pod
from .options import MPI, Job, JobError, read
from .pod import Object, needs_entrypoint

# On the objects: what the job was made of. Pods cannot be changed afterwards, and operators do not look again.
SPEC = "rdmaops.gpu-fabric/job-spec"


def objects(options: t.Any) -> list[Object]:
    """Return the manifests of a job, whole and in the order in which they are created."""
    job = read(options)
    manifests = MAKERS[job.kind](job)
    if needs_entrypoint(job):
        # The program's sources are not part of the job's options: a newer release may have others.
        manifests.insert(0, api_object(job, "v1", "ConfigMap", {"binaryData": {FILE: bundle()}}))
    digest = hashlib.sha256(json.dumps(_visible_options(job), sort_keys=True).encode()).hexdigest()[:16]
    for manifest in manifests:
        if manifest["kind"] != "ConfigMap":
            meta = manifest["metadata"]
            meta["annotations"] = {**meta.get("annotations", {}), SPEC: digest}
    return manifests


def references(kind: str, name: str, namespace: str, gang: str, pods: t.Sequence[str]) -> list[Object]:
    """Return what there may be of a job, for its removal: kinds and names."""
    resources = [("v1", "ConfigMap", name)]
    # The operator of an MPIJob has a Secret of that name for itself.
    if kind not in MPI:
        resources.append(("v1", "Secret", name + "-ssh"))
    if kind == "mpijob-v1alpha1":
        resources.append(("v1", "Service", name + WORKERS))
    if kind == "pods":
        resources += [("v1", "Pod", pod) for pod in pods] + [("v1", "Service", name)]
        if gang in GROUPS:
            resources.append((*GROUPS[gang], name))
    elif kind in CUSTOM:
        resources.append((CUSTOM[kind][0], CUSTOM[kind][1], name))
    else:
        raise JobError("Removing the job %s/%s: unknown kind %r" % (namespace, name, kind))
    return [
        {"apiVersion": version, "kind": object_kind, "metadata": {"name": object_name, "namespace": namespace}}
        for version, object_kind, object_name in resources
    ]


def templates(manifests: t.Sequence[Object]) -> list[tuple[int, Object]]:
    """Return the pods that manifests request: how many of each, and what it is (metadata and spec)."""
    pods: list[tuple[int, Object]] = []
    for manifest in manifests:
        spec = manifest.get("spec") or {}
        if manifest["kind"] == "Pod":
            pods.append((1, manifest))
        elif manifest["apiVersion"] == CUSTOM["mpijob-v1alpha1"][0]:
            pods.append((spec["replicas"], spec["template"]))
        elif manifest["kind"] == "MPIJob":
            pods += [(part["replicas"], part["template"]) for part in spec["mpiReplicaSpecs"].values()]
        elif manifest["kind"] == "PyTorchJob":
            pods += [(part["replicas"], part["template"]) for part in spec["pytorchReplicaSpecs"].values()]
        elif manifest["apiVersion"] == CUSTOM["vcjob"][0]:
            pods += [(part["replicas"], part["template"]) for part in spec["tasks"]]
        elif manifest["kind"] == "JobSet":
            jobs = [part["template"]["spec"] for part in spec["replicatedJobs"]]
            pods += [(job["parallelism"], job["template"]) for job in jobs]
        elif manifest["kind"] == "TrainJob":
            pods.append(patched_pod(spec))
    return pods


def _visible_options(job: Job) -> t.Any:
    """Return the options that show in the objects: an option added by a later release is its default in older jobs."""
    unseen = {"require_digest"} | (
        set() if job.nccl_env == "pod" else {"nccl_env_options", "rdma_required", "rdma_wait"}
    )
    return {
        name: value
        for name, value in job._asdict().items()
        if name not in unseen and value != Job._field_defaults.get(name)
    }


__all__ = ("SPEC", "objects", "references", "templates")
