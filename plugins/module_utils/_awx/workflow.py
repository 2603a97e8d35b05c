# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""The nodes of a workflow, by their identifiers."""

from __future__ import annotations

import functools
import typing as t

from .._decision import Decision
from .client import Client, Object
from .kinds import Entry, coerce

EDGES = ("success_nodes", "failure_nodes", "always_nodes")


class _Finder(t.Protocol):
    problems: list[str]

    def find(self, entry: Entry, kinds: tuple[str, ...], name: str) -> Entry | None: ...


class Nodes:
    """The desired nodes of a workflow."""

    def __init__(self, workflow: Entry, nodes: list[Object]) -> None:
        self.workflow = workflow
        self.desired = {str(node.get("identifier")): node for node in nodes}
        self.nodes = nodes
        self.templates: dict[str, Entry | None] = {}
        self.ids: dict[str, int] = {}

    def resolve(self, plan: _Finder) -> None:
        """Find the templates that the nodes run."""
        if len(self.desired) != len(self.nodes):
            plan.problems.append("%s: every node needs a unique identifier" % self.workflow)
        for identifier, node in self.desired.items():
            where = "%s, node %s" % (self.workflow, identifier)
            if bool(node.get("approval")) == bool(node.get("unified_job_template")):
                plan.problems.append("%s: set either unified_job_template or approval" % where)
            elif node.get("approval"):
                if not node["approval"].get("name"):
                    plan.problems.append("%s: the approval has no name" % where)
            else:
                kinds = ("job_templates", "workflow_job_templates")
                self.templates[identifier] = plan.find(self.workflow, kinds, node["unified_job_template"])
            unknown = {name for edge in EDGES for name in node.get(edge) or []} - set(self.desired)
            if unknown:
                plan.problems.append("%s leads to %s, which is not a node" % (where, ", ".join(sorted(unknown))))

    def shape(self) -> Object:
        """Return the desired nodes, in the shape in which ``decide`` returns the live ones."""
        return {
            identifier: {
                "runs": _approval(node["approval"]) if node.get("approval") else node["unified_job_template"],
                "all_parents_must_converge": bool(node.get("all_parents_must_converge")),
                **{edge: sorted(node.get(edge) or []) for edge in EDGES},
            }
            for identifier, node in self.desired.items()
        }

    def decide(self, client: Client, decision: Decision) -> Object:
        """Add the changes of the nodes, and return the live ones."""
        live = self._live(client)
        before = {identifier: self._live_shape(client, node, live) for identifier, node in live.items()}
        desired = self.shape()
        for identifier, node in live.items():
            self.ids[identifier] = node["id"]
            if identifier not in desired:
                doing = "Delete the node %s of the %s" % (identifier, self.workflow)
                decision.add(doing, functools.partial(client.call, "DELETE", _path(node["id"]), doing))
        for identifier, node in desired.items():
            self._decide_node(client, decision, identifier, node, before.get(identifier), live.get(identifier))
        # An old edge may conflict with a new one.
        for remove in (True, False):
            for identifier, node in desired.items():
                has = before.get(identifier) or {}
                for edge in EDGES:
                    old, new = set(has.get(edge, ())), set(node[edge])
                    for other in sorted((old & set(desired)) - new if remove else new - old):
                        doing = "%s the %s of the %s, node %s: %s" % (
                            "Remove from" if remove else "Add to",
                            edge,
                            self.workflow,
                            identifier,
                            other,
                        )
                        step = functools.partial(self._connect, client, identifier, edge, other, remove, doing)
                        decision.add(doing, step)
        return before

    def _live(self, client: Client) -> dict[str, Object]:
        if self.workflow.live is None:
            return {}
        path = self.workflow.live["url"] + "workflow_nodes/"
        return {node["identifier"]: node for node in client.every(path, "Reading the nodes of the %s" % self.workflow)}

    def _live_shape(self, client: Client, node: Object, live: t.Mapping[str, Object]) -> Object:
        names = {other["id"]: identifier for identifier, other in live.items()}
        template = (node.get("summary_fields") or {}).get("unified_job_template") or {}
        runs: t.Any = template.get("name")
        if template.get("unified_job_type") == "workflow_approval":
            doing = "Reading the approval of the %s, node %s" % (self.workflow, node["identifier"])
            runs = _approval(client.get("workflow_approval_templates/%d/" % node["unified_job_template"], doing))
        else:
            entry = self.templates.get(node["identifier"])
            if entry and entry.name == runs and entry.id != node["unified_job_template"]:
                runs = "%s (number %s)" % (runs, node["unified_job_template"])
        return {
            "runs": runs,
            "all_parents_must_converge": bool(node["all_parents_must_converge"]),
            **{edge: sorted(names.get(number, str(number)) for number in node[edge]) for edge in EDGES},
        }

    def _decide_node(
        self, client: Client, decision: Decision, identifier: str, node: Object, has: Object | None, live: Object | None
    ) -> None:
        where = "node %s of the %s" % (identifier, self.workflow)
        base = {"identifier": identifier, "all_parents_must_converge": node["all_parents_must_converge"]}
        differs = has is None or has["runs"] != node["runs"]
        if has is None:
            doing = "Create the %s" % where
            decision.add(doing, functools.partial(self._create, client, identifier, base, doing))
        elif has["all_parents_must_converge"] != node["all_parents_must_converge"] or (
            differs and isinstance(node["runs"], str)
        ):
            doing = "Change the %s" % where
            decision.add(doing, functools.partial(self._change, client, identifier, base, doing))
        if differs and isinstance(node["runs"], dict):
            doing = "Write the approval of the %s" % where
            known = live["unified_job_template"] if live and has and isinstance(has["runs"], dict) else None
            decision.add(doing, functools.partial(self._approve, client, identifier, node["runs"], known, doing))

    def _body(self, identifier: str, base: Object) -> Object:
        template = self.templates.get(identifier)
        return {**base, "unified_job_template": template.id} if template else base

    def _create(self, client: Client, identifier: str, base: Object, doing: str) -> None:
        path = self.workflow.there["url"] + "workflow_nodes/"
        self.ids[identifier] = client.call("POST", path, doing, self._body(identifier, base))["id"]

    def _change(self, client: Client, identifier: str, base: Object, doing: str) -> None:
        client.call("PATCH", _path(self.ids[identifier]), doing, self._body(identifier, base))

    def _approve(self, client: Client, identifier: str, approval: Object, known: int | None, doing: str) -> None:
        if known is None:
            client.call("POST", _path(self.ids[identifier]) + "create_approval_template/", doing, approval)
        else:
            client.call("PATCH", "workflow_approval_templates/%d/" % known, doing, approval)

    def _connect(self, client: Client, identifier: str, edge: str, other: str, remove: bool, doing: str) -> None:
        body: Object = {"id": self.ids[other]}
        if remove:
            body["disassociate"] = True
        client.call("POST", _path(self.ids[identifier]) + edge + "/", doing, body)


def _path(number: int) -> str:
    return "workflow_job_template_nodes/%d/" % number


def _approval(approval: t.Mapping[str, t.Any]) -> Object:
    timeout = coerce("timeout", approval.get("timeout") or 0)
    return {"name": approval["name"], "description": approval.get("description") or "", "timeout": timeout}


__all__ = ("EDGES", "Nodes")
