# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""A node's way out of the cluster and back: cordon, drain, uncordon, and what is remembered where it fails."""

from __future__ import annotations

import functools
import json
import time
import typing as t

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils import _node_drain_node as memory
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils import _node_drain_pods as rules
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._decision import DRIFT, IN_SYNC, Decision, resource
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._errors import FabricError
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._kubernetes import ApiError, Client, Object, path
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._node_drain_evict import POLL_S, Eviction, passing
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._node_drain_lease import NAME, NAMESPACE, Lease
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._node_drain_node import DrainError

DRAINED = "drained"


class Maintenance:
    """One call for one node."""

    def __init__(self, params: t.Mapping[str, t.Any], check_mode: bool, client: Client) -> None:
        self.params, self.check_mode, self.client = params, check_mode, client
        self.name: str = params["name"]
        self.run: str = params["run"]
        self.lease = Lease(client, self.run, params["lease_duration"])
        self.eviction = Eviction(client, params, self.lease)
        self.decision = Decision()
        self.resources: list[dict[str, t.Any]] = []
        self.result: dict[str, t.Any] = {"in_cluster": True, "maintenance": None, "pods": [], "waiting_for": []}

    def _nodes(self, patience: float = 0) -> list[Object]:
        """Return the Nodes; an API server that came with the host's boot may need a while to answer."""
        ends = time.monotonic() + patience
        while True:
            try:
                return self.client.items(path("v1", "nodes"), "Listing the nodes") or []
            except ApiError as exc:
                if not passing(exc) or time.monotonic() >= ends:
                    raise
            time.sleep(POLL_S)

    def _find(self, nodes: t.Sequence[Object], doing: str) -> Object | None:
        node = memory.find(nodes, self.params, "%s node %s" % (doing, self.name))
        self.result["in_cluster"] = node is not None
        if node is not None:
            self.result["maintenance"] = memory.note_of(node)
        return node

    def _show(self, node: Object, note: t.Mapping[str, t.Any] | None, cordoned: bool) -> None:
        before = _text(memory.is_cordoned(node), memory.note_of(node))
        self.decision.show("node %s" % self.name, before, _text(cordoned, note))

    def _take_the_lease(self) -> None:
        if self.lease.due:
            self.decision.add("Take the Lease %s/%s" % (NAMESPACE, NAME), self.lease.take)

    def _give_back_the_lease(self) -> None:
        doing = "Release the Lease %s/%s, unless the run has other nodes in maintenance" % (NAMESPACE, NAME)
        self.decision.add(doing, functools.partial(self.lease.release, self._in_use))

    def _in_use(self) -> bool:
        for node in self._nodes():
            try:
                note = memory.note_of(node)
            except DrainError:
                continue
            if note and note.get("run") == self.run and not note.get("failed"):
                return True
        return False

    # drained

    def drained(self) -> None:
        doing = "Draining node %s" % self.name
        if not (self.params["machine_id"] or self.params["addresses"]):
            raise DrainError(
                "%s: give machine_id or addresses of the host, which prove that this Node is the host" % doing
            )
        node = self._find(self._nodes(), "Draining")
        if node is None:
            return
        if memory.is_control_plane(node) and not self.params["control_plane_ok"]:
            raise DrainError("%s: it is a node of the control plane. Set control_plane_ok to true if it may go" % doing)
        cordoned, note = memory.is_cordoned(node), memory.note_of(node)
        if cordoned and note is None:
            raise DrainError(
                "%s: somebody else has cordoned it, so it is left alone. Uncordon it (kubectl uncordon %s) when it may "
                "be worked on" % (doing, self.name)
            )
        self.lease.look()
        pods = self.eviction.look()
        self.result["pods"] = [_row(pod) for pod in pods]
        bars = rules.blocked(pods, self.params)
        if bars:
            raise DrainError(
                "%s: %d of its pods stand in the way, and nothing was changed: %s. Let them end, or give the consent "
                "that is named behind each (in role node_maintenance with the role's name before it)"
                % (doing, len(bars), "; ".join(bars))
            )
        leaving = [pod for pod in pods if pod.action == rules.EVICT]
        self.result["waiting_for"] = self.eviction.rehearse(leaving)
        self._decide_drain(node, note if cordoned else None, pods)

    def _decide_drain(self, node: Object, note: t.Mapping[str, t.Any] | None, pods: t.Sequence[rules.Pod]) -> None:
        going = [pod for pod in pods if pod.action != rules.LEAVE]
        live = note["step"] if note else "schedulable"
        done = live == DRAINED and not going
        self.resources.append(
            resource("node", self.name, desired=DRAINED, live=live, status=IN_SYNC if done else DRIFT)
        )
        for pod in going:
            self.resources.append(resource("pod", pod.ref, desired="absent", live="present", status=DRIFT))
        self._take_the_lease()
        taken_on = note is not None and (note.get("run") != self.run or bool(note.get("failed")))
        if note is None or taken_on:
            told = "Go on with node %s, which run %s has cordoned" % (self.name, note["run"]) if note else ""
            doing = told or "Cordon node %s: %s" % (self.name, self.params["reason"])
            self.decision.add(doing, functools.partial(self._cordon, node, doing))
        for pod in going:
            if pod.action == rules.EVICT:
                doing = "Evict the pod %s (%s)" % (pod.ref, pod.why)
                self.decision.add(doing, functools.partial(self.eviction.ask, pod))
        if going:
            self.decision.add("Wait until %s are gone" % ", ".join(pod.ref for pod in going), self.eviction.wait)
        if not done or taken_on:
            doing = "Note on node %s that it is drained" % self.name
            self.decision.add(doing, functools.partial(self._note, node, doing, {"step": DRAINED}))
            after = memory.new_note(node, self.params["reason"], self.run, memory.now_text(time.time()))
            self._show(node, {**after, "step": DRAINED}, True)

    def _cordon(self, node: Object, doing: str) -> None:
        fresh = not memory.is_cordoned(node)

        def make(current: Object) -> Object:
            if memory.is_cordoned(current) and memory.note_of(current) is None:
                raise DrainError("%s: somebody else has cordoned it meanwhile, so it is left alone" % doing)
            note = memory.new_note(current, self.params["reason"], self.run, memory.now_text(time.time()))
            return {**memory.annotated(note), "spec": {"unschedulable": True}}

        memory.write(self.client, node, doing, make)
        # Between the first look and the cordon the scheduler may have been faster.
        bars = rules.blocked(self.eviction.look(), self.params)
        if bars and fresh:
            memory.write(self.client, node, "Uncordoning node %s" % self.name, _open)
        if bars:
            raise DrainError("%s: meanwhile there came %s" % (doing, "; ".join(bars)))

    def _note(self, node: Object, doing: str, change: t.Mapping[str, t.Any], whose: str = "") -> None:
        """Change what our annotation remembers, if it still is that run's, by default this one's."""

        def make(current: Object) -> Object:
            note = memory.note_of(current)
            if note is None or note.get("run") != (whose or self.run) or not memory.is_cordoned(current):
                raise DrainError("%s: run %s does not keep it cordoned any more" % (doing, whose or self.run))
            return memory.annotated({**note, **change})

        memory.write(self.client, node, doing, make)

    # uncordoned

    def uncordoned(self) -> None:
        waits = self.params["wait_ready"] and not self.check_mode
        node = self._find(self._nodes(self.params["ready_timeout"] if waits else 0), "Uncordoning")
        if node is None:
            return
        note = memory.note_of(node)
        self.lease.read()
        if note is None:
            live = "not in maintenance"
            self.resources.append(resource("node", self.name, desired=live, live=live, status=IN_SYNC))
            if self.lease.ours:
                self._give_back_the_lease()
            return
        self.lease.refuse_others()
        failed = note.get("failed") or {}
        live = "%s: %s%s" % (note["step"], note["reason"], ", failed: %s" % failed["message"] if failed else "")
        self.resources.append(resource("node", self.name, desired="not in maintenance", live=live, status=DRIFT))
        short = {key: now for key, _then, now in memory.shortage(node, note)}
        for key, value in sorted((note["before"].get("allocatable") or {}).items()):
            status = DRIFT if key in short else IN_SYNC
            name = "%s %s" % (self.name, key)
            self.resources.append(
                resource("node_resource", name, desired=value, live=short.get(key, value), status=status)
            )
        self.result["waiting_for"] = self._not_back(node, note)
        self._take_the_lease()
        if note.get("run") != self.run or failed:
            doing = "Go on with node %s, which run %s has cordoned" % (self.name, note.get("run"))
            self.decision.add(doing, functools.partial(memory.write, self.client, node, doing, self._adopted))
        if self.result["waiting_for"]:
            doing = "Wait until node %s is back: %s" % (self.name, ", ".join(self.result["waiting_for"]))
            self.decision.add(doing, functools.partial(self._wait, note))
        doing = "Uncordon node %s" % self.name
        self.decision.add(doing, functools.partial(memory.write, self.client, node, doing, _open))
        self._show(node, None, False)
        self._give_back_the_lease()

    def _adopted(self, current: Object) -> Object | None:
        note = memory.note_of(current)
        return None if note is None else memory.annotated({**note, "run": self.run, "failed": None})

    def _not_back(self, node: Object, note: t.Mapping[str, t.Any]) -> list[str]:
        found = []
        if self.params["wait_ready"]:
            found = [text for text in [memory.not_ready(node, self.params["boot_id"] or "")] if text]
        if not self.params["missing_ok"]:
            found += ["%s: %s of %s" % (key, now, then) for key, then, now in memory.shortage(node, note)]
        return found

    def _wait(self, note: t.Mapping[str, t.Any]) -> None:
        ends = time.monotonic() + self.params["ready_timeout"]
        doing = "Reading node %s" % self.name
        while True:
            try:
                if self.lease.due:
                    self.lease.take()
                node = self.client.get(memory.node_path(self.name), doing)
                lacking = self._not_back(node, note) if node else ["the Node is gone"]
            except ApiError as exc:
                if not passing(exc):
                    raise
                lacking = [str(exc)]
            if not lacking:
                return
            if time.monotonic() >= ends:
                raise DrainError(
                    "Uncordoning node %s: not back after ready_timeout (%d s): %s. Mend the node and run again, or, "
                    "where a resource is gone for good, set missing_ok to true for one run"
                    % (self.name, self.params["ready_timeout"], "; ".join(lacking))
                )
            time.sleep(POLL_S)

    # failed

    def failed(self) -> None:
        node = self._find(self._nodes(), "Noting a failure on")
        if node is None:
            return
        note, text = self.result["maintenance"], self.params["failure"][: memory.MOST_TEXT]
        self.lease.read()
        ours = note is not None and memory.is_cordoned(node) and not self.lease.of_others
        known = ours and (note.get("failed") or {}).get("message") == text
        if ours:
            self.resources.append(
                resource("node", self.name, desired=text, live=note["failed"], status=IN_SYNC if known else DRIFT)
            )
        if ours and not known:
            failed = {"time": memory.now_text(time.time()), "message": text}
            doing = "Note on node %s what failed" % self.name
            whose = note["run"]
            self.decision.add(doing, functools.partial(self._note, node, doing, {"failed": failed}, whose))
            self._show(node, {**note, "failed": failed}, True)
        if self.lease.ours:
            self._give_back_the_lease()

    # all of them

    def carry_out(self) -> None:
        """Do it; where that fails with the node cordoned, say so on the node, and let the Lease go."""
        try:
            self.decision.carry_out()
        except FabricError as exc:
            raise DrainError("%s. %s" % (str(exc).rstrip("."), self._fail(str(exc)))) from exc

    def _fail(self, text: str) -> str:
        try:
            node = self.client.get(memory.node_path(self.name), "Reading node %s" % self.name)
            note = memory.note_of(node) if node else None
            held = note is not None and note.get("run") == self.run
            if node and held and memory.is_cordoned(node):
                failed = {"time": memory.now_text(time.time()), "message": text[: memory.MOST_TEXT]}
                self._note(node, "Noting the failure on node %s" % self.name, {"failed": failed})
            self.lease.release(self._in_use)
        except FabricError as exc:
            return "What is cordoned stays so; the failure could not be noted on the node (%s)" % exc
        if held:
            return (
                "The node stays cordoned, with this in its annotation %s, and the next run goes on from there"
                % memory.NOTE
            )
        return "The node is not cordoned by this run"


