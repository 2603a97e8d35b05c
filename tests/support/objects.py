# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Objects of a cluster, and the collection's client and sets of objects, without Ansible in between."""

from __future__ import annotations

import typing as t
from pathlib import Path

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._kubernetes import object_set
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._kubernetes.client import CONNECTION, Client
from ansible_collections.rdmaops.gpu_fabric.tests.support.cluster import Cluster

Json = t.Any


def manifest(api: str, kind: str, name: str, namespace: str | None = None, **content: Json) -> Json:
    """Return an object; ``metadata`` in its content is added to name and namespace."""
    named = {"name": name, "namespace": namespace} if namespace else {"name": name}
    return {"apiVersion": api, "kind": kind, "metadata": {**named, **content.pop("metadata", {})}, **content}


def definition(group: str, version: str, plural: str, kind: str, scope: str, fields: Json) -> Json:
    """Return the definition of a kind of objects by these fields of their spec."""
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": fields}}}
    served = {"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"kind": kind, "plural": plural, "singular": kind.lower()}
    spec = {"group": group, "scope": scope, "names": names, "versions": [served]}
    return manifest("apiextensions.k8s.io/v1", "CustomResourceDefinition", f"{plural}.{group}", spec=spec)


def connection(kubeconfig: Path | Json = None, timeout: int = 30, **options: Json) -> Json:
    """Return a module's options of its connection, by a kubeconfig's path or content or by other options."""
    config = str(kubeconfig) if isinstance(kubeconfig, Path) else kubeconfig
    return {**dict.fromkeys(CONNECTION), "kubeconfig": config, "timeout": timeout, **options}


def client(kubeconfig: Path | Json = None, timeout: int = 30, **options: Json) -> Client:
    return Client(connection(kubeconfig, timeout, **options))


def set_options(owner: str, *objects: Json, **more: Json) -> Json:
    """Return the options of cluster_objects for a set of objects."""
    empty: Json = {name: [] for name in ("files", "prune_kinds", "prune_namespaces", "namespaces")}
    consents = dict.fromkeys(("prune", "remove_definitions", "adopt", "force_conflicts"), False)
    known = {"owner": owner, "state": "present", "namespace": "default", "wait_timeout": 60}
    return {**known, **empty, **consents, "objects": list(objects), **more}


def apply_set(plane: Cluster, owner: str, *objects: Json, check: bool = False, **more: Json) -> Json:
    """Do what cluster_objects does with a set of objects, and return its result."""
    return object_set.manage(set_options(owner, *objects, **more), check, client(plane.kubeconfig))


__all__ = ["apply_set", "client", "connection", "definition", "manifest", "set_options"]
