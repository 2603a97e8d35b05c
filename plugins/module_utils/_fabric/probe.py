# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""One host's part in measuring the fabric: what is there to measure with, servers that listen, clients that measure."""

from __future__ import annotations

import re
import typing as t

from .._pod_exec.run import ContainerError
from .._tool_output import ibv_devinfo, perftest, rping
from . import memlock, nccl
from . import quiet as fabric_quiet
from .host import LOGS, Host, ProbeError, Server
from .pod import Pod

_PERFTEST = ("ib_write_bw", "perftest")
# The program of each test, and the package that has it. Memlock takes what there is.
_PROGRAMS = {
    "rping": ("rping", "rdmacm-utils (RHEL: librdmacm-utils)"),
    "ib_write_bw": _PERFTEST,
    "ib_write_bw_cm": _PERFTEST,
    "ib_write_bw_cuda": _PERFTEST,
    "nccl_tests": ("mpirun", "openmpi-bin (RHEL: openmpi)"),
    "ibv_devinfo": ("ibv_devinfo", "ibverbs-utils (RHEL: libibverbs-utils)"),
}
# Tests between two ends, of which one listens and the other measures; and those of one end.
TOOLS = ("rping", "ib_write_bw", "ib_write_bw_cm", "ib_write_bw_cuda")
CHECKS = ("ibv_devinfo", "memlock")
BANDWIDTHS = TOOLS[1:]

# These listen in the RDMA connection manager, where /proc shows nothing: their clients try again.
_UNSEEN = ("rping", "ib_write_bw_cm")

# What a client says while its server is not there yet: rejected for the reason 8, IB_CM_REJ_INVALID_SERVICE_ID.
# Older perftests print the event's number, by chance 8 too (RDMA_CM_EVENT_REJECTED).
_NOT_YET = re.compile(r"Couldn't connect to |RDMA_CM_EVENT_REJECTED[,;] error:? 8\b|Unexpected CM event bl blka 8\b")
RETRY_SECONDS = 0.5

NOTHING = {"ok": None, "gbps": None, "pings": None, "error": None, "traffic": None}

Test = t.Mapping[str, t.Any]


# --- before the tests ----------------------------------------------------------------------------------------------


def ready(tools: t.Sequence[str], devices: t.Sequence[str], host: Host) -> dict[str, t.Any]:
    """What keeps this host from being measured: tools that are missing, and who uses its devices and GPUs."""
    problems, busy = [], []
    for program, package in dict.fromkeys([*(_PROGRAMS[tool] for tool in tools if tool in _PROGRAMS), *host.needs]):
        if host.which(program) is None:
            problems.append("%s is not installed (package %s)" % (program, package))
    for device in devices:
        try:
            users = host.users(device)
        except OSError as exc:
            problems.append("cannot determine whether %s is in use: %s" % (device, exc))
            continue
        for pid in users:
            name = "a process that cannot be seen" if pid is None else "%s (PID %d)" % (host.command(pid), pid)
            busy.append("%s is in use by %s" % (device, name))
    problems_of_gpus, users_of_gpus, gpus = _gpus(host)
    interface, address = host.way()
    return {
        "problems": problems + problems_of_gpus,
        "busy": busy + users_of_gpus,
        "gpus": gpus,
        "interface": interface,
        "address": address,
    }


# nvidia-smi in a container names no processes, as their PIDs are not the container's.
_PROCESSES = ("--query-compute-apps=pid,process_name", "--format=csv,noheader")
_LOADS = ("--query-gpu=index,utilization.gpu", "--format=csv,noheader,nounits")


def _gpus(host: Host) -> tuple[list[str], list[str], int | None]:
    """Problems, users, and how many there are, None where that is not known."""
    if host.which("nvidia-smi") is None:
        return [], [], 0
    status, text = host.run(["nvidia-smi", *(_PROCESSES if host.sees_processes else _LOADS)], 30)
    if status != 0:
        return ["cannot determine whether the GPUs are in use: nvidia-smi %s" % _ended(status, text)], [], None
    found = [[one.strip() for one in line.split(",", 1)] for line in text.strip().split("\n") if "," in line]
    if host.sees_processes:
        busy = ["a GPU is in use by %s (PID %s)" % (name, pid) for pid, name in found]
    else:
        busy = ["GPU %s is in use (%s%% of the time)" % (gpu, load) for gpu, load in found if load != "0"]
    status, text = host.run(["nvidia-smi", "-L"], 30)
    if status != 0:
        return ["cannot determine the number of GPUs: nvidia-smi %s" % _ended(status, text)], busy, None
    return [], busy, sum(line.startswith("GPU ") for line in text.split("\n"))


def _ended(status: int | None, text: str) -> str:
    if status is None:
        return "timed out after 30 s"
    return "exited with %d: %s" % (status, text.strip().split("\n")[-1][:200])


