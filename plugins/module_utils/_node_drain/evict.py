# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""The eviction of a node's pods, within their budgets and a time limit."""

from __future__ import annotations

import time
import typing as t

from .._kubernetes.client import ApiError, Client, Object, path
from .._net_attach_def import cluster as networks
from . import pods as rules
from .lease import Lease
from .node import DrainError

POLL_S = 1.0
# How long kubectl drain waits after a 429 (evictPods in kubectl's pkg/drain).
AGAIN_S = 5.0


def passing(exc: ApiError) -> bool:
    """Whether a repeated request may be answered differently: the server is away, busy, or was overtaken."""
    return exc.status in (0, 409, 429) or exc.status >= 500


class Eviction:
    """The pods of a node on their way out."""

    def __init__(self, client: Client, params: t.Mapping[str, t.Any], lease: Lease) -> None:
        self.client, self.params, self.lease = client, params, lease
        self.node: str = params["name"]
        self._raw: dict[str, Object] = {}
        self._requests: dict[str, float] = {}
        self._answers: dict[str, str] = {}

    def look(self) -> list[rules.Pod]:
        """Return the node's pods and what becomes of each."""
        query = {"fieldSelector": "spec.nodeName=%s" % self.node}
        raws = self.client.items(path("v1", "pods"), "Listing the pods of node %s" % self.node, query) or []
        attachments: dict[str, Object] | None = None
        if any(rules.names_networks(raw) for raw in raws):
            rows = self.client.items(path(networks.API, networks.PLURAL), "Listing the pods' network attachments")
            if rows is not None:
                attachments = {"%s/%s" % (row["metadata"]["namespace"], row["metadata"]["name"]): row for row in rows}
        self._raw = {str(raw["metadata"]["uid"]): raw for raw in raws}
        pods = [rules.judge(raw, self.params["device_resources"], attachments) for raw in raws]
        return sorted(pods, key=lambda pod: pod.ref)

    def _post(self, pod: rules.Pod, dry_run: bool) -> str:
        """Request an eviction; return why the pod does not go now, empty if it does or has gone."""
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod.name, "namespace": pod.namespace},
            "deleteOptions": {"preconditions": {"uid": pod.uid}},
        }
        where = path("v1", "pods", pod.namespace, pod.name, "eviction")
        try:
            # A budget that does not allow it is answered by 429 too, and is waited for here, for all pods at a time.
            self.client.create(where, body, "Evicting the pod %s" % pod.ref, dry_run=dry_run, patient=False)
        except ApiError as exc:
            # 409: another pod has the name now. In a namespace that is being deleted the pods go without us.
            if exc.status in (404, 409) or (exc.status == 403 and "is being terminated" in str(exc)):
                return ""
            if exc.status != 429:
                raise
            return str(exc)
        return ""

    def rehearse(self, pods: t.Iterable[rules.Pod]) -> list[str]:
        """Try each eviction by a dry run, so that rights and budgets are known before a cordon.

        Return the pods that must wait.
        """
        return [pod.ref for pod in pods if self._post(pod, dry_run=True)]

    def ask(self, pod: rules.Pod) -> None:
        """Request the eviction of a pod, unless that was just done."""
        if time.monotonic() - self._requests.get(pod.uid, float("-inf")) < AGAIN_S:
            return
        self._requests[pod.uid] = time.monotonic()
        try:
            self._answers[pod.uid] = self._post(pod, dry_run=False)
        except ApiError as exc:
            if not passing(exc):
                raise
            self._answers[pod.uid] = str(exc)

    def wait(self) -> None:
        """Repeat the requests until every pod that must go is gone; what has come meanwhile goes by the same rules."""
        ends = time.monotonic() + self.params["drain_timeout"]
        left: list[rules.Pod] = []
        while True:
            trouble = ""
            try:
                self.lease.keep()
                left = [pod for pod in self.look() if pod.action != rules.LEAVE]
                if not left:
                    return
                self._stop_at_newcomers(left)
                for pod in left:
                    if pod.action == rules.EVICT:
                        self.ask(pod)
            except ApiError as exc:
                if not passing(exc):
                    raise
                trouble = str(exc)
            if time.monotonic() >= ends:
                raise DrainError(
                    "Draining node %s: not finished after drain_timeout (%d s). %s"
                    % (self.node, self.params["drain_timeout"], trouble or self._why(left))
                )
            time.sleep(POLL_S)

    def _stop_at_newcomers(self, pods: t.Iterable[rules.Pod]) -> None:
        bars = rules.blocked(pods, self.params)
        if bars:
            raise DrainError("Draining node %s: new pods block the drain: %s" % (self.node, "; ".join(bars)))

    def _why(self, pods: t.Iterable[rules.Pod]) -> str:
        rows = []
        for pod in pods:
            text = "%s %s" % (pod.ref, pod.why)
            if pod.action == rules.EVICT:
                text = "%s under %s: %s" % (
                    pod.ref,
                    self._budgets(pod),
                    self._answers.get(pod.uid) or "its eviction was not requested yet",
                )
            rows.append(text)
        return "Still there: %s. Make the budgets allow it, delete these pods, or allow more time" % "; ".join(rows)

    def _budgets(self, pod: rules.Pod) -> str:
        doing = "Listing the PodDisruptionBudgets of %s" % pod.namespace
        try:
            budgets = self.client.items(path("policy/v1", "poddisruptionbudgets", pod.namespace), doing) or []
        except ApiError as exc:
            return "unknown budgets (%s)" % exc
        labels = (self._raw.get(pod.uid) or {"metadata": {}})["metadata"].get("labels") or {}
        return ", ".join(rules.budgets_of(labels, budgets)) or "no PodDisruptionBudget"


__all__ = ("Eviction", "passing")
