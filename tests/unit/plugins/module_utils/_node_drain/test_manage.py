# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A drain from end to end: what it reports, the way back, failures."""

from __future__ import annotations

import json
import time

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._kubernetes.client import ApiError
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._node_drain import node as memory
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._node_drain import pods as rules
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._node_drain.node import DrainError
from ansible_collections.rdmaops.gpu_fabric.tests.support.failures import message_of
from ansible_collections.rdmaops.gpu_fabric.tests.unit.plugins.module_utils._node_drain.fakes import (
    CONSENTS,
    FREE,
    STAYS,
    Clock,
    Json,
    Plane,
    lease_of,
    pod,
)


def test_what_a_drain_reports(clock: Clock) -> None:
    leaving = pod(meta={"name": "q", "deletionTimestamp": "x", "finalizers": ["f/g"]})
    mirror = pod(meta={"name": "m", "annotations": {rules.MIRROR: "h"}})
    plane = Plane([FREE, leaving, mirror])
    foreseen = plane.manage(True)
    assert (plane.cordoned, plane.lease, plane.evicted, plane.rehearsed) == (False, None, [], ["p"])
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
    assert [
        tuple(row[key] for key in ("kind", "name", "live", "desired", "status")) for row in result["resources"]
    ] == [
        ("node", "a", "schedulable", "drained", "drift"),
        ("pod", "ml/p", "present", "absent", "drift"),
        ("pod", "ml/q", "present", "absent", "drift"),
    ]
    assert plane.lease["spec"]["holderIdentity"] == "one"
    assert plane.note == {
        "reason": "a test",
        "run": "one",
        "since": "2026-09-21T14:13:20Z",
        "step": "drained",
        "failed": None,
        "before": {"allocatable": {}, "boot_id": "b1", "unschedulable": False},
    }
    assert result["diff"] == [
        {
            "before_header": "node a",
            "after_header": "node a",
            "before": "unschedulable: false\nrdmaops.gpu-fabric/maintenance: null\n",
            "after": "unschedulable: true\nrdmaops.gpu-fabric/maintenance: %s\n"
            % json.dumps(plane.note, sort_keys=True, indent=2),
        }
    ]
    plane.looks = [[mirror]]
    again = plane.manage()
    assert (again["changed"], again["maintenance"]["step"]) == (False, "drained")
    assert [(row["live"], row["status"]) for row in again["resources"]] == [("drained", "in_sync")]
    # A pod that tolerates the cordon has come.
    plane.looks = [[FREE]]
    later = plane.manage(True)
    assert [(row["live"], row["status"]) for row in later["resources"]] == [("drained", "drift"), ("present", "drift")]
    assert later["actions"] == [
        "Evict the pod ml/p (Job train)",
        "Wait until ml/p are gone",
        "Note on node a that it is drained",
    ]


def test_what_a_pod_needed_consent_for_is_reported() -> None:
    plane = Plane([CONSENTS[rules.DEVICES]])
    assert plane.manage(True, evict_gpu_pods=True)["pods"] == [
        {
            "namespace": "ml",
            "name": "p",
            "uid": "u",
            "action": "evict",
            "why": "Job train",
            "traits": [{"option": "evict_gpu_pods", "why": "holds nvidia.com/gpu: 1"}],
        }
    ]


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
    assert result["diff"][0]["after"] == f"unschedulable: false\n{memory.NOTE}: null\n"
    assert (plane.cordoned, plane.note) == (False, None)
    # The run has another node in maintenance, until that is given back or has failed.
    assert plane.lease["spec"]["holderIdentity"] == "one"
    again = plane.manage(state="uncordoned")
    assert (again["changed"], again["diff"]) == (False, [])
    assert [(row["kind"], row["name"], row["live"], row["status"]) for row in again["resources"]] == [
        ("node", "a", "not in maintenance", "in_sync")
    ]
    lease_of(plane, "one", 60).leave("b")
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
    message = message_of(DrainError, plane.manage, state="uncordoned")
    assert "not back after ready_timeout (60 s): nvidia.com/gpu: 0 of 8; rdma/hca: 0 of 1" in message
    assert clock.now - began == pytest.approx(60, abs=2)
    assert plane.cordoned
    assert plane.note["failed"]["message"].startswith("Uncordoning node a: not back")


AWAY = "Uncordoning node a: not back after ready_timeout (60 s): no. Repair the node and run again, or, if a resource is gone "


# status and number of the refusals -> seconds that the wait takes, and the error
@pytest.mark.parametrize(
    ("status", "times", "seconds", "error"),
    [
        (0, 3, 3, ""),
        (503, 3, 3, ""),
        (403, 1, 0, "no" + STAYS),
        (0, 61, 60, AWAY + "for good, set missing_ok to true for one run" + STAYS),
    ],
)
def test_a_node_that_cannot_be_read_in_the_wait(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, status: int, times: int, seconds: float, error: str
) -> None:
    plane = Plane([])
    plane.manage()
    plane.errors = [("Reading node a", ApiError("no", status))] * times
    slept = clock.sleep

    def sleep(pause: float) -> None:
        slept(pause)
        plane.node["status"]["conditions"] = [{"type": "Ready", "status": "True"}]

    monkeypatch.setattr(time, "sleep", sleep)
    began = clock.now
    if error:
        assert message_of(DrainError, plane.manage, state="uncordoned", wait_ready=True) == error
    else:
        plane.manage(state="uncordoned", wait_ready=True)
    assert clock.now - began == seconds
    assert plane.cordoned is bool(error)


