# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who a process of a training job is, and whether the ranks were started alike."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.rdmaops.gpu_fabric.tests.support.failures import message_of
from ansible_collections.rdmaops.gpu_fabric.tests.support.torch import module

ranks = module("ranks")
options = module("options")
WorkloadError = module("common").WorkloadError

TORCHRUN = {"RANK": "9", "WORLD_SIZE": "16", "LOCAL_RANK": "1", "MASTER_ADDR": "10.100.100.1", "MASTER_PORT": "54321"}
MPIRUN = {
    "OMPI_COMM_WORLD_RANK": "3",
    "OMPI_COMM_WORLD_SIZE": "4",
    "OMPI_COMM_WORLD_LOCAL_RANK": "1",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
}
POD = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "job-master-0"}


def discover(environ: t.Mapping[str, str], *words: str) -> t.Any:
    return ranks.discover(options.train_parser("").parse_args(words), environ)


# environment, options, rank, world size, local rank, address, port
KNOWN = [
    ({}, [], 0, 1, 0, "127.0.0.1", 29500),
    (TORCHRUN, [], 9, 16, 1, "10.100.100.1", 54321),
    (POD, [], 1, 2, 0, "job-master-0", 29500),
    ({**MPIRUN, "MASTER_ADDR": "w0"}, [], 3, 4, 1, "w0", 29500),
    # All on one host: rank 0 is here.
    ({**MPIRUN, "OMPI_COMM_WORLD_LOCAL_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_RANK": "3"}, [], 3, 4, 3, "127.0.0.1", 29500),
    # mpirun in pods that a training operator gave a rank each: mpirun knows the process.
    ({**MPIRUN, **POD}, [], 3, 4, 1, "job-master-0", 29500),
    # mpirun starts one torchrun per host: torchrun knows the process.
    ({**MPIRUN, **TORCHRUN}, [], 9, 16, 1, "10.100.100.1", 54321),
    # Options win.
    (TORCHRUN, ["--rank", "0", "--world-size", "2", "--local-rank", "0"], 0, 2, 0, "10.100.100.1", 54321),
    (TORCHRUN, ["--master_addr", "h", "--master_port", "1"], 9, 16, 1, "h", 1),
    ({"VC_TASK1_HOSTS": "t-0.t,t-1.t"}, ["--rank", "1", "--world_size", "2"], 1, 2, 0, "t-0.t", 29500),
    ({**POD, "VC_TASK1_HOSTS": "t-0,t-1"}, [], 1, 2, 0, "job-master-0", 29500),
    ({"RANK": "1", "WORLD_SIZE": "2", "VC_WORKER_HOSTS": " , w-0 ,w-1"}, [], 1, 2, 0, "w-0", 29500),
    ({"RANK": "1", "WORLD_SIZE": "2", "VC_TASK1_HOSTS": "a,b", "VC_PS_HOSTS": "c"}, [], 1, 2, 0, "a", 29500),
    ({**POD, "VC_TASK1_HOSTS": ""}, [], 1, 2, 0, "job-master-0", 29500),
]


@pytest.mark.parametrize(("environ", "words", "rank", "world", "local", "address", "port"), KNOWN)
def test_known(environ: t.Any, words: t.Any, rank: int, world: int, local: int, address: str, port: int) -> None:
    found = discover(environ, *words)
    assert found[:5] == (rank, world, local, address, port)


# environment, options, what is said
REFUSED = [
    ({}, ["--rank", "0"], "--rank and --world-size go together: --world-size is missing"),
    ({}, ["--world-size", "2"], "--rank and --world-size go together: --rank is missing"),
    ({"RANK": "0"}, [], "WORLD_SIZE is not set"),
    ({"WORLD_SIZE": "2"}, [], "RANK is not set"),
    ({**POD, "RANK": "one"}, [], "RANK=one is not a whole number"),
    ({**POD, "RANK": "-1"}, [], "RANK=-1 is not a whole number"),
    ({**POD, "RANK": "٣"}, [], "RANK=٣ is not a whole number"),
    ({**POD, "RANK": "2"}, [], "Rank 2 in a world of 2 (RANK): ranks go from 0 to 1"),
    ({**POD, "WORLD_SIZE": "0"}, [], "A world size of 0 (RANK)"),
    ({}, ["--rank", "-1", "--world-size", "2"], "Rank -1 in a world of 2 (--rank)"),
    (POD, ["--local-rank", "-1"], "Local rank -1"),
    ({**POD, "MASTER_PORT": "0"}, [], "Port 0 of rank 0"),
    (POD, ["--master-port", "65536"], "Port 65536 of rank 0"),
    ({**POD, "MASTER_PORT": "http"}, [], "MASTER_PORT=http is not a whole number"),
    ({"RANK": "0", "WORLD_SIZE": "2"}, [], "set MASTER_ADDR or --master-addr"),
    (MPIRUN, [], "The host of rank 0 of 4 is not known"),
    ({"OMPI_COMM_WORLD_RANK": "0"}, [], "OMPI_COMM_WORLD_SIZE is not set"),
    (
        {"RANK": "0", "WORLD_SIZE": "2", "VC_A_HOSTS": "a", "VC_B_HOSTS": "b"},
        [],
        "VC_A_HOSTS, VC_B_HOSTS all name hosts",
    ),
]


@pytest.mark.parametrize(("environ", "words", "said"), REFUSED)
def test_refused(environ: t.Any, words: t.Any, said: str) -> None:
    assert said in message_of(WorkloadError, discover, environ, *words)


def hello(world: int = 2, backend: str = "nccl", **settings: t.Any) -> dict[str, t.Any]:
    return {"world size": world, "backend": backend, "settings": settings, "host": "any", "device": "any"}


def test_ranks_that_were_started_alike() -> None:
    ranks.refuse_other(1, hello(batch_size=4), hello(batch_size=4), 0, hello(batch_size=4))


# this rank's, rank 0's, the one that came, what is said
UNLIKE = [
    (hello(3), hello(2), hello(2), "world size is 3 for rank 1 and 2 for rank 0"),
    (hello(2), hello(2), hello(3), "world size is 3 for rank 2 and 2 for rank 0"),
    (hello(), hello(), hello(backend="gloo"), "backend is gloo for rank 2 and nccl for rank 0"),
    (hello(), hello(), hello(data="b"), "data is b for rank 2 and None for rank 0"),
    (hello(batch_size=1), hello(batch_size=2), hello(batch_size=2), "batch_size is 1 for rank 1 and 2 for rank 0"),
]


@pytest.mark.parametrize(("mine", "zero", "other", "said"), UNLIKE)
def test_ranks_that_were_not_started_alike(mine: t.Any, zero: t.Any, other: t.Any, said: str) -> None:
    message = message_of(WorkloadError, ranks.refuse_other, 2, other, zero, 1, mine)
    assert message == "The ranks were not started alike: " + said


def test_a_gpu_is_one_ranks_alone() -> None:
    ranks.refuse_shared_gpu([("a", "cuda:0"), ("a", "cuda:1"), ("b", "cuda:0")])
    shared = [("a", "cuda:0"), ("b", "cuda:0"), ("a", "cuda:0")]
    assert "Ranks 0 and 2 would both use cuda:0 of a" in message_of(WorkloadError, ranks.refuse_shared_gpu, shared)
