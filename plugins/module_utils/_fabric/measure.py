# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""The tests between two ends: servers that listen, and clients that measure."""

from __future__ import annotations

import concurrent.futures
import re
import typing as t

from .._pod_exec.run import ContainerError
from .._tool_output import perftest, rping
from . import quiet as fabric_quiet
from .host import LOGS, Host, ProbeError, Server

# In each test, one of the two ends listens, and the other measures.
ALL_RAILS = "ib_write_bw_all_rails"
LATENCY = "ib_send_lat"
TOOLS = ("rping", LATENCY, "ib_write_bw", "ib_write_bw_bidirectional", ALL_RAILS, "ib_write_bw_cm", "ib_write_bw_cuda")
BANDWIDTHS = TOOLS[2:]
# perftest's default. With a duration (-D) it prints no percentiles.
LATENCY_ITERATIONS = 1000
LATENCY_BYTES = 2

_OWN_FLAGS = {"ib_write_bw_bidirectional": ["-b"], "ib_write_bw_cm": ["-R"]}
# These listen in the RDMA connection manager, where /proc shows nothing: their clients try again.
_UNSEEN = ("rping", "ib_write_bw_cm")

# What a client says while its server is not there yet: rejected for the reason 8, IB_CM_REJ_INVALID_SERVICE_ID.
# perftest prints the event's number, by chance 8 too (RDMA_CM_EVENT_REJECTED).
_NOT_YET = re.compile(r"Couldn't connect to |RDMA_CM_EVENT_REJECTED, error 8\b|Unexpected CM event bl blka 8\b")
RETRY_SECONDS = 0.5

# With -R perftest connects a second time, for the data (create_rdma_cm_connection() in src/perftest_communication.c).
# If its server is slower, the client ends, and the server goes on waiting: it would take the first connection of
# another client for the second, post no receives for it, and let it wait for ever.
_NO_SECOND = re.compile(r"Event: RDMA_CM_EVENT_REJECTED; error: 8\b")

# Ubuntu 22.04's perftest 4.4+0.37 and MLNX_OFED's 4.5-0.2 have no --out_json. They read their options before they
# connect, so that the server goes on waiting. glibc and musl word it differently.
_NO_JSON = re.compile(r"unrecognized option:? '?(?:--)?out_json")

NOTHING = {
    "ok": None,
    "gbps": None,
    "latency_us": None,
    "latency_99_us": None,
    "pings": None,
    "error": None,
    "traffic": None,
}

Test = t.Mapping[str, t.Any]


def command(test: Test, *, server: bool, output: str = "") -> list[str]:
    """The command line of one side of a test."""
    if test["test"] == "rping":
        argv = ["rping", "-s" if server else "-c", "-v", "-a", test["address"]]
        argv += ["-p", str(test["tcp_port"]), "-C", str(test["pings"])]
        # rping knows no devices: the address that it comes from chooses one.
        return argv if server else [*argv, "-I", test["source"]]
    # It allocates its memory after it was pinned, so that the memory is of the same NUMA node.
    argv = ["taskset", "-c", test["cpus"]] if test.get("cpus") else []
    argv.append(LATENCY if test["test"] == LATENCY else "ib_write_bw")
    argv += ["-d", test["device"], "-i", str(test["port"]), "-p", str(test["tcp_port"])]
    if test.get("gid_index") is not None:
        # Without it perftest takes GID 0 on Ethernet: link-local, or RoCE v1.
        argv += ["-x", str(test["gid_index"])]
    argv += _OWN_FLAGS.get(test["test"], ())
    if ":" in test["address"]:
        argv.append("--ipv6-addr")
    if test["test"] == "ib_write_bw_cuda":
        argv.append("--use_cuda_bus_id=%s" % test["gpu"])
        if test["dmabuf"]:
            # Only after the GPU: before it, perftest refuses it (perftest#336).
            argv.append("--use_cuda_dmabuf")
    argv += _messages(test)
    if output:
        argv += ["--out_json", "--out_json_file=%s" % output]
    return argv if server else [*argv, test["address"]]


