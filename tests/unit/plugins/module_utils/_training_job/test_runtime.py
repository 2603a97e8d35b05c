# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The runtime that a TrainJob names."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._kubernetes.client import ApiError
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._training_job import runtime
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._training_job.findings import Findings
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._training_job.manage import objects, templates
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._training_job.pod import NETWORKS

Json = t.Any
IMAGE = "registry.example/train@sha256:" + "0" * 64
PLACE = "/apis/trainer.kubeflow.org/v1alpha1/clustertrainingruntimes"
OWN_PLACE = "/apis/trainer.kubeflow.org/v1alpha1/namespaces/lab/trainingruntimes"
NAME = "the ClusterTrainingRuntime rails"


def a_runtime(pod: Json = None, name: str = "node", step: str = "trainer", container: str = "node") -> Json:
    pod = pod or {}
    spec = {**pod.get("spec", {}), "containers": [{"name": container}]}
    template = {"metadata": {"labels": {runtime.STEP: step}}, "spec": {"template": {**pod, "spec": spec}}}
    return {"spec": {"template": {"spec": {"replicatedJobs": [{"name": name, "template": template}]}}}}


class Server:
    """Objects by path; an exception is raised."""

    def __init__(self, bodies: dict[str, Json]) -> None:
        self.bodies = bodies

    def get(self, path: str, _doing: str) -> Json:
        body = self.bodies.get(path)
        if isinstance(body, Exception):
            raise body
        return body

    items = get


class Result(t.NamedTuple):
    problems: tuple[str, ...] = ()
    unchecked: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def check(bodies: dict[str, Json], **more: Json) -> Result:
    job = {
        "kind": "trainjob",
        "runtime": "rails",
        "name": "train",
        "namespace": "lab",
        "image": IMAGE,
        "command": ["x"],
    }
    manifests = objects({**job, **more})
    ((_count, pod),) = templates(manifests)
    findings = Findings(t.cast(t.Any, Server(bodies)), "Checking the job")
    runtime.check(findings, "lab", manifests[-1]["spec"], pod)
    return Result(tuple(findings.problems), tuple(findings.unchecked), tuple(findings.warnings))


def forbidden(text: str) -> ApiError:
    error = ApiError(text)
    error.status = 403
    return error


SLOW = (
    f"{NAME} and the job give its pods no additional network, not the host's network and no resource claim, so NCCL "
    "falls back to the slower pod network without an error. Set networks, or use a runtime that has them (role "
    "training_runtime)"
)
NO_PLACE = (
    f"{NAME} has no replicated job node with a container node and the label {runtime.STEP}: trainer, which a job's program "
    "runs in"
)
ATTACHED = {"metadata": {"annotations": {NETWORKS: "default/rail0"}}}
# what the API server has at the place of the runtime, what is found
CASES: dict[str, tuple[Json, Result]] = {
    "networks": (a_runtime(ATTACHED), Result()),
    "the host's network": (a_runtime({"spec": {"hostNetwork": True}}), Result()),
    "claims": (a_runtime({"spec": {"resourceClaims": [{"name": "nics"}]}}), Result()),
    "the pod network alone": (a_runtime(), Result(warnings=(SLOW,))),
    "another name": (a_runtime(ATTACHED, name="trainer"), Result((NO_PLACE,))),
    "another step": (a_runtime(ATTACHED, step="dataset-initializer"), Result((NO_PLACE,))),
    "another container": (a_runtime(ATTACHED, container="main"), Result((NO_PLACE,))),
    "it may not be read": (
        forbidden("Checking the job: reading it: 403"), Result(unchecked=(f"{NAME} (reading it: 403)",)),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("body", "expected"), CASES.values(), ids=CASES)
def test_what_is_found(body: Json, expected: Result) -> None:
    assert check({f"{PLACE}/rails": body}) == expected


def test_a_jobs_own_networks_are_enough() -> None:
    assert check({f"{PLACE}/rails": a_runtime()}, networks=["rail0"]) == Result()


def test_a_runtime_that_does_not_exist() -> None:
    rows = [{"metadata": {"name": name}} for name in ("torch-distributed", "mpi")]
    assert check({PLACE: rows}) == Result((f"{NAME} does not exist; there are: mpi, torch-distributed",))
    missing = "the TrainingRuntime rails does not exist; there are: none"
    assert check({OWN_PLACE: []}, runtime_kind="TrainingRuntime") == Result((missing,))


def test_another_error_is_an_error() -> None:
    with pytest.raises(ApiError, match="500"):
        check({f"{PLACE}/rails": ApiError("500")})
