# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""Kueue: the queue of a job, whether it can ever hold the job, and why the job waits there.

A job names a LocalQueue of its namespace, which belongs to a ClusterQueue, which has the quotas
(apis/kueue/v1beta2 of kueue v0.17.0).
"""

from __future__ import annotations

import decimal
import typing as t

from .._kubernetes.client import ApiError, Client, Object, path
from .findings import Findings
from .kinds import POD_GROUP, QUEUE
from .room import Amounts, amounts, number

GROUP = "kueue.x-k8s.io"
# The newest first.
_VERSIONS = ("v1beta2", "v1beta1")
# On the Workload that Kueue makes for a job (JobUIDLabel in pkg/controller/constants).
_JOB_UID = "kueue.x-k8s.io/job-uid"


def queue_of(manifests: t.Sequence[Object]) -> str | None:
    """Return the queue that the manifests of a job name."""
    queues = [(manifest["metadata"].get("labels") or {}).get(QUEUE) for manifest in manifests]
    return next(filter(None, queues), None)


def api_version(client: Client) -> str | None:
    """Return the newest version of Kueue's API that the API server serves."""
    versions = ("%s/%s" % (GROUP, version) for version in _VERSIONS)
    return next((version for version in versions if client.resources(version)), None)


def _condition(body: Object, kind: str) -> Object:
    rows = (body.get("status") or {}).get("conditions") or []
    return next((row for row in rows if row.get("type") == kind), {})


def quotas(cluster_queue: Object) -> Amounts:
    """Return the nominal quotas of a ClusterQueue, those of all its flavors together."""
    total: Amounts = {}
    for group in (cluster_queue.get("spec") or {}).get("resourceGroups") or []:
        for flavor in group["flavors"]:
            rows = {row["name"]: row["nominalQuota"] for row in flavor["resources"]}
            for name, amount in amounts(rows).items():
                total[name] = total.get(name, decimal.Decimal(0)) + amount
    return total


def compare(name: str, cluster_queue: Object, needs: Amounts) -> tuple[list[str], list[str]]:
    """Return what exceeds the quota of a queue, and what its ClusterQueue does not show."""
    spec, limits = cluster_queue.get("spec") or {}, quotas(cluster_queue)
    # v1beta1 has `cohort`. What its queues lend each other changes with every job.
    lent = spec.get("cohortName") or spec.get("cohort")
    owner = "the queue %s (ClusterQueue %s)" % (name, cluster_queue["metadata"]["name"])
    problems = [
        "%s can never hold it: %s: %s wanted, the quota is %s"
        % (owner, resource, number(needs[resource]), number(limits[resource]))
        for resource in sorted(set(limits) & set(needs))
        if needs[resource] > limits[resource] and not lent
    ]
    unlimited = sorted(set(needs) - set(limits) - {"pods"})
    unchecked = []
    if unlimited:
        unchecked.append(
            "whether %s admits %s: it has no quota for that, and then admits the job only if Kueue's configuration "
            "leaves it out (excludeResourcePrefixes)" % (owner, ", ".join(unlimited))
        )
    return problems, unchecked


def check(findings: Findings, namespace: str, name: str, needs: Amounts) -> None:
    """Find what keeps a job from ever leaving its queue."""
    version = api_version(findings.client)
    if version is None:  # reported as a kind that is not served
        return
    text = "the queue %s/%s" % (namespace, name)
    queue = findings.find(text, path(version, "localqueues", namespace, name))
    if queue is None:
        return
    active = _condition(queue, "Active")
    if active.get("status") == "False":
        findings.problems.append("%s admits no jobs: %s" % (text, active.get("message") or active.get("reason")))
        return
    owner = queue["spec"]["clusterQueue"]
    text = "the ClusterQueue %s of the queue %s" % (owner, name)
    cluster_queue = findings.find(text, path(version, "clusterqueues", None, owner))
    if cluster_queue is not None:
        problems, unchecked = compare(name, cluster_queue, needs)
        findings.problems += problems
        findings.unchecked += unchecked


def waiting(
    client: Client, version: str, doing: str, namespace: str, job: Object | None, pods: t.Sequence[Object]
) -> str | None:
    """Return why Kueue has not admitted a job that has a queue; None if it has.

    ``job`` is None for a job of pods, whose Workload has the name of their group.
    """
    bodies = [body for body in (job, *pods) if body]
    name = queue_of(bodies)
    where = path(version, "workloads", namespace)
    query = {"labelSelector": "%s=%s" % (_JOB_UID, job["metadata"]["uid"])} if job else None
    try:
        rows = client.items(where, "%s: reading why it waits in the queue %s" % (doing, name), query) or []
    except ApiError as exc:
        if exc.status != 403:
            raise
        return "in the queue %s (%s)" % (name, exc)
    if not job:
        group = bodies[0]["metadata"]["labels"].get(POD_GROUP)
        rows = [row for row in rows if row["metadata"]["name"] == group]
    if not rows:
        return "in the queue %s, which Kueue has not looked at" % name
    if _condition(rows[0], "Admitted").get("status") == "True":
        return None
    reason = _condition(rows[0], "QuotaReserved").get("message") or "it gives no reason"
    return "waits in the queue %s: %s" % (name, " ".join(reason.split()))


__all__ = ("GROUP", "api_version", "check", "compare", "queue_of", "quotas", "waiting")
