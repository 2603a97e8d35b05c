# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which Node is the host, whose cordon it is, and what an annotation remembers."""

from __future__ import annotations

import copy
import json
import time

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._kubernetes.client import MANAGER, ApiError
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._node_drain import node as memory
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._node_drain.node import DrainError
from ansible_collections.rdmaops.gpu_fabric.tests.support.failures import message_of
from ansible_collections.rdmaops.gpu_fabric.tests.unit.plugins.module_utils._node_drain.fakes import (
    FREE,
    Clock,
    Json,
    Plane,
    lease_of,
    node,
    owned,
)

A, B, C = node("a", "m1", "192.0.2.1"), node("b", "m2", "192.0.2.2", "2001:db8::2"), node("c", "m2", "10.0.2.15")
D = node("d", "m4", "10.0.2.15")
# Of these no kubelet has reported anything, or no machine ID.
BARE: list[Json] = [{"metadata": {"name": "e"}}, {"metadata": {"name": "f"}, "status": {}}, node("g")]


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
        ("m9", [" 192.0.2.1\n"], ["a"]),
        ("m9", ["a"], []),
    ],
)
def test_which_node_a_host_is(machine: str, addresses: list[str], expected: list[str]) -> None:
    assert memory.owners([A, B, C, D, *BARE], machine, addresses) == expected
    assert memory.owners([A, B, C, D, BARE[2]], machine, addresses) == expected


def test_two_nodes_that_may_be_the_host_are_named() -> None:
    params = {"name": "c", "machine_id": None, "addresses": ["10.0.2.15"], "on_absent": "fail"}
    with pytest.raises(DrainError, match=r"not proven to be the host.*both may be those of c, d"):
        memory.find([A, B, C, D], {**params, "name": "a"}, "Draining node a")
    with pytest.raises(DrainError, match="both may be those of c, d"):
        memory.find([A, B, C, D], params, "Draining node c")


def test_a_node_of_another_name_is_named(clock: Clock) -> None:
    plane = Plane([])
    plane.others = [node("b", "m2", "192.0.2.2"), node("x")]
    assert message_of(DrainError, plane.manage, machine_id="m2", addresses=["192.0.2.2"]) == (
        "Draining node a: this Node is not proven to be the host. Its machineID is m1 and the host's is m2; its "
        "InternalIP is 192.0.2.1 and the host has 192.0.2.2; the host is Node b, set that name (gpu_node_name). "
        "Nothing was changed"
    )
    assert message_of(DrainError, plane.manage, name="x", machine_id="m9") == (
        "Draining node x: this Node is not proven to be the host. Its machineID is not known and the host's is m9; its "
        "InternalIP is not known and the host has no address given. Nothing was changed"
    )
    message = message_of(DrainError, plane.manage, name="x", machine_id=None, addresses=["192.0.2.2"])
    assert "and the host's is not given; its InternalIP is not known and the host has 192" in message
    with pytest.raises(DrainError, match=r"no node of this name; the host is Node b, .*\. Its nodes are: a, b, x$"):
        plane.manage(name="gone", machine_id="m2")
    for state, doing in (("drained", "Draining"), ("uncordoned", "Uncordoning"), ("failed", "Noting a failure on")):
        assert message_of(DrainError, plane.manage, name="gone", machine_id="m9", state=state, failure="x") == (
            f"{doing} node gone: the cluster has no node of this name, nor the host. Its nodes are: a, b, x"
        )
    result = plane.manage(name="gone", machine_id="m9", on_absent="ignore")
    assert (result.pop("in_cluster"), result.pop("changed"), result.pop("maintenance")) == (False, False, None)
    assert result == {"actions": [], "diff": [], "pods": [], "resources": [], "waiting_for": []}
    with pytest.raises(DrainError, match="the host is Node b"):
        plane.manage(name="gone", machine_id="m2", on_absent="ignore")


def test_a_node_of_which_nothing_is_known_is_not_the_host() -> None:
    params = {"name": "e", "machine_id": "m1", "addresses": [], "on_absent": "fail"}
    assert message_of(DrainError, memory.find, [A, *BARE], params, "Draining node e") == (
        "Draining node e: this Node is not proven to be the host. Its machineID is not known and the host's is m1; its "
        "InternalIP is not known and the host has no address given; the host is Node a, set that name (gpu_node_name). "
        "Nothing was changed"
    )
    assert message_of(DrainError, memory.find, [], params, "Draining node e") == (
        "Draining node e: the cluster has no node of this name, nor the host. Its nodes are: none"
    )


