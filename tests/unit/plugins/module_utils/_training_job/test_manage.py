# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What objects a training job is made of, by what they mean to operators, schedulers and programs."""

from __future__ import annotations

import base64
import functools
import io
import json
import operator
import os
import subprocess
import sys
import typing as t
import zipfile
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._training_job import bundle
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._training_job.kinds import SIZE
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._training_job.manage import (
    SPEC,
    objects,
    references,
    templates,
)
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._training_job.pod import JOB, NETWORKS

Json = t.Any
IMAGE = "registry.example/train@sha256:" + "0" * 64
KINDS = ("pods", "mpijob", "pytorchjob", "vcjob", "jobset", "trainjob")


def options(**more: Json) -> Json:
    return {"kind": "pods", "name": "train", "namespace": "lab", "image": IMAGE, "command": ["train"], **more}


def made(**more: Json) -> dict[str, Json]:
    """Return the objects by kind and name."""
    return {f"{manifest['kind']} {manifest['metadata']['name']}": manifest for manifest in objects(options(**more))}


def container(pod: Json) -> Json:
    (main,) = pod["spec"]["containers"]
    return main


def variables(pod: Json) -> dict[str, Json]:
    return {
        variable["name"]: variable.get("value", variable.get("valueFrom")) for variable in container(pod).get("env", [])
    }


def training(manifests: list[Json]) -> list[Json]:
    """Return one pod of each kind that trains: not an MPIJob's launcher."""
    return [pod for _count, pod in templates(manifests) if "resources" in container(pod)]


# --- each kind ------------------------------------------------------------------------------------------------------


def test_pods_know_their_rank_and_find_the_first() -> None:
    manifests = made(workers=2, gpus=1)
    assert sorted(manifests) == ["Pod train-0", "Pod train-1", "Service train"]
    service = manifests["Service train"]["spec"]
    assert (service["clusterIP"], service["publishNotReadyAddresses"]) == ("None", True)
    for rank in (0, 1):
        pod = manifests[f"Pod train-{rank}"]
        assert service["selector"].items() <= pod["metadata"]["labels"].items()
        assert pod["metadata"]["annotations"][SIZE] == "2"
        assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == (f"train-{rank}", "train")
        assert pod["spec"]["restartPolicy"] == "Never"
        environment = variables(pod)
        assert environment["RANK"] == environment["PET_NODE_RANK"] == str(rank)
        assert environment["WORLD_SIZE"] == environment["PET_NNODES"] == "2"
        assert environment["MASTER_ADDR"] == environment["PET_MASTER_ADDR"] == "train-0.train"
        assert environment["MASTER_PORT"] == environment["PET_MASTER_PORT"] == "29500"


@pytest.mark.parametrize("kind", ["pods", "mpijob", "mpijob-v1alpha1", "pytorchjob"])
def test_the_gang_of_alibaba_cloud_is_the_pods_that_train(kind: str) -> None:
    manifests = objects(options(kind=kind, workers=3, gang="ack"))
    pods = training(manifests)
    assert pods
    for pod in pods:
        assert pod["metadata"]["labels"]["pod-group.scheduling.sigs.k8s.io/min-available"] == "3"
        assert pod["metadata"]["labels"]["pod-group.scheduling.sigs.k8s.io/name"] == "train"
    assert "schedulingPolicy" not in json.dumps(manifests)


def test_pytorchjob_counts_the_master() -> None:
    (job,) = objects(options(kind="pytorchjob", workers=3, gpus=4))
    assert (job["apiVersion"], job["kind"]) == ("kubeflow.org/v1", "PyTorchJob")
    parts = job["spec"]["pytorchReplicaSpecs"]
    assert {name: part["replicas"] for name, part in parts.items()} == {"Master": 1, "Worker": 2}
    assert parts["Master"]["template"] == parts["Worker"]["template"]
    assert container(parts["Master"]["template"])["name"] == "pytorch"
    # The operator sets them, and its own come last.
    assert not {"RANK", "MASTER_ADDR", "WORLD_SIZE"} & set(variables(parts["Master"]["template"]))


