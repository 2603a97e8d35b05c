# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ranks that find each other, that do not, that were started wrongly, and that are lost, with real PyTorch."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.tests.support.torch import Done, Job, command, python, script_path

pytestmark = pytest.mark.long

SMALL = ["--use-dummy-data", "64", "--batch-size", "4", "--log-interval", "1", "--learning-rate", "0.01"]
ENDLESS = [*SMALL, "--epochs", "100000"]
# A process has to import PyTorch first, on a machine that may be busy.
IMPORT = 300


def error(done: Done) -> str:
    """Return the one thing that a rank complained of."""
    assert done.status == 1, done
    assert "Traceback" not in done.err, done
    (line,) = [line for line in done.err.splitlines() if line.startswith("ERROR: ")]
    return line.removeprefix("ERROR: ")


def test_a_killed_rank_is_noticed_by_the_others(tmp_path: Path) -> None:
    with Job(tmp_path) as job:
        job.rank(0, 2, "train.py", *ENDLESS)
        other = job.rank(1, 2, "train.py", *ENDLESS)
        job.wait_for("  step 3/", IMPORT * 2)
        other.kill()
        began = time.monotonic()
        left, killed = job.wait(30)
    assert time.monotonic() - began < 30
    assert killed.status == -signal.SIGKILL
    output = error(left)
    assert output.startswith("Rank 0 lost another rank in step ")
    assert output.endswith("Its own log, or its pod's state, says why it ended")
    assert "RESULT" not in left.out


def test_a_rank_that_hangs_is_noticed_by_the_others(tmp_path: Path) -> None:
    with Job(tmp_path) as job:
        job.rank(0, 2, "train.py", *ENDLESS, "--timeout", "15")
        other = job.rank(1, 2, "train.py", *ENDLESS, "--timeout", "15")
        job.wait_for("  step 3/", IMPORT * 2)
        other.send_signal(signal.SIGSTOP)
        began = time.monotonic()
        while job.running(0) and time.monotonic() < began + 45:
            time.sleep(0.2)
        taken = time.monotonic() - began
        other.kill()
        left, _killed = job.wait(30)
    assert 5 < taken < 45
    output = error(left)
    assert output.startswith(
        "Rank 0: no step ended for 15 s (--timeout): another rank has stopped, or the network between"
    )
    assert ". The ranks are rank 0 on " in output
    assert ", rank 1 on " in output


def test_rank_0_is_not_there(tmp_path: Path) -> None:
    with Job(tmp_path) as job:
        job.rank(1, 2, "train.py", *SMALL, "--rendezvous-timeout", "3")
        (alone,) = job.wait(IMPORT)
    output = error(alone)
    assert output.startswith(
        f"Rank 0 is not reachable at 127.0.0.1 port {job.port} within 3 s (--rendezvous-timeout): "
    )
    assert "Connection refused. Is it running, and are MASTER_ADDR and MASTER_PORT correct?" in output


def test_a_name_that_nobody_knows(tmp_path: Path) -> None:
    with Job(tmp_path) as job:
        job.start(
            command(tmp_path, "train.py", *SMALL, "--rendezvous-timeout", "2"),
            RANK="1", WORLD_SIZE="2", VC_TASK1_HOSTS="no-such-host.invalid,other",
        )  # fmt: skip
        (alone,) = job.wait(IMPORT)
    assert error(alone).startswith("Rank 0 is not reachable at no-such-host.invalid port 29500 within 2 s")


def test_a_rank_does_not_come(tmp_path: Path) -> None:
    with Job(tmp_path) as job:
        job.rank(0, 3, "train.py", *SMALL, "--rendezvous-timeout", "40")
        job.rank(2, 3, "train.py", *SMALL, "--rendezvous-timeout", "40")
        done = job.wait(IMPORT * 2)
    for one in done:
        output = "Not all of 3 ranks came within 40 s: rank 1 missing. Are they running, with the same world size?"
        assert error(one) == output


def test_a_rank_that_comes_twice(tmp_path: Path) -> None:
    with Job(tmp_path) as job:
        for rank in (0, 1, 1):
            job.rank(rank, 3, "train.py", *SMALL, "--rendezvous-timeout", "40")
        zero, one, other = job.wait(IMPORT * 2)
    assert "rank 2 missing" in error(zero)
    output = sorted(map(error, (one, other)))
    assert output[0].startswith("Not all of 3 ranks came")
    assert output[1] == "Rank 1 was started twice (this one by --rank): each process needs its own rank"