# --- what one end can tell -----------------------------------------------------------------------------------------


def check(
    tools: t.Sequence[str], ports: t.Sequence[t.Mapping[str, t.Any]], size: int, tcp_port: int, host: Host
) -> list[dict[str, t.Any]]:
    """The tests of CHECKS that are among ``tools``, of each port: ``ok`` true, false, or None with the reason."""
    found = []
    for port in (one for one in ports if one.get("device") and one.get("port")):
        for test in (one for one in CHECKS if one in tools):
            result = {"rail": port["rail"], "test": test, "device": port["device"], "ok": None, "error": None}
            if test == "ibv_devinfo":
                result.update(_devinfo(port, host))
            elif isinstance(host, Pod):
                result.update(memlock.memlock(port, size, tcp_port, host))
            else:
                result["error"] = "memlock is a container limit, and is tested only in pods"
            found.append(result)
    return found


def _devinfo(port: t.Mapping[str, t.Any], host: Host) -> dict[str, t.Any]:
    device, number = port["device"], port["port"]
    if host.which("ibv_devinfo") is None:
        return {"error": "ibv_devinfo is not installed (package %s)" % _PROGRAMS["ibv_devinfo"][1]}
    status, text = host.run(["ibv_devinfo", "-d", device], 30)
    if status is None:
        return {"error": "ibv_devinfo timed out after 30 s"}
    ports = [one for seen in ibv_devinfo.parse(text) if seen["name"] == device for one in seen["ports"]]
    states = [one["state"] for one in ports if one["port"] == number]
    if status != 0 or not states:
        said = " ".join(text.split())[-200:] or "nothing"
        error = "ibv_devinfo does not see port %d of %s, exited with %d and printed: %s" % (
            number,
            device,
            status,
            said,
        )
        return {"ok": False, "error": error}
    if states[0] != "PORT_ACTIVE":
        return {"ok": False, "error": "ibv_devinfo reports %s for port %d of %s" % (states[0], number, device)}
    return {"ok": True, "state": states[0]}


# --- the tests -----------------------------------------------------------------------------------------------------


def command(test: Test, *, server: bool, output: str = "") -> list[str]:
    """The command line of one side of a test."""
    if test["test"] == "rping":
        argv = ["rping", "-s" if server else "-c", "-v", "-a", test["address"]]
        argv += ["-p", str(test["tcp_port"]), "-C", str(test["pings"])]
        # rping knows no devices: the address that it comes from chooses one.
        return argv if server else [*argv, "-I", test["source"]]
    argv = ["ib_write_bw", "-d", test["device"], "-i", str(test["port"]), "-p", str(test["tcp_port"])]
    if test.get("gid_index") is not None:
        # Without it perftest takes GID 0 on Ethernet: link-local, or RoCE v1.
        argv += ["-x", str(test["gid_index"])]
    if test["test"] == "ib_write_bw_cm":
        argv.append("-R")
    if test["test"] == "ib_write_bw_cuda":
        argv.append("--use_cuda=%d" % test["gpu"])
    argv += ["-D", str(test["seconds"]), "-s", str(test["bytes"]), "-F", "--report_gbits"]
    return argv if server else [*argv, "--out_json", "--out_json_file=%s" % output, test["address"]]


def listen(tests: t.Sequence[Test], lifetime: float, patience: float, host: Host) -> list[dict[str, t.Any]]:
    """Start every test's server. Return the tests whose server did not come up, with the reason."""
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
            failed.append({**_named(test), **NOTHING, "error": error})
    return failed


def _listening(test: Test, server: Server, deadline: float, patience: float, host: Host) -> str | None:
    """Why a server did not come up; None as soon as it has."""
    while True:
        ended = server.status()
        if ended is not None:
            said = " ".join(server.said().split())[-300:]
            return "its server exited with %d: %s" % (ended, said or "it printed nothing")
        if test["test"] in _UNSEEN or host.listens(test["tcp_port"]):
            return None
        if host.now() > deadline:
            return "its server did not listen on port %d within %.0f s" % (test["tcp_port"], patience)
        host.sleep(0.1)


def refused(tests: t.Sequence[Test], error: str) -> list[dict[str, t.Any]]:
    """The tests as results of which nothing is known."""
    return [{**_named(test), **NOTHING, "error": error} for test in tests]


class Quiet(t.NamedTuple):
    """What may go beside the rails' network devices while a bandwidth is measured."""

    rails: t.Collection[str]
    allowed: int  # bytes a second