def test_a_node_that_is_ready_lacks_nothing() -> None:
    assert memory.not_ready({"status": {"conditions": [{"type": "Ready", "status": "True"}]}}, "") == ""
    for bare in BARE:
        assert memory.not_ready(bare, "") == "Ready is not known (no message)"
        assert memory.extended(bare) == {}
        assert memory.shortage(bare, {"before": {"allocatable": {"rdma/hca": "1"}}}) == [("rdma/hca", "1", "0")]
        assert memory.shortage(bare, {"before": {}}) == []


def test_an_api_server_without_nodes_has_none_of_the_name(monkeypatch: pytest.MonkeyPatch) -> None:
    plane = Plane([])
    monkeypatch.setattr(plane, "items", lambda *_arguments: None)
    assert message_of(DrainError, plane.manage) == (
        "Draining node a: the cluster has no node of this name, nor the host. Its nodes are: none"
    )


def test_a_host_has_to_be_described() -> None:
    with pytest.raises(DrainError, match="give machine_id or addresses of the host"):
        Plane([]).manage(machine_id=None)
    assert Plane([]).manage(machine_id=None, addresses=["192.0.2.1"])["changed"]


def test_a_node_is_given_back_without_a_proof_that_it_is_the_host(clock: Clock) -> None:
    plane = Plane([])
    plane.manage()
    plane.manage(state="uncordoned", machine_id=None)
    assert not plane.cordoned


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


def test_a_node_that_changes_meanwhile_is_written_again() -> None:
    plane = Plane([])
    plane.errors = [("Writing: Cordon node a", ApiError("conflict", 409))] * 9
    plane.manage()
    assert plane.cordoned
    plane = Plane([])
    plane.errors = [("Writing: Cordon node a", ApiError("conflict", 409))] * 10
    with pytest.raises(DrainError, match="others keep changing this Node: conflict"):
        plane.manage()


