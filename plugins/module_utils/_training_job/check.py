# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""Whether a training job can start: the kinds are served, the attachments there, and all pods have room at once."""

from __future__ import annotations

import decimal
import typing as t

from .._decision import DRIFT, UNKNOWN, resource
from .._kubernetes.client import ApiError, Client, Object, path
from .._net_attach_def.cluster import API, PLURAL
from .manage import JOB, NETWORKS, SPEC, templates
from .options import JobError

Amounts = t.Dict[str, decimal.Decimal]
_ENDED = ("Succeeded", "Failed")
_OBSERVED = 8


class Node(t.NamedTuple):
    """A node as far as pods are put on it."""

    name: str
    labels: dict[str, str]
    taints: list[Object]
    closed: str  # why no pod is put on it at all; "" if pods are
    there: Amounts
    used: Amounts
    users: dict[str, list[str]]  # resource -> pods

    def free(self, name: str) -> decimal.Decimal:
        return self.there.get(name, decimal.Decimal(0)) - self.used.get(name, decimal.Decimal(0))


def amounts(values: t.Mapping[str, t.Any] | None) -> Amounts:
    from kubernetes.utils.quantity import parse_quantity

    return {name: decimal.Decimal(parse_quantity(value)) for name, value in (values or {}).items()}


def requests(spec: Object) -> Amounts:
    """Return what the scheduler counts for a pod: the sum of its containers, or its greatest init container."""
    total: Amounts = {"pods": decimal.Decimal(1)}
    for container in spec.get("containers") or []:
        for name, amount in _requests(container).items():
            total[name] = total.get(name, decimal.Decimal(0)) + amount
    for container in spec.get("initContainers") or []:
        for name, amount in _requests(container).items():
            total[name] = max(total.get(name, decimal.Decimal(0)), amount)
    return total


def _requests(container: Object) -> Amounts:
    resources = container.get("resources") or {}
    # Extended resources may be given as limits alone, which then are the requests.
    return amounts({**(resources.get("limits") or {}), **(resources.get("requests") or {})})


def survey(nodes: t.Sequence[Object], pods: t.Sequence[Object]) -> list[Node]:
    """Return what the nodes have, and what pods use of it."""
    by_name: dict[str, Node] = {}
    for manifest in nodes:
        spec, status, meta = manifest.get("spec") or {}, manifest.get("status") or {}, manifest["metadata"]
        ready = [cond for cond in status.get("conditions") or [] if cond.get("type") == "Ready"]
        closed = "cordoned" if spec.get("unschedulable") else ""
        if not ready or ready[0].get("status") != "True":
            closed = "not ready"
        taints = [taint for taint in spec.get("taints") or [] if taint.get("effect") in ("NoSchedule", "NoExecute")]
        there = amounts(status.get("allocatable"))
        by_name[meta["name"]] = Node(meta["name"], meta.get("labels") or {}, taints, closed, there, {}, {})
    for pod in pods:
        node = by_name.get((pod.get("spec") or {}).get("nodeName") or "")
        if node is None or (pod.get("status") or {}).get("phase") in _ENDED:
            continue
        for name, amount in requests(pod["spec"]).items():
            node.used[name] = node.used.get(name, decimal.Decimal(0)) + amount
            node.users.setdefault(name, []).append("%(namespace)s/%(name)s" % pod["metadata"])
    return list(by_name.values())


def tolerated(taint: Object, tolerations: t.Sequence[Object]) -> bool:
    """Whether one of the tolerations is for a taint (ToleratesTaint in k8s.io/api)."""
    for toleration in tolerations:
        if toleration.get("effect") and toleration["effect"] != taint.get("effect"):
            continue
        if toleration.get("operator") == "Exists" and toleration.get("key") in (None, "", taint.get("key")):
            return True
        if toleration.get("key") == taint.get("key") and (toleration.get("value") or "") == (taint.get("value") or ""):
            return True
    return False


def obstacles(node: Node, pod: Object) -> list[str]:
    """Return why one more pod cannot be put on a node; empty if it can."""
    spec = pod["spec"]
    if node.closed:
        return [node.closed]
    selector = spec.get("nodeSelector") or {}
    reasons = [
        "label %s is %s, but must be %s" % (key, node.labels.get(key, "missing"), value)
        for key, value in selector.items()
        if node.labels.get(key) != value
    ]
    for taint in node.taints:
        if not tolerated(taint, spec.get("tolerations") or []):
            text = "=%s" % taint["value"] if taint.get("value") else ""
            reasons.append("taint %s%s:%s is not tolerated" % (taint["key"], text, taint["effect"]))
    for name, amount in sorted(requests(spec).items()):
        if node.free(name) < amount:
            reasons.append(_short(node, name, amount))
    return reasons


