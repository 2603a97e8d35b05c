# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A job in a queue of Kueue: whether the queue can hold it, and why the job waits."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._kubernetes.client import ApiError
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._training_job import info, kueue
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._training_job.findings import Findings
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._training_job.manage import objects, templates
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._training_job.preflight import totals

Json = t.Any
IMAGE = "registry.example/train@sha256:" + "0" * 64
API_VERSION = "kueue.x-k8s.io/v1beta2"
API = f"/apis/{API_VERSION}"
QUEUE = f"{API}/namespaces/lab/localqueues/research"
CLUSTER_QUEUE = f"{API}/clusterqueues/gpus"


def manifests(**more: Json) -> list[Json]:
    options = {"kind": "jobset", "name": "train", "namespace": "lab", "image": IMAGE, "command": ["x"], "gpus": 8}
    return objects({**options, "gang": "kueue", "queue": "research", "require_digest": True, **more})


class Server:
    """Objects by path; an exception is raised. Without a version it does not serve Kueue."""

    def __init__(self, bodies: dict[str, Json], version: str | None = "v1beta2") -> None:
        self.bodies, self.version, self.queries = bodies, version, []

    def resources(self, version: str) -> Json:
        return [{"kind": "LocalQueue"}] if version == f"kueue.x-k8s.io/{self.version}" else None

    def get(self, path: str, _doing: str) -> Json:
        body = self.bodies.get(path)
        if isinstance(body, Exception):
            raise body
        return body

    def items(self, path: str, doing: str, query: Json = None) -> Json:
        self.queries.append(query)
        return self.get(path, doing)


def queue(**condition: str) -> Json:
    return {"spec": {"clusterQueue": "gpus"}, "status": {"conditions": [{"type": "Active", **condition}]}}


def cluster_queue(*flavors: dict[str, str], **spec: str) -> Json:
    rows = [
        {"name": f"f{number}", "resources": [{"name": name, "nominalQuota": amount} for name, amount in flavor.items()]}
        for number, flavor in enumerate(flavors)
    ]
    return {"metadata": {"name": "gpus"}, "spec": {"resourceGroups": [{"flavors": rows}], **spec}}


def forbidden(text: str) -> ApiError:
    error = ApiError(text)
    error.status = 403
    return error


def check(bodies: dict[str, Json], **more: Json) -> tuple[list[str], list[str]]:
    needs = totals(templates(manifests(**more)))
    findings = Findings(t.cast(t.Any, Server(bodies)), "Checking the job")
    kueue.check(findings, "lab", "research", needs)
    return findings.problems, findings.unchecked


