# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""One host's part in measuring the fabric: what is there to measure with, servers that listen, clients that measure."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
import typing as t

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils import _perftest, _rping
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._errors import FabricError
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._rdma import nldev

PACKAGES = {"rping": "rdmacm-utils (RHEL: librdmacm-utils)", "ib_write_bw": "perftest"}
TOOLS = tuple(PACKAGES)

# Outputs of servers, gone with the next boot.
LOGS = "/run/rdmaops/fabric"

# What a client says while its server is not there yet.
_NOT_YET = re.compile(r"Couldn't connect to |RDMA_CM_EVENT_REJECTED, error 8")
RETRY_SECONDS = 0.5

Test = t.Mapping[str, t.Any]


class ProbeError(FabricError):
    """The host cannot do its part; the text says why."""


class Host:
    """The edges: programs, the clock and the kernel's list of users."""

    def which(self, tool: str) -> str | None:
        return shutil.which(tool, path=os.environ.get("PATH", "") + ":/usr/sbin:/usr/bin:/sbin:/bin")

    def run(self, argv: t.Sequence[str], limit: float) -> tuple[int | None, str]:
        """Exit status (None: stopped at the limit) and everything that was printed."""
        try:
            done = subprocess.run(
                list(argv),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=limit,
                check=False,
                env={**os.environ, "LC_ALL": "C"},
            )
        except subprocess.TimeoutExpired as exc:
            return None, (exc.stdout or b"").decode("utf-8", "replace")
        except OSError as exc:
            raise ProbeError("Running %s: %s" % (argv[0], exc.strerror)) from exc
        return done.returncode, done.stdout.decode("utf-8", "replace")

    def start(self, argv: t.Sequence[str], limit: float, log: str) -> t.Callable[[], int | None]:
        """Start a program that goes on without us for ``limit`` seconds at most; return what asks for its status."""
        os.makedirs(os.path.dirname(log), mode=0o700, exist_ok=True)
        with open(log, "wb") as sink:
            process = subprocess.Popen(
                ["timeout", "--kill-after=5", "%d" % limit, *argv],
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={**os.environ, "LC_ALL": "C"},
            )
        return process.poll

    def read(self, path: str) -> str:
        try:
            with open(path, encoding="utf-8", errors="replace") as stream:
                return stream.read()
        except OSError:
            return ""

    def remove(self, path: str) -> None:
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass

    def listens(self, port: int) -> bool:
        """Whether a TCP socket of this namespace listens on the port (proc_net_tcp(5))."""
        wanted = ":%04X" % port
        for table in ("/proc/net/tcp", "/proc/net/tcp6"):
            for line in self.read(table).split("\n")[1:]:
                fields = line.split()
                if len(fields) > 3 and fields[3] == "0A" and fields[1].endswith(wanted):
                    return True
        return False

    def now(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def users(self, device: str) -> list[int | None]:
        """PIDs of the processes that have the device open."""
        rows = [row for row in nldev.devices() if row.name == device]
        return sorted({pid for row in rows for pid, kernel in nldev.owners(row.index) if kernel is None}, key=str)

    def command(self, pid: int) -> str:
        return self.read("/proc/%d/comm" % pid).strip()


# --- before the tests ----------------------------------------------------------------------------------------------


def ready(tools: t.Sequence[str], devices: t.Sequence[str], host: Host) -> dict[str, t.Any]:
    """What keeps this host from being measured: tools that are missing, and who uses its devices and GPUs."""
    problems, busy = [], []
    for tool in tools:
        if host.which(tool) is None:
            problems.append("%s is not installed (package %s)" % (tool, PACKAGES[tool]))
    if host.which("timeout") is None:
        problems.append("timeout is not installed (package coreutils)")
    for device in devices:
        try:
            users = host.users(device)
        except OSError as exc:
            problems.append("whether %s is in use is not known: %s" % (device, exc))
            continue
        for pid in users:
            name = "a process that cannot be seen" if pid is None else "%s (PID %d)" % (host.command(pid), pid)
            busy.append("%s is in use by %s" % (device, name))
    problems_of_gpus, users_of_gpus = _gpus(host)
    return {"problems": problems + problems_of_gpus, "busy": busy + users_of_gpus}


def _gpus(host: Host) -> tuple[list[str], list[str]]:
    if host.which("nvidia-smi") is None:
        return [], []
    argv = ["nvidia-smi", "--query-compute-apps=pid,process_name", "--format=csv,noheader"]
    status, text = host.run(argv, 30)
    if status != 0:
        said = text.strip().split("\n")[-1][:200]
        ended = "was stopped after 30 s" if status is None else "exited with %d: %s" % (status, said)
        return ["whether the GPUs are in use is not known: nvidia-smi %s" % ended], []
    found = [line.split(",", 1) for line in text.strip().split("\n") if "," in line]
    return [], ["a GPU is in use by %s (PID %s)" % (name.strip(), pid.strip()) for pid, name in found]


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
    argv += ["-D", str(test["seconds"]), "-s", str(test["bytes"]), "-F", "--report_gbits"]
    return argv if server else [*argv, "--out_json", "--out_json_file=%s" % output, test["address"]]


def listen(tests: t.Sequence[Test], lifetime: float, patience: float, host: Host) -> list[dict[str, t.Any]]:
    """Start every test's server. Return the tests whose server did not come up, with the reason."""
    started = []
    for test in tests:
        log = "%s/%s.server" % (LOGS, test["id"])
        started.append((test, log, host.start(command(test, server=True), lifetime, log)))
    failed = []
    deadline = host.now() + patience
    for test, log, status in started:
        error = None
        while True:
            ended = status()
            if ended is not None:
                said = " ".join(host.read(log).split())[-300:]
                error = "its server ended with %d: %s" % (ended, said or "it printed nothing")
                break
            # rping listens in the RDMA connection manager, where /proc shows nothing: its client tries again.
            if test["test"] == "rping" or host.listens(test["tcp_port"]):
                break
            if host.now() > deadline:
                error = "its server did not listen on port %d within %.0f s" % (test["tcp_port"], patience)
                break
            host.sleep(0.1)
        if error:
            failed.append({**_named(test), "ok": None, "gbps": None, "pings": None, "error": error})
    return failed


def measure(tests: t.Sequence[Test], limit: float, patience: float, host: Host) -> list[dict[str, t.Any]]:
    """Run the tests one after the other, each within ``limit`` seconds."""
    return [{**_named(test), **_measure(test, limit, patience, host)} for test in tests]


def _named(test: Test) -> dict[str, t.Any]:
    return {key: test[key] for key in ("id", "client", "server", "rail", "test")}


def _measure(test: Test, limit: float, patience: float, host: Host) -> dict[str, t.Any]:
    output = "%s/%s.json" % (LOGS, test["id"])
    argv = command(test, server=False, output=output)
    began = host.now()
    nothing = {"ok": None, "gbps": None, "pings": None, "error": None}
    status: int | None = None
    text = ""
    if test["test"] == "ib_write_bw":
        os.makedirs(LOGS, mode=0o700, exist_ok=True)
        host.remove(output)
    while True:
        left = limit - (host.now() - began)
        if left <= 0:
            break
        try:
            status, text = host.run(argv, left)
        except ProbeError as exc:
            return {**nothing, "error": str(exc), "seconds": round(host.now() - began, 1)}
        if status == 0 or not _NOT_YET.search(text) or host.now() - began > patience:
            break
        host.sleep(RETRY_SECONDS)
    seconds = round(host.now() - began, 1)
    said = " ".join(text.split())[-300:]
    if status is None:
        error = "no result within %.0f s%s" % (limit, ": " + said if said else "")
        # Time ran out under a test that had begun: that is the fabric's failure, and no doubt about it.
        return {**nothing, "ok": False, "error": error, "seconds": seconds}
    read = _rping_result if test["test"] == "rping" else _bandwidth_result
    found = read(test, status, text, host.read(output))
    return {**nothing, **found, "seconds": seconds}


def _rping_result(test: Test, status: int, text: str, _document: str) -> dict[str, t.Any]:
    found = _rping.parse(text, test["pings"])
    if found["ok"] and status == 0:
        return {"ok": True, "pings": found["pings"]}
    errors = found["errors"] or ["rping exited with %d" % status]
    return {"ok": False, "pings": found["pings"], "error": "; ".join(errors)[:300]}


def _bandwidth_result(_test: Test, status: int, text: str, document: str) -> dict[str, t.Any]:
    if status != 0:
        said = " ".join(line for line in text.split("\n") if line.strip() and "WARNING" not in line)
        return {"ok": False, "error": "ib_write_bw exited with %d: %s" % (status, " ".join(said.split())[-300:])}
    if not document:
        return {"error": "ib_write_bw wrote no JSON: its perftest is too old for --out_json_file (4.5-0.18 has it)"}
    try:
        found = _perftest.parse(document, True)
    except _perftest.PerftestError as exc:
        return {"error": str(exc)[:300]}
    return {"ok": True, "gbps": max(row["average_gbps"] for row in found["rows"]), "gid_index": found["gid_index"]}


__all__ = ("TOOLS", "Host", "ProbeError", "command", "listen", "measure", "ready")
