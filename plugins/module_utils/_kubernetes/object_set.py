# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""A set of the API server's objects that belongs to one owner: applied on the server, compared there, pruned."""

from __future__ import annotations

import functools
import re
import time
import typing as t

from .._decision import DRIFT, IN_SYNC, Decision, resource
from . import client as kubernetes
from .auth import ApiError
from .client import OWNER, Client, Object
from .manifests import DEFINITION, Item, Kind, Kinds, ObjectsError, allocated, bare, items, load, owner_of, show

# With one of these everything that is in it goes too.
CONTAINERS = ("Namespace", DEFINITION)
# The owner of namespaces that were created because a set needed them.
NAMESPACES = "namespaces"
# Nothing of these can be changed (ValidateResourceClaimTemplateUpdate), and what was made by them needs them no more.
REPLACED = ("ResourceClaimTemplate",)
# A label: the DRA driver that a DaemonSet is.
DRIVER = "rdmaops.gpu-fabric/dra-driver"


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
            self._decide(item, live)

    def _decide(self, item: Item, live: Object | None) -> None:
        step = functools.partial(self._make, item)
        try:
            after = self._predict(item, live)
        except ApiError as exc:
            if live is None or exc.status != 422 or item.body["kind"] not in REPLACED:
                raise
            after, verb = item.body, "Replace"
            step = functools.partial(self._replace, item, live)
        else:
            verb = "Make" if live is None else "Change"
        differs = live is None or bare(live) != bare(after)
        self._row(item, "present", "absent" if live is None else "different" if differs else "present", differs)
        if differs:
            self.decision.add("%s %s" % (verb, item.text), step)
            self.decision.show(item.text, show(live), show(after))

    def _replace(self, item: Item, live: Object) -> None:
        self.client.delete(item.path, "Replacing %s" % item.text, uid=str(live["metadata"].get("uid") or ""))
        self._make(item)

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
        self._refuse_in_use(item, live)
        self._row(item, "absent", "present", True)
        doing = "Remove %s" % item.text
        uid = str(live["metadata"].get("uid") or "")
        self.decision.add(doing, functools.partial(self.client.delete, item.path, doing, uid=uid))
        self.decision.show(item.text, show(live), "")

    def _refuse_in_use(self, item: Item, live: Object) -> None:
        """Refuse to remove a DRA driver of which claims have devices: the kubelet needs it to end their pods."""
        driver = (live["metadata"].get("labels") or {}).get(DRIVER)
        if not driver:
            return
        place = kubernetes.path("resource.k8s.io/v1", "resourceclaims")
        claims = self.client.items(place, "Listing the ResourceClaims, of which the driver %s must have none" % driver)
        users = [
            "%(namespace)s/%(name)s" % claim["metadata"]
            for claim in claims or []
            if any(device.get("driver") == driver for device in allocated(claim))
        ]
        if users:
            raise ObjectsError(
                "Removing %s: %d claims have devices of the driver %s, and their pods cannot end without it: %s. "
                "Delete these pods first. Nothing was removed" % (item.text, len(users), driver, ", ".join(users[:4]))
            )


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


__all__ = ("DRIVER", "manage")
