# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.
"""What a /proc/PID/cgroup text shows: the unit, the pod, the container.

A user's systemd, and a service that manages its own group (Delegate= of systemd.resource-control(5)), may give
groups any name. So a name counts only if the host's root makes the groups: in slices outside user.slice, and in what
the kubelet and the container runtime make at the root of the tree.
"""

from __future__ import annotations

import re
import typing as t

__all__ = ("cgroup_pod", "cgroup_unit", "containers")

_UNITS = (".service", ".scope", ".socket", ".mount", ".swap")
# cgroupfs: kubepods/burstable/pod<uid>; systemd: kubepods-burstable-pod<uid with _>.slice. The UID of a static
# pod that the API server has not seen is 32 digits.
_UID = r"(?P<uid>[0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}|[0-9a-f]{32})"
# A node of kind is a container of Docker, nerdctl or Podman, and its kubelet's groups are below /kubelet.
_NODE = (
    r"(?:/docker/[0-9a-f]{12,64}|/system\.slice/(?:docker|nerdctl)-[0-9a-f]{12,64}\.scope|"
    r"/machine\.slice/libpod-[0-9a-f]{12,64}\.scope(?:/container)?)?"
)
# The kubelet's --cgroup-root is a slice, with the systemd driver.
_ROOT = r"(?:/kubelet|(?:/(?!user\.slice/)[^/]+\.slice)*?)"
_POD = re.compile(
    _NODE + _ROOT + r"/(?:[^/]+-)?kubepods(?:\.slice)?(?:/[^/]+)?/(?:[^/]+-)?pod" + _UID + r"(?:\.slice)?(?:/|\Z)",
    re.ASCII,
)
# The kubelet with the systemd driver and the runtime without: a group with a colon in its name below the runtime's own.
_RUNTIME = re.compile(
    r"/system\.slice/(?:containerd|crio|docker)\.service/(?:[^/:]+-)?pod" + _UID + r"(?:\.slice)?:", re.ASCII
)
# What is left of a pod's path below the group that it shares with the reader's own pod: kubepods, or a QoS class in it.
_SIBLING = re.compile(
    r"(?:/(?:[^/]+-)?(?:kubepods-)?(?:besteffort|burstable)(?:\.slice)?)?/(?:[^/]+-)?pod"
    + _UID
    + r"(?:\.slice)?(?:/|\Z)",
    re.ASCII,
)
# In a container with a cgroup namespace of its own, paths of others begin with "/.." for each group up to the one that
# they share with it (cgroup_namespaces(7)).
_UP = re.compile(r"(?:/\.\.)+(?=/)")
# cri-containerd-ID.scope, crio-ID.scope, docker-ID.scope, and just ID with the cgroupfs driver. CRI-O's own helper of a
# container, which is in the host's namespaces, is in crio-conmon-ID.scope.
_CONTAINER = re.compile(r"(?:/|-|:)(?<!conmon-)([0-9a-f]{12,64})(?:\.scope)?(?=/|\Z)", re.ASCII)


class _Path(t.NamedTuple):
    order: int
    path: str  # from the root, or from the group that is shared with the reader
    beside: bool  # it began with "/.."


def _paths(cgroup: str) -> list[_Path]:
    """The paths of the text, those that systemd manages first."""
    paths = []
    for line in cgroup.split("\n"):
        fields = line.split(":", 2)
        if len(fields) == 3 and fields[2] not in ("", "/"):
            # name=systemd if present (v1 and hybrid), then the unified hierarchy (v2), then the controllers.
            order = 0 if fields[1] == "name=systemd" else 1 if fields[0] == "0" else 2
            up = _UP.match(fields[2])
            paths.append(_Path(order, fields[2][up.end() :] if up else fields[2], bool(up)))
    return sorted(paths, key=lambda item: item.order)


def cgroup_unit(cgroup: str) -> str | None:
    """The unit of the host's systemd: the first component that is not a slice.

    What is below it (a user's units, a systemd in a container, delegated groups) `systemctl` of the host does not know.
    """
    for entry in _paths(cgroup)[:1]:
        for component in entry.path.strip("/").split("/"):
            # A component that could be taken for a cgroup file is escaped with "_" (cg_escape()).
            name = component[1:] if component.startswith("_") else component
            if not name.endswith(".slice"):
                return name if name.endswith(_UNITS) else None
    return None


def cgroup_pod(cgroup: str) -> dict[str, str] | None:
    """The UID of the pod that the kubelet has made the group for."""
    for _order, path, beside in _paths(cgroup):
        match = _POD.match(path) or _RUNTIME.match(path) or (_SIBLING.match(path) if beside else None)
        if match:
            return {"uid": match.group("uid").replace("_", "-")}
    return None


def containers(cgroup: str) -> list[str]:
    """The ids of the containers that a process is in, nested ones too."""
    ids = []
    for _order, path, _beside in _paths(cgroup):
        if not path.startswith("/user.slice/"):
            ids += _CONTAINER.findall(path)
    return ids
