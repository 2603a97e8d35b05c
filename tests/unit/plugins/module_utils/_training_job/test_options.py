# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options of which no job can be made."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._training_job.manage import objects
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._training_job.options import JobError
from ansible_collections.rdmaops.gpu_fabric.tests.support.failures import message_of

Json = t.Any
IMAGE = "registry.example/train@sha256:" + "0" * 64


def options(**more: Json) -> Json:
    return {"kind": "pods", "name": "train", "namespace": "lab", "image": IMAGE, "command": ["train"], **more}


# options, what is said
BAD = [
    ({"workers": 0}, "workers is 0; a job has at least one pod that trains"),
    ({"workers": -1}, "workers is -1; it must be a whole number, not below 0"),
    (
        {"kind": "job"},
        "kind is 'job'; there are: pods, mpijob, mpijob-v1alpha1, pytorchjob, vcjob, jobset, trainjob",
    ),
    ({"resources": {"rdma/rdma": 0}}, "resources has rdma/rdma: 0; a resource of zero is none: leave it out"),
    ({"resources": {"memory": "0Gi"}}, "resources has memory: 0Gi; a resource of zero is none: leave it out"),
    ({"resources": {"rdma/rdma": "0.5"}}, "resources has rdma/rdma: 0.5; extended resources are whole numbers"),
    ({"resources": {"rdma": 1}}, "resources has 'rdma'; extended resources are DOMAIN/NAME, such as rdma/rdma"),
    ({"resources": {"memory": "16GB"}}, "resources has memory: '16GB', which is not a quantity"),
    ({"resources": {"nvidia.com/gpu": 8}}, "resources has nvidia.com/gpu, which gpus and gpu_resource set"),
    ({"image": "train:latest"}, "image is 'train:latest'; without a digest two pods may run different programs"),
    ({"image": ""}, "image is missing"),
    *(
        ({"image": image}, f"image is {image!r}; without a digest two pods may run different programs")
        for image in ("x:1", "x@y", "x@sha256:", f"x@sha256:{'a' * 63}", f"x@sha256:{'A' * 64}", f"x@sha512:{'a' * 64}")
    ),
    ({"command": []}, "command is missing"),
    ({"name": "Train"}, "name is 'Train'; it must be a DNS label (RFC 1123)"),
    ({"name": "t" * 46}, "at most 45 characters, as pod names are derived from it"),
    ({"name": "train_1"}, "name is 'train_1'; it must be a DNS label"),
    ({"name": "1train"}, "name is '1train'; it must begin with a letter"),
    ({"networks": ["roce;rm"]}, "networks has 'roce;rm'; an entry is [NAMESPACE/]NAME[@INTERFACE]"),
    ({"networks": ["roce"], "host_network": True}, "host_network and networks are mutually exclusive"),
    ({"claims": ["ml/rail0"]}, "claims has 'ml/rail0'; an entry is the name of a ResourceClaimTemplate, a DNS label"),
    ({"claims": ["rail0"], "host_network": True}, "host_network and claims are mutually exclusive"),
    (
        {"claims": ["rail0"], "kind": "trainjob"},
        "claims cannot be set for a TrainJob, because its runtime has them. Set them in the runtime torch-distributed",
    ),
    ({"shm_size": "much"}, "shm_size is 'much', which is not a quantity"),
    ({"env": {"A-B": "1"}}, "env has 'A-B', which is not a valid name of an environment variable"),
    ({"env": {"DEBUG": True}}, "env.DEBUG is True, which YAML reads as true or false; quote it"),
    ({"env": {"RANK": "0"}}, "env has RANK, which the role itself sets"),
    ({"volumes": [{"name": "d", "mount_path": "/d"}]}, "volumes[0] must have exactly one of claim, host_path"),
    ({"volumes": [{"name": "d", "mount_path": "d", "claim": "c"}]}, "volumes[0] has the mount_path 'd'"),
    ({"volumes": [{"name": "dshm", "mount_path": "/d", "claim": "c"}]}, "volumes[0] has the name 'dshm'"),
    ({"volumes": [{"name": "d", "mount_path": "/d", "nfs": {"server": "s"}}]}, "volumes[0] has nfs {'server': 's'}"),
    ({"volumes": [{"name": "training-ssh", "mount_path": "/d", "claim": "c"}]}, "not dshm or rdmaops or training-ssh"),
    (
        {"kind": "mpijob", "command": ["/usr/bin/torchrun", "train.py"]},
        "command starts torchrun, and mpirun starts the ranks of an MPI job: each would train alone. Set it to the program of "
        "a rank (python3 and its file), or kind to another one",
    ),
    (
        {"kind": "mpijob", "ssh": True},
        "ssh is true; the operator of an MPIJob has its own way from the launcher to the workers",
    ),
    ({"gang": "yarn"}, "gang is 'yarn'; there are: none, volcano, scheduler-plugins, ack, kueue"),
    ({"gang": "kueue"}, "queue is empty; the gang kueue needs the name of a LocalQueue"),
    ({"kind": "vcjob", "gang": "kueue", "queue": "q"}, "which schedules gangs itself. Choose one of: none, volcano"),
    (
        {"kind": "mpijob-v1alpha1", "gang": "kueue", "queue": "q"},
        "has no policy for a scheduler. Choose one of: none, ack",
    ),
    ({"kind": "jobset", "gang": "volcano"}, "a JobSet has no policy for a scheduler. Choose one of: none, ack, kueue"),
    ({"kind": "trainjob", "gang": "ack"}, "is part of its runtime (podGroupPolicy). Choose one of: none, kueue"),
    (
        {"kind": "trainjob", "host_network": True, "working_dir": "/w"},
        "host_network and working_dir cannot be set for a TrainJob, because its runtime has them. Set them in the runtime "
        "torch-distributed",
    ),
    ({"kind": "trainjob", "runtime": "Rails"}, "runtime is 'Rails'; it must be the name of a ClusterTrainingRuntime"),
    (
        {"kind": "trainjob", "runtime_kind": "x"},
        "runtime_kind is 'x'; there are: ClusterTrainingRuntime, TrainingRuntime",
    ),
    ({"kind": "trainjob", "master_addr": "10.0.0.1"}, "do not apply to a trainjob: its operator sets the master"),
    (
        {"kind": "jobset", "name": "t" * 45, "task_name": "w" * 15},
        f"name and task_name are too long together: a pod's host name would be {'t' * 45}-{'w' * 15}-0-1",
    ),
    ({"kind": "pytorchjob", "workers": 1}, "a PyTorchJob has a master and at least one more worker"),
    ({"kind": "mpijob", "master_addr": "10.0.0.1"}, "do not apply to a mpijob: its operator sets the master"),
    ({"kind": "mpijob", "nccl_env": "pod", "mpirun": False}, "Set mpirun to true"),
    ({"kind": "vcjob", "scheduler_name": "default-scheduler"}, "a vcjob is scheduled by volcano"),
    ({"kind": "mpijob-v1alpha1", "gang": "volcano"}, "an MPIJob of v1alpha1 has no policy for a scheduler"),
    ({"kind": "vcjob", "gang": "ack"}, "a vcjob is scheduled by Volcano, which schedules gangs itself"),
    ({"gpu": 8}, "gpu is not an option of a job; there are: kind, name, image"),
    ({"workers": [2]}, "workers is [2]; it must be a whole number"),
    ({"host_network": "perhaps"}, "host_network is 'perhaps'; it must be true or false"),
    ({"nccl_env_options": {"hca": "mlx5"}}, "nccl_env_options has hca; there are: include, exclude, socket_ifname"),
    ({"nccl_env_options": {"gid_index": 3}}, "nccl_env_options has gid_index: 3; there are: pin, auto"),
    ({"nccl_env_options": {"socket_family": "AF_INET"}}, "has socket_family: 'AF_INET'; there are: ipv4, ipv6"),
    ({"nccl_env_options": {"socket_nthreads": 17}}, "nccl_env_options cannot be used. Could not build the NCCL"),
    ({"nccl_env_options": {"traffic_class": 256}}, "traffic_class is 256; it must be a whole number, 0 to 255"),
    ({"master_port": 70000}, "master_port is 70000; a port is 1 to 65535"),
]


@pytest.mark.parametrize(("wrong", "said"), BAD)
def test_what_cannot_be_is_refused(wrong: Json, said: str) -> None:
    message = message_of(JobError, objects, options(**wrong))
    assert message.startswith("Creating the job: ")
    assert said in message
    assert message.endswith("Nothing was applied")


def test_longest_names_still_fit() -> None:
    manifests = objects(options(kind="vcjob", name="t" * 45, task_name="w" * 15, workers=10))
    assert len(manifests[0]["metadata"]["name"] + "-" + "w" * 15 + "-9") <= 63