def test_a_node_that_is_deleted_in_the_wait(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    plane = Plane([])
    plane.manage()
    get = plane.get

    def deleted(path: str, doing: str) -> Json:
        return None if path == "/api/v1/nodes/a" else get(path, doing)

    monkeypatch.setattr(plane, "get", deleted)
    message = message_of(DrainError, plane.manage, state="uncordoned", wait_ready=True)
    assert "not back after ready_timeout (60 s): the Node is gone. Repair" in message
    assert message.endswith("for one run. The node is not cordoned by this run")


def test_a_run_gives_the_node_back_that_it_has_itself(clock: Clock) -> None:
    plane = Plane([])
    plane.manage()
    for check in (True, False):
        assert plane.cordoned
        result = plane.manage(check, state="uncordoned", take_over=False)
        assert [text.split(" ")[0] for text in result["actions"]] == ["Uncordon", "Release"]
    assert (plane.cordoned, plane.note) == (False, None)


def test_a_kubelet_that_has_not_reported_since_the_boot_is_waited_for(clock: Clock) -> None:
    plane = Plane([])
    plane.manage()
    ready = {"type": "Ready", "status": "True"}
    waiting = {"state": "uncordoned", "wait_ready": True}
    assert plane.manage(True, **waiting)["waiting_for"] == ["Ready is not known (no message)"]
    plane.node["status"]["conditions"] = [{"type": "MemoryPressure", "status": "True"}, {**ready, "status": "False"}]
    assert plane.manage(True, **waiting)["waiting_for"] == ["Ready is False (no message)"]
    plane.node["status"]["conditions"] = [{**ready, "status": "Unknown", "message": "Kubelet stopped"}]
    assert plane.manage(True, **waiting)["waiting_for"] == ["Ready is Unknown (Kubelet stopped)"]
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
    waits = wait_ready and not check
    plane.errors = [("Listing the nodes", away)] * 99
    began = clock.now
    with pytest.raises(ApiError, match="connection refused"):
        plane.manage(check, state="uncordoned", wait_ready=wait_ready)
    assert clock.now - began == (60 if waits else 0)
    assert plane.cordoned
    with pytest.raises(ApiError, match="connection refused"):
        plane.manage()
    assert clock.now - began == (60 if waits else 0)
    plane.errors = [("Listing the nodes", away)] * 3
    if waits:
        plane.manage(state="uncordoned", wait_ready=True)
        assert not plane.cordoned
    plane.errors = [("Listing the nodes", ApiError("Forbidden", 403))]
    with pytest.raises(ApiError, match="Forbidden"):
        plane.manage(check, state="uncordoned", wait_ready=wait_ready)


def test_a_failure_is_noted_once_and_the_next_run_goes_on(clock: Clock) -> None:
    plane = Plane([])
    plane.manage()
    plane.lease = None
    result = plane.manage(run="two", state="failed", failure="the boot timed out")
    assert result["actions"] == ["Note on node a what failed"]
    assert plane.note["failed"] == {"time": "2026-09-21T14:13:20Z", "message": "the boot timed out"}
    assert plane.note["run"] == "one"
    assert [(row["kind"], row["name"], row["live"], row["desired"], row["status"]) for row in result["resources"]] == [
        ("node", "a", None, "the boot timed out", "drift")
    ]
    assert result["diff"][0]["after"] == "unschedulable: true\nrdmaops.gpu-fabric/maintenance: %s\n" % json.dumps(
        plane.note, sort_keys=True, indent=2
    )
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


def test_a_long_failure_is_cut() -> None:
    plane = Plane([])
    plane.manage()
    plane.manage(state="failed", failure="x" * 2001)
    assert plane.note["failed"]["message"] == "x" * 2000
    assert plane.manage(True, state="failed", failure="x" * 2002)["changed"] is False
    plane.errors = [("Writing: Uncordon node a", ApiError("y" * 2001, 403))]
    with pytest.raises(DrainError):
        plane.manage(state="uncordoned")
    assert plane.note["failed"]["message"] == "y" * 2000


def test_a_failure_gives_the_lease_back(clock: Clock) -> None:
    plane = Plane([])
    plane.manage()
    began = plane.lease["spec"]["renewTime"]
    clock.now += 5
    plane.manage(state="failed", failure="no power")
    # An empty holder for a second, as client-go's leader election leaves it.
    assert (plane.lease["spec"]["holderIdentity"], plane.lease["spec"]["leaseDurationSeconds"]) == ("", 1)
    assert plane.lease["spec"]["renewTime"] > began


def test_a_failure_that_cannot_be_noted_is_reported(clock: Clock) -> None:
    plane = Plane([FREE])
    plane.errors = [
        ("Rehearsing: ", ApiError("the budget does not allow it", 429)),
        ("Evicting the pod ml/p", ApiError("forbidden", 403)),
        ("Reading node a", ApiError("connection refused", 0)),
    ]
    assert message_of(DrainError, plane.manage) == (
        "forbidden. Cordoned nodes stay cordoned; the failure could not be recorded on the node (connection refused)"
    )
    plane = Plane([FREE])
    plane.errors = [("Writing: Cordon node a", ApiError("forbidden", 403))]
    with pytest.raises(DrainError, match=r"^forbidden. The node is not cordoned by this run$"):
        plane.manage()


@pytest.mark.parametrize("limit", ["drain_timeout", "ready_timeout", "lease_duration", "max_unavailable"])
def test_a_limit_is_at_least_1(limit: str) -> None:
    unit = "$" if limit == "max_unavailable" else " second"
    with pytest.raises(DrainError, match=f"{limit} is 0; it must be at least 1{unit}"):
        Plane([]).manage(True, **{limit: 0})
    Plane([]).manage(True, **{limit: 1})
