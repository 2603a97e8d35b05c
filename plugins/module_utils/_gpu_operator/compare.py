# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""What a manifest would make of live objects, where they differ, and what an API server does not keep of them."""

from __future__ import annotations

import base64
import dataclasses
import re
import typing as t
from decimal import Decimal

from .._formats import all_yaml
from .._helm.chart import loader
from .._helm.output import HelmError

Object = t.Dict[str, t.Any]

HIDDEN = "(hidden)"
HIDDEN_OTHER = "(hidden, different)"
_HOOK = "helm.sh/hook"
_KEEP = "helm.sh/resource-policy"
_RELEASE_NAME = "meta.helm.sh/release-name"
_RELEASE_NAMESPACE = "meta.helm.sh/release-namespace"
# What the API server and controllers write.
_SERVERS = ("managedFields", "resourceVersion", "uid", "generation", "creationTimestamp", "selfLink")
_CONTROLLERS = ("deployment.kubernetes.io/revision", "kubectl.kubernetes.io/last-applied-configuration")
# quantity.go of apimachinery: a stored quantity is not always written as it was sent.
_QUANTITY = re.compile(r"^([+-]?\d+(?:\.\d*)?)(n|u|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?$")
_POWERS = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"]
_SECRET = re.compile(r"(password|passwd|token|secret|api_?key|credential|private_?key)", re.IGNORECASE)
# Names of secrets, and switches about them, are none.
_NO_SECRET = re.compile(r"(name|names|ref|refs|enabled|path|file|ttl|seconds|audience)$", re.IGNORECASE)


@dataclasses.dataclass(frozen=True)
class Key:
    """What identifies an object."""

    api_version: str
    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return "%s %s" % (self.kind, "%s/%s" % (self.namespace, self.name) if self.namespace else self.name)


class Change(t.NamedTuple):
    """One field: what is there and what would be there (None: nothing)."""

    path: str
    before: t.Any
    after: t.Any


def documents(text: str) -> tuple[list[Object], list[Object]]:
    """Return the objects of a manifest and, apart from them, its hooks."""
    doing = "Reading the manifest that helm rendered from the chart"
    try:
        documents = [item for item in all_yaml(text, loader()) if isinstance(item, dict) and item.get("kind")]
    except ValueError as exc:
        raise HelmError("%s: %s" % (doing, exc)) from exc
    objects: list[Object] = []
    hooks: list[Object] = []
    for document in documents:
        parts = document.get("items") or [] if document["kind"] == "List" else [document]
        for part in parts if isinstance(parts, list) else [parts]:
            meta = (part.get("metadata") or {}) if isinstance(part, dict) else None
            if not isinstance(meta, dict) or not isinstance(meta.get("annotations") or {}, dict):
                raise HelmError("%s: a %s in it has no valid metadata" % (doing, document["kind"]))
            (hooks if _HOOK in annotations_of(part) else objects).append(part)
    return objects, hooks


def annotations_of(document: Object) -> dict[str, t.Any]:
    return (document.get("metadata") or {}).get("annotations") or {}


def release_of(document: Object) -> tuple[str | None, str | None]:
    """Return name and namespace of the helm release that an object belongs to."""
    marks = annotations_of(document)
    return marks.get(_RELEASE_NAME), marks.get(_RELEASE_NAMESPACE)


def has_keep_policy(document: Object) -> bool:
    """Whether helm leaves an object where it is when the chart no longer has it."""
    return annotations_of(document).get(_KEEP) == "keep"


def _quantity(value: t.Any) -> t.Any:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    match = _QUANTITY.match(str(value))
    if match is None:
        return None
    unit = match.group(2) or ""
    factor = Decimal(1024) ** (_BINARY.index(unit) + 1) if unit in _BINARY else Decimal(10) ** _POWERS[unit]
    return Decimal(match.group(1)) * factor


def _same(first: t.Any, second: t.Any) -> bool:
    if isinstance(first, bool) or isinstance(second, bool):
        return first is second
    if first == second:
        return True
    quantity = _quantity(first)
    return quantity is not None and quantity == _quantity(second)


def _empty(value: t.Any) -> bool:
    """Whether an API server may drop a field of a type of its own (omitempty)."""
    if isinstance(value, dict):
        return all(_empty(item) for item in value.values())
    return value is None or value is False or value in ("", 0) or value == []


