# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""The state that a ClusterPolicy, a GPUCluster or an NVIDIADriver reports, and the wait until it is ready."""

from __future__ import annotations

import typing as t

from .._errors import FabricError
from .cluster import DRIVER
from .model import OperatorError

if t.TYPE_CHECKING:  # pragma: no cover
    from .compare import Key
    from .model import Host

# The operator answers a changed ClusterPolicy or GPUCluster within a second by leaving the state ready; a state ready
# that it had before the change proves nothing, and the status has no generation to compare.
STEADY_S = 5
_POLL_S = 2


def reported(document: t.Mapping[str, t.Any] | None, name: str) -> dict[str, t.Any]:
    """Return what an object of the operator reports."""
    status = (document or {}).get("status") or {}
    messages = [
        "%s: %s" % (condition.get("reason") or condition.get("type"), condition["message"])
        for condition in status.get("conditions") or []
        if condition.get("message") and (condition.get("type") != "Ready" or condition.get("status") != "True")
    ]
    return {"name": name, "state": status.get("state") or None, "message": "; ".join(messages)}


def wait_until_ready(key: Key, namespace: str, limit: int, steady: int, host: Host) -> dict[str, t.Any]:
    """Wait until a ClusterPolicy or a GPUCluster is ready, and has been for ``steady`` seconds."""
    began = host.now()
    ready_since: float | None = None
    while True:
        document = host.cluster.read(key)
        state = reported(document, key.name)
        now = host.now()
        if document is not None and state["state"] == "ready":
            ready_since = now if ready_since is None else ready_since
            if now - ready_since >= steady:
                return state
        else:
            ready_since = None
        if now - began >= limit:
            raise OperatorError(
                "Waiting for the %s to be ready: after %d s its state is %s%s%s. The release is in place. "
                "Look at the pods of the operator's namespace (kubectl get pods -n %s), raise wait_timeout, or set "
                "wait to false"
                % (
                    key,
                    limit,
                    "missing" if document is None else state["state"] or "not set (does the operator run?)",
                    ", and the operator says: " + state["message"] if state["message"] else "",
                    _drivers(host),
                    namespace,
                )
            )
        host.sleep(min(_POLL_S, max(0.1, steady)))


def _drivers(host: Host) -> str:
    """Return the NVIDIADrivers that are not ready, for which the pods of the other operands wait."""
    texts = []
    try:
        documents = host.cluster.all_of(DRIVER)
    except FabricError as exc:
        return "; whether the NVIDIADrivers are ready cannot be determined: %s" % exc
    for document in documents:
        driver = reported(document, document["metadata"]["name"])
        if driver["state"] != "ready":
            message = " (%s)" % driver["message"] if driver["message"] else ""
            texts.append(
                "; the NVIDIADriver %s is %s%s" % (driver["name"], driver["state"] or "without a state", message)
            )
    return "".join(texts)


__all__ = ("STEADY_S", "reported", "wait_until_ready")
