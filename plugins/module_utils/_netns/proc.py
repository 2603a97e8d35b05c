# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.
"""Texts of /proc/PID (proc(5))."""

from __future__ import annotations

import os
import re
import typing as t

from .._errors import FabricError

__all__ = ("Mount", "Process", "initial_namespace", "mounts", "namespace", "process", "read", "started")

_Result = t.TypeVar("_Result")
_PF_KTHREAD = 0x00200000
_NAMESPACE = re.compile(r"(\w+):\[(\d{1,20})\]\Z", re.ASCII)
_OCTAL = re.compile(r"\\([0-3][0-7]{2})", re.ASCII)


class Mount(t.NamedTuple):
    """A mount of a namespace file; `shared` and `master` are peer groups (mount_namespaces(7))."""

    id: int
    kind: str
    inode: int
    point: str
    shared: str | None = None
    master: str | None = None


class Process(t.NamedTuple):
    comm: str
    threads: int
    kernel: bool
    started: int


def initial_namespace(look: t.Callable[[str], _Result], proc: str = "/proc") -> _Result:
    """Call ``look`` with the path of the host's own network namespace.

    That is init's, which a security module may shield, or kthreadd's (2), which never leaves it.
    """
    try:
        return look(proc + "/1/ns/net")
    except (OSError, FabricError):
        try:
            return look(proc + "/2/ns/net")
        except (OSError, FabricError):
            pass
        raise


def namespace(text: str, kind: str) -> int | None:
    if not text.startswith(kind + ":["):
        return None
    match = _NAMESPACE.match(text)
    return int(match.group(2)) if match else None


def mounts(mountinfo: str) -> list[Mount]:
    """The nsfs mounts of a mountinfo text (proc_pid_mountinfo(5))."""
    result: list[Mount] = []
    if " - nsfs " not in mountinfo:
        return result
    for line in mountinfo.split("\n"):
        before, _separator, after = line.partition(" - ")
        fields = before.split(" ")
        if after.split(" ", 1)[0] != "nsfs" or len(fields) < 6 or not re.match(r"\d{1,18}\Z", fields[0], re.ASCII):
            continue
        match = _NAMESPACE.match(fields[3])
        if match:
            point = _OCTAL.sub(lambda octal: chr(int(octal.group(1), 8)), fields[4])
            groups = dict(field.split(":", 1) for field in fields[6:] if ":" in field)
            result.append(
                Mount(
                    int(fields[0]),
                    match.group(1),
                    int(match.group(2)),
                    point,
                    groups.get("shared"),
                    groups.get("master"),
                )
            )
    return result


def process(stat: str) -> Process | None:
    """What is needed of /proc/PID/stat (proc_pid_stat(5)); None when it is not such a text."""
    # The name is in parentheses and may hold any character, ")" too.
    head, _parenthesis, tail = stat.rpartition(")")
    fields = tail.split()
    try:
        return Process(head.partition("(")[2], int(fields[17]), bool(int(fields[6]) & _PF_KTHREAD), int(fields[19]))
    except (IndexError, ValueError):
        return None


def read(path: str, directory: int | None = None) -> str:
    """The text of a file of /proc; ``directory`` is open on the process's."""
    # A third of the time of open(), and there are thousands of these.
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC, dir_fd=directory)
    try:
        parts = [os.read(handle, 16384)]
        while parts[-1]:
            parts.append(os.read(handle, 1 << 20))
    finally:
        os.close(handle)
    return b"".join(parts).decode("utf-8", "surrogateescape")


def started(place: int) -> int | None:
    """When the process began whose directory of /proc is open; OSError when it has ended."""
    about = process(read("stat", place))
    return about and about.started
