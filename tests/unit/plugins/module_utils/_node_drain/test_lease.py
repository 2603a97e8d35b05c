# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The Lease: two processes, two runs, and what comes between."""

from __future__ import annotations

import copy

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._kubernetes.client import ApiError
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._node_drain import lease as leases
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._node_drain.node import DrainError
from ansible_collections.rdmaops.gpu_fabric.tests.support.failures import message_of
from ansible_collections.rdmaops.gpu_fabric.tests.unit.plugins.module_utils._node_drain.fakes import (
    FREE,
    Clock,
    Json,
    Overtaken,
    Plane,
    lease_of,
)


def test_the_lease_is_taken_from_whoever_is_faster() -> None:
    for code in (404, 409):
        server = Overtaken(0)
        lease_of(server, "zero").take("z")
        lease_of(server, "zero").leave("z")
        server.times, server.code = 9, code
        lease = lease_of(server, "one")
        lease.take("a")
        assert (lease.ours, lease.nodes, server.raw["spec"]["holderIdentity"]) == (True, {"a"}, "one")
    assert message_of(DrainError, lease_of(Overtaken(10), "one").take, "a") == (
        "Taking the Lease rdmaops-system/rdmaops-gpu-fabric-maintenance: others keep changing it: "
        "Taking the Lease rdmaops-system/rdmaops-gpu-fabric-maintenance"
    )


NOW = "2026-09-21T14:13:20.000000Z"


# what a Lease of another run has -> how much later it is free
@pytest.mark.parametrize(
    ("spec", "seconds"),
    [
        ({"renewTime": NOW, "leaseDurationSeconds": 60}, 60),
        ({"renewTime": NOW}, 0),
        ({"renewTime": NOW, "leaseDurationSeconds": None}, 0),
        ({"renewTime": "?", "leaseDurationSeconds": 60}, 0),
        ({"leaseDurationSeconds": 60}, 0),
        ({"holderIdentity": "", "renewTime": NOW, "leaseDurationSeconds": 60}, 0),
        ({"holderIdentity": None, "renewTime": NOW, "leaseDurationSeconds": 60}, 0),
    ],
)
def test_when_the_lease_of_another_run_ends(clock: Clock, spec: Json, seconds: float) -> None:
    server = Overtaken(0)
    server.raw = {"metadata": {}, "spec": {"holderIdentity": "two", **spec}}
    if seconds:
        clock.now += seconds - 1
        with pytest.raises(DrainError, match="the run two has held it"):
            lease_of(server, "one").take("a")
        clock.now += 1
    lease_of(server, "one").take("a")
    assert server.raw["spec"]["holderIdentity"] == "one"


def test_the_lease_that_is_made(clock: Clock) -> None:
    server = Overtaken(0)
    lease_of(server, "one").take("a")
    assert server.raw == {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {
            "name": "rdmaops-gpu-fabric-maintenance",
            "namespace": "rdmaops-system",
            "annotations": {"rdmaops.gpu-fabric/nodes": "a"},
        },
        "spec": {"holderIdentity": "one", "leaseDurationSeconds": 600, "acquireTime": NOW, "renewTime": NOW},
    }


def test_a_lease_without_anything_is_free() -> None:
    server = Overtaken(0)
    server.raw = {"metadata": {"resourceVersion": "7"}}
    lease_of(server, "one").take("a")
    assert server.raw["metadata"] == {"resourceVersion": "7", "annotations": {leases.NODES: "a"}}
    del server.raw["metadata"]["annotations"]
    lease = lease_of(server, "one")
    lease.read()
    assert (lease.ours, lease.nodes) == (True, set())


def test_the_holder_of_the_lease_is_named_with_its_times(clock: Clock) -> None:
    server = Overtaken(0)
    lease_of(server, "two", 90).take("b")
    clock.now += 30
    lease_of(server, "two", 90).renew()
    assert message_of(DrainError, lease_of(server, "one").take, "a") == (
        "Taking the Lease rdmaops-system/rdmaops-gpu-fabric-maintenance: the run two has held it since "
        "2026-09-21T14:13:20.000000Z, and holds it until 2026-09-21T14:15:20.000000Z unless it renews it. Wait until it "
        "ends. If you know that it was killed, kubectl delete lease -n rdmaops-system rdmaops-gpu-fabric-maintenance"
    )


def test_a_lease_that_may_not_be_written_is_not_tried_again() -> None:
    server = Overtaken(9, 403)
    with pytest.raises(ApiError, match="Taking the Lease"):
        lease_of(server, "one").take("a")
    assert server.times == 8


def test_a_namespace_that_is_missing_is_named() -> None:
    for act in (lambda lease: lease.take("a"), lambda lease: lease.look()):
        assert (
            "the cluster has no namespace rdmaops-system. An administrator creates it once, with kubectl create namespace "
            "rdmaops-system or, with an account that may use it, from docs/rbac/namespace.yml"
        ) in message_of(DrainError, act, lease_of(Overtaken(99, 404), "one"))
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
    for seconds, renewed in ((5, False), (0.1, True)):
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


@pytest.mark.parametrize("state", ["uncordoned", "failed"])
def test_the_lease_goes_with_a_node_that_was_deleted(clock: Clock, state: str) -> None:
    plane = Plane([])
    plane.manage()
    plane.node["metadata"]["name"] = "b"
    for check in (True, False):
        result = plane.manage(check, state=state, failure="x", machine_id=None, on_absent="ignore")
        assert [text.split(" ")[0] for text in result["actions"]] == ["Release"]
    assert plane.lease["spec"]["holderIdentity"] == ""


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


def test_a_run_that_has_lost_the_lease_takes_its_cordon_back(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    plane = Plane([FREE])
    write = plane.merge

    def merge(path: str, body: Json, doing: str) -> None:
        write(path, body, doing)
        if doing.startswith("Cordon"):
            plane.lease["spec"]["holderIdentity"] = "two"

    monkeypatch.setattr(plane, "merge", merge)
    with pytest.raises(DrainError, match="the run one has lost it; the run two holds it now"):
        plane.manage()
    assert (plane.cordoned, plane.note, plane.evicted) == (False, None, [])
    assert plane.lease["spec"]["holderIdentity"] == "two"


@pytest.mark.parametrize(
    ("run", "state", "doing", "cordoned"),
    [
        ("one", "drained", "Cordon node a: a test", False),
        ("one", "uncordoned", "Uncordon node a", True),
        ("three", "uncordoned", "Continue with node a, which run one cordoned", True),
    ],
)
def test_a_run_that_has_just_lost_the_lease_does_not_write(
    clock: Clock, run: str, state: str, doing: str, cordoned: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    plane = Plane([])
    if cordoned:
        plane.manage()
    plane.lease, plane.written = None, []
    get = plane.get

    def read(path: str, about: str) -> Json:
        if about == doing:
            plane.lease["spec"]["holderIdentity"] = "two"
        return get(path, about)

    monkeypatch.setattr(plane, "get", read)
    with pytest.raises(DrainError, match=f"the run {run} has lost it; the run two holds it now"):
        plane.manage(run=run, state=state)
    assert doing not in plane.written
    assert plane.cordoned is cordoned


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
    assert leases._time(plane.lease["spec"]["renewTime"]) == clock.now
    assert clock.now == 1_790_000_020


def test_nodes_that_the_run_is_about_to_cordon_count(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
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

    monkeypatch.setattr(plane, "items", items)
    with pytest.raises(DrainError, match=r"in maintenance already: c \(of this run\)"):
        plane.manage()
    assert not plane.cordoned