def _named(*lists: t.Any) -> str:
    """Return the key that identifies each element of lists, or nothing: its values are texts, and unique in a list."""
    for key in ("mountPath", "name"):
        for items in lists:
            names = [item.get(key) if isinstance(item, dict) else None for item in items or []]
            if not all(isinstance(name, str) for name in names) or len(set(names)) != len(names):
                break
        else:
            return key
    return ""


def merge(old: t.Any, new: t.Any, live: t.Any) -> t.Any:
    """Return what is there once ``new`` is applied over ``live``, where ``old`` was applied before.

    As helm does it with Kubernetes' own types: what others added stays, what the chart no longer has is removed.
    """
    if isinstance(new, dict) and isinstance(live, dict):
        # A null has no meaning: an API server fills in its own default, or has written the field itself.
        before = {key: value for key, value in old.items() if value is not None} if isinstance(old, dict) else {}
        result = {key: value for key, value in live.items() if key not in before or new.get(key) is not None}
        for key, value in new.items():
            if value is None:
                continue
            if key in live:
                result[key] = merge(before.get(key), value, live[key])
            elif not _empty(value):
                result[key] = value
        return result
    if isinstance(new, list) and isinstance(live, list):
        return _merge_lists(old if isinstance(old, list) else [], new, live)
    return live if _same(new, live) else new


def _merge_lists(old: list[t.Any], new: list[t.Any], live: list[t.Any]) -> list[t.Any]:
    key = _named(old, new, live) if new and isinstance(new[0], dict) else ""
    if key:
        before = {item[key]: item for item in old}
        desired = {item[key]: item for item in new}
        result = []
        for item in live:
            if item[key] in desired:
                result.append(merge(before.get(item[key]), desired.pop(item[key]), item))
            elif item[key] not in before:
                result.append(item)
        return result + list(desired.values())
    if len(new) == len(live):
        return [merge(None, item, other) for item, other in zip(new, live)]
    return new


def prepared(document: Object, release: str, namespace: str) -> Object:
    """Return an object as helm sends it: with its marks, and a Secret's texts encoded."""
    result = dict(document)
    metadata = dict(result.get("metadata") or {})
    metadata["labels"] = {**(metadata.get("labels") or {}), "app.kubernetes.io/managed-by": "Helm"}
    metadata["annotations"] = {
        **(metadata.get("annotations") or {}),
        _RELEASE_NAME: release,
        _RELEASE_NAMESPACE: namespace,
    }
    result["metadata"] = metadata
    if result.get("kind") == "Secret" and result.get("stringData"):
        texts = result.pop("stringData")
        data = {key: base64.b64encode(str(value).encode()).decode() for key, value in texts.items()}
        result["data"] = {**(result.get("data") or {}), **data}
    return result


def schema_of(definition: Object, api_version: str) -> Object | None:
    """Return the schema that a CustomResourceDefinition has for a version."""
    name = api_version.rpartition("/")[2]
    for version in (definition.get("spec") or {}).get("versions") or []:
        if version.get("name") == name:
            return (version.get("schema") or {}).get("openAPIV3Schema")
    return None


def prune(value: t.Any, schema: t.Any, path: str, lost: list[tuple[str, t.Any]]) -> t.Any:
    """Return what an API server keeps of a value, its defaults put in; note what it drops.

    The rules of structural schemas: "Field pruning" and "Defaulting" in the documentation of CustomResourceDefinitions.
    """
    if not isinstance(schema, dict):
        return value
    if isinstance(value, dict):
        return _prune_map(value, schema, path, lost)
    if isinstance(value, list) and isinstance(schema.get("items"), dict):
        return [prune(item, schema["items"], "%s[%d]" % (path, index), lost) for index, item in enumerate(value)]
    return value


def _prune_map(value: Object, schema: Object, path: str, lost: list[tuple[str, t.Any]]) -> Object:
    properties = schema.get("properties") or {}
    additional = schema.get("additionalProperties")
    preserve = bool(schema.get("x-kubernetes-preserve-unknown-fields"))
    embedded = ("apiVersion", "kind", "metadata") if schema.get("x-kubernetes-embedded-resource") else ()
    result: Object = {}
    for key, item in value.items():
        if item is None and not (properties.get(key) or {}).get("nullable"):
            continue
        here = "%s.%s" % (path, key) if path else str(key)
        if key in properties:
            result[key] = prune(item, properties[key], here, lost)
        elif isinstance(additional, dict):
            result[key] = prune(item, additional, here, lost)
        elif additional is True or preserve or key in embedded:
            result[key] = item
        else:
            lost.append((here, item))
    for key, inner in properties.items():
        if isinstance(inner, dict) and "default" in inner and key not in result:
            result[key] = prune(inner["default"], inner, "", [])
    return result


