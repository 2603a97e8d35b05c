# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Jobs under the eyes of the real operators, with their webhooks, on an API server without nodes.

A second run does not revert what the operators add, and the state of a waiting job has Kueue's reason.
"""

from __future__ import annotations

import typing as t
from collections.abc import Iterator

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._errors import FabricError
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._training_job import info
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._training_job.check import manage as check_job
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._training_job.manage import objects
from ansible_collections.rdmaops.gpu_fabric.tests.lab import operators
from ansible_collections.rdmaops.gpu_fabric.tests.support.cluster import Cluster
from ansible_collections.rdmaops.gpu_fabric.tests.support.failures import message_of
from ansible_collections.rdmaops.gpu_fabric.tests.support.objects import apply_set, client
from ansible_collections.rdmaops.gpu_fabric.tests.support.waiting import wait_for

pytestmark = pytest.mark.long

Json = t.Any
IMAGE = "registry.example/train@sha256:" + "0" * 64
API = "kueue.x-k8s.io/v1beta2"
# Two pods of 100m each.
QUOTA = "250m"
RUNTIME: Json = {
    "apiVersion": "trainer.kubeflow.org/v1alpha1",
    "kind": "ClusterTrainingRuntime",
    "metadata": {"name": "torch-distributed", "labels": {"trainer.kubeflow.org/framework": "torch"}},
    "spec": {
        "mlPolicy": {"numNodes": 1, "torch": {}},
        "template": {
            "spec": {
                "replicatedJobs": [
                    {
                        "name": "node",
                        "template": {
                            "metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}},
                            "spec": {"template": {"spec": {"containers": [{"name": "node", "image": "x"}]}}},
                        },
                    }
                ]
            }
        },
    },
}


@pytest.fixture(scope="module")
def operated(own_cluster: Cluster) -> Cluster:
    # Kueue manages the kinds that are there when it starts.
    for program in ("mpi-operator", "jobset", "trainer-controller-manager", "kueue"):
        operators.up(own_cluster.plane, program)
    flavor = {"name": "any", "resources": [{"name": "cpu", "nominalQuota": QUOTA}]}
    groups = [{"coveredResources": ["cpu"], "flavors": [flavor]}]
    own_cluster.apply(
        RUNTIME,
        {"apiVersion": API, "kind": "ResourceFlavor", "metadata": {"name": "any"}},
        {
            "apiVersion": API,
            "kind": "ClusterQueue",
            "metadata": {"name": "lab"},
            "spec": {"namespaceSelector": {}, "resourceGroups": groups},
        },
    )
    return own_cluster


@pytest.fixture
def namespace(operated: Cluster) -> Iterator[str]:
    with operated.namespace() as name:
        queue = {"metadata": {"name": "research", "namespace": name}, "spec": {"clusterQueue": "lab"}}
        operated.apply({"apiVersion": API, "kind": "LocalQueue", **queue})
        active = "jsonpath={.status.conditions[?(@.type=='Active')].status}=True"
        operated.kubectl("wait", f"--for={active}", "localqueue/research", "-n", name, "--timeout=30s")
        yield name
        operated.kubectl("delete", "jobsets,trainjobs,mpijobs,pods", "--all", "-n", name, "--wait=false")
        # Their quota is free when their workloads are gone: the garbage collector looks for new kinds every 30 s.
        left = ("get", "workloads,pods", "-n", name, "-o", "name")
        wait_for(lambda: not operated.kubectl(*left), 120, pause=1, report=lambda: operated.kubectl(*left))


def job(namespace: str, kind: str, name: str = "train", **more: Json) -> list[Json]:
    options = {"kind": kind, "name": name, "namespace": namespace, "image": IMAGE, "command": ["x"], "gpus": 0}
    return objects({**options, "workers": 2, "resources": {"cpu": "100m"}, **more})


def check(plane: Cluster, manifests: list[Json]) -> Json:
    params = {"objects": manifests, "capacity": True, "image_present": False}
    return check_job(params, False, client(plane.kubeconfig))


def look(plane: Cluster, namespace: str, kind: str, name: str = "train") -> Json:
    params = {"kind": kind, "name": name, "namespace": namespace, "wait_for": "ended", "log_head": 1, "log_tail": 1}
    return info.manage(params, True, client(plane.kubeconfig))


def progress(plane: Cluster, namespace: str, kind: str, name: str = "train") -> str:
    return str(look(plane, namespace, kind, name)["progress"])


def apply(plane: Cluster, namespace: str, manifests: list[Json], name: str = "train", **more: Json) -> list[str]:
    actions: list[str] = apply_set(plane, f"training-job-{namespace}-{name}", *manifests, **more)["actions"]
    return actions


@pytest.mark.parametrize("kind", ["jobset", "trainjob", "mpijob", "pods"])
def test_operators_take_a_job_and_a_second_look_sees_no_change(operated: Cluster, namespace: str, kind: str) -> None:
    manifests = job(namespace, kind, gang="kueue", queue="research")
    assert check(operated, manifests)["exists"] is False
    checked = apply(operated, namespace, manifests, check=True)
    assert apply(operated, namespace, manifests) == checked != []
    # Admitted by Kueue, with pods from its operator that no node can run.
    wait_for(lambda: "no nodes available to schedule pods" in progress(operated, namespace, kind), 60, pause=1)
    for check_mode in (False, True):
        assert apply(operated, namespace, manifests, check=check_mode) == []
    assert check(operated, manifests)["exists"] is True


@pytest.mark.parametrize("kind", ["jobset", "trainjob", "mpijob", "pods"])
def test_a_job_that_waits_says_what_for(operated: Cluster, namespace: str, kind: str) -> None:
    first = job(namespace, "jobset", "first", gang="kueue", queue="research")
    apply(operated, namespace, first, "first")
    wait_for(lambda: "no nodes available" in progress(operated, namespace, "jobset", "first"), 60, pause=1)
    apply(operated, namespace, job(namespace, kind, gang="kueue", queue="research"))
    reason = "insufficient unused quota for cpu in flavor any, 150m more needed"
    wait_for(lambda: reason in progress(operated, namespace, kind), 60, pause=1)
    waiting = look(operated, namespace, kind)
    assert (waiting["state"], waiting["queued"]) == ("pending", True)
    assert waiting["said"].startswith("waits in the queue research: couldn't assign flavors to pod set")


def test_a_job_that_the_queue_can_never_hold(operated: Cluster, namespace: str) -> None:
    manifests = job(namespace, "jobset", workers=3, gang="kueue", queue="research")
    text = "the queue research (ClusterQueue lab) can never hold it: cpu: 0.3 wanted, the quota is 0.25"
    assert text in message_of(FabricError, check, operated, manifests)
    manifests = job(namespace, "jobset", gang="kueue", queue="other")
    text = f"the queue {namespace}/other does not exist; there are: research"
    assert text in message_of(FabricError, check, operated, manifests)


def test_a_runtime_with_the_pod_network_alone_is_warned_of(operated: Cluster, namespace: str) -> None:
    (warning,) = check(operated, job(namespace, "trainjob", gang="kueue", queue="research"))["warnings"]
    assert "NCCL falls back to the slower pod network without an error" in warning
