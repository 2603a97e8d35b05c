# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Both processes with the rights that their units give them, and no more: they work, and the kernel says what they may."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import tempfile
import typing as t
import urllib.error
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.tests.integration.exporter.running import (
    PYTHON,
    Commands,
    Running,
    exporting,
    install,
    libraries,
    settings,
)
from ansible_collections.rdmaops.gpu_fabric.tests.integration.exporter.test_exporter import basic, bcrypt
from ansible_collections.rdmaops.gpu_fabric.tests.lab import ports
from ansible_collections.rdmaops.gpu_fabric.tests.support import need_root, need_tool
from ansible_collections.rdmaops.gpu_fabric.tests.unit.roles.rdma_exporter.tree import node

# Numbers that no user of this machine has.
USER, STRANGER = 59879, 59880
# include/uapi/linux/capability.h
SYS_PTRACE, SYS_ADMIN = 1 << 19, 1 << 21


def as_the_unit_says(unit: Path) -> list[str]:
    """Return the command that takes away what systemd takes away: user, group, capabilities."""
    (bounding,) = settings(unit, "CapabilityBoundingSet")
    kept = [f"+{name.removeprefix('CAP_').lower()}" for name in bounding.split()]
    assert settings(unit, "NoNewPrivileges") == ["yes"]
    assert settings(unit, "Group") == ["rdma_exporter"]
    argv = [need_tool("setpriv"), "--no-new-privs", f"--regid={USER}", "--clear-groups", "--inh-caps=-all"]
    argv.append(f"--bounding-set={','.join(['-all', *kept])}")
    return argv + ([f"--reuid={USER}"] if settings(unit, "User") == ["rdma_exporter"] else [])


class Confined(t.NamedTuple):
    exporter: Running
    socket: Path

    def status(self, number: int) -> dict[str, str]:
        text = Path(f"/proc/{self.exporter.processes[number].pid}/status").read_text()
        return dict(re.findall(r"^(\w+):\t(.*)$", text, re.MULTILINE))

    def ports(self, number: int) -> int:
        """Return how many sockets of the Internet a process has."""
        directory = Path(f"/proc/{self.exporter.processes[number].pid}/fd")
        inodes = set(re.findall(r"socket:\[(\d+)\]", " ".join(os.readlink(path) for path in directory.iterdir())))
        tables = "".join(
            Path(f"/proc/net/{name}").read_text() for name in ("tcp", "tcp6", "udp", "udp6", "raw", "raw6")
        )
        return sum(line.split()[9] in inodes for line in tables.splitlines() if ":" in line.split()[0])


@pytest.fixture(scope="module")
def confined() -> t.Iterator[Confined]:
    need_root()
    libraries()
    with tempfile.TemporaryDirectory(prefix="rdmaops-") as base, contextlib.ExitStack() as stack:
        place = Path(base)
        place.chmod(0o755)
        # What systemd makes of RuntimeDirectory.
        (place / "run").mkdir(mode=0o750)
        os.chown(place / "run", 0, USER)
        config = place / "web.yml"
        config.write_text(f"basic_auth_users: {{ann: {bcrypt('right')}}}\n")
        config.chmod(0o640)
        os.chown(config, 0, USER)
        node(place / "sys", 1, 8)
        socket = place / "run/look.sock"
        port = ports.number(stack.enter_context(ports.reserve()))
        plain = install(
            place, rdma_exporter_listen_address=f"127.0.0.1:{port}", __rdma_exporter_socket=str(socket)
        ).further(["--web.config.file", str(config)], ["--path.sysfs", str(place / "sys")])
        commands = Commands(
            as_the_unit_says(place / "rdma_exporter.service") + plain.serve,
            as_the_unit_says(place / "rdma_exporter-look.service") + plain.look,
        )
        yield Confined(stack.enter_context(exporting(commands, port)), socket)


def test_they_work(confined: Confined) -> None:
    assert b'rdma_port_rcv_data_bytes_total{device="mlx5_0"' in confined.exporter.get(headers=basic("ann", "right"))
    with pytest.raises(urllib.error.HTTPError, match="401"):
        confined.exporter.get()


def test_who_answers_has_no_rights(confined: Confined) -> None:
    status = confined.status(0)
    assert (set(status["Uid"].split()), set(status["Gid"].split())) == ({str(USER)}, {str(USER)})
    assert {int(status[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {0}
    assert status["NoNewPrivs"] == "1"
    assert confined.ports(0) >= 1


def test_who_looks_has_two_rights_and_no_port(confined: Confined) -> None:
    status = confined.status(1)
    assert {int(status[name], 16) for name in ("CapPrm", "CapEff", "CapBnd")} == {SYS_PTRACE | SYS_ADMIN}
    assert status["NoNewPrivs"] == "1"
    assert confined.ports(1) == 0


@pytest.mark.parametrize(("user", "connects"), [(USER, True), (STRANGER, False)])
def test_no_other_user_may_ask(confined: Confined, user: int, connects: bool) -> None:
    code = "import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])"
    argv = [need_tool("setpriv"), f"--reuid={user}", f"--regid={user}", "--clear-groups"]
    argv += [PYTHON, "-I", "-c", code, str(confined.socket)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60)
    assert (done.returncode == 0) is connects, done.stderr
    assert ("PermissionError" in done.stderr) is not connects
