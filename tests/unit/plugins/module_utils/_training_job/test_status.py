# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How far a job is, from what operators, scheduler and kubelet write into status."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._training_job.kinds import SIZE
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._training_job.status import pod_row, progress, state

Json = t.Any


def pod(number: int, phase: str, size: int = 2, **more: Json) -> Json:
    meta = {"name": f"train-{number}", "annotations": {SIZE: str(size)}, **more.pop("metadata", {})}
    return {"metadata": meta, "spec": {"nodeName": f"gpu-{number}"}, "status": {"phase": phase, **more}}


# phases, state
PODS = [
    ([], "absent"),
    (["Pending", "Pending"], "pending"),
    (["Running", "Pending"], "pending"),
    (["Running", "Running"], "running"),
    (["Succeeded", "Running"], "running"),
    (["Succeeded", "Succeeded"], "succeeded"),
    (["Failed", "Running"], "failed"),
    # One of two was evicted or deleted: the other waits for it for ever.
    (["Running"], "failed"),
    (["Unknown", "Running"], "running"),
]


@pytest.mark.parametrize(("phases", "expected"), PODS)
def test_pods(phases: list[str], expected: str) -> None:
    assert state("pods", None, [pod(number, phase) for number, phase in enumerate(phases)])[0] == expected


def test_a_pod_that_goes_takes_the_job_with_it() -> None:
    going = pod(1, "Running", metadata={"deletionTimestamp": "2026-11-21T00:00:00Z"})
    assert state("pods", None, [pod(0, "Running"), going]) == (
        "failed",
        "2 of 2 pods exist, and train-1 is being deleted",
    )


def condition(kind: str, status: str = "True", **more: str) -> Json:
    return {"type": kind, "status": status, **more}


# kind, status, state, what is said
OPERATORS = [
    ("mpijob", {}, "pending", None),
    ("mpijob-v1alpha1", {}, "pending", None),
    ("mpijob-v1alpha1", {"launcherStatus": "Active", "workerReplicas": 2}, "running", None),
    ("mpijob-v1alpha1", {"launcherStatus": "Succeeded"}, "succeeded", None),
    ("mpijob-v1alpha1", {"launcherStatus": "Failed"}, "failed", None),
    ("mpijob", {"conditions": [condition("Created")]}, "pending", None),
    ("pytorchjob", {"conditions": [condition("Created"), condition("Running")]}, "running", None),
    ("pytorchjob", {"conditions": [condition("Restarting"), condition("Running", "False")]}, "running", None),
    ("mpijob", {"conditions": [condition("Running", "False"), condition("Succeeded")]}, "succeeded", None),
    (
        "mpijob",
        {"conditions": [condition("Failed", reason="BackoffLimitExceeded", message="Job has reached\nits limit")]},
        "failed",
        "BackoffLimitExceeded: Job has reached its limit",
    ),
    ("vcjob", {}, "pending", None),
    ("vcjob", {"state": {"phase": "Pending"}}, "pending", "Pending"),
    ("vcjob", {"state": {"phase": "Running"}}, "running", "Running"),
    ("vcjob", {"state": {"phase": "Completing"}}, "running", "Completing"),
    ("vcjob", {"state": {"phase": "Completed"}}, "succeeded", "Completed"),
    ("vcjob", {"state": {"phase": "Terminated", "message": "pod failed"}}, "failed", "Terminated: pod failed"),
    ("vcjob", {"state": {"phase": "Aborted"}}, "failed", "Aborted"),
    ("jobset", {}, "pending", None),
    ("jobset", {"conditions": [condition("Suspended"), condition("StartupPolicyCompleted")]}, "pending", None),
    ("jobset", {"conditions": [condition("Completed", reason="AllJobsCompleted")]}, "succeeded", "AllJobsCompleted"),
    ("jobset", {"conditions": [condition("Failed", reason="FailedJobs", message="x")]}, "failed", "FailedJobs: x"),
    ("trainjob", {"conditions": [condition("Suspended")]}, "pending", None),
    ("trainjob", {"conditions": [condition("Complete", reason="JobsCompleted")]}, "succeeded", "JobsCompleted"),
    ("trainjob", {"conditions": [condition("Failed", reason="JobsFailed")]}, "failed", "JobsFailed"),
]


@pytest.mark.parametrize(("kind", "status", "expected", "said"), OPERATORS)
def test_operators(kind: str, status: Json, expected: str, said: str | None) -> None:
    phase, message = state(kind, {"status": status}, [])
    assert phase == expected
    if said is not None:
        assert message == said


@pytest.mark.parametrize("kind", ["jobset", "trainjob"])
def test_a_job_without_a_condition_for_it_runs_when_its_pods_do(kind: str) -> None:
    assert state(kind, {}, [pod(0, "Running"), pod(1, "Pending")]) == ("pending", None)
    assert state(kind, {}, [pod(0, "Running"), pod(1, "Succeeded")]) == ("running", None)


def test_an_object_that_is_not_there() -> None:
    assert state("mpijob", None, []) == ("absent", None)


PULLING = {"reason": "ImagePullBackOff", "message": "Back-off pulling image"}
KILLED = {"reason": "OOMKilled", "exitCode": 137}
# phase, status of the container, reason, exit code
CONTAINERS: list[tuple[str, Json, str | None, int | None]] = [
    ("Pending", {"state": {"waiting": PULLING}}, "ImagePullBackOff: Back-off pulling image", None),
    ("Pending", {"state": {"waiting": {"reason": "ContainerCreating"}}}, None, None),
    ("Failed", {"state": {"terminated": KILLED}, "restartCount": 0}, "OOMKilled (exit code 137)", 137),
    ("Succeeded", {"state": {"terminated": {"reason": "Completed", "exitCode": 0}}}, None, 0),
]


@pytest.mark.parametrize(("phase", "status", "reason", "code"), CONTAINERS)
def test_why_a_pod_does_not_run(phase: str, status: Json, reason: str | None, code: int | None) -> None:
    row = pod_row(pod(0, phase, containerStatuses=[status]))
    assert (row["reason"], row["exit_code"]) == (reason, code)


def test_why_a_pod_was_evicted() -> None:
    row = pod_row(pod(0, "Failed", reason="Evicted", message="The node was low on memory"))
    assert row["reason"] == "Evicted: The node was low on memory"


def test_one_line_for_people() -> None:
    short = "0/3 nodes are available: 3 Insufficient nvidia.com/gpu."
    unschedulable = condition("PodScheduled", "False", reason="Unschedulable", message=short)
    rows = [pod_row(pod(0, "Running")), pod_row(pod(1, "Pending", conditions=[unschedulable]))]
    text = progress("pending", None, rows)
    assert text == f"pending, pods: 1 Pending, 1 Running; train-1: Unschedulable: {short}"
    assert progress("absent", None, []) == "absent"
