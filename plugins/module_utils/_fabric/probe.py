# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""What the module fabric_probe does in each of its states."""

from __future__ import annotations

import re
import typing as t

from . import measure, nccl, readiness
from .host import Host, ProbeError

Params = t.Mapping[str, t.Any]


def _ready(params: Params, host: Host) -> dict[str, t.Any]:
    return {
        **readiness.ready(params["tools"], params["devices"], params["ports"], host, pinning=params["numa_pinning"]),
        "checks": readiness.check(params["tools"], params["ports"], params["memlock_bytes"], params["tcp_port"], host),
    }


def _listening(params: Params, host: Host) -> dict[str, t.Any]:
    return {"failed_tests": measure.listen(params["tests"], params["lifetime"], params["patience"], host)}


def _measured(params: Params, host: Host) -> dict[str, t.Any]:
    allowed = params["quiet_bytes_per_second"]
    quiet = None if allowed is None else measure.Quiet(params["rail_netdevs"], allowed)
    return {"results": measure.measure(params["tests"], params["test_timeout"], params["patience"], host, quiet)}


def _together(params: Params, host: Host) -> dict[str, t.Any]:
    order = nccl.Order(*(params[name] for name in nccl.Order._fields))
    return {"nccl": nccl.run(order, host.variables(), params["test_timeout"], host)}


STATES: dict[str, t.Callable[[Params, Host], dict[str, t.Any]]] = {
    "ready": _ready,
    "listening": _listening,
    "measured": _measured,
    "together": _together,
}


def validate(params: Params) -> None:
    for test in params["tests"]:
        if not re.fullmatch(r"[\w.-]{1,200}", test["id"], re.ASCII):
            raise ProbeError("The test id %r is not a valid file name (letters, digits, '.', '-', '_')" % test["id"])
    if params["pod"] and params["devices"]:
        raise ProbeError("devices is for hosts: rdma_info with users in gather shows who has a pod's devices open")


def run(params: Params, check_mode: bool, host: Host) -> dict[str, t.Any]:
    """Return the result of a state. In check mode nothing is sent."""
    if check_mode and params["state"] != "ready":
        return {"failed_tests": [], "results": []}
    return STATES[params["state"]](params, host)


def unknown(params: Params, error: str) -> dict[str, t.Any]:
    """Return the result if a pod failed that was ready before: that is not a failure of the fabric."""
    if params["state"] == "together":
        return {"nccl": {"ok": None, "error": error}}
    results = measure.refused(params["tests"], error)
    return {"failed_tests": results, "results": results}


__all__ = ("STATES", "run", "unknown", "validate")
