# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""The Lease that keeps two runs of maintenance in one cluster apart."""

from __future__ import annotations

import datetime
import time
import typing as t

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._kubernetes import ApiError, Client, Object, path
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._node_drain_node import DrainError

NAMESPACE = "kube-system"
NAME = "rdmaops-gpu-fabric-maintenance"
API = "coordination.k8s.io/v1"
# Two processes of one run may write at the same time.
_TRIES = 10


def _time(text: t.Any) -> float:
    """Return the seconds of a MicroTime; 0 where there is none."""
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

    def __init__(self, client: Client, run: str, duration: int) -> None:
        self.client, self.run, self.duration = client, run, duration
        self.where = path(API, "leases", NAMESPACE, NAME)
        self._raw: Object | None = None

    def look(self) -> None:
        """Read the Lease; refuse while another run has it."""
        self.read()
        self.refuse_others()

    def read(self) -> None:
        self._raw = self.client.get(self.where, "Reading the Lease %s/%s" % (NAMESPACE, NAME))

    def refuse_others(self) -> None:
        if self.of_others:
            spec = self._spec
            raise DrainError(
                "Taking the Lease %s/%s: the run %s holds it since %s, and until %s unless it renews it. Wait for its "
                "end. If it was killed and you know that, kubectl delete lease -n %s %s"
                % (
                    NAMESPACE,
                    NAME,
                    spec["holderIdentity"],
                    spec.get("acquireTime"),
                    _text(self._ends),
                    NAMESPACE,
                    NAME,
                )
            )

    @property
    def _spec(self) -> Object:
        return (self._raw or {}).get("spec") or {}

    @property
    def _ends(self) -> float:
        spec = self._spec
        if not spec.get("holderIdentity"):
            return 0.0
        return _time(spec.get("renewTime")) + float(spec.get("leaseDurationSeconds") or 0)

    @property
    def of_others(self) -> bool:
        return self._ends > time.time() and not self.ours

    @property
    def ours(self) -> bool:
        return self._spec.get("holderIdentity") == self.run

    @property
    def due(self) -> bool:
        """Whether it has to be taken, or renewed because half of its time is over."""
        return not self.ours or self._ends - time.time() < self.duration / 2

    def take(self) -> None:
        """Take or renew it, against whoever tries the same."""
        doing = "Taking the Lease %s/%s" % (NAMESPACE, NAME)
        last: ApiError | None = None
        for _try in range(_TRIES):
            self.look()
            now = _text(time.time())
            began = self._spec.get("acquireTime") if self.ours else now
            spec = {
                "holderIdentity": self.run,
                "leaseDurationSeconds": self.duration,
                "acquireTime": began or now,
                "renewTime": now,
            }
            try:
                self._raw = self._put(spec, doing)
                return
            except ApiError as exc:
                # 409: somebody was faster; 404: it was deleted between the two requests.
                if exc.status not in (404, 409):
                    raise
                last = exc
        raise DrainError("%s: others change it all the time: %s" % (doing, last))

    def _put(self, spec: Object, doing: str) -> Object:
        if self._raw is None:
            meta = {"name": NAME, "namespace": NAMESPACE}
            body = {"apiVersion": API, "kind": "Lease", "metadata": meta, "spec": spec}
            return self.client.create(path(API, "leases", NAMESPACE), body, doing)
        return self.client.replace(self.where, {**self._raw, "spec": spec}, doing)

    def release(self, in_use: t.Callable[[], bool]) -> None:
        """Give it back, unless it is in use. Whoever renews it meanwhile keeps it.

        Not deleted: client-go's leader election (release) leaves an empty holder too.
        """
        doing = "Releasing the Lease %s/%s" % (NAMESPACE, NAME)
        self._raw = self.client.get(self.where, doing)
        if not self.ours or in_use():
            return
        spec = {**self._spec, "holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": _text(time.time())}
        try:
            self._raw = self._put(spec, doing)
        except ApiError as exc:
            if exc.status not in (404, 409):
                raise


__all__ = ("API", "NAME", "NAMESPACE", "Lease")
