# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""A set of the API server's objects that belongs to one owner: applied on the server, compared there, pruned."""

from __future__ import annotations

import base64
import contextlib
import copy
import functools
import json
import re
import time
import typing as t

from .._decision import DRIFT, IN_SYNC, Decision, resource
from .._errors import FabricError
from .._formats import all_yaml
from . import client as kubernetes
from .auth import ApiError
from .client import OWNER, Client, Object

DEFINITION = "CustomResourceDefinition"
# With one of these everything that is in it goes too.
CONTAINERS = ("Namespace", DEFINITION)
# The owner of namespaces that were created because a set needed them.
NAMESPACES = "namespaces"
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


def owner_of(raw: Object) -> str | None:
    return (raw["metadata"].get("labels") or {}).get(OWNER)


class Set:
    """The set and what the API server has of it."""

    def __init__(self, params: t.Mapping[str, t.Any], client: Client) -> None:
        self.params, self.client = params, client
        self.owner: str = params["owner"]
        objects = load(params)
        self.kinds = Kinds(client, objects)
        self.items = items(objects, self.kinds, self.owner, params["namespace"])
        self.decision = Decision()
        self.resources: list[dict[str, t.Any]] = []
        self.kept: list[str] = []
        self.offered: dict[str, Object] = {
            namespace["metadata"]["name"]: namespace for namespace in params["namespaces"]
        }
        self.making = {item.name for item in self.items if item.body["kind"] == "Namespace"}
        self.namespaces = sorted(
            {
                params["namespace"],
                *params["prune_namespaces"],
                *(item.namespace for item in self.items if item.namespace),
            }
        )

    def _get(self, item: Item) -> Object | None:
        if not item.kind.served:
            return None
        return self.client.get(item.path, "Reading %s" % item.text)

    def _row(self, item: Item, desired: str, live: str, drift: bool) -> None:
        self.resources.append(
            resource(item.body["kind"], item.name, desired=desired, live=live, status=DRIFT if drift else IN_SYNC)
        )

    def _send(self, item: Item, *, dry_run: bool) -> Object:
        doing = "%s %s" % ("Comparing" if dry_run else "Applying", item.text)
        try:
            return self.client.apply(
                item.path,
                item.body,
                doing,
                manager="%s/%s" % (kubernetes.MANAGER, self.owner),
                force=self.params["force_conflicts"],
                strict=True,
                dry_run=dry_run,
            )
        except ApiError as exc:
            if exc.status == 409 and exc.reason == "Conflict" and "conflict" in str(exc):
                raise ObjectsError(
                    "%s. Another manager has set these fields: remove them from the manifest, or set force_conflicts"
                    % str(exc).rstrip(".")
                ) from exc
            raise

    def present(self) -> None:
        """Decide on every object before the first is written."""
        for item in self.items:
            live = self._get(item)
            if live is not None and owner_of(live) != self.owner and not self.params["adopt"]:
                other = owner_of(live)
                raise ObjectsError(
                    "Applying %s: it is there already and %s. Set adopt to take it over, or leave it out"
                    % (item.text, "belongs to %s" % other if other else "was not made by this collection")
                )
            after = self._predict(item, live)
            differs = live is None or bare(live) != bare(after)
            self._row(item, "present", "absent" if live is None else "different" if differs else "present", differs)
            if differs:
                verb = "Make" if live is None else "Change"
                self.decision.add("%s %s" % (verb, item.text), functools.partial(self._make, item))
                self.decision.show(item.text, show(live), show(after))

    def _predict(self, item: Item, live: Object | None) -> Object:
        if not item.kind.served or (live is None and item.namespace in self.making):
            return item.body
        try:
            return self._send(item, dry_run=True)
        except ApiError as exc:
            if exc.missing and item.namespace in self.offered:
                self._add_namespace(self.offered[item.namespace])
                return item.body
            if exc.missing and item.namespace:
                raise ObjectsError(
                    "%s. Make the namespace %s first, or put it into the set" % (str(exc).rstrip("."), item.namespace)
                ) from exc
            raise

    def _add_namespace(self, body: Object) -> None:
        """Add a namespace that the set needs and that does not exist; it is not a part of the set."""
        meta = {**body["metadata"], "labels": {**(body["metadata"].get("labels") or {}), OWNER: NAMESPACES}}
        item = Item(
            {"apiVersion": "v1", "kind": "Namespace", **body, "metadata": meta}, Kind("namespaces", False, True)
        )
        self.making.add(item.name)
        self._row(item, "present", "absent", True)
        self.decision.add("Make %s" % item.text, functools.partial(self._make, item))
        self.decision.show(item.text, "", show(item.body))

    def _make(self, item: Item) -> None:
        until = time.monotonic() + self.params["wait_timeout"]
        while True:
            try:
                self._send(item, dry_run=False)
                break
            except ApiError as exc:
                # A new definition is served a moment after it is established, and a new namespace likewise.
                soon = exc.missing and (not item.kind.served or item.namespace in self.making)
                if not soon or time.monotonic() >= until:
                    raise
            time.sleep(0.5)
        if item.body["kind"] == DEFINITION:
            self._established(item, until)

    def _established(self, item: Item, until: float) -> None:
        while True:
            live = self.client.get(item.path, "Waiting for %s" % item.text) or {}
            conditions = (live.get("status") or {}).get("conditions") or []
            if any(
                condition.get("type") == "Established" and condition.get("status") == "True" for condition in conditions
            ):
                return
            if time.monotonic() >= until:
                texts = [
                    "%s=%s: %s" % (condition.get("type"), condition.get("status"), condition.get("message"))
                    for condition in conditions
                ]
                raise ObjectsError(
                    "Waiting for %s: the API server does not serve it after %d s (%s). Look at its conditions, or "
                    "raise wait_timeout" % (item.text, self.params["wait_timeout"], "; ".join(texts) or "no conditions")
                )
            time.sleep(0.3)

    def prune(self) -> None:
        """Remove what is this owner's and not in the set: of its kinds and in its namespaces, and in those named."""
        keys = {item.key for item in self.items}
        groups: set[tuple[str, str]] = set()
        kinds = [(item.body["apiVersion"], item.body["kind"]) for item in self.items]
        for text in self.params["prune_kinds"]:
            api_version, _slash, name = text.rpartition("/")
            kinds.append((api_version, name))
        for api_version, name in kinds:
            kind = self.kinds.find(api_version, name)
            group = api_version.rpartition("/")[0]
            if kind is None or not kind.served or (group, name) in groups:
                continue
            groups.add((group, name))
            for namespace in self.namespaces if kind.namespaced else [None]:
                for raw in self._owned(api_version, kind, namespace):
                    item = Item({"apiVersion": api_version, "kind": name, **raw}, kind)
                    if item.key not in keys:
                        self._remove(item, raw)

    def _owned(self, api_version: str, kind: Kind, namespace: str | None) -> list[Object]:
        """Return this owner's objects of a kind, in one namespace if the kind has namespaces."""
        where = " in namespace %s" % namespace if namespace else ""
        rows = self.client.items(
            kubernetes.path(api_version, kind.plural, namespace),
            "Listing the %s of owner %s%s" % (kind.plural, self.owner, where),
            {"labelSelector": "%s=%s" % (OWNER, self.owner)},
        )
        return rows or []

    def absent(self) -> None:
        for item in reversed(self.items):
            live = self._get(item)
            if live is None:
                self._row(item, "absent", "absent", False)
            elif owner_of(live) != self.owner:
                self.kept.append("%s: it is not this owner's" % item.text)
                self._row(item, "absent", "of another owner", False)
            else:
                self._remove(item, live)

    def _remove(self, item: Item, live: Object) -> None:
        if item.body["kind"] in CONTAINERS and not self.params["remove_definitions"]:
            self.kept.append("%s: what is in it would go too; consent by remove_definitions" % item.text)
            self._row(item, "absent", "kept", False)
            return
        self._row(item, "absent", "present", True)
        doing = "Remove %s" % item.text
        uid = str(live["metadata"].get("uid") or "")
        self.decision.add(doing, functools.partial(self.client.delete, item.path, doing, uid=uid))
        self.decision.show(item.text, show(live), "")


def manage(params: t.Mapping[str, t.Any], check_mode: bool, client: Client) -> dict[str, t.Any]:
    """Return what the module cluster_objects returns."""
    # Values of labels (validation.IsValidLabelValue in apimachinery).
    if not re.fullmatch(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", params["owner"]):
        raise ObjectsError(
            "owner is %r; it becomes a label, so it has at most 63 letters, digits, '-', '_' and '.', with a letter or "
            "digit at both ends" % params["owner"]
        )
    for text in params["prune_kinds"]:
        if not text.rpartition("/")[0]:
            raise ObjectsError("prune_kinds has %r; an entry is VERSION/KIND or GROUP/VERSION/KIND" % text)
    objects = Set(params, client)
    if params["state"] == "absent":
        objects.absent()
    else:
        objects.present()
        if params["prune"]:
            objects.prune()
    if not check_mode:
        objects.decision.carry_out()
    return {**objects.decision.result(), "kept": objects.kept, "resources": objects.resources}


__all__ = ("DEFINITION", "OWNER", "ObjectsError", "bare", "load", "manage", "secrets", "show")
