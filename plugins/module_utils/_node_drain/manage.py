# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""A node's way out of the cluster and back: cordon, drain, uncordon, and what is recorded if it fails."""

from __future__ import annotations

import functools
import json
import time
import typing as t

from .._decision import DRIFT, IN_SYNC, Decision, resource
from .._errors import FabricError
from .._kubernetes.client import ApiError, Client, Object, path
from . import node as memory
from . import pods as rules
from .evict import POLL_S, Eviction, passing
from .lease import Lease
from .node import DrainError

DRAINED = "drained"
LIMITS = {"drain_timeout": " second", "ready_timeout": " second", "lease_duration": " second", "max_unavailable": ""}


class Maintenance:
    """One call for one node."""

    def __init__(self, params: t.Mapping[str, t.Any], check_mode: bool, client: Client) -> None:
        self.params, self.check_mode, self.client = params, check_mode, client
        self.name: str = params["name"]
        self.run: str = params["run"]
        self.lease = Lease(client, self.run, params)
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

    def _take_the_lease(self, admit: t.Callable[[set[str]], None] | None = None) -> None:
        if self.name not in self.lease.nodes:
            doing = "Take the Lease %s" % self.lease.name
            self.decision.add(doing, functools.partial(self.lease.take, self.name, admit))

    def _give_back_the_lease(self) -> None:
        doing = "Release the Lease %s, unless the run has other nodes in maintenance" % self.lease.name
        self.decision.add(doing, functools.partial(self.lease.leave, self.name))

    def _no_more_than_allowed(self, admitted: t.Iterable[str]) -> None:
        """Refuse one node more while as many are out as may be, by this run or any other, failed ones included."""
        out = {**dict.fromkeys(admitted, "of this run"), **memory.outside(self._nodes())}
        if self.name not in out and len(out) >= self.params["max_unavailable"]:
            names = sorted(out)
            raise DrainError(
                "Draining node %s: max_unavailable is %d, and as many nodes are in maintenance already: %s. Bring them "
                "back first: run the same playbook for them (--limit %s), or make sure that they are healthy and "
                "kubectl uncordon %s. Raise max_unavailable only if the cluster can do without more nodes at a time "
                "(in the role node_maintenance, prefixed with the role's name)"
                % (
                    self.name,
                    self.params["max_unavailable"],
                    "; ".join("%s (%s)" % (name, out[name]) for name in names),
                    ",".join(names),
                    " ".join(names),
                )
            )

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
            raise DrainError(
                "%s: it is a control-plane node. Set control_plane_ok to true if it may be drained" % doing
            )
        self._refuse_foreign(node, doing)
        self.lease.look()
        self._no_more_than_allowed(self.lease.nodes - {self.name})
        pods = self.eviction.look()
        self.result["pods"] = [_row(pod) for pod in pods]
        bars = rules.blocked(pods, self.params)
        if bars:
            raise DrainError(
                "%s: %d of its pods block the drain, and nothing was changed: %s. Let them finish, or give the consent "
                "named after each (in the role node_maintenance, prefixed with the role's name)"
                % (doing, len(bars), "; ".join(bars))
            )
        leaving = [pod for pod in pods if pod.action == rules.EVICT]
        self.result["waiting_for"] = self.eviction.rehearse(leaving)
        self._decide_drain(node, memory.note_of(node) if memory.is_ours(node) else None, pods)

    def _refuse_foreign(self, node: Object, doing: str) -> None:
        if memory.is_cordoned(node) and not memory.is_ours(node):
            raise DrainError(
                "%s: %s has cordoned it, so it is left alone. Once it may be worked on: kubectl uncordon %s"
                % (doing, memory.cordoner(node), self.name)
            )

    def _decide_drain(self, node: Object, note: t.Mapping[str, t.Any] | None, pods: t.Sequence[rules.Pod]) -> None:
        going = [pod for pod in pods if pod.action != rules.LEAVE]
        live = note["step"] if note else "schedulable"
        done = live == DRAINED and not going
        self.resources.append(
            resource("node", self.name, desired=DRAINED, live=live, status=IN_SYNC if done else DRIFT)
        )
        for pod in going:
            self.resources.append(resource("pod", pod.ref, desired="absent", live="present", status=DRIFT))
        self._take_the_lease(self._no_more_than_allowed)
        taken_on = note is not None and (note.get("run") != self.run or bool(note.get("failed")))
        if note is None or taken_on:
            going_on = "Continue with node %s, which run %s cordoned" % (self.name, note["run"]) if note else ""
            doing = going_on or "Cordon node %s: %s" % (self.name, self.params["reason"])
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
        fresh = False

        def make(current: Object) -> Object:
            nonlocal fresh
            fresh = not memory.is_cordoned(current)
            self._refuse_foreign(current, doing)
            self.lease.keep()
            note = memory.new_note(current, self.params["reason"], self.run, memory.now_text(time.time()))
            return {**memory.annotated(note), "spec": {"unschedulable": True}}

        memory.write(self.client, node, doing, make)
        # Between a look and the cordon the scheduler, or a run that has taken the Lease, may have been faster.
        try:
            self.lease.keep()
            bars = rules.blocked(self.eviction.look(), self.params)
            if bars:
                raise DrainError("%s: new pods block the drain: %s" % (doing, "; ".join(bars)))
        except FabricError:
            if fresh:
                memory.write(self.client, node, "Uncordoning node %s" % self.name, self._undone)
            raise

    def _note(self, node: Object, doing: str, change: t.Mapping[str, t.Any], whose: str = "") -> None:
        """Change what our annotation remembers, if it still is that run's, by default this one's."""

        def make(current: Object) -> Object:
            note = memory.note_of(current)
            if note is None or note.get("run") != (whose or self.run) or not memory.is_ours(current):
                raise DrainError("%s: run %s no longer keeps it cordoned" % (doing, whose or self.run))
            return memory.annotated({**note, **change})

        memory.write(self.client, node, doing, make)

    # uncordoned

    def uncordoned(self) -> None:
        waits = self.params["wait_ready"] and not self.check_mode
        node = self._find(self._nodes(self.params["ready_timeout"] if waits else 0), "Uncordoning")
        self.lease.read()
        note = memory.note_of(node) if node else None
        if node is not None and not self.params["take_over"]:
            self._refuse_what_others_have(note)
        if node is None or note is None:
            if node is not None:
                live = "not in maintenance"
                self.resources.append(resource("node", self.name, desired=live, live=live, status=IN_SYNC))
            if self.name in self.lease.nodes:
                self._give_back_the_lease()
            return
        self.lease.refuse_others()
        if memory.is_ours(node):
            self._decide_return(node, note)
        else:
            self._decide_to_forget(node, note)
        self._give_back_the_lease()

    def _decide_return(self, node: Object, note: t.Mapping[str, t.Any]) -> None:
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
            doing = "Continue with node %s, which run %s cordoned" % (self.name, note.get("run"))
            self.decision.add(doing, functools.partial(memory.write, self.client, node, doing, self._adopted))
        if self.result["waiting_for"]:
            doing = "Wait until node %s is back: %s" % (self.name, ", ".join(self.result["waiting_for"]))
            self.decision.add(doing, functools.partial(self._wait, note))
        doing = "Uncordon node %s" % self.name
        self.decision.add(doing, functools.partial(memory.write, self.client, node, doing, self._return))
        self._show(node, None, False)

    def _refuse_what_others_have(self, note: t.Mapping[str, t.Any] | None) -> None:
        self.lease.refuse_loss()
        if note is None or note.get("run") != self.run:
            raise DrainError(
                "Uncordoning node %s: it is no longer in maintenance by the run %s. %s"
                % (
                    self.name,
                    self.run,
                    "The run %s has taken it over" % note.get("run") if note else "It was returned",
                )
            )

    def _decide_to_forget(self, node: Object, note: t.Mapping[str, t.Any]) -> None:
        """Remove a note of a cordon that is not there any more; whose cordon there is now, if any, is not touched."""
        run, cordoned = note.get("run"), memory.is_cordoned(node)
        why = "%s has cordoned it since run %s" % (memory.cordoner(node), run)
        if not cordoned:
            why = "it was uncordoned since run %s cordoned it" % run
        live = "the annotation is stale: %s" % why
        self.resources.append(resource("node", self.name, desired="not in maintenance", live=live, status=DRIFT))
        self._take_the_lease()
        doing = "Remove the annotation %s from node %s: %s" % (memory.NOTE, self.name, why)

        def make(current: Object) -> Object | None:
            self.lease.keep()
            stale = memory.note_of(current) == note and not memory.is_ours(current)
            return memory.annotated(None) if stale else None

        self.decision.add(doing, functools.partial(memory.write, self.client, node, doing, make))
        self._show(node, None, cordoned)

    def _return(self, current: Object) -> Object:
        """Return what takes the cordon of this run back."""
        doing = "Uncordoning node %s" % self.name
        self.lease.keep()
        self._refuse_foreign(current, doing)
        undone = self._undone(current)
        if undone is None:
            raise DrainError("%s: run %s no longer keeps it cordoned" % (doing, self.run))
        return undone

    def _undone(self, current: Object) -> Object | None:
        note = memory.note_of(current)
        if note is None or note.get("run") != self.run or not memory.is_ours(current):
            return None
        return {**memory.annotated(None), "spec": {"unschedulable": None}}

    def _adopted(self, current: Object) -> Object | None:
        self.lease.keep()
        note = memory.note_of(current)
        return None if note is None else memory.annotated({**note, "run": self.run, "failed": None})

    def _not_back(self, node: Object, note: t.Mapping[str, t.Any]) -> list[str]:
        reasons = []
        if self.params["wait_ready"]:
            reasons = [text for text in [memory.not_ready(node, self.params["boot_id"] or "")] if text]
        if not self.params["missing_ok"]:
            reasons += ["%s: %s of %s" % (key, now, then) for key, then, now in memory.shortage(node, note)]
        return reasons

    def _wait(self, note: t.Mapping[str, t.Any]) -> None:
        ends = time.monotonic() + self.params["ready_timeout"]
        doing = "Reading node %s" % self.name
        while True:
            try:
                self.lease.keep()
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
                    "Uncordoning node %s: not back after ready_timeout (%d s): %s. Repair the node and run again, or, "
                    "if a resource is gone for good, set missing_ok to true for one run"
                    % (self.name, self.params["ready_timeout"], "; ".join(lacking))
                )
            time.sleep(POLL_S)

    # failed

    def failed(self) -> None:
        node = self._find(self._nodes(), "Noting a failure on")
        self.lease.read()
        note, text = self.result["maintenance"], self.params["failure"][: memory.MOST_TEXT]
        if node is not None and note is not None and memory.is_ours(node) and not self.lease.of_others:
            known = (note.get("failed") or {}).get("message") == text
            self.resources.append(
                resource("node", self.name, desired=text, live=note["failed"], status=IN_SYNC if known else DRIFT)
            )
            if not known:
                failed = {"time": memory.now_text(time.time()), "message": text}
                doing = "Note on node %s what failed" % self.name
                whose = note["run"]
                self.decision.add(doing, functools.partial(self._note, node, doing, {"failed": failed}, whose))
                self._show(node, {**note, "failed": failed}, True)
        if self.name in self.lease.nodes:
            self._give_back_the_lease()

    # all of them

    def carry_out(self) -> None:
        """Do it; if that fails with the node cordoned, note that on the node, and let the Lease go."""
        try:
            self.decision.carry_out()
            if self.name in self.lease.nodes:
                # What comes before the run's next call has the whole of its time.
                self.lease.renew()
        except FabricError as exc:
            raise DrainError("%s. %s" % (str(exc).rstrip("."), self._fail(str(exc)))) from exc

    def _fail(self, text: str) -> str:
        try:
            node = self.client.get(memory.node_path(self.name), "Reading node %s" % self.name)
            note = memory.note_of(node) if node else None
            held = note is not None and note.get("run") == self.run and node is not None and memory.is_ours(node)
            if node and held:
                failed = {"time": memory.now_text(time.time()), "message": text[: memory.MOST_TEXT]}
                self._note(node, "Recording the failure on node %s" % self.name, {"failed": failed})
            self.lease.leave(self.name)
        except FabricError as exc:
            return "Cordoned nodes stay cordoned; the failure could not be recorded on the node (%s)" % exc
        if held:
            return (
                "The node stays cordoned, with this in its annotation %s, and the next run continues from there"
                % memory.NOTE
            )
        return "The node is not cordoned by this run"


def _row(pod: rules.Pod) -> dict[str, t.Any]:
    traits = [{"option": option, "why": why} for option, why in pod.traits]
    return {**pod._asdict(), "traits": traits}


def _text(cordoned: bool, note: t.Mapping[str, t.Any] | None) -> str:
    shown = json.dumps(note, sort_keys=True, indent=2)
    return "unschedulable: %s\n%s: %s\n" % (str(cordoned).lower(), memory.NOTE, shown)


def manage(params: t.Mapping[str, t.Any], check_mode: bool, client: Client) -> dict[str, t.Any]:
    """Return what the module node_drain returns."""
    for key, unit in LIMITS.items():
        if params[key] < 1:
            raise DrainError("%s is %d; it must be at least 1%s" % (key, params[key], unit))
    maintenance = Maintenance(params, check_mode, client)
    {"drained": maintenance.drained, "uncordoned": maintenance.uncordoned, "failed": maintenance.failed}[
        params["state"]
    ]()
    if not check_mode:
        maintenance.carry_out()
    return {**maintenance.decision.result(), **maintenance.result, "resources": maintenance.resources}


__all__ = ("manage",)
