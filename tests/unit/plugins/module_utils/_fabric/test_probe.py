# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One host's part in measuring, over programs whose answers are given by the test."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._fabric import host as fabric_host
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._fabric import probe
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._fabric.host import Host, ProbeError, Server
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._fabric.probe import (
    Quiet,
    check,
    listen,
    measure,
    ready,
    refused,
)
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._pod_exec.run import ContainerError
from ansible_collections.rdmaops.gpu_fabric.tests.support.waiting import limits_count_from, wait_for

PING = "ping data: rdma-ping-%d: %s\n"
LETTERS = "".join(chr(code) for code in range(65, 123))
FIXTURE = Path(__file__).parents[2] / "filter/fixtures/perftest_25.01_write_bw_rxe.json"


def pings(number: int) -> str:
    texts = [(LETTERS[one:] + LETTERS)[:51] for one in range(number)]
    return "".join(PING % (one, text) for one, text in enumerate(texts)) + "client DISCONNECT EVENT...\n"


def a_test(kind: str, **more: t.Any) -> dict[str, t.Any]:
    names = {"id": "0-1-" + kind, "client": "b", "server": "a", "rail": 1, "test": kind}
    ends = {"address": "10.0.0.1", "source": "10.0.0.2", "tcp_port": 18516, "device": "mlx5_1", "port": 2}
    return {**names, **ends, "gid_index": 3, "pings": 3, "seconds": 2, "bytes": 4096, **more}


class FakeServer:
    def __init__(self, ended: t.Any, words: str) -> None:
        self.ended = ended
        self.words = words

    def said(self) -> str:
        return self.words

    def status(self) -> int | None:
        if isinstance(self.ended, Exception):
            raise self.ended
        return t.cast("int | None", self.ended)

    def stop(self) -> None:
        pass


class FakeHost(Host):
    """Each run of a program takes a second and gives the next answer: exit status, output, document."""

    def __init__(self, *answers: t.Any) -> None:
        self.answers = list(answers)
        self.missing: set[str] = set()
        self.clock = 0.0
        self.ran: list[list[str]] = []
        self.files: dict[str, str] = {}
        self.held: dict[str, t.Any] = {}
        self.ended: dict[str, t.Any] = {}
        self.ports: dict[int, float] = {}

    def which(self, tool: str) -> str | None:
        return None if tool in self.missing else "/usr/bin/" + tool

    def run(self, argv: t.Sequence[str], limit: float) -> tuple[int | None, str]:
        self.ran.append(list(argv))
        self.clock += 1
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        status, text, *document = answer
        for one in document:
            (place,) = [word.partition("=")[2] for word in argv if word.startswith("--out_json_file=")]
            self.files[place] = one
        if status is None:
            self.clock += limit
        return status, text

    def start(self, argv: t.Sequence[str], limit: float, log: str) -> Server:
        self.ran.append([*argv, "for %d s" % limit])
        return FakeServer(self.ended.get(argv[0]), self.files.get(log, ""))

    def read(self, path: str) -> str:
        return self.files.get(path, "")

    def remove(self, path: str) -> None:
        self.files.pop(path, None)

    def listens(self, port: int) -> bool:
        return self.clock >= self.ports.get(port, 0)

    def now(self) -> float:
        return self.clock

    def sleep(self, seconds: float) -> None:
        self.clock += seconds

    def users(self, device: str) -> list[int | None]:
        found = self.held.get(device, [])
        if isinstance(found, Exception):
            raise found
        return t.cast("list[int | None]", found)

    def command(self, pid: int) -> str:
        return "python3"

    def way(self) -> tuple[str | None, str | None]:
        return "eth0", "192.0.2.7"


@pytest.fixture(autouse=True)
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for util in (fabric_host, probe):
        monkeypatch.setattr(util, "LOGS", str(tmp_path))


# --- ready


WAY = {"interface": "eth0", "address": "192.0.2.7"}


