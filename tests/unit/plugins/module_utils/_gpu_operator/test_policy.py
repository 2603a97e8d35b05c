# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import types
import typing as t

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._errors import FabricError
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
        self.drivers: list[t.Any] = []
        cluster = types.SimpleNamespace(read=lambda key: self.state(), all_of=lambda kind: self.drivers)
        self.cluster = t.cast("t.Any", cluster)

    def state(self) -> t.Any:
        return self.states.pop(0) if len(self.states) > 1 else self.states[0]

    def now(self) -> float:
        return self.clock

    def sleep(self, seconds: float) -> None:
        self.clock += seconds


def policy(state: str | None, *conditions: tuple[str, str, str]) -> dict[str, t.Any]:
    rows = [{"type": kind, "status": "True", "reason": reason, "message": text} for kind, reason, text in conditions]
    return {"status": {"state": state, "conditions": rows}}


def wait(host: Host, steady: int, limit: int = 20, key: Key = KEY) -> t.Any:
    return wait_until_ready(key, "n", limit, steady, host)


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


def test_a_gpu_cluster_that_is_not_ready_is_shown_with_its_drivers() -> None:
    key = Key("nvidia.com/v1alpha1", "GPUCluster", "", "gpu-cluster")
    host = Host(policy("notReady", ("Error", "OperandNotReady", "Waiting for operand pods to be ready")))
    waiting = policy("notReady", ("Error", "DriverNotReady", "Waiting for driver pod to be ready"))
    host.drivers = [
        {"metadata": {"name": "default"}, **waiting},
        {"metadata": {"name": "old"}, **policy("ready")},
        {"metadata": {"name": "new"}},
    ]
    assert message_of(OperatorError, wait, host, 0, key=key).startswith(
        "Waiting for the GPUCluster gpu-cluster to be ready: after 20 s its state is notReady, and the operator says: "
        "OperandNotReady: Waiting for operand pods to be ready; the NVIDIADriver default is notReady (DriverNotReady: "
        "Waiting for driver pod to be ready); the NVIDIADriver new is without a state. The release is in place."
    )


def test_drivers_that_cannot_be_read_are_unknown() -> None:
    def refuse(kind: tuple[str, str]) -> list[t.Any]:
        raise FabricError("Listing the nvidiadrivers: forbidden")

    host = Host(policy("notReady"))
    t.cast("t.Any", host.cluster).all_of = refuse
    text = (
        "; whether the NVIDIADrivers are ready cannot be determined: Listing the nvidiadrivers: forbidden. The release"
    )
    assert text in message_of(OperatorError, wait, host, 0)
