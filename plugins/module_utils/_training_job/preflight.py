# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""What besides room keeps the pods of a job from starting: quota, queue, addresses, what they refer to, admission."""

from __future__ import annotations

import decimal
import typing as t

from .._claims import manage as claims
from .._claims import template
from .._cni import config as cni
from .._cni.ranges import Span, ranges
from .._kubernetes.client import ApiError, Client, Object, path
from .._net_attach_def.cluster import API, PLURAL, Cluster
from .._whereabouts.allocations import Pool, read_pool
from . import kueue, runtime
from .findings import Findings
from .kinds import GROUPS
from .pod import JOB, NETWORKS
from .room import Amounts, amounts, number, requests

Pods = t.Sequence[t.Tuple[int, Object]]

# Where a pod's volume names an object: {key of the volume: (key of the name, kind, plural)}.
_VOLUMES = {
    "persistentVolumeClaim": ("claimName", "PersistentVolumeClaim", "persistentvolumeclaims"),
    "configMap": ("name", "ConfigMap", "configmaps"),
    "secret": ("secretName", "Secret", "secrets"),
}


def attachments(pods: Pods, namespace: str) -> dict[tuple[str, str], int]:
    """Return the attachments that pods name, and how many pods each has: {(namespace, name): pods}."""
    counts: dict[tuple[str, str], int] = {}
    for count, pod in pods:
        text = (pod["metadata"].get("annotations") or {}).get(NETWORKS, "")
        for entry in filter(None, text.split(",")):
            space, slash, name = entry.partition("@")[0].rpartition("/")
            key = (space if slash else namespace, name)
            counts[key] = counts.get(key, 0) + count
    return counts


def totals(pods: Pods) -> Amounts:
    """Return what pods request together."""
    amount_of: Amounts = {}
    for count, pod in pods:
        for name, amount in requests(pod["spec"]).items():
            amount_of[name] = amount_of.get(name, decimal.Decimal(0)) + amount * count
    return amount_of


def quota_needs(pods: Pods) -> Amounts:
    """Return what a ResourceQuota counts for pods, by all the names that it has for that."""
    requested = totals(pods)
    needs = {"count/pods": requested["pods"]}
    needs.update({"requests." + name: amount for name, amount in requested.items()})
    # Extended resources have a quota for requests only (core.IsQuotaHugePageResourceName and its kind).
    needs.update({name: amount for name, amount in requested.items() if "/" not in name})
    for count, pod in pods:
        for container in pod["spec"]["containers"]:
            for name, amount in amounts((container.get("resources") or {}).get("limits")).items():
                key = "limits." + name
                needs[key] = needs.get(key, decimal.Decimal(0)) + amount * count
    return needs


def references(pods: Pods) -> list[tuple[str, str, str]]:
    """Return the objects that pods refer to: (kind, plural, name)."""
    names: dict[tuple[str, str, str], None] = {}
    for _count, pod in pods:
        for volume in pod["spec"].get("volumes") or []:
            for key, (key_of_name, kind, plural) in _VOLUMES.items():
                if key in volume:
                    names[kind, plural, volume[key][key_of_name]] = None
        for secret in pod["spec"].get("imagePullSecrets") or []:
            names["Secret", "secrets", secret["name"]] = None
    return list(names)


def claim_templates(pods: Pods) -> list[str]:
    """Return the templates by which pods claim devices."""
    rows = [row for _count, pod in pods for row in pod["spec"].get("resourceClaims") or []]
    return list(dict.fromkeys(row["resourceClaimTemplateName"] for row in rows if "resourceClaimTemplateName" in row))


def queues(manifests: t.Sequence[Object]) -> set[str]:
    """Return the queues of Volcano that the manifests of a job name."""
    names = set()
    for manifest in manifests:
        spec = manifest.get("spec") or {}
        if manifest["apiVersion"].partition("/")[0] in ("scheduling.volcano.sh", "batch.volcano.sh"):
            names.add(spec.get("queue"))
        elif any(pod["spec"].get("schedulerName") == "volcano" for pod in _replicas(spec)):
            names.add(((spec.get("runPolicy") or {}).get("schedulingPolicy") or {}).get("queue"))
    return {name for name in names if name}


