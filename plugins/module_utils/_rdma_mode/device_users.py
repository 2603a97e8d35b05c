# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""Who has the RDMA devices of this host open, which a reboot ends.

A live switch of the mode leaves them be: rdma_compatdev_set() in drivers/infiniband/core/device.c makes or removes what
other network namespaces see of the devices, and works only if there are no others.
"""

from __future__ import annotations

import typing as t

from .._netns import pods, survey
from .._rdma import nldev


class Source:
    """The edges: the kernel's lists and /proc."""

    def devices(self) -> list[tuple[int, str]]:
        return [(device.index, device.name) for device in nldev.devices()]

    def owners(self, index: int) -> list[tuple[int | None, str | None]]:
        return nldev.owners(index)

    def file(self, pid: int, name: str) -> str:
        try:
            with open("/proc/%d/%s" % (pid, name), encoding="utf-8", errors="replace") as stream:
                return stream.read().strip()
        except OSError:
            # It has ended meanwhile.
            return ""

    def pods(self) -> dict[str, tuple[str, str]]:
        return pods.names()


def users(source: Source) -> list[dict[str, t.Any]]:
    """Return the processes with objects of a device of this network namespace, by device.

    In mode shared those are all devices, in mode exclusive those that no other namespace has.
    """
    rows = []
    names: dict[str, tuple[str, str]] | None = None
    for index, device in source.devices():
        # Parts of the kernel have a name of their own; the mode is nothing to them.
        processes = {pid for pid, module in source.owners(index) if module is None}
        for pid in sorted(processes, key=lambda number: (number is None, number or 0)):
            uid = None if pid is None else (survey.cgroup_pod(source.file(pid, "cgroup")) or {}).get("uid")
            if uid and names is None:
                names = source.pods()
            namespace, name = (names or {}).get(uid or "", (None, None))
            rows.append(
                {
                    "device": device,
                    "pid": pid,
                    "command": "" if pid is None else source.file(pid, "comm"),
                    "pod": {"namespace": namespace, "name": name, "uid": uid} if uid else None,
                }
            )
    return rows


def format_users(users: t.Sequence[t.Mapping[str, t.Any]]) -> str:
    """Name the first users in half a sentence."""
    parts = []
    for row in users[:3]:
        who = "%s (pid %s" % (row["command"] or "a process", row["pid"] if row["pid"] is not None else "unseen")
        if row["pod"]:
            named = "%s/%s" % (row["pod"]["namespace"], row["pod"]["name"]) if row["pod"]["name"] else row["pod"]["uid"]
            who += ", pod %s" % named
        parts.append("%s by %s)" % (row["device"], who))
    if len(users) > len(parts):
        parts.append("%d more" % (len(users) - len(parts)))
    return ", ".join(parts)


__all__ = ("Source", "format_users", "users")
