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

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._kubernetes.client import MANAGER, ApiError
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._node_drain import evict
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._node_drain import lease as leases
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._node_drain import manage as node_drain
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._node_drain import node as memory
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._node_drain import pods as rules
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._node_drain.evict import passing
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._node_drain.node import DrainError

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


def owned(*names: str) -> Json:
    """Return the managedFields of a Node, of which these have set whether pods may come."""
    status = {"manager": "kubelet", "operation": "Update", "fieldsV1": {"f:status": {"f:conditions": {}}}}
    return [status, *({"manager": name, "fieldsV1": {"f:spec": {"f:unschedulable": {}}}} for name in names)]


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
            [(rules.FORCE, "has no controller that would recreate it")],
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
        "ml/p: holds nvidia.com/gpu: 8 (evict_gpu_pods), has no controller that would recreate it (force), "
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


def test_a_budget_of_which_nothing_is_known_yet() -> None:
    budget = {"metadata": {"name": "b"}, "spec": {"selector": {}}}
    assert rules.budgets_of({}, [budget]) == ["b (maxUnavailable 0, 0 of 0 pods healthy, 0 disruptions allowed)"]


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
    later["metadata"]["managedFields"] = owned(MANAGER)
    cordoned = {**later, "spec": {"unschedulable": True}}
    second = memory.new_note(cordoned, "another", "two", "2026-11-22T03:00:00Z")
    assert second == {**first, "reason": "another", "run": "two", "step": "drained"}
    # Uncordoned by hand, and cordoned by hand: what is remembered is of no use any more.
    foreign = {**cordoned, "metadata": {**cordoned["metadata"], "managedFields": owned("kubectl")}}
    assert memory.new_note(foreign, "another", "two", "x")["since"] == "x"
    third = memory.new_note(later, "another", "two", "2026-11-22T03:00:00Z")
    assert (third["since"], third["step"], third["before"]["allocatable"]) == ("2026-11-22T03:00:00Z", "cordoned", {})
    assert memory.shortage(later, first) == [("nvidia.com/gpu", "8", "0"), ("rdma/hca", "1k", "0")]
    later["status"]["allocatable"] = {"nvidia.com/gpu": "9", "rdma/hca": "1000"}
    assert memory.shortage(later, first) == []


@pytest.mark.parametrize("text", ["", "?", "[]", "{}", '{"before": 1}'])
def test_an_annotation_that_is_not_ours(text: str) -> None:
    with pytest.raises(DrainError, match="it was not written by this collection"):
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

    def create(self, _path: str, body: Json, doing: str, dry_run: bool = False) -> Json:
        return self.replace(_path, body, doing)

    def replace(self, _path: str, body: Json, doing: str) -> Json:
        if self.times:
            self.times -= 1
            raise ApiError(doing, self.code)
        self.raw = copy.deepcopy(body)
        return copy.deepcopy(body)


def lease_of(server: Json, run: str, duration: int = 600) -> leases.Lease:
    return leases.Lease(t.cast("t.Any", server), run, {"lease_duration": duration, "lease_namespace": "rdmaops-system"})


def test_the_lease_is_taken_from_whoever_is_faster() -> None:
    for code in (404, 409):
        server = Overtaken(0)
        lease_of(server, "zero").take("z")
        lease_of(server, "zero").leave("z")
        server.times, server.code = 3, code
        lease = lease_of(server, "one")
        lease.take("a")
        assert (lease.ours, lease.nodes, server.raw["spec"]["holderIdentity"]) == (True, {"a"}, "one")
    with pytest.raises(DrainError, match="others keep changing it"):
        lease_of(Overtaken(99), "one").take("a")


def test_a_namespace_that_is_missing_is_named() -> None:
    for act in (lambda lease: lease.take("a"), lambda lease: lease.look()):
        with pytest.raises(DrainError) as caught:
            act(lease_of(Overtaken(99, 404), "one"))
        assert (
            "the cluster has no namespace rdmaops-system. An administrator creates it once, with kubectl create namespace "
            "rdmaops-system or, with an account that may use it, from docs/rbac/namespace.yml"
        ) in str(caught.value)
    with pytest.raises(ApiError, match="Trying to take the Lease"):
        lease_of(Overtaken(1, 403), "one").look()


