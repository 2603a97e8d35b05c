# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is done with consent only."""

from __future__ import annotations

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._node_drain import evict
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._node_drain import node as memory
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._node_drain import pods as rules
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._node_drain.node import DrainError
from ansible_collections.rdmaops.gpu_fabric.tests.support.failures import message_of
from ansible_collections.rdmaops.gpu_fabric.tests.unit.plugins.module_utils._node_drain.fakes import (
    CONSENTS,
    FREE,
    Clock,
    Json,
    Plane,
    node,
)


@pytest.mark.parametrize("consent", CONSENTS)
@pytest.mark.parametrize("when", ["before the run", "before the cordon", "after the cordon"])
def test_no_pod_goes_without_its_consent(consent: str, when: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evict, "POLL_S", 0)
    pods = [{**CONSENTS[consent], "metadata": {**CONSENTS[consent]["metadata"], "name": "late", "uid": "l"}}]
    looks = {
        "before the run": [pods, []],
        "before the cordon": [[FREE], [FREE, *pods], pods, []],
        "after the cordon": [[FREE], [FREE], pods, []],
    }[when]
    plane = Plane(*looks)
    with pytest.raises(DrainError, match=rf"ml/late.*\({consent}\)"):
        plane.manage(**dict.fromkeys(set(CONSENTS) - {consent}, True))
    assert plane.evicted == (["p"] if when == "after the cordon" else [])
    # A node from which nothing was evicted is given back.
    assert plane.cordoned is (when == "after the cordon")
    assert (plane.lease is None) is (when == "before the run")
    plane = Plane(*looks)
    plane.manage(**{consent: True})
    assert "late" in plane.evicted
    assert plane.cordoned


def test_a_cordon_of_an_earlier_run_stays_if_a_pod_came_before_it() -> None:
    plane = Plane([FREE], [])
    plane.manage(run="earlier")
    plane.looks = [[FREE], [CONSENTS[rules.DEVICES]]]
    plane.lease = None
    with pytest.raises(DrainError, match="new pods block the drain:"):
        plane.manage(run="two")
    assert plane.cordoned
    assert plane.evicted == ["p"]


@pytest.mark.parametrize("place", ["labels", "taints"])
@pytest.mark.parametrize("key", ["node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"])
@pytest.mark.parametrize("check", [True, False])
def test_a_node_of_the_control_plane_goes_with_consent_only(place: str, key: str, check: bool) -> None:
    spec, labels = {"labels": ({}, {key: ""}), "taints": ({"taints": [{"key": key}]}, {})}[place]
    plane = Plane([], spec=spec, metadata={"labels": labels})
    with pytest.raises(DrainError, match="Set control_plane_ok to true if it may be drained"):
        plane.manage(check)
    assert not plane.cordoned
    plane.manage(check, control_plane_ok=True)
    assert plane.cordoned is not check


def test_a_node_without_its_gpus_is_given_back_with_consent_only() -> None:
    plane = Plane([])
    plane.node["status"]["allocatable"] = {"nvidia.com/gpu": "8"}
    plane.manage()
    plane.node["status"]["allocatable"] = {"nvidia.com/gpu": "7"}
    waits = "Wait until node a is back: nvidia.com/gpu: 7 of 8"
    assert waits in plane.manage(True, state="uncordoned")["actions"]
    assert plane.cordoned
    assert waits not in plane.manage(state="uncordoned", missing_ok=True)["actions"]
    assert not plane.cordoned


OUT = {"metadata": {"annotations": {memory.NOTE: '{"run": "one", "before": {}, "failed": {"message": "no power"}}'}}}


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"spec": {"unschedulable": True}, **OUT}, "b (run one, failed: no power)"),
        (
            {"spec": {"unschedulable": True}, "metadata": {"annotations": {memory.NOTE: "?"}}},
            "b (its annotation cannot",
        ),
        # Somebody has uncordoned it, or cordoned it for another purpose.
        (OUT, ""),
        ({"spec": {"unschedulable": True}}, ""),
    ],
)
def test_nodes_that_are_out_count(clock: Clock, more: Json, text: str) -> None:
    plane = Plane([])
    plane.others = [node("b", **more)]
    for check in (True, False):
        if text:
            message = message_of(DrainError, plane.manage, check)
            assert f"max_unavailable is 1, and as many nodes are in maintenance already: {text}" in message
            assert "--limit b" in message
            assert (plane.cordoned, plane.lease) == (False, None)
        plane.manage(check, max_unavailable=2 if text else 1)
    assert plane.cordoned
    # One that is out already makes no more of them.
    plane.lease = None
    assert "Continue with node a, which run one cordoned" in plane.manage(run="two")["actions"]


def test_all_nodes_that_are_out_are_named() -> None:
    plane = Plane([])
    plane.others = [node(name, spec={"unschedulable": True}, **OUT) for name in "cb"]
    assert message_of(DrainError, plane.manage, max_unavailable=2) == (
        "Draining node a: max_unavailable is 2, and as many nodes are in maintenance already: b (run one, failed: no "
        "power); c (run one, failed: no power). Bring them back first: run the same playbook for them (--limit b,c), or make "
        "sure that they are healthy and kubectl uncordon b c. Raise max_unavailable only if the cluster can do without more "
        "nodes at a time (in the role node_maintenance, prefixed with the role's name)"
    )