def test_vcjob_is_one_task_that_volcano_numbers() -> None:
    (job,) = objects(options(kind="vcjob", workers=2, gpus=8, task_name="task1"))
    assert (job["apiVersion"], job["kind"]) == ("batch.volcano.sh/v1alpha1", "Job")
    spec = job["spec"]
    (task,) = spec["tasks"]
    assert (spec["minAvailable"], task["minAvailable"], task["replicas"], task["name"]) == (2, 2, 2, "task1")
    assert set(spec["plugins"]) == {"env", "svc"}
    assert spec["schedulerName"] == task["template"]["spec"]["schedulerName"] == "volcano"
    environment = variables(task["template"])
    assert environment["MASTER_ADDR"] == "train-task1-0.train"
    assert environment["RANK"]["fieldRef"]["fieldPath"] == "metadata.annotations['volcano.sh/task-index']"


def test_jobset_is_one_indexed_job() -> None:
    (job,) = objects(options(kind="jobset", workers=3, gpus=4, task_name="node"))
    assert (job["apiVersion"], job["kind"]) == ("jobset.x-k8s.io/v1alpha2", "JobSet")
    (part,) = job["spec"]["replicatedJobs"]
    batch = part["template"]["spec"]
    assert (batch["parallelism"], batch["completions"], batch["completionMode"]) == (3, 3, "Indexed")
    assert (batch["backoffLimit"], job["spec"]["failurePolicy"]) == (0, {"maxRestarts": 0})
    assert job["spec"]["network"] == {"enableDNSHostnames": True, "publishNotReadyAddresses": True}
    assert batch["template"]["spec"]["restartPolicy"] == "Never"
    environment = variables(batch["template"])
    assert environment["MASTER_ADDR"] == environment["PET_MASTER_ADDR"] == "train-node-0-0.train"
    index = {
        "fieldRef": {
            "apiVersion": "v1",
            "fieldPath": "metadata.annotations['batch.kubernetes.io/job-completion-index']",
        }
    }
    assert environment["RANK"] == environment["PET_NODE_RANK"] == index
    assert environment["WORLD_SIZE"] == "3"


