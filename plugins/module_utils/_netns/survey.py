# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.
"""Which network namespaces exist, and what keeps each of them.

The kernel has no list of them. A namespace lives as long as a task is in it, a mount or an open file is on its
nsfs inode, or a socket was made in it; so these four are looked up in /proc. No other way finds a namespace that
is only held by a socket (`ip netns` knows names, lsns misses some).

Not found: descriptors on their way in a unix socket or registered with io_uring, open files of another namespace's
/proc/net, mounts in a mount namespace that no process is in, and the kernel's own references (an NFS mount that was
made inside the namespace).

Everything is read by readlink and from text files: stat() of /proc/PID/fd/N may ask the file system behind it,
and never returns when that is a dead NFS server.
"""

from __future__ import annotations

import errno
import os
import time
import typing as t

from .._errors import FabricError
from .cgroups import cgroup_pod, cgroup_unit
from .child import Child, say
from .pidfd import Kernel
from .proc import Mount, Process, initial_namespace, mounts, namespace, process, read, started

__all__ = (
    "Holder",
    "Mount",
    "Namespace",
    "NamespaceError",
    "Process",
    "Survey",
    "Unreadable",
    "cgroup_pod",
    "cgroup_unit",
    "mounts",
    "others",
    "process",
    "read",
    "started",
    "survey",
)

KINDS = ("mount", "process", "fd", "socket")

_COMMANDS_S = 3.0
# PROC_PID_INIT_INO of include/linux/proc_ns.h, the same since Linux 3.8
_INIT_PID_NS = 0xEFFFFFFC
_GONE = (errno.ENOENT, errno.ESRCH)


class NamespaceError(FabricError):
    """The list would be incomplete; the text says what could not be read and what unblocks it."""


class Holder(t.NamedTuple):
    """`started` distinguishes two processes with the same PID. `foreign`: a mount that only a
    mount table names which is neither the host's nor this process's own. Its creator chose the path, so nothing
    follows it.
    """

    kind: str
    path: str
    pid: int
    command: str
    unit: str | None
    pod: dict[str, str] | None
    started: int | None = None
    foreign: bool = False


class Namespace(t.NamedTuple):
    """`name` as in `ip netns`, if it has one. `holders` is cut at a limit, `holders_total` is not."""

    inode: int
    name: str | None
    holders: list[Holder]
    holders_total: int


class Unreadable(t.NamedTuple):
    path: str
    error: str


class Survey(t.NamedTuple):
    namespaces: list[Namespace]
    unreadable: list[Unreadable]

    @property
    def problem(self) -> str | None:
        """Why the list may be incomplete, in two sentences; None when it is complete."""
        if not self.unreadable:
            return None
        more = len(self.unreadable) - 1
        return (
            "Could not look for network namespaces everywhere: %s: %s%s. This needs root with CAP_SYS_PTRACE and "
            "CAP_NET_ADMIN on the host (become: true), and Linux 5.6 for sockets"
            % (*self.unreadable[0], " and %d more" % more if more else "")
        )


def _printable(text: str) -> str:
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


