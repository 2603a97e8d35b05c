# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.
"""Do something in another network namespace: in a child process, so that no handle and no mount outlives it."""

from __future__ import annotations

import errno
import json
import os
import select
import signal
import time
import typing as t

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._errors import FabricError

if t.TYPE_CHECKING:  # pragma: no cover
    from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._rdma.netns import Namespace

__all__ = ("EnterError", "enter", "inside", "is_net_namespace", "open_namespace", "within")

_CLONE_NEWNS, _CLONE_NEWNET = 0x00020000, 0x40000000
_MS_REC, _MS_PRIVATE = 0x4000, 0x40000
_NS_GET_NSTYPE, _SIOCGSKNS = 0xB703, 0x894C
_PIDFD_OPEN, _PIDFD_GETFD = 434, 438


class EnterError(FabricError, OSError):
    """A network namespace could not be opened or entered; the text says which and why."""

    def __init__(self, text: str, code: int = 0) -> None:
        super().__init__(code, text)
        self.text = text

    def __str__(self) -> str:
        return self.text


def _libc() -> t.Any:
    import ctypes

    return ctypes.CDLL(None, use_errno=True)


def _checked(result: int, doing: str) -> int:
    if result < 0:
        import ctypes

        code = ctypes.get_errno()
        raise EnterError("Could not %s: %s" % (doing, os.strerror(code)), code)
    return result


def is_net_namespace(handle: int) -> bool:
    """Whether an open file is on a network namespace (ioctl_ns(2))."""
    import fcntl

    try:
        return fcntl.ioctl(handle, _NS_GET_NSTYPE) == _CLONE_NEWNET
    except OSError:
        return False


def open_namespace(space: Namespace) -> int:
    """Open a namespace that netns.survey() has found, by whatever keeps it. The caller closes the descriptor."""
    said = ""
    for holder in space.holders:
        handle = None
        try:
            if holder.kind == "socket":
                handle = _namespace_of_socket(holder.pid, int(holder.path.rsplit("/", 1)[1]))
            elif holder.kind == "mount":
                # The mount may be in the mount namespace of its process only.
                handle = os.open("/proc/%d/root%s" % (holder.pid, holder.path), os.O_RDONLY | os.O_CLOEXEC)
            else:
                handle = os.open(holder.path, os.O_RDONLY | os.O_CLOEXEC)
            if os.fstat(handle).st_ino == space.inode and is_net_namespace(handle):
                return handle
        except OSError as exc:
            said = "%s: %s" % (holder.path, exc.strerror or exc)
        if handle is not None:
            os.close(handle)
    name = space.name or "net:[%d]" % space.inode
    raise EnterError(
        "Could not open the network namespace %s: %s" % (name, said or "what kept it is gone"), errno.ENOENT
    )


def _namespace_of_socket(pid: int, fd: int) -> int:
    import fcntl

    call = _libc().syscall
    pidfd = _checked(call(_PIDFD_OPEN, pid, 0), "look at process %d" % pid)
    try:
        copy = _checked(call(_PIDFD_GETFD, pidfd, fd, 0), "copy descriptor %d of process %d" % (fd, pid))
        try:
            return fcntl.ioctl(copy, _SIOCGSKNS)
        finally:
            os.close(copy)
    finally:
        os.close(pidfd)


def enter(handle: int, sysfs: bool) -> None:
    """Take the calling thread into a namespace, for good; ``sysfs``: with a /sys that shows it."""
    libc = _libc()
    _checked(libc.setns(handle, _CLONE_NEWNET), "enter the network namespace")
    if sysfs:
        # /sys/class/infiniband and /sys/class/net show the namespace for which this sysfs was mounted.
        _checked(libc.unshare(_CLONE_NEWNS), "make a mount namespace")
        _checked(libc.mount(None, b"/", None, _MS_REC | _MS_PRIVATE, None), "make its mounts private")
        try:
            _checked(libc.mount(b"sysfs", b"/sys", b"sysfs", 0, None), "mount the namespace's sysfs")
        except EnterError as exc:
            # It is this very one that is mounted there (do_add_mount() in fs/namespace.c).
            if exc.errno != errno.EBUSY:
                raise


def inside(handle: int, function: t.Callable[[], t.Any], *, sysfs: bool = False, timeout: float = 60.0) -> t.Any:
    """Return what ``function`` returns (JSON) when it is called in the namespace that ``handle`` is open on.

    ``sysfs``: it reads /sys. An OSError of it comes back with its number and text; it gets ``timeout`` seconds.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        # Nothing of the parent's is to run here: no handlers, no buffers, no result printed twice.
        try:
            os.close(reader)
            try:
                enter(handle, sysfs)
                answer = {"value": function()}
            except OSError as exc:
                answer = {"errno": exc.errno or 0, "error": str(exc)}
            except Exception as exc:  # the parent raises it again
                answer = {"errno": 0, "error": "%s: %s" % (type(exc).__name__, exc)}
            data = json.dumps(answer).encode("utf-8", "surrogatepass")
            while data:
                data = data[os.write(writer, data) :]
        finally:
            os._exit(0)
    os.close(writer)
    try:
        answer = _answer(reader, time.monotonic() + timeout)
    finally:
        os.close(reader)
        try:
            os.kill(child, signal.SIGKILL)
        except ProcessLookupError:
            pass
        os.waitpid(child, 0)
    if "value" in answer:
        return answer["value"]
    raise EnterError(answer["error"], answer["errno"])


def within(space: Namespace, function: t.Callable[[], t.Any], *, sysfs: bool = False, timeout: float = 60.0) -> t.Any:
    """As inside(), for a namespace that was found by netns.survey() or spaces.spaces()."""
    handle = open_namespace(space)
    try:
        return inside(handle, function, sysfs=sysfs, timeout=timeout)
    finally:
        os.close(handle)


def _answer(reader: int, deadline: float) -> dict[str, t.Any]:
    parts = []
    while True:
        ready, _writable, _exceptional = select.select([reader], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            raise EnterError("No answer from inside the network namespace within the time limit", errno.ETIMEDOUT)
        part = os.read(reader, 1 << 16)
        if not part:
            break
        parts.append(part)
    if not parts:
        raise EnterError("The process in the network namespace ended without an answer", errno.ECHILD)
    return t.cast("dict[str, t.Any]", json.loads(b"".join(parts).decode("utf-8", "surrogatepass")))