def _messages(test: Test) -> list[str]:
    """How many messages are sent, by how many queue pairs, of which size, and with which class."""
    argv = [] if test["test"] == LATENCY else ["-q", str(test["queue_pairs"])]
    if test.get("service_level") is not None:
        argv += ["-S", str(test["service_level"])]
    if test.get("traffic_class") is not None:
        # --tclass does not reach the connection manager's queue pairs, and -T no others.
        argv += ["-T" if test["test"] == "ib_write_bw_cm" else "--tclass", str(test["traffic_class"])]
    if test["test"] == LATENCY:
        return [*argv, "-n", str(LATENCY_ITERATIONS), "-s", str(LATENCY_BYTES), "-F"]
    return [*argv, "-D", str(test["seconds"]), "-s", str(test["bytes"]), "-F", "--report_gbits"]


def listen(tests: t.Sequence[Test], lifetime: float, patience: float, host: Host) -> list[dict[str, t.Any]]:
    """Start every test's server. Return the tests whose server did not come up, with the reason."""
    if tests:
        # Of an earlier round, on the same ports.
        host.end_servers()
    started = []
    for test in tests:
        log = "%s/%s.server" % (LOGS, test["id"])
        started.append((test, host.start(command(test, server=True), lifetime, log)))
    deadline = host.now() + patience
    failed = []
    for test, server in started:
        try:
            error = _listening(test, server, deadline, patience, host)
        except ContainerError as exc:
            error = str(exc)
        if error:
            failed.append({**_identity(test), **NOTHING, "error": error})
    return failed


def _listening(test: Test, server: Server, deadline: float, patience: float, host: Host) -> str | None:
    """Why a server did not come up; None as soon as it has."""
    while True:
        ended = server.status()
        if ended is not None:
            output = " ".join(server.output().split())[-300:]
            return "its server exited with %d: %s" % (ended, output or "it printed nothing")
        if test["test"] in _UNSEEN or host.listens(test["tcp_port"]):
            return None
        if host.now() > deadline:
            return "its server did not listen on port %d within %.0f s" % (test["tcp_port"], patience)
        host.sleep(0.1)


def refused(tests: t.Sequence[Test], error: str) -> list[dict[str, t.Any]]:
    """The tests as results of which nothing is known."""
    return [{**_identity(test), **NOTHING, "error": error} for test in tests]


class Quiet(t.NamedTuple):
    """What may go beside the rails' network devices while a bandwidth is measured."""

    rails: t.Collection[str]
    allowed: int  # bytes a second


def measure(
    tests: t.Sequence[Test], limit: float, patience: float, host: Host, quiet: Quiet | None = None
) -> list[dict[str, t.Any]]:
    """Run the tests one after the other, then those of all rails at once, each within ``limit`` seconds."""

    def result(test: Test) -> dict[str, t.Any]:
        if quiet and test["test"] in BANDWIDTHS:
            measured = _watched(test, limit, patience, host, quiet)
        else:
            measured = _measure(test, limit, patience, host)
        measured.pop("sent_bytes", None)
        return {**_identity(test), **measured}

    together = [test for test in tests if test["test"] == ALL_RAILS]
    results = [result(test) for test in tests if test["test"] != ALL_RAILS]
    if together:
        with concurrent.futures.ThreadPoolExecutor(len(together)) as pool:
            results += pool.map(result, together)
    return results


def _watched(test: Test, limit: float, patience: float, host: Host, quiet: Quiet) -> dict[str, t.Any]:
    def look() -> dict[str, t.Any]:
        return fabric_quiet.parse(host.texts(fabric_quiet.paths(test["device"], test["port"])))

    began = host.now()
    try:
        before = look()
        result = _measure(test, limit, patience, host)
        after = look()
    except (ContainerError, ValueError) as exc:
        return {**NOTHING, "error": "the counters of the network cannot be read: %s" % exc, "seconds": 0.0}
    measurement = fabric_quiet.Measured(
        test["device"], quiet.rails, result.get("sent_bytes"), round(host.now() - began, 1), quiet.allowed
    )
    return {**result, "traffic": fabric_quiet.compare(before, after, measurement)}


