# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts to measure on without virtual machines: network namespaces of this machine, each with an sshd and Debian's files.

They have a boot loader's configuration, a kernel's modules, an initramfs and the packages of a GPU node. They share this
machine's kernel, which is not the one that they would boot: whether it has RDMA is up to it, and no systemd runs in them.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import shutil
import subprocess
import sys
import tempfile
import time
import typing as t
import uuid
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.tests.benchmarks import processes
from ansible_collections.rdmaops.gpu_fabric.tests.benchmarks.library import BenchmarkError
from ansible_collections.rdmaops.gpu_fabric.tests.support import COLLECTION, debian_root

INSIDE = Path(__file__).resolve().parent / "namespaces.py"
GRUB = COLLECTION / "tests/unit/plugins/module_utils/fixtures/boot/grub-2.12-debian13-default.cfg"
NETWORK = "10.77.0.0"
PREFIX = 16
START_LIMIT_S = 300

SSHD = """
ListenAddress {address}
HostKey /etc/ssh/host_key.bench
AuthorizedKeysFile /root/.ssh/authorized_keys
PermitRootLogin prohibit-password
PasswordAuthentication no
UsePAM no
UseDNS no
PidFile none
PrintMotd no
"""


class Hosts(t.NamedTuple):
    """Hosts that run."""

    names: list[str]
    inventory: Path
    # The process that everything of theirs is below, and that of each host.
    hub: int
    pids: dict[str, int]
    workplace: Path

    @property
    def enter(self) -> list[str]:
        """What stands before a command that is to reach them: it gets their network, and ends with them."""
        return ["nsenter", f"--net=/proc/{self.hub}/ns/net", f"--pid=/proc/{self.hub}/ns/pid_for_children", "--"]

    @property
    def environment(self) -> dict[str, str]:
        return {"ANSIBLE_SSH_CONTROL_PATH_DIR": str(self.workplace / "cp"), "ANSIBLE_PIPELINING": "1"}


def address(number: int) -> str:
    """Return the address of the host of that number, from 1 on; the bridge has that of 0."""
    first, second = divmod(number + 1, 250)
    return "{}.{}.{}.{}".format(*NETWORK.split(".")[:2], first, second + 1)


def key(path: Path) -> str:
    """Make a key pair, and return the public one."""
    argv = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(path)]
    subprocess.run(argv, check=True, timeout=60, stdin=subprocess.DEVNULL)
    return path.with_name(path.name + ".pub").read_text().strip()


def root() -> Path:
    """Return the directory with a node's files; created if there is none."""
    try:
        return debian_root.debian_root("node")
    except (pytest.skip.Exception, pytest.fail.Exception) as error:
        raise BenchmarkError(str(error)) from None


def boot_menu(version: str) -> str:
    """Return GRUB's configuration as grub-mkconfig writes it, with a kernel in the place of the first one's."""
    text = GRUB.read_text()
    first = re.search(r"/boot/vmlinuz-(\S+)", text)
    assert first, GRUB
    # What was recorded asks for the shared mode.
    return text.replace(first[1], version).replace(" ib_core.netns_mode=1", "")


def describe(
    number: int, base: Path, authorized: str, menu: str, links: dict[str, str], layer: Path | None
) -> tuple[dict[str, t.Any], str]:
    """Return the description of a host for namespaces.py, and its line of known_hosts."""
    name, own = f"gpu-{number}", base / f"host-{number}.key"
    public = key(own)
    files: dict[str, tuple[str, int]] = {
        "etc/ssh/sshd_config.bench": (SSHD.format(address=address(number)), 0o600),
        "etc/ssh/host_key.bench": (own.read_text(), 0o600),
        "root/.ssh/authorized_keys": (authorized + "\n", 0o600),
        "etc/hostname": (name + "\n", 0o644),
        "etc/machine-id": (uuid.uuid4().hex + "\n", 0o644),
        "boot/grub/grub.cfg": (menu, 0o644),
    }
    places = {"upper": layer and str(layer / "upper"), "work": layer and str(layer / "work")}
    host = {"name": name, "address": address(number), "files": files, "links": links, **places}
    return host, f"{address(number)} {public}\n"


