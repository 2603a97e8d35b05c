# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A training by mpirun over two pods: its gradients went over RDMA, as its logs and the kernel's counters say."""

from __future__ import annotations

from ansible_collections.rdmaops.gpu_fabric.molecule.pods.tests import podlab
from ansible_collections.rdmaops.gpu_fabric.molecule.training.tests import results
from ansible_collections.rdmaops.gpu_fabric.tests.support.prometheus import Prometheus

TRAIN = "rdmaops.gpu_fabric.train"
IMAGE = "lab.invalid/ml/training"
# In the log of a worker, which runs sshd.
LOGIN = "Accepted publickey for root"


def log_of(lab: podlab.PodLab, pod: str) -> str:
    return lab.cluster.kubectl("logs", "-n", podlab.NAMESPACE, pod, check=False)


def test_both_nodes_have_the_image_that_the_pods_run(lab: podlab.PodLab) -> None:
    digests = set()
    for node in lab.cluster.json("get", "nodes")["items"]:
        names = [name for row in node["status"]["images"] for name in row["names"]]
        digests.add(next(name for name in names if name.startswith(f"{IMAGE}@")))
    (digest,) = digests
    assert {pod["spec"]["containers"][0]["image"] for pod in lab.pods()} == {digest}


def test_workers_are_on_a_node_each_and_reached_by_ssh(lab: podlab.PodLab) -> None:
    """Those of a job that has ended are gone, as they would hold their GPUs (cleanPodPolicy)."""
    (pod,) = lab.pods()
    assert pod["metadata"]["name"].startswith("train-launcher-")
    job = {"training_job_name": "ssh", "training_job_command": ["sleep", "900"], "training_job_wait": False}
    assert lab.playbook(TRAIN, **job).returncode == 0
    workers = ["ssh-worker-0", "ssh-worker-1"]
    try:
        lab.wait("logins at both", lambda: all(LOGIN in log_of(lab, worker) for worker in workers), podlab.POD_S)
        assert sorted(str(lab.pod(worker)["spec"]["nodeName"]) for worker in workers) == list(podlab.NODES)
    finally:
        gone = lab.playbook(TRAIN, **job, training_job_state="absent", training_job_remove_ok=True)
    assert gone.returncode == 0, gone.stdout


def test_both_ranks_have_the_same_model() -> None:
    results.check_ranks(results.result_of("train"))


def test_gradients_went_over_rdma_and_nothing_else_did() -> None:
    results.check_traffic(results.result_of("train"))


def test_a_training_over_rdma_is_seen_while_it_runs(lab: podlab.PodLab, metrics: Prometheus) -> None:
    command = ["python3", "/opt/rdmaops/workload/train.py", "--no-cuda", "--backend", "mpi", "--data-set", "mnist"]
    command += ["--use-dummy-data", "8000", "--batch-size", "8", "--epochs", "1000", "--test-interval", "1000"]
    job = {"training_job_name": "seen", "training_job_command": command, "training_job_wait": False}
    assert lab.playbook(TRAIN, **job).returncode == 0
    try:
        # PyTorch is loaded first, by an emulated processor.
        lab.wait_for_transport("seen", "rdma", 600)
        assert {lab.transport("seen") for _ in range(6)} == {"rdma"}
        # As the alert does, over minutes: looks into the namespaces of busy emulated nodes may take longer than their limit.
        rate = 'rate(rdma_port_transmit_packets_total{pod_name=~"seen-worker-.*"}[5m])'
        metrics.until(f"count({rate} > 10) == 2", 300)
        assert metrics.query('ALERTS{alertname="RdmaUnusedByPod",pod_name=~"seen-.*"}') == []
    finally:
        gone = lab.playbook(TRAIN, **job, training_job_state="absent", training_job_remove_ok=True)
    assert gone.returncode == 0, gone.stdout


def test_the_same_over_tcp_is_red(lab: podlab.PodLab) -> None:
    environment = {"OMP_NUM_THREADS": "1", "UCX_LOG_LEVEL": "info", "UCX_TLS": "tcp,self", "UCX_NET_DEVICES": "net1"}
    done = lab.playbook(TRAIN, training_job_name="tcp", training_job_env=environment)
    assert done.returncode != 0
    output = " ".join(done.stdout.split())
    assert "Judging the job ml/tcp: UCX used sockets (tcp/net1" in output, done.stdout
    assert "training_job_transport_required is rdma" in output
