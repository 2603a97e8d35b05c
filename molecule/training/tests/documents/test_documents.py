# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The experiments of the inventories, by playbook `experiment` on emulated nodes: Soft-RoCE, CPUs, generated images."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.rdmaops.gpu_fabric.molecule.pods.tests import podlab
from ansible_collections.rdmaops.gpu_fabric.tests.support import COLLECTION
from ansible_collections.rdmaops.gpu_fabric.tests.support.html_page import Page

EXPERIMENT = "rdmaops.gpu_fabric.experiment"
IMAGE = "lab.invalid/ml/training"
RESULTS = podlab.EPHEMERAL / "experiments"

# What an emulated node does in minutes.
TRAIN = [
    "--no-cuda",
    "--no-pre-trained",
    "--use-dummy-data",
    "8",
    "--batch-size",
    "2",
    "--epochs",
    "1",
    "--log-interval",
    "1",
]
BENCHMARK = ["--no-cuda", "--image-size", "32", "--batch-size", "2", "--num-warmup-batches", "0"]
BENCHMARK += ["--num-batches-per-iter", "1", "--num-iters", "2"]
# In place of GPUs, cards and operators that are not here; all else is the inventory's.
HERE: podlab.Json = {
    "ansible_become": False,
    "ansible_python_interpreter": "{{ '/usr/bin/python3' if inventory_hostname in groups.gpu_nodes else ansible_playbook_python }}",
    "fabric_check_seconds": 6,
    "fabric_check_address": "{{ rails[0].address }}",
    "fabric_check_exclude": [],
    "experiment_nodes": list(podlab.NODES),
    "training_job_namespace": podlab.NAMESPACE,
    "training_job_workers": 2,
    "training_job_gpus": 0,
    "training_job_resources": {},
    "training_job_host_network": False,
    "training_job_networks": ["default/rail0"],
    "training_job_privileged": True,
    "training_job_volumes": [],
    "training_job_spread": True,
    "training_job_nccl_env": "none",
    "training_job_mpi_api": "v2beta1",
    "training_job_transport_required": "none",
    "training_job_start_timeout": 600,
    "training_job_wait_timeout": 2400,
}


class Document(t.NamedTuple):
    """The experiments of an inventory: those that run here, with arguments for a short run, and those that need a GPU."""

    experiments: list[str]
    arguments: list[str]
    needs_gpu: list[str]
    variables: podlab.Json
    # What a page shows of the document, by experiment.
    shown: dict[str, list[str]]


DOCUMENTS = {
    "roce_e810": Document(
        ["bandwidth", "cifar10"], TRAIN, ["all-reduce"], {"training_job_kind": "pods"},
        {"bandwidth": ["23.14 Gb/s"], "cifar10": ["0.856", "0.8046", "897 s"]},
    ),
    "infiniband": Document(["bandwidth", "mnist"], TRAIN, [], {"training_job_kind": "pods"}, {}),
    # Its bond0 is not in the lab's pods.
    "erdma": Document(
        ["bandwidth", "synthetic"], BENCHMARK, [], {"training_job_ompi": {"pml": "ob1", "btl": "^openib"}}, {}
    ),
    "runai": Document(["distributed-job-readme"], BENCHMARK, [], {"training_job_kind": "pods"}, {}),
    "ack_topology": Document(
        ["vgg16", "resnet50", "vgg16-topology", "resnet50-topology"], BENCHMARK, [], {},
        {"vgg16-topology": ["205.1 images/s", ">vgg16<"], "resnet50-topology": ["330.5 images/s", ">resnet50<"],
         "vgg16": ["108.8 images/s"], "resnet50": ["313 images/s"]},
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def image(lab: podlab.PodLab) -> str:
    """The image by its digest, as nodes list it."""
    images = lab.cluster.json("get", "node", podlab.NODES[0])["status"]["images"]
    return t.cast(str, next(name for row in images for name in row["names"] if name.startswith(f"{IMAGE}@")))


@pytest.fixture(scope="module")
def own_namespace(lab: podlab.PodLab) -> podlab.Json:
    """The kubeconfig of an account that has docs/rbac/training.yml in its namespace, and nothing in the cluster."""
    items = yaml.safe_load((COLLECTION / "docs/rbac/training.yml").read_text())["items"]
    namespaced = [item for item in items if "namespace" in item["metadata"]]
    lab.cluster.kubectl("apply", "-f", str(COLLECTION / "docs/rbac/namespace.yml"))
    lab.cluster.kubectl("apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": namespaced}))
    token = lab.cluster.token_of("rdmaops-system", "gpu-fabric-training")
    return t.cast(podlab.Json, lab.cluster.with_token(token))


def run(lab: podlab.PodLab, site: str, limit: list[str], *arguments: str, **variables: t.Any) -> str:
    document = DOCUMENTS[site]
    inventory = str(COLLECTION / "inventories" / site / "experiments.yml")
    everything = {
        **HERE, "training_job_kubeconfig": str(lab.cluster.kubeconfig), "experiment_directory": str(RESULTS / site),
        "experiment_extra_args": document.arguments, **document.variables, **variables,
    }  # fmt: skip
    words = ["-i", inventory, "--limit", ",".join(limit), *arguments]
    # A network device that a pod gives back is down and has no address, until what configures the host's network does it again.
    for node in podlab.NODES:
        lab.nodes[node].check_output("systemctl restart lab-node")
    done = lab.playbook(EXPERIMENT, *words, **everything)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.parametrize("site", ["roce_e810", "infiniband", "erdma", "ack_topology"])
def test_experiments_of_a_document(lab: podlab.PodLab, site: str, image: str) -> None:
    document = DOCUMENTS[site]
    fabric = ["gpu_nodes"] if "bandwidth" in document.experiments else []
    run(lab, site, [*fabric, *document.experiments], training_job_image=image)
    for name in document.experiments:
        result = json.loads((RESULTS / site / f"{name}.json").read_text())
        assert result["run"]["numbers"], result
        if name != "bandwidth":
            assert result["run"]["details"]["world_size"] == 2, result
        page = (RESULTS / site / f"{name}.html").read_text()
        assert Page(page).tags
        assert [text for text in document.shown.get(name, []) if text not in page] == []
    if document.needs_gpu:
        # nccl-tests, by mpirun.
        own = {"training_job_kind": "mpijob", "training_job_capacity_check": False}
        run(lab, site, document.needs_gpu, "--check", training_job_image=image, **own)


def test_topology_labels_are_on_the_nodes(lab: podlab.PodLab) -> None:
    nodes = lab.cluster.json("get", "nodes")["items"]
    assert {node["metadata"]["labels"]["ack.node.gpu.schedule"] for node in nodes} == {"topology"}


def test_an_account_of_one_namespace(lab: podlab.PodLab, image: str, own_namespace: podlab.Json) -> None:
    output = run(
        lab, "runai", DOCUMENTS["runai"].experiments, training_job_image=image, training_job_kubeconfig=own_namespace
    )
    words = " ".join(output.split())
    assert "is not allowed to list nodes" in words or "nodes is forbidden" in words, output
    assert (RESULTS / "runai" / "distributed-job-readme.html").exists()


def test_a_second_run_is_beside_the_first(lab: podlab.PodLab, image: str) -> None:
    run(lab, "infiniband", ["mnist"], training_job_image=image, experiment_repeat=True)
    path = Path(RESULTS / "infiniband" / "mnist.json")
    result = json.loads(path.read_text())
    assert result["earlier"]["details"]["started"] != result["run"]["details"]["started"]
    assert ">the run before<" in path.with_suffix(".html").read_text()
