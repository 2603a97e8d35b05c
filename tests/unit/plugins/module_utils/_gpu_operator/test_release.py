# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import types
import typing as t

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._gpu_operator import model, release
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._gpu_operator.model import OperatorError
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._helm import output
from ansible_collections.rdmaops.gpu_fabric.tests.support.failures import message_of


def pending(status: str, revision: int = 3, deployed: int = 1000) -> output.Release:
    return output.Release("r", "n", revision, status, deployed, "gpu-operator", "v25.3.0", "", "", True, {})


class Host(model.Host):
    """The edges, with a clock of the test's."""

    def __init__(self, busy: t.Sequence[int] = (), helm: t.Any = None) -> None:
        super().__init__(helm, t.cast("t.Any", None), lambda text: None)
        self.busy = list(busy)

    def now(self) -> float:
        return 1100.0

    def running(self, name: str, namespace: str) -> list[int]:
        assert (name, namespace) == ("r", "n")
        return self.busy


RECOVER = {"on_pending": "recover", "pending_age": 60}
# status, options, helms at work on this host, seconds pending, what the message has
REFUSALS = [
    ("pending-upgrade", {"on_pending": "fail", "pending_age": 60}, [], 100, "set on_pending to recover"),
    ("pending-install", RECOVER, [77], 100, "a helm on this host (PID 77) is working on a release of this name"),
    ("pending-rollback", RECOVER, [], 59, "It is recovered once it is older than pending_age (60 s)"),
    ("uninstalling", RECOVER, [], 10, "The helm release n/r is uninstalling, revision 3, since 10 s"),
]


@pytest.mark.parametrize(("status", "params", "busy", "age", "text"), REFUSALS, ids=[row[0] for row in REFUSALS])
def test_pending_is_refused(status: str, params: dict[str, t.Any], busy: list[int], age: int, text: str) -> None:
    stuck, host = pending(status, deployed=1100 - age), Host(busy=busy)
    assert text in message_of(OperatorError, release.plan_recovery, params, stuck, host)


# status, the history's states, the revision to go back to (None: uninstall)
RECOVERIES = [
    ("pending-install", ["pending-install"], None),
    ("uninstalling", ["superseded", "uninstalling"], None),
    ("pending-upgrade", ["superseded", "deployed", "pending-upgrade"], 2),
    ("pending-upgrade", ["deployed", "failed", "pending-upgrade"], 1),
    ("pending-upgrade", ["failed", "pending-upgrade"], None),
    ("pending-rollback", ["superseded", "failed", "pending-rollback"], 1),
]


@pytest.mark.parametrize(("status", "history", "revision"), RECOVERIES)
def test_recovery(status: str, history: list[str], revision: int | None) -> None:
    helm = types.SimpleNamespace(
        history=lambda name, namespace: [output.Revision(index, state) for index, state in enumerate(history, 1)],
        release=lambda name, namespace, number: pending("deployed", number),
    )
    recovery = release.plan_recovery(RECOVER, pending(status), Host(helm=helm))
    assert recovery is not None
    assert (recovery.base.revision if recovery.base else None) == revision


def test_a_deployed_or_failed_release_is_not_pending() -> None:
    for status in ("deployed", "failed"):
        assert release.plan_recovery(RECOVER, pending(status), Host()) is None
