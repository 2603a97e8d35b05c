# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Training jobs that can never start, on a real API server: each is refused before it is created, with the numbers."""

from __future__ import annotations

import json
import typing as t
from collections.abc import Iterator

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._errors import FabricError
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._training_job import image as node_image
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._training_job.check import manage
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._training_job.manage import objects
from ansible_collections.rdmaops.gpu_fabric.tests.support import COLLECTION, operators
from ansible_collections.rdmaops.gpu_fabric.tests.support.cluster import Cluster
from ansible_collections.rdmaops.gpu_fabric.tests.support.objects import client, manifest
from ansible_collections.rdmaops.gpu_fabric.tests.support.training_nodes import IMAGE, NODES, two_nodes

Json = t.Any
DEFINITIONS = COLLECTION / "roles/secondary_network/files"
NAMESPACE = "refusals"

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def cluster(own_cluster: Cluster) -> Iterator[Cluster]:
    """Two nodes; a namespace with a quota, and one that admits no privileged pods; a network of two addresses."""
    for file in ("multus-definitions.yml", "whereabouts-definitions.yml"):
        own_cluster.kubectl("apply", "--server-side", "-f", str(DEFINITIONS / file))
    operators.install(own_cluster, "volcano")
    own_cluster.established()
    for name in (NAMESPACE, "small", "guarded"):
        own_cluster.kubectl("create", "namespace", name)
        own_cluster.kubectl("wait", "--for=create", "serviceaccount/default", "-n", name, "--timeout=30s")
    own_cluster.kubectl("label", "namespace", "guarded", "pod-security.kubernetes.io/enforce=baseline")
    hard = {"requests.nvidia.com/gpu": "8", "pods": "10"}
    own_cluster.apply(manifest("v1", "ResourceQuota", "gpus", "small", spec={"hard": hard}))
    jsonpath = "jsonpath={.status.hard.pods}=10"
    own_cluster.kubectl("wait", f"--for={jsonpath}", "resourcequota/gpus", "-n", "small", "--timeout=30s")
    config = {
        "cniVersion": "1.0.0",
        "name": "rail0",
        "type": "host-device",
        "device": "rail0",
        "ipam": {"type": "whereabouts", "range": "10.200.0.0/30"},
    }
    spec = {"config": json.dumps(config)}
    attachment = manifest("k8s.cni.cncf.io/v1", "NetworkAttachmentDefinition", "rail0", NAMESPACE, spec=spec)
    own_cluster.apply(attachment)
    allocation = {"1": {"id": "c", "podref": "ml/other-0", "ifname": "net1"}}
    spec = {"range": "10.200.0.0/30", "allocations": allocation}
    pool = manifest("whereabouts.cni.cncf.io/v1alpha1", "IPPool", "10.200.0.0-30", "kube-system", spec=spec)
    own_cluster.apply(pool)
    queue = manifest("scheduling.volcano.sh/v1beta1", "Queue", "narrow")
    own_cluster.apply({**queue, "spec": {"weight": 1, "capability": {"nvidia.com/gpu": "12"}}})
    with two_nodes(own_cluster):
        yield own_cluster


# options of the job, what the refusal says
REFUSALS: list[tuple[str, Json, str]] = [
    ("gpus", {"workers": 3}, "pods wanted: 3 with nvidia.com/gpu=8, but 1 of them do not fit next to gpu-1, gpu-2"),
    (
        "rdma devices",
        {"resources": {"rdma/rdma": 2}},
        "gpu-1: rdma/rdma: 2 wanted, 1 free of 1. gpu-2: rdma/rdma: 2 wanted, 1 free of 1",
    ),
    ("labels", {"node_selector": {"rack": "b"}}, "gpu-1: label rack is missing, but must be b"),
    ("image", {"image": IMAGE}, f"gpu-1: the image {IMAGE} is not there"),
    (
        "addresses",
        {"networks": ["rail0"]},
        "10.200.0.0/30: 2 addresses wanted, 1 free of 2, held by ml/other-0",
    ),
    (
        "quota",
        {"namespace": "small"},
        "the quota gpus leaves too little: requests.nvidia.com/gpu: 16 wanted, 8 free of 8",
    ),
    ("no queue", {"kind": "vcjob", "queue": "none"}, "the queue none does not exist; there are: narrow"),
    (
        "narrow queue",
        {"kind": "vcjob", "queue": "narrow"},
        "the queue narrow leaves too little: nvidia.com/gpu: 16 wanted, 12 free of 12",
    ),
    (
        "claim",
        {"volumes": [{"name": "data", "mount_path": "/data", "claim": "cifar"}]},
        "PersistentVolumeClaim refusals/cifar does not exist, and the pods use it",
    ),
    ("pull secret", {"pull_secrets": ["registry"]}, "Secret refusals/registry does not exist, and the pods use it"),
    (
        "priority",
        {"priority_class": "urgent"},
        "the API server would not admit its pods: .*no PriorityClass with name urgent was found",
    ),
    (
        "pod security",
        {"namespace": "guarded", "privileged": True},
        'the API server would not admit its pods: .*violates PodSecurity "baseline:latest": .*privileged',
    ),
]


