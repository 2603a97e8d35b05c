# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""Who uses a NetworkAttachmentDefinition: pods, and the templates that pods are created from."""

from __future__ import annotations

import typing as t

from .._formats import from_json

# Both of Multus: additional networks, and the one that replaces the cluster's own.
ANNOTATIONS = ("k8s.v1.cni.cncf.io/networks", "v1.multus-cni.io/default-network")

# API version, plural, kind. A kind whose CRD is missing has no objects.
KINDS = (
    ("v1", "pods", "Pod"),
    ("apps/v1", "deployments", "Deployment"),
    ("apps/v1", "daemonsets", "DaemonSet"),
    ("apps/v1", "statefulsets", "StatefulSet"),
    ("apps/v1", "replicasets", "ReplicaSet"),
    ("batch/v1", "jobs", "Job"),
    ("batch/v1", "cronjobs", "CronJob"),
    ("kubeflow.org/v2beta1", "mpijobs", "MPIJob"),
    ("kubeflow.org/v1alpha1", "mpijobs", "MPIJob"),  # arena's
    ("kubeflow.org/v1", "pytorchjobs", "PyTorchJob"),
    ("batch.volcano.sh/v1alpha1", "jobs", "Volcano Job"),
    ("jobset.x-k8s.io/v1alpha2", "jobsets", "JobSet"),
    ("trainer.kubeflow.org/v1alpha1", "trainjobs", "TrainJob"),
    ("trainer.kubeflow.org/v1alpha1", "trainingruntimes", "TrainingRuntime"),
    ("trainer.kubeflow.org/v1alpha1", "clustertrainingruntimes", "ClusterTrainingRuntime"),
)


def named(text: str, namespace: str) -> set[str] | None:
    """Return the attachments that an annotation names, as namespace/name; None if it cannot be read.

    The notations of Multus: a JSON list (or one object), or names with commas between them, each NAME,
    NAMESPACE/NAME, and with @INTERFACE at the end (parsePodNetworkAnnotation of multus-cni 4.3.0).
    """
    if any(character in text for character in '[{"'):
        try:
            return _in_json(from_json(text), namespace)
        except ValueError:
            return None
    names = set()
    for part in text.split(","):
        name = part.strip().partition("@")[0].strip()
        if not name:
            continue
        if name.count("/") > 1:
            return None
        space, slash, short = name.rpartition("/")
        names.add("%s/%s" % (space.strip() if slash else namespace, short.strip()))
    return names


def _in_json(rows: t.Any, namespace: str) -> set[str] | None:
    rows = [rows] if isinstance(rows, (dict, str)) else rows
    if not isinstance(rows, list):
        return None
    names: set[str] = set()
    for row in rows:
        if isinstance(row, dict) and isinstance(row.get("name"), str):
            names.add("%s/%s" % (row.get("namespace") or namespace, row["name"]))
            continue
        inner = named(row, namespace) if isinstance(row, str) else None
        if inner is None:
            return None
        names |= inner
    return names


def texts(value: t.Any) -> t.Iterator[str]:
    """Yield the networks' annotations of an object, also of the templates within it, wherever they are."""
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, dict):
            annotations = item.get("annotations")
            if isinstance(annotations, dict):
                for key in ANNOTATIONS:
                    if isinstance(annotations.get(key), str):
                        yield annotations[key]
            pending.extend(inner for key, inner in item.items() if key not in ("annotations", "managedFields"))
        elif isinstance(item, list):
            pending.extend(item)


def users(objects: t.Iterable[t.Any], kind: str, candidates: t.Iterable[str]) -> dict[str, list[str]]:
    """Return which candidates (namespace/name) are named, and by which objects; unreadable text may name them."""
    keys = sorted(set(candidates))
    result: dict[str, list[str]] = {}
    for item in objects:
        meta = item.get("metadata") or {}
        namespace = str(meta.get("namespace") or "default")
        user = "%s %s/%s" % (kind, namespace, meta.get("name"))
        for text in texts(item):
            names = named(text, namespace)
            for key in keys:
                hit = key in names if names is not None else key.partition("/")[2] in text
                if hit and user not in result.setdefault(key, []):
                    result[key].append(user)
    return {key: entries for key, entries in result.items() if entries}


__all__ = ("ANNOTATIONS", "KINDS", "named", "texts", "users")
