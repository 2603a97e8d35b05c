# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A training by mpirun in unprivileged pods, which have their devices by claims."""

from __future__ import annotations

from ansible_collections.rdmaops.gpu_fabric.molecule.dra.tests import ways
from ansible_collections.rdmaops.gpu_fabric.molecule.pods.tests import podlab
from ansible_collections.rdmaops.gpu_fabric.molecule.training.tests import results

# Emulated processors: two steps on generated pictures.
COMMAND = [
    *("python3", "/opt/rdmaops/workload/train.py", "--no-cuda", "--backend", "mpi", "--use-dummy-data", "8"),
    *("--batch-size", "2", "--epochs", "1", "--log-interval", "1"),
]
# As in scenario training, but for the name of the network device.
ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "PYTHONUNBUFFERED": "1",
    "UCX_LOG_LEVEL": "info",
    "UCX_TLS": "rc_verbs,tcp,self",
    "UCX_NET_DEVICES": "rxe0:1,rail0",
}
OMPI = {"pml": "ucx", "pml_ucx_tls": "any", "pml_ucx_devices": "any"}


def test_gradients_go_over_rdma_and_nothing_else_does(lab: podlab.PodLab) -> None:
    job = ways.job(
        lab, name="gradients", kind="mpijob", command=COMMAND, env=ENVIRONMENT, ompi=OMPI, transport_required="rdma"
    )
    done = lab.playbook(ways.TRAIN, **job)
    assert done.returncode == 0, done.stdout
    result = results.result_of("gradients")
    results.check_ranks(result)
    results.check_traffic(result)
    gone = lab.playbook(ways.TRAIN, **job, training_job_state="absent", training_job_remove_ok=True)
    assert gone.returncode == 0, gone.stdout
    for node in podlab.NODES:
        ways.until_back(lab, node)