def test_a_lease_is_held_until_it_is_given_back_for_the_last_node() -> None:
    server = Overtaken(0)
    lease = lease_of(server, "one")
    lease.take("a")
    # Another process of the run, for another node.
    lease_of(server, "one").take("b")
    assert server.raw["metadata"]["annotations"] == {leases.NODES: "a,b"}
    # One that is faster, once.
    server.times = 1
    lease.leave("a")
    assert (server.raw["spec"]["holderIdentity"], lease.nodes) == ("one", {"b"})
    # Of another run nothing is given back.
    lease_of(server, "two").leave("b")
    assert server.raw["spec"]["holderIdentity"] == "one"
    lease.leave("b")
    assert (server.raw["spec"]["holderIdentity"], lease.nodes) == ("", set())
    # What an earlier holder had is not the next one's.
    server.raw["metadata"]["annotations"][leases.NODES] = "x,y"
    other = lease_of(server, "two")
    other.take("c")
    assert other.nodes == {"c"}


def test_a_node_more_is_admitted_by_one_process_at_a_time() -> None:
    server = Overtaken(0)
    lease_of(server, "one").take("a")
    admitted: list[set[str]] = []

    def admit(nodes: set[str]) -> None:
        if not admitted:
            # Another process of the run is faster, after this one has looked.
            lease_of(server, "one").take("b")
        admitted.append(nodes)

    class Versioned:
        """Refuses what rests on an older version, as an API server does."""

        def get(self, path: str, doing: str) -> Json:
            self.seen = copy.deepcopy(server.raw)
            return server.get(path, doing)

        def replace(self, path: str, body: Json, doing: str) -> Json:
            if self.seen != server.raw:
                raise ApiError("conflict", 409)
            return server.replace(path, body, doing)

    lease = lease_of(Versioned(), "one")
    lease.take("c", admit)
    assert admitted == [{"a"}, {"a", "b"}]
    assert lease.nodes == {"a", "b", "c"}


def test_a_lease_that_was_lost_is_not_kept(clock: Clock) -> None:
    server = Overtaken(0)
    lease = lease_of(server, "one", 10)
    lease.take("a")
    began = server.raw["spec"]["renewTime"]
    for seconds, renewed in ((4.9, False), (0.2, True)):
        clock.now += seconds
        lease.keep()
        assert (server.raw["spec"]["renewTime"] > began) is renewed
    assert lease.nodes == {"a"}
    clock.now += 11
    # Nobody has taken it.
    lease.keep()
    clock.now += 11
    lease_of(server, "two").take("b")
    for act in (lease.keep, lease.renew):
        with pytest.raises(DrainError, match="the run one has lost it; the run two holds it now"):
            act()
    lease_of(server, "two").leave("b")
    with pytest.raises(DrainError, match="the run one has lost it; no run holds it now"):
        lease.keep()
    server.raw = None
    with pytest.raises(DrainError, match="no run holds it now"):
        lease.keep()


class Plane:
    """An API server with one Node and a Lease. Each look at the pods has the next of ``looks``; the last one stays."""

    def __init__(self, *looks: list[Json], **more: Json) -> None:
        self.node = node("a", "m1", "192.0.2.1", **more)
        self.node["metadata"].update(uid="n", resourceVersion="1")
        self.lease: Json = None
        self.looks = list(looks)
        self.evicted: list[str] = []
        self.others: list[Json] = []
        self.lists: dict[str, Json] = {}
        # what is refused the next time: a part of what is being done, and the error
        self.errors: list[tuple[str, ApiError]] = []

    def _refuse(self, doing: str) -> None:
        for number, (part, error) in enumerate(self.errors):
            if part in doing:
                del self.errors[number]
                raise error

    def items(self, path: str, doing: str, query: Json = None) -> Json:
        self._refuse(doing)
        if path == "/api/v1/nodes":
            return copy.deepcopy([*self.others, self.node])
        if path == "/api/v1/pods":
            assert query == {"fieldSelector": "spec.nodeName=a"}
            return copy.deepcopy(self.looks.pop(0) if len(self.looks) > 1 else self.looks[0])
        return self.lists[path]

    def get(self, path: str, doing: str) -> Json:
        self._refuse(doing)
        return copy.deepcopy(self.node if path == "/api/v1/nodes/a" else self.lease)

    def merge(self, path: str, body: Json, doing: str) -> None:
        self._refuse("Writing: " + doing)
        assert path == "/api/v1/nodes/a"
        if "unschedulable" in body.get("spec", {}):
            self.node["metadata"]["managedFields"] = owned(MANAGER)
        self.node["spec"].update(body.get("spec", {}))
        self.node["metadata"].setdefault("annotations", {}).update(body["metadata"].get("annotations", {}))

    def create(self, path: str, body: Json, doing: str, **more: Json) -> Json:
        if not path.endswith("/eviction"):
            return body if more.get("dry_run") else self.replace(path, body, doing)
        assert more["patient"] is False
        self._refuse(("Rehearsing: " if more["dry_run"] else "") + doing)
        if not more["dry_run"]:
            assert body["deleteOptions"]["preconditions"]["uid"]
            self.evicted.append(body["metadata"]["name"])
        return {}

    def replace(self, _path: str, body: Json, _doing: str) -> Json:
        self.lease = copy.deepcopy(body)
        return body

    @property
    def cordoned(self) -> bool:
        return memory.is_cordoned(self.node)

    @property
    def note(self) -> Json:
        return memory.note_of(self.node)

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
            "lease_namespace": "rdmaops-system",
            "max_unavailable": 1,
            "take_over": True,
        }
        return node_drain.manage({**params, **more}, check, t.cast("t.Any", self))