def _open(current: Object) -> Object | None:
    """Return what takes our cordon back."""
    if memory.note_of(current) is None:
        return None
    return {**memory.annotated(None), "spec": {"unschedulable": None}}


def _row(pod: rules.Pod) -> dict[str, t.Any]:
    traits = [{"option": option, "why": why} for option, why in pod.traits]
    return {**pod._asdict(), "traits": traits}


def _text(cordoned: bool, note: t.Mapping[str, t.Any] | None) -> str:
    shown = json.dumps(note, sort_keys=True, indent=2)
    return "unschedulable: %s\n%s: %s\n" % (str(cordoned).lower(), memory.NOTE, shown)


def manage(params: t.Mapping[str, t.Any], check_mode: bool, client: Client) -> dict[str, t.Any]:
    """Return what the module node_drain returns."""
    for key in ("drain_timeout", "ready_timeout", "lease_duration"):
        if params[key] < 1:
            raise DrainError("%s is %d; it has to be at least 1 second" % (key, params[key]))
    one = Maintenance(params, check_mode, client)
    {"drained": one.drained, "uncordoned": one.uncordoned, "failed": one.failed}[params["state"]]()
    if not check_mode:
        one.carry_out()
    return {**one.decision.result(), **one.result, "resources": one.resources}


__all__ = ("manage",)
