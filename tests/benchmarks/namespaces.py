# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run hosts that are network namespaces with an sshd of their own. Started by hosts.py as the first process of a PID namespace.

The kernel ends everything in that namespace with this process, and with the last process go mounts, network namespaces
and addresses: nothing is left of them, however the benchmark ends. Nothing of the machine's own network is touched.

Standard library only; the description of what to run comes as JSON in a file.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import subprocess
import sys
import time
import typing as t
from pathlib import Path

BRIDGE = "hub"
START_LIMIT_S = 120

# In namespaces of its own: mounts, names, processes. What is in $1 is the host's root directory.
HOST = """
set -e
hostname "$2"
mount -t proc proc "$1/proc"
mount -t sysfs -o ro sysfs "$1/sys"
mount --rbind /dev "$1/dev"
mount -t tmpfs -o mode=755 tmpfs "$1/run"
mkdir "$1/run/sshd"
exec chroot "$1" /usr/sbin/sshd -D -e -f /etc/ssh/sshd_config.bench
"""


def ip(*lines: str, netns: str = "") -> None:
    """Run lines of ip-batch(8)."""
    argv = ["ip", *(["-netns", netns] if netns else []), "-batch", "-"]
    done = subprocess.run(argv, input="\n".join(lines) + "\n", capture_output=True, text=True, timeout=300, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"ip: {done.stderr.strip()}")


def mount(*words: str) -> None:
    done = subprocess.run(["mount", *words], capture_output=True, text=True, timeout=60, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"mount {' '.join(words)}: {done.stderr.strip()}")


def wire(hosts: t.Sequence[t.Mapping[str, t.Any]], address: str, prefix: int) -> None:
    """Make a bridge, and each host's namespace with a cable to it."""
    # Names of namespaces are mounts in /run/netns (ip-netns(8)): not in that of the machine.
    mount("-t", "tmpfs", "tmpfs", "/run/netns")
    ip("link set lo up", f"link add {BRIDGE} type bridge", f"addr add {address}/{prefix} dev {BRIDGE}")
    ip(f"link set {BRIDGE} up", *(f"netns add {host['name']}" for host in hosts))
    for number, host in enumerate(hosts):
        ip(
            f"link add port{number} type veth peer name eth0 netns {host['name']}",
            f"link set port{number} master {BRIDGE} up",
        )
        ip("link set lo up", "link set eth0 up", f"addr add {host['address']}/{prefix} dev eth0", netns=host["name"])


def start(host: t.Mapping[str, t.Any], lower: t.Sequence[str], place: Path) -> subprocess.Popen[bytes]:
    """Start a host: its files are those of the lower directories, and what it writes is its own."""
    base = place / host["name"]
    upper, work, root = Path(host["upper"] or base / "upper"), Path(host["work"] or base / "work"), base / "root"
    for directory in (upper, work, root):
        directory.mkdir(parents=True, exist_ok=True)
    mount("-t", "overlay", "overlay", "-o", f"lowerdir={':'.join(lower)},upperdir={upper},workdir={work}", str(root))
    for name, (text, mode) in host["files"].items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(mode)
    for name, target in host["links"].items():
        with contextlib.suppress(FileExistsError):
            (root / name).symlink_to(target)
    spaces = ["unshare", "--mount", "--uts", "--ipc", "--pid", "--fork", "--kill-child", "--propagation", "private"]
    argv = ["ip", "netns", "exec", host["name"], *spaces, "sh", "-c", HOST, "sh", str(root), host["name"]]
    with (place / f"{host['name']}.log").open("wb") as log:
        return subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)


def wait_for(address: str, process: subprocess.Popen[bytes], log: Path, ends: float) -> None:
    """Wait until sshd answers."""
    while True:
        with contextlib.suppress(OSError), socket.create_connection((address, 22), 1):
            return
        if process.poll() is not None or time.monotonic() > ends:
            raise RuntimeError(f"sshd at {address} does not answer: {log.read_text(errors='replace')[-400:].strip()}")
        time.sleep(0.05)


def serve() -> None:
    """Stay until standard input ends, and take the exit status of what was left behind: its processor time counts."""
    while True:
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if select.select([0], [], [], 0.2)[0] and not os.read(0, 1):
            return


def main() -> int:
    wish = json.loads(Path(sys.argv[1]).read_text())
    place = Path(wish["place"])
    try:
        Path("/run/netns").mkdir(exist_ok=True)
        wire(wish["hosts"], wish["address"], wish["prefix"])
        mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", str(place))
        started = [start(host, wish["lower"], place) for host in wish["hosts"]]
        ends = time.monotonic() + START_LIMIT_S
        for host, process in zip(wish["hosts"], started, strict=True):
            wait_for(host["address"], process, place / f"{host['name']}.log", ends)
    except (OSError, RuntimeError, subprocess.SubprocessError) as error:
        print(f"starting {len(wish['hosts'])} hosts: {error}", flush=True)
        return 1
    print(
        json.dumps({host["name"]: process.pid for host, process in zip(wish["hosts"], started, strict=True)}),
        flush=True,
    )
    serve()
    return 0


if __name__ == "__main__":
    sys.exit(main())
