# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""Where fabric_probe runs its programs: on the host. In a pod's container: pod.py."""

from __future__ import annotations

import contextlib
import fcntl
import os
import resource
import shutil
import signal
import socket
import struct
import subprocess
import time
import typing as t

from .._errors import FabricError
from .._pod_exec.run import MARK, SERVER
from .._pod_exec.stream import Program, Tail
from .._rdma import nldev
from .._tool_output.listeners import listeners_in

# Outputs of servers, gone with the next boot.
LOGS = "/run/rdmaops/fabric"

_PATH = ":/usr/sbin:/usr/bin:/sbin:/bin"
_SIOCGIFADDR = 0x8915  # netdevice(7)
# Of what a program prints, this much of the end is kept; of a server, what comes first.
_KEPT = 4 << 20
_LOG = 1 << 20


class ProbeError(FabricError):
    """The host cannot do its part; the text has the reason."""


class Server(t.Protocol):
    """A program that goes on without us."""

    def status(self) -> int | None:
        """Its exit status; None while it runs."""

    def output(self) -> str:
        """What it has printed, once it has ended."""

    def stop(self) -> None:
        """End it."""


class Host:
    """The edges: programs, the clock and the kernel's lists."""

    # Programs that are needed whatever the test, with their packages.
    needs: tuple[tuple[str, str], ...] = (("timeout", "coreutils"),)
    # Its network namespace.
    netns = "/proc/self/ns/net"
    # Whether nvidia-smi names the processes that use a GPU.
    sees_processes = True

    def which(self, tool: str) -> str | None:
        return shutil.which(tool, path=os.environ.get("PATH", "") + _PATH)

    def run(self, argv: t.Sequence[str], limit: float) -> tuple[int | None, str]:
        """Exit status (None: stopped at the limit) and what was printed."""
        deadline = time.monotonic() + limit
        tail = Tail(_KEPT)
        try:
            program = Program(argv, {**os.environ, "LC_ALL": "C"}, merged=True)
        except OSError as exc:
            raise ProbeError("Running %s: %s" % (argv[0], exc.strerror)) from exc
        try:
            while True:
                part = program.read(deadline - time.monotonic())
                if part is None:
                    return None, tail.text()
                if not part[1]:
                    return program.status(deadline - time.monotonic()), tail.text()
                tail.add(part[1])
        finally:
            program.close()

    def start(self, argv: t.Sequence[str], limit: float, log: str) -> Server:
        """Start a program that goes on without us for ``limit`` seconds at most."""
        os.makedirs(os.path.dirname(log), mode=0o700, exist_ok=True)
        with open(log, "wb") as sink, _bounded_files():
            process = subprocess.Popen(
                ["timeout", "--kill-after=5", "%d" % limit, *argv],
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={**os.environ, "LC_ALL": "C", MARK: SERVER},
                # Python ignores SIGXFSZ: the program goes on, and what it writes beyond the bound is refused (EFBIG).
                restore_signals=False,
            )
        return _Process(process, log)

    def end_servers(self) -> None:
        """End what start() has started before, here or in an earlier process, in the same network namespace.

        A server whose client has given up over a dead link does not notice, and keeps its port.
        """
        mark = ("%s=%s" % (MARK, SERVER)).encode()
        for pid in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError), open("/proc/%s/environ" % pid, "rb") as stream:
                own = mark in stream.read().split(b"\0")
                if own and os.path.samefile("/proc/%s/ns/net" % pid, self.netns):
                    os.kill(int(pid), signal.SIGKILL)

    def run_for_document(
        self, argv: t.Callable[[str], t.Sequence[str]], name: str, limit: float
    ) -> tuple[int | None, str, str]:
        """Like run(), of a program that gets a path to write a document to, and the document.

        Several may run at once.
        """
        os.makedirs(LOGS, mode=0o700, exist_ok=True)
        path = "%s/%s" % (LOGS, name)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        status, text = self.run(argv(path), limit)
        return status, text, self.read(path)

    def read(self, path: str) -> str:
        try:
            with open(path, encoding="utf-8", errors="replace") as stream:
                return stream.read()
        except OSError:
            return ""

    def texts(self, paths: t.Sequence[str]) -> list[str]:
        """Files of /proc and /sys; an empty text for one that is not there or cannot be read."""
        return [self.read(path) for path in paths]

    def real_paths(self, paths: t.Sequence[str]) -> list[str]:
        """Paths below /sys without symbolic links; an empty text for one that does not exist."""
        return [os.path.realpath(path) if os.path.exists(path) else "" for path in paths]

    def listens(self, port: int) -> bool:
        """Whether a TCP socket of the network namespace listens on the port."""
        return any(port in listeners_in(table) for table in self.texts(["/proc/self/net/tcp", "/proc/self/net/tcp6"]))

    def users(self, device: str) -> list[int | None]:
        """PIDs of the processes that have the device open, as the host counts them."""
        rows = [row for row in nldev.devices() if row.name == device]
        return sorted({pid for row in rows for pid, kernel in nldev.owners(row.index) if kernel is None}, key=str)

    def way(self) -> tuple[str | None, str | None]:
        """Network device of the IPv4 default route, which is the way to the other nodes, and its address."""
        (routes,) = self.texts(["/proc/self/net/route"])
        interface = default_route(routes)
        return interface, _address(interface) if interface else None

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
        """Leave nothing behind that is not to go on."""


@contextlib.contextmanager
def _bounded_files() -> t.Iterator[None]:
    """Have programs that are started write no file beyond the bound."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    bound = _LOG if hard == resource.RLIM_INFINITY else min(_LOG, hard)
    resource.setrlimit(resource.RLIMIT_FSIZE, (bound, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


class _Process:
    def __init__(self, process: subprocess.Popen[bytes], log: str) -> None:
        self._process = process
        self._log = log

    def status(self) -> int | None:
        return self._process.poll()

    def output(self) -> str:
        return Host().read(self._log)

    def stop(self) -> None:
        # timeout(1) passes it on.
        self._process.terminate()
        self._process.wait()


def default_route(routes: str) -> str | None:
    """The network device of the IPv4 default route, of /proc/net/route."""
    for line in routes.split("\n")[1:]:
        fields = line.split()
        if len(fields) > 7 and fields[1] == fields[7] == "00000000":
            return fields[0]
    return None


def _address(interface: str) -> str | None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as handle:
        try:
            answer = fcntl.ioctl(handle, _SIOCGIFADDR, struct.pack("256s", interface.encode()))
        except OSError:
            return None  # it has none
    return socket.inet_ntoa(answer[20:24])


__all__ = ("LOGS", "Host", "ProbeError", "Server", "default_route")
