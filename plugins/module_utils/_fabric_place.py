# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""A container that is held open: namespaces, root directory and control groups, its first process and its limits."""

from __future__ import annotations

import errno
import os
import re
import resource
import typing as t

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._fabric_container import Container, ContainerError

# Those that are entered. The mount namespace last: it takes /proc away.
NAMESPACES = ("cgroup", "uts", "ipc", "net", "mnt")

_PF_EXITING = 0x4  # include/linux/sched.h
_LIMIT = re.compile(r"Max [a-z ]+?\s+(unlimited|\d{1,20})\s+(unlimited|\d{1,20})(?:\s|\Z)")


class Identity(t.NamedTuple):
    """Who the container's first process is, from its /proc/PID/status."""

    uid: int
    gid: int
    groups: list[int]
    inheritable: int
    permitted: int
    effective: int
    bounding: int
    ambient: int
    no_new_privs: bool


def identity(status: str) -> Identity:
    """Read /proc/PID/status (proc_pid_status(5))."""
    fields = dict(line.split(":", 1) for line in status.split("\n") if ":" in line)
    inheritable, permitted, effective, bounding, ambient = (
        int(fields["Cap" + name], 16) for name in ("Inh", "Prm", "Eff", "Bnd", "Amb")
    )
    return Identity(
        int(fields["Uid"].split()[1]),
        int(fields["Gid"].split()[1]),
        [int(one) for one in fields["Groups"].split()],
        inheritable,
        permitted,
        effective,
        bounding,
        ambient,
        fields.get("NoNewPrivs", "0").strip() == "1",
    )


def limits(text: str) -> dict[int, tuple[int, int]]:
    """Read /proc/PID/limits: soft and hard limit by number, in whose order they are (proc_pid_limits())."""
    rows = [_LIMIT.match(line) for line in text.split("\n")[1:]]
    found = {}
    for number, row in enumerate(filter(None, rows)):
        soft, hard = (resource.RLIM_INFINITY if one == "unlimited" else int(one) for one in row.groups())
        found[number] = (soft, hard)
    return found


def group_files(cgroup: str, mountinfo: str) -> list[str]:
    """The cgroup.procs of every hierarchy that a /proc/PID/cgroup text names (cgroups(7))."""
    mounts = []
    for line in mountinfo.split("\n"):
        before, _separator, after = line.partition(" - ")
        fields, more = before.split(" "), after.split(" ")
        if len(fields) > 4 and len(more) > 2 and more[0] in ("cgroup", "cgroup2"):
            mounts.append((fields[4], more[0], set(more[2].split(","))))
    found = []
    for line in cgroup.split("\n"):
        parts = line.split(":", 2)
        if len(parts) != 3:
            continue
        names = set(parts[1].split(",")) if parts[1] else set()
        for point, kind, options in mounts:
            if (kind == "cgroup2") == (not names) and names <= options:
                found.append("%s/%s/cgroup.procs" % (point, parts[2].strip("/")))
                break
    return found


class Place:
    """A container that is held open, so that another process with its PID is not taken for it. Close it."""

    def __init__(self, container: Container, proc: str = "/proc") -> None:
        self.container = container
        self._handles: list[int] = []
        try:
            self.process = self._open("%s/%d" % (proc, container.pid), os.O_DIRECTORY)
            self.namespaces = self._namespaces()
            self.root = self._open("root", os.O_PATH | os.O_DIRECTORY, self.process)
            self.identity = identity(self.read("status"))
            pairs = [one.partition("=") for one in self.read("environ").split("\0") if "=" in one]
            self.environment = {name: value for name, _equals, value in pairs}
            self.limits = limits(self.read("limits"))
            with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as stream:
                files = group_files(self.read("cgroup"), stream.read())
            self.groups = [self._open(path, os.O_WRONLY) for path in files]
            # Its PID may be somebody else's by now.
            if not self.alive() or container.ident not in self.read("cgroup"):
                raise self.gone()
        except OSError as exc:
            self.close()
            if exc.errno in (errno.ESRCH, errno.ENOENT) and not os.path.exists("%s/%d" % (proc, container.pid)):
                raise self.gone() from exc
            raise ContainerError(
                "Looking at the %s (PID %d): %s. This needs root on the host (become: true)"
                % (container.text, container.pid, exc)
            ) from exc
        except ContainerError:
            self.close()
            raise

    def _open(self, path: str, flags: int, directory: int | None = None) -> int:
        handle = os.open(path, flags | os.O_CLOEXEC, dir_fd=directory)
        self._handles.append(handle)
        return handle

    def _namespaces(self) -> dict[str, int]:
        def inode(kind: str, directory: int | None) -> int:
            path = "ns/" + kind if directory is not None else "/proc/self/ns/" + kind
            return os.stat(path, dir_fd=directory).st_ino

        if inode("user", self.process) != inode("user", None):
            raise ContainerError(
                "The %s has a user namespace of its own (hostUsers: false), in which nothing can be run from outside: "
                "measure in a pod without" % self.container.text
            )
        names = ["pid", *NAMESPACES]
        return {kind: self._open("ns/" + kind, os.O_RDONLY, self.process) for kind in names}

    def read(self, name: str) -> str:
        """A file of the container's /proc/PID."""
        handle = os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=self.process)
        with open(handle, encoding="utf-8", errors="surrogateescape") as stream:
            return stream.read()

    def alive(self) -> bool:
        """Whether the container's first process still runs: while it ends, it waits for ours."""
        try:
            fields = self.read("stat").rpartition(")")[2].split()
        except OSError:
            return False
        return fields[0] not in ("Z", "X") and not int(fields[6]) & _PF_EXITING

    def gone(self) -> ContainerError:
        """What to say when it does not."""
        return ContainerError(
            "The %s has ended (its process %d is gone). Measure again when the pod is Running"
            % (self.container.text, self.container.pid)
        )

    def close(self) -> None:
        """Give back what would keep the container's namespaces alive."""
        while self._handles:
            os.close(self._handles.pop())


__all__ = ("NAMESPACES", "Identity", "Place", "group_files", "identity", "limits")
