# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What prune deletes, and what it keeps."""

from __future__ import annotations

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._net_attach_def.attachment_set import AttachmentError
from ansible_collections.rdmaops.gpu_fabric.tests.unit.plugins.module_utils._net_attach_def.fakes import (
    CONFIG,
    NADS,
    FakeClient,
    attachment,
    forbidden,
    nad,
    ranged,
    run,
)


def test_prune() -> None:
    rows = [
        nad("nic0", CONFIG),
        nad("old", CONFIG),
        nad("held", CONFIG, namespace="jobs"),
        nad("theirs", CONFIG, "other"),
        # Of an installation in another namespace that has the same owner.
        nad("elsewhere", CONFIG, namespace="site-b"),
    ]
    client = FakeClient(*rows)
    prunes = {"prune": True, "prune_namespaces": ["jobs"]}
    template = {"template": {"metadata": {"annotations": {"k8s.v1.cni.cncf.io/networks": "jobs/held@net1"}}}}
    client.lists["/apis/apps/v1/deployments"] = [{"metadata": {"namespace": "x", "name": "d"}, "spec": template}]
    asked = run(client, attachment(), check=True, **prunes)
    assert client.written == []
    done = run(client, attachment(), **prunes)
    for result in (asked, done):
        assert result["actions"] == ["Delete the attachment default/old"]
        assert result["kept"] == [{"namespace": "jobs", "name": "held", "used_by": ["Deployment x/d"], "unknown": []}]
        assert [(row["name"], row["status"]) for row in result["resources"]] == [
            ("default/nic0", "in_sync"),
            ("default/old", "drift"),
            ("jobs/held", "drift"),
        ]
    assert [row["metadata"]["name"] for row in client.lists[NADS]] == ["nic0", "held", "theirs", "elsewhere"]
    assert run(client, attachment(), **prunes, prune_in_use=True)["actions"] == ["Delete the attachment jobs/held"]
    assert run(client, prune=True, prune_all=True)["actions"] == ["Delete the attachment default/nic0"]
    assert [row["metadata"]["name"] for row in client.lists[NADS]] == ["theirs", "elsewhere"]


@pytest.mark.parametrize("prune", [True, False])
def test_a_range_is_compared_with_those_that_stay(prune: bool) -> None:
    used = {**CONFIG, "ipam": {"type": "whereabouts", "range": "10.0.0.0/24"}}
    client = FakeClient(nad("theirs", used, owner="other"), nad("by-hand", used, owner=None), nad("old", used))
    with pytest.raises(AttachmentError) as caught:
        run(client, ranged("10.0.0.128/25"), prune=prune)
    overlaps = [row["problem"] for row in caught.value.result["lint"] if row["code"] == "range_overlap"]
    for name, stays in {"theirs": True, "by-hand": True, "old": not prune}.items():
        assert any(f"default/{name}" in text for text in overlaps) is stays, overlaps


def test_prune_keeps_what_nobody_could_look_at() -> None:
    client = FakeClient(nad("nic0", CONFIG), nad("old", CONFIG))
    client.lists["/apis/batch/v1/jobs"] = forbidden("Listing every Job")
    result = run(client, attachment(), prune=True)
    assert not result["changed"]
    assert result["kept"][0]["unknown"] == ["Listing every Job: joe may not list this"]
    assert result["resources"][1]["status"] == "unknown"
