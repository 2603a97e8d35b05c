# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""Which process is the container of a pod of this node: from /proc and the kubelet's logs, for every runtime."""

from __future__ import annotations

import os
import re
import typing as t

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._errors import FabricError
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._rdma import netns, pods

# The kubelet links NAME_NAMESPACE_CONTAINER-ID.log, cut at 255 characters, for every container but the sandbox
# (logSymlink() in pkg/kubelet/kuberuntime/legacy.go).
LINKS = "/var/log/containers"
_LINK = re.compile(r"([^_]+)_([^_]+)_(.+)-([0-9a-f]{12,64})(?:\.log)?\Z")

# cri-containerd-ID.scope, crio-ID.scope, docker-ID.scope, and just ID with the cgroupfs driver. CRI-O's own helper of a
# container is in crio-conmon-ID.scope.
_IDENT = re.compile(r"(?:/|-|:)(?<!conmon-)([0-9a-f]{64})(?:\.scope)?(?=/|$)", re.M)

# What the sandbox of a pod runs, whoever made it.
_PAUSE = "pause"


class ContainerError(FabricError):
    """There is no such container, or it is gone; the text says what was looked for, and what unblocks it."""


class Container(t.NamedTuple):
    """A running container; ``pid`` is its first process, ``uid`` the pod's."""

    pod: str
    uid: str
    name: str | None
    ident: str
    pid: int

    @property
    def text(self) -> str:
        """What people call it."""
        return "container %s of the pod %s" % (self.name or self.ident[:12], self.pod)


class _Process(t.NamedTuple):
    started: int
    pid: int
    command: str


def _processes(proc: str, uids: t.Collection[str]) -> dict[str, dict[str, list[_Process]]]:
    """The processes of some pods, by UID and id of the container."""
    found: dict[str, dict[str, list[_Process]]] = {}
    for pid in (name for name in os.listdir(proc) if name.isdigit()):
        try:
            with open("%s/%s/cgroup" % (proc, pid), encoding="utf-8", errors="replace") as stream:
                groups = stream.read()
            pod = netns.cgroup_pod(groups)
            idents = _IDENT.findall(groups) if pod and pod["uid"] in uids else []
            if not pod or not idents:
                continue
            with open("%s/%s/stat" % (proc, pid), encoding="utf-8", errors="replace") as stream:
                before, _parenthesis, after = stream.read().rpartition(")")
        except OSError:
            continue  # it ended
        state, started = after.split()[0], int(after.split()[19])
        if state not in "ZX":
            one = _Process(started, int(pid), before.partition("(")[2])
            found.setdefault(pod["uid"], {}).setdefault(idents[0], []).append(one)
    return found


def _names(links: str, namespace: str, name: str) -> dict[str, str]:
    """The names of a pod's containers by their ids, which may be cut."""
    try:
        entries = os.listdir(links)
    except OSError:
        return {}
    found = {}
    for entry in entries:
        match = _LINK.match(entry)
        if match and match.groups()[:2] == (name, namespace):
            found[match.group(4)] = match.group(3)
    return found


def find(
    pod: str, container: str | None = None, proc: str = "/proc", logs: str = pods.LOGS, links: str = LINKS
) -> Container:
    """The running container of a pod; without a name the one that has run longest and is not the sandbox."""
    uids = pods.uids(pod, logs)
    if uids is None:
        raise ContainerError(pods.NOT_A_POD % pod)
    if not uids:
        raise ContainerError(
            "The kubelet of this host knows no pod %s (%s has no directory of it). Make it, and see that it runs on "
            "this node" % (pod, logs)
        )
    alive = _processes(proc, uids)
    if not alive:
        raise ContainerError(
            "The pod %s has no process on this host: its sandbox is not there yet, or it has ended. Wait until it is "
            "Running" % pod
        )
    if len(alive) > 1:
        raise ContainerError(pods.SEVERAL % (len(alive), pod, ", ".join(sorted(alive))))
    namespace, _slash, name = pod.partition("/")
    uid = min(alive)
    containers = alive[uid]
    known = _names(links, namespace, name)
    running = []
    for ident, processes in containers.items():
        first = min(processes)
        called = next((text for prefix, text in known.items() if ident.startswith(prefix)), None)
        if called or first.command != _PAUSE:
            running.append((first.started, Container(pod, uid, called, ident, first.pid)))
    if not running:
        raise ContainerError(
            "The pod %s has its sandbox and no running container: its image is still to be pulled, or its containers "
            "have ended. See 'kubectl --namespace %s describe pod %s'" % (pod, namespace, name)
        )
    chosen = [one for _started, one in sorted(running) if container is None or one.name == container]
    if not chosen:
        raise ContainerError(
            "The pod %s has no running container named %s. Running are: %s"
            % (pod, container, ", ".join(sorted(one.name or one.ident[:12] for _started, one in running)))
        )
    return chosen[0]


__all__ = ("LINKS", "Container", "ContainerError", "find")