class _Scan:
    def __init__(self, proc: str, kernel: t.Any) -> None:
        self._proc = proc
        self._kernel = kernel
        self.unreadable: list[Unreadable] = []
        self.initial = self._initial()
        self.names: dict[int, str] = {}
        # namespace -> (kind, pid, what distinguishes two holders) -> path
        self.holders: dict[int, dict[tuple[str, int, t.Any], str]] = {}
        self._mounts: dict[int, Mount] = {}
        self._mounted: list[tuple[int, Mount]] = []
        self._mount_views: set[tuple[str, str]] = set()
        self._own_views = self._views("self", "1")
        # (namespace, mount point) that this process or the host's init has
        self.own_mounts: set[tuple[int, str]] = set()
        self._sockets: dict[str, int] = {}
        self._comms: dict[int, str] = {}
        self._started: dict[int, int] = {}
        self._askable = True

    def _initial(self) -> int:
        own = namespace(self._link("self/ns/pid"), "pid")
        if own != _INIT_PID_NS:
            raise NamespaceError(
                "Could not list network namespaces: this process is in its own PID namespace (a container?) and "
                "cannot see the processes of the host. Run it on the host itself"
            )
        reason = "not a network namespace"
        try:
            inode = initial_namespace(lambda path: namespace(os.readlink(path), "net"), self._proc)
        except OSError as exc:
            inode, reason = None, exc.strerror or reason
        if inode is not None:
            return inode
        raise NamespaceError(
            "Could not list network namespaces: %s/1/ns/net: %s. This needs root with CAP_SYS_PTRACE (become: true)"
            % (self._proc, reason)
        )

    def _link(self, path: str) -> str:
        return os.readlink(self._proc + "/" + path)

    def _failed(self, path: str, exc: OSError) -> None:
        """A process that ended is nothing; anything else makes the list incomplete."""
        if exc.errno not in _GONE:
            error = "%s (%s)" % (errno.errorcode.get(exc.errno or 0, "?"), exc.strerror)
            self.unreadable.append(Unreadable(exc.filename or "%s/%s" % (self._proc, path), error))

    def _add(self, inode: int | None, kind: str, pid: int, path: str, key: t.Any = None) -> None:
        if inode is not None and inode != self.initial:
            self.holders.setdefault(inode, {}).setdefault((kind, pid, key), "%s/%s" % (self._proc, path))

    def run(self) -> None:
        tables = []
        for pid in sorted(int(name) for name in os.listdir(self._proc) if name.isdigit()):
            try:
                about = process(read("%s/%d/stat" % (self._proc, pid)))
            except OSError as exc:
                self._failed("%d/stat" % pid, exc)
                continue
            if about is not None and not about.kernel:
                self._comms[pid], self._started[pid] = about.comm, about.started
                tables += self._tasks(pid, about.threads)
        self._mount_holders()
        # After all mounts are known: an open file shows the mount it was opened on.
        for pid, task, path in tables:
            try:
                self._descriptors(pid, task, path)
            except OSError as exc:
                self._failed(path, exc)

    def _tasks(self, pid: int, threads: int) -> list[tuple[int, int, str]]:
        """Looks at the tasks of a process; returns its descriptor tables as (pid, task, path)."""
        tables = [(pid, pid, "%d/fd" % pid)]
        try:
            tasks = [pid] if threads < 2 else [int(name) for name in os.listdir("%s/%d/task" % (self._proc, pid))]
        except OSError as exc:
            self._failed("%d/task" % pid, exc)
            return []
        for task in tasks:
            path = str(pid) if task == pid else "%d/task/%d" % (pid, task)
            try:
                self._add(namespace(self._link(path + "/ns/net"), "net"), "process", pid, path + "/ns/net")
                self._mount_view(pid, path)
                if task != pid and self._kernel.own_files(pid, task):
                    tables.append((pid, task, path + "/fd"))
            except OSError as exc:
                self._failed(path + "/ns/net", exc)
                if exc.errno not in _GONE and task == pid:
                    return []  # one line for a process of which nothing can be read
        return tables

    def _view(self, path: str) -> tuple[str, str]:
        # A chroot hides the mounts outside it, so a view is a mount namespace and a root directory.
        return self._link(path + "/ns/mnt"), self._link(path + "/root")

    def _views(self, *paths: str) -> set[tuple[str, str]]:
        views = set()
        for path in paths:
            try:
                views.add(self._view(path))
            except OSError:
                continue  # a security module may shield init
        return views

    def _mount_view(self, pid: int, path: str) -> None:
        view = self._view(path)
        if view in self._mount_views:
            return
        try:
            text = read("%s/%s/mountinfo" % (self._proc, path))
        except OSError as exc:
            if exc.errno != errno.EINVAL:  # the task is ending
                raise
            return
        self._mount_views.add(view)
        for mount in mounts(text):
            if view in self._own_views:
                self.own_mounts.add((mount.inode, mount.point))
            if mount.id in self._mounts:
                continue
            self._mounts[mount.id] = mount
            if mount.kind == "net" and mount.inode != self.initial:
                self._mounted.append((pid, mount))

    def _mount_holders(self) -> None:
        # A mount namespace that receives mounts (of a unit with ProtectSystem=, say) has a copy of each
        # /run/netns/NAME, which goes with the original: one holder.
        originals = {(mount.inode, mount.point, mount.shared) for _pid, mount in self._mounted if mount.shared}
        for pid, mount in self._mounted:
            if mount.master and (mount.inode, mount.point, mount.master) in originals:
                continue
            key = mount.shared or mount.id
            rows = self.holders.setdefault(mount.inode, {})
            if not any(kind == "mount" and other == (mount.point, key) for kind, _other, other in rows):
                rows["mount", pid, (mount.point, key)] = mount.point
            directory, name = os.path.split(mount.point)
            if directory in ("/run/netns", "/var/run/netns") and (mount.inode, mount.point) in self.own_mounts:
                self.names.setdefault(mount.inode, name)

    def _descriptors(self, pid: int, task: int, path: str) -> None:
        pidfd = None
        try:
            for fd in os.listdir("%s/%s" % (self._proc, path)):
                try:
                    text = self._link("%s/%s" % (path, fd))
                    if text.startswith("socket:["):
                        kind = "socket"
                        inode = self._sockets.get(text)
                        if inode is None and self._askable:
                            pidfd = self._kernel.pidfd(task, task != pid) if pidfd is None else pidfd
                            inode = self._kernel.socket_namespace(pidfd, int(fd))
                            if inode is not None:
                                self._sockets[text] = inode
                    elif text == "/dev/net/tun":
                        # A tap device's file holds the namespace it was opened in, and answers like a socket.
                        kind = "socket"
                        pidfd = self._kernel.pidfd(task, task != pid) if pidfd is None else pidfd
                        inode = self._kernel.socket_namespace(pidfd, int(fd))
                    else:
                        kind, inode = "fd", self._file(path, fd, text)
                except OSError as exc:
                    self._failed("%s/%s" % (path, fd), exc)
                    if exc.errno == errno.ENOSYS:
                        self._askable = False  # reported once, for all sockets
                    continue
                # A process in the namespace holds it anyway.
                if inode is not None and ("process", pid, None) not in self.holders.get(inode, ()):
                    self._add(inode, kind, pid, "%s/%s" % (path, fd))
        finally:
            if pidfd is not None:
                os.close(pidfd)

    def _file(self, path: str, fd: str, text: str) -> int | None:
        inode = namespace(text, "net")
        if inode is not None:
            return inode  # opened through /proc/PID/ns/net
        if not text.startswith("/") or text.startswith(("/dev/null", "/dev/pts/", "/memfd:")):
            return None
        # Opened through a mount: the link's text is the mount point as it was, and "/" when it was detached.
        number = None
        mount = None
        for line in read("%s/%s/%s" % (self._proc, path.replace("/fd", "/fdinfo"), fd)).split("\n"):
            if line.startswith("mnt_id:"):
                mount = self._mounts.get(int(line[7:]))
            elif line.startswith("ino:"):  # Linux 5.14
                number = int(line[4:])
        if mount is not None:
            return mount.inode if mount.kind == "net" else None
        # Namespaces have 32-bit inodes from PROC_DYNAMIC_FIRST (0xF0000000) on, the initial ones just below.
        if text == "/" if number is None else 0xEFFFFFF0 <= number <= 0xFFFFFFFF:
            return t.cast("int | None", self._kernel.net_namespace("%s/%s/%s" % (self._proc, path, fd)))
        return None

    def commands(self, pids: t.Iterable[int]) -> dict[int, str]:
        """The beginnings of command lines, of those processes for which they can be read.

        They are in the memory of the process, which may be a file's of a dead server or of a user's own file system
        (mmap(2) on fuse(4)). Then the read never returns.
        """

        def work(writer: int) -> None:
            for pid in pids:
                try:
                    words = read("%s/%d/cmdline" % (self._proc, pid)).rstrip("\0").split("\0")
                except OSError:
                    continue
                # Two words at most: what follows may be a secret.
                say(writer, [pid, " ".join(word for word in words[:2] if word[:1] != "-")[:80]])

        commands = {}
        until = time.monotonic() + _COMMANDS_S
        with Child(work) as child:
            try:
                while True:
                    pid, command = child.answer(until)
                    commands[pid] = command
            except (TimeoutError, EOFError):
                return commands

    def holder(self, inode: int, kind: str, pid: int, path: str, command: str | None) -> Holder:
        unit = pod = None
        try:
            cgroup = read("%s/%d/cgroup" % (self._proc, pid))
            unit, pod = cgroup_unit(cgroup), cgroup_pod(cgroup)
        except OSError as exc:
            self._failed("%d/cgroup" % pid, exc)
        command = _printable((command or self._comms.get(pid, ""))[:80])
        foreign = kind == "mount" and (inode, path) not in self.own_mounts
        unit = None if unit is None else _printable(unit)
        return Holder(kind, _printable(path), pid, command, unit, pod, self._started.get(pid), foreign)


