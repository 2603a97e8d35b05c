# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A switch on this machine for a node that is not this machine, and the archive of the gNMIc that listens to it."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path

from ansible_collections.rdmaops.gpu_fabric.tests.lab import config, mirror
from ansible_collections.rdmaops.gpu_fabric.tests.support.gnmi import Switches, program

NAME = "leaf-1"
USER = "admin"
# Nothing that a shell, systemd or gNMIc itself might take for something else.
PASSWORD = "$HOME pa\"ss\\w`rd'${X}"
LEAVES = {"/interfaces/interface[name=Ethernet1/1]/state/counters/in-octets": 1000}


def archive(place: Path) -> str:
    """Make the archive as its project names it, and return its digest."""
    number = config.versions()["tools"]["gnmic"]["version"].removeprefix("v")
    release = mirror.Release("gnmic", f"gnmic_{number}_Linux_x86_64.tar.gz", ("gnmic",))
    place.mkdir(parents=True, exist_ok=True)
    return mirror.pack(place, release, {"gnmic": program("gnmic")})


def main(directory: Path) -> None:
    """Be a switch until the process is ended; its port is in DIRECTORY/port as soon as it listens, beside login.json and digest."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    (directory / "port").unlink(missing_ok=True)
    (directory / "digest").write_text(archive(directory / "mirror") + "\n")
    with Switches(directory) as switches:
        port = switches.start(NAME, LEAVES, password=PASSWORD)
        (directory / "login.json").write_text(json.dumps({"username": USER, "password": PASSWORD}))
        new = directory / "port.new"
        new.write_text(f"{port}\n")
        new.rename(directory / "port")
        signal.pause()


__all__ = ["LEAVES", "NAME", "PASSWORD", "USER", "archive", "main"]

if __name__ == "__main__":
    main(Path(sys.argv[1]))
