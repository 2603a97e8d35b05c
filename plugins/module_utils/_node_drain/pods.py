# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""The pods of a node: which must go, what that costs, and which budget protects them."""

from __future__ import annotations

import fnmatch
import typing as t

from .._cni import config as cni
from .._kubernetes.client import Object
from .._net_attach_def.uses import ANNOTATIONS, named

# What becomes of a pod.
EVICT = "evict"
WAIT = "wait"
LEAVE = "leave"

# Names of the options that give consent.
DEVICES = "evict_gpu_pods"
FORCE = "force"
EMPTY_DIR = "delete_emptydir_data"

MIRROR = "kubernetes.io/config.mirror"
# What a pod is given by the device plugin of a network (networks of Multus, resourceName).
_RESOURCE_NAME = "k8s.v1.cni.cncf.io/resourceName"
# CNI plugins that take a device out of the host's network namespace.
_MOVING = ("host-device", "sriov", "ib-sriov", "rdma")
_DEVICE_FILES = ("/dev/nvidia", "/dev/infiniband")


class Pod(t.NamedTuple):
    """A pod, what becomes of it and why, and for which of its traits consent is needed (option, trait)."""

    namespace: str
    name: str
    uid: str
    action: str
    why: str
    traits: tuple[tuple[str, str], ...] = ()

    @property
    def ref(self) -> str:
        return "%s/%s" % (self.namespace, self.name)


def controller_of(raw: Object) -> t.Mapping[str, t.Any] | None:
    rows = raw["metadata"].get("ownerReferences") or []
    return next((owner for owner in rows if owner.get("controller")), None)


def finished(raw: Object) -> bool:
    """Whether its containers have ended for good (phases of the Pod lifecycle)."""
    return (raw.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def names_networks(raw: Object) -> bool:
    notes = raw["metadata"].get("annotations") or {}
    return any(notes.get(key) for key in ANNOTATIONS)


def _moves(attachment: Object | None) -> bool:
    """Whether an attachment gives a pod a device of the host; one that is not there or cannot be read may."""
    if attachment is None or (attachment["metadata"].get("annotations") or {}).get(_RESOURCE_NAME):
        return True
    try:
        config = cni.parse((attachment.get("spec") or {}).get("config"))
    except cni.ConfigError:
        return True
    return any(cni.kind_of(plugin) in _MOVING for plugin in cni.plugins(config))


def _networks(raw: Object, attachments: t.Mapping[str, Object]) -> t.Iterator[str]:
    notes = raw["metadata"].get("annotations") or {}
    for key in ANNOTATIONS:
        if not notes.get(key):
            continue
        refs = named(str(notes[key]), str(raw["metadata"]["namespace"]))
        if refs is None:
            yield "its annotation %s cannot be read" % key
        for ref in sorted(refs or ()):
            if _moves(attachments.get(ref)):
                yield "has a device of the host by the attachment %s" % ref


def _requests(raw: Object, patterns: t.Sequence[str]) -> t.Iterator[str]:
    spec = raw["spec"]
    names = set()
    for container in spec["containers"] + (spec.get("initContainers") or []):
        resources = container.get("resources") or {}
        for name, amount in {**(resources.get("requests") or {}), **(resources.get("limits") or {})}.items():
            matches = "/" in name and any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)
            if matches and str(amount) != "0" and name not in names:
                names.add(name)
                yield "holds %s: %s" % (name, amount)
    for claim in spec.get("resourceClaims") or []:
        yield "holds devices by the resource claim %s" % claim.get("name")
    for volume in spec.get("volumes") or []:
        place = str((volume.get("hostPath") or {}).get("path"))
        if place.startswith(_DEVICE_FILES):
            yield "has the host's %s" % place


def judge(raw: Object, patterns: t.Sequence[str], attachments: t.Mapping[str, Object] | None) -> Pod:
    """Return what becomes of a pod; if the cluster has no attachments (None), annotations have no effect."""
    meta = raw["metadata"]
    identity = (str(meta["namespace"]), str(meta["name"]), str(meta["uid"]))
    controller = controller_of(raw)
    if MIRROR in (meta.get("annotations") or {}):
        return Pod(*identity, LEAVE, "a mirror of a static pod")
    if controller and controller.get("kind") == "DaemonSet":
        return Pod(*identity, LEAVE, "of the DaemonSet %s, which would recreate it" % controller.get("name"))
    if finished(raw):
        return Pod(*identity, LEAVE, "has ended")
    if meta.get("deletionTimestamp"):
        held = ", held by %s" % ", ".join(meta["finalizers"]) if meta.get("finalizers") else ""
        return Pod(*identity, WAIT, "is being deleted, due %s%s" % (meta["deletionTimestamp"], held))
    traits = [(DEVICES, text) for text in _requests(raw, patterns)]
    if attachments is not None:
        traits += [(DEVICES, text) for text in _networks(raw, attachments)]
    if controller is None:
        traits.append((FORCE, "has no controller that would recreate it"))
    for volume in raw["spec"].get("volumes") or []:
        if "emptyDir" in volume:
            traits.append((EMPTY_DIR, "has data in the emptyDir %s" % volume.get("name")))
    why = "%s %s" % (controller.get("kind"), controller.get("name")) if controller else "unmanaged"
    return Pod(*identity, EVICT, why, tuple(traits))


def blocked(pods: t.Iterable[Pod], consents: t.Mapping[str, t.Any]) -> list[str]:
    """Return the pods that may not go, with every reason and the option that would give consent to it."""
    texts = []
    for pod in pods:
        lacking = [(option, text) for option, text in pod.traits if not consents[option]]
        if lacking:
            reasons = ["%s (%s)" % (text, option) for option, text in lacking]
            texts.append("%s: %s" % (pod.ref, ", ".join(reasons)))
    return texts


def _selects(selector: t.Mapping[str, t.Any] | None, labels: t.Mapping[str, str]) -> bool:
    """Whether a LabelSelector selects; in policy/v1 an empty one selects all, and none at all selects nothing."""
    if selector is None:
        return False
    if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    for expression in selector.get("matchExpressions") or []:
        key, values = expression["key"], expression.get("values") or []
        holds = {
            "In": labels.get(key) in values,
            "NotIn": labels.get(key) not in values,
            "Exists": key in labels,
            "DoesNotExist": key not in labels,
        }
        if not holds.get(expression["operator"], False):
            return False
    return True


def budgets_of(labels: t.Mapping[str, str], budgets: t.Iterable[Object]) -> list[str]:
    """Return the PodDisruptionBudgets of a namespace that a pod with these labels is under, and what they allow."""
    texts = []
    for budget in budgets:
        spec, status = budget.get("spec") or {}, budget.get("status") or {}
        if not _selects(spec.get("selector"), labels):
            continue
        limits = ["%s %s" % (key, spec[key]) for key in ("minAvailable", "maxUnavailable") if key in spec]
        texts.append(
            "%s (%s, %s of %s pods healthy, %s disruptions allowed)"
            % (
                budget["metadata"]["name"],
                ", ".join(limits) or "maxUnavailable 0",
                status.get("currentHealthy", 0),
                status.get("expectedPods", 0),
                status.get("disruptionsAllowed", 0),
            )
        )
    return sorted(texts)


__all__ = (
    "DEVICES",
    "EMPTY_DIR",
    "EVICT",
    "FORCE",
    "LEAVE",
    "MIRROR",
    "WAIT",
    "Pod",
    "blocked",
    "budgets_of",
    "controller_of",
    "finished",
    "judge",
    "names_networks",
)
