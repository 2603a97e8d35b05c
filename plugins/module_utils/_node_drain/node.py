# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""A Node: whether it is the host, what our annotation on it remembers, and what of it is not back yet."""

from __future__ import annotations

import datetime
import ipaddress
import json
import typing as t

from .._errors import FabricError
from .._formats import from_json
from .._kubernetes.client import MANAGER, ApiError, Client, Object, path

# {reason, run, since, step, failed: null or {time, message}, before: {unschedulable, boot_id, allocatable}}
NOTE = "rdmaops.gpu-fabric/maintenance"
CONTROL_PLANE = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")
# What an error may take of an annotation; all of an object's together may have 256 KiB.
MOST_TEXT = 2000
# A kubelet writes the Node's status every few seconds after its start, and each time the Node has another version.
_TRIES = 10


class DrainError(FabricError):
    """A node cannot be drained or given back; the text says why, and what unblocks it."""


def now_text(seconds: float) -> str:
    moment = datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def name_of(node: Object) -> str:
    return str(node["metadata"]["name"])


def node_path(name: str) -> str:
    return path("v1", "nodes", None, name)


def _info(node: Object, key: str) -> str:
    return str(((node.get("status") or {}).get("nodeInfo") or {}).get(key) or "")


def _same_form(address: str) -> str:
    try:
        return str(ipaddress.ip_address(address.strip()))
    except ValueError:
        return address.strip()


def internal_ips(node: Object) -> list[str]:
    rows = (node.get("status") or {}).get("addresses") or []
    return [_same_form(str(row.get("address"))) for row in rows if row.get("type") == "InternalIP"]


def owners(nodes: t.Sequence[Object], machine_id: str, addresses: t.Iterable[str]) -> list[str]:
    """Return the Nodes that a host is, by everything that identifies hosts.

    Machines that were cloned have one machine ID, and behind NAT many have the same address: only what a single Node
    has is a proof.
    """
    matches = [node for node in nodes if machine_id and _info(node, "machineID") == machine_id.strip()]
    if len(matches) != 1:
        known = {_same_form(address) for address in addresses}
        matches = [node for node in matches or nodes if known.intersection(internal_ips(node))]
    return [name_of(node) for node in matches]


def find(nodes: t.Sequence[Object], params: t.Mapping[str, t.Any], doing: str) -> Object | None:
    """Return the Node of this name, proven to be the host if the host is described; None if it has no Node."""
    name, machine_id = params["name"], params["machine_id"] or ""
    addresses = params["addresses"] or []
    node = next((candidate for candidate in nodes if name_of(candidate) == name), None)
    described = bool(machine_id or addresses)
    who = owners(nodes, machine_id, addresses) if described else []
    other = who[0] if len(who) == 1 and who != [name] else ""
    use = "; the host is Node %s, set that name (gpu_node_name)" % other if other else ""
    if node is None:
        if params["on_absent"] == "ignore" and not who:
            return None
        there = ", ".join(sorted(map(name_of, nodes))) or "none"
        raise DrainError(
            "%s: the cluster has no node of this name%s. Its nodes are: %s" % (doing, use or ", nor the host", there)
        )
    if described and who != [name]:
        raise DrainError(
            "%s: this Node is not proven to be the host. Its machineID is %s and the host's is %s; its InternalIP is "
            "%s and the host has %s%s. Nothing was changed"
            % (
                doing,
                _info(node, "machineID") or "not known",
                machine_id or "not given",
                ", ".join(internal_ips(node)) or "not known",
                ", ".join(addresses) or "no address given",
                use or ("; both may be those of %s" % ", ".join(who) if who else ""),
            )
        )
    return node


def is_cordoned(node: Object) -> bool:
    return bool((node.get("spec") or {}).get("unschedulable"))


def managers(node: Object) -> list[str]:
    """Return who has set whether pods may come, by metadata.managedFields (fieldsV1 in apimachinery's meta/v1)."""
    rows = node["metadata"].get("managedFields") or []
    return sorted(
        {str(row.get("manager")) for row in rows if "f:unschedulable" in (row.get("fieldsV1") or {}).get("f:spec", {})}
    )


def is_ours(node: Object) -> bool:
    """Whether a Node is cordoned by this collection and no one else; our annotation alone may be of an earlier time."""
    return is_cordoned(node) and noted(node) and managers(node) == [MANAGER]


def cordoner(node: Object) -> str:
    """Return who has cordoned a Node that is not ours."""
    others = [manager for manager in managers(node) if manager != MANAGER or not noted(node)]
    return ", ".join(others) or "a user that its managedFields do not name"


def noted(node: Object) -> bool:
    return NOTE in (node["metadata"].get("annotations") or {})


