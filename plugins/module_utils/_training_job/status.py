# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""How far a training job is, from its object and its pods."""

from __future__ import annotations

import typing as t

from .kinds import SIZE

Object = t.Dict[str, t.Any]

ABSENT = "absent"
PENDING = "pending"
RUNNING = "running"
SUCCEEDED = "succeeded"
FAILED = "failed"
ENDED = (SUCCEEDED, FAILED)
STATES = (ABSENT, PENDING, RUNNING, SUCCEEDED, FAILED)

# JobPhase in volcano.sh/apis, batch/v1alpha1.
_VOLCANO = {
    "Completed": SUCCEEDED,
    "Failed": FAILED,
    "Aborted": FAILED,
    "Terminated": FAILED,
    "Pending": PENDING,
    "": PENDING,
}
_LONGEST = 500


def pod_row(pod: Object) -> dict[str, t.Any]:
    """Return what is worth saying of a pod."""
    status = pod.get("status") or {}
    containers = status.get("containerStatuses") or []
    states = [container.get("state") or {} for container in containers]
    ended = [state["terminated"] for state in states if state.get("terminated")]
    return {
        "name": pod["metadata"]["name"],
        "node": (pod.get("spec") or {}).get("nodeName"),
        "phase": status.get("phase") or "Pending",
        "restarts": sum(container.get("restartCount") or 0 for container in containers),
        "exit_code": ended[0].get("exitCode") if ended else None,
        "reason": _reason(pod, status, states),
    }


def _reason(pod: Object, status: Object, states: t.Sequence[Object]) -> str | None:
    """Return why a pod is not where it should be, in the words of its controller."""
    if pod["metadata"].get("deletionTimestamp"):
        return "it is being deleted"
    for container_state in states:
        for key in ("waiting", "terminated"):
            detail = container_state.get(key) or {}
            # ContainerCreating is not a reason, and Completed not one to worry about.
            if detail.get("reason") not in (None, "", "ContainerCreating", "PodInitializing", "Completed"):
                code = " (exit code %s)" % detail["exitCode"] if "exitCode" in detail else ""
                return _joined(detail["reason"] + code, detail.get("message"))
    for condition in status.get("conditions") or []:
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return _joined(condition.get("reason"), condition.get("message"))
    return _joined(status.get("reason"), status.get("message")) if status.get("reason") else None


def _joined(reason: t.Any, message: t.Any) -> str:
    return ": ".join(" ".join(str(part).split()) for part in (reason, message) if part)[:_LONGEST]


def state(kind: str, job: Object | None, pods: t.Sequence[Object]) -> tuple[str, str | None]:
    """Return the job's state and its operator's message."""
    if kind == "pods":
        return _of_pods(pods)
    if job is None:
        return ABSENT, None
    status = job.get("status") or {}
    if kind == "vcjob":
        volcano = status.get("state") or {}
        phase = volcano.get("phase") or ""
        return _VOLCANO.get(phase, RUNNING), _joined(phase, volcano.get("message")) or None
    if kind == "mpijob-v1alpha1":
        # MPIJobLauncherStatusType of the operator's v1alpha1.
        launcher = {"Active": RUNNING, "Succeeded": SUCCEEDED, "Failed": FAILED}
        return launcher.get(status.get("launcherStatus") or "", PENDING), None
    # MPIJob and PyTorchJob have Succeeded, a JobSet Completed and a TrainJob Complete.
    true = {
        condition["type"]: condition
        for condition in status.get("conditions") or []
        if condition.get("status") == "True"
    }
    for name, job_state in (
        ("Failed", FAILED),
        ("Succeeded", SUCCEEDED),
        ("Completed", SUCCEEDED),
        ("Complete", SUCCEEDED),
        ("Running", RUNNING),
        ("Restarting", RUNNING),
    ):
        if name in true:
            return job_state, _joined(true[name].get("reason"), true[name].get("message")) or None
    # A JobSet and a TrainJob have no condition for this.
    phases = {(pod.get("status") or {}).get("phase") or "Pending" for pod in pods}
    return (RUNNING if kind in ("jobset", "trainjob") and phases and "Pending" not in phases else PENDING), None


def _of_pods(pods: t.Sequence[Object]) -> tuple[str, str | None]:
    if not pods:
        return ABSENT, None
    phases = [(pod.get("status") or {}).get("phase") or "Pending" for pod in pods]
    size = max(int((pod["metadata"].get("annotations") or {}).get(SIZE) or 0) for pod in pods)
    leaving = [pod["metadata"]["name"] for pod in pods if pod["metadata"].get("deletionTimestamp")]
    if "Failed" in phases:
        return FAILED, None
    # A pod that was evicted or deleted is not recreated, and the others wait for it forever.
    if len(pods) < size or leaving:
        gone = "%d of %d pods exist" % (len(pods), size)
        return FAILED, gone + (", and %s is being deleted" % ", ".join(leaving) if leaving else "")
    if set(phases) == {"Succeeded"}:
        return SUCCEEDED, None
    return (RUNNING if "Pending" not in phases else PENDING), None


def progress(job_state: str, message: str | None, rows: t.Sequence[t.Mapping[str, t.Any]]) -> str:
    """Return one line for people."""
    counts: dict[str, int] = {}
    for row in rows:
        counts[row["phase"]] = counts.get(row["phase"], 0) + 1
    text = job_state
    if counts:
        text += ", pods: %s" % ", ".join("%d %s" % (counts[phase], phase) for phase in sorted(counts))
    if message and job_state != RUNNING:
        text += "; %s" % message
    reasons: dict[str, list[str]] = {}
    for row in rows:
        if row["reason"]:
            reasons.setdefault(row["reason"], []).append(row["name"])
    for reason, names in reasons.items():
        text += "; %s: %s" % (", ".join(names), reason)
    return text


__all__ = (
    "ABSENT",
    "ENDED",
    "FAILED",
    "PENDING",
    "RUNNING",
    "STATES",
    "SUCCEEDED",
    "pod_row",
    "progress",
    "state",
)
