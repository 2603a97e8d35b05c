# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tests between two ends, over programs whose answers are given by the test."""

from __future__ import annotations

import threading
import typing as t
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._fabric import host as fabric_host
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._fabric import measure as fabric_measure
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._fabric.host import Host
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._fabric.measure import Quiet, listen, measure, refused
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._pod_exec.run import ContainerError
from ansible_collections.rdmaops.gpu_fabric.tests.unit.plugins.filter.recorded import read
from ansible_collections.rdmaops.gpu_fabric.tests.unit.plugins.module_utils._fabric.fake_host import FakeHost

PING = "ping data: rdma-ping-%d: %s\n"
LETTERS = "".join(chr(code) for code in range(65, 123))
FIXTURE = Path(__file__).parents[2] / "filter/fixtures/perftest_25.01_write_bw_rxe.json"


def pings(number: int) -> str:
    texts = [(LETTERS[one:] + LETTERS)[:51] for one in range(number)]
    return "".join(PING % (one, text) for one, text in enumerate(texts)) + "client DISCONNECT EVENT...\n"


def a_test(kind: str, **more: t.Any) -> dict[str, t.Any]:
    names = {"id": "0-1-" + kind, "client": "b", "server": "a", "rail": 1, "test": kind}
    ends = {"address": "10.0.0.1", "source": "10.0.0.2", "tcp_port": 18516, "device": "mlx5_1", "port": 2}
    return {**names, **ends, "gid_index": 3, "pings": 3, "seconds": 2, "bytes": 4096, "queue_pairs": 1, **more}


@pytest.fixture(autouse=True)
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for util in (fabric_host, fabric_measure):
        monkeypatch.setattr(util, "LOGS", str(tmp_path))


def test_listen() -> None:
    host = FakeHost()
    host.ports = {18516: 3.0}
    assert listen([a_test("rping"), a_test("ib_write_bw")], 90, 20, host) == []
    assert host.clock >= 3
    assert host.ran == [
        ["rping", "-s", "-v", "-a", "10.0.0.1", "-p", "18516", "-C", "3", "for 90 s"],
        [
            *["ib_write_bw", "-d", "mlx5_1", "-i", "2", "-p", "18516", "-x", "3", "-q", "1", "-D", "2", "-s", "4096"],
            *["-F", "--report_gbits", "for 90 s"],
        ],
    ]
    # Those of an earlier round, before any of these is started.
    assert host.ended_after == [0]
    assert listen([], 90, 20, host) == []
    assert host.ended_after == [0]


def test_servers_that_do_not_come_up(tmp_path: Path) -> None:
    host = FakeHost()
    host.ended = {"rping": 255}
    host.files = {str(tmp_path / "0-1-rping.server"): "rdma_bind_addr:\nCannot assign requested address\n"}
    host.ports = {18516: 99.0}
    failed = listen([a_test("rping"), a_test("ib_write_bw")], 90, 20, host)
    assert [(result["ok"], result["error"]) for result in failed] == [
        (None, "its server exited with 255: rdma_bind_addr: Cannot assign requested address"),
        (None, "its server did not listen on port 18516 within 20 s"),
    ]
    names = {"id": "0-1-rping", "client": "b", "server": "a", "rail": 1, "test": "rping"}
    assert {key: failed[0][key] for key in names} == names


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


def test_perftest_without_json() -> None:
    """Its options are read before it connects: the server waits for the second run."""
    no_json, text = (read(f"perftest_4.4+0.37_{name}.txt") for name in ("no-json", "from-source_write_bw_gbits"))
    result, host = one("ib_write_bw", (1, no_json), (1, "Couldn't connect to 10.0.0.1:18516\n"), (0, text))
    assert result == {"ok": True, "gbps": 187.7, "pings": None, "error": None}
    assert ["--out_json" in argv for argv in host.ran] == [True, False, False]
    assert host.ran[1][-3:] == ["-F", "--report_gbits", "10.0.0.1"]
    musl = "ib_write_bw: unrecognized option: out_json\n Invalid Command or flag.\n"
    assert one("ib_write_bw", (1, musl), (0, text))[0]["gbps"] == 187.7


