# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""Hooks of a chart that helm waits for: which Job does not start, and why.

helm itself says nothing until its time is over.
"""

from __future__ import annotations

import typing as t

from .._errors import FabricError
from .._kubernetes.client import path

if t.TYPE_CHECKING:  # pragma: no cover
    from .._kubernetes.client import Client, Object

HOOK = "helm.sh/hook"
# The Job controller sets both; the older one has no prefix.
_JOB_LABELS = ("batch.kubernetes.io/job-name", "job-name")
# A container waits for these as long as all is well: its image is being pulled, or init containers run.
_USUAL = (None, "", "ContainerCreating", "PodInitializing")


class Watch:
    """Looks at the hooks of a namespace while helm runs; ``say`` gets each new reason why one does not start."""

    def __init__(self, client: Client, namespace: str, say: t.Callable[[str], None]) -> None:
        self.client = client
        self.namespace = namespace
        self.say = say
        # Why hooks wait, as far as it was known at the last look.
        self.text = ""
        self._said = ""

    def look(self) -> None:
        """Read the Jobs and their pods; helm goes on if they cannot be read."""
        try:
            self.text = text = "; ".join(self._reasons())
        except FabricError as exc:
            self.text, text = "", "Whether a hook's Job waits cannot be determined: %s" % exc
        if text and text != self._said:
            self.say(text)
        self._said = text

    def _reasons(self) -> list[str]:
        doing = "Listing the hooks' Jobs in the namespace %s" % self.namespace
        jobs = self.client.items(path("batch/v1", "jobs", self.namespace), doing) or []
        jobs = [job for job in jobs if _is_unfinished_hook(job)]
        if not jobs:
            return []
        doing = "Listing the pods of hooks in the namespace %s" % self.namespace
        pods = self.client.items(path("v1", "pods", self.namespace), doing) or []
        return [reason for reason in (_reason(job, pods, self.namespace) for job in jobs) if reason]


def _is_unfinished_hook(job: Object) -> bool:
    conditions = (job.get("status") or {}).get("conditions") or []
    ended = any(each["type"] in ("Complete", "Failed") and each["status"] == "True" for each in conditions)
    return HOOK in (job["metadata"].get("annotations") or {}) and not ended


def _reason(job: Object, pods: t.Iterable[Object], namespace: str) -> str:
    """Return why a hook's Job does not get ahead, nothing if it does."""
    name = job["metadata"]["name"]
    when = job["metadata"]["annotations"][HOOK]
    about = "The %s hook's Job %s/%s waits" % (when, namespace, name)
    own = [pod for pod in pods if any((pod["metadata"].get("labels") or {}).get(key) == name for key in _JOB_LABELS)]
    if not own:
        return "%s: it has no pod (kubectl describe job -n %s %s lists the reasons)" % (about, namespace, name)
    reasons = [(pod["metadata"]["name"], _pod_reason(pod)) for pod in own]
    blocked = ["its pod %s %s" % (pod, reason) for pod, reason in reasons if reason]
    return "%s: %s" % (about, ", ".join(blocked)) if blocked else ""


def _pod_reason(pod: Object) -> str:
    status = pod.get("status") or {}
    if status.get("phase") == "Failed":
        return "failed%s" % _with(status.get("message"))
    for condition in status.get("conditions") or []:
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return "is not scheduled%s" % _with(condition.get("message") or condition.get("reason"))
    for container in (status.get("initContainerStatuses") or []) + (status.get("containerStatuses") or []):
        waiting = (container.get("state") or {}).get("waiting") or {}
        if waiting.get("reason") not in _USUAL:
            return "does not start, %s%s" % (waiting["reason"], _with(waiting.get("message")))
    return ""


def _with(message: str | None) -> str:
    return ": %s" % " ".join(message.split()) if message else ""


__all__ = ("HOOK", "Watch")