def test_trainjob_says_what_differs_from_its_runtime() -> None:
    (job,) = objects(
        options(
            kind="trainjob", runtime="rails", workers=2, gpus=8, nproc_per_node="8", shm_size="1Gi", networks=["rail0"],
            env={"NCCL_DEBUG": "INFO"}, node_selector={"zone": "a"}, command=["torchrun", "t.py"],
        )
    )  # fmt: skip
    assert (job["apiVersion"], job["kind"]) == ("trainer.kubeflow.org/v1alpha1", "TrainJob")
    spec = job["spec"]
    assert spec["runtimeRef"] == {"apiGroup": "trainer.kubeflow.org", "kind": "ClusterTrainingRuntime", "name": "rails"}
    given = {"nvidia.com/gpu": "8"}
    assert spec["trainer"] == {
        "image": IMAGE,
        "command": ["torchrun", "t.py"],
        "env": [{"name": "NCCL_DEBUG", "value": "INFO"}],
        "numNodes": 2,
        "numProcPerNode": 8,
        "resourcesPerNode": {"requests": given, "limits": given},
    }
    (patch,) = spec["runtimePatches"]
    assert patch["manager"] == "rdmaops.gpu-fabric/training-job"
    (node,) = patch["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]
    pod = node["template"]["spec"]["template"]
    assert node["name"] == "node"
    assert pod["metadata"] == {"labels": {JOB: "train"}, "annotations": {NETWORKS: "rail0"}}
    # The program, its variables and its resources belong to the trainer; a patch may not have them.
    assert pod["spec"]["containers"] == [
        {
            "name": "node",
            "securityContext": {"capabilities": {"add": ["IPC_LOCK"]}},
            "volumeMounts": [{"name": "dshm", "mountPath": "/dev/shm"}],
        }
    ]
    assert set(pod["spec"]) == {"affinity", "containers", "nodeSelector", "volumes"}


def test_trainjob_leaves_the_number_of_ranks_to_its_runtime() -> None:
    (job,) = objects(options(kind="trainjob"))
    assert "numProcPerNode" not in job["spec"]["trainer"]
    assert job["spec"]["runtimeRef"]["name"] == "torch-distributed"


@pytest.mark.parametrize("kind", ["mpijob", "pytorchjob", "jobset", "trainjob"])
def test_a_queue_of_kueue_is_on_the_object(kind: str) -> None:
    (job,) = objects(options(kind=kind, gang="kueue", queue="research"))
    assert job["metadata"]["labels"] == {JOB: "train", "kueue.x-k8s.io/queue-name": "research"}
    assert "schedulingPolicy" not in json.dumps(job)


def test_pods_are_one_group_in_a_queue_of_kueue() -> None:
    manifests = made(gang="kueue", queue="research", workers=3)
    for rank in range(3):
        meta = manifests[f"Pod train-{rank}"]["metadata"]
        assert meta["labels"]["kueue.x-k8s.io/queue-name"] == "research"
        assert meta["labels"]["kueue.x-k8s.io/pod-group-name"] == "train"
        assert meta["annotations"]["kueue.x-k8s.io/pod-group-total-count"] == "3"
        assert meta["annotations"]["kueue.x-k8s.io/retriable-in-group"] == "false"


# --- what is the same in all kinds ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_options_reach_every_pod_that_trains(kind: str) -> None:
    manifests = objects(
        options(
            kind=kind,
            workers=2,
            gpus=4,
            resources={"rdma/rdma": 1, "cpu": "4", "memory": "16Gi"},
            networks=["kube-system/roce", "rail1"],
            claims=[] if kind == "trainjob" else ["rail0", "node"],
            shm_size="16Gi",
            pull_secrets=["regcred"],
            labels={"team": "ml"},
            annotations={"note": "x"},
            tolerations=[{"operator": "Exists"}],
            node_selector={"ack.node.gpu.schedule": "topology"},
            gpu_topology=True,
            ompi={"pml": "ob1", "btl": "^openib"},
            volumes=[{"name": "data", "mount_path": "/data", "claim": "cifar", "read_only": True}],
            # It is part of a TrainJob's runtime.
            priority_class="" if kind == "trainjob" else "high",
        )
    )
    pods = training(manifests)
    assert pods
    for pod in pods:
        meta, spec, main = pod["metadata"], pod["spec"], container(pod)
        assert {"team": "ml", JOB: "train", "gpu-topology": "train", "gpu-topology-replica": "2"}.items() <= meta[
            "labels"
        ].items()
        assert meta["annotations"][NETWORKS] == "kube-system/roce,rail1"
        assert meta["annotations"]["note"] == "x"
        given = {"rdma/rdma": "1", "cpu": "4", "memory": "16Gi", "nvidia.com/gpu": "4"}
        claims = [] if kind == "trainjob" else ["rail0", "node"]
        claimed = {"claims": [{"name": name} for name in claims]} if claims else {}
        assert main["resources"] == {"requests": given, "limits": given, **claimed}
        assert spec.get("resourceClaims", []) == [{"name": name, "resourceClaimTemplateName": name} for name in claims]
        assert main["securityContext"] == {"capabilities": {"add": ["IPC_LOCK"]}}
        volumes = {volume["name"]: volume for volume in spec["volumes"]}
        assert volumes["dshm"]["emptyDir"] == {"medium": "Memory", "sizeLimit": "16Gi"}
        assert volumes["data"]["persistentVolumeClaim"] == {"claimName": "cifar"}
        assert {mount["mountPath"]: mount.get("readOnly", False) for mount in main["volumeMounts"]} == {
            "/data": True,
            "/dev/shm": False,
        }
        assert spec["imagePullSecrets"] == [{"name": "regcred"}]
        assert spec["tolerations"] == [{"operator": "Exists"}]
        assert spec["nodeSelector"] == {"ack.node.gpu.schedule": "topology"}
        assert spec.get("priorityClassName") == (None if kind == "trainjob" else "high")
        assert variables(pod)["OMPI_MCA_pml"] == "ob1"
        assert variables(pod)["OMPI_MCA_btl"] == "^openib"
        assert spec["affinity"]["podAntiAffinity"]
    for manifest in manifests:
        assert manifest["metadata"]["labels"]["team"] == "ml"
        assert manifest["metadata"]["namespace"] == "lab"


# kind, gang, where the minimum is, the minimum for 4 workers
GANGS: list[tuple[str, str, str, Json]] = [
    ("pods", "volcano", "PodGroup train > spec > minMember", 4),
    ("pods", "scheduler-plugins", "PodGroup train > spec > minMember", 4),
    ("pods", "ack", "Pod train-3 > metadata > labels > pod-group.scheduling.sigs.k8s.io/min-available", "4"),
    ("mpijob", "volcano", "MPIJob train > spec > runPolicy > schedulingPolicy > minAvailable", 5),
    ("pytorchjob", "volcano", "PyTorchJob train > spec > runPolicy > schedulingPolicy > minAvailable", 4),
    ("vcjob", "none", "Job train > spec > minAvailable", 4),
]


@pytest.mark.parametrize(("kind", "gang", "minimum", "expected"), GANGS)
def test_a_gang_is_all_of_them(kind: str, gang: str, minimum: str, expected: Json) -> None:
    manifests = made(kind=kind, gang=gang, workers=4)
    assert functools.reduce(operator.getitem, minimum.split(" > "), manifests) == expected
    assert sum(count for count, _pod in templates(list(manifests.values()))) == int(expected)


def test_a_gangs_pods_belong_to_it_and_its_scheduler() -> None:
    pod = made(gang="volcano")["Pod train-0"]
    assert pod["metadata"]["annotations"]["scheduling.k8s.io/group-name"] == "train"
    assert pod["spec"]["schedulerName"] == "volcano"
    pod = made(gang="scheduler-plugins")["Pod train-0"]
    assert pod["metadata"]["labels"]["scheduling.x-k8s.io/pod-group"] == "train"
    assert made(gang="volcano", scheduler_name="mine")["Pod train-0"]["spec"]["schedulerName"] == "mine"


def test_a_launcher_in_a_gang_is_made_with_its_workers() -> None:
    (job,) = objects(options(kind="mpijob", gang="volcano"))
    assert "launcherCreationPolicy" not in job["spec"]


@pytest.mark.parametrize("kind", ["pods", "pytorchjob", "vcjob"])
def test_pods_begin_with_sshd_where_they_are_to_have_it(kind: str) -> None:
    for pod in training(objects(options(kind=kind, ssh=True))):
        assert container(pod)["command"] == ["/usr/local/sbin/training-entrypoint", "train"]
        (volume,) = [entry for entry in pod["spec"]["volumes"] if "secret" in entry]
        # In octal, 0400.
        assert volume["secret"] == {"secretName": "train-ssh", "defaultMode": 256}
        (mount,) = [entry for entry in container(pod)["volumeMounts"] if entry["name"] == volume["name"]]
        assert (mount["mountPath"], mount["readOnly"]) == ("/etc/training-ssh", True)
    # A job of before that is the same job as one without.
    assert objects(options(kind=kind)) == objects(options(kind=kind, ssh=False))


def test_host_network_keeps_the_clusters_names() -> None:
    for pod in training(objects(options(host_network=True, workers=1))):
        assert (pod["spec"]["hostNetwork"], pod["spec"]["dnsPolicy"]) == (True, "ClusterFirstWithHostNet")


def test_strings_of_templates_mean_what_they_say() -> None:
    """Templates of ansible-core 2.18 hand numbers and booleans on as text."""
    loose = options(workers="2", gpus="4", spread="False", host_network="True", master_port="29501")
    tight = options(workers=2, gpus=4, spread=False, host_network=True, master_port=29501)
    assert objects(loose) == objects(tight)


def test_what_a_job_is_made_of_is_written_on_it() -> None:
    def digests(**more: Json) -> set[str]:
        manifests = [manifest for manifest in objects(options(**more)) if manifest["kind"] != "ConfigMap"]
        return {manifest["metadata"]["annotations"][SPEC] for manifest in manifests}

    assert len(digests()) == 1
    assert digests() == digests(workers=2) != digests(workers=3)
    # What is only asked of the log does not make another job; what a pod begins with does.
    assert digests() == digests(rdma_required=True, require_digest=False)
    assert digests(nccl_env="pod") != digests(nccl_env="pod", rdma_required=True)


def test_a_job_is_named_for_its_removal() -> None:
    manifests = made(gang="volcano", nccl_env="pod")
    named = references("pods", "train", "lab", "volcano", ["train-0", "train-1"])
    # Keys are no manifest of the filter: a module makes them.
    keys = ("v1 Secret", "Secret train-ssh")
    assert {f"{entry['kind']} {entry['metadata']['name']}" for entry in named} == {*manifests, keys[1]}
    assert {entry["apiVersion"] for entry in named} == {entry["apiVersion"] for entry in manifests.values()}
    for kind in KINDS[1:]:
        wanted = {
            f"{manifest['apiVersion']} {manifest['kind']}" for manifest in objects(options(kind=kind, nccl_env="pod"))
        }
        # The Secret of that name is the operator's own there.
        wanted |= set() if kind == "mpijob" else {keys[0]}
        assert {
            f"{reference['apiVersion']} {reference['kind']}"
            for reference in references(kind, "train", "lab", "none", [])
        } == wanted


# --- what a pod begins with -----------------------------------------------------------------------------------------


@pytest.fixture
def start(tmp_path: Path) -> Path:
    """The program as a pod has it, beyond the reach of this checkout."""
    manifests = made(nccl_env="pod")
    file = tmp_path / "start.pyz"
    file.write_bytes(base64.b64decode(manifests["ConfigMap train"]["binaryData"][bundle.FILE]))
    return file


def begin(start: Path, config: Json, *argv: str, **environment: str) -> subprocess.CompletedProcess[str]:
    given = {"PATH": os.environ["PATH"], **environment}
    command = [sys.executable, "-S", str(start), json.dumps(config), *argv]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, env=given, cwd=start.parent)


