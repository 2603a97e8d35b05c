# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""Whether all pods of a job have room at once, counted as the scheduler counts."""

from __future__ import annotations

import decimal
import typing as t

from .._kubernetes.client import Object

Amounts = t.Dict[str, decimal.Decimal]
_ENDED = ("Succeeded", "Failed")
_OBSERVED = 8
# nodeStatusMaxImages of the kubelet's configuration: the largest images are listed.
_MOST_IMAGES = 50


class Node(t.NamedTuple):
    """A node as far as pods are put on it."""

    name: str
    labels: dict[str, str]
    taints: list[Object]
    closed: str  # why no pod is put on it at all; "" if pods are
    there: Amounts
    used: Amounts
    users: dict[str, list[str]]  # resource -> pods
    images: frozenset[str]  # their names, with tags and digests
    all_images: bool  # whether the kubelet lists every image that the node has

    def free(self, name: str) -> decimal.Decimal:
        return self.there.get(name, decimal.Decimal(0)) - self.used.get(name, decimal.Decimal(0))

    def has_image(self, image: str) -> bool | None:
        """Whether the node has an image; None if its kubelet does not list it, but does not list all."""
        # The runtime completes names (docker.io/library/); a digest is the same everywhere.
        digest = image.partition("@")[2]
        there = image in self.images or bool(digest and any(name.endswith("@" + digest) for name in self.images))
        return there or (False if self.all_images else None)


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
        rows = status.get("images") or []
        names = frozenset(image for row in rows for image in row.get("names") or [])
        by_name[meta["name"]] = Node(
            meta["name"], meta.get("labels") or {}, taints, closed, there, {}, {}, names, len(rows) < _MOST_IMAGES
        )
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


def obstacles(node: Node, pod: Object, image_present: bool = False) -> list[str]:
    """Return why one more pod cannot be put on a node; empty if it can. Its image may have to be there already."""
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
    for image in [container["image"] for container in spec["containers"]] if image_present else []:
        if node.has_image(image) is False:
            reasons.append("the image %s is not there" % image)
    return reasons


def _short(node: Node, name: str, amount: decimal.Decimal) -> str:
    there, users = node.there.get(name, decimal.Decimal(0)), node.users.get(name, [])
    if not there:
        return "no %s" % name
    text = "%s: %s wanted, %s free of %s" % (name, number(amount), number(node.free(name)), number(there))
    if name in ("pods", "cpu", "memory") or not users:
        return text
    more = " and %d more" % (len(users) - _OBSERVED) if len(users) > _OBSERVED else ""
    return "%s, used by %s%s" % (text, ", ".join(users[:_OBSERVED]), more)


def number(value: decimal.Decimal) -> str:
    return format(value.normalize(), "f")


def place(
    nodes: t.Sequence[Node], pods: t.Sequence[tuple[int, Object]], image_present: bool = False
) -> dict[str, t.Any]:
    """Return where the pods of a job would find room together, and why some would not.

    ``missing`` is how many would not, ``beside`` where others like them would, ``short`` what each other node lacks.
    Largest pods first, each on the first node that has room: pods of a job are alike, so this is not a guess.
    """
    placed: dict[str, int] = {}
    short: dict[str, list[str]] = {}
    beside: set[str] = set()
    missing = 0
    taken: set[str] = set()
    # Where pods are, by what they need: bare pods are listed one by one.
    alike: dict[str, set[str]] = {}
    for count, pod in sorted(pods, key=lambda entry: -len(requests(entry[1]["spec"]))):
        apart = bool((pod["spec"].get("affinity") or {}).get("podAntiAffinity"))
        left = count
        holders = alike.setdefault(_needs(pod), set())
        lacking: dict[str, list[str]] = {}
        for node in nodes:
            while left and not (apart and node.name in taken):
                why = obstacles(node, pod, image_present)
                if why:
                    lacking[node.name] = why
                    break
                for name, amount in requests(pod["spec"]).items():
                    node.used[name] = node.used.get(name, decimal.Decimal(0)) + amount
                placed[node.name] = placed.get(node.name, 0) + 1
                holders.add(node.name)
                left -= 1
                if apart:
                    taken.add(node.name)
        if left:
            missing += left
            beside |= holders
            short.update({name: why for name, why in lacking.items() if name not in holders})
    return {"placed": placed, "missing": missing, "beside": sorted(beside), "short": short}


def _needs(pod: Object) -> str:
    """Return what a pod requests, for a person."""
    needs = ["%s=%s" % (name, number(n)) for name, n in sorted(requests(pod["spec"]).items()) if name != "pods"]
    return ", ".join(needs) or "no resources"


def describe(pods: t.Sequence[tuple[int, Object]]) -> str:
    """Return how many pods with what, pods that need the same counted together."""
    counts: dict[str, int] = {}
    for count, pod in pods:
        needs = _needs(pod)
        counts[needs] = counts.get(needs, 0) + count
    return " and ".join("%d with %s" % (count, needs) for needs, count in counts.items())


__all__ = (
    "Amounts",
    "Node",
    "amounts",
    "describe",
    "number",
    "obstacles",
    "place",
    "requests",
    "survey",
    "tolerated",
)
