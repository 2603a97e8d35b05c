# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Role training_runtime through ansible-playbook, on a real API server with the definitions of Kubeflow Trainer."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._training_job import runtime
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._training_job.findings import Findings
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._training_job.manage import objects, templates
from ansible_collections.rdmaops.gpu_fabric.tests.support import operators, site
from ansible_collections.rdmaops.gpu_fabric.tests.support.cluster import Cluster
from ansible_collections.rdmaops.gpu_fabric.tests.support.objects import client

Json = t.Any
IMAGE = "registry.example/train@sha256:" + "0" * 64
RAILS = {
    "training_runtime_networks": ["default/rail0", "default/rail1"],
    "training_runtime_resources": {"nvidia.com/gpu": 8, "memory": "64Gi"},
    "training_runtime_pull_secrets": ["regcred"],
    "training_runtime_tolerations": [{"operator": "Exists"}],
}


class Play:
    """The role on localhost, with the variables of a site."""

    def __init__(self, plane: Cluster, directory: Path) -> None:
        self.variables: Json = {
            "training_runtime_kubeconfig": str(plane.kubeconfig),
            "training_runtime_name": "torch-rails",
            "training_runtime_image": IMAGE,
            **RAILS,
        }
        self.directory = directory

    def run(self, *arguments: str, rc: int = 0, **variables: Json) -> site.Run:
        roles = {"roles": ["rdmaops.gpu_fabric.training_runtime"]}
        argv = site.book(self.directory, roles, variables={**self.variables, **variables})
        run = site.ansible_playbook(*argv, *arguments, limit=300)
        assert run.rc == rc, run.output
        return run


@pytest.fixture
def play(plane: Cluster, tmp_path: Path) -> Play:
    operators.install(plane, "trainer")
    return Play(plane, tmp_path)


def findings(plane: Cluster, namespace: str, **more: Json) -> Findings:
    """Return what a job says of the runtime that it names."""
    job = {"kind": "trainjob", "name": "train", "namespace": namespace, "image": IMAGE, "command": ["x"], **more}
    manifests = objects(job)
    ((_count, pod),) = templates(manifests)
    answer = Findings(client(plane.kubeconfig), "Checking the job")
    runtime.check(answer, namespace, manifests[-1]["spec"], pod)
    return answer


def anything(plane: Cluster, namespace: str, **more: Json) -> list[str]:
    answer = findings(plane, namespace, **more)
    return answer.problems + answer.unchecked + answer.warnings


def test_the_runtime_of_a_site(plane: Cluster, play: Play) -> None:
    checked = play.run("--check")
    assert checked.changed() == 1
    assert play.run().changed() == 1
    for arguments in ((), ("--check",)):
        assert play.run(*arguments).changed() == 0
    live = plane.json("get", "clustertrainingruntime", "torch-rails")
    pod = runtime.pod_of(live)
    assert pod is not None
    assert pod["metadata"]["annotations"] == {"k8s.v1.cni.cncf.io/networks": "default/rail0,default/rail1"}
    (container,) = pod["spec"]["containers"]
    assert container["resources"]["limits"] == {"nvidia.com/gpu": 8, "memory": "64Gi"}
    assert container["securityContext"] == {"capabilities": {"add": ["IPC_LOCK"]}}
    assert {variable["name"]: variable["value"] for variable in container["env"]} == {
        "NCCL_DEBUG": "INFO", "UCX_LOG_LEVEL": "info",
    }  # fmt: skip
    assert not anything(plane, "default", runtime="torch-rails")
    (missing,) = findings(plane, "default", runtime="torch").problems
    assert missing == "the ClusterTrainingRuntime torch does not exist; there are: torch-rails"

    # Drift is reported, and repaired.
    plane.kubectl(
        "patch", "clustertrainingruntime", "torch-rails", "--type=json", "--field-manager=kubectl-edit",
        '-p=[{"op": "remove", "path": "/spec/template/spec/replicatedJobs/0/template/spec/template/metadata/annotations"}]',
    )  # fmt: skip
    assert findings(plane, "default", runtime="torch-rails").warnings
    assert play.run("--check").changed() == 1
    assert play.run().changed() == 1
    assert not anything(plane, "default", runtime="torch-rails")

    for arguments, changes in ((("--check",), 1), ((), 1), ((), 0)):
        assert play.run(*arguments, training_runtime_state="absent").changed() == changes
    assert not plane.kubectl("get", "clustertrainingruntimes", "-o", "name")


def test_the_runtime_of_one_namespace(plane: Cluster, play: Play) -> None:
    with plane.namespace() as namespace:
        claims = [{"name": "nics", "resourceClaimTemplateName": "rails"}]
        own: Json = {"training_runtime_kind": "TrainingRuntime", "training_runtime_namespace": namespace}
        own.update(training_runtime_networks=[], training_runtime_resource_claims=claims)
        assert play.run(**own).changed() == 1
        pod = runtime.pod_of(plane.json("get", "trainingruntime", "torch-rails", "-n", namespace))
        assert pod is not None
        assert pod["spec"]["resourceClaims"] == claims
        assert pod["spec"]["containers"][0]["resources"]["claims"] == [{"name": "nics"}]
        job = {"runtime": "torch-rails", "runtime_kind": "TrainingRuntime"}
        assert not anything(plane, namespace, **job)


def test_a_runtime_without_a_way_to_the_fabric_is_refused(plane: Cluster, play: Play) -> None:
    run = play.run(rc=2, training_runtime_networks=[])
    assert "Creating the ClusterTrainingRuntime torch-rails: training_runtime_image is" in run.messages()
    assert "one way to the fabric: training_runtime_networks or training_runtime_host_network" in run.messages()
    assert not plane.kubectl("get", "clustertrainingruntimes", "-o", "name")
    assert play.run(training_runtime_name="").changed() == 0
