# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Evictions: rehearsed, repeated, and given up after the time limit."""

from __future__ import annotations

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._kubernetes.client import ApiError
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._node_drain.evict import passing
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._node_drain.node import DrainError
from ansible_collections.rdmaops.gpu_fabric.tests.support.failures import message_of
from ansible_collections.rdmaops.gpu_fabric.tests.unit.plugins.module_utils._node_drain.fakes import (
    FREE,
    STAYS,
    Clock,
    Json,
    Plane,
    pod,
)


def test_when_the_api_server_is_asked_again() -> None:
    codes = (0, 400, 401, 403, 404, 409, 422, 429, 500, 503)
    assert [code for code in codes if passing(ApiError("x", code))] == [0, 409, 429, 500, 503]


def test_a_pod_is_not_asked_again_at_once(clock: Clock) -> None:
    # Two looks before the first request, and one more each second.
    for looks, evicted in ((2 + 5, ["p"]), (2 + 6, ["p", "p"]), (2 + 10, ["p", "p"]), (2 + 11, ["p", "p", "p"])):
        plane = Plane(*[[FREE]] * looks, [])
        plane.manage()
        assert plane.evicted == evicted


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


@pytest.mark.parametrize(
    ("status", "text", "seconds"),
    [
        (403, "forbidden", 0),
        (503, "Draining node a: not finished after drain_timeout (60 s). forbidden", 60),
    ],
)
def test_pods_that_cannot_be_listed_in_the_wait(
    clock: Clock, status: int, text: str, seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    plane = Plane([FREE])
    listed = plane.items

    def items(path: str, doing: str, query: Json = None) -> Json:
        if plane.evicted:
            raise ApiError("forbidden", status)
        return listed(path, doing, query)

    monkeypatch.setattr(plane, "items", items)
    began = clock.now
    assert message_of(DrainError, plane.manage) == text + STAYS
    assert clock.now - began == seconds
    assert plane.evicted == ["p"]


def test_an_eviction_is_requested_again_if_the_server_was_away(clock: Clock) -> None:
    plane = Plane(*[[FREE]] * 10, [])
    plane.errors = [("Rehearsing: ", ApiError("x", 429)), ("Evicting the pod ml/p", ApiError("away", 503))]
    plane.manage()
    assert plane.evicted == ["p"]
    plane = Plane([FREE])
    plane.lists["/apis/policy/v1/namespaces/ml/poddisruptionbudgets"] = []
    plane.errors = [("Rehearsing: ", ApiError("x", 429)), *[("Evicting the pod ml/p", ApiError("away", 503))] * 20]
    assert message_of(DrainError, plane.manage) == (
        "Draining node a: not finished after drain_timeout (60 s). Still there: ml/p under no PodDisruptionBudget: away. Make "
        "the budgets allow it, delete these pods, or allow more time" + STAYS
    )


def test_budgets_that_cannot_be_read_are_unknown(clock: Clock) -> None:
    plane = Plane([FREE])
    plane.errors = [
        ("Listing the PodDisruptionBudgets of ml", ApiError("forbidden", 403)),
        ("Rehearsing: ", ApiError("x", 429)),
        *[("Evicting the pod ml/p", ApiError("no", 429))] * 20,
    ]
    assert "Still there: ml/p under unknown budgets (forbidden): no. Make" in message_of(DrainError, plane.manage)


def test_what_is_still_there_after_the_time_limit_is_named(clock: Clock) -> None:
    waiting = pod(meta={"name": "q", "uid": "v", "deletionTimestamp": "x"})
    plane = Plane([pod(meta={"labels": {"app": "web"}}), waiting])
    status = {"currentHealthy": 2, "expectedPods": 2, "disruptionsAllowed": 0}
    budget = {"metadata": {"name": "web"}, "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "web"}}}}
    plane.lists["/apis/policy/v1/namespaces/ml/poddisruptionbudgets"] = [{**budget, "status": status}]
    plane.errors = [("Evicting the pod ml/p", ApiError("it would violate the budget", 429))] * 40
    plane.manage(True)
    began = clock.now
    message = message_of(DrainError, plane.manage)
    assert clock.now - began == pytest.approx(60, abs=2)
    assert message == (
        "Draining node a: not finished after drain_timeout (60 s). Still there: ml/p under web (minAvailable 2, 2 of 2 pods "
        "healthy, 0 disruptions allowed): it would violate the budget; ml/q is being deleted, due x. Make the budgets "
        "allow it, delete these pods, or allow more time" + STAYS
    )
    assert plane.note["failed"]["message"].startswith("Draining node a: not finished")
    assert plane.lease["spec"]["holderIdentity"] == ""
    assert plane.evicted == []
