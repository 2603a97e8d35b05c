# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Logs of pods, from a server that hands them out as the API server does: far too long, or no text at all."""

from __future__ import annotations

import urllib.parse
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._kubernetes import client as kubernetes
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._tool_output import nccl_log
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._training_job import log as training_job_log
from ansible_collections.rdmaops.gpu_fabric.tests.unit.plugins.module_utils._kubernetes import server

HEAD = 1024 * 1024
TAIL = 65536
SOCKET = b"a-0:12:34 [0] NCCL INFO Using network Socket\n"
RDMA = b"a-1:12:34 [0] NCCL INFO Using network IB\n"


class Server(server.Server):
    """Gives each pod's log as far as it was asked for, and counts what it sends."""

    def __init__(self) -> None:
        super().__init__([])
        self.logs: dict[str, bytes] = {}
        self.sent = 0

    def answer_to(self, path: str) -> server.Answer:
        url = urllib.parse.urlsplit(path)
        query = {name: int(value) for name, value in urllib.parse.parse_qsl(url.query)}
        log = self.logs.get(url.path.split("/")[-2])
        if log is None:
            return 404, {"kind": "Status", "reason": "NotFound", "message": 'pods "x" not found', "code": 404}
        if "tailLines" in query:
            log = b"".join(log.splitlines(keepends=True)[-query["tailLines"] :])
        part = log[: query["limitBytes"]]
        self.sent += len(part)
        return 200, part


@pytest.fixture
def api() -> Iterator[Server]:
    with Server().running() as api:
        yield api


def connect(api: Server) -> kubernetes.Client:
    return server.client(api.url, timeout=30)


def read(api: Server, **logs: bytes) -> dict[str, training_job_log.Log]:
    api.logs = logs
    client = connect(api)
    names = [*logs, *(["gone"] if "gone" not in logs else [])]
    return {name: training_job_log.read(client, "lab", name, HEAD, TAIL) for name in names}


def test_all_ranks_together_and_each_by_itself(api: Server) -> None:
    logs = read(api, a=SOCKET, b=RDMA)
    verdict = training_job_log.transport(logs)
    assert (verdict["transport"], verdict["socket_pods"]) == ("mixed", ["a"])
    assert len(verdict["unread"]) == 1
    assert verdict["unread"][0].startswith("gone: Reading the log of lab/gone: ")
    assert 'answered 404 (NotFound): pods "x" not found' in verdict["unread"][0]
    del logs["a"]
    assert training_job_log.transport(logs)["transport"] == "rdma"


def test_a_log_of_100_megabytes(api: Server) -> None:
    """Only its beginning and its end are fetched; what NCCL says in the beginning is found."""
    noise = b"epoch 1 loss 0.123 " * 5 + b"\n"
    long = SOCKET + noise * (100 * 1024 * 1024 // len(noise)) + b"Epoch: 200, Accuracy: 0.856\n"
    log = read(api, long=long)["long"]
    assert api.sent < HEAD + 5 * TAIL + 1000
    assert (len(log.head), log.cut, log.error) == (HEAD, True, None)
    assert len(log.tail) <= TAIL
    assert log.tail.endswith("Epoch: 200, Accuracy: 0.856\n")
    assert training_job_log.transport({"long": log})["transport"] == "socket"


def test_logs_of_many_pods(api: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is read of all logs has a limit, whatever the options say, and each pod gets the same share."""
    monkeypatch.setattr(training_job_log, "HEADS", 400_000)
    monkeypatch.setattr(training_job_log, "TAILS", 40_000)
    api.logs = {f"p{number}": SOCKET + b"noise\n" * 1_000_000 for number in range(4)}
    shares = training_job_log.read_all(connect(api), "lab", [*api.logs], 1 << 40, 1 << 40)
    assert {name: len(log.head) for name, log in shares.items()} == dict.fromkeys(api.logs, 100_000)
    assert max(len(log.tail) for log in shares.values()) <= 10_000
    assert api.sent < 400_000 + 4 * 40_000 + 1000
    assert training_job_log.transport(shares)["socket_pods"] == [*api.logs]


def test_what_nccl_said_after_the_beginning_is_not_known(api: Server) -> None:
    late = b"noise\n" * (HEAD // 6 + 1) + SOCKET + b"noise\n" * (4 * TAIL)
    verdict = training_job_log.transport({"late": read(api, late=late)["late"]})
    assert (verdict["transport"], verdict["cut"]) == ("unknown", ["late"])


def test_junk(api: Server) -> None:
    junk = bytes(range(256)) * 40000
    log = read(api, junk=junk)["junk"]
    assert log.cut
    assert not [char for char in log.tail if ord(char) < 32 and char not in "\t\n"]
    assert training_job_log.transport({"junk": log})["transport"] == "unknown"


def test_one_line_without_an_end(api: Server) -> None:
    log = read(api, line=b"\xff" * (20 * 1024 * 1024))["line"]
    assert len(log.tail.encode()) <= 3 * TAIL
    assert training_job_log.transport({"line": log})["transport"] == "unknown"


def test_the_last_line(api: Server) -> None:
    read(api, a=b"first\nEpoch 3\n", none=b"")
    client = connect(api)
    assert training_job_log.last_line(client, "lab", "a") == "Epoch 3"
    assert training_job_log.last_line(client, "lab", "none") is None
    assert training_job_log.last_line(client, "lab", "gone") is None


RECORDED = sorted((Path(__file__).parents[2] / "filter" / "fixtures").glob("nccl*.txt"))


@pytest.mark.parametrize("file", RECORDED, ids=lambda file: file.stem)
def test_recorded_logs_mean_the_same_as_to_the_filter(file: Path) -> None:
    """What is left out before says nothing of the network."""
    text = file.read_text()
    transport = training_job_log.transport({"pod": training_job_log.Log(text, text, False, None)})
    whole = nccl_log.parse(text)
    assert {name: transport[name] for name in whole} == whole


UCX = "[1.0] [%s:29   :1]      ucp_worker.c:1903 UCX  INFO    ucp_context_0 inter-node cfg#1 tag(%s)\n"


def test_without_nccl_the_lanes_of_ucx_count() -> None:
    logs = {
        pod: training_job_log.Log(UCX % (pod, lane), "", False, None)
        for pod, lane in (("a", "rc_verbs/rxe0:1"), ("b", "tcp/net1"))
    }
    verdict = training_job_log.transport(logs)
    assert (verdict["transport"], verdict["library"], verdict["socket_pods"]) == ("mixed", "UCX", ["b"])
    assert verdict["network"] == "rc_verbs/rxe0:1, tcp/net1"
    del logs["b"]
    assert training_job_log.transport(logs)["transport"] == "rdma"
    assert training_job_log.transport({})["library"] is None
