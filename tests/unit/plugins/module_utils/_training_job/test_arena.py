# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the MPIJob of arena is made of, by what its operator makes of it."""

from __future__ import annotations

import typing as t

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._training_job.manage import objects, references
from ansible_collections.rdmaops.gpu_fabric.tests.unit.plugins.module_utils._training_job.test_manage import (
    container,
    options,
)

Json = t.Any
# Fields of MPIJobSpec in v1alpha1 (kubeflow/arena at 0cc88e2, kubeflow.org_mpijobs_v1.yaml).
ARENA = {
    *("backoffLimit", "cleanPodPolicy", "gpus", "launcherOnMaster", "launcherResources", "mountsOnLauncher"),
    *("replicas", "template"),
}


def test_mpijob_of_arena_is_one_template() -> None:
    more = {"gpu_resource": "aliyun.com/gpu", "host_network": True, "gang": "ack", "ompi": {"pml": "ob1"}}
    _service, job = objects(options(kind="mpijob-v1alpha1", workers=2, gpus=8, **more, env={"A": "b"}))
    assert (job["apiVersion"], job["kind"]) == ("kubeflow.org/v1alpha1", "MPIJob")
    assert set(job["spec"]) <= ARENA
    template = job["spec"]["template"]
    assert job["spec"]["replicas"] == 2
    assert container(template)["command"] == [
        *("mpirun", "--allow-run-as-root", "-np", "16", "-x", "MASTER_ADDR=train-worker-0.train-worker"),
        *("-x", "MASTER_PORT=29500", "-x", "A", "train"),
    ]
    assert container(template)["resources"]["limits"] == {"aliyun.com/gpu": "8"}
    assert template["spec"]["hostNetwork"] is True
    # The launcher reaches the workers by kubectl exec, which logs in with its account's token.
    assert "automountServiceAccountToken" not in template["spec"]


def test_the_workers_of_arena_have_names() -> None:
    """Their StatefulSet names the Service JOB-worker, which the operator does not create, and labels them."""
    kind = "mpijob-v1alpha1"
    service, job = objects(options(kind=kind, master_port=29501))
    assert (service["kind"], service["metadata"]["name"]) == ("Service", "train-worker")
    assert service["spec"]["clusterIP"] == "None"
    assert [port["port"] for port in service["spec"]["ports"]] == [29501]
    labels = {**job["spec"]["template"]["metadata"]["labels"], "group_name": "kubeflow.org", "mpi_job_name": "train"}
    assert service["spec"]["selector"].items() <= {**labels, "mpi_role_type": "worker"}.items()
    assert not service["spec"]["selector"].items() <= {**labels, "mpi_role_type": "launcher"}.items()
    assert "MASTER_PORT=29501" in container(job["spec"]["template"])["command"]
    removed = {(entry["kind"], entry["metadata"]["name"]) for entry in references(kind, "train", "lab", "none", [])}
    assert removed == {("ConfigMap", "train"), ("Service", "train-worker"), ("MPIJob", "train")}


def test_ranks_of_arena_are_on_all_workers() -> None:
    """The operator lists a worker with as many slots as it has GPUs, and mpirun fills the first worker first."""

    def argv(**more: Json) -> Json:
        _service, job = objects(options(kind="mpijob-v1alpha1", workers=2, gpus=8, **more))
        return container(job["spec"]["template"])["command"]

    two = argv(nproc_per_node="1")
    assert two[two.index("-np") - 2 : two.index("-np") + 2] == ["--map-by", "ppr:1:node", "-np", "2"]
    assert "--map-by" not in argv()
    assert argv(nproc_per_node="1", mpirun_args=["--map-by", "node"]).count("--map-by") == 1
