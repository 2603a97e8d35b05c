# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""An MPIJob: its launcher, and its workers."""

from __future__ import annotations

import subprocess
from pathlib import Path

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._training_job.manage import objects
from ansible_collections.rdmaops.gpu_fabric.tests.unit.plugins.module_utils._training_job.test_manage import (
    container,
    options,
    variables,
)


def test_mpijob_has_a_launcher_without_gpus_and_workers_with() -> None:
    (job,) = objects(options(kind="mpijob", workers=2, gpus=8, env={"NCCL_DEBUG": "TRACE"}, command=["python", "b.py"]))
    assert (job["apiVersion"], job["kind"]) == ("kubeflow.org/v2beta1", "MPIJob")
    spec = job["spec"]
    launcher, worker = (spec["mpiReplicaSpecs"][name] for name in ("Launcher", "Worker"))
    assert (launcher["replicas"], worker["replicas"], spec["slotsPerWorker"]) == (1, 2, 8)
    # sshd is the operator's own choice for workers; what their pods are given does not reach ranks that ssh starts.
    assert "command" not in container(worker["template"])
    command = container(launcher["template"])["command"]
    assert (command[:2], command[3]) == (["sh", "-c"], "sh")
    assert command[4:] == [
        *("mpirun", "--allow-run-as-root", "--hostfile", "/etc/mpi/hostfile", "-np", "16"),
        *("-x", "MASTER_ADDR=train-worker-0.train", "-x", "MASTER_PORT=29500", "-x", "NCCL_DEBUG", "python", "b.py"),
    ]
    assert variables(launcher["template"])["NCCL_DEBUG"] == "TRACE"
    assert "resources" not in container(launcher["template"])
    assert container(worker["template"])["resources"]["limits"] == {"nvidia.com/gpu": "8"}
    assert spec["runPolicy"] == {"cleanPodPolicy": "Running", "backoffLimit": 0}
    assert (launcher["restartPolicy"], worker["restartPolicy"]) == ("Never", "Never")
    assert spec["launcherCreationPolicy"] == "WaitForWorkersReady"


def test_a_launcher_waits_for_the_names_of_its_workers(tmp_path: Path) -> None:
    (job,) = objects(options(kind="mpijob", workers=2, mpirun=False, command=["echo", "$it", "begins"]))
    command = container(job["spec"]["mpiReplicaSpecs"]["Launcher"]["template"])["command"]
    hosts, tries = tmp_path / "hostfile", tmp_path / "tries"
    hosts.write_text("train-worker-0.train.ml.svc slots=8\ntrain-worker-1.train.ml.svc slots=8\n")
    getent = tmp_path / "getent"
    getent.write_text(f'#!/bin/sh\necho "$2" >>{tries}\ntest $(wc -l <{tries}) -ge 3\n')
    getent.chmod(0o755)
    argv = [word.replace("/etc/mpi/hostfile", str(hosts)) for word in command]
    done = subprocess.run(
        argv, env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "$it begins\n"
    assert tries.read_text().split() == ["train-worker-0.train.ml.svc"] * 3 + ["train-worker-1.train.ml.svc"]


def test_mpijob_runs_as_many_ranks_as_the_options_say_and_where_they_say() -> None:
    (job,) = objects(options(kind="mpijob", workers=2, nproc_per_node="1", env={"MASTER_ADDR": "other"}))
    argv = container(job["spec"]["mpiReplicaSpecs"]["Launcher"]["template"])["command"]
    assert job["spec"]["slotsPerWorker"] == 1
    assert argv[argv.index("-np") + 1] == "2"
    assert [argv[place + 1] for place, word in enumerate(argv) if word == "-x"] == ["MASTER_PORT=29500", "MASTER_ADDR"]
