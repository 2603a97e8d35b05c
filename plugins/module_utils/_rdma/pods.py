# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.
"""Pods of this node, without asking the API server or the container runtime."""

from __future__ import annotations

import os
import re

__all__ = ("LOGS", "names")

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
    found = {}
    for entry in entries:
        match = _ENTRY.match(entry)
        if match:
            found[match.group(3)] = (match.group(1), match.group(2))
    return found
