# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.
"""The network namespace that an RDMA device is to be in: by name or path, by process, container or pod."""

from __future__ import annotations

import errno
import os
import re
import typing as t

from .._errors import FabricError
from . import cgroups, nsfs, pods, survey
from .proc import initial_namespace

__all__ = ("KINDS", "OPTIONS", "Target", "TargetError", "initial", "initial_inode", "of_pod", "resolve")

# The options of every module that has a target; one of them at most is given.
OPTIONS = {"netns": {"type": "str"}, "pid": {"type": "int"}, "container": {"type": "str"}, "pod": {"type": "str"}}
KINDS = tuple(OPTIONS)

HOST = "the host"

# The directory in which ip-netns(8) keeps names; /var/run is a link to /run on every system with systemd.
NAMES = "/run/netns"

# Container ids are 64 hexadecimal digits; tools print the first 12 or 13.
_CONTAINER = re.compile(r"(?:[a-z0-9.+-]+://)?([0-9a-f]{12,64})\Z")


class TargetError(FabricError):
    """The network namespace does not exist; the text names what was looked for, and what unblocks it."""


class Target(t.NamedTuple):
    """An open network namespace; who gets it closes ``handle``. ``text`` is what people call it."""

    handle: int
    inode: int
    text: str


def initial_inode(proc: str = "/proc") -> int | None:
    """The inode of the host's own namespace; None if it may not be read."""
    try:
        return initial_namespace(os.stat, proc).st_ino
    except OSError:
        return None


def _open(path: str, text: str, missing: str, process: int | None = None) -> Target:
    """Open a namespace by its path; with ``process``, a handle on a directory of /proc, that of this very process."""
    try:
        handle = nsfs.by_link(path if process is None else "ns/net", directory=process)
    except OSError as exc:
        if exc.errno in (errno.ENOENT, errno.ESRCH, errno.ENOTDIR):
            raise TargetError(missing) from exc
        if exc.errno == errno.EINVAL:
            raise TargetError("%s is not a network namespace" % path) from exc
        raise TargetError("Opening %s: %s. This needs root on the host (become: true)" % (path, exc.strerror)) from exc
    return Target(handle, os.fstat(handle).st_ino, text)


def initial() -> Target:
    """The host's own namespace."""
    return initial_namespace(lambda path: _open(path, HOST, "/proc/1/ns/net is missing: is /proc mounted?"))


def resolve(kind: str, value: t.Any, proc: str = "/proc", names: str = NAMES) -> Target:
    """Open the namespace of a target. ``kind`` is one of KINDS."""
    if kind == "netns":
        return _by_name(str(value), names)
    if kind == "pid":
        return _by_pid(int(value), proc)
    opened = _by_container(str(value), proc) if kind == "container" else of_pod(str(value), proc)[0]
    if opened.inode == initial_inode(proc):
        os.close(opened.handle)
        raise TargetError(
            "The %s is in the host's own network namespace (hostNetwork): it already has the host's devices"
            % opened.text
        )
    return opened


def _by_name(value: str, names: str) -> Target:
    if "/" in value:
        return _open(value, value, "No network namespace at %s" % value)
    if value in ("", ".", ".."):
        raise TargetError("'%s' is not a valid name of a network namespace" % value)
    try:
        known = ", ".join(sorted(os.listdir(names))) or "none"
    except OSError:
        known = "none"
    return _open(
        "%s/%s" % (names, value),
        "netns %s" % value,
        "No network namespace is named %s; 'ip netns' has: %s. Create it with 'ip netns add %s', or give a path"
        % (value, known, value),
    )


def _by_pid(pid: int, proc: str) -> Target:
    return _open(
        "%s/%d/ns/net" % (proc, pid),
        "process %d" % pid,
        "No process has the PID %d (any longer). A restarted pod has another one: "
        "give the pod or the container instead" % pid,
    )


def _groups(proc: str) -> t.Iterator[tuple[int, str]]:
    for pid in sorted(int(name) for name in os.listdir(proc) if name.isdigit()):
        try:
            with open("%s/%d/cgroup" % (proc, pid), encoding="utf-8", errors="replace") as stream:
                yield pid, stream.read()
        except OSError:
            continue  # it ended


def _by_container(value: str, proc: str) -> Target:
    match = _CONTAINER.match(value)
    if not match:
        raise TargetError("'%s' is not a valid container ID (12 to 64 hexadecimal digits)" % value)
    prefix = match.group(1)
    processes: dict[str, int] = {}
    for pid, groups in _groups(proc):
        for ident in cgroups.containers(groups):
            if ident.startswith(prefix):
                processes.setdefault(ident, pid)
    if not processes:
        raise TargetError(
            "No process of this host is in a container with the ID %s. Is it running, and on this host? Users' "
            "containers (below user.slice) are not searched: give the PID of one of their processes" % prefix
        )
    if len(processes) > 1:
        raise TargetError(
            "Several containers begin with %s: %s. Give more digits" % (prefix, ", ".join(sorted(processes)))
        )
    ident = min(processes)
    return _of_process(
        processes[ident], "container %s" % ident[:12], proc, lambda text: ident in cgroups.containers(text)
    )


def of_pod(pod: str, proc: str = "/proc") -> tuple[Target, str]:
    """Open the namespace of a pod, which is the host's with hostNetwork; the second value is the pod's UID."""
    process = pods.first(pod, proc)
    belongs = {"uid": process.uid}
    opened = _of_process(process.pid, "pod %s" % pod, proc, lambda text: cgroups.cgroup_pod(text) == belongs)
    return opened, process.uid


def _of_process(pid: int, text: str, proc: str, belongs: t.Callable[[str], bool]) -> Target:
    """Open the namespace of a process whose cgroup text still ``belongs`` to what was looked for."""
    ended = "The processes of %s have just exited" % text
    try:
        process = os.open("%s/%d" % (proc, pid), os.O_PATH | os.O_CLOEXEC)
    except OSError as exc:
        raise TargetError(ended) from exc
    try:
        # The number may have become another process's since its cgroup was read.
        if not belongs(survey.read("cgroup", process)):
            raise TargetError(ended)
        return _open("%s/%d/ns/net" % (proc, pid), text, ended, process)
    except OSError as exc:
        raise TargetError(ended) from exc
    finally:
        os.close(process)
