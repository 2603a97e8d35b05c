# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each kind of job from nothing to its end and back, by the operator that owns it, and what a user sees when it fails."""

from __future__ import annotations

import re
import subprocess
import threading
import typing as t

import pytest

from ansible_collections.rdmaops.gpu_fabric.molecule.pods.tests import podlab

TRAIN = "rdmaops.gpu_fabric.train"
# A rank that finds the first one by its name says so. The name is there once the first one's pod has an address.
FINDS = 'until getent hosts "$MASTER_ADDR" >/dev/null; do sleep 1; done'
GREETS = f"timeout 60 sh -c '{FINDS}' && echo \"rank $RANK of $WORLD_SIZE\""
TORCH = [
    *("torchrun", "/opt/rdmaops/workload/train.py", "--no-cuda", "--backend", "gloo", "--use-dummy-data", "8"),
    *("--batch-size", "2", "--epochs", "1", "--log-interval", "1"),
]
# kind, its options, the kind of the object, what a log has
KINDS: dict[str, tuple[podlab.Json, str, str]] = {
    "jobset": ({"command": ["sh", "-c", GREETS]}, "jobsets", "rank 1 of 2"),
    # The networks are those of the runtime.
    "trainjob": ({"command": TORCH, "runtime": "torch-rails", "networks": []}, "trainjobs", "RESULT "),
    "mpijob": ({"command": ["sh", "-c", 'echo "rank $OMPI_COMM_WORLD_RANK"']}, "mpijobs", "rank 1"),
}


def variables(name: str, kind: str, **options: t.Any) -> podlab.Json:
    return {f"training_job_{key}": value for key, value in {"name": name, "kind": kind, **options}.items()}


def changed(done: subprocess.CompletedProcess[str]) -> int:
    return sum(int(number) for number in re.findall(r"changed=(\d+)", done.stdout))


