# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.
"""Pods of this node, without asking the API server or the container runtime."""

from __future__ import annotations

import json
import os
import re
import typing as t

from .._errors import FabricError
from . import cgroups

__all__ = ("CLAIMS", "LOGS", "PodError", "Process", "claims", "first", "names")

# The kubelet makes NAMESPACE_NAME_UID for every pod (BuildPodLogsDirectory() in pkg/kubelet/kuberuntime/helpers.go);
# neither a namespace nor a pod's name can have a "_".
LOGS = "/var/log/pods"
_ENTRY = re.compile(r"([^_]+)_([^_]+)_([0-9a-f-]+)\Z")


def names(logs: str = LOGS) -> dict[str, tuple[str, str]]:
    """Namespace and name of each pod by its UID; pods of before may be among them."""
    try:
        entries = os.listdir(logs)
    except OSError:
        return {}
    pods = {}
    for entry in entries:
        match = _ENTRY.match(entry)
        if match:
            pods[match.group(3)] = (match.group(1), match.group(2))
    return pods


# What the kubelet has prepared for claims: draManagerStateFileName and state/checkpoint.go in pkg/kubelet/cm/dra.
CLAIMS = "/var/lib/kubelet/dra_manager_state"


def claims(state: str = CLAIMS) -> dict[str, list[str]]:
    """NAMESPACE/NAME of the claims of each pod by its UID; none if the kubelet keeps none, or in another form."""
    try:
        with open(state, encoding="utf-8") as stream:
            rows = json.loads(json.load(stream)["Data"])["ClaimInfoStateList"] or []
        found: dict[str, list[str]] = {}
        for row in rows:
            for uid in row["PodUIDs"]:
                found.setdefault(uid, []).append("%s/%s" % (row["Namespace"], row["ClaimName"]))
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    return found


class PodError(FabricError):
    """This node has no such pod; the text names what was looked for, and what unblocks it."""


class Process(t.NamedTuple):
    """A process of a pod."""

    started: int
    pid: int
    uid: str  # the pod's


def _processes(proc: str, known: t.Collection[str]) -> t.Iterator[Process]:
    for pid in (name for name in os.listdir(proc) if name.isdigit()):
        try:
            with open("%s/%s/cgroup" % (proc, pid), encoding="utf-8", errors="replace") as stream:
                groups = stream.read()
            pod = cgroups.cgroup_pod(groups)
            if not pod or pod["uid"] not in known or not cgroups.containers(groups):
                continue
            with open("%s/%s/stat" % (proc, pid), encoding="utf-8", errors="replace") as stream:
                fields = stream.read().rpartition(")")[2].split()
        except OSError:
            continue  # it ended
        if fields[0] not in "ZX":
            yield Process(int(fields[19]), int(pid), pod["uid"])


def first(pod: str, proc: str = "/proc", logs: str = LOGS) -> Process:
    """The process of a pod that has run longest: its sandbox, or its first container if it has none."""
    namespace, _slash, name = pod.partition("/")
    if not namespace or not name or "/" in name:
        raise PodError("'%s' is not the name of a pod: write NAMESPACE/NAME" % pod)
    known = {uid for uid, names_of in names(logs).items() if names_of == (namespace, name)}
    if not known:
        raise PodError(
            "The kubelet of this host has no pod %s (%s has no directory of it). Create it, and make sure that it runs "
            "on this node" % (pod, logs)
        )
    alive = sorted(_processes(proc, known))
    if not alive:
        raise PodError(
            "The pod %s has no process on this host: its sandbox does not exist yet, or it has ended. Wait until it is "
            "Running" % pod
        )
    alive_uids = sorted({process.uid for process in alive})
    if len(alive_uids) > 1:
        raise PodError(
            "There are %d pods %s on this host (UIDs %s): one of them is terminating. Wait until it is gone"
            % (len(alive_uids), pod, ", ".join(alive_uids))
        )
    return alive[0]