def test_the_program_is_whole_and_the_same_every_time(start: Path) -> None:
    first = bundle.bundle()
    bundle.bundle.cache_clear()
    assert bundle.bundle() == first
    # Objects may have 1 MiB (etcd's limit on requests is 1.5).
    assert len(first) < 512 * 1024
    names = zipfile.ZipFile(io.BytesIO(start.read_bytes())).namelist()
    assert f"{bundle.PACKAGE}/_rdma/devices.py" in names


def test_a_pod_without_rdma_ends_before_it_trains_where_rdma_is_required(start: Path) -> None:
    done = begin(start, {"nccl": {}, "required": True, "wait": 0}, "echo", "trained")
    assert (done.returncode, done.stdout) == (78, "")
    assert "rdmaops.gpu_fabric: " in done.stderr
    assert "Traceback" not in done.stderr


def test_a_pod_without_rdma_says_so_and_goes_on(start: Path) -> None:
    done = begin(start, {"nccl": {}, "required": False, "wait": 0}, "echo", "trained")
    assert (done.returncode, done.stdout) == (0, "trained\n")
    assert "continuing without: " in done.stderr


def test_the_master_is_the_first_of_a_list_of_hosts(start: Path) -> None:
    hosts = "train-task1-0.train,train-task1-1.train"
    done = begin(start, {"master_from": "VC_TASK1_HOSTS"}, "printenv", "MASTER_ADDR", VC_TASK1_HOSTS=hosts)
    assert (done.returncode, done.stdout) == (0, "train-task1-0.train\n")
    done = begin(start, {"master_from": "VC_TASK2_HOSTS"}, "printenv", VC_TASK1_HOSTS=hosts)
    assert done.returncode == 78
    assert "the variable VC_TASK2_HOSTS is not set. Lists of hosts are in: VC_TASK1_HOSTS" in done.stderr


def test_a_program_that_is_not_there(start: Path) -> None:
    done = begin(start, {}, "no-such-program")
    assert (done.returncode, done.stderr) == (
        127,
        "rdmaops.gpu_fabric: Starting no-such-program: No such file or directory\n",
    )


@pytest.mark.parametrize("kind", KINDS)
def test_every_rank_begins_with_it(kind: str) -> None:
    manifests = objects(
        options(kind=kind, nccl_env="pod", nccl_env_options={"exclude": ["mlx5_4"]}, rdma_required=True, rdma_wait=60)
    )
    assert manifests[0]["kind"] == "ConfigMap"
    commands = [container(pod).get("command", []) for _count, pod in templates(manifests)]
    ranks = [argv for argv in commands if "/opt/rdmaops/job/start.pyz" in argv]
    assert ranks
    for argv in ranks:
        config = json.loads(argv[argv.index("/opt/rdmaops/job/start.pyz") + 1])
        assert config == {"nccl": {"exclude": ["mlx5_4"]}, "required": True, "wait": 60}
        assert argv[-1] == "train"
    for pod in training(manifests):
        assert {"name": "rdmaops", "configMap": {"name": "train"}} in pod["spec"]["volumes"]