def changes(before: t.Any, after: t.Any, path: str = "") -> list[Change]:
    """Return the fields in which two values differ."""
    if isinstance(before, dict) and isinstance(after, dict):
        result = []
        for key in sorted(set(before) | set(after)):
            here = "%s.%s" % (path, key) if path else str(key)
            result += changes(before.get(key), after.get(key), here)
        return result
    if isinstance(before, list) and isinstance(after, list):
        key = _named(before, after) if before + after and all(isinstance(item, dict) for item in before + after) else ""
        if key:
            first = {str(item[key]): item for item in before}
            second = {str(item[key]): item for item in after}
            pairs = [(name, first.get(name), second.get(name)) for name in sorted(set(first) | set(second))]
        elif len(before) == len(after):
            pairs = [(str(index), *pair) for index, pair in enumerate(zip(before, after))]
        else:
            return [Change(path, before, after)]
        return [change for name, old, new in pairs for change in changes(old, new, "%s[%s]" % (path, name))]
    if isinstance(before, bool) or isinstance(after, bool):
        return [] if before is after else [Change(path, before, after)]
    return [] if before == after else [Change(path, before, after)]


def clean(document: Object | None) -> Object:
    """Return an object without what the API server and controllers write."""
    if not document:
        return {}
    metadata = {key: value for key, value in (document.get("metadata") or {}).items() if key not in _SERVERS}
    marks = {key: value for key, value in annotations_of(document).items() if key not in _CONTROLLERS}
    metadata.pop("annotations", None)
    if marks:
        metadata["annotations"] = marks
    return {**{key: value for key, value in document.items() if key != "status"}, "metadata": metadata}


def _is_secret(name: t.Any) -> bool:
    return isinstance(name, str) and bool(_SECRET.search(name)) and not _NO_SECRET.search(name)


def mask(value: t.Any, other: t.Any = None, *, within: bool = False) -> t.Any:
    """Return a value with its secrets hidden; what differs from ``other`` stays visible as a difference."""
    if isinstance(value, dict):
        second = other if isinstance(other, dict) else {}
        secret = value.get("kind") == "Secret" and "apiVersion" in value
        named = _is_secret(value.get("name")) and "value" in value
        result = {}
        for key, item in value.items():
            hide = within or (secret and key in ("data", "stringData")) or _is_secret(key) or (named and key == "value")
            result[key] = mask(item, second.get(key), within=hide and (secret or not isinstance(item, (dict, list))))
        return result
    if isinstance(value, list):
        others = other if isinstance(other, list) and len(other) == len(value) else [None] * len(value)
        return [mask(item, second, within=within) for item, second in zip(value, others)]
    if within and value not in (None, "") and not isinstance(value, bool):
        return HIDDEN_OTHER if other not in (None, value) else HIDDEN
    return value


def mask_change(change: Change, kind: str) -> Change:
    """Return a change with its secrets hidden."""
    path, before, after = change
    steps = re.split(r"[.\[\]]+", path)
    hidden = (kind == "Secret" and steps[0] in ("data", "stringData")) or any(_is_secret(step) for step in steps)
    if hidden:
        return Change(path, mask(before, within=True), mask(after, before or None, within=True))
    return Change(path, mask(before), mask(after, before))


def secrets(value: t.Any, *, within: bool = False) -> set[str]:
    """Return the texts in values that look like secrets by their names."""
    if isinstance(value, dict):
        named = _is_secret(value.get("name"))
        inner = [secrets(item, within=_is_secret(key) or (named and key == "value")) for key, item in value.items()]
        return set().union(*inner)
    if isinstance(value, list):
        return set().union(*map(secrets, value))
    return {value} if within and isinstance(value, str) and len(value) > 3 else set()


def text(value: t.Any) -> str:
    """Return a value as YAML for a diff."""
    import yaml

    return str(yaml.safe_dump(value, default_flow_style=False, sort_keys=True, width=120)) if value else ""


__all__ = (
    "HIDDEN",
    "Change",
    "Key",
    "annotations_of",
    "changes",
    "clean",
    "documents",
    "has_keep_policy",
    "mask",
    "mask_change",
    "merge",
    "prepared",
    "prune",
    "release_of",
    "schema_of",
    "secrets",
    "text",
)
