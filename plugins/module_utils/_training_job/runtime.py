# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""The runtime of a TrainJob: whether it exists, has a place for the program, and gives its pods a fast network."""

from __future__ import annotations

import typing as t

from .._kubernetes.client import Object, path
from .findings import Findings
from .kinds import CUSTOM, NODE
from .pod import NETWORKS

API = CUSTOM["trainjob"][0]
PLURALS = {"ClusterTrainingRuntime": "clustertrainingruntimes", "TrainingRuntime": "trainingruntimes"}
# Which replicated job runs the training (LabelTrainJobAncestor and AncestorTrainer in constants.go of trainer v2.3.0).
STEP = "trainer.kubeflow.org/trainjob-ancestor-step"


def pod_of(runtime: Object) -> Object | None:
    """Return the pod template of the trainer step, or None if it has no container for the program."""
    for job in (runtime.get("spec") or {}).get("template", {}).get("spec", {}).get("replicatedJobs") or []:
        template = job.get("template") or {}
        labels = (template.get("metadata") or {}).get("labels") or {}
        pod = (template.get("spec") or {}).get("template") or {}
        names = [container.get("name") for container in (pod.get("spec") or {}).get("containers") or []]
        if job.get("name") == NODE and labels.get(STEP) == "trainer" and NODE in names:
            return t.cast(Object, pod)
    return None


def has_network(pod: Object) -> bool:
    """Whether a pod has more than the pod network."""
    spec = pod.get("spec") or {}
    annotations = (pod.get("metadata") or {}).get("annotations") or {}
    return bool(annotations.get(NETWORKS) or spec.get("hostNetwork") or spec.get("resourceClaims"))


def check(findings: Findings, namespace: str, spec: Object, job_pod: Object) -> None:
    """Look at the runtime that a TrainJob names."""
    kind, name = spec["runtimeRef"]["kind"], spec["runtimeRef"]["name"]
    where = path(API, PLURALS[kind], namespace if kind == "TrainingRuntime" else None, name)
    text = "the %s %s" % (kind, name)
    runtime = findings.find(text, where)
    if runtime is None:
        return
    pod = pod_of(runtime)
    if pod is None:
        findings.problems.append(
            "%s has no replicated job %s with a container %s and the label %s: trainer, which a job's program runs in"
            % (text, NODE, NODE, STEP)
        )
    elif not (has_network(pod) or has_network(job_pod)):
        findings.warnings.append(
            "%s and the job give its pods no additional network, not the host's network and no resource claim, so NCCL "
            "falls back to the slower pod network without an error. Set networks, or use a runtime that has them (role "
            "training_runtime)" % text
        )


__all__ = ("check", "has_network", "pod_of")
