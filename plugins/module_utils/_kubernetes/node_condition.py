# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""One condition of nodes, as the node problem detector writes its own: read by people, schedulers and controllers."""

from __future__ import annotations

import functools
import json
import re
import time
import typing as t

from .._decision import DRIFT, IN_SYNC, UNKNOWN, Decision, resource
from .._errors import FabricError
from .client import Client, Object, path

# The field manager that owns the condition. Whoever else wrote it keeps it.
MANAGER = "rdmaops-gpu-fabric-condition"
# What a condition is made of (NodeCondition in k8s.io/api/core/v1/types.go), beside its times.
_FIELDS = ("status", "reason", "message")
_TYPE = re.compile(r"[A-Za-z][A-Za-z0-9]{0,62}\Z")
# metav1.Condition requires reasons like these, and controllers match them.
_REASON = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?\Z")
MESSAGE_MAX = 1024


class ConditionError(FabricError):
    """A condition that cannot be, or a node that is not there."""


def check(kind: str, conditions: t.Iterable[t.Mapping[str, t.Any]]) -> None:
    if not _TYPE.match(kind):
        raise ConditionError("Setting conditions: %r is not a valid type. Use a word such as RdmaFabricReady" % kind)
    for wanted in conditions:
        if not _REASON.match(wanted["reason"]):
            raise ConditionError(
                "Setting the condition of %s: %r is not a valid reason. Use a word such as FabricCheckFailed"
                % (wanted["node"], wanted["reason"])
            )


def live_condition(node: Object, kind: str) -> Object | None:
    rows = (node.get("status") or {}).get("conditions") or []
    return next((row for row in rows if row.get("type") == kind), None)


def is_ours(node: Object, kind: str) -> bool:
    """Return whether the status of a node's condition is as this module has applied it (managedFields)."""
    key = "k:" + json.dumps({"type": kind}, separators=(",", ":"))
    ours = [row for row in node["metadata"].get("managedFields") or [] if row.get("manager") == MANAGER]
    parts = [((row.get("fieldsV1") or {}).get("f:status") or {}).get("f:conditions") or {} for row in ours]
    return any("f:status" in conditions.get(key, {}) for conditions in parts)


def desired_condition(
    kind: str, wanted: t.Mapping[str, t.Any] | None, live: Object | None, now: str
) -> dict[str, t.Any] | None:
    """Return the condition to apply; None: it is as it should be."""
    if wanted is None:
        return None
    # "message" cannot be the name of an option.
    fields = {"status": wanted["status"], "reason": wanted["reason"], "message": wanted["why"][:MESSAGE_MAX]}
    if live is not None and all(live.get(name) == value for name, value in fields.items()):
        return None
    same = live is not None and live.get("status") == fields["status"]
    since = live.get("lastTransitionTime") if live is not None and same else now
    return {"type": kind, **fields, "lastTransitionTime": since, "lastHeartbeatTime": now}


def _text(condition: Object | None) -> str | None:
    return None if condition is None else "%(status)s %(reason)s" % {"reason": "", **condition}


def manage(params: t.Mapping[str, t.Any], check_mode: bool, client: Client) -> dict[str, t.Any]:
    """Return what the module node_condition returns."""
    kind, absent = params["type"], params["state"] == "absent"
    wanted = {row["node"]: row for row in params["conditions"]}
    check(kind, () if absent else wanted.values())
    nodes = {str(row["metadata"]["name"]): row for row in client.items(path("v1", "nodes"), "Listing the nodes") or []}
    missing = [name for name in wanted if name not in nodes]
    if missing:
        raise ConditionError(
            "Setting conditions: the cluster has no node %s. There are: %s. Give the names that the cluster has"
            % (", ".join(missing), ", ".join(sorted(nodes)) or "none")
        )
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    decision = Decision()
    resources, kept = [], []
    for name, row in wanted.items():
        live = live_condition(nodes[name], kind)
        goal = None if absent else row
        new = desired_condition(kind, goal, live, now)
        foreign = live is not None and not is_ours(nodes[name], kind)
        if foreign and (new or absent):
            kept.append("%s: another tool has set its condition %s" % (name, kind))
        elif new or (absent and live is not None):
            doing = "Set the condition %s of node %s to %s" % (kind, name, _text(new))
            if not new:
                doing = "Remove the condition %s of node %s" % (kind, name)
            body: Object = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
            body["status"] = {"conditions": [new]} if new else {}
            where = path("v1", "nodes", None, name, "status")
            step = functools.partial(client.apply, where, body, doing, manager=MANAGER)
            decision.add(doing, step, ("node %s" % name, _shown(live), _shown(new)))
        status = UNKNOWN if foreign else DRIFT if new or (absent and live is not None) else IN_SYNC
        resources.append(
            resource("node_condition", "%s %s" % (name, kind), desired=_text(goal), live=_text(live), status=status)
        )
    if not check_mode:
        decision.carry_out()
    return {**decision.result(), "kept": kept, "resources": resources}


def _shown(condition: Object | None) -> str:
    return "" if condition is None else "".join("%s: %s\n" % (name, condition.get(name)) for name in _FIELDS)


__all__ = ("MANAGER", "ConditionError", "check", "desired_condition", "is_ours", "live_condition", "manage")