@pytest.mark.parametrize(("again", "text"), [(False, ""), (True, ", and created again")])
def test_a_node_that_was_deleted_meanwhile_is_not_written(
    clock: Clock, again: bool, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plane = Plane([FREE])
    get = plane.get
    other = node("a", "m1", "192.0.2.1", metadata={"uid": "o", "resourceVersion": "1"})

    def changed(path: str, doing: str) -> Json:
        if path == "/api/v1/nodes/a":
            return copy.deepcopy(other) if again else None
        return get(path, doing)

    monkeypatch.setattr(plane, "get", changed)
    assert message_of(DrainError, plane.manage) == (
        f"Cordon node a: a test: the Node has been deleted{text}. The node is not cordoned by this run"
    )
    assert (plane.cordoned, plane.note, plane.evicted) == (False, None, [])
    assert plane.lease["spec"]["holderIdentity"] == ""


def test_a_node_that_another_user_has_cordoned_is_left_alone() -> None:
    plane = Plane([FREE], spec={"unschedulable": True}, metadata={"managedFields": owned("cloud-controller")})
    for check in (True, False):
        with pytest.raises(DrainError, match="cloud-controller has cordoned it, so it is left alone"):
            plane.manage(check)
    assert (plane.note, plane.evicted, plane.lease) == (None, [], None)
    result = plane.manage(state="uncordoned")
    assert (result["changed"], plane.cordoned) == (False, True)


def test_a_cordon_without_our_annotation_is_left_alone(clock: Clock) -> None:
    plane = Plane([])
    plane.manage()
    del plane.node["metadata"]["annotations"]
    assert message_of(DrainError, plane.manage) == (
        f"Draining node a: {MANAGER} has cordoned it, so it is left alone. Once it may be worked on: kubectl uncordon a"
    )


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
    assert result["diff"][0]["after"] == f"unschedulable: true\n{memory.NOTE}: null\n"
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
    foreseen = plane.manage(True, run="two", state="uncordoned")
    assert removed in foreseen["actions"]
    assert foreseen["diff"][0]["after"] == f"unschedulable: false\n{memory.NOTE}: null\n"
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


def test_a_stale_note_stays_if_another_run_has_the_lease_meanwhile(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    plane = Plane([])
    plane.manage()
    plane.manage(state="failed", failure="x")
    plane.node["spec"] = {}
    before = copy.deepcopy(plane.node)
    get = plane.get

    def read(path: str, doing: str) -> Json:
        if doing.startswith("Remove the annotation"):
            plane.lease["spec"]["holderIdentity"] = "two"
        return get(path, doing)

    monkeypatch.setattr(plane, "get", read)
    with pytest.raises(DrainError, match="the run one has lost it; the run two holds it now"):
        plane.manage(state="uncordoned")
    assert plane.node == before


def test_a_stale_note_counts_again_once_the_node_is_cordoned(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    plane = Plane([])
    plane.manage()
    plane.manage(state="failed", failure="x")
    before = copy.deepcopy(plane.node)
    plane.node["spec"] = {}
    get = plane.get

    def read(path: str, doing: str) -> Json:
        if doing.startswith("Remove the annotation"):
            plane.node = copy.deepcopy(before)
        return get(path, doing)

    monkeypatch.setattr(plane, "get", read)
    plane.manage(run="two", state="uncordoned")
    assert plane.node == before


@pytest.mark.parametrize("state", ["drained", "uncordoned"])
def test_a_cordon_that_came_just_before_a_write_is_left(
    clock: Clock, state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plane = Plane([FREE], [])
    if state == "uncordoned":
        plane.manage()
    plane.written, plane.evicted = [], []
    get = plane.get

    def read(path: str, doing: str) -> Json:
        if doing.startswith(("Cordon", "Uncordon")):
            plane.node["spec"]["unschedulable"] = True
            plane.node["metadata"]["managedFields"] = owned("kubectl")
        return get(path, doing)

    monkeypatch.setattr(plane, "get", read)
    with pytest.raises(DrainError, match="kubectl has cordoned it, so it is left alone"):
        plane.manage(state=state)
    assert (plane.written, plane.evicted) == ([], [])


@pytest.mark.parametrize("change", ["run", "uncordoned", "returned"])
def test_a_node_that_another_run_or_user_has_taken_over_in_the_wait_is_left(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    plane = Plane([])
    plane.manage()
    slept = clock.sleep

    def sleep(seconds: float) -> None:
        slept(seconds)
        if change == "run":
            plane.node["metadata"]["annotations"][memory.NOTE] = json.dumps({**plane.note, "run": "two"})
        else:
            plane.node["spec"] = {}
        if change == "returned":
            plane.node["metadata"]["annotations"] = {}
        plane.written = []
        plane.node["status"]["conditions"] = [{"type": "Ready", "status": "True"}]

    monkeypatch.setattr(time, "sleep", sleep)
    assert message_of(DrainError, plane.manage, state="uncordoned", wait_ready=True) == (
        "Uncordoning node a: run one no longer keeps it cordoned. The node is not cordoned by this run"
    )
    assert plane.written == []


def test_a_cordon_that_came_meanwhile_is_left(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    plane = Plane([])
    plane.manage()
    plane.manage(state="failed", failure="x")
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


@pytest.mark.parametrize("change", ["run", "cordon", "note"])
def test_a_node_that_another_run_or_user_has_taken_over_is_left(
    clock: Clock, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plane = Plane([FREE], [FREE], [FREE], [])
    waits = plane.items

    def items(path: str, doing: str, query: Json = None) -> Json:
        if plane.evicted and change == "run":
            plane.node["metadata"]["annotations"][memory.NOTE] = json.dumps({**plane.note, "run": "two"})
        elif plane.evicted and change == "cordon":
            plane.node["metadata"]["managedFields"] = owned("kubectl")
        elif plane.evicted:
            plane.node["metadata"]["annotations"] = {}
        return waits(path, doing, query)

    monkeypatch.setattr(plane, "items", items)
    with pytest.raises(DrainError, match="run one no longer keeps it cordoned. The node is not cordoned by this run"):
        plane.manage()
    assert plane.written == ["Cordon node a: a test"]
