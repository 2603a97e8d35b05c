# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""Whether a host or pod can be measured: what is missing, what is in use, and the tests of one end."""

from __future__ import annotations

import itertools
import typing as t

from .._tool_output import ibv_devinfo
from . import memlock
from .host import Host
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
# Tests of one end.
CHECKS = ("ibv_devinfo", "memlock")


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
    """Problems, users, and how many there are, None if unknown."""
    if host.which("nvidia-smi") is None:
        return [], [], 0
    status, text = host.run(["nvidia-smi", *(_PROCESSES if host.sees_processes else _LOADS)], 30)
    if status != 0:
        return ["cannot determine whether the GPUs are in use: nvidia-smi %s" % _ended(status, text)], [], None
    rows = [[field.strip() for field in line.split(",", 1)] for line in text.strip().split("\n") if "," in line]
    if host.sees_processes:
        busy = ["a GPU is in use by %s (PID %s)" % (name, pid) for pid, name in rows]
    else:
        busy = ["GPU %s is in use (%s%% of the time)" % (gpu, load) for gpu, load in rows if load != "0"]
    status, text = host.run(["nvidia-smi", "-L"], 30)
    if status != 0:
        return ["cannot determine the number of GPUs: nvidia-smi %s" % _ended(status, text)], busy, None
    return [], busy, sum(line.startswith("GPU ") for line in text.split("\n"))


def _ended(status: int | None, text: str) -> str:
    if status is None:
        return "timed out after 30 s"
    return "exited with %d: %s" % (status, text.strip().split("\n")[-1][:200])


def check(
    tools: t.Sequence[str], ports: t.Sequence[t.Mapping[str, t.Any]], size: int, tcp_port: int, host: Host
) -> list[dict[str, t.Any]]:
    """The tests of CHECKS that are among ``tools``, of each port: ``ok`` true, false, or None with the reason."""
    results = []
    present = [port for port in ports if port.get("device") and port.get("port")]
    for port, test in itertools.product(present, [test for test in CHECKS if test in tools]):
        result = {"rail": port["rail"], "test": test, "device": port["device"], "ok": None, "error": None}
        if test == "ibv_devinfo":
            result.update({"limits": None, **_devinfo(port, host)})
        elif isinstance(host, Pod):
            result.update(memlock.memlock(port, size, tcp_port, host))
        else:
            result["error"] = "memlock is a container limit, and is tested only in pods"
        results.append(result)
    return results


def _devinfo(port: t.Mapping[str, t.Any], host: Host) -> dict[str, t.Any]:
    device, number = port["device"], port["port"]
    if host.which("ibv_devinfo") is None:
        return {"error": "ibv_devinfo is not installed (package %s)" % _PROGRAMS["ibv_devinfo"][1]}
    status, text = host.run(["ibv_devinfo", "-v", "-d", device], 30)
    if status is None:
        return {"error": "ibv_devinfo timed out after 30 s"}
    nothing: dict[str, t.Any] = {"ports": [], "limits": None}
    shown = next((entry for entry in ibv_devinfo.parse(text) if entry["name"] == device), nothing)
    states = [port["state"] for port in shown["ports"] if port["port"] == number]
    limits = {"limits": shown["limits"]}
    if status != 0 or not states:
        output = " ".join(text.split())[-200:] or "nothing"
        error = "ibv_devinfo does not see port %d of %s, exited with %d and printed: %s" % (
            number,
            device,
            status,
            output,
        )
        return {"ok": False, "error": error, **limits}
    if states[0] != "PORT_ACTIVE":
        error = "ibv_devinfo reports %s for port %d of %s" % (states[0], number, device)
        return {"ok": False, "error": error, **limits}
    return {"ok": True, "state": states[0], **limits}


__all__ = ("CHECKS", "check", "ready")