def test_bandwidth_by_the_connection_manager() -> None:
    """Its server is not seen to listen, and its client tries again."""
    host = FakeHost()
    host.ports = {18516: 99.0}
    assert listen([a_test("ib_write_bw_cm")], 90, 20, host) == []
    assert host.ran[0][host.ran[0].index("-x") + 2] == "-R"
    result, host = one("ib_write_bw_cm", (1, "Unexpected CM event bl blka 8\n"), (0, "", FIXTURE.read_text()))
    assert (result["ok"], len(host.ran)) == (True, 2)
    assert host.ran[0][:3] == ["ib_write_bw", "-d", "mlx5_1"]
    assert "-R" in host.ran[0]


def test_a_server_without_its_client_is_not_asked_again() -> None:
    """It would take the next client's first connection for the one of the data."""
    no_second = (139, "RDMA CM event error:\nEvent: RDMA_CM_EVENT_REJECTED; error: 8.\n")
    result, host = one("ib_write_bw_cm", no_second, (0, "", FIXTURE.read_text()))
    error = "the server did not listen in time for the connection of the data, which was rejected for the reason 8"
    assert (result["ok"], result["error"], len(host.ran)) == (None, error, 1)
    # perftest tries it ten times: an attempt that is rejected says nothing of those after it.
    result, _host = one("ib_write_bw_cm", (0, no_second[1], FIXTURE.read_text()))
    assert (result["ok"], result["gbps"]) == (True, 0.024885)


def test_latency() -> None:
    host = FakeHost((0, "...", read("perftest_25.01_send_lat_rxe.json")))
    (result,) = measure([a_test("ib_send_lat", service_level=3)], 30, 10, host)
    assert (result["ok"], result["latency_us"], result["latency_99_us"], result["gbps"]) == (
        True,
        2002.8,
        21262.3,
        None,
    )
    assert host.ran[0] == [
        *["ib_send_lat", "-d", "mlx5_1", "-i", "2", "-p", "18516", "-x", "3", "-S", "3", "-n", "1000", "-s", "2", "-F"],
        *["--out_json", "--out_json_file=/run/rdmaops/fabric/0-1-ib_send_lat.json", "10.0.0.1"],
    ]
    assert one("ib_send_lat", (1, "Couldn't allocate MR\n"))[0]["error"] == (
        "ib_send_lat exited with 1: Couldn't allocate MR"
    )
    assert one("ib_send_lat", (0, "", "{}"))[0] == {
        "ok": None,
        "gbps": None,
        "pings": None,
        "error": "perftest printed no latency, or several: give one run of one size, without -D",
    }


@pytest.mark.parametrize("server", [True, False])
def test_both_directions(server: bool) -> None:
    argv = fabric_measure.command(a_test("ib_write_bw_bidirectional"), server=server)
    assert argv[argv.index("-x") + 2] == "-b"
    assert "-b" not in fabric_measure.command(a_test("ib_write_bw"), server=server)


def test_all_rails_at_once() -> None:
    """They begin when the other tests have ended, and all before the first of them ends."""
    together = threading.Barrier(3, timeout=20)
    names: list[str] = []

    class Waiting(FakeHost):
        def run(self, argv: t.Sequence[str], limit: float) -> tuple[int | None, str]:
            name = argv[-2].rpartition("/")[2]
            names.append(name)
            if "all_rails" in name:
                together.wait()
            return 0, ""

        def run_for_document(
            self, argv: t.Callable[[str], t.Sequence[str]], name: str, limit: float
        ) -> tuple[int | None, str, str]:
            self.run(argv("/run/" + name), limit)
            return 0, "", FIXTURE.read_text()

    rails = [a_test("ib_write_bw_all_rails", rail=rail, id=f"0-{rail}-all_rails") for rail in range(3)]
    results = measure([rails[0], a_test("ib_write_bw"), *rails[1:]], 30, 10, Waiting())
    assert [(result["test"], result["rail"], result["ok"]) for result in results] == [
        ("ib_write_bw", 1, True),
        *(("ib_write_bw_all_rails", rail, True) for rail in range(3)),
    ]
    assert names[0] == "0-1-ib_write_bw.json"
    assert sorted(names[1:]) == [f"0-{rail}-all_rails.json" for rail in range(3)]


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
    (result,) = measure([a_test("ib_write_bw")], 30, 10, FakeHost(), Quiet([], 0))
    error = "the counters of the network cannot be read: /proc/net/dev has no list of network devices"
    assert (result["ok"], result["error"]) == (None, error)


