# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a job asks of quotas, queues and other objects before it starts."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._training_job.manage import objects, templates
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._training_job.preflight import (
    attachments,
    claim_templates,
    queues,
    quota_needs,
    references,
)

Json = t.Any
IMAGE = "registry.example/train@sha256:" + "0" * 64


def manifests(**more: Json) -> list[Json]:
    return objects({"kind": "pods", "name": "train", "image": IMAGE, "command": ["x"], "workers": 2, "gpus": 8, **more})


def test_attachments_with_the_number_of_pods() -> None:
    pods = templates(manifests(networks=["kube-system/roce@net1", "rail1", "rail1"]))
    assert attachments(pods, "lab") == {("kube-system", "roce"): 2, ("lab", "rail1"): 4}


def test_templates_by_which_the_pods_claim_devices() -> None:
    assert claim_templates(templates(manifests(claims=["rail0", "node"]))) == ["rail0", "node"]


def test_what_a_quota_counts() -> None:
    needs = quota_needs(templates(manifests(resources={"cpu": "500m", "memory": "1Gi"})))
    assert {name: float(amount) for name, amount in needs.items()} == {
        **dict.fromkeys(("count/pods", "pods", "requests.pods"), 2.0),
        **dict.fromkeys(("cpu", "requests.cpu", "limits.cpu"), 1.0),
        **dict.fromkeys(("memory", "requests.memory", "limits.memory"), float(2 << 30)),
        **dict.fromkeys(("requests.nvidia.com/gpu", "limits.nvidia.com/gpu"), 16.0),
    }


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({"kind": "vcjob", "queue": "research"}, {"research"}),
        ({"gang": "volcano", "queue": "research"}, {"research"}),
        ({"kind": "mpijob", "gang": "volcano", "queue": "research"}, {"research"}),
        ({"kind": "pytorchjob", "gang": "volcano", "queue": "research"}, {"research"}),
        ({"kind": "vcjob"}, set()),
        # Another scheduler's queues are not Volcano's.
        ({"kind": "mpijob", "gang": "scheduler-plugins", "queue": "research"}, set()),
    ],
)
def test_queues_of_volcano(options: Json, names: set[str]) -> None:
    assert queues(manifests(**options)) == names


def test_objects_that_the_pods_refer_to() -> None:
    volumes = [
        {"name": "data", "mount_path": "/data", "claim": "cifar"},
        {"name": "code", "mount_path": "/code", "config_map": "code"},
        {"name": "keys", "mount_path": "/keys", "secret": "keys"},
        {"name": "scratch", "mount_path": "/scratch", "empty_dir": {}},
    ]
    assert references(templates(manifests(volumes=volumes, pull_secrets=["registry"]))) == [
        ("PersistentVolumeClaim", "persistentvolumeclaims", "cifar"),
        ("ConfigMap", "configmaps", "code"),
        ("Secret", "secrets", "keys"),
        ("Secret", "secrets", "registry"),
    ]
