# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.
"""The network namespaces that processes are in or that have a name, at a tenth of netns.survey()'s cost.

A namespace that only an open file or a socket keeps is not found. What looks every few seconds can live with that; what
decides over a change cannot, and asks netns.survey().
"""

from __future__ import annotations

import errno
import os
import typing as t

from . import survey
from .proc import initial_namespace
from .survey import Holder, Namespace, Unreadable

__all__ = ("Spaces", "spaces")

# Processes of a namespace that are checked for their pod: one may be ending, another may be a helper of the host's.
_ASKED = 4


class Spaces(t.NamedTuple):
    """``initial`` is the host's namespace, ``own`` the caller's; ``others`` are all but the caller's."""

    initial: int
    own: int
    others: list[Namespace]
    unreadable: list[Unreadable]


def spaces(proc: str = "/proc", names: str = "/run/netns") -> Spaces:
    """Look for them. OSError if the caller's own or the host's cannot be determined: no root, or not on the host.

    ``names`` is looked up in the root directory of the host's init, which need not be the caller's.
    """
    own = os.stat(proc + "/self/ns/net")
    initial = initial_namespace(os.stat, proc).st_ino
    held: dict[int, list[int]] = {}
    unreadable = []
    for pid in sorted(int(name) for name in os.listdir(proc) if name.isdigit()):
        path = "%s/%d/ns/net" % (proc, pid)
        try:
            text = os.readlink(path)
        except OSError as exc:
            if exc.errno not in (errno.ENOENT, errno.ESRCH):
                unreadable.append(Unreadable(path, errno.errorcode.get(exc.errno or 0, "?")))
            continue
        if text[:5] == "net:[" and text[5:-1].isdigit():  # a zombie has none
            held.setdefault(int(text[5:-1]), []).append(pid)
    mounted, problem = _mounted(proc + "/1/root" + names, own.st_dev)
    if problem:
        unreadable.append(problem)
    namespaces = []
    for inode in sorted((set(held) | set(mounted)) - {own.st_ino}):
        name = mounted.get(inode)
        holders = _holders(proc, inode, held.get(inode, []))
        if name is not None:
            holders.append(Holder("mount", "%s/%s" % (names, name), 1, "", None, None))
        total = len(held.get(inode, [])) + (name is not None)
        namespaces.append(Namespace(inode, name, holders, total))
    return Spaces(initial, own.st_ino, namespaces, unreadable)


def _mounted(directory: str, nsfs: int) -> tuple[dict[int, str], Unreadable | None]:
    """Names by inode, as ip-netns(8) keeps them."""
    mounted: dict[int, str] = {}
    try:
        entries = sorted(os.listdir(directory))
    except FileNotFoundError:
        return mounted, None
    except OSError as exc:
        return mounted, Unreadable(directory, errno.errorcode.get(exc.errno or 0, "?"))
    for entry in entries:
        try:
            status = os.stat("%s/%s" % (directory, entry))
        except OSError:
            continue  # it went while we looked
        if status.st_dev == nsfs:  # else a file that was left behind
            mounted.setdefault(status.st_ino, entry)
    return mounted, None


def _holders(proc: str, inode: int, pids: t.Sequence[int]) -> list[Holder]:
    """The first few processes of a namespace that have not ended meanwhile."""
    holders = []
    for pid in pids[:_ASKED]:
        try:
            # All of it is of one process, even if another gets its number.
            process = os.open("%s/%d" % (proc, pid), os.O_PATH | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            if os.readlink("ns/net", dir_fd=process) == "net:[%d]" % inode:
                groups, started = survey.read("cgroup", process), survey.started(process)
                unit, pod = survey.cgroup_unit(groups), survey.cgroup_pod(groups)
                holders.append(Holder("process", "%s/%d/ns/net" % (proc, pid), pid, "", unit, pod, started))
        except OSError:
            continue
        finally:
            os.close(process)
    return holders
