# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which Node is the host, which pods have to go and what that costs, and two processes at one Lease.

The draining itself is tested against a real API server.
"""

from __future__ import annotations

import copy
import json
import time
import typing as t

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils import _node_drain, _node_drain_evict
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils import _node_drain_lease as leases
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils import _node_drain_node as memory
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils import _node_drain_pods as rules
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._kubernetes import ApiError
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._node_drain_evict import passing
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._node_drain_node import DrainError

Json = t.Any


def node(name: str, machine: str = "", *ips: str, **more: Json) -> Json:
    addresses = [{"type": "InternalIP", "address": ip} for ip in ips]
    addresses += [{"type": "Hostname", "address": name}, {"type": "ExternalIP", "address": "203.0.113.1"}]
    status = {"nodeInfo": {"machineID": machine, "bootID": "b1"}, "addresses": addresses}
    return {"metadata": {"name": name, **more.get("metadata", {})}, "spec": more.get("spec", {}), "status": status}


A, B, C = node("a", "m1", "192.0.2.1"), node("b", "m2", "192.0.2.2", "2001:db8::2"), node("c", "m2", "10.0.2.15")
D = node("d", "m4", "10.0.2.15")


@pytest.mark.parametrize(
    ("machine", "addresses", "expected"),
    [
        # machine ID, addresses of the host, the Nodes that it may be
        ("m1", [], ["a"]),
        ("m1\n", [], ["a"]),
        # an address of another Node does not weigh against a machine ID that only one has
        ("m1", ["192.0.2.2"], ["a"]),
        ("", ["192.0.2.1", "172.17.0.1"], ["a"]),
        ("", ["2001:0db8::0002"], ["b"]),
        # copies of a machine
        ("m2", [], []),
        ("m2", ["10.0.2.15"], ["c"]),
        ("m2", ["192.0.2.1"], []),
        # all behind the same NAT
        ("", ["10.0.2.15"], ["c", "d"]),
        ("m4", ["10.0.2.15"], ["d"]),
        # the kubelet knows no machine ID of this host
        ("m9", ["192.0.2.1"], ["a"]),
        ("m9", [], []),
        # not the address of a service outside
        ("", ["203.0.113.1"], []),
    ],
)
def test_which_node_a_host_is(machine: str, addresses: list[str], expected: list[str]) -> None:
    assert memory.owners([A, B, C, D], machine, addresses) == expected


def test_two_nodes_that_may_be_the_host_are_named() -> None:
    params = {"name": "c", "machine_id": None, "addresses": ["10.0.2.15"], "on_absent": "fail"}
    with pytest.raises(DrainError, match=r"not proven to be the host.*both may be those of c, d"):
        memory.find([A, B, C, D], {**params, "name": "a"}, "Draining node a")
    with pytest.raises(DrainError, match="both may be those of c, d"):
        memory.find([A, B, C, D], params, "Draining node c")


def pod(**more: Json) -> Json:
    owner = {"kind": "Job", "name": "train", "controller": True}
    meta = {"namespace": "ml", "name": "p", "uid": "u", "ownerReferences": [owner], **more.pop("meta", {})}
    resources = {"limits": more.pop("limits", {})}
    spec = {"containers": [{"name": "c", "resources": resources}], **more.pop("spec", {})}
    return {"metadata": meta, "spec": spec, "status": {"phase": "Running", **more}}


PATTERNS = ["nvidia.com/*", "*gpu*", "*rdma*"]
NET = "k8s.v1.cni.cncf.io/networks"


@pytest.mark.parametrize(
    ("raw", "action", "traits"),
    [
        (pod(), rules.EVICT, []),
        (pod(limits={"cpu": "8", "hugepages-2Mi": "1Gi"}), rules.EVICT, []),
        (pod(limits={"nvidia.com/gpu": "0"}), rules.EVICT, []),
        (pod(limits={"amd.com/gpu": "1"}), rules.EVICT, [(rules.DEVICES, "holds amd.com/gpu: 1")]),
        (pod(limits={"aliyun.com/gpu-mem": "4"}), rules.EVICT, [(rules.DEVICES, "holds aliyun.com/gpu-mem: 4")]),
        (
            pod(spec={"initContainers": [{"resources": {"requests": {"rdma/hca": 1}}}]}),
            rules.EVICT,
            [(rules.DEVICES, "holds rdma/hca: 1")],
        ),
        (
            pod(spec={"resourceClaims": [{"name": "two-gpus"}]}),
            rules.EVICT,
            [(rules.DEVICES, "holds devices by the resource claim two-gpus")],
        ),
        (
            pod(spec={"volumes": [{"name": "d", "hostPath": {"path": "/dev/nvidia0"}}, {"name": "l", "hostPath": {}}]}),
            rules.EVICT,
            [(rules.DEVICES, "has the host's /dev/nvidia0")],
        ),
        (pod(meta={"annotations": {NET: "side"}}), rules.EVICT, []),
        (
            pod(meta={"annotations": {NET: '[{"name": "rail", "namespace": "net"}]'}}),
            rules.EVICT,
            [(rules.DEVICES, "has a device of the host by the attachment net/rail")],
        ),
        (
            pod(meta={"annotations": {NET: "broken, named"}}),
            rules.EVICT,
            [
                (rules.DEVICES, "has a device of the host by the attachment ml/broken"),
                (rules.DEVICES, "has a device of the host by the attachment ml/named"),
            ],
        ),
        (
            pod(meta={"annotations": {NET: "[{"}}),
            rules.EVICT,
            [(rules.DEVICES, f"its annotation {NET} cannot be read")],
        ),
        (
            pod(meta={"ownerReferences": [{"kind": "Job", "name": "x"}]}),
            rules.EVICT,
            [(rules.FORCE, "has no controller that would make it anew")],
        ),
        (
            pod(spec={"volumes": [{"name": "s", "emptyDir": {"medium": "Memory"}}]}),
            rules.EVICT,
            [(rules.EMPTY_DIR, "has data in the emptyDir s")],
        ),
        # whoever goes already, or has gone, needs no consent
        (pod(limits={"nvidia.com/gpu": "1"}, meta={"deletionTimestamp": "x"}), rules.WAIT, []),
        (pod(limits={"nvidia.com/gpu": "1"}, phase="Failed"), rules.LEAVE, []),
        (pod(meta={"annotations": {rules.MIRROR: "h"}, "ownerReferences": []}), rules.LEAVE, []),
        (pod(meta={"ownerReferences": [{"kind": "DaemonSet", "name": "d", "controller": True}]}), rules.LEAVE, []),
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
    found = rules.judge(raw, PATTERNS, attachments)
    assert (found.action, list(found.traits)) == (action, traits)
    # Without Multus its annotations have no effect.
    if "annotations" in raw["metadata"]:
        assert rules.judge(raw, PATTERNS, None).traits == ()


def test_every_reason_needs_its_consent() -> None:
    raw = pod(
        limits={"nvidia.com/gpu": "8"}, meta={"ownerReferences": []}, spec={"volumes": [{"name": "s", "emptyDir": {}}]}
    )
    found = [rules.judge(raw, PATTERNS, None)]
    consents = dict.fromkeys((rules.DEVICES, rules.FORCE, rules.EMPTY_DIR), False)
    (text,) = rules.blocked(found, consents)
    assert text == (
        "ml/p: holds nvidia.com/gpu: 8 (evict_gpu_pods), has no controller that would make it anew (force), "
        "has data in the emptyDir s (delete_emptydir_data)"
    )
    for option in consents:
        others = {**dict.fromkeys(consents, True), option: False}
        (text,) = rules.blocked(found, others)
        assert f"({option})" in text
        assert text.count("(") == 1
    assert rules.blocked(found, dict.fromkeys(consents, True)) == []


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
    told = ["b (minAvailable 50%, 2 of 3 pods healthy, 0 disruptions allowed)"] if selects else []
    assert rules.budgets_of({"app": "web"}, [budget]) == told


def test_the_memory_of_an_earlier_cordon_stays() -> None:
    made = copy.deepcopy(A)
    made["status"]["allocatable"] = {"cpu": "8", "nvidia.com/gpu": "8", "rdma/hca": "1k", "rdma/old": "0"}
    first = memory.new_note(made, "a reason", "one", "2026-11-21T03:00:00Z")
    assert first["before"] == {
        "unschedulable": False,
        "boot_id": "b1",
        "allocatable": {"nvidia.com/gpu": "8", "rdma/hca": "1k"},
    }
    noted = {memory.NOTE: json.dumps({**first, "step": "drained", "failed": {"message": "x"}})}
    later = {**made, "status": {**made["status"], "allocatable": {"nvidia.com/gpu": "0"}}}
    later["metadata"] = {"name": "a", "annotations": noted}
    cordoned = {**later, "spec": {"unschedulable": True}}
    second = memory.new_note(cordoned, "another", "two", "2026-11-22T03:00:00Z")
    assert second == {**first, "reason": "another", "run": "two", "step": "drained"}
    # Somebody has uncordoned it by hand: what is remembered is of no use any more.
    third = memory.new_note(later, "another", "two", "2026-11-22T03:00:00Z")
    assert (third["since"], third["step"], third["before"]["allocatable"]) == ("2026-11-22T03:00:00Z", "cordoned", {})
    assert memory.shortage(later, first) == [("nvidia.com/gpu", "8", "0"), ("rdma/hca", "1k", "0")]
    later["status"]["allocatable"] = {"nvidia.com/gpu": "9", "rdma/hca": "1000"}
    assert memory.shortage(later, first) == []


@pytest.mark.parametrize("text", ["", "?", "[]", "{}", '{"before": 1}'])
def test_an_annotation_that_is_not_ours(text: str) -> None:
    with pytest.raises(DrainError, match="it is not what this collection writes"):
        memory.note_of({"metadata": {"name": "a", "annotations": {memory.NOTE: text}}})


def test_when_the_api_server_is_asked_again() -> None:
    assert [code for code in (0, 400, 401, 403, 404, 409, 422, 429, 500, 503) if passing(ApiError("x", code))] == [
        0,
        409,
        429,
        500,
        503,
    ]


class Overtaken:
    """An API server at which somebody else is always a little faster, a number of times."""

    def __init__(self, times: int, code: int = 409) -> None:
        self.times, self.code = times, code
        self.raw: Json = None

    def get(self, _path: str, _doing: str) -> Json:
        return copy.deepcopy(self.raw)

    def create(self, _path: str, body: Json, doing: str) -> Json:
        if self.times:
            self.times -= 1
            raise ApiError(doing, self.code)
        self.raw = body
        return copy.deepcopy(body)

    replace = create


def test_the_lease_is_taken_from_whoever_is_faster() -> None:
    for code in (404, 409):
        server = Overtaken(3, code)
        lease = leases.Lease(t.cast("t.Any", server), "one", 600)
        lease.take()
        assert (lease.ours, lease.due, server.raw["spec"]["holderIdentity"]) == (True, False, "one")
    lease = leases.Lease(t.cast("t.Any", Overtaken(99)), "one", 600)
    with pytest.raises(DrainError, match="others change it all the time"):
        lease.take()


def test_a_lease_that_was_renewed_meanwhile_is_not_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Overtaken(0)
    lease = leases.Lease(t.cast("t.Any", server), "one", 600)
    lease.take()
    lease.release(lambda: True)
    assert server.raw["spec"]["holderIdentity"] == "one"
    server.times = 1
    lease.release(lambda: False)
    assert server.raw["spec"]["holderIdentity"] == "one"
    lease.release(lambda: False)
    assert server.raw["spec"]["holderIdentity"] == ""
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now)
    other = leases.Lease(t.cast("t.Any", server), "two", 10)
    other.take()
    for seconds, due in ((4.9, False), (5.1, True)):
        monkeypatch.setattr(time, "time", lambda: now + seconds)  # noqa: B023
        assert (other.ours, other.due) == (True, due)


class Plane:
    """An API server with one Node and a Lease. Each look at the pods has the next of ``looks``; the last one stays."""

    def __init__(self, *looks: list[Json], **more: Json) -> None:
        self.node = node("a", "m1", "192.0.2.1", **more)
        self.node["metadata"].update(uid="n", resourceVersion="1")
        self.lease: Json = None
        self.looks = list(looks)
        self.evicted: list[str] = []

    def items(self, path: str, _doing: str, _query: Json = None) -> Json:
        if path == "/api/v1/nodes":
            return [copy.deepcopy(self.node)]
        assert path == "/api/v1/pods"
        return copy.deepcopy(self.looks.pop(0) if len(self.looks) > 1 else self.looks[0])

    def get(self, path: str, _doing: str) -> Json:
        return copy.deepcopy(self.node if path == "/api/v1/nodes/a" else self.lease)

    def merge(self, path: str, body: Json, _doing: str) -> None:
        assert path == "/api/v1/nodes/a"
        self.node["spec"].update(body.get("spec", {}))
        self.node["metadata"].setdefault("annotations", {}).update(body["metadata"].get("annotations", {}))

    def create(self, path: str, body: Json, _doing: str, **more: Json) -> Json:
        if not path.endswith("/eviction"):
            return self.replace(path, body, _doing)
        if not more["dry_run"]:
            self.evicted.append(body["metadata"]["name"])
        return {}

    def replace(self, _path: str, body: Json, _doing: str) -> Json:
        self.lease = copy.deepcopy(body)
        return body

    @property
    def cordoned(self) -> bool:
        return memory.is_cordoned(self.node)

    def manage(self, check: bool = False, **more: Json) -> Json:
        params = {
            "name": "a",
            "state": "drained",
            "run": "one",
            "reason": "a test",
            "machine_id": "m1",
            "addresses": [],
            "on_absent": "fail",
            "control_plane_ok": False,
            **dict.fromkeys(CONSENTS, False),
            "device_resources": PATTERNS,
            "boot_id": None,
            "wait_ready": False,
            "missing_ok": False,
            **dict.fromkeys(("drain_timeout", "ready_timeout", "lease_duration"), 60),
        }
        return _node_drain.manage({**params, **more}, check, t.cast("t.Any", self))


FREE = pod()
CONSENTS = {
    rules.DEVICES: pod(limits={"nvidia.com/gpu": "1"}),
    rules.FORCE: pod(meta={"ownerReferences": []}),
    rules.EMPTY_DIR: pod(spec={"volumes": [{"name": "s", "emptyDir": {}}]}),
}


@pytest.mark.parametrize("consent", CONSENTS)
@pytest.mark.parametrize("when", ["before the run", "before the cordon", "after the cordon"])
def test_no_pod_goes_without_its_consent(consent: str, when: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_node_drain_evict, "POLL_S", 0)
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
    with pytest.raises(DrainError, match="meanwhile there came"):
        plane.manage(run="two")
    assert plane.cordoned
    assert plane.evicted == ["p"]


@pytest.mark.parametrize("place", ["labels", "taints"])
@pytest.mark.parametrize("check", [True, False])
def test_a_node_of_the_control_plane_goes_with_consent_only(place: str, check: bool) -> None:
    key = memory.CONTROL_PLANE[0]
    spec, labels = {"labels": ({}, {key: ""}), "taints": ({"taints": [{"key": key}]}, {})}[place]
    plane = Plane([], spec=spec, metadata={"labels": labels})
    with pytest.raises(DrainError, match="Set control_plane_ok to true if it may go"):
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