def _identity(test: Test) -> dict[str, t.Any]:
    return {key: test[key] for key in ("id", "client", "server", "rail", "test")}


def _measure(test: Test, limit: float, patience: float, host: Host) -> dict[str, t.Any]:
    began = host.now()
    status: int | None = None
    text = document = ""
    json = True

    def argv(path: str) -> list[str]:
        return command(test, server=False, output=path if json else "")

    while True:
        left = limit - (host.now() - began)
        if left <= 0:
            break
        try:
            status, text, document = host.run_for_document(argv, test["id"] + ".json", left)
        except (ContainerError, ProbeError) as exc:
            return {**NOTHING, "error": str(exc), "seconds": round(host.now() - began, 1)}
        if status and _NO_JSON.search(text):
            json = False
            continue
        if status == 0 or not _NOT_YET.search(text) or host.now() - began > patience:
            break
        host.sleep(RETRY_SECONDS)
    seconds = round(host.now() - began, 1)
    last = " ".join(text.split())[-300:]
    if status is None:
        error = "no result within %.0f s%s" % (limit, ": " + last if last else "")
        # Time ran out under a test that had begun: that is the fabric's failure, and no doubt about it.
        return {**NOTHING, "ok": False, "error": error, "seconds": seconds}
    read = {"rping": _rping_result, LATENCY: _latency_result}.get(test["test"], _bandwidth_result)
    result = read(test, status, text, document)
    return {**NOTHING, **result, "seconds": seconds}


def _rping_result(test: Test, status: int, text: str, _document: str) -> dict[str, t.Any]:
    ping = rping.parse(text, test["pings"])
    if ping["ok"] and status == 0:
        return {"ok": True, "pings": ping["pings"]}
    errors = ping["errors"] or ["rping exited with %d" % status]
    return {"ok": False, "pings": ping["pings"], "error": "; ".join(errors)[:300]}


def _exited(program: str, status: int, text: str) -> dict[str, t.Any]:
    lines = " ".join(line for line in text.split("\n") if line.strip() and "WARNING" not in line)
    return {"ok": False, "error": "%s exited with %d: %s" % (program, status, " ".join(lines.split())[-300:])}


def _latency_result(_test: Test, status: int, text: str, document: str) -> dict[str, t.Any]:
    if status != 0:
        return _exited(LATENCY, status, text)
    try:
        latency = perftest.latency(document or text)
    except perftest.PerftestError as exc:
        return {"error": str(exc)[:300]}
    return {"ok": True, "latency_us": latency["median_us"], "latency_99_us": latency["percentile_99_us"]}


def _bandwidth_result(_test: Test, status: int, text: str, document: str) -> dict[str, t.Any]:
    if status != 0 and _NO_SECOND.search(text):
        error = "the server did not listen in time for the connection of the data, which was rejected for the reason 8"
        return {"error": error}
    if status != 0:
        return _exited("ib_write_bw", status, text)
    try:
        bandwidth = perftest.parse(document or text, True)
    except perftest.PerftestError as exc:
        return {"error": str(exc)[:300]}
    # With -D perftest counts the middle of the time only: at least this was sent.
    sent = [row["bytes"] * row["iterations"] for row in bandwidth["rows"] if row["bytes"] and row["iterations"]]
    return {
        "ok": True,
        "gbps": max(row["average_gbps"] for row in bandwidth["rows"]),
        "gid_index": bandwidth["gid_index"],
        "sent_bytes": sum(sent) or None,
    }


__all__ = ("BANDWIDTHS", "TOOLS", "Quiet", "command", "listen", "measure", "refused")