def inventory(names: t.Sequence[str], base: Path, variables: t.Mapping[str, t.Any]) -> Path:
    """Write the inventory."""
    common = f"-o UserKnownHostsFile={base}/known_hosts -o StrictHostKeyChecking=yes -o IdentitiesOnly=yes -F /dev/null"
    everyone = {
        "ansible_user": "root",
        "ansible_ssh_private_key_file": str(base / "key"),
        "ansible_ssh_common_args": common,
        "ansible_python_interpreter": "/usr/bin/python3",
        "ansible_timeout": 60,
        **variables,
    }
    rows = {name: {"ansible_host": address(number)} for number, name in enumerate(names, 1)}
    path = base / "hosts.json"
    path.write_text(json.dumps({"all": {"children": {"gpu_nodes": {"hosts": rows, "vars": everyone}}}}))
    return path


@contextlib.contextmanager
def running(
    count: int, *, below: Path | None = None, layer: Path | None = None, variables: t.Mapping[str, t.Any] | None = None
) -> t.Iterator[Hosts]:
    """Run so many hosts, and leave nothing of them.

    ``below`` is a layer of files that they all have, over Debian's; with ``layer`` what the one host writes is kept there.
    """
    if os.geteuid() != 0:
        raise BenchmarkError("hosts that are network namespaces need root")
    missing = [tool for tool in ("unshare", "nsenter", "ip", "ssh", "ssh-keygen") if shutil.which(tool) is None]
    if missing:
        raise BenchmarkError(f"there is no {' and no '.join(missing)} (packages util-linux, iproute2, openssh-client)")
    debian = root()
    version = debian_root.kernel(debian)
    links = {f"usr/lib/modules/{os.uname().release}": version}
    with tempfile.TemporaryDirectory(prefix="rdmaops-hosts-") as directory:
        base = Path(directory)
        authorized, menu = key(base / "key"), boot_menu(version)
        descriptions = [describe(number, base, authorized, menu, links, layer) for number in range(1, count + 1)]
        (base / "known_hosts").write_text("".join(line for _host, line in descriptions))
        (base / "mounts").mkdir()
        wish = {
            "place": str(base / "mounts"),
            "lower": [*([str(below / "upper")] if below else []), str(debian)],
            "address": address(0),
            "prefix": PREFIX,
            "hosts": [host for host, _line in descriptions],
        }
        (base / "wish.json").write_text(json.dumps(wish))
        names = [host["name"] for host, _line in descriptions]
        spaces = ["--net", "--mount", "--uts", "--ipc", "--pid", "--fork", "--kill-child", "--propagation", "private"]
        argv = ["unshare", *spaces, sys.executable, str(INSIDE), str(base / "wish.json")]
        # Its own session: Ctrl-C is for this process, which then ends it.
        process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
        try:
            answer = first_line(process)
            (hub,) = processes.children(process.pid)
            pids = outside(hub, json.loads(answer))
            yield Hosts(names, inventory(names, base, variables or {}), hub, pids, base)
        finally:
            assert process.stdin
            assert process.stdout
            process.stdin.close()
            process.stdout.close()
            try:
                process.wait(timeout=30)
            except BaseException:
                process.kill()
                process.wait(timeout=30)


def first_line(process: subprocess.Popen[bytes]) -> str:
    """Return what namespaces.py prints when the hosts are up."""
    assert process.stdout
    ends, answer = time.monotonic() + START_LIMIT_S, b""
    while not answer.endswith(b"\n"):
        ready = select.select([process.stdout], [], [], max(0.0, ends - time.monotonic()))[0]
        chunk = os.read(process.stdout.fileno(), 65536) if ready else b""
        if not chunk:
            break
        answer += chunk
    text = answer.decode(errors="replace").strip()
    if not text.startswith("{"):
        raise BenchmarkError(text or f"the hosts were not there after {START_LIMIT_S} s")
    return text


def outside(hub: int, inner: t.Mapping[str, int]) -> dict[str, int]:
    """Return the hosts' processes as this machine numbers them: NSpid of proc_pid_status(5)."""
    pids = {}
    for pid in processes.children(hub):
        status = (processes.PROC / str(pid) / "status").read_text()
        numbers = next(line.split()[1:] for line in status.splitlines() if line.startswith("NSpid:"))
        pids[int(numbers[1])] = pid
    return {name: pids[number] for name, number in inner.items()}


__all__ = ["Hosts", "running"]
