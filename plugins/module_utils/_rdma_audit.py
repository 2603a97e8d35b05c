# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""Whether every RDMA device is where it belongs: with the host, or in a pod that lives."""

from __future__ import annotations

import time
import typing as t

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._decision import DRIFT, IN_SYNC, UNKNOWN, resource
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._rdma_info import Host, gather_info

if t.TYPE_CHECKING:  # pragma: no cover
    from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._rdma.netns import Namespace

KIND = "rdma_device"
PLACE = "the host, or a running pod"
MAX_HOLDERS = 3


class AuditHost(Host):
    """The edges, with what keeps each namespace of the last look."""

    def __init__(self) -> None:
        self.spaces: dict[int, Namespace] = {}

    def others(self) -> tuple[list[Namespace], str | None]:
        found = super().others()
        self.spaces = {space.inode: space for space in found[0]}
        return found

    def wait(self, seconds: int) -> None:
        time.sleep(seconds)


def stranded(info: t.Mapping[str, t.Any]) -> dict[str, int]:
    """Return the devices that neither the host nor a pod has, with the inodes of their namespaces."""
    # In any other mode a device is everybody's, and the host's own.
    if info["netns_mode"] != "exclusive":
        return {}
    return {
        device["name"]: device["netns"]["inode"]
        for device in info["devices"]
        if not device["netns"]["initial"] and device["pod"] is None
    }


def _holders(space: Namespace | None) -> str:
    if space is None or not space.holders:
        return ""
    named = []
    for holder in space.holders[:MAX_HOLDERS]:
        what = holder.path if holder.kind == "mount" else "process %d (%s)" % (holder.pid, holder.command)
        named.append(what if what not in named else "")
    more = space.holders_total - MAX_HOLDERS
    return ", held by " + ", ".join(filter(None, named)) + (" and %d more" % more if more > 0 else "")


def _place(device: t.Mapping[str, t.Any], spaces: t.Mapping[int, Namespace]) -> str:
    where, pod = device["netns"], device["pod"]
    if pod is not None:
        return "pod %s/%s" % (pod["namespace"], pod["name"]) if pod["name"] else "the pod with the UID %s" % pod["uid"]
    name = "netns %s" % where["name"] if where["name"] else "net:[%d]" % where["inode"]
    return name + _holders(spaces.get(where["inode"]))


def judge(
    info: t.Mapping[str, t.Any],
    before: t.Mapping[str, int],
    spaces: t.Mapping[int, Namespace],
    expected: t.Iterable[str],
) -> list[dict[str, t.Any]]:
    """Return a resource for each device, each expected one that is nowhere, and each place that hides what is in it.

    ``before`` is what an earlier look found stranded.
    """
    lost = stranded(info)
    found = []
    for device in info["devices"]:
        name = device["name"]
        why = None
        status, live = IN_SYNC, "the host"
        if info["netns_mode"] == "exclusive" and not device["netns"]["initial"]:
            live = _place(device, spaces)
        if name in lost and before.get(name) == lost[name]:
            status = DRIFT
        elif name in lost:
            status, why = UNKNOWN, "it is on its way between network namespaces"
        found.append({**resource(KIND, name, desired=PLACE, live=live, status=status), "why": why})
    hidden = [line for line in info["unreadable"] if line["device"] is None]
    for line in hidden:
        where = line["netns"]
        name = "network namespaces" if where is None else str(where["name"] or "net:[%d]" % where["inode"])
        why = "%s: %s" % (line["what"], line["error"])
        found.append({**resource(KIND, name, desired=PLACE, status=UNKNOWN), "why": why})
    names = {device["name"] for device in info["devices"]}
    for name in expected:
        if name not in names:
            # Where not all could be looked at, it may be there.
            status, why = (UNKNOWN, "not all network namespaces could be looked at") if hidden else (DRIFT, None)
            found.append(
                {**resource(KIND, name, desired=PLACE, live=None if hidden else "nowhere", status=status), "why": why}
            )
    return found


def audit(expected: t.Sequence[str], settle: int, host: AuditHost) -> dict[str, t.Any]:
    """Return what the module rdma_audit returns."""
    info = gather_info([], True, host)
    before = stranded(info)
    if before and settle:
        host.wait(settle)
        info = gather_info([], True, host)
    return {"netns_mode": info["netns_mode"], "resources": judge(info, before, host.spaces, expected)}


__all__ = ("AuditHost", "audit", "judge", "stranded")
