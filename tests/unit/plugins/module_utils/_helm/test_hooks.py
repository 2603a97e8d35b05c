# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._errors import FabricError
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._helm.hooks import HOOK, Watch

NAMESPACE = "gpu-operator"
UNSCHEDULED = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
TAINTS = "0/3 nodes are available: 3 node(s) had untolerated taint(s)."


def job(*conditions: str, hook: str = "pre-upgrade") -> dict[str, t.Any]:
    metadata = {"name": "gpu-operator-upgrade-crd", "annotations": {HOOK: hook} if hook else {}}
    return {"metadata": metadata, "status": {"conditions": [{"type": kind, "status": "True"} for kind in conditions]}}


def pod(status: dict[str, t.Any], label: str = "batch.kubernetes.io/job-name") -> dict[str, t.Any]:
    metadata = {"name": "gpu-operator-upgrade-crd-7hx2k", "labels": {label: "gpu-operator-upgrade-crd"}}
    return {"metadata": metadata, "status": status}


class Api:
    """The API: it answers with Jobs and pods of the test's."""

    def __init__(self, jobs: list[t.Any], pods: list[t.Any]) -> None:
        self.jobs, self.pods = jobs, pods
        self.error: FabricError | None = None

    def items(self, path: str, doing: str) -> list[t.Any]:
        if self.error:
            raise self.error
        return self.jobs if path.endswith("/jobs") else self.pods


def look(*apis: Api) -> tuple[Watch, list[str]]:
    said: list[str] = []
    watch = Watch(t.cast("t.Any", None), NAMESPACE, said.append)
    for api in apis:
        watch.client = t.cast("t.Any", api)
        watch.look()
    return watch, said


ABOUT = "The pre-upgrade hook's Job gpu-operator/gpu-operator-upgrade-crd waits: "
OWN = ABOUT + "its pod gpu-operator-upgrade-crd-7hx2k "


def container(reason: str, message: str = "") -> dict[str, t.Any]:
    return {"state": {"waiting": {"reason": reason, "message": message}}}


# the pod's status, what is said of it
WAITS = [
    ({"conditions": [{**UNSCHEDULED, "message": TAINTS}]}, "is not scheduled: " + TAINTS),
    ({"conditions": [UNSCHEDULED]}, "is not scheduled: Unschedulable"),
    (
        {"containerStatuses": [container("ImagePullBackOff", 'Back-off pulling image "nvcr.io/x:1"')]},
        'does not start, ImagePullBackOff: Back-off pulling image "nvcr.io/x:1"',
    ),
    ({"initContainerStatuses": [container("CrashLoopBackOff")]}, "does not start, CrashLoopBackOff"),
    ({"phase": "Failed", "message": "The node was low on memory."}, "failed: The node was low on memory."),
]


@pytest.mark.parametrize(("status", "text"), WAITS)
@pytest.mark.parametrize("label", ["batch.kubernetes.io/job-name", "job-name"])
def test_why_a_job_waits(status: dict[str, t.Any], text: str, label: str) -> None:
    _watch, said = look(Api([job()], [pod(status, label)]))
    assert said == [OWN + text]


def test_a_job_without_a_pod() -> None:
    _watch, said = look(Api([job()], [pod({}, "another")]))
    text = "it has no pod (kubectl describe job -n gpu-operator gpu-operator-upgrade-crd lists the reasons)"
    assert said == [ABOUT + text]


@pytest.mark.parametrize(
    ("jobs", "status"),
    [
        ([], {}),
        ([job(hook="")], {"conditions": [UNSCHEDULED]}),
        ([job("Complete")], {"conditions": [UNSCHEDULED]}),
        ([job("Failed")], {"conditions": [UNSCHEDULED]}),
        ([job()], {"phase": "Running", "conditions": [{"type": "PodScheduled", "status": "True"}]}),
        ([job()], {"phase": "Pending", "containerStatuses": [container("ContainerCreating")]}),
    ],
    ids=["no Job", "no hook", "complete", "failed", "runs", "pulls its image"],
)
def test_what_runs_does_not_wait(jobs: list[t.Any], status: dict[str, t.Any]) -> None:
    watch, said = look(Api(jobs, [pod(status)]))
    assert (watch.text, said) == ("", [])


def test_each_reason_is_said_once_and_ends_with_its_cause() -> None:
    waits = Api([job()], [pod({"conditions": [UNSCHEDULED]})])
    runs = Api([job()], [pod({"phase": "Running"})])
    watch, said = look(waits, waits, runs)
    assert (len(said), watch.text) == (1, "")
    watch, said = look(waits, runs, waits)
    assert (len(said), watch.text) == (2, said[0])


def test_what_cannot_be_read_does_not_stop_helm() -> None:
    api = Api([], [])
    api.error = FabricError("Listing the hooks' Jobs in the namespace gpu-operator: forbidden")
    watch, said = look(api)
    assert watch.text == ""
    assert said[0].startswith("Whether a hook's Job waits cannot be determined: Listing the hooks' Jobs")