def _short(node: Node, name: str, amount: decimal.Decimal) -> str:
    there, users = node.there.get(name, decimal.Decimal(0)), node.users.get(name, [])
    if not there:
        return "no %s" % name
    text = "%s: %s wanted, %s free of %s" % (name, _number(amount), _number(node.free(name)), _number(there))
    if name in ("pods", "cpu", "memory") or not users:
        return text
    more = " and %d more" % (len(users) - _OBSERVED) if len(users) > _OBSERVED else ""
    return "%s, used by %s%s" % (text, ", ".join(users[:_OBSERVED]), more)


def _number(value: decimal.Decimal) -> str:
    return format(value.normalize(), "f")


def place(nodes: t.Sequence[Node], pods: t.Sequence[tuple[int, Object]]) -> dict[str, t.Any]:
    """Return where the pods of a job would find room together, and what each other node lacks.

    Largest pods first, each on the first node that has room: pods of a job are alike, so this is not a guess.
    """
    placed: dict[str, int] = {}
    short: dict[str, list[str]] = {}
    missing = 0
    order = sorted(pods, key=lambda entry: -len(requests(entry[1]["spec"])))
    taken: set[str] = set()
    for count, pod in order:
        apart = bool((pod["spec"].get("affinity") or {}).get("podAntiAffinity"))
        left = count
        for node in nodes:
            while left and not (apart and node.name in taken):
                why = obstacles(node, pod)
                if why:
                    short.setdefault(node.name, why)
                    break
                for name, amount in requests(pod["spec"]).items():
                    node.used[name] = node.used.get(name, decimal.Decimal(0)) + amount
                placed[node.name] = placed.get(node.name, 0) + 1
                left -= 1
                if apart:
                    taken.add(node.name)
        missing += left
    return {"placed": placed, "missing": missing, "short": {name: short[name] for name in short if name not in placed}}


def describe(pods: t.Sequence[tuple[int, Object]]) -> str:
    """Return how many pods with what, pods that need the same counted together."""
    counts: dict[str, int] = {}
    for count, pod in pods:
        needs = ["%s=%s" % (name, _number(n)) for name, n in sorted(requests(pod["spec"]).items()) if name != "pods"]
        text = ", ".join(needs) or "no resources"
        counts[text] = counts.get(text, 0) + count
    return " and ".join("%d with %s" % (count, text) for text, count in counts.items())


def attachments(pods: t.Sequence[tuple[int, Object]], namespace: str) -> list[tuple[str, str]]:
    """Return the attachments that pods name: (namespace, name)."""
    names: dict[tuple[str, str], None] = {}
    for _count, pod in pods:
        text = (pod["metadata"].get("annotations") or {}).get(NETWORKS, "")
        for entry in filter(None, text.split(",")):
            space, slash, name = entry.partition("@")[0].rpartition("/")
            names[(space if slash else namespace, name)] = None
    return list(names)