def test_ready() -> None:
    host = FakeHost((0, "4242, python3\n"), (0, "GPU 0: NVIDIA H200 (UUID: GPU-1)\nGPU 1: NVIDIA H200 (UUID: GPU-2)\n"))
    busy = ["a GPU is in use by python3 (PID 4242)"]
    assert ready(["rping"], ["mlx5_0"], host) == {"problems": [], "busy": busy, "gpus": 2, **WAY}
    host = FakeHost()
    host.missing = {"nvidia-smi", "ib_write_bw", "rping", "timeout"}
    host.held = {"mlx5_0": [7, None], "mlx5_1": OSError(1, "not permitted")}
    assert ready(["rping", "ib_write_bw", "ib_write_bw_cm"], ["mlx5_0", "mlx5_1"], host) == {
        **WAY,
        "gpus": 0,
        "problems": [
            "rping is not installed (package rdmacm-utils (RHEL: librdmacm-utils))",
            "ib_write_bw is not installed (package perftest)",
            "timeout is not installed (package coreutils)",
            "cannot determine whether mlx5_1 is in use: [Errno 1] not permitted",
        ],
        "busy": ["mlx5_0 is in use by python3 (PID 7)", "mlx5_0 is in use by a process that cannot be seen"],
    }


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (
            (9, "Driver mismatch\n"),
            "cannot determine whether the GPUs are in use: nvidia-smi exited with 9: Driver mismatch",
        ),
        ((None, ""), "cannot determine whether the GPUs are in use: nvidia-smi timed out after 30 s"),
    ],
)
def test_gpus_that_cannot_be_asked_are_not_idle(answer: tuple[int | None, str], problem: str) -> None:
    assert ready([], [], FakeHost(answer)) == {"problems": [problem], "busy": [], "gpus": None, **WAY}


def test_idle_gpus() -> None:
    host = FakeHost((0, "\n"), (0, "GPU 0: NVIDIA H200 (UUID: GPU-1)\n"))
    assert ready([], [], host) == {"problems": [], "busy": [], "gpus": 1, **WAY}


def test_gpus_that_cannot_be_counted() -> None:
    found = ready([], [], FakeHost((0, "\n"), (9, "Driver mismatch\n")))
    problem = "cannot determine the number of GPUs: nvidia-smi exited with 9: Driver mismatch"
    assert (found["problems"], found["gpus"]) == ([problem], None)


def test_gpus_in_a_container_are_asked_for_their_load() -> None:
    host = FakeHost((0, "0, 0\n1, 87\n"), (0, "GPU 0: a\nGPU 1: b\n"))
    host.sees_processes = False
    assert ready([], [], host)["busy"] == ["GPU 1 is in use (87% of the time)"]
    assert host.ran[0][1] == "--query-gpu=index,utilization.gpu"


# --- what one end can tell

DEVINFO = "hca_id:\tmlx5_1\n\ttransport:\t\tInfiniBand (0)\n\t\tport:\t2\n\t\t\tstate:\t\t\tPORT_%s\n"
PORT = {"rail": 1, "device": "mlx5_1", "port": 2, "gid_index": 3, "netdev": "net1"}
SEEN: list[tuple[tuple[int | None, str], bool | None, str | None]] = [
    ((0, DEVINFO % "ACTIVE (4)"), True, None),
    ((0, DEVINFO % "DOWN (1)"), False, "ibv_devinfo reports PORT_DOWN for port 2 of mlx5_1"),
    (
        (255, "No IB devices found\n"),
        False,
        "ibv_devinfo does not see port 2 of mlx5_1, exited with 255 and printed: No IB devices found",
    ),
    (
        (0, ""),
        False,
        "ibv_devinfo does not see port 2 of mlx5_1, exited with 0 and printed: nothing",
    ),
    ((None, ""), None, "ibv_devinfo timed out after 30 s"),
]


@pytest.mark.parametrize(("answer", "ok", "error"), SEEN, ids=range(len(SEEN)))
def test_devinfo(answer: tuple[int | None, str], ok: bool | None, error: str | None) -> None:
    host = FakeHost(answer)
    (result,) = check(["rping", "ibv_devinfo"], [PORT, {"rail": 0, "device": None, "port": None}], 1, 2, host)
    assert (result["ok"], result["error"]) == (ok, error)
    assert (result["rail"], result["test"], result["device"]) == (1, "ibv_devinfo", "mlx5_1")
    assert host.ran == [["ibv_devinfo", "-d", "mlx5_1"]]


def test_devinfo_that_is_not_there() -> None:
    host = FakeHost()
    host.missing = {"ibv_devinfo", "nvidia-smi"}
    (result,) = check(["ibv_devinfo"], [PORT], 1, 2, host)
    assert (result["ok"], "ibverbs-utils" in result["error"]) == (None, True)
    said = "ibv_devinfo is not installed (package ibverbs-utils (RHEL: libibverbs-utils))"
    assert ready(["ibv_devinfo", "memlock"], [], host)["problems"] == [said]


def test_memlock_is_for_pods() -> None:
    (result,) = check(["memlock"], [PORT], 1, 2, FakeHost())
    assert (result["ok"], result["error"]) == (
        None,
        "memlock is a container limit, and is tested only in pods",
    )


# --- servers


