# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""nccl-tests over all ends at once: mpirun in the first pod starts a rank for each GPU by the pods' sshd."""

from __future__ import annotations

import typing as t

from .._pod_exec.run import ContainerError
from .._tool_output import nccl_log, nccl_tests
from .host import Host, ProbeError

PROGRAM = "/usr/local/bin/all_reduce_perf"
# sshd starts ranks with an environment of its own.
_PASSED = ("PATH", "LD_LIBRARY_PATH")


class Order(t.NamedTuple):
    """Who takes part, by ``members`` of ``address`` and ``gpus``, and how they reach each other."""

    members: t.Sequence[t.Mapping[str, t.Any]]
    interface: str
    ssh_port: int
    environment: t.Mapping[str, str]
    biggest: int  # bytes


def command(order: Order, present: t.Collection[str]) -> list[str]:
    """The command line; ``present`` are the variables that the container has."""
    argv = ["mpirun", "--allow-run-as-root", "-np", str(sum(member["gpus"] for member in order.members))]
    argv += ["--host", ",".join("%s:%d" % (member["address"], member["gpus"]) for member in order.members)]
    # MPI itself is to go by TCP: what is measured is NCCL, and UCX does not get on with every RDMA driver.
    for name, value in (
        ("pml", "ob1"),
        ("btl", "^openib"),
        ("btl_tcp_if_include", order.interface),
        ("oob_tcp_if_include", order.interface),
        ("plm_rsh_args", "-p %d" % order.ssh_port),
    ):
        argv += ["--mca", name, value]
    for name in _PASSED:
        argv += ["-x", name] if name in present else []
    for name, value in sorted(order.environment.items()):
        argv += ["-x", "%s=%s" % (name, value)]
    return [*argv, PROGRAM, "-b", "8", "-e", str(order.biggest), "-f", "2", "-g", "1"]


def run(order: Order, present: t.Collection[str], limit: float, host: Host) -> dict[str, t.Any]:
    """Return what nccl-tests and NCCL's log report; ``ok`` is None if they report nothing."""
    began = host.now()
    nothing = {"ok": None, "error": None, "ranks": sum(member["gpus"] for member in order.members)}
    try:
        status, text = host.run(command(order, present), limit)
        measured = nccl_tests.parse(text)
    except (ContainerError, ProbeError, nccl_tests.NcclTestsError) as exc:
        return {**nothing, "error": str(exc)}
    log = nccl_log.parse(text)
    busbw = [row[half]["busbw"] for row in measured["rows"] for half in ("out_of_place", "in_place") if row.get(half)]
    result = {
        **nothing,
        "seconds": round(host.now() - began, 1),
        "avg_busbw": measured["avg_busbw"],
        "max_busbw": max((rate for rate in busbw if rate is not None), default=None),
        "out_of_bounds": measured["out_of_bounds"],
        **{key: log[key] for key in ("transport", "evidence", "network", "gpudirect", "version")},
    }
    if status == 0:
        return {**result, "ok": True}
    errors = measured["errors"] or log["errors"] or [" ".join(text.split())[-300:] or "it printed nothing"]
    ended = "timed out after %.0f s" % limit if status is None else "exited with %d" % status
    return {**result, "ok": False, "error": "mpirun %s: %s" % (ended, "; ".join(errors)[:400])}


__all__ = ("PROGRAM", "Order", "command", "run")
