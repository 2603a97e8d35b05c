# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which pods have to go, and which consent that needs."""

from __future__ import annotations

import json

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
    ({**pod(), "status": {}}, "", []),
    (pod(spec={"containers": [{"name": "c"}]}), "", []),
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
    (
        pod(
            limits={"nvidia.com/gpu": "1"}, spec={"initContainers": [{"resources": {"limits": {"nvidia.com/gpu": 1}}}]}
        ),
        rules.DEVICES,
        ["holds nvidia.com/gpu: 1"],
    ),
    (volume(hostPath={"path": "/dev/nvidia0"}), rules.DEVICES, ["has the host's /dev/nvidia0"]),
    (volume(hostPath={"path": "/dev/infiniband"}), rules.DEVICES, ["has the host's /dev/infiniband"]),
    (networked("side"), "", []),
    (networked("nothing"), rules.DEVICES, [ATTACHED + "ml/nothing"]),
    (networked("no-config"), rules.DEVICES, [ATTACHED + "ml/no-config"]),
    (networked("gone"), rules.DEVICES, [ATTACHED + "ml/gone"]),
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
NOT_EVICTED: list[tuple[Json, str, str]] = [
    (pod(limits={"nvidia.com/gpu": "1"}, meta={"deletionTimestamp": "x"}), rules.WAIT, "is being deleted, due x"),
    (pod(limits={"nvidia.com/gpu": "1"}, phase="Failed"), rules.LEAVE, "has ended"),
    (pod(limits={"nvidia.com/gpu": "1"}, phase="Succeeded"), rules.LEAVE, "has ended"),
    (
        pod(meta={"annotations": {"kubernetes.io/config.mirror": "h"}, "ownerReferences": []}),
        rules.LEAVE,
        "a mirror of a static pod",
    ),
    (
        pod(meta={"ownerReferences": [{"kind": "DaemonSet", "name": "d", "controller": True}]}),
        rules.LEAVE,
        "of the DaemonSet d, which would recreate it",
    ),
]


@pytest.mark.parametrize(
    ("raw", "action", "why", "traits"),
    [
        *(
            (raw, rules.EVICT, "unmanaged" if consent == rules.FORCE else "Job train", [(consent, why) for why in whys])
            for raw, consent, whys in EVICTED
        ),
        *((raw, action, why, []) for raw, action, why in NOT_EVICTED),
    ],
)
def test_what_becomes_of_a_pod(raw: Json, action: str, why: str, traits: list[tuple[str, str]]) -> None:
    def attachment(config: str, **notes: str) -> Json:
        return {"metadata": {"annotations": notes}, "spec": {"config": config}}

    attachments = {
        "ml/side": attachment('{"type": "macvlan"}'),
        "net/rail": attachment('{"plugins": [{"type": "macvlan"}, {"type": "rdma"}]}'),
        "ml/broken": attachment("{"),
        "ml/nothing": {"metadata": {}},
        "ml/no-config": {"metadata": {}, "spec": {}},
        "ml/named": attachment('{"type": "ovs"}', **{"k8s.v1.cni.cncf.io/resourceName": "x/y"}),
    }
    verdict = rules.judge(raw, PATTERNS, attachments)
    assert (verdict.action, verdict.why, list(verdict.traits)) == (action, why, traits)
    # Without Multus its annotations have no effect.
    if "annotations" in raw["metadata"]:
        assert rules.judge(raw, PATTERNS, None).traits == ()


@pytest.mark.parametrize("kind", ["host-device", "sriov", "ib-sriov", "rdma"])
def test_an_attachment_of_a_kind_that_moves_devices_needs_consent(kind: str) -> None:
    attachments = {"ml/rail": {"metadata": {}, "spec": {"config": json.dumps({"type": kind})}}}
    verdict = rules.judge(networked("rail"), PATTERNS, attachments)
    assert verdict.traits == ((rules.DEVICES, "has a device of the host by the attachment ml/rail"),)


def test_a_pattern_for_all_devices_leaves_what_every_pod_has_out() -> None:
    verdict = rules.judge(pod(limits={"cpu": "8", "memory": "1Gi", "rdma/hca": "1"}), ["*"], None)
    assert verdict.traits == ((rules.DEVICES, "holds rdma/hca: 1"),)


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
        ({"matchExpressions": [{"key": "app", "operator": "In", "values": ["db"]}]}, False),
        ({"matchExpressions": [{"key": "tier", "operator": "In"}]}, False),
        ({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["web"]}]}, False),
        ({"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["web"]}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "Exists"}]}, True),
        ({"matchExpressions": [{"key": "tier", "operator": "Exists"}]}, False),
        ({"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}, False),
        ({"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "Gt", "values": ["1"]}]}, False),
        ({"matchLabels": {"app": "web"}, "matchExpressions": [{"key": "tier", "operator": "Exists"}]}, False),
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
    assert rules.budgets_of({}, [{"metadata": {"name": "b"}}]) == []


def test_every_budget_that_a_pod_is_under_is_named() -> None:
    other = {"metadata": {"name": "z"}, "spec": {"selector": {"matchLabels": {"app": "db"}}}}
    budget = {"metadata": {"name": "c"}, "spec": {"selector": {}, "maxUnavailable": 1}}
    status = {"currentHealthy": 4, "expectedPods": 4, "disruptionsAllowed": 1}
    zero = {"metadata": {"name": "b"}, "spec": {"selector": {}, "minAvailable": 0}}
    assert rules.budgets_of({"app": "web"}, [other, {**budget, "status": status}, zero]) == [
        "b (minAvailable 0, 0 of 0 pods healthy, 0 disruptions allowed)",
        "c (maxUnavailable 1, 4 of 4 pods healthy, 1 disruptions allowed)",
    ]


def test_networks_are_looked_at_if_a_pod_names_one() -> None:
    plane = Plane([pod(meta={"annotations": {NET: "rail"}})])
    rail = {"metadata": {"namespace": "ml", "name": "rail"}, "spec": {"config": '{"type": "host-device"}'}}
    plane.lists["/apis/k8s.cni.cncf.io/v1/network-attachment-definitions"] = [rail]
    with pytest.raises(DrainError, match="has a device of the host by the attachment ml/rail"):
        plane.manage(True)
    rail["spec"]["config"] = '{"type": "macvlan"}'  # type: ignore[index]
    assert plane.manage(True)["changed"]
    # A cluster without Multus.
    plane.lists["/apis/k8s.cni.cncf.io/v1/network-attachment-definitions"] = None
    assert plane.manage(True)["changed"]
