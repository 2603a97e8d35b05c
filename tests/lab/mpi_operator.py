# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The MPI Operator on this machine: it makes launchers and workers of the cluster's MPIJobs."""

from __future__ import annotations

import subprocess
import typing as t

from . import operator_definitions, processes
from .progress import LabError

if t.TYPE_CHECKING:
    from .control_plane import ControlPlane

PROGRAM = "mpi-operator"
# What Run() in mpi_job_controller.go prints when it has read the cluster's objects.
STARTED = "Started workers"


def up(plane: ControlPlane) -> None:
    """Define its kind, and run it where it does not run."""
    if processes.find(PROGRAM, plane.place):
        return
    files = [f"--filename={path}" for path in operator_definitions.fetch(PROGRAM, plane.settings)]
    limit = plane.settings["cluster"]["limits"]["health"]
    kubectl(plane, limit, "apply", "--server-side", *files)
    wait = ("wait", "--for=condition=Established", f"--timeout={limit}s", *files)
    operator_definitions.until_established(lambda: kubectl(plane, limit, *wait), limit)
    options = [f"-kubeConfig={plane.kubeconfig}", "-namespace=", "-lock-namespace=default", "-alsologtostderr"]
    argv = [str(plane.tool(PROGRAM)), *options]
    processes.start_and_wait(argv, plane.place, plane.log(PROGRAM), STARTED, limit)


def kubectl(plane: ControlPlane, limit: int, *words: str) -> None:
    argv = [str(plane.tool("kubectl")), f"--kubeconfig={plane.kubeconfig}", *words]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=limit + 30, check=False)
    if done.returncode:
        raise LabError(f"defining MPIJobs: kubectl {words[0]}: {done.stderr.strip()}")


__all__ = ["PROGRAM", "up"]
