# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""Run a program as a container would run it, with a time limit that ends whatever came of it.

This is done with the kernel alone, so it is the same for containerd, CRI-O and Docker, and needs no client of theirs.
A program gets what the container's first process has: namespaces, root directory, control groups (with them the list
of devices that may be opened), resource limits, user, groups, capabilities, no_new_privs and environment. It does not
get the seccomp filter and the label of a security module.

It runs in a PID namespace of its own below the container's. Its first process is ours: when that ends, the kernel kills
all that is left in there, in whatever session it is, and it ends with whoever started it and with the container
(pid_namespaces(7)). Nothing is written into the container.
"""

from __future__ import annotations

import errno
import json
import os
import resource
import select
import signal
import time
import typing as t

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._fabric_container import ContainerError
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._fabric_place import NAMESPACES, Place

CAP_IPC_LOCK = 14

_NEWNS, _NEWCGROUP, _NEWUTS, _NEWIPC, _NEWPID, _NEWNET = (
    0x00020000, 0x02000000, 0x04000000, 0x08000000, 0x20000000, 0x40000000,
)  # fmt: skip
_FLAGS = {"cgroup": _NEWCGROUP, "uts": _NEWUTS, "ipc": _NEWIPC, "net": _NEWNET, "mnt": _NEWNS}
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_KEEPCAPS, _PR_CAPBSET_READ, _PR_CAPBSET_DROP = 1, 4, 8, 23, 24
_PR_SET_NO_NEW_PRIVS, _PR_CAP_AMBIENT, _PR_CAP_AMBIENT_RAISE = 38, 47, 2
_CAPABILITY_VERSION = 0x20080522
# Between SIGTERM and SIGKILL, and for all of the rest.
GRACE = 3.0
_SPARE = 15
# Among which those are that we were started with.
_HANDLES = 1024

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Started:
    """Something that runs in a container."""

    def __init__(self, place: Place, doing: str, pid: int, reader: int) -> None:
        self._place = place
        self._doing = doing
        self._pid = pid
        self._reader = reader
        self._said = b""
        self._ended = False

    def wait(self, seconds: float) -> bool:
        """Tell whether it has ended within this time."""
        deadline = time.monotonic() + seconds
        while not self._ended:
            ready, _writable, _failed = select.select([self._reader], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                return False
            part = os.read(self._reader, 1 << 16)
            self._said += part
            if not part:
                self._ended = True
                self._reap()
        return True

    def status(self) -> int | None:
        """The exit status after the end, negative for a signal; None: it was stopped at its limit."""
        for line in self._said.decode("utf-8", "replace").split("\n"):
            answer = json.loads(line) if line else {}
            if "error" in answer and self._place.alive():
                raise ContainerError(
                    "Running %s in the %s: %s" % (self._doing, self._place.container.text, answer["error"])
                )
            if "status" in answer and (answer["status"] is None or answer["status"] >= 0 or self._place.alive()):
                return t.cast("int | None", answer["status"])
        if not self._place.alive():
            raise self._place.gone()
        raise ContainerError(
            "Running %s in the %s: it ended without a status" % (self._doing, self._place.container.text)
        )

    def stop(self) -> None:
        """End it, and all that came of it."""
        if not self._ended:
            os.kill(self._pid, signal.SIGKILL)
            # Who is left ends because of that; the last of them closes the pipe.
            while os.read(self._reader, 1 << 16):
                pass
            self._ended = True
            self._reap()

    def _reap(self) -> None:
        os.close(self._reader)
        os.waitpid(self._pid, 0)


class Order(t.NamedTuple):
    """What to run: a program by ``argv``, or a function, with its output in ``output``; ``limit`` in seconds.

    ``document``: a file that the program knows as /proc/self/fd/3. ``without``: a capability that it shall not have.
    ``lasting``: it goes on when the caller ends.
    """

    argv: t.Sequence[str]
    output: int
    limit: float
    document: int | None = None
    function: t.Callable[[], None] | None = None
    without: int | None = None
    lasting: bool = False


DOCUMENT = "/proc/self/fd/3"


def start(place: Place, order: Order) -> Started:
    """Run something in a container."""
    import ctypes

    # Modules that are imported now need not be found after the way into the container.
    libc = ctypes.CDLL(None, use_errno=True)
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(reader)
            _Chain(libc, place, order, writer).supervise()
        finally:
            os._exit(0)
    os.close(writer)
    return Started(place, order.argv[0], pid, reader)


class _Chain:
    """From the host into the container: every step is a child of the one before, and dies with it."""

    def __init__(self, libc: t.Any, place: Place, order: Order, writer: int) -> None:
        self.libc = libc
        self.place = place
        self.order = order
        self.writer = writer

    def _call(self, doing: str, result: int) -> None:
        if result < 0:
            import ctypes

            code = ctypes.get_errno()
            raise OSError(code, "%s: %s" % (doing, os.strerror(code)))

    def _prctl(self, option: int, value: int, more: int = 0) -> None:
        self._call("prctl %d" % option, self.libc.prctl(option, value, more, 0, 0))

    def _tell(self, **answer: t.Any) -> None:
        try:
            os.write(self.writer, (json.dumps(answer) + "\n").encode())
        except OSError:
            pass  # nobody listens any more

    def _guarded(self, step: t.Callable[[], None]) -> None:
        try:
            step()
        except OSError as exc:
            self._tell(error=exc.strerror or str(exc))
        except Exception as exc:  # the caller raises it
            self._tell(error="%s: %s" % (type(exc).__name__, exc))
        os._exit(1)

    def _child(self, step: t.Callable[[], None]) -> int:
        pid = os.fork()
        if pid == 0:
            self._guarded(step)
        return pid

    def supervise(self) -> None:
        """On the host: nothing but a parent for the process that goes in."""
        self._guarded(self._supervise)

    def _supervise(self) -> None:
        os.setsid()
        for handle in range(3, _HANDLES):
            try:
                os.set_inheritable(handle, False)
            except OSError:
                pass  # it is closed
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGALRM):
            signal.signal(number, signal.SIG_DFL)
        if self.order.lasting:
            null = os.open(os.devnull, os.O_RDWR)
            for handle in (0, 1, 2):
                os.dup2(null, handle)
        else:
            self._prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        # Whoever is in the container cannot look into us, nor reach this Python through /proc (CVE-2019-5736).
        self._prctl(_PR_SET_DUMPABLE, 0)
        # Whatever hangs in there: the end of this process is the end of all.
        signal.alarm(int(self.order.limit + GRACE) + _SPARE)
        self._call("entering its PID namespace", self.libc.setns(self.place.namespaces["pid"], _NEWPID))
        os.waitpid(self._child(self._stand), 0)
        os._exit(0)

    def _stand(self) -> None:
        """In the container's PID namespace: make the one below."""
        self._prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        self._call("making a PID namespace", self.libc.unshare(_NEWPID))
        os.waitpid(self._child(self._watch), 0)
        os._exit(0)

    def _watch(self) -> None:
        """The first process of the PID namespace below: it has the time limit."""
        self._prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        for kind in NAMESPACES:
            self._call("entering its %s namespace" % kind, self.libc.setns(self.place.namespaces[kind], _FLAGS[kind]))
        os.fchdir(self.place.root)
        os.chroot(".")
        os.chdir("/")
        ends = {signal.SIGCHLD}
        signal.pthread_sigmask(signal.SIG_BLOCK, ends)
        child = self._child(self._become)
        deadline = time.monotonic() + self.order.limit
        stopped = False
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == child:
                break
            if pid:
                continue  # somebody's orphan
            left = deadline - time.monotonic()
            if left > 0:
                signal.sigtimedwait(ends, left)
            elif stopped:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
                break
            else:
                os.kill(child, signal.SIGTERM)
                stopped, deadline = True, time.monotonic() + GRACE
        code = -os.WTERMSIG(status) if pid and os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
        self._tell(status=None if stopped else code)
        os._exit(0)

    def _become(self) -> None:
        """The program itself."""
        for handle in self.place.groups:
            try:
                os.write(handle, b"0")
            except OSError as exc:
                raise OSError(exc.errno, "joining its control groups: %s" % exc.strerror) from exc
        for number, pair in self.place.limits.items():
            if resource.getrlimit(number) != pair:
                try:
                    resource.setrlimit(number, pair)
                except (OSError, ValueError) as exc:
                    raise OSError(errno.EPERM, "setting its resource limit %d: %s" % (number, exc)) from exc
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(self.order.output, 1)
        os.dup2(self.order.output, 2)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
        for ignored in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(ignored, signal.SIG_DFL)
        environment = {"PATH": _PATH, **self.place.environment, "LC_ALL": "C"}
        self._identify()
        if self.order.function:
            self.order.function()
            os._exit(0)
        if self.order.document is not None:
            # Last, as this may be any of our own numbers.
            document = os.dup(self.order.document)
            writer = os.dup(self.writer)
            os.set_inheritable(writer, False)
            self.writer = writer
            os.dup2(document, 3)
        os.execvpe(self.order.argv[0], list(self.order.argv), environment)

    def _identify(self) -> None:
        who = self.place.identity
        keep = ~(1 << self.order.without) if self.order.without is not None else -1
        os.setgroups(who.groups)
        os.setresgid(who.gid, who.gid, who.gid)
        for capability in range(self._last() + 1):
            if not who.bounding & keep & 1 << capability:
                self._prctl(_PR_CAPBSET_DROP, capability)
        self._prctl(_PR_SET_KEEPCAPS, 1)
        os.setresuid(who.uid, who.uid, who.uid)
        self._set_capabilities(*(mask & keep for mask in (who.effective, who.permitted, who.inheritable)))
        for capability in range(self._last() + 1):
            if who.ambient & keep & 1 << capability:
                self._prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_RAISE, capability)
        if who.no_new_privs:
            self._prctl(_PR_SET_NO_NEW_PRIVS, 1)

    def _last(self) -> int:
        """The kernel's last capability: those above it cannot even be asked for."""
        number = 0
        while self.libc.prctl(_PR_CAPBSET_READ, number + 1, 0, 0, 0) >= 0:
            number += 1
        return number

    def _set_capabilities(self, *masks: int) -> None:
        import ctypes

        header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
        words = [mask >> shift & 0xFFFFFFFF for shift in (0, 32) for mask in masks]
        self._call("setting its capabilities", self.libc.capset(header, (ctypes.c_uint32 * 6)(*words)))


__all__ = ("CAP_IPC_LOCK", "DOCUMENT", "GRACE", "Order", "Started", "start")
