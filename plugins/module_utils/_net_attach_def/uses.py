# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""Who names a NetworkAttachmentDefinition: pods, and the templates that pods are made from."""

from __future__ import annotations

import typing as t

from .._formats import from_json

# Both of Multus: further networks, and the one in place of the cluster's own.
ANNOTATIONS = ("k8s.v1.cni.cncf.io/networks", "v1.multus-cni.io/default-network")

# API version, plural, kind. A kind whose CRD is not there has no objects.
KINDS = (
    ("v1", "pods", "Pod"),
    ("apps/v1", "deployments", "Deployment"),
    ("apps/v1", "daemonsets", "DaemonSet"),
    ("apps/v1", "statefulsets", "StatefulSet"),
    ("apps/v1", "replicasets", "ReplicaSet"),
    ("batch/v1", "jobs", "Job"),
    ("batch/v1", "cronjobs", "CronJob"),
    ("kubeflow.org/v2beta1", "mpijobs", "MPIJob"),
    ("kubeflow.org/v1", "pytorchjobs", "PyTorchJob"),
    ("batch.volcano.sh/v1alpha1", "jobs", "Volcano Job"),
)


def named(text: str, namespace: str) -> set[str] | None:
    """Return the attachments that an annotation names, as namespace/name; None if it cannot be read.

    The notations of Multus: a JSON list (or one object), or names with commas between them, each NAME,
    NAMESPACE/NAME, and with @INTERFACE at the end (parsePodNetworkAnnotation of multus-cni 4.3.0).
    """
    if any(character in text for character in '[{"'):
        try:
            rows = from_json(text)
        except ValueError:
            return None
        rows = [rows] if isinstance(rows, (dict, str)) else rows
        if not isinstance(rows, list):
            return None
        found = set()
        for row in rows:
            if isinstance(row, str):
                inner = named(row, namespace)
                if inner is None:
                    return None
                found |= inner
            elif isinstance(row, dict) and isinstance(row.get("name"), str):
                found.add("%s/%s" % (row.get("namespace") or namespace, row["name"]))
            else:
                return None
        return found
    found = set()
    for part in text.split(","):
        name = part.strip().partition("@")[0].strip()
        if not name:
            continue
        if name.count("/") > 1:
            return None
        space, slash, short = name.rpartition("/")
        found.add("%s/%s" % (space.strip() if slash else namespace, short.strip()))
    return found


def texts(value: t.Any) -> t.Iterator[str]:
    """Yield the networks' annotations of an object, also of the templates within it, wherever they are."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            found = one.get("annotations")
            if isinstance(found, dict):
                for key in ANNOTATIONS:
                    if isinstance(found.get(key), str):
                        yield found[key]
            waiting.extend(inner for key, inner in one.items() if key not in ("annotations", "managedFields"))
        elif isinstance(one, list):
            waiting.extend(one)


def users(objects: t.Iterable[t.Any], kind: str, candidates: t.Iterable[str]) -> dict[str, list[str]]:
    """Return which candidates (namespace/name) are named, and by whom; what cannot be read may name them."""
    wanted = set(candidates)
    found: dict[str, list[str]] = {}
    for one in objects:
        meta = one.get("metadata") or {}
        namespace = str(meta.get("namespace") or "default")
        who = "%s %s/%s" % (kind, namespace, meta.get("name"))
        for text in texts(one):
            names = named(text, namespace)
            for key in sorted(wanted):
                hit = key in names if names is not None else key.partition("/")[2] in text
                if hit and who not in found.setdefault(key, []):
                    found[key].append(who)
    return {key: who for key, who in found.items() if who}


__all__ = ("ANNOTATIONS", "KINDS", "named", "texts", "users")
