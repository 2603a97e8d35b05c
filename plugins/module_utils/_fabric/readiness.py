# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""Whether a host or pod can be measured: what is missing, what is in use, and the tests of one end."""

from __future__ import annotations

import itertools
import typing as t

from .._tool_output import ibv_devinfo
from . import cpus, gpus, memlock
from .host import Host
from .pod import Pod

_PERFTEST = ("ib_write_bw", "perftest")
# The program of each test, and the package that has it. Memlock takes what there is.
_PROGRAMS = {
    "rping": ("rping", "rdmacm-utils (RHEL: librdmacm-utils)"),
    "ib_send_lat": ("ib_send_lat", "perftest"),
    "ib_write_bw": _PERFTEST,
    "ib_write_bw_bidirectional": _PERFTEST,
    "ib_write_bw_all_rails": _PERFTEST,
    "ib_write_bw_cm": _PERFTEST,
    "ib_write_bw_cuda": _PERFTEST,
    "nccl_tests": ("mpirun", "openmpi-bin (RHEL: openmpi)"),
    "ibv_devinfo": ("ibv_devinfo", "ibverbs-utils (RHEL: libibverbs-utils)"),
}
# Tests of one end.
CHECKS = ("ibv_devinfo", "memlock")


def ready(
    tools: t.Sequence[str],
    devices: t.Sequence[str],
    ports: t.Sequence[t.Mapping[str, t.Any]],
    host: Host,
    *,
    pinning: bool = True,
) -> dict[str, t.Any]:
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
    survey = gpus.survey(host)
    cuda = "ib_write_bw_cuda" in tools and host.which("ib_write_bw") is not None
    interface, address = host.way()
    return {
        "problems": problems + survey.problems,
        "busy": busy + survey.busy,
        "gpus": None if survey.addresses is None else len(survey.addresses),
        "placements": [
            {**with_cpus, **with_gpu}
            for with_cpus, with_gpu in zip(
                cpus.choose(_present(ports), host, pinning=pinning),
                gpus.choose(_present(ports), survey.addresses or [] if cuda else [], host),
            )
        ],
        "interface": interface,
        "address": address,
    }


def _present(ports: t.Sequence[t.Mapping[str, t.Any]]) -> list[t.Mapping[str, t.Any]]:
    return [port for port in ports if port.get("device") and port.get("port")]


def check(
    tools: t.Sequence[str], ports: t.Sequence[t.Mapping[str, t.Any]], size: int, tcp_port: int, host: Host
) -> list[dict[str, t.Any]]:
    """The tests of CHECKS that are among ``tools``, of each port: ``ok`` true, false, or None with the reason."""
    results = []
    for port, test in itertools.product(_present(ports), [test for test in CHECKS if test in tools]):
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