def test_listen() -> None:
    host = FakeHost()
    host.ports = {18516: 3.0}
    assert listen([a_test("rping"), a_test("ib_write_bw")], 90, 20, host) == []
    assert host.clock >= 3
    assert host.ran == [
        ["rping", "-s", "-v", "-a", "10.0.0.1", "-p", "18516", "-C", "3", "for 90 s"],
        [
            *["ib_write_bw", "-d", "mlx5_1", "-i", "2", "-p", "18516", "-x", "3", "-D", "2", "-s", "4096", "-F"],
            *["--report_gbits", "for 90 s"],
        ],
    ]


def test_servers_that_do_not_come_up(tmp_path: Path) -> None:
    host = FakeHost()
    host.ended = {"rping": 255}
    host.files = {str(tmp_path / "0-1-rping.server"): "rdma_bind_addr:\nCannot assign requested address\n"}
    host.ports = {18516: 99.0}
    failed = listen([a_test("rping"), a_test("ib_write_bw")], 90, 20, host)
    assert [(one["ok"], one["error"]) for one in failed] == [
        (None, "its server exited with 255: rdma_bind_addr: Cannot assign requested address"),
        (None, "its server did not listen on port 18516 within 20 s"),
    ]
    assert {key: failed[0][key] for key in ("id", "client", "server", "rail", "test")} == {
        "id": "0-1-rping",
        "client": "b",
        "server": "a",
        "rail": 1,
        "test": "rping",
    }


GONE = ContainerError("The container main of the pod ml/train-0 has ended")


def test_a_container_that_ends_is_no_failure_of_the_fabric() -> None:
    host = FakeHost(GONE)
    host.ended = {"rping": GONE}
    (failed,) = listen([a_test("rping")], 90, 20, host)
    (measured,) = measure([a_test("ib_write_bw")], 30, 10, host)
    (never,) = refused([a_test("rping")], str(GONE))
    for result in (failed, measured, never):
        assert (result["ok"], result["error"]) == (None, "The container main of the pod ml/train-0 has ended")
        assert (result["client"], result["server"], result["rail"]) == ("b", "a", 1)


# --- clients


def one(kind: str, *answers: t.Any, limit: float = 30, **more: t.Any) -> tuple[dict[str, t.Any], FakeHost]:
    host = FakeHost(*answers)
    (result,) = measure([a_test(kind, **more)], limit, 10, host)
    return {key: result[key] for key in ("ok", "gbps", "pings", "error")}, host


def test_rping() -> None:
    result, host = one("rping", (0, pings(3)))
    assert result == {"ok": True, "gbps": None, "pings": 3, "error": None}
    assert host.ran == [["rping", "-c", "-v", "-a", "10.0.0.1", "-p", "18516", "-C", "3", "-I", "10.0.0.2"]]


def test_bandwidth() -> None:
    result, host = one("ib_write_bw", (0, "...", FIXTURE.read_text()))
    assert result == {"ok": True, "gbps": 0.024885, "pings": None, "error": None}
    assert host.ran[0][-4:-2] == ["--report_gbits", "--out_json"]
    assert host.ran[0][-1] == "10.0.0.1"


def test_bandwidth_by_the_connection_manager() -> None:
    """Its server is not seen to listen, and its client tries again."""
    host = FakeHost()
    host.ports = {18516: 99.0}
    assert listen([a_test("ib_write_bw_cm")], 90, 20, host) == []
    assert host.ran[0][host.ran[0].index("-x") + 2] == "-R"
    late = (1, "RDMA CM event error:\nEvent: RDMA_CM_EVENT_REJECTED; error: 8.\n")
    result, host = one("ib_write_bw_cm", late, (1, "Unexpected CM event bl blka 8\n"), (0, "", FIXTURE.read_text()))
    assert (result["ok"], len(host.ran)) == (True, 3)
    assert host.ran[0][:3] == ["ib_write_bw", "-d", "mlx5_1"]
    assert "-R" in host.ran[0]


def test_counters_before_and_after(monkeypatch: pytest.MonkeyPatch) -> None:
    head = "Inter-|   Receive\n face |bytes\n"
    looks = [[f"{head}  eth0: 10 {'0 ' * 15}\n", "0\n", ""], [f"{head}  eth0: 15 {'0 ' * 15}\n", "9\n", "0\n"]]
    monkeypatch.setattr(Host, "texts", lambda self, paths: looks.pop(0))
    host = FakeHost((0, pings(3)), (0, "", FIXTURE.read_text()))
    ping, found = measure([a_test("rping"), a_test("ib_write_bw")], 30, 10, host, Quiet(["net1"], 1000))
    assert ping["traffic"] is None
    assert found["ok"] is True
    assert "sent_bytes" not in found
    traffic = found["traffic"]
    assert (traffic["quiet"], traffic["rdma_bytes"], traffic["ethernet_bytes"]) == (False, 36, {"eth0": 5})
    assert traffic["sent_bytes"] > 36
    assert traffic["why"].startswith("mlx5_1 counted 36 of the ")


