# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which pods have to go, and which consent that needs."""

from __future__ import annotations

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._node_drain import pods as rules
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._node_drain.node import DrainError
from ansible_collections.rdmaops.gpu_fabric.tests.unit.plugins.module_utils._node_drain.fakes import (
    NET,
    PATTERNS,
    Json,
    Plane,
    pod,
)


def networked(networks: str) -> Json:
    return pod(meta={"annotations": {NET: networks}})


def volume(**source: Json) -> Json:
    return pod(spec={"volumes": [{"name": "v", **source}, {"name": "l", "hostPath": {}}]})


ATTACHED = "has a device of the host by the attachment "
# pod, consent that its eviction needs, why
EVICTED: list[tuple[Json, str, list[str]]] = [
    (pod(), "", []),
    (pod(limits={"cpu": "8", "hugepages-2Mi": "1Gi"}), "", []),
    (pod(limits={"nvidia.com/gpu": "0"}), "", []),
    (pod(limits={"amd.com/gpu": "1"}), rules.DEVICES, ["holds amd.com/gpu: 1"]),
    (pod(limits={"aliyun.com/gpu-mem": "4"}), rules.DEVICES, ["holds aliyun.com/gpu-mem: 4"]),
    (
        pod(spec={"initContainers": [{"resources": {"requests": {"rdma/hca": 1}}}]}),
        rules.DEVICES,
        ["holds rdma/hca: 1"],
    ),
    (
        pod(spec={"resourceClaims": [{"name": "two-gpus"}]}),
        rules.DEVICES,
        ["holds devices by the resource claim two-gpus"],
    ),
    (volume(hostPath={"path": "/dev/nvidia0"}), rules.DEVICES, ["has the host's /dev/nvidia0"]),
    (networked("side"), "", []),
    (networked('[{"name": "rail", "namespace": "net"}]'), rules.DEVICES, [ATTACHED + "net/rail"]),
    (networked("broken, named"), rules.DEVICES, [ATTACHED + "ml/broken", ATTACHED + "ml/named"]),
    (networked("[{"), rules.DEVICES, [f"its annotation {NET} cannot be read"]),
    (
        pod(meta={"ownerReferences": [{"kind": "Job", "name": "x"}]}),
        rules.FORCE,
        ["has no controller that would recreate it"],
    ),
    (volume(emptyDir={"medium": "Memory"}), rules.EMPTY_DIR, ["has data in the emptyDir v"]),
]
# A pod that is terminating or has ended needs no consent.
NOT_EVICTED: list[tuple[Json, str]] = [
    (pod(limits={"nvidia.com/gpu": "1"}, meta={"deletionTimestamp": "x"}), rules.WAIT),
    (pod(limits={"nvidia.com/gpu": "1"}, phase="Failed"), rules.LEAVE),
    (pod(meta={"annotations": {rules.MIRROR: "h"}, "ownerReferences": []}), rules.LEAVE),
    (pod(meta={"ownerReferences": [{"kind": "DaemonSet", "name": "d", "controller": True}]}), rules.LEAVE),
]


@pytest.mark.parametrize(
    ("raw", "action", "traits"),
    [
        *((raw, rules.EVICT, [(consent, why) for why in whys]) for raw, consent, whys in EVICTED),
        *((raw, action, []) for raw, action in NOT_EVICTED),
    ],
)
def test_what_becomes_of_a_pod(raw: Json, action: str, traits: list[tuple[str, str]]) -> None:
    def attachment(config: str, **notes: str) -> Json:
        return {"metadata": {"annotations": notes}, "spec": {"config": config}}

    attachments = {
        "ml/side": attachment('{"type": "macvlan"}'),
        "net/rail": attachment('{"plugins": [{"type": "macvlan"}, {"type": "rdma"}]}'),
        "ml/broken": attachment("{"),
        "ml/named": attachment('{"type": "ovs"}', **{"k8s.v1.cni.cncf.io/resourceName": "x/y"}),
    }
    verdict = rules.judge(raw, PATTERNS, attachments)
    assert (verdict.action, list(verdict.traits)) == (action, traits)
    # Without Multus its annotations have no effect.
    if "annotations" in raw["metadata"]:
        assert rules.judge(raw, PATTERNS, None).traits == ()


def test_every_reason_needs_its_consent() -> None:
    raw = pod(
        limits={"nvidia.com/gpu": "8"}, meta={"ownerReferences": []}, spec={"volumes": [{"name": "s", "emptyDir": {}}]}
    )
    verdicts = [rules.judge(raw, PATTERNS, None)]
    consents = dict.fromkeys((rules.DEVICES, rules.FORCE, rules.EMPTY_DIR), False)
    (text,) = rules.blocked(verdicts, consents)
    assert text == (
        "ml/p: holds nvidia.com/gpu: 8 (evict_gpu_pods), has no controller that would recreate it (force), "
        "has data in the emptyDir s (delete_emptydir_data)"
    )
    for option in consents:
        others = {**dict.fromkeys(consents, True), option: False}
        (text,) = rules.blocked(verdicts, others)
        assert f"({option})" in text
        assert text.count("(") == 1
    assert rules.blocked(verdicts, dict.fromkeys(consents, True)) == []


@pytest.mark.parametrize(
    ("selector", "selects"),
    [
        (None, False),
        ({}, True),
        ({"matchLabels": {"app": "web"}}, True),
        ({"matchLabels": {"app": "web", "tier": "x"}}, False),
        ({"matchExpressions": [{"key": "app", "operator": "In", "values": ["web", "db"]}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["web"]}]}, False),
        ({"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["web"]}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "Exists"}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}, False),
    ],
)
def test_which_budget_a_pod_is_under(selector: Json, selects: bool) -> None:
    status = {"currentHealthy": 2, "expectedPods": 3, "disruptionsAllowed": 0}
    budget = {"metadata": {"name": "b"}, "spec": {"minAvailable": "50%", "selector": selector}, "status": status}
    expected = ["b (minAvailable 50%, 2 of 3 pods healthy, 0 disruptions allowed)"] if selects else []
    assert rules.budgets_of({"app": "web"}, [budget]) == expected


def test_a_budget_of_which_nothing_is_known_yet() -> None:
    budget = {"metadata": {"name": "b"}, "spec": {"selector": {}}}
    assert rules.budgets_of({}, [budget]) == ["b (maxUnavailable 0, 0 of 0 pods healthy, 0 disruptions allowed)"]


def test_networks_are_looked_at_if_a_pod_names_one() -> None:
    plane = Plane([pod(meta={"annotations": {NET: "rail"}})])
    rail = {"metadata": {"namespace": "ml", "name": "rail"}, "spec": {"config": '{"type": "host-device"}'}}
    plane.lists["/apis/k8s.cni.cncf.io/v1/network-attachment-definitions"] = [rail]
    with pytest.raises(DrainError, match="has a device of the host by the attachment ml/rail"):
        plane.manage(True)
    rail["spec"]["config"] = '{"type": "macvlan"}'  # type: ignore[index]
    assert plane.manage(True)["changed"]