FREE = pod()
CONSENTS = {
    rules.DEVICES: pod(limits={"nvidia.com/gpu": "1"}),
    rules.FORCE: pod(meta={"ownerReferences": []}),
    rules.EMPTY_DIR: pod(spec={"volumes": [{"name": "s", "emptyDir": {}}]}),
}


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
@pytest.mark.parametrize("check", [True, False])
def test_a_node_of_the_control_plane_goes_with_consent_only(place: str, check: bool) -> None:
    key = memory.CONTROL_PLANE[0]
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


class Clock:
    """Time that goes by only in sleep."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1_790_000_000.0
        monkeypatch.setattr(time, "time", lambda: self.now)
        monkeypatch.setattr(time, "monotonic", lambda: self.now)
        monkeypatch.setattr(time, "sleep", self.sleep)

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def test_what_a_drain_reports(clock: Clock) -> None:
    leaving = pod(meta={"name": "q", "deletionTimestamp": "x", "finalizers": ["f/g"]})
    mirror = pod(meta={"name": "m", "annotations": {rules.MIRROR: "h"}})
    plane = Plane([FREE, leaving, mirror])
    foreseen = plane.manage(True)
    assert (plane.cordoned, plane.lease, plane.evicted) == (False, None, [])
    plane.looks = [[FREE, leaving, mirror], [FREE, leaving, mirror], [mirror]]
    result = plane.manage()
    assert result == foreseen
    assert result["actions"] == [
        "Take the Lease rdmaops-system/rdmaops-gpu-fabric-maintenance",
        "Cordon node a: a test",
        "Evict the pod ml/p (Job train)",
        "Wait until ml/p, ml/q are gone",
        "Note on node a that it is drained",
    ]
    assert [(row["name"], row["action"], row["why"]) for row in result["pods"]] == [
        ("m", "leave", "a mirror of a static pod"),
        ("p", "evict", "Job train"),
        ("q", "wait", "is being deleted, due x, held by f/g"),
    ]
    assert [(row["kind"], row["name"], row["status"]) for row in result["resources"]] == [
        ("node", "a", "drift"),
        ("pod", "ml/p", "drift"),
        ("pod", "ml/q", "drift"),
    ]
    assert plane.lease["spec"]["holderIdentity"] == "one"
    assert {key: plane.note[key] for key in ("reason", "run", "step", "failed")} == {
        "reason": "a test",
        "run": "one",
        "step": "drained",
        "failed": None,
    }
    plane.looks = [[mirror]]
    again = plane.manage()
    assert (again["changed"], again["maintenance"]["step"]) == (False, "drained")
    assert [(row["live"], row["status"]) for row in again["resources"]] == [("drained", "in_sync")]


def test_a_node_is_given_back_with_the_lease(clock: Clock) -> None:
    plane = Plane([])
    plane.node["status"]["allocatable"] = {"nvidia.com/gpu": "8", "rdma/hca": "1"}
    plane.manage()
    lease_of(plane, "one", 60).take("b")
    result = plane.manage(state="uncordoned")
    assert result["actions"] == [
        "Uncordon node a",
        "Release the Lease rdmaops-system/rdmaops-gpu-fabric-maintenance, unless the run has other nodes in maintenance",
    ]
    assert [(row["kind"], row["name"], row["live"], row["status"]) for row in result["resources"]] == [
        ("node", "a", "drained: a test", "drift"),
        ("node_resource", "a nvidia.com/gpu", "8", "in_sync"),
        ("node_resource", "a rdma/hca", "1", "in_sync"),
    ]
    assert result["diff"][0]["after"] == "unschedulable: false\n%s: null\n" % memory.NOTE
    assert (plane.cordoned, plane.note) == (False, None)
    # The run has another node in maintenance, until that is given back or has failed.
    assert plane.lease["spec"]["holderIdentity"] == "one"
    assert plane.manage(state="uncordoned")["changed"] is False
    lease_of(plane, "one", 60).leave("b")
    assert plane.lease["spec"]["holderIdentity"] == ""


@pytest.mark.parametrize("state", ["uncordoned", "failed"])
def test_the_lease_goes_with_a_node_that_was_deleted(clock: Clock, state: str) -> None:
    plane = Plane([])
    plane.manage()
    plane.node["metadata"]["name"] = "b"
    for check in (True, False):
        result = plane.manage(check, state=state, failure="x", machine_id=None, on_absent="ignore")
        assert [text.split(" ")[0] for text in result["actions"]] == ["Release"]
    assert plane.lease["spec"]["holderIdentity"] == ""


def test_what_is_short_is_waited_for(clock: Clock) -> None:
    plane = Plane([])
    plane.node["status"]["allocatable"] = {"nvidia.com/gpu": "8", "rdma/hca": "1"}
    plane.manage()
    del plane.node["status"]["allocatable"]["nvidia.com/gpu"]
    result = plane.manage(True, state="uncordoned")
    assert result["waiting_for"] == ["nvidia.com/gpu: 0 of 8"]
    assert [(row["name"], row["live"], row["status"]) for row in result["resources"][1:]] == [
        ("a nvidia.com/gpu", "0", "drift"),
        ("a rdma/hca", "1", "in_sync"),
    ]
    del plane.node["status"]["allocatable"]
    began = clock.now
    with pytest.raises(
        DrainError, match=r"not back after ready_timeout \(60 s\): nvidia.com/gpu: 0 of 8; rdma/hca: 0 of 1"
    ):
        plane.manage(state="uncordoned")
    assert clock.now - began == pytest.approx(60, abs=2)
    assert plane.cordoned
    assert plane.note["failed"]["message"].startswith("Uncordoning node a: not back")


def test_a_kubelet_that_has_not_reported_since_the_boot_is_waited_for(clock: Clock) -> None:
    plane = Plane([])
    plane.manage()
    ready = {"type": "Ready", "status": "True"}
    waiting = {"state": "uncordoned", "wait_ready": True}
    assert plane.manage(True, **waiting)["waiting_for"] == ["Ready is not known (no message)"]
    plane.node["status"]["conditions"] = [{"type": "MemoryPressure", "status": "True"}, {**ready, "status": "False"}]
    assert plane.manage(True, **waiting)["waiting_for"] == ["Ready is False (no message)"]
    plane.node["status"]["conditions"] = [ready]
    assert plane.manage(True, **waiting, boot_id="b2")["waiting_for"] == [
        "its kubelet has not reported since the boot (boot id b2)"
    ]
    assert plane.manage(True, **waiting, boot_id="b1")["waiting_for"] == []
    assert plane.manage(True, **waiting)["waiting_for"] == []
    assert plane.manage(True, state="uncordoned", boot_id="b2")["waiting_for"] == []


@pytest.mark.parametrize(("wait_ready", "check"), [(True, False), (True, True), (False, False)])
def test_an_api_server_that_boots_with_the_node_is_waited_for(clock: Clock, wait_ready: bool, check: bool) -> None:
    plane = Plane([])
    plane.node["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    plane.manage()
    away = ApiError("Listing the nodes: connection refused", 0)
    plane.errors = [("Listing the nodes", away)] * 3
    if wait_ready and not check:
        plane.manage(state="uncordoned", wait_ready=True)
        assert not plane.cordoned
    else:
        with pytest.raises(ApiError, match="connection refused"):
            plane.manage(check, state="uncordoned", wait_ready=wait_ready)
        assert plane.cordoned
    plane.errors = [("Listing the nodes", ApiError("Forbidden", 403))]
    with pytest.raises(ApiError, match="Forbidden"):
        plane.manage(check, state="uncordoned", wait_ready=wait_ready)


def test_a_failure_is_noted_once_and_the_next_run_goes_on(clock: Clock) -> None:
    plane = Plane([])
    plane.manage()
    plane.lease = None
    result = plane.manage(run="two", state="failed", failure="the boot timed out")
    assert result["actions"] == ["Note on node a what failed"]
    assert plane.note["failed"]["message"] == "the boot timed out"
    assert plane.note["run"] == "one"
    again = plane.manage(run="two", state="failed", failure="the boot timed out")
    assert (again["changed"], again["resources"][0]["status"]) == (False, "in_sync")
    assert plane.manage(True, run="two", state="failed", failure="another")["changed"]
    for run in ("one", "two"):
        doing = "Continue with node a, which run one cordoned"
        assert doing in plane.manage(True, run=run)["actions"]
        assert doing in plane.manage(True, run=run, state="uncordoned")["actions"]
    result = plane.manage(run="one", state="uncordoned")
    assert result["resources"][0]["live"] == "drained: a test, failed: the boot timed out"
    # A failure that was noted does not go with the run that goes on.
    assert not plane.cordoned
    plane.manage()
    assert "Continue with node a, which run one cordoned" not in plane.manage(True, state="uncordoned")["actions"]
    plane.lease = None
    assert (
        "Continue with node a, which run one cordoned" in plane.manage(True, run="two", state="uncordoned")["actions"]
    )
    plane.manage(state="uncordoned")
    assert plane.manage(state="failed", failure="x")["changed"] is False
    assert plane.note is None


def test_a_failure_gives_the_lease_back(clock: Clock) -> None:
    plane = Plane([])
    plane.manage()
    began = plane.lease["spec"]["renewTime"]
    clock.now += 5
    plane.manage(state="failed", failure="no power")
    # An empty holder for a second, as client-go's leader election leaves it.
    assert (plane.lease["spec"]["holderIdentity"], plane.lease["spec"]["leaseDurationSeconds"]) == ("", 1)
    assert plane.lease["spec"]["renewTime"] > began


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize("state", ["drained", "uncordoned", "failed"])
def test_the_lease_of_another_run_is_respected(clock: Clock, check: bool, state: str) -> None:
    plane = Plane([FREE], [])
    if state != "drained":
        plane.manage(run="other")
    else:
        lease_of(plane, "other", 60).take("b")
    before = copy.deepcopy((plane.node, plane.lease, plane.evicted))
    if state == "failed":
        assert plane.manage(check, state=state, failure="x")["changed"] is False
    else:
        with pytest.raises(DrainError, match="the run other has held it since"):
            plane.manage(check, state=state)
    assert (plane.node, plane.lease, plane.evicted) == before
    clock.now += 61
    plane.manage(check, state=state, failure="x")
    assert (plane.node == before[0]) is check


def test_a_lease_keeps_the_time_at_which_it_was_acquired(clock: Clock) -> None:
    server = Overtaken(0)
    lease_of(server, "one", 60).take("a")
    first = server.raw["spec"]
    assert first["acquireTime"] == first["renewTime"]
    clock.now += 40
    lease_of(server, "one", 60).renew()
    assert server.raw["spec"]["acquireTime"] == first["acquireTime"]
    assert server.raw["spec"]["renewTime"] > first["renewTime"]
    clock.now += 61
    lease_of(server, "two", 60).take("a")
    assert server.raw["spec"]["acquireTime"] > first["acquireTime"]
    del server.raw["spec"]["acquireTime"]
    lease_of(server, "two", 60).renew()
    assert server.raw["spec"]["acquireTime"] == server.raw["spec"]["renewTime"]


def test_a_pod_is_not_asked_again_at_once(clock: Clock) -> None:
    plane = Plane(*[[FREE]] * 5, [])
    plane.manage()
    assert plane.evicted == ["p"]
    plane = Plane(*[[FREE]] * 9, [])
    plane.manage()
    assert plane.evicted == ["p", "p"]


# what the API server says to an eviction -> whether the rehearsal takes it for gone, waiting or an error
@pytest.mark.parametrize(
    ("status", "text", "waiting"),
    [
        (404, "not found", []),
        (409, "conflict", []),
        (403, "namespace ml is being terminated", []),
        (429, "Cannot evict pod as it would violate its disruption budget", ["ml/p"]),
        (403, "pods/eviction is forbidden", None),
        (500, "internal error", None),
    ],
)
def test_the_rehearsal(status: int, text: str, waiting: list[str] | None) -> None:
    plane = Plane([FREE])
    plane.errors = [("Rehearsing: ", ApiError(text, status))]
    if waiting is None:
        with pytest.raises(ApiError, match=text):
            plane.manage()
        assert not plane.cordoned
    else:
        assert plane.manage(True)["waiting_for"] == waiting


def test_what_is_still_there_after_the_time_limit_is_named(clock: Clock) -> None:
    waiting = pod(meta={"name": "q", "uid": "v", "deletionTimestamp": "x"})
    plane = Plane([pod(meta={"labels": {"app": "web"}}), waiting])
    status = {"currentHealthy": 2, "expectedPods": 2, "disruptionsAllowed": 0}
    budget = {"metadata": {"name": "web"}, "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "web"}}}}
    plane.lists["/apis/policy/v1/namespaces/ml/poddisruptionbudgets"] = [{**budget, "status": status}]
    plane.errors = [("Evicting the pod ml/p", ApiError("it would violate the budget", 429))] * 40
    plane.manage(True)
    began = clock.now
    with pytest.raises(DrainError) as caught:
        plane.manage()
    assert clock.now - began == pytest.approx(60, abs=2)
    assert str(caught.value) == (
        "Draining node a: not finished after drain_timeout (60 s). Still there: ml/p under web (minAvailable 2, 2 of 2 pods "
        "healthy, 0 disruptions allowed): it would violate the budget; ml/q is being deleted, due x. Make the budgets "
        "allow it, delete these pods, or allow more time. The node stays cordoned, with this in its annotation "
        "rdmaops.gpu-fabric/maintenance, and the next run continues from there"
    )
    assert plane.note["failed"]["message"].startswith("Draining node a: not finished")
    assert plane.lease["spec"]["holderIdentity"] == ""
    assert plane.evicted == []


def test_a_failure_that_cannot_be_noted_is_told(clock: Clock) -> None:
    plane = Plane([FREE])
    plane.errors = [
        ("Rehearsing: ", ApiError("the budget does not allow it", 429)),
        ("Evicting the pod ml/p", ApiError("forbidden", 403)),
        ("Reading node a", ApiError("connection refused", 0)),
    ]
    with pytest.raises(DrainError) as caught:
        plane.manage()
    assert str(caught.value) == (
        "forbidden. Cordoned nodes stay cordoned; the failure could not be recorded on the node (connection refused)"
    )
    plane = Plane([FREE])
    plane.errors = [("Writing: Cordon node a", ApiError("forbidden", 403))]
    with pytest.raises(DrainError, match=r"^forbidden. The node is not cordoned by this run$"):
        plane.manage()


def test_a_node_of_another_name_is_named(clock: Clock) -> None:
    plane = Plane([])
    plane.others = [node("b", "m2", "192.0.2.2"), node("x")]
    with pytest.raises(DrainError) as caught:
        plane.manage(machine_id="m2", addresses=["192.0.2.2"])
    assert str(caught.value) == (
        "Draining node a: this Node is not proven to be the host. Its machineID is m1 and the host's is m2; its "
        "InternalIP is 192.0.2.1 and the host has 192.0.2.2; the host is Node b, set that name (gpu_node_name). "
        "Nothing was changed"
    )
    with pytest.raises(DrainError) as caught:
        plane.manage(name="x", machine_id="m9")
    assert str(caught.value) == (
        "Draining node x: this Node is not proven to be the host. Its machineID is not known and the host's is m9; its "
        "InternalIP is not known and the host has no address given. Nothing was changed"
    )
    with pytest.raises(
        DrainError, match=r"and the host's is not given; its InternalIP is not known and the host has 192"
    ):
        plane.manage(name="x", machine_id=None, addresses=["192.0.2.2"])
    with pytest.raises(DrainError, match=r"no node of this name; the host is Node b, .*\. Its nodes are: a, b, x$"):
        plane.manage(name="gone", machine_id="m2")
    with pytest.raises(DrainError, match="no node of this name, nor the host"):
        plane.manage(name="gone", machine_id="m9")
    assert plane.manage(name="gone", machine_id="m9", on_absent="ignore")["in_cluster"] is False
    with pytest.raises(DrainError, match="the host is Node b"):
        plane.manage(name="gone", machine_id="m2", on_absent="ignore")


def test_networks_are_looked_at_if_a_pod_names_one() -> None:
    plane = Plane([pod(meta={"annotations": {NET: "rail"}})])
    rail = {"metadata": {"namespace": "ml", "name": "rail"}, "spec": {"config": '{"type": "host-device"}'}}
    plane.lists["/apis/k8s.cni.cncf.io/v1/network-attachment-definitions"] = [rail]
    with pytest.raises(DrainError, match="has a device of the host by the attachment ml/rail"):
        plane.manage(True)
    rail["spec"]["config"] = '{"type": "macvlan"}'  # type: ignore[index]
    assert plane.manage(True)["changed"]


def test_a_node_that_changes_meanwhile_is_written_again() -> None:
    plane = Plane([])
    plane.errors = [("Writing: Cordon node a", ApiError("conflict", 409))] * 3
    plane.manage()
    assert plane.cordoned
    plane = Plane([])
    plane.errors = [("Writing: Cordon node a", ApiError("conflict", 409))] * 99
    with pytest.raises(DrainError, match="others keep changing this Node: conflict"):
        plane.manage()


def test_a_node_that_somebody_else_has_cordoned_is_left_alone() -> None:
    plane = Plane([FREE], spec={"unschedulable": True}, metadata={"managedFields": owned("cloud-controller")})
    for check in (True, False):
        with pytest.raises(DrainError, match="cloud-controller has cordoned it, so it is left alone"):
            plane.manage(check)
    assert (plane.note, plane.evicted, plane.lease) == (None, [], None)
    result = plane.manage(state="uncordoned")
    assert (result["changed"], plane.cordoned) == (False, True)


@pytest.mark.parametrize(
    ("fields", "who"),
    [
        (owned(MANAGER), ""),
        (owned("kubectl"), "kubectl"),
        (owned("argocd", MANAGER), "argocd"),
        (owned(), "a user that its managedFields do not name"),
        ([], "a user that its managedFields do not name"),
        ([{"manager": "x"}, {"manager": "y", "fieldsV1": None}], "a user that its managedFields do not name"),
    ],
)
def test_whose_cordon_it_is(clock: Clock, fields: Json, who: str) -> None:
    plane = Plane([], [])
    plane.manage()
    plane.lease = None
    plane.node["metadata"]["managedFields"] = fields
    before = copy.deepcopy(plane.node)
    if not who:
        assert plane.manage(True, run="two", state="uncordoned")["actions"][-2] == "Uncordon node a"
        return
    for check in (True, False):
        with pytest.raises(DrainError, match=f"Draining node a: {who} has cordoned it, so it is left alone"):
            plane.manage(check, run="two")
        assert plane.manage(check, run="two", state="failed", failure="x")["changed"] is False
    assert plane.node == before
    result = plane.manage(run="two", state="uncordoned")
    assert (
        result["actions"][1] == f"Remove the annotation {memory.NOTE} from node a: {who} has cordoned it since run one"
    )
    assert [(row["live"], row["status"]) for row in result["resources"]] == [
        (f"the annotation is stale: {who} has cordoned it since run one", "drift")
    ]
    assert (plane.cordoned, plane.note, plane.lease["spec"]["holderIdentity"]) == (True, None, "")


def test_a_note_on_a_node_that_was_uncordoned_is_stale(clock: Clock) -> None:
    plane = Plane([], [])
    plane.manage()
    plane.manage(state="failed", failure="x")
    plane.node["spec"] = {}
    plane.node["metadata"]["managedFields"] = owned()
    removed = f"Remove the annotation {memory.NOTE} from node a: it was uncordoned since run one cordoned it"
    assert removed in plane.manage(True, run="two", state="uncordoned")["actions"]
    assert plane.note is not None
    # Another run may have it drained at the moment.
    lease_of(plane, "three", 60).take("b")
    with pytest.raises(DrainError, match="the run three has held it"):
        plane.manage(run="two", state="uncordoned")
    lease_of(plane, "three", 60).leave("b")
    # A drain begins from the beginning.
    assert "Cordon node a: a test" in plane.manage(True, run="two")["actions"]
    assert removed in plane.manage(run="two", state="uncordoned")["actions"]
    assert (plane.note, plane.cordoned) == (None, False)


def test_a_cordon_that_came_meanwhile_is_left(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    plane = Plane([])
    plane.manage()
    plane.node["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    slept = clock.sleep

    def sleep(seconds: float) -> None:
        slept(seconds)
        plane.node["metadata"]["managedFields"] = owned("kubectl")
        plane.node["status"]["conditions"] = [{"type": "Ready", "status": "True"}]

    monkeypatch.setattr(time, "sleep", sleep)
    with pytest.raises(DrainError, match="Uncordoning node a: kubectl has cordoned it, so it is left alone"):
        plane.manage(state="uncordoned", wait_ready=True)
    assert plane.cordoned
    assert plane.note["failed"] is None


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
            with pytest.raises(DrainError) as caught:
                plane.manage(check)
            assert f"max_unavailable is 1, and as many nodes are in maintenance already: {text}" in str(caught.value)
            assert "--limit b" in str(caught.value)
            assert (plane.cordoned, plane.lease) == (False, None)
        plane.manage(check, max_unavailable=2 if text else 1)
    assert plane.cordoned
    # One that is out already makes no more of them.
    plane.lease = None
    assert "Continue with node a, which run one cordoned" in plane.manage(run="two")["actions"]


def test_nodes_that_the_run_is_about_to_cordon_count(clock: Clock) -> None:
    plane = Plane([])
    lease_of(plane, "one", 60).take("b")
    for check in (True, False):
        with pytest.raises(DrainError, match=r"in maintenance already: b \(of this run\)"):
            plane.manage(check)
    assert not plane.cordoned
    # Between the look and the Lease.
    lease_of(plane, "one", 60).leave("b")
    look = plane.items

    def items(path: str, doing: str, query: Json = None) -> Json:
        if path == "/api/v1/pods" and plane.lease["spec"]["holderIdentity"] == "":
            lease_of(plane, "one", 60).take("c")
        return look(path, doing, query)

    plane.items = items  # type: ignore[method-assign]
    with pytest.raises(DrainError, match=r"in maintenance already: c \(of this run\)"):
        plane.manage()
    assert not plane.cordoned


def test_a_run_that_has_lost_the_lease_takes_its_cordon_back(clock: Clock) -> None:
    plane = Plane([FREE])
    write = plane.merge

    def merge(path: str, body: Json, doing: str) -> None:
        write(path, body, doing)
        if doing.startswith("Cordon"):
            plane.lease["spec"]["holderIdentity"] = "two"

    plane.merge = merge  # type: ignore[method-assign]
    with pytest.raises(DrainError, match="the run one has lost it; the run two holds it now"):
        plane.manage()
    assert (plane.cordoned, plane.note, plane.evicted) == (False, None, [])
    assert plane.lease["spec"]["holderIdentity"] == "two"


@pytest.mark.parametrize("lost", ["held", "released", "adopted"])
def test_a_run_whose_lease_was_taken_does_not_uncordon(clock: Clock, lost: str) -> None:
    plane = Plane([], [])
    plane.manage()
    clock.now += 61
    plane.manage(run="two")
    if lost != "held":
        plane.manage(run="two", state="failed", failure="x")
    if lost == "adopted":
        # It has the Lease again, for another node.
        lease_of(plane, "one", 60).take("b")
    text = {
        "held": "the run two holds it",
        "released": "no run holds it now",
        "adopted": "it is no longer in maintenance by the run one. The run two has taken it over",
    }
    for check in (True, False):
        with pytest.raises(DrainError, match=text[lost]):
            plane.manage(check, state="uncordoned", take_over=False)
    assert plane.cordoned
    if lost == "released":
        assert plane.manage(state="uncordoned")["changed"]
        assert not plane.cordoned
        lease_of(plane, "one", 60).take("b")
        with pytest.raises(DrainError, match="by the run one. It was returned"):
            plane.manage(state="uncordoned", take_over=False)


def test_what_comes_after_a_drain_has_the_whole_lease(clock: Clock) -> None:
    plane = Plane([FREE], [FREE], *[[FREE]] * 20, [])
    plane.manage()
    assert leases._time(plane.lease["spec"]["renewTime"]) == pytest.approx(clock.now)


@pytest.mark.parametrize("limit", ["drain_timeout", "ready_timeout", "lease_duration", "max_unavailable"])
def test_a_limit_is_at_least_1(limit: str) -> None:
    unit = "$" if limit == "max_unavailable" else " second"
    with pytest.raises(DrainError, match=f"{limit} is 0; it must be at least 1{unit}"):
        Plane([]).manage(True, **{limit: 0})
    Plane([]).manage(True, **{limit: 1})


def test_a_note_that_another_run_has_taken_over_is_left(clock: Clock) -> None:
    plane = Plane([FREE], [FREE], [FREE], [])
    waits = plane.items

    def items(path: str, doing: str, query: Json = None) -> Json:
        if plane.evicted:
            plane.node["metadata"]["annotations"][memory.NOTE] = json.dumps({**plane.note, "run": "two"})
        return waits(path, doing, query)

    plane.items = items  # type: ignore[method-assign]
    with pytest.raises(DrainError, match="run one no longer keeps it cordoned. The node is not cordoned by this run"):
        plane.manage()
    assert (plane.note["run"], plane.note["step"], plane.note["failed"]) == ("two", "cordoned", None)


def test_a_node_is_given_back_without_a_proof_that_it_is_the_host(clock: Clock) -> None:
    plane = Plane([])
    plane.manage()
    plane.manage(state="uncordoned", machine_id=None)
    assert not plane.cordoned


def test_a_host_has_to_be_described() -> None:
    with pytest.raises(DrainError, match="give machine_id or addresses of the host"):
        Plane([]).manage(machine_id=None)
    assert Plane([]).manage(machine_id=None, addresses=["192.0.2.1"])["changed"]