def test_counters_that_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Host, "texts", lambda self, paths: ["", "", ""])
    (found,) = measure([a_test("ib_write_bw")], 30, 10, FakeHost(), Quiet([], 0))
    assert (found["ok"], found["error"]) == (
        None,
        "the counters of the network cannot be read: /proc/net/dev has no list of network devices",
    )


def test_from_gpu_to_gpu() -> None:
    result, host = one("ib_write_bw_cuda", (0, "", FIXTURE.read_text()), gpu=3)
    assert result["ok"] is True
    assert "--use_cuda=3" in host.ran[0]


def test_no_gid_index_on_infiniband() -> None:
    assert "-x" not in one("ib_write_bw", (0, "...", FIXTURE.read_text()), gid_index=None)[1].ran[0]


BAD: list[tuple[str, tuple[t.Any, ...], bool | None, str]] = [
    # test, answer, ok, error
    ("rping", (0, pings(2)), False, "2 of 3 pings"),
    ("rping", (0, ""), False, ""),
    ("rping", (1, pings(3)), False, "rping exited with 1"),
    ("rping", (255, "cma event RDMA_CM_EVENT_UNREACHABLE, error -110\n"), False, "RDMA_CM_EVENT_UNREACHABLE"),
    ("rping", (None, "partly"), False, "no result within 30 s: partly"),
    ("ib_write_bw", (0, "fine"), None, "ib_write_bw wrote no JSON: perftest is too old for --out_json_file"),
    ("ib_write_bw", (0, "fine", "{"), None, ""),
    ("ib_write_bw", (0, "fine", "{}"), None, ""),
    ("ib_write_bw", (1, " WARNING: x\nFailed status 5"), False, "ib_write_bw exited with 1: Failed status 5"),
    ("ib_write_bw", (None, ""), False, "no result within 30 s"),
]


@pytest.mark.parametrize(("kind", "answer", "ok", "error"), BAD, ids=range(len(BAD)))
def test_what_is_not_good_is_never_ok(kind: str, answer: tuple[t.Any, ...], ok: bool | None, error: str) -> None:
    result, _host = one(kind, answer)
    assert (result["ok"], result["gbps"]) == (ok, None)
    assert result["error"]
    assert error in result["error"]


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("rping", "cma event RDMA_CM_EVENT_REJECTED, error 8\n"),
        ("ib_write_bw", "Couldn't connect to 10.0.0.1:18516\n"),
    ],
)
def test_a_server_that_is_late_is_waited_for(kind: str, text: str) -> None:
    good = (0, pings(3)) if kind == "rping" else (0, "...", FIXTURE.read_text())
    result, host = one(kind, (1, text), (1, text), good)
    assert (result["ok"], len(host.ran)) == (True, 3)
    result, host = one(kind, *[(1, text)] * 30)
    assert result["ok"] is False
    assert 5 <= len(host.ran) <= 9


def test_a_document_of_before_is_no_result(tmp_path: Path) -> None:
    host = FakeHost((0, "fine"))
    host.files = {str(tmp_path / "0-1-ib_write_bw.json"): FIXTURE.read_text()}
    (result,) = measure([a_test("ib_write_bw")], 30, 10, host)
    assert result["ok"] is None


def test_a_program_that_cannot_be_started() -> None:
    host = Host()
    with pytest.raises(ProbeError, match="Running /nowhere/x: No such file or directory"):
        host.run(["/nowhere/x"], 5)
    assert host.run(["sh", "-c", "echo a; exit 3"], 60) == (3, "a\n")


def test_what_was_printed_before_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mark = tmp_path / "printed"
    limits_count_from(mark, monkeypatch)
    assert Host().run(["sh", "-c", f"echo a; touch {mark}; exec sleep 60"], 0.3) == (None, "a\n")


def test_what_a_server_prints_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fabric_host, "_LOG", 1 << 16)
    log = tmp_path / "server"
    server = Host().start(["sh", "-c", "yes | head -c 300000; echo 'still here' >&2; exit 7"], 60, str(log))
    wait_for(lambda: server.status() is not None)
    assert (server.status(), log.stat().st_size) == (7, 1 << 16)
    assert server.said() == log.read_text()


def test_what_a_client_prints_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fabric_host, "_KEPT", 1000)
    assert Host().run(["sh", "-c", "yes | head -c 300000; echo end"], 60) == (0, ("y\n" * 1000)[-996:] + "end\n")


def test_ports_that_listen() -> None:
    import socket

    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        number = one.getsockname()[1]
        assert not Host().listens(number)
        one.listen()
        assert Host().listens(number)