class Check:
    """The questions to the API server."""

    def __init__(self, params: t.Mapping[str, t.Any], client: Client) -> None:
        self.client, self.manifests = client, params["objects"]
        if not self.manifests:
            raise JobError("Checking the job: no objects were given. Give those that the filter training_job returns")
        meta = self.manifests[-1]["metadata"]
        self.namespace: str = meta["namespace"]
        self.job = "%s/%s" % (self.namespace, meta["labels"][JOB])
        self.doing = "Checking the job %s" % self.job
        self.pods = templates(self.manifests)
        self.plurals = self._plurals()

    def _plurals(self) -> dict[tuple[str, str], str | None]:
        """Return the API server's name of each kind; None if it does not have the kind."""
        plurals: dict[tuple[str, str], str | None] = {}
        for version in sorted({manifest["apiVersion"] for manifest in self.manifests}):
            served = {
                kind["kind"]: kind["name"] for kind in self.client.resources(version) or [] if "/" not in kind["name"]
            }
            for manifest in self.manifests:
                if manifest["apiVersion"] == version:
                    plurals[version, manifest["kind"]] = served.get(manifest["kind"])
        return plurals

    def unserved(self) -> list[str]:
        return ["%s of %s" % (kind, version) for (version, kind), plural in self.plurals.items() if plural is None]

    def exists(self) -> bool:
        """Whether the job is there; refuses one that was made of other options."""
        there = False
        for manifest in self.manifests:
            plural, meta = self.plurals[manifest["apiVersion"], manifest["kind"]], manifest["metadata"]
            if plural is None or SPEC not in meta.get("annotations", {}):
                continue
            text = "%s %s/%s" % (manifest["kind"], self.namespace, meta["name"])
            live = self.client.get(
                path(manifest["apiVersion"], plural, self.namespace, meta["name"]),
                "%s: reading %s" % (self.doing, text),
            )
            if live is None:
                continue
            there = True
            before = (live["metadata"].get("annotations") or {}).get(SPEC)
            if before is None:
                raise JobError(
                    "%s: %s already exists and does not belong to a job of this collection. Give the job another name"
                    % (self.doing, text)
                )
            if before != meta["annotations"][SPEC]:
                raise JobError(
                    "%s: %s was created with other options, and a job that has started cannot be changed. Remove it "
                    "first (state absent), give this job another name, or restore the options" % (self.doing, text)
                )
        return there

    def missing_attachments(self) -> list[str]:
        missing = []
        for space, name in attachments(self.pods, self.namespace):
            where = path(API, PLURAL, space, name)
            if self.client.get(where, "%s: reading the attachment %s/%s" % (self.doing, space, name)) is None:
                missing.append("%s/%s" % (space, name))
        return missing

    def room(self) -> dict[str, t.Any]:
        hint = "Give this user the right to list nodes and pods, or leave the check out (capacity false)"
        try:
            nodes = self.client.items(path("v1", "nodes"), "%s: listing the nodes" % self.doing) or []
            pods = self.client.items(path("v1", "pods"), "%s: listing the pods" % self.doing) or []
        except ApiError as exc:
            if exc.status == 403:
                raise JobError("%s. %s" % (str(exc).rstrip("."), hint)) from exc
            raise
        return place(survey(nodes, pods), self.pods)

    def refuse_short(self, room: t.Mapping[str, t.Any]) -> None:
        if not room["missing"]:
            return
        lacking = ["%s: %s" % (name, "; ".join(why)) for name, why in sorted(room["short"].items())]
        raise JobError(
            "%s: not all pods can run at once: pods wanted: %s, but %d of them do not fit%s. %s. "
            "Nothing was applied. Wait until running pods have finished, fix the nodes, or request less"
            % (
                self.doing,
                describe(self.pods),
                room["missing"],
                " next to %s" % ", ".join(sorted(room["placed"])) if room["placed"] else "",
                ". ".join(lacking) or "There is no other node",
            )
        )


def manage(params: t.Mapping[str, t.Any], check_mode: bool, client: Client) -> dict[str, t.Any]:
    """Return what the module training_job_check returns."""
    check = Check(params, client)
    unserved = check.unserved()
    if unserved and not check_mode:
        raise JobError(
            "%s: the API server does not know %s. Install its operator first, or choose another kind or gang. Nothing "
            "was applied" % (check.doing, ", ".join(unserved))
        )
    there = check.exists()
    missing = check.missing_attachments()
    if missing and not check_mode:
        raise JobError(
            "%s: these attachments do not exist: %s. Create them first (role secondary_network, module "
            "network_attachment), or correct networks. Nothing was applied" % (check.doing, ", ".join(missing))
        )
    placed = None
    if params["capacity"] and not there:
        room = check.room()
        check.refuse_short(room)
        placed = room["placed"]
    rows = [
        resource(item["kind"], "%s/%s" % (check.namespace, item["metadata"]["name"]), desired="present", status=UNKNOWN)
        for item in check.manifests
        if check.plurals[item["apiVersion"], item["kind"]] is None
    ]
    return {
        "changed": bool(rows),
        "exists": there,
        "placed": placed,
        "unserved": unserved,
        "missing_attachments": missing,
        "resources": rows
        + [
            resource("NetworkAttachmentDefinition", name, desired="present", live="absent", status=DRIFT)
            for name in missing
        ],
    }


__all__ = ("Check", "Node", "attachments", "manage", "obstacles", "place", "requests", "survey", "tolerated")