def test_from_gpu_to_gpu() -> None:
    result, host = one("ib_write_bw_cuda", (0, "", FIXTURE.read_text()), gpu="0000:18:00.0", dmabuf=True)
    assert result["ok"] is True
    where = host.ran[0].index("--use_cuda_bus_id=0000:18:00.0")
    assert host.ran[0][where + 1] == "--use_cuda_dmabuf"
    by_module = a_test("ib_write_bw_cuda", gpu="0000:18:00.0", dmabuf=False)
    assert "--use_cuda_dmabuf" not in fabric_measure.command(by_module, server=True)


def test_queue_pairs_and_cpus() -> None:
    result, host = one("ib_write_bw", (0, "", FIXTURE.read_text()), queue_pairs=4, cpus="28-55,84-111")
    assert result["ok"] is True
    assert host.ran[0][:5] == ["taskset", "-c", "28-55,84-111", "ib_write_bw", "-d"]
    assert host.ran[0][host.ran[0].index("-q") + 1] == "4"
    assert one("rping", (0, pings(3)), cpus="28-55")[1].ran[0][0] == "rping"


def test_service_level_and_traffic_class() -> None:
    """perftest sets the traffic class of its own queue pairs, and the TOS of those of the connection manager."""
    classes = {"service_level": 3, "traffic_class": 106}
    argv = fabric_measure.command(a_test("ib_write_bw", **classes), server=True)
    assert argv[argv.index("-S") : argv.index("-D")] == ["-S", "3", "--tclass", "106"]
    argv = fabric_measure.command(a_test("ib_write_bw_cm", **classes), server=True)
    assert argv[argv.index("-S") : argv.index("-D")] == ["-S", "3", "-T", "106"]
    argv = fabric_measure.command(a_test("ib_write_bw", service_level=0, traffic_class=0), server=True)
    assert argv[argv.index("-S") : argv.index("-D")] == ["-S", "0", "--tclass", "0"]


@pytest.mark.parametrize("server", [True, False])
def test_ipv6_addresses(server: bool) -> None:
    for kind in ("ib_write_bw", "ib_write_bw_cm"):
        assert "--ipv6-addr" in fabric_measure.command(a_test(kind, address="2001:db8::1"), server=server)
        assert "--ipv6-addr" not in fabric_measure.command(a_test(kind, address="gpu-1.example"), server=server)
    assert "--ipv6-addr" not in fabric_measure.command(a_test("rping", address="2001:db8::1"), server=server)


def test_no_gid_index_on_infiniband() -> None:
    assert "-x" not in one("ib_write_bw", (0, "...", FIXTURE.read_text()), gid_index=None)[1].ran[0]


BAD: list[tuple[str, tuple[t.Any, ...], bool | None, str]] = [
    # test, answer, ok, error
    ("rping", (0, pings(2)), False, "2 of 3 pings"),
    ("rping", (0, ""), False, ""),
    ("rping", (1, pings(3)), False, "rping exited with 1"),
    ("rping", (255, "cma event RDMA_CM_EVENT_UNREACHABLE, error -110\n"), False, "RDMA_CM_EVENT_UNREACHABLE"),
    ("rping", (None, "partly"), False, "no result within 30 s: partly"),
    ("ib_write_bw", (0, "fine"), None, "perftest printed no result; its last output is: fine"),
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


LATE = [
    ("rping", "cma event RDMA_CM_EVENT_REJECTED, error 8\n"),
    ("ib_write_bw", "Couldn't connect to 10.0.0.1:18516\n"),
]


@pytest.mark.parametrize(("kind", "text"), LATE)
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
