# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Jobs in a queue of Kueue: admitted, kept back with a reason, and refused if the queue can never hold them."""

from __future__ import annotations

import json
import typing as t
from collections.abc import Iterator

import pytest

from ansible_collections.rdmaops.gpu_fabric.molecule.pods.tests import podlab

TRAIN = "rdmaops.gpu_fabric.train"
API = "kueue.x-k8s.io/v1beta2"
# Two pods of 100m fit at once.
CPU = "250m"
KINDS = ("jobset", "trainjob", "mpijob", "pods")


@pytest.fixture(scope="module", autouse=True)
def queue(lab: podlab.PodLab) -> Iterator[None]:
    quota = {"name": "any", "resources": [{"name": "cpu", "nominalQuota": CPU}]}
    objects: t.Any = {
        "apiVersion": "v1",
        "kind": "List",
        "items": [
            {"apiVersion": API, "kind": "ResourceFlavor", "metadata": {"name": "any"}},
            {
                "apiVersion": API,
                "kind": "ClusterQueue",
                "metadata": {"name": "lab"},
                "spec": {
                    "namespaceSelector": {},
                    "resourceGroups": [{"coveredResources": ["cpu"], "flavors": [quota]}],
                },
            },
            {
                "apiVersion": API,
                "kind": "LocalQueue",
                "metadata": {"name": "research", "namespace": podlab.NAMESPACE},
                "spec": {"clusterQueue": "lab"},
            },
        ],
    }
    lab.cluster.kubectl("apply", "-f", "-", stdin=json.dumps(objects))
    yield
    lab.cluster.kubectl("delete", "-f", "-", stdin=json.dumps(objects))


def variables(name: str, kind: str, **options: t.Any) -> podlab.Json:
    own = {
        "name": name,
        "kind": kind,
        "gang": "kueue",
        "queue": "research",
        "resources": {"cpu": "100m"},
        "networks": [],
    }
    if kind == "trainjob":
        own["runtime"] = "torch-rails"
    return {f"training_job_{key}": value for key, value in {**own, **options}.items()}


@pytest.mark.parametrize("kind", KINDS)
def test_a_job_that_is_admitted(lab: podlab.PodLab, kind: str) -> None:
    job = variables("queued", kind, command=["sh", "-c", "echo admitted"])
    done = lab.playbook(TRAIN, **job)
    assert done.returncode == 0, done.stdout
    again = lab.playbook(TRAIN, **job)
    assert again.returncode == 0
    assert "changed=0" in again.stdout.split("PLAY RECAP")[1]
    assert lab.playbook(TRAIN, **job, training_job_state="absent").returncode == 0


def test_a_job_that_waits_says_what_for(lab: podlab.PodLab) -> None:
    first = variables("first", "jobset", command=["sleep", "900"], wait=False)
    assert lab.playbook(TRAIN, **first).returncode == 0
    second = variables("second", "jobset", command=["true"], wait_timeout=60)
    try:
        done = lab.playbook(TRAIN, **second)
        text = " ".join((done.stdout + done.stderr).split())
        assert done.returncode != 0
        assert "ml/second: it has not finished after" in text
        assert (
            "waits in the queue research: couldn't assign flavors to pod set worker: insufficient unused quota for cpu"
            in text
        )
        # When the first one goes, the second is admitted.
        remove = {"training_job_state": "absent", "training_job_remove_ok": True}
        assert lab.playbook(TRAIN, **first, **remove).returncode == 0
        done = lab.playbook(TRAIN, **{**second, "training_job_wait_timeout": 600})
        assert done.returncode == 0, done.stdout
    finally:
        for job in (first, second):
            lab.playbook(TRAIN, **job, training_job_state="absent", training_job_remove_ok=True)


def test_a_job_that_the_queue_can_never_hold(lab: podlab.PodLab) -> None:
    refused: dict[str, tuple[podlab.Json, str]] = {
        "never": ({"workers": 3}, "the queue research (ClusterQueue lab) can never hold it: cpu: 0.3 wanted, the quota is 0.25"),
        "nowhere": ({"queue": "other"}, "the queue ml/other does not exist; there are: research"),
    }  # fmt: skip
    for name, (options, sentence) in refused.items():
        done = lab.playbook(TRAIN, **variables(name, "jobset", command=["true"], **options))
        assert done.returncode != 0
        assert sentence in " ".join(done.stdout.split()), done.stdout
    assert lab.cluster.kubectl("get", "jobsets,workloads", "-n", podlab.NAMESPACE, "-o", "name") == ""
