# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""Manifests of Kubernetes objects: read from options and files, ordered, and shown without what secrets keep."""

from __future__ import annotations

import base64
import contextlib
import copy
import json
import typing as t

from .._errors import FabricError
from .._formats import all_yaml
from . import client as kubernetes
from .client import OWNER, Client, Object

DEFINITION = "CustomResourceDefinition"
# What others refer to comes first.
_ORDER = {"Namespace": 0, DEFINITION: 1, "ServiceAccount": 2, "ClusterRole": 2, "Role": 2, "ConfigMap": 2, "Secret": 2}
# The whole object, Base64 of a Secret's data included, as `kubectl apply` was given it.
_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
# Set by the server at every write, or at none that matters here.
_SERVER = ("managedFields", "resourceVersion", "generation", "creationTimestamp", "uid", "selfLink")


class ObjectsError(FabricError):
    """The set cannot be as desired."""


class Kind(t.NamedTuple):
    """How the API server serves a kind."""

    plural: str
    namespaced: bool
    served: bool


class Item(t.NamedTuple):
    """One object of the set."""

    body: Object
    kind: Kind

    @property
    def namespace(self) -> str | None:
        return self.body["metadata"].get("namespace") if self.kind.namespaced else None

    @property
    def key(self) -> tuple[str, str, str | None, str]:
        """What identifies it: the version of its group does not matter."""
        group = self.body["apiVersion"].rpartition("/")[0]
        return (group, self.body["kind"], self.namespace, self.body["metadata"]["name"])

    @property
    def text(self) -> str:
        return "%s %s" % (self.body["kind"], self.name)

    @property
    def name(self) -> str:
        name = self.body["metadata"]["name"]
        return "%s/%s" % (self.namespace, name) if self.namespace else name

    @property
    def path(self) -> str:
        return kubernetes.path(self.body["apiVersion"], self.kind.plural, self.namespace, self.body["metadata"]["name"])


def load(params: t.Mapping[str, t.Any]) -> list[Object]:
    """Return the objects given, and those of files, lists taken apart."""
    documents: list[t.Any] = list(params["objects"])
    for name in params["files"]:
        import yaml

        try:
            with open(name, encoding="utf-8") as stream:
                documents += [document for document in all_yaml(stream.read(), yaml.SafeLoader) if document is not None]
        except OSError as exc:
            raise ObjectsError("Reading %s: %s" % (name, exc.strerror)) from exc
        except ValueError as exc:
            raise ObjectsError("Reading %s: it is not YAML: %s" % (name, exc)) from exc
    objects: list[Object] = []
    for document in documents:
        if isinstance(document, dict) and document.get("kind") == "List" and isinstance(document.get("items"), list):
            objects += document["items"]
        else:
            objects.append(document)
    for number, document in enumerate(objects, 1):
        meta = document.get("metadata") if isinstance(document, dict) else None
        for field, value in (
            ("apiVersion", isinstance(document, dict) and document.get("apiVersion")),
            ("kind", isinstance(document, dict) and document.get("kind")),
            ("metadata.name", isinstance(meta, dict) and meta.get("name")),
        ):
            if not isinstance(value, str) or not value:
                raise ObjectsError(
                    "Reading the objects: object %d of %d has no %s. Each is a whole manifest, as kubectl takes it"
                    % (number, len(objects), field)
                )
    return objects


class Kinds:
    """What the API server serves, and what it will when the set's definitions are there."""

    def __init__(self, client: Client, objects: t.Sequence[Object]) -> None:
        self.client = client
        self.known: dict[str, dict[str, Kind]] = {}
        self.coming: dict[tuple[str, str], Kind] = {}
        for document in objects:
            if document["kind"] == DEFINITION:
                spec = document.get("spec") or {}
                names = spec.get("names") or {}
                kind = Kind(str(names.get("plural")), spec.get("scope") == "Namespaced", False)
                for version in spec.get("versions") or []:
                    self.coming["%s/%s" % (spec.get("group"), version.get("name")), str(names.get("kind"))] = kind

    def find(self, api_version: str, kind: str) -> Kind | None:
        if api_version not in self.known:
            self.known[api_version] = {
                str(entry["kind"]): Kind(str(entry["name"]), bool(entry["namespaced"]), True)
                for entry in self.client.resources(api_version) or []
                if "/" not in entry["name"]
            }
        return self.known[api_version].get(kind) or self.coming.get((api_version, kind))


