# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""Labels of nodes that can be put back to what they were."""

from __future__ import annotations

import functools
import json
import re
import typing as t

from .._decision import DRIFT, IN_SYNC, Decision, resource
from .._errors import FabricError
from .._formats import json_dictionary
from .client import Client, Object, path

# {label: {"before": value or null, "set": value}}
BEFORE = "rdmaops.gpu-fabric/labels-before"
# IsQualifiedName and IsValidLabelValue in apimachinery's validation.go.
_PART = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?\Z")
_PREFIX = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?\Z")


class LabelsError(FabricError):
    """A label that cannot be, or a node that is not there."""


def check(labels: t.Mapping[str, t.Any]) -> None:
    for key, value in labels.items():
        prefix, slash, name = key.rpartition("/")
        if not _PART.match(name) or (slash and not _PREFIX.match(prefix)):
            raise LabelsError(
                "Setting labels: %r is not a valid label key; it must be [DOMAIN/]NAME, NAME with at most 63 characters"
                % key
            )
        if not isinstance(value, str) or (value and not _PART.match(value)):
            raise LabelsError(
                "Setting labels: %s is %r; a label's value is a text of at most 63 letters, digits, '-', '_' and '.'. "
                "Quote true, false and numbers" % (key, value)
            )


def memory(node: Object) -> dict[str, dict[str, t.Any]]:
    entries = json_dictionary((node["metadata"].get("annotations") or {}).get(BEFORE))
    return {key: entry for key, entry in entries.items() if isinstance(entry, dict) and "set" in entry}


def decide(
    node: Object, desired: t.Mapping[str, str], restore: bool
) -> tuple[dict[str, str | None], dict[str, dict[str, t.Any]], list[str]]:
    """Return the labels to write (None: to remove), what is to be remembered then, and what is left alone."""
    live = node["metadata"].get("labels") or {}
    known = memory(node)
    write: dict[str, str | None] = {}
    left: list[str] = []
    if not restore:
        for key, value in desired.items():
            if live.get(key) != value:
                write[key] = value
                before = known[key].get("before") if key in known else live.get(key)
                known[key] = {"before": before, "set": value}
        return write, known, left
    for key in list(known):
        if desired and key not in desired:
            continue
        entry = known.pop(key)
        if live.get(key) != entry["set"]:
            left.append("%s: it was changed to %s meanwhile" % (key, live.get(key, "nothing")))
        elif live.get(key) != entry.get("before"):
            write[key] = entry.get("before")
    return write, known, left


def manage(params: t.Mapping[str, t.Any], check_mode: bool, client: Client) -> dict[str, t.Any]:
    """Return what the module node_labels returns."""
    desired: dict[str, str] = params["labels"]
    restore = params["state"] == "restored"
    check(desired)
    nodes = {str(row["metadata"]["name"]): row for row in client.items(path("v1", "nodes"), "Listing the nodes") or []}
    missing = [name for name in params["nodes"] if name not in nodes]
    if missing:
        raise LabelsError(
            "Setting labels: the cluster has no node %s. There are: %s. Where the inventory has another name than the "
            "cluster, give the cluster's" % (", ".join(missing), ", ".join(sorted(nodes)) or "none")
        )
    decision = Decision()
    resources, kept = [], []
    for name in params["nodes"]:
        node = nodes[name]
        write, known, left = decide(node, desired, restore)
        kept += ["%s: %s" % (name, text) for text in left]
        live = node["metadata"].get("labels") or {}
        for key in sorted(desired or write):
            goal = write.get(key, live.get(key))
            status = DRIFT if key in write else IN_SYNC
            resources.append(
                resource("node_label", "%s %s" % (name, key), desired=goal, live=live.get(key), status=status)
            )
        if not write and known == memory(node):
            continue
        texts = [
            "%s=%s" % (key, value) if value is not None else "%s removed" % key for key, value in sorted(write.items())
        ]
        doing = "Label node %s: %s" % (name, ", ".join(texts) or "forget what was before")
        body = {
            "metadata": {
                "labels": write,
                "annotations": {BEFORE: json.dumps(known, sort_keys=True) if known else None},
            }
        }
        decision.add(doing, functools.partial(client.merge, path("v1", "nodes", None, name), body, doing))
        decision.show("node %s" % name, _lines(live, write), _lines({**live, **write}, write))
    if not check_mode:
        decision.carry_out()
    return {**decision.result(), "kept": kept, "resources": resources}


def _lines(labels: t.Mapping[str, str | None], keys: t.Iterable[str]) -> str:
    return "".join("%s=%s\n" % (key, labels[key]) for key in sorted(keys) if labels.get(key) is not None)


__all__ = ("BEFORE", "LabelsError", "decide", "manage", "memory")