def survey(limit: int = 10, proc: str = "/proc", kernel: t.Any = None) -> Survey:
    """Every network namespace but the initial one, and what could not be read; at most `limit` holders of each.

    NamespaceError if nothing can be determined: no root, or not on the host.
    """
    try:
        scan = _Scan(proc, kernel or Kernel())
        scan.run()
    except OSError as exc:
        raise NamespaceError("Could not list network namespaces: %s: %s" % (exc.filename, exc.strerror)) from exc
    chosen = {inode: _chosen(rows, limit) for inode, rows in sorted(scan.holders.items())}
    pids = {row[1] for rows in chosen.values() for row in rows}
    commands = scan.commands(sorted(pids)) if pids else {}
    namespaces = []
    for inode, rows in chosen.items():
        holders = [scan.holder(inode, *row, commands.get(row[1])) for row in rows]
        name = scan.names.get(inode)
        total = len(scan.holders[inode])
        namespaces.append(Namespace(inode, None if name is None else _printable(name), holders, total))
    return Survey(namespaces, scan.unreadable)


def _chosen(rows: t.Mapping[tuple[str, int, t.Any], str], limit: int) -> list[tuple[str, int, str]]:
    """As many holders of a namespace as are reported: kind, PID and path of each."""
    # The first of each kind, then the second of each, so that no kind crowds out another.
    rank: dict[str, int] = {}
    order = []
    for (kind, pid, _key), path in sorted(rows.items(), key=lambda row: (row[0][1], row[1])):
        rank[kind] = rank.get(kind, 0) + 1
        order.append((rank[kind], KINDS.index(kind), pid, path))
    return [
        (KINDS[kind], pid, path)
        for _rank, kind, pid, path in sorted(sorted(order)[:limit], key=lambda row: (row[1], row[0]))
    ]


def others(limit: int = 10) -> list[Namespace]:
    """survey() for callers to whom an incomplete list is worse than none."""
    result = survey(limit)
    if result.problem:
        raise NamespaceError(result.problem)
    return result.namespaces