def items(objects: t.Sequence[Object], kinds: Kinds, owner: str, namespace: str) -> list[Item]:
    """Return the set in the order in which it is made, each object with its owner and its namespace."""
    result: list[Item] = []
    keys: set[t.Any] = set()
    for document in objects:
        kind = kinds.find(document["apiVersion"], document["kind"])
        if kind is None:
            raise ObjectsError(
                "Applying %s %s: the API server knows no %s of %s, and no CustomResourceDefinition of the set brings "
                "it. Correct apiVersion and kind, or add the definition"
                % (document["kind"], document["metadata"]["name"], document["kind"], document["apiVersion"])
            )
        body = copy.deepcopy(document)
        body.pop("status", None)
        meta = body["metadata"]
        if kind.namespaced:
            meta.setdefault("namespace", namespace)
        else:
            meta.pop("namespace", None)
        meta["labels"] = {**(meta.get("labels") or {}), OWNER: owner}
        item = Item(body, kind)
        if item.key in keys:
            raise ObjectsError("Reading the objects: %s is there twice. Leave one of the two out" % item.text)
        keys.add(item.key)
        result.append(item)
    return sorted(result, key=lambda item: _ORDER.get(item.body["kind"], 3))


def bare(raw: Object | None) -> Object | None:
    """Return an object without what the server alone writes."""
    if raw is None:
        return None
    body = {key: value for key, value in raw.items() if key != "status"}
    body["metadata"] = {key: value for key, value in raw["metadata"].items() if key not in _SERVER}
    return body


def show(raw: Object | None) -> str:
    """Return an object for a diff, without what a Secret keeps."""
    if raw is None:
        return ""
    shown = dict(bare(raw) or {})
    if shown.get("kind") == "Secret":
        for key in ("data", "stringData"):
            if key in shown:
                shown[key] = dict.fromkeys(shown[key], "(hidden)")
        notes = shown["metadata"].get("annotations") or {}
        if _APPLIED in notes:
            shown["metadata"] = {**shown["metadata"], "annotations": {**notes, _APPLIED: "(hidden)"}}
    return json.dumps(shown, indent=2, sort_keys=True) + "\n"


def secrets(objects: t.Iterable[t.Any]) -> set[str]:
    """Return what Secrets keep, as it is written and as it is meant."""
    texts: set[str] = set()
    for document in objects:
        if not isinstance(document, dict):
            continue
        if document.get("kind") == "List" and isinstance(document.get("items"), list):
            texts |= secrets(document["items"])
        for key in ("data", "stringData") if document.get("kind") == "Secret" else ():
            for text in document[key].values() if isinstance(document.get(key), dict) else ():
                texts.add(str(text))
                # stringData is not encoded, and not all data is text.
                with contextlib.suppress(ValueError):
                    texts.add(base64.b64decode(str(text), validate=True).decode("utf-8"))
    # Ansible blots these out wherever they stand: what is shorter would be found in many words.
    return {text for text in texts if len(text) > 3}


def allocated(claim: t.Mapping[str, t.Any]) -> list[Object]:
    """Return the devices of a ResourceClaim, each with its driver, pool and device (DeviceRequestAllocationResult)."""
    allocation = (claim.get("status") or {}).get("allocation") or {}
    return (allocation.get("devices") or {}).get("results") or []


def owner_of(raw: Object) -> str | None:
    return (raw["metadata"].get("labels") or {}).get(OWNER)


__all__ = (
    "DEFINITION",
    "Item",
    "Kind",
    "Kinds",
    "ObjectsError",
    "allocated",
    "bare",
    "items",
    "load",
    "owner_of",
    "secrets",
    "show",
)
