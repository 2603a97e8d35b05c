# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""The Lease that keeps two runs of maintenance in one cluster apart, and names the nodes that its holder works on."""

from __future__ import annotations

import datetime
import time
import typing as t

from .._kubernetes.client import ApiError, Client, Object, path
from .node import DrainError

NAME = "rdmaops-gpu-fabric-maintenance"
API = "coordination.k8s.io/v1"
# The nodes that the holder has in maintenance, with commas between them.
NODES = "rdmaops.gpu-fabric/nodes"
# Processes of one run write at the same time.
_TRIES = 10

# The holder, seconds and times of a Lease, and the nodes that it is held for.
State = t.Tuple[Object, t.Set[str]]


def _time(text: t.Any) -> float:
    """Return the seconds of a MicroTime; 0 if there is none."""
    try:
        moment = datetime.datetime.strptime(str(text), "%Y-%m-%dT%H:%M:%S.%fZ")
    except ValueError:
        return 0.0
    return moment.replace(tzinfo=datetime.timezone.utc).timestamp()


def _text(seconds: float) -> str:
    moment = datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


class Lease:
    """A run's hold on the cluster's maintenance; it ends by itself, in case the run does not end it."""

    def __init__(self, client: Client, run: str, params: t.Mapping[str, t.Any]) -> None:
        self.client, self.run = client, run
        self.duration: int = params["lease_duration"]
        self.namespace: str = params["lease_namespace"]
        self.name = "%s/%s" % (self.namespace, NAME)
        self.where = path(API, "leases", self.namespace, NAME)
        self._raw: Object | None = None

    def look(self) -> None:
        """Read the Lease; refuse while another run has it, and if it could not be made."""
        self.read()
        self.refuse_others()
        if self._raw is None:
            self._create(self._holder_spec(), set(), "Trying to take the Lease %s" % self.name, dry_run=True)

    def read(self) -> None:
        self._raw = self.client.get(self.where, "Reading the Lease %s" % self.name)

    def refuse_others(self) -> None:
        if self.of_others:
            spec = self._spec
            raise DrainError(
                "Taking the Lease %s: the run %s has held it since %s, and holds it until %s unless it renews it. "
                "Wait until it ends. If you know that it was killed, kubectl delete lease -n %s %s"
                % (
                    self.name,
                    spec["holderIdentity"],
                    spec.get("acquireTime"),
                    _text(self._ends),
                    self.namespace,
                    NAME,
                )
            )

    @property
    def _spec(self) -> Object:
        return (self._raw or {}).get("spec") or {}

    @property
    def _ends(self) -> float:
        spec = self._spec
        return _time(spec.get("renewTime")) + float(spec.get("leaseDurationSeconds") or 0)

    @property
    def of_others(self) -> bool:
        holder = self._spec.get("holderIdentity")
        return bool(holder) and holder != self.run and self._ends > time.time()

    @property
    def ours(self) -> bool:
        return self._spec.get("holderIdentity") == self.run

    @property
    def nodes(self) -> set[str]:
        """The nodes that this run has in maintenance."""
        notes = ((self._raw or {}).get("metadata") or {}).get("annotations") or {}
        return {name for name in str(notes.get(NODES) or "").split(",") if name} if self.ours else set()

    def take(self, node: str, admit: t.Callable[[set[str]], None] | None = None) -> None:
        """Take it for a node, unless ``admit`` refuses that next to the other nodes of this run.

        Of processes that try at the same time one writes; the others look again.
        """

        def state() -> State:
            self.refuse_others()
            if admit:
                admit(self.nodes - {node})
            return self._holder_spec(), self.nodes | {node}

        self._write("Taking the Lease %s" % self.name, state)

    def keep(self) -> None:
        """Refuse to go on if the run has lost it; renew it when half of its time is over."""
        self.read()
        self.refuse_loss()
        if self._ends - time.time() < self.duration / 2:
            self.renew()

    def renew(self) -> None:
        def state() -> State:
            self.refuse_loss()
            return self._holder_spec(), self.nodes

        self._write("Renewing the Lease %s" % self.name, state)

    def refuse_loss(self) -> None:
        if not self.ours:
            holder = self._spec.get("holderIdentity")
            raise DrainError(
                "Keeping the Lease %s: the run %s has lost it; %s holds it now. Check the state of the nodes, then "
                "run again" % (self.name, self.run, "the run %s" % holder if holder else "no run")
            )

    def leave(self, node: str) -> None:
        """Give it back for a node; it is free when the run has no other.

        Not deleted: client-go's leader election (release) leaves an empty holder too.
        """

        def state() -> State | None:
            if not self.ours:
                return None
            left = self.nodes - {node}
            free = {**self._spec, "holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": _text(time.time())}
            return (self._holder_spec() if left else free), left

        self._write("Releasing the Lease %s" % self.name, state)

    def _holder_spec(self) -> Object:
        now = _text(time.time())
        return {
            "holderIdentity": self.run,
            "leaseDurationSeconds": self.duration,
            "acquireTime": (self._spec.get("acquireTime") if self.ours else now) or now,
            "renewTime": now,
        }

    def _write(self, doing: str, state: t.Callable[[], State | None]) -> None:
        """Write what ``state`` makes of the Lease as it is; None: there is nothing to do."""
        last: ApiError | None = None
        for _try in range(_TRIES):
            self.read()
            desired = state()
            if desired is None:
                return
            try:
                self._raw = self._put(*desired, doing)
                return
            except ApiError as exc:
                # 409: another process was faster; 404: it was deleted between the two requests.
                if exc.status not in (404, 409):
                    raise
                last = exc
        raise DrainError("%s: others keep changing it: %s" % (doing, last))

    def _put(self, spec: Object, nodes: set[str], doing: str) -> Object:
        if self._raw is None:
            return self._create(spec, nodes, doing)
        meta = self._raw["metadata"]
        notes = {**(meta.get("annotations") or {}), NODES: ",".join(sorted(nodes))}
        body = {**self._raw, "metadata": {**meta, "annotations": notes}, "spec": spec}
        return self.client.replace(self.where, body, doing)

    def _create(self, spec: Object, nodes: set[str], doing: str, dry_run: bool = False) -> Object:
        meta = {"name": NAME, "namespace": self.namespace, "annotations": {NODES: ",".join(sorted(nodes))}}
        body = {"apiVersion": API, "kind": "Lease", "metadata": meta, "spec": spec}
        try:
            return self.client.create(path(API, "leases", self.namespace), body, doing, dry_run=dry_run)
        except ApiError as exc:
            if not exc.missing:
                raise
            raise DrainError(
                "%s: the cluster has no namespace %s. An administrator creates it once, with kubectl create namespace "
                "%s or, with an account that may use it, from docs/rbac/namespace.yml; another one is set with "
                "lease_namespace" % (doing, self.namespace, self.namespace)
            ) from exc


__all__ = ("API", "NAME", "Lease")
