# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""What the parts of the GPU Operator's module share: its edges, its error, and what it observes."""

from __future__ import annotations

import time
import typing as t

from .._errors import FabricError
from .._helm import client

if t.TYPE_CHECKING:  # pragma: no cover
    from .._decision import Decision
    from .._helm.chart import Chart
    from .._helm.client import Helm
    from .._helm.output import Release
    from .cluster import Cluster

Params = t.Mapping[str, t.Any]


class OperatorError(FabricError):
    """The release is not in the desired state; ``result`` lists the actions that were started before the error."""

    result: dict[str, t.Any] = {}


class Host:
    """The edges."""

    def __init__(self, helm: Helm, cluster: Cluster, warn: t.Callable[[str], None]) -> None:
        self.helm = helm
        self.cluster = cluster
        self.warn = warn

    def now(self) -> float:
        return time.time()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def running(self, name: str, namespace: str) -> list[int]:
        return client.running(name, namespace)


class Recovery(t.NamedTuple):
    """How a pending release is recovered: by a rollback to ``base``, or by uninstalling it."""

    base: Release | None


class State(t.NamedTuple):
    """What was observed. A new release has the name and namespace of the options, an existing one keeps its own."""

    helm_version: str
    chart: Chart
    values: dict[str, t.Any]
    unknown_values: list[dict[str, str]]
    name: str
    namespace: str
    release: Release | None
    recovery: Recovery | None
    new_namespace: bool
    # Whether the history of an uninstalled release of this name was kept.
    in_history: bool

    @property
    def base(self) -> Release | None:
        """The revision that is upgraded, None if the chart is installed."""
        return self.recovery.base if self.recovery else self.release


def failed(exc: FabricError, decision: Decision) -> OperatorError:
    """Return an error that lists what was started: part of it may have been done."""
    error = OperatorError(str(exc))
    error.result = {"changed": decision.changed, "actions": decision.actions}
    return error


def pod_list(pods: t.Sequence[t.Mapping[str, str]]) -> str:
    """Return pods as a sentence names them."""
    texts = ["%(namespace)s/%(name)s on %(node)s (%(holds)s)" % pod for pod in pods[:10]]
    return ", ".join(texts) + (" and %d more" % (len(pods) - 10) if len(pods) > 10 else "")


__all__ = ("Host", "OperatorError", "Params", "Recovery", "State", "failed", "pod_list")