def failure(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode != 0, done.stdout
    return " ".join(done.stdout.split())


def pods_of(lab: podlab.PodLab, name: str) -> list[podlab.Json]:
    return [pod for pod in lab.pods() if pod["metadata"]["labels"].get("rdmaops.gpu-fabric/job") == name]


@pytest.mark.parametrize("kind", KINDS)
def test_the_drill(lab: podlab.PodLab, kind: str) -> None:
    options, plural, text = KINDS[kind]
    job = variables(kind, kind, **options)
    checked = lab.playbook(TRAIN, "--check", **job)
    assert (checked.returncode, changed(checked) > 0) == (0, True), checked.stdout
    assert pods_of(lab, kind) == []
    done = lab.playbook(TRAIN, **job)
    assert (done.returncode, changed(done) > 0) == (0, True), done.stdout
    logs = [path.read_text() for path in (podlab.EPHEMERAL / "logs").glob(f"{kind}-*.log")]
    assert any(text in log for log in logs), logs
    for arguments in ((), ("--check",)):
        again = lab.playbook(TRAIN, *arguments, **job)
        assert (again.returncode, changed(again)) == (0, 0), again.stdout
    gone = lab.playbook(TRAIN, **job, training_job_state="absent")
    assert gone.returncode == 0, gone.stdout
    assert pods_of(lab, kind) == []
    assert lab.cluster.kubectl("get", plural, "-n", podlab.NAMESPACE, "-o", "name") == ""


def test_the_pods_of_a_trainjob_have_the_rail_of_their_runtime(lab: podlab.PodLab) -> None:
    command = ["sh", "-c", "rdma -j link; ip -o address show net1"]
    job = variables("rail", "trainjob", runtime="torch-rails", networks=[], command=command)
    done = lab.playbook(TRAIN, **job)
    assert done.returncode == 0, done.stdout
    logs = [path.read_text() for path in (podlab.EPHEMERAL / "logs").glob("rail-*.log")]
    assert len(logs) == 2
    for log in logs:
        assert '"ifname":"rxe0"' in log
        assert re.search(r"net1\s+inet 10\.200\.", log), log
    assert lab.playbook(TRAIN, **job, training_job_state="absent").returncode == 0


def test_a_runtime_with_the_pod_network_alone_is_warned_of(lab: podlab.PodLab) -> None:
    own = {"training_runtime_name": "plain", "training_runtime_networks": [], "training_runtime_host_network": True}
    book = podlab.EPHEMERAL / "runtime.yml"
    book.write_text("- {hosts: kubernetes_api, gather_facts: false, roles: [rdmaops.gpu_fabric.training_runtime]}\n")
    assert lab.playbook(str(book), **own).returncode == 0
    # Somebody takes the host's network away.
    patch = '[{"op": "replace", "path": "/spec/template/spec/replicatedJobs/0/template/spec/template/spec/hostNetwork", "value": false}]'
    lab.cluster.kubectl("patch", "clustertrainingruntime", "plain", "--type=json", f"-p={patch}")
    job = variables("slow", "trainjob", runtime="plain", networks=[], command=["true"])
    done = lab.playbook(TRAIN, "--check", **job)
    assert "NCCL falls back to the slower pod network without an error" in " ".join((done.stdout + done.stderr).split())
    assert lab.playbook(str(book), **own, training_runtime_state="absent").returncode == 0


@pytest.mark.parametrize("kind", KINDS)
def test_a_command_that_is_not_there(lab: podlab.PodLab, kind: str) -> None:
    options, _plural, _text = KINDS[kind]
    job = variables("wrong", kind, **{**options, "command": ["no-such-program"], "start_timeout": 240})
    try:
        text = failure(lab.playbook(TRAIN, **job))
        assert "Running the job ml/wrong: failed" in text or "it has not started" in text, text
        assert "no-such-program" in text, text
    finally:
        assert lab.playbook(TRAIN, **job, training_job_state="absent", training_job_remove_ok=True).returncode == 0


def kill_a_worker(lab: podlab.PodLab, name: str, pods: int) -> threading.Thread:
    """Delete the last pod of a job at once, when all of them run."""

    def running() -> list[str]:
        return sorted(pod["metadata"]["name"] for pod in pods_of(lab, name) if pod["status"]["phase"] == "Running")

    def kill() -> None:
        lab.wait(f"{pods} pods that run", lambda: len(running()) == pods, 300)
        lab.cluster.kubectl("delete", "pod", running()[-1], "-n", podlab.NAMESPACE, "--force", "--grace-period=0")

    killer = threading.Thread(target=kill)
    killer.start()
    return killer


# An MPIJob has a launcher as well, whose mpirun exits with 0 when a worker is gone.
@pytest.mark.parametrize(("kind", "pods"), [("jobset", 2), ("trainjob", 2), ("mpijob", 3)])
def test_a_worker_that_is_killed(lab: podlab.PodLab, kind: str, pods: int) -> None:
    options, _plural, _text = KINDS[kind]
    job = variables("killed", kind, **{**options, "command": ["sleep", "900"]})
    killer = kill_a_worker(lab, "killed", pods)
    try:
        text = failure(lab.playbook(TRAIN, **job))
        assert "Running the job ml/killed: failed" in text, text
    finally:
        killer.join()
        assert lab.playbook(TRAIN, **job, training_job_state="absent").returncode == 0


def test_an_image_that_is_not_there(lab: podlab.PodLab) -> None:
    image = "lab.invalid/ml/other@sha256:" + "0" * 64
    job = variables("image", "jobset", command=["true"], image=image)
    text = failure(lab.playbook(TRAIN, **job))
    assert f"gpu-1: the image {image} is not there" in text
    job.update(training_job_image_present=False, training_job_start_timeout=60)
    try:
        text = failure(lab.playbook(TRAIN, **job))
        assert "it has not started after" in text
        assert "ErrImagePull" in text or "ImagePullBackOff" in text, text
    finally:
        assert lab.playbook(TRAIN, **job, training_job_state="absent", training_job_remove_ok=True).returncode == 0