def _replicas(spec: Object) -> list[Object]:
    parts = spec.get("mpiReplicaSpecs") or spec.get("pytorchReplicaSpecs") or {}
    return [part["template"] for part in parts.values()]


class Preflight(Findings):
    """The questions to the API server about a job."""

    def __init__(self, client: Client, doing: str, namespace: str, manifests: t.Sequence[Object], pods: Pods) -> None:
        super().__init__(client, doing)
        self.namespace, self.manifests, self.pods = namespace, manifests, pods
        self._attachments: dict[str, Object] = {}

    def missing_attachments(self) -> list[str]:
        """Return the attachments that do not exist; those that could be read are kept for ``run``."""
        missing = []
        for space, name in attachments(self.pods, self.namespace):
            key = "%s/%s" % (space, name)
            try:
                live = self.read("the attachment %s" % key, self._get, path(API, PLURAL, space, name))
            except ApiError as exc:
                if not exc.missing:
                    raise
                missing.append(key)
                continue
            if live is not None:
                self._attachments[key] = live
        return missing

    def run(self) -> None:
        self._references()
        self._queues()
        self._kueue()
        self._runtime()
        self._claims()
        self._quotas()
        self._addresses()
        # The API server would say the same as above of the first pod.
        if not self.problems:
            self._admission()

    def _get(self, where: str, doing: str) -> Object:
        return self.client.request("GET", where, doing)

    def _references(self) -> None:
        created = {(manifest["kind"], manifest["metadata"]["name"]) for manifest in self.manifests}
        # The job's own keys come with it.
        created.add(("Secret", "%s-ssh" % self.manifests[-1]["metadata"]["labels"][JOB]))
        for kind, plural, name in references(self.pods):
            if (kind, name) in created:
                continue
            where = path("v1", plural, self.namespace, name)
            text = "%s %s/%s" % (kind, self.namespace, name)
            try:
                live = self.read(text, self._get, where)
            except ApiError as exc:
                if not exc.missing:
                    raise
                self.problems.append("%s does not exist, and the pods use it" % text)
                continue
            if live and (live.get("status") or {}).get("phase") == "Lost":
                self.problems.append("%s has lost its volume" % text)

    def _queues(self) -> None:
        version = GROUPS["volcano"][0]
        names = sorted(queues(self.manifests))
        if not names or not self.client.resources(version):  # reported as a kind that is not served
            return
        for name in names:
            queue = self.find("the queue %s" % name, path(version, "queues", None, name))
            if queue is None:
                continue
            state = (queue.get("status") or {}).get("state") or "Open"
            if state != "Open":
                self.problems.append("the queue %s is %s, and takes no jobs" % (name, state))
            capability = amounts((queue.get("spec") or {}).get("capability"))
            self._compare("the queue %s" % name, capability, {}, totals(self.pods))

    def _kueue(self) -> None:
        name = kueue.queue_of(self.manifests)
        if name:
            kueue.check(self, self.namespace, name, totals(self.pods))

    def _runtime(self) -> None:
        for manifest in self.manifests:
            if manifest["kind"] == "TrainJob":
                ((_count, pod),) = self.pods
                runtime.check(self, self.namespace, manifest["spec"], pod)

    def _claims(self) -> None:
        """Ask whether any node has devices for the pods' claims; otherwise they would wait for them for ever."""
        found = []
        for name in claim_templates(self.pods):
            text = "ResourceClaimTemplate %s/%s" % (self.namespace, name)
            live = self.find(text, path(claims.API, "resourceclaimtemplates", self.namespace, name))
            found += [] if live is None else [template.read(live)]
        if not found:
            return
        look = self.read("the devices for the pods' claims", lambda _where, _doing: claims.look(self.client, found), "")
        results, unknown = look or ([], [])
        for finding in [finding for result in results for finding in result.findings]:
            (self.problems if finding.level == "error" else self.warnings).append(str(finding))
        self.unchecked += [str(row["what"]) for row in unknown]

    def _quotas(self) -> None:
        where = path("v1", "resourcequotas", self.namespace)
        text = "the quotas of %s" % self.namespace
        for quota in self.read(text, self.client.items, where) or []:
            name, spec = quota["metadata"]["name"], quota.get("spec") or {}
            if spec.get("scopes") or spec.get("scopeSelector"):
                self.unchecked.append("the quota %s, which is for some pods only (scopes)" % name)
                continue
            used = amounts((quota.get("status") or {}).get("used"))
            self._compare("the quota %s" % name, amounts(spec.get("hard")), used, quota_needs(self.pods))

    def _compare(self, owner: str, hard: Amounts, used: Amounts, needs: Amounts) -> None:
        for name in sorted(set(hard) & set(needs)):
            free = hard[name] - used.get(name, decimal.Decimal(0))
            if needs[name] > free:
                numbers = (owner, name, number(needs[name]), number(free), number(hard[name]))
                self.problems.append("%s leaves too little: %s: %s wanted, %s free of %s" % numbers)

    def _addresses(self) -> None:
        """Compare the free addresses of whereabouts' pools with the pods that each is to give one."""
        needs: dict[str, int] = {}
        groups: dict[str, list[Span]] = {}
        for (space, name), count in attachments(self.pods, self.namespace).items():
            key = "%s/%s" % (space, name)
            text = (self._attachments.get(key, {}).get("spec") or {}).get("config")
            if not text:  # missing or not readable, which is reported by itself, or a file of the node
                continue
            try:
                parts = ranges(cni.parse(text)).groups
            except cni.ConfigError as exc:
                self.problems.append("attachment %s: %s" % (key, exc))
                continue
            for group in parts:
                if any(span.sliced for span in group):
                    self.unchecked.append("the addresses of %s, which each node has a pool of its own for" % key)
                elif group[0].pool:
                    names = "+".join(str(span.pool) for span in group)
                    needs[names] = needs.get(names, 0) + count
                    groups[names] = group
        pools = self._pools() if groups else None
        if pools is not None:
            for names, group in groups.items():
                self._compare_pool(group, pools, needs[names])

    def _pools(self) -> dict[str, Pool] | None:
        cluster = Cluster(self.client)
        rows = cluster.pools()
        if rows is None:
            self.unchecked.append("the addresses that are free (%s)" % "; ".join(cluster.why.values()))
            return None
        pools = [read_pool(row, ())[0] for row in rows]
        return {pool.name: pool for pool in pools if pool}

    def _compare_pool(self, group: t.Sequence[Span], pools: t.Mapping[str, Pool], need: int) -> None:
        size = sum(span.size() for span in group)
        holders = [
            allocation.podref
            for span in group
            if span.pool in pools
            for allocation in pools[str(span.pool)].allocations
            if span.holds(allocation.address)
        ]
        free = size - len(holders)
        if free < need:
            text = " and ".join(span.text for span in group)
            users = ", held by %s" % ", ".join(sorted(set(holders))[:8]) if holders else ""
            self.problems.append("%s: %d addresses wanted, %d free of %d%s" % (text, need, free, size, users))

    def _admission(self) -> None:
        """Let the API server check a pod of each kind that the job has, without creating it."""
        for _count, pod in self.pods:
            meta = {key: value for key, value in pod["metadata"].items() if key != "name"}
            meta.update(generateName="preflight-", namespace=self.namespace)
            body = {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": meta,
                "spec": {"restartPolicy": "Never", **pod["spec"]},
            }
            doing = "%s: asking for its pods, without creating them" % self.doing
            try:
                self.client.create(path("v1", "pods", self.namespace), body, doing, dry_run=True)
            except ApiError as exc:
                text = self.answer(exc)
                if "cannot create resource" in text or "does not support dry run" in text:
                    self.unchecked.append("whether the API server admits the pods (%s)" % text)
                elif exc.status in (400, 403, 422):
                    self.problems.append("the API server would not admit its pods: %s" % text)
                else:
                    raise
                return


__all__ = ("Preflight", "attachments", "queues", "quota_needs", "references", "totals")
