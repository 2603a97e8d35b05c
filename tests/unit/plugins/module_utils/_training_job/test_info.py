# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a job's state is once its logs have been read."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._kubernetes.client import ApiError
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._training_job import info

Json = t.Any

# Of mpirun of Open MPI 5.0.7 with PRRTE 3.0.8 (Debian 13), whose exit status was 0: a worker had been killed for lack of memory.
LOST = """\
2 rank(s) on vgg16-worker-0, vgg16-worker-1: gloo, CPU
Connection to vgg16-worker-0.vgg16.ml.svc closed by remote host.
--------------------------------------------------------------------------
PRTE has lost communication with a remote daemon.

  HNP daemon   : [prterun-vgg16-launcher-1@0,0] on node vgg16-launcher
  Remote daemon: [prterun-vgg16-launcher-1@0,1] on node vgg16-worker-0

This is usually due to either a failure of the TCP network
connection to the node, or possibly an internal failure of
the daemon itself. We cannot recover from this failure, and
therefore will terminate the job.
--------------------------------------------------------------------------
"""
WORD = "vgg16-launcher-x: PRTE has lost communication with a remote daemon, and mpirun exited as if all were well"


class Server:
    """An MPIJob that has ended, with its launcher and the launcher's log."""

    def __init__(self, condition: str, log: str) -> None:
        self.condition, self.log = condition, log

    def get(self, _path: str, _doing: str) -> Json:
        return {"status": {"conditions": [{"type": self.condition, "status": "True", "message": "MPIJob has ended"}]}}

    def items(self, _path: str, _doing: str, _query: Json) -> Json:
        return [{"metadata": {"name": "vgg16-launcher-x"}, "status": {"phase": self.condition}}]

    def raw(self, _path: str, _doing: str, _query: Json) -> bytes:
        return self.log.encode()


def look(condition: str, log: str) -> Json:
    params = {"namespace": "ml", "name": "vgg16", "kind": "mpijob", "wait_for": "ended", "known": "", "wait_timeout": 0}
    server = t.cast(t.Any, Server(condition, log))
    return info.manage({**params, "log_head": 1 << 20, "log_tail": 1 << 16}, False, server)


# how the operator calls the end, the log, state, what is said
ENDS = [
    ("Succeeded", "RESULT {}\n", "succeeded", "MPIJob has ended"),
    ("Succeeded", LOST, "failed", WORD),
    ("Succeeded", LOST.replace("PRTE", "ORTE"), "failed", WORD.replace("PRTE", "ORTE")),
    # A program may print that, too.
    ("Succeeded", "step 1: PRTE has lost communication with a remote daemon.\n", "succeeded", "MPIJob has ended"),
    ("Failed", LOST, "failed", "MPIJob has ended"),
]


@pytest.mark.parametrize(("condition", "log", "state", "text"), ENDS)
def test_a_worker_that_mpirun_has_lost_is_no_success(condition: str, log: str, state: str, text: str) -> None:
    result = look(condition, log)
    assert (result["state"], result["said"]) == (state, text)
    assert result["progress"].startswith(f"{state}")
    assert text in result["progress"]


class Ending:
    """An MPIJob that has succeeded, whose workers run on: one ends by itself after some looks, the other is deleted."""

    def __init__(self, looks: int) -> None:
        self.looks = looks
        self.ended = False

    def get(self, _path: str, _doing: str) -> Json:
        return {"status": {"conditions": [{"type": "Succeeded", "status": "True", "message": "MPIJob has ended"}]}}

    def items(self, _path: str, _doing: str, _query: Json) -> Json:
        self.looks -= 1
        self.ended = self.looks < 0
        phases = {"launcher-x": "Succeeded", "worker-0": "Succeeded" if self.ended else "Running"}
        if not self.ended:
            phases["worker-1"] = "Running"
        return [{"metadata": {"name": name}, "status": {"phase": phase}} for name, phase in phases.items()]

    def raw(self, where: str, doing: str, _query: Json) -> bytes:
        if "worker-1" in where and self.ended:
            raise ApiError(f"{doing}: 404 Not Found")
        return b"started\n" + (b"terminated\n" if "worker-0" in where and self.ended else b"")


def logs_of(job: Ending, wait_timeout: int, check_mode: bool = False) -> dict[str, Json]:
    params = {"namespace": "ml", "name": "vgg16", "kind": "mpijob", "wait_for": "ended", "known": ""}
    lengths = {"log_head": 1 << 20, "log_tail": 1 << 16}
    params.update(lengths, wait_timeout=wait_timeout)
    result = info.manage(params, check_mode, t.cast(t.Any, job))
    assert all(log["error"] is None for log in result["logs"])
    return {log["pod"]: log["text"] for log in result["logs"]}


@pytest.fixture
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(info, "PAUSE", 0.0)


@pytest.mark.usefixtures("fast")
def test_logs_of_pods_that_run_on_are_read_to_their_end() -> None:
    # A second run finds the same log of the worker that is still there, and nothing of the other.
    job = Ending(3)
    assert logs_of(job, 60) == {"launcher-x": "started\n", "worker-0": "started\nterminated\n", "worker-1": "started\n"}
    assert logs_of(job, 60) == {"launcher-x": "started\n", "worker-0": "started\nterminated\n"}


@pytest.mark.usefixtures("fast")
@pytest.mark.parametrize(("wait_timeout", "check_mode"), [(0, False), (60, True)])
def test_a_single_look_waits_for_no_pod(wait_timeout: int, check_mode: bool) -> None:
    assert logs_of(Ending(1), wait_timeout, check_mode)["worker-0"] == "started\n"


@pytest.mark.usefixtures("fast")
def test_pods_that_do_not_end_are_waited_for_a_minute_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(info, "ENDING", 0.05)
    assert logs_of(Ending(10**9), 60)["worker-0"] == "started\n"
