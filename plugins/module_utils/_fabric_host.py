# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""Where fabric_probe runs its programs: on the host, or in the container of a pod."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import tempfile
import time
import typing as t

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils import _fabric_enter
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._errors import FabricError
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._fabric_container import ContainerError, find
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._fabric_place import Place
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._rdma import enter, nldev

# Outputs of servers, gone with the next boot.
LOGS = "/run/rdmaops/fabric"

_PATH = ":/usr/sbin:/usr/bin:/sbin:/bin"
_SIOCGIFADDR = 0x8915  # netdevice(7)
# Of what a program prints in a container no more is read.
_OUTPUT = 1 << 24


class ProbeError(FabricError):
    """The host cannot do its part; the text says why."""


class Server(t.Protocol):
    """A program that goes on without us."""

    def status(self) -> int | None:
        """Its exit status; None while it runs."""

    def stop(self) -> None:
        """End it."""


class Host:
    """The edges: programs, the clock and the kernel's lists."""

    # Programs that are needed whatever the test, with their packages.
    needs: tuple[tuple[str, str], ...] = (("timeout", "coreutils"),)
    # Whether nvidia-smi names the processes that use a GPU.
    sees_processes = True

    def which(self, tool: str) -> str | None:
        return shutil.which(tool, path=os.environ.get("PATH", "") + _PATH)

    def run(self, argv: t.Sequence[str], limit: float) -> tuple[int | None, str]:
        """Exit status (None: stopped at the limit) and everything that was printed."""
        try:
            done = subprocess.run(
                list(argv),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=limit,
                check=False,
                env={**os.environ, "LC_ALL": "C"},
            )
        except subprocess.TimeoutExpired as exc:
            return None, (exc.stdout or b"").decode("utf-8", "replace")
        except OSError as exc:
            raise ProbeError("Running %s: %s" % (argv[0], exc.strerror)) from exc
        return done.returncode, done.stdout.decode("utf-8", "replace")

    def start(self, argv: t.Sequence[str], limit: float, log: str) -> Server:
        """Start a program that goes on without us for ``limit`` seconds at most."""
        os.makedirs(os.path.dirname(log), mode=0o700, exist_ok=True)
        with open(log, "wb") as sink:
            return _Process(
                subprocess.Popen(
                    ["timeout", "--kill-after=5", "%d" % limit, *argv],
                    stdin=subprocess.DEVNULL,
                    stdout=sink,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    env={**os.environ, "LC_ALL": "C"},
                )
            )

    def place(self, name: str) -> str:
        """A path at which a program may leave a file for read()."""
        os.makedirs(LOGS, mode=0o700, exist_ok=True)
        return "%s/%s" % (LOGS, name)

    def read(self, path: str) -> str:
        try:
            with open(path, encoding="utf-8", errors="replace") as stream:
                return stream.read()
        except OSError:
            return ""

    def remove(self, path: str) -> None:
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass

    def network(self, function: t.Callable[[], t.Any]) -> t.Any:
        """What a function returns (JSON) that looks at the network namespace, in /proc, /sys or by netlink."""
        return function()

    def listens(self, port: int) -> bool:
        """Whether a TCP socket of the namespace listens on the port."""
        return bool(self.network(lambda: _listens(port)))

    def users(self, device: str) -> list[int | None]:
        """PIDs of the processes that have the device open, as the host counts them."""
        return t.cast("list[int | None]", self.network(lambda: _users(device)))

    def way(self) -> tuple[str | None, str | None]:
        """Network device of the IPv4 default route, which is the way to the other nodes, and its address."""
        interface, address = self.network(_way)
        return interface, address

    def variables(self) -> t.Collection[str]:
        """Names of the environment that programs get."""
        return os.environ.keys()

    def command(self, pid: int) -> str:
        return Host.read(self, "/proc/%d/comm" % pid).strip()

    def now(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def close(self) -> None:
        """Hold nothing open any more."""


class _Process:
    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def status(self) -> int | None:
        return self._process.poll()

    def stop(self) -> None:
        # timeout(1) passes it on.
        self._process.terminate()
        self._process.wait()


class Pod(Host):
    """The container of a pod of this host: programs are its own, and run with its user, rights and limits."""

    needs = ()
    sees_processes = False

    def __init__(self, pod: str, container: str | None) -> None:
        self.container = find(pod, container)
        self.held = Place(self.container)
        self._document = ""

    def _ended(self, order: _fabric_enter.Order) -> int | None:
        started = _fabric_enter.start(self.held, order)
        started.wait(order.limit * 2 + 60)
        return started.status()

    def which(self, tool: str) -> str | None:
        path = self.held.environment.get("PATH", "") + _PATH
        with tempfile.TemporaryFile() as answer:

            def look() -> None:
                os.write(1, (shutil.which(tool, path=path) or "").encode())

            self._ended(_fabric_enter.Order([tool], answer.fileno(), 20, function=look))
            answer.seek(0)
            return answer.read().decode("utf-8", "replace") or None

    def run(self, argv: t.Sequence[str], limit: float, *, without: int | None = None) -> tuple[int | None, str]:
        with tempfile.TemporaryFile() as output:
            document = os.memfd_create("rdmaops")
            try:
                order = _fabric_enter.Order(argv, output.fileno(), limit, document=document, without=without)
                status = self._ended(order)
                self._document = os.pread(document, _OUTPUT, 0).decode("utf-8", "replace")
            finally:
                os.close(document)
            output.seek(0)
            return status, output.read(_OUTPUT).decode("utf-8", "replace")

    def start(self, argv: t.Sequence[str], limit: float, log: str, *, without: int | None = None) -> Server:
        os.makedirs(os.path.dirname(log), mode=0o700, exist_ok=True)
        with open(log, "wb") as sink:
            order = _fabric_enter.Order(argv, sink.fileno(), limit, without=without, lasting=True)
            return _Entered(_fabric_enter.start(self.held, order))

    def place(self, _name: str) -> str:
        # Nothing is written into the container, whose user could perhaps not even do it.
        return _fabric_enter.DOCUMENT

    def read(self, path: str) -> str:
        return self._document if path == _fabric_enter.DOCUMENT else super().read(path)

    def remove(self, _path: str) -> None:
        self._document = ""

    def variables(self) -> t.Collection[str]:
        return self.held.environment.keys()

    def network(self, function: t.Callable[[], t.Any]) -> t.Any:
        return enter.inside(self.held.namespaces["net"], function, sysfs=True)

    def close(self) -> None:
        self.held.close()


class _Entered:
    def __init__(self, started: _fabric_enter.Started) -> None:
        self._started = started

    def status(self) -> int | None:
        if not self._started.wait(0):
            return None
        status = self._started.status()
        return 124 if status is None else status  # as timeout(1) says it

    def stop(self) -> None:
        self._started.stop()


def _listens(port: int) -> bool:
    """proc_net_tcp(5)"""
    wanted = ":%04X" % port
    for table in ("/proc/self/net/tcp", "/proc/self/net/tcp6"):
        try:
            with open(table, encoding="ascii") as stream:
                lines = stream.read().split("\n")[1:]
        except FileNotFoundError:
            continue  # a kernel without IPv6
        for line in lines:
            fields = line.split()
            if len(fields) > 3 and fields[3] == "0A" and fields[1].endswith(wanted):
                return True
    return False


def _users(device: str) -> list[int | None]:
    rows = [row for row in nldev.devices() if row.name == device]
    return sorted({pid for row in rows for pid, kernel in nldev.owners(row.index) if kernel is None}, key=str)


def _way() -> tuple[str | None, str | None]:
    import fcntl
    import socket

    with open("/proc/self/net/route", encoding="ascii") as stream:
        routes = [line.split() for line in stream.read().split("\n")[1:] if line]
    interface = next((fields[0] for fields in routes if fields[1] == fields[7] == "00000000"), None)
    if interface is None:
        return None, None
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as handle:
        try:
            answer = fcntl.ioctl(handle, _SIOCGIFADDR, struct.pack("256s", interface.encode()))
        except OSError:
            return interface, None  # it has none
    return interface, socket.inet_ntoa(answer[20:24])


__all__ = ("LOGS", "ContainerError", "Host", "Pod", "ProbeError", "Server")