ACTIVE = queue(status="True")
STOPPED = queue(status="False", message="ClusterQueue is stopped")
OWNER = "the queue research (ClusterQueue gpus)"
# what the API server has, problems, what is unchecked
CASES: dict[str, tuple[dict[str, Json], list[str], list[str]]] = {
    "it fits": ({QUEUE: ACTIVE, CLUSTER_QUEUE: cluster_queue({"nvidia.com/gpu": "16"})}, [], []),
    "it fits in two flavors": (
        {QUEUE: ACTIVE, CLUSTER_QUEUE: cluster_queue({"nvidia.com/gpu": "8"}, {"nvidia.com/gpu": "8"})}, [], [],
    ),
    "it never fits": (
        {QUEUE: ACTIVE, CLUSTER_QUEUE: cluster_queue({"nvidia.com/gpu": "15"})},
        [f"{OWNER} can never hold it: nvidia.com/gpu: 16 wanted, the quota is 15"], [],
    ),
    "others may lend": ({QUEUE: ACTIVE, CLUSTER_QUEUE: cluster_queue({"nvidia.com/gpu": "1"}, cohortName="all")}, [], []),
    "others may lend, as v1beta1 says it": (
        {QUEUE: ACTIVE, CLUSTER_QUEUE: cluster_queue({"nvidia.com/gpu": "1"}, cohort="all")}, [], [],
    ),
    "a resource without a quota": (
        {QUEUE: ACTIVE, CLUSTER_QUEUE: cluster_queue({"cpu": "64"})},
        [],
        [
            f"whether {OWNER} admits nvidia.com/gpu: it has no quota for that, and then admits the job only if Kueue's "
            "configuration leaves it out (excludeResourcePrefixes)"
        ],
    ),
    "no such queue": (
        {f"{API}/namespaces/lab/localqueues": [{"metadata": {"name": "batch"}}]},
        ["the queue lab/research does not exist; there are: batch"], [],
    ),
    "a queue that is stopped": (
        {QUEUE: STOPPED}, ["the queue lab/research admits no jobs: ClusterQueue is stopped"], [],
    ),
    "no such ClusterQueue": (
        {QUEUE: ACTIVE}, ["the ClusterQueue gpus of the queue research does not exist"], [],
    ),
    "a ClusterQueue that may not be read": (
        {QUEUE: ACTIVE, CLUSTER_QUEUE: forbidden("Checking the job: reading the ClusterQueue gpus: 403")},
        [], ["the ClusterQueue gpus of the queue research (reading the ClusterQueue gpus: 403)"],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("bodies", "problems", "unchecked"), CASES.values(), ids=CASES)
def test_whether_the_queue_can_hold_it(bodies: dict[str, Json], problems: list[str], unchecked: list[str]) -> None:
    assert check(bodies) == (problems, unchecked)


def test_another_error_is_an_error() -> None:
    with pytest.raises(ApiError, match="500"):
        check({QUEUE: ApiError("500")})


@pytest.mark.parametrize(
    ("version", "expected"),
    [("v1beta2", "kueue.x-k8s.io/v1beta2"), ("v1beta1", "kueue.x-k8s.io/v1beta1"), (None, None)],
)
def test_the_version_that_is_served(version: str | None, expected: str | None) -> None:
    assert kueue.api_version(t.cast(t.Any, Server({}, version))) == expected


def workload(name: str, **conditions: tuple[str, str]) -> Json:
    rows = [{"type": kind, "status": status, "message": text} for kind, (status, text) in conditions.items()]
    return {"metadata": {"name": name}, "status": {"conditions": rows}}


SHORT = "couldn't assign flavors to pod set worker: insufficient unused quota for nvidia.com/gpu in flavor f0, 8 more needed"
WORKLOADS = f"{API}/namespaces/lab/workloads"
# workloads, what is said
WAITS: dict[str, tuple[Json, str | None]] = {
    "no quota": ([workload("jobset-train-1", QuotaReserved=("False", SHORT))], f"waits in the queue research: {SHORT}"),
    "admitted": ([workload("jobset-train-1", QuotaReserved=("True", ""), Admitted=("True", ""))], None),
    "not seen yet": ([], "in the queue research, which Kueue has not looked at"),
    "no reason": ([workload("jobset-train-1")], "waits in the queue research: it gives no reason"),
    "may not be read": (forbidden("workloads is forbidden"), "in the queue research (workloads is forbidden)"),
}


@pytest.mark.parametrize(("rows", "said"), WAITS.values(), ids=WAITS)
def test_why_a_job_waits(rows: Json, said: str | None) -> None:
    (job,) = manifests()
    job["metadata"]["uid"] = "0815"
    server = Server({WORKLOADS: rows})
    assert kueue.waiting(t.cast(t.Any, server), API_VERSION, "Reading the job", "lab", job, []) == said
    assert server.queries == [{"labelSelector": "kueue.x-k8s.io/job-uid=0815"}]


def test_why_pods_wait() -> None:
    pods = [manifest for manifest in manifests(kind="pods") if manifest["kind"] == "Pod"]
    rows = [workload("other"), workload("train", QuotaReserved=("False", SHORT))]
    server = Server({WORKLOADS: rows})
    assert (
        kueue.waiting(t.cast(t.Any, server), API_VERSION, "Reading the job", "lab", None, pods)
        == f"waits in the queue research: {SHORT}"
    )


def test_a_job_without_a_queue_is_not_asked_for() -> None:
    (job,) = manifests(gang="none", queue="")
    server = Server({f"/apis/{job['apiVersion']}/namespaces/lab/jobsets/train": job})
    params = {"kind": "jobset", "name": "train", "namespace": "lab"}
    look = info.JobReader(params, t.cast(t.Any, server)).look()
    assert (look["state"], look["queued"]) == ("pending", False)
    assert server.queries == [{"labelSelector": "rdmaops.gpu-fabric/job=train"}]
