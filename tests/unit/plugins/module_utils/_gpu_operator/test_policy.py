# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import types
import typing as t

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._gpu_operator import model
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._gpu_operator.compare import Key
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._gpu_operator.model import OperatorError
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._gpu_operator.policy import wait_until_ready
from ansible_collections.rdmaops.gpu_fabric.tests.support.failures import message_of

KEY = Key("nvidia.com/v1", "ClusterPolicy", "", "cluster-policy")


class Host(model.Host):
    """The edges, with a clock and the states of the ClusterPolicy of the test's; the last state stays."""

    def __init__(self, *states: t.Any) -> None:
        self.clock = 1100.0
        self.states = list(states)
        self.cluster = t.cast("t.Any", types.SimpleNamespace(read=lambda key: self.state()))

    def state(self) -> t.Any:
        return self.states.pop(0) if len(self.states) > 1 else self.states[0]

    def now(self) -> float:
        return self.clock

    def sleep(self, seconds: float) -> None:
        self.clock += seconds


def policy(state: str | None, *conditions: tuple[str, str, str]) -> dict[str, t.Any]:
    rows = [{"type": kind, "status": "True", "reason": reason, "message": text} for kind, reason, text in conditions]
    return {"status": {"state": state, "conditions": rows}}


def wait(host: Host, steady: int, limit: int = 20) -> t.Any:
    return wait_until_ready(KEY, "n", limit, steady, host)


def test_ready_from_before_the_change_is_not_believed_at_once() -> None:
    ready, not_ready = policy("ready"), policy("notReady")
    host = Host(ready, not_ready, ready)
    assert wait(host, 5)["state"] == "ready"
    assert host.clock >= 1100 + 2 + 2 + 5
    assert wait(Host(ready), 0)["state"] == "ready"


# the ClusterPolicy, what the message has
TIMEOUTS = [
    (None, "its state is missing"),
    (policy(None), "its state is not set (does the operator run?)"),
    (policy("ignored"), "its state is ignored. The release is in place"),
    (
        policy("notReady", ("Error", "OperandNotReady", "x is not ready")),
        "and the operator says: OperandNotReady: x is not ready",
    ),
]


@pytest.mark.parametrize(("state", "text"), TIMEOUTS, ids=["missing", "none", "ignored", "not ready"])
def test_wait_has_an_end(state: t.Any, text: str) -> None:
    host = Host(state)
    message = message_of(OperatorError, wait, host, 0)
    assert text in message
    assert "after 20 s" in message
    assert 20 <= host.clock - 1100 <= 22