def outside(nodes: t.Iterable[Object]) -> dict[str, str]:
    """Return the Nodes that maintenance has taken out and not given back, with what their annotations remember."""
    nodes_out = {}
    for node in nodes:
        if is_cordoned(node) and noted(node):
            try:
                note = note_of(node) or {}
                failed = (note.get("failed") or {}).get("message")
                text = "run %s%s" % (note.get("run"), ", failed: %s" % failed if failed else "")
            except DrainError:
                text = "its annotation cannot be read"
            nodes_out[name_of(node)] = text
    return nodes_out


def is_control_plane(node: Object) -> bool:
    labels = node["metadata"].get("labels") or {}
    taints = {taint.get("key") for taint in (node.get("spec") or {}).get("taints") or []}
    return any(key in labels or key in taints for key in CONTROL_PLANE)


def note_of(node: Object) -> dict[str, t.Any] | None:
    """Return what our annotation remembers; None if the Node has none."""
    text = (node["metadata"].get("annotations") or {}).get(NOTE)
    if text is None:
        return None
    try:
        note = from_json(text)
    except ValueError:
        note = None
    if not isinstance(note, dict) or not isinstance(note.get("before"), dict):
        raise DrainError(
            "Reading the annotation %s of node %s: it was not written by this collection. Check the node, then remove "
            "the annotation with kubectl annotate node %s %s-" % (NOTE, name_of(node), name_of(node), NOTE)
        )
    return note


def extended(node: Object) -> dict[str, str]:
    """Return the extended resources of a Node, which device plugins offer: their names have a domain."""
    allocatable = (node.get("status") or {}).get("allocatable") or {}
    return {key: str(value) for key, value in sorted(allocatable.items()) if "/" in key and str(value) != "0"}


def new_note(node: Object, reason: str, run: str, when: str) -> dict[str, t.Any]:
    """Return what is recorded at a cordon; of an earlier one of ours, what was before that."""
    known = note_of(node) if is_ours(node) else None
    before = {"unschedulable": False, "boot_id": _info(node, "bootID"), "allocatable": extended(node)}
    return {
        "reason": reason,
        "run": run,
        "since": known.get("since", when) if known else when,
        "step": known.get("step", "cordoned") if known else "cordoned",
        "failed": None,
        "before": known["before"] if known else before,
    }


def not_ready(node: Object, boot_id: str) -> str:
    """Return why a Node cannot be taken for ready; its status is of the last boot until kubelet has renewed it."""
    if boot_id and _info(node, "bootID") != boot_id:
        return "its kubelet has not reported since the boot (boot id %s)" % boot_id
    rows = (node.get("status") or {}).get("conditions") or []
    ready: Object = next((row for row in rows if row.get("type") == "Ready"), {})
    if ready.get("status") != "True":
        return "Ready is %s (%s)" % (ready.get("status", "not known"), ready.get("message") or "no message")
    return ""


def shortage(node: Object, note: t.Mapping[str, t.Any]) -> list[tuple[str, str, str]]:
    """Return the resources of which a Node offers less than at the cordon: name, amount then, amount now."""
    from kubernetes.utils.quantity import parse_quantity

    now = (node.get("status") or {}).get("allocatable") or {}
    before = note["before"].get("allocatable") or {}
    return [
        (key, value, str(now.get(key, "0")))
        for key, value in sorted(before.items())
        if parse_quantity(now.get(key, "0")) < parse_quantity(value)
    ]


def write(client: Client, node: Object, doing: str, make: t.Callable[[Object], Object | None]) -> None:
    """Merge what ``make`` returns into a Node if the Node has not changed since; None: there is nothing to do.

    It is called again if the Node has, and may refuse then.
    """
    last: ApiError | None = None
    for _try in range(_TRIES):
        current = client.get(node_path(name_of(node)), doing)
        if current is None or current["metadata"]["uid"] != node["metadata"]["uid"]:
            raise DrainError("%s: the Node has been deleted%s" % (doing, ", and created again" if current else ""))
        body = make(current)
        if body is None:
            return
        metadata = body.setdefault("metadata", {})
        metadata.update(uid=current["metadata"]["uid"], resourceVersion=current["metadata"]["resourceVersion"])
        try:
            client.merge(node_path(name_of(node)), body, doing)
            return
        except ApiError as exc:
            if exc.status != 409:
                raise
            last = exc
    raise DrainError("%s: others keep changing this Node: %s" % (doing, last))


def annotated(note: t.Mapping[str, t.Any] | None) -> Object:
    """Return the part of a Node that has our annotation, or (None) removes it."""
    text = None if note is None else json.dumps(note, sort_keys=True)
    return {"metadata": {"annotations": {NOTE: text}}}


__all__ = (
    "MOST_TEXT",
    "NOTE",
    "DrainError",
    "annotated",
    "cordoner",
    "extended",
    "find",
    "internal_ips",
    "is_control_plane",
    "is_cordoned",
    "is_ours",
    "managers",
    "name_of",
    "new_note",
    "node_path",
    "not_ready",
    "note_of",
    "now_text",
    "outside",
    "owners",
    "shortage",
    "write",
)
