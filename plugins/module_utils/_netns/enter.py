# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.
"""Do something in another network namespace: in a child process, so that no handle and no mount outlives it.

The child opens the namespace, too: its time limit is the limit for everything.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import time
import typing as t

from .._errors import FabricError
from . import nsfs, survey
from .child import Child, attempt, say
from .pidfd import Kernel

if t.TYPE_CHECKING:  # pragma: no cover
    from .survey import Holder, Namespace

__all__ = ("EnterError", "Visitor", "inside", "open_here", "opened", "within")

_CLONE_NEWNS, _CLONE_NEWNET = 0x00020000, 0x40000000
_MS_REC, _MS_PRIVATE, _MNT_DETACH = 0x4000, 0x40000, 2


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


def open_here(space: Namespace) -> int:
    """Open a namespace that survey.survey() or quick_survey.spaces() has found, by whatever keeps it.

    To be called in a child: the way to a mount leads through directories whose file system may not answer.
    """
    reason, code = "its holder is gone", errno.ENOENT
    for holder in space.holders:
        try:
            return _by(holder, space.inode)
        except OSError as exc:
            reason = exc.text if isinstance(exc, EnterError) else "%s: %s" % (holder.path, exc.strerror or exc)
            code = errno.ENOENT if exc.errno in (None, errno.ESRCH) else exc.errno
    name = space.name or "net:[%d]" % space.inode
    raise EnterError("Could not open the network namespace %s: %s" % (name, reason), code)


def _by(holder: Holder, inode: int) -> int:
    if holder.foreign:
        raise EnterError(
            "the mount %s of process %d (%s) is in another mount namespace, and paths from the mount tables of others "
            "are not followed. End the processes there to release it" % holder[1:4],
            errno.EACCES,
        )
    if holder.kind == "mount":
        try:
            return nsfs.by_mount(holder.path, inode)
        except OSError:
            # In a container with the host's processes, the host's mounts are those of its init.
            return nsfs.by_mount(holder.path, inode, "/proc/1/root")
    process, _slash, link = holder.path.partition("/%d/" % holder.pid)
    # Of a process that has ended nothing is found by this handle, even if another has its number then.
    place = os.open("%s/%d" % (process, holder.pid), os.O_PATH | os.O_CLOEXEC)
    try:
        if holder.started is not None and survey.started(place) != holder.started:
            raise ProcessLookupError(errno.ESRCH, "the process has exited")
        if holder.kind == "socket":
            return _by_socket(holder.pid, int(link.rsplit("/", 1)[1]), inode)
        return nsfs.by_link(link, inode, place)
    finally:
        os.close(place)


def _by_socket(pid: int, fd: int, inode: int) -> int:
    kernel = Kernel()
    pidfd = kernel.pidfd(pid, thread=False)
    try:
        handle = kernel.open_socket_namespace(pidfd, fd)
    finally:
        os.close(pidfd)
    if handle is not None and os.fstat(handle).st_ino == inode:
        return handle
    if handle is not None:
        os.close(handle)
    raise OSError(errno.ENOENT, "the file was replaced")


class Visitor:
    """Takes its process from one namespace to the next, for good; to be used in a child."""

    def __init__(self) -> None:
        self._mounts_own = False
        self._mounted = False

    def visit(self, space: Namespace, sysfs: bool) -> None:
        """As enter(), for a namespace that was found by survey.survey() or quick_survey.spaces()."""
        handle = open_here(space)
        try:
            self.enter(handle, sysfs)
        finally:
            os.close(handle)

    def enter(self, handle: int, sysfs: bool) -> None:
        """``sysfs``: with a /sys that shows the namespace."""
        libc = _libc()
        _checked(libc.setns(handle, _CLONE_NEWNET), "enter the network namespace")
        if not sysfs:
            return
        # /sys/class/infiniband and /sys/class/net show the namespace for which this sysfs was mounted.
        if not self._mounts_own:
            _checked(libc.unshare(_CLONE_NEWNS), "create a mount namespace")
            _checked(libc.mount(None, b"/", None, _MS_REC | _MS_PRIVATE, None), "make its mounts private")
            self._mounts_own = True
        if self._mounted:
            _checked(libc.umount2(b"/sys", _MNT_DETACH), "unmount the last namespace's sysfs")
            self._mounted = False
        try:
            _checked(libc.mount(b"sysfs", b"/sys", b"sysfs", 0, None), "mount the namespace's sysfs")
            self._mounted = True
        except EnterError as exc:
            # It is this very one that is mounted there (do_add_mount() in fs/namespace.c).
            if exc.errno != errno.EBUSY:
                raise


def inside(handle: int, function: t.Callable[[], t.Any], *, sysfs: bool = False, timeout: float = 60.0) -> t.Any:
    """Return what ``function`` returns (JSON) when it is called in the namespace that ``handle`` is open on.

    ``sysfs``: it reads /sys. An OSError of it comes back with its number and text; it gets ``timeout`` seconds.
    """

    def work() -> t.Any:
        Visitor().enter(handle, sysfs)
        return function()

    with _answer(work, timeout) as (_child, value):
        return value


def within(space: Namespace, function: t.Callable[[], t.Any], *, sysfs: bool = False, timeout: float = 60.0) -> t.Any:
    """As inside(), for a namespace that was found by survey.survey() or quick_survey.spaces()."""

    def work() -> t.Any:
        Visitor().visit(space, sysfs)
        return function()

    with _answer(work, timeout) as (_child, value):
        return value


def opened(space: Namespace, timeout: float = 10.0) -> int:
    """Open a namespace for longer than a look. The caller closes the descriptor."""
    with _answer(lambda: Visitor().visit(space, sysfs=False), timeout) as (child, _value):
        # The child is in it until it is killed, and its own link leads nowhere else.
        return nsfs.by_link("/proc/%d/ns/net" % child.pid)


@contextlib.contextmanager
def _answer(work: t.Callable[[], t.Any], timeout: float) -> t.Iterator[tuple[Child, t.Any]]:
    """A child that has done ``work``, and what that has returned."""

    def run(writer: int) -> None:
        say(writer, attempt(work))
        signal.pause()

    with Child(run) as child:
        try:
            answer = child.answer(time.monotonic() + timeout)
        except TimeoutError:
            raise EnterError(
                "No answer from inside the network namespace within the time limit", errno.ETIMEDOUT
            ) from None
        except EOFError:
            raise EnterError("The process in the network namespace exited without an answer", errno.ECHILD) from None
        if "value" not in answer:
            raise EnterError(answer["error"], answer["errno"])
        yield child, answer["value"]
