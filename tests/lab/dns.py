# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The cluster's DNS on this machine: pods of a job find each other by the names that a headless service gives them."""

from __future__ import annotations

import socket
import typing as t

from . import processes
from .nodes import free_port

if t.TYPE_CHECKING:
    from .control_plane import ControlPlane

PROGRAM = "coredns"
DOMAIN = "cluster.local"
# The line that CoreDNS prints when all its servers listen (coremain/run.go).
STARTED = "CoreDNS-"


def address(service_range: str) -> str:
    """Where pods look for it, by the habit of every installer."""
    return service_range.rpartition(".")[0] + ".10"


def up(plane: ControlPlane) -> int:
    """Run it where it does not run, and return its port on the loopback, for UDP and TCP."""
    place = plane.place / "dns"
    place.mkdir(parents=True, exist_ok=True)
    known = place / "port"
    if processes.find(PROGRAM, plane.place) and known.exists():
        return int(known.read_text())
    port = free_port(socket.SOCK_DGRAM)
    corefile = place / "Corefile"
    corefile.write_text(
        f".:{port} {{\n  bind 127.0.0.1\n  errors\n  kubernetes {DOMAIN} {{\n    kubeconfig {plane.kubeconfig}\n  }}\n}}\n"
    )
    argv = [str(plane.tool(PROGRAM)), f"-conf={corefile}"]
    limit = plane.settings["cluster"]["limits"]["health"]
    processes.start_and_wait(argv, plane.place, plane.log(PROGRAM), STARTED, limit)
    known.write_text(str(port))
    return port


__all__ = ["DOMAIN", "PROGRAM", "address", "up"]