@pytest.mark.parametrize(("job", "problem"), [row[1:] for row in REFUSALS], ids=[row[0] for row in REFUSALS])
def test_a_job_that_can_never_start(cluster: Cluster, job: Json, problem: str) -> None:
    options = {"kind": "pods", "name": "train", "namespace": NAMESPACE, "image": IMAGE, "command": ["train"]}
    manifests = objects({**options, "workers": 2, "gpus": 8, **job})
    params = {"objects": manifests, "capacity": True, "image_present": "image" in job}
    for check_mode in (True, False):
        with pytest.raises(FabricError, match=f"Checking the job .*/train: .*{problem}") as caught:
            manage(params, check_mode, client(cluster.kubeconfig))
        assert str(caught.value).endswith(". Nothing was applied")
    assert cluster.kubectl("get", "pods", "-A", "-o", "name") == ""


def test_all_problems_are_listed_at_once(cluster: Cluster) -> None:
    options = {"kind": "pods", "name": "train", "namespace": "small", "image": IMAGE, "command": ["train"]}
    manifests = objects({**options, "workers": 3, "gpus": 8, "pull_secrets": ["registry"]})
    with pytest.raises(FabricError) as caught:
        manage({"objects": manifests, "capacity": True, "image_present": False}, False, client(cluster.kubeconfig))
    for problem in ("not all pods can run at once", "Secret small/registry does not exist", "the quota gpus leaves"):
        assert problem in str(caught.value)


def test_a_job_that_can_start(cluster: Cluster) -> None:
    options = {"kind": "pods", "name": "train", "namespace": NAMESPACE, "image": IMAGE, "command": ["train"]}
    manifests = objects({**options, "workers": 2, "gpus": 8, "resources": {"rdma/rdma": 1}})
    result = manage({"objects": manifests, "capacity": True, "image_present": False}, False, client(cluster.kubeconfig))
    assert (result["placed"], result["unchecked"]) == (dict.fromkeys(NODES, 1), [])


def test_the_digest_of_an_image_is_what_the_nodes_list(cluster: Cluster) -> None:
    def listed(node: str, digest: str) -> None:
        rows = [{"names": ["registry.example/train:1", f"registry.example/train@{digest}"], "sizeBytes": 1}]
        patch = json.dumps({"status": {"images": rows}})
        cluster.kubectl("patch", "node", node, "--subresource=status", "--type=merge", f"--patch={patch}")

    look = {"name": "registry.example/train:1", "wait": 0}
    doing = "Looking for the image registry.example/train:1 on the nodes"
    with pytest.raises(FabricError, match=f"{doing}: none of the 2 nodes lists it. Deliver it first"):
        node_image.manage(look, False, client(cluster.kubeconfig))
    digest, other = ("sha256:" + digit * 64 for digit in "12")
    for name in NODES:
        listed(name, digest)
    result = node_image.manage(look, False, client(cluster.kubeconfig))
    assert (result["reference"], result["nodes"]) == (f"registry.example/train@{digest}", list(NODES))
    listed(NODES[1], other)
    with pytest.raises(FabricError, match=f"do not have the same one: {digest} on gpu-1; {other} on gpu-2. Deliver it"):
        node_image.manage(look, False, client(cluster.kubeconfig))
