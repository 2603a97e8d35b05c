# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.
"""Pods of this node, without asking the API server or the container runtime."""

from __future__ import annotations

import os
import re

__all__ = ("LOGS", "NOT_A_POD", "SEVERAL", "names", "uids")

# The kubelet makes NAMESPACE_NAME_UID for every pod (BuildPodLogsDirectory() in pkg/kubelet/kuberuntime/helpers.go);
# neither a namespace nor a pod's name can have a "_".
LOGS = "/var/log/pods"
NOT_A_POD = "'%s' is no pod: it has to be NAMESPACE/NAME"
SEVERAL = "There are %d pods %s on this host (UIDs %s): one of them is ending. Wait until it is gone"
_ENTRY = re.compile(r"([^_]+)_([^_]+)_([0-9a-f-]+)\Z")


def names(logs: str = LOGS) -> dict[str, tuple[str, str]]:
    """Namespace and name of each pod by its UID; pods of before may be among them."""
    try:
        entries = os.listdir(logs)
    except OSError:
        return {}
    found = {}
    for entry in entries:
        match = _ENTRY.match(entry)
        if match:
            found[match.group(3)] = (match.group(1), match.group(2))
    return found


def uids(pod: str, logs: str = LOGS) -> set[str] | None:
    """The UIDs that this node has known a pod by; None where that is not NAMESPACE/NAME."""
    namespace, slash, name = pod.partition("/")
    if not (namespace and slash and name) or "/" in name:
        return None
    return {uid for uid, known in names(logs).items() if known == (namespace, name)}