def measure(
    tests: t.Sequence[Test], limit: float, patience: float, host: Host, quiet: Quiet | None = None
) -> list[dict[str, t.Any]]:
    """Run the tests one after the other, each within ``limit`` seconds."""
    found = []
    for test in tests:
        if quiet and test["test"] in BANDWIDTHS:
            result = _watched(test, limit, patience, host, quiet)
        else:
            result = _measure(test, limit, patience, host)
        result.pop("sent_bytes", None)
        found.append({**_named(test), **result})
    return found


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
    what = fabric_quiet.Measured(
        test["device"], quiet.rails, result.get("sent_bytes"), round(host.now() - began, 1), quiet.allowed
    )
    return {**result, "traffic": fabric_quiet.compare(before, after, what)}


def _named(test: Test) -> dict[str, t.Any]:
    return {key: test[key] for key in ("id", "client", "server", "rail", "test")}


def _measure(test: Test, limit: float, patience: float, host: Host) -> dict[str, t.Any]:
    output = host.place(test["id"] + ".json")
    argv = command(test, server=False, output=output)
    began = host.now()
    status: int | None = None
    text = ""
    host.remove(output)
    while True:
        left = limit - (host.now() - began)
        if left <= 0:
            break
        try:
            status, text = host.run(argv, left)
        except (ContainerError, ProbeError) as exc:
            return {**NOTHING, "error": str(exc), "seconds": round(host.now() - began, 1)}
        if status == 0 or not _NOT_YET.search(text) or host.now() - began > patience:
            break
        host.sleep(RETRY_SECONDS)
    seconds = round(host.now() - began, 1)
    said = " ".join(text.split())[-300:]
    if status is None:
        error = "no result within %.0f s%s" % (limit, ": " + said if said else "")
        # Time ran out under a test that had begun: that is the fabric's failure, and no doubt about it.
        return {**NOTHING, "ok": False, "error": error, "seconds": seconds}
    read = _rping_result if test["test"] == "rping" else _bandwidth_result
    found = read(test, status, text, host.read(output))
    return {**NOTHING, **found, "seconds": seconds}


def _rping_result(test: Test, status: int, text: str, _document: str) -> dict[str, t.Any]:
    found = rping.parse(text, test["pings"])
    if found["ok"] and status == 0:
        return {"ok": True, "pings": found["pings"]}
    errors = found["errors"] or ["rping exited with %d" % status]
    return {"ok": False, "pings": found["pings"], "error": "; ".join(errors)[:300]}


def _bandwidth_result(_test: Test, status: int, text: str, document: str) -> dict[str, t.Any]:
    if status != 0:
        said = " ".join(line for line in text.split("\n") if line.strip() and "WARNING" not in line)
        return {"ok": False, "error": "ib_write_bw exited with %d: %s" % (status, " ".join(said.split())[-300:])}
    if not document:
        return {"error": "ib_write_bw wrote no JSON: perftest is too old for --out_json_file (added in 4.5-0.18)"}
    try:
        found = perftest.parse(document, True)
    except perftest.PerftestError as exc:
        return {"error": str(exc)[:300]}
    # With -D perftest counts the middle of the time only: at least this was sent.
    sent = [row["bytes"] * row["iterations"] for row in found["rows"] if row["bytes"] and row["iterations"]]
    return {
        "ok": True,
        "gbps": max(row["average_gbps"] for row in found["rows"]),
        "gid_index": found["gid_index"],
        "sent_bytes": sum(sent) or None,
    }


# --- what the module does ------------------------------------------------------------------------------------------


def part(given: t.Mapping[str, t.Any], check_mode: bool, host: Host) -> dict[str, t.Any]:
    """Do what the state asks for."""
    if given["state"] == "ready":
        seen = ready(given["tools"], given["devices"], host)
        return {
            **seen,
            "checks": check(given["tools"], given["ports"], given["memlock_bytes"], given["tcp_port"], host),
        }
    if check_mode:
        return {"failed_tests": [], "results": []}
    if given["state"] == "together":
        keys = ("members", "interface", "ssh_port", "environment", "biggest")
        order = nccl.Order(*(given[key] for key in keys))
        return {"nccl": nccl.run(order, host.variables(), given["test_timeout"], host)}
    if given["state"] == "listening":
        return {"failed_tests": listen(given["tests"], given["lifetime"], given["patience"], host)}
    allowed = given["quiet_bytes_per_second"]
    quiet = None if allowed is None else Quiet(given["rail_netdevs"], allowed)
    return {"results": measure(given["tests"], given["test_timeout"], given["patience"], host, quiet)}


def unknown(given: t.Mapping[str, t.Any], error: str) -> dict[str, t.Any]:
    """What could not be done in a pod that was there when it was looked at: the fabric has not failed."""
    if given["state"] == "together":
        return {"nccl": {"ok": None, "error": error}}
    results = refused(given["tests"], error)
    return {"failed_tests": results, "results": results}


__all__ = (
    "BANDWIDTHS",
    "CHECKS",
    "TOOLS",
    "Quiet",
    "check",
    "command",
    "listen",
    "measure",
    "part",
    "ready",
    "refused",
    "unknown",
)