# what rank 1 is told, what is said
UNLIKE = [
    (3, [], "The ranks were not started alike: world size is 3 for rank 1 and 2 for rank 0"),
    (2, ["--batch-size", "8"], "The ranks were not started alike: batch_size is 8 for rank 1 and 4 for rank 0"),
    (2, ["--use-dummy-data", "65"], "data is 65 generated from 0 for rank 1 and 64 generated from 0 for rank 0"),
]


@pytest.mark.parametrize(("world", "words", "said"), UNLIKE, ids=["world", "batch", "data"])
def test_ranks_that_were_not_started_alike(tmp_path: Path, world: int, words: list[str], said: str) -> None:
    with Job(tmp_path) as job:
        job.rank(0, 2, "train.py", *SMALL)
        job.rank(1, world, "train.py", *SMALL, *words)
        done = job.wait(IMPORT * 2)
    assert all(said in error(one) for one in done), done


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    with Job(tmp_path) as job:
        job.take_port()
        job.rank(0, 2, "train.py", *SMALL)
        (alone,) = job.wait(IMPORT)
    assert error(alone).startswith(f"Rank 0 cannot listen at 127.0.0.1 port {job.port}: ")


# A gradient that is damaged on its way makes one rank's model another one.
DAMAGE = """
import sys, torch
sys.path.insert(0, sys.argv.pop(1))
import rendezvous, train
undamaged = train.Trainer._train
def damaged(self, *arguments):
    loss = undamaged(self, *arguments)
    with torch.no_grad():
        next(self.model.parameters()).view(-1)[0] += 1e-6
    return loss
train.Trainer._train = damaged
rendezvous.run(train.main)
"""


def test_ranks_that_disagree(tmp_path: Path) -> None:
    words = [*SMALL, "--epochs", "1", "--max-steps", "2", "--master-addr", "127.0.0.1", "--world-size", "2"]
    with Job(tmp_path) as job:
        words += ["--master-port", str(job.port)]
        job.start(command(tmp_path, "train.py", *words, "--rank", "0"))
        job.start(python(tmp_path, "-c", DAMAGE, script_path(""), *words, "--rank", "1"))
        done = job.wait(IMPORT * 2)
    for one in done:
        assert error(one) == (
            "The ranks disagree after step 2: the parameters of rank 1 are not those of rank 0. Gradients were lost or"
            " damaged in transit"
        )
    assert "RESULT" not in done[0].out


def test_ranks_from_mpirun(tmp_path: Path) -> None:
    words = [*SMALL, "--epochs", "1", "--max-steps", "1"]
    with Job(tmp_path) as job:
        for rank in ("0", "1"):
            job.start(
                command(tmp_path, "train.py", *words),
                OMPI_COMM_WORLD_RANK=rank, OMPI_COMM_WORLD_SIZE="2", OMPI_COMM_WORLD_LOCAL_RANK=rank,
                OMPI_COMM_WORLD_LOCAL_SIZE="2", MASTER_PORT=str(job.port),
            )  # fmt: skip
        done = job.wait(IMPORT * 2)
    assert [one.status for one in done] == [0, 0], done
    assert done[0].result["world_size"] == 2


# torchrun keeps a store for its workers, all attempts of them. Debian's own does not run: it asks for libuv, which
# Debian's PyTorch is built without.
AGENT = """
import sys, time
from torch.distributed import TCPStore
store = TCPStore("127.0.0.1", int(sys.argv[1]), None, True, wait_for_workers=False, use_libuv=False)
print("listening", flush=True)
time.sleep(3600)
"""


def test_ranks_from_torchrun(tmp_path: Path) -> None:
    words = [*SMALL, "--epochs", "1", "--max-steps", "1"]
    with Job(tmp_path) as agent:
        agent.start(python(tmp_path, "-c", AGENT, str(agent.port)))
        agent.wait_for("listening", IMPORT)
        for attempt in ("0", "1"):
            with Job(tmp_path) as job:
                for rank in ("0", "1"):
                    job.start(
                        command(tmp_path, "train.py", *words),
                        RANK=rank, LOCAL_RANK=rank, WORLD_SIZE="2", LOCAL_WORLD_SIZE="2", MASTER_ADDR="127.0.0.1",
                        MASTER_PORT=str(agent.port), TORCHELASTIC_USE_AGENT_STORE="True",
                        TORCHELASTIC_RESTART_COUNT=attempt,
                    )  # fmt: skip
                done = job.wait(IMPORT * 2)
            assert [one.status for one in done] == [0, 0], done
            assert done[0].result["world_size"] == 2
