# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Jobs that can never start on this cluster: playbook train refuses each of them, and nothing is created."""

from __future__ import annotations

import json
import typing as t
from collections.abc import Iterator

import pytest

from ansible_collections.rdmaops.gpu_fabric.molecule.pods.tests import podlab

NOWHERE = "lab.invalid/ml/training@sha256:" + "0" * 64

# variables, what is said
REFUSALS: dict[str, tuple[podlab.Json, str]] = {
    "gpus": ({"gpus": 1}, "gpu-1: no nvidia.com/gpu"),
    "rdma devices": ({"resources": {"rdma/rdma": 1}}, "gpu-1: no rdma/rdma"),
    "nodes": ({"workers": 3}, "but 1 of them do not fit next to gpu-1, gpu-2"),
    "labels": ({"node_selector": {"rack": "b"}}, "gpu-1: label rack is missing, but must be b"),
    "attachments": ({"networks": ["default/rail9"]}, "these attachments do not exist: default/rail9"),
    "addresses": ({"networks": ["ml/narrow"]}, "2 addresses wanted, 1 free of 1"),
    "image": ({"image": NOWHERE}, f"gpu-1: the image {NOWHERE} is not there"),
    "tag": ({"image": "lab.invalid/ml/other:1"}, "none of the 2 nodes lists it. Deliver it first (playbook image)"),
    "quota": ({"resources": {"example.com/licence": 2}}, "the quota licences leaves too little: requests.example.com/licence"),
    "claim": ({"volumes": [{"name": "data", "mount_path": "/data", "claim": "cifar"}]}, "PersistentVolumeClaim ml/cifar does not exist"),
    "priority": ({"priority_class": "urgent"}, "no PriorityClass with name urgent was found"),
    "operator": ({"kind": "pytorchjob"}, "the API server does not know PyTorchJob of kubeflow.org/v1. Install its operator first"),
}  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def narrow(lab: podlab.PodLab) -> Iterator[None]:
    """A network of one address, and a quota."""
    ipam = {"type": "whereabouts", "range": "10.201.0.0/24", "range_start": "10.201.0.5", "range_end": "10.201.0.5"}
    config = {"cniVersion": "1.0.0", "name": "narrow", "type": "host-device", "device": "rail0", "ipam": ipam}
    attachment = {
        "apiVersion": "k8s.cni.cncf.io/v1",
        "kind": "NetworkAttachmentDefinition",
        "metadata": {"name": "narrow", "namespace": podlab.NAMESPACE},
        "spec": {"config": json.dumps(config)},
    }
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "licences", "namespace": podlab.NAMESPACE},
        "spec": {"hard": {"requests.example.com/licence": "1"}},
    }
    objects: t.Any = {"apiVersion": "v1", "kind": "List", "items": [attachment, quota]}
    lab.cluster.kubectl("apply", "-f", "-", stdin=json.dumps(objects))
    yield
    lab.cluster.kubectl("delete", "-f", "-", stdin=json.dumps(objects))


@pytest.mark.parametrize("name", REFUSALS)
def test_a_job_that_can_never_start(lab: podlab.PodLab, name: str) -> None:
    variables, sentence = REFUSALS[name]
    options = {f"training_job_{option}": value for option, value in variables.items()}
    done = lab.playbook("rdmaops.gpu_fabric.train", training_job_name="never", **options)
    assert done.returncode != 0
    assert sentence in " ".join(done.stdout.split()), done.stdout
    assert (
        lab.cluster.kubectl(
            "get", "mpijobs,pods", "-n", podlab.NAMESPACE, "-l", "rdmaops.gpu-fabric/job=never", "-o", "name"
        )
        == ""
    )
