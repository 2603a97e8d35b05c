# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Attachments applied: the steps, refusals, other managers, ranges in use, limited rights."""

from __future__ import annotations

import json
import typing as t

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._kubernetes.client import ApiError
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._net_attach_def.attachment_set import AttachmentError
from ansible_collections.rdmaops.gpu_fabric.plugins.modules import network_attachment as module
from ansible_collections.rdmaops.gpu_fabric.tests.support.failures import message_of
from ansible_collections.rdmaops.gpu_fabric.tests.unit.plugins.module_utils._net_attach_def.fakes import (
    CONFIG,
    NADS,
    POOLS,
    FakeClient,
    attachment,
    forbidden,
    nad,
    ranged,
    run,
)


def test_the_four_steps() -> None:
    client = FakeClient()
    asked = run(client, attachment(), check=True)
    assert client.written == []
    done = run(client, attachment())
    for result in (asked, done):
        assert result["changed"]
        assert result["actions"] == ["Create the attachment default/nic0"]
        assert result["resources"][0]["status"] == "drift"
        assert result["resources"][0]["live"] is None
        assert json.loads(result["diff"][0]["after"])["config"] == CONFIG
    assert len(client.written) == 1
    for check in (False, True):
        again = run(client, attachment(), check=check)
        assert (again["changed"], again["actions"], again["diff"]) == (False, [], [])
        assert again["resources"][0]["status"] == "in_sync"
    assert len(client.written) == 1


def test_nothing_to_change_asks_for_four_lists() -> None:
    client = FakeClient(*(nad(f"rail{n}", {**CONFIG, "device": f"eth{n}"}) for n in range(8)))
    nodes = [{"metadata": {"name": "gpu-1"}, "spec": {"podCIDRs": ["10.244.0.0/24"]}}]
    cidrs = "/apis/networking.k8s.io/v1/servicecidrs"
    client.lists.update({"/api/v1/nodes": nodes, cidrs: [{"spec": {"cidrs": ["10.96.0.0/16"]}}]})
    result = run(client, *(attachment(f"rail{n}", device=f"eth{n}") for n in range(8)))
    assert not result["changed"]
    assert client.asked == [NADS, "/api/v1/nodes", cidrs]


def test_a_key_that_somebody_added_is_drift_and_spelling_is_none() -> None:
    client = FakeClient(nad("nic0", {"device": "ens192", "type": "host-device", "cniVersion": "0.3.1", "name": "nic0"}))
    assert not run(client, attachment())["changed"]
    client = FakeClient(nad("nic0", {**CONFIG, "capabilities": {"mac": True}}))
    result = run(client, attachment())
    assert result["actions"] == ["Change the attachment default/nic0 (config)"]
    assert '"capabilities"' in result["diff"][0]["before"]
    assert '"capabilities"' not in result["diff"][0]["after"]


def test_only_the_label_is_added_to_what_is_the_same_in_another_spelling() -> None:
    text = '{"type":"host-device","device":"ens192","cniVersion":"0.3.1"}'
    client = FakeClient(nad("nic0", text, owner=None))
    assert run(client, attachment())["actions"] == ["Change the attachment default/nic0 (owner)"]
    assert client.lists[NADS][0]["spec"]["config"] == text


def test_an_empty_list_without_prune_only_reads() -> None:
    others = [nad("theirs", CONFIG, "other"), nad("elsewhere", CONFIG, namespace="site-b")]
    client = FakeClient(nad("nic1", CONFIG), nad("nic0", CONFIG), *others)
    result = run(client)
    assert [item["metadata"]["name"] for item in result["existing"]] == ["nic0", "nic1"]
    assert result["existing"][0] == {
        "metadata": {
            "namespace": "default", "name": "nic0", "labels": {"rdmaops.gpu-fabric/owner": "training"}, "annotations": {},
        },
        "spec": {"config": json.dumps(CONFIG)},
    }  # fmt: skip
    assert (result["changed"], result["resources"], client.written) == (False, [], [])
    assert [item["metadata"]["name"] for item in run(client, namespace="site-b")["existing"]] == ["elsewhere"]
    client.lists[NADS] = None
    assert run(client, check=True)["existing"] == []


def test_before_the_crd() -> None:
    client = FakeClient()
    client.lists[NADS] = None
    assert run(client, attachment(), check=True)["actions"] == ["Create the attachment default/nic0"]
    assert message_of(AttachmentError, run, client, attachment()) == (
        "Applying the attachments of training: https://cluster:6443 does not know NetworkAttachmentDefinitions. Install "
        "Multus first, whose manifest installs the CRD network-attachment-definitions.k8s.cni.cncf.io (the role "
        "rdmaops.gpu_fabric.secondary_network does)"
    )
    # Without the CRD there is nothing to remove.
    for check in (True, False):
        result = run(client, check=check, prune=True, prune_all=True)
        assert (result["changed"], result["actions"], client.written) == (False, [], [])


# options, what the message says
REFUSED: list[tuple[dict[str, t.Any], str]] = [
    ({"owner": "a b"}, "owner a b cannot be a label's value"),
    ({"prune": True}, "prune with an empty list of attachments would delete every attachment of training"),
    ({"ignore_lint": ["host_interface"]}, "ignore_lint: host_interface cannot be ignored"),
    ({"ignore_lint": ["nonsense"]}, "ignore_lint: nonsense is not a lint code. These can: address_shared"),
    ({"node_info": {"gpu-1": []}}, "node_info of gpu-1 must be a dictionary"),
    (
        {"expected_pods": {"nic9": 1}},
        "expected_pods names nic9, which is not an attachment of this task. There are: none",
    ),
    ({"expected_pods": True, "attachments": [attachment()]}, "expected_pods must be a number"),
    ({"expected_pods": -1, "attachments": [attachment()]}, "it has -1"),
    (
        {"target_nodes": ["gpu-9"], "attachments": [attachment()]},
        "target_nodes names gpu-9, and the cluster has no nodes",
    ),
    ({"node_selector": "x=y", "attachments": [attachment()]}, "no node has the labels x=y"),
    (
        {"attachments": [attachment(config='{"type" "x"}')]},
        "config: invalid JSON: Expecting ':' delimiter at line 1, column 9",
    ),
    ({"attachments": [attachment(config={"type": "x"}, device="e")]}, "config is given together with device"),
    ({"attachments": [attachment(type=None, device=None)]}, "neither type nor config is given"),
    ({"attachments": [attachment(master="x")]}, "host-device has no key master"),
    (
        {"attachments": [attachment(namespace="gone")]},
        "the namespace gone does not exist. Create it first (kubectl create",
    ),
    ({"attachments": [ranged("10.0.0.0/30")], "expected_pods": "3"}, "10.0.0.0/29 would fit (6 addresses)"),
    ({"attachments": [ranged("10.0.0.0/30")], "expected_pods": {"default/nic0": 3}}, "ignore_lint: [range_too_small]"),
]


@pytest.mark.parametrize(("options", "says"), REFUSED, ids=range(len(REFUSED)))
@pytest.mark.parametrize("check", [True, False])
def test_refusals_change_nothing(options: dict[str, t.Any], says: str, check: bool) -> None:
    client = FakeClient()
    assert says in message_of(AttachmentError, run, client, check=check, **options)
    assert client.written == []


def test_one_error_stops_all() -> None:
    client = FakeClient()
    with pytest.raises(AttachmentError, match="1 error, nothing was applied") as caught:
        run(client, attachment(), attachment("nic1", device="n" * 16))
    assert client.written == []
    assert [row["code"] for row in caught.value.result["lint"]] == ["interface_name"]
    run(client, attachment(), attachment("nic1", device="n" * 16), ignore_lint=["interface_name"])
    assert len(client.written) == 2


def test_what_belongs_to_another_set() -> None:
    client = FakeClient(nad("nic0", {**CONFIG, "device": "x"}, owner="other"))
    message = message_of(AttachmentError, run, client, attachment())
    assert "owned_by_other, default/nic0: it belongs to the set other. Another name" in message
    assert run(client, attachment(), force=True)["actions"] == ["Change the attachment default/nic0 (config, owner)"]


def test_a_conflict_names_the_way_out() -> None:
    client = FakeClient()
    client.apply_error = ApiError('Applying: conflict with "kubectl" using v1: .spec.config', 409, "Conflict")
    for check in (True, False):
        assert message_of(ApiError, run, client, attachment(), check=check).endswith(
            'conflict with "kubectl" using v1: .spec.config. Set force_conflicts to true to take these fields over from their manager'
        )


def test_check_mode_without_the_right_to_patch_still_tells_the_drift() -> None:
    client = FakeClient()
    client.apply_error = forbidden("Asking")
    result = run(client, attachment(), check=True)
    assert result["changed"]
    assert "apply" in {row["code"] for row in result["not_checked"]}
    with pytest.raises(ApiError, match="joe may not"):
        run(client, attachment())


def test_a_resource_name_of_another_manager() -> None:
    body = nad("nic0", CONFIG)
    note = {"k8s.v1.cni.cncf.io/resourceName": "nvidia.com/x"}
    body["metadata"]["annotations"] = note
    fields = {"f:metadata": {"f:annotations": {"f:k8s.v1.cni.cncf.io/resourceName": {}}}}
    body["metadata"]["managedFields"] = [{"manager": "helm", "fieldsV1": fields}]

    class Sticky(FakeClient):
        def apply(self, path: str, body: t.Any, doing: str, **given: t.Any) -> t.Any:
            answer = super().apply(path, body, doing, **given)
            return {**answer, "metadata": {**answer["metadata"], "annotations": note}}

    client = Sticky(body)
    message = message_of(AttachmentError, run, client, attachment())
    assert "resourceName belongs to helm and cannot be removed. Set force_conflicts to true" in message
    result = run(client, attachment(), force=True)
    assert result["actions"] == ["Change the attachment default/nic0 (resource name)"]
    assert [verb for verb, _path in client.written] == ["apply", "merge"]


@pytest.mark.parametrize(
    ("owner", "options", "forced"),
    [
        ("training", {}, False),
        ("training", {"force_conflicts": True}, True),
        ("training", {"force": True}, True),
        # An attachment without an owner is not ours yet.
        (None, {"force_conflicts": True}, False),
        (None, {"force": True}, True),
    ],
)
def test_fields_of_another_manager_are_set_with_consent_only(
    owner: str | None, options: dict[str, t.Any], forced: bool
) -> None:
    class Managed(FakeClient):
        def apply(self, path: str, body: t.Any, doing: str, *, force: bool = False, dry_run: bool = False) -> t.Any:
            if not force:
                raise ApiError(f"{doing}: conflict with helm", 409, "Conflict")
            return super().apply(path, body, doing, force=force, dry_run=dry_run)

    client = Managed(nad("nic0", {**CONFIG, "device": "x"}, owner))
    if forced:
        assert run(client, attachment(), **options)["changed"]
    else:
        with pytest.raises(ApiError, match="Set force_conflicts to true"):
            run(client, attachment(), **options)
    assert bool(client.written) is forced


def pool(text: str, prefix: str = "", **pods: str) -> dict[str, t.Any]:
    allocations = {number[1:]: {"id": "c" + number, "podref": pod} for number, pod in pods.items()}
    metadata = {"name": prefix + text.replace("/", "-"), "namespace": "kube-system"}
    return {"metadata": metadata, "spec": {"range": text, "allocations": allocations}}


OLD = {**CONFIG, "ipam": {"type": "whereabouts", "range": "10.0.0.0/30"}}
SLICES = {"range": "10.0.0.0/24", "node_slice_size": "/28", "network_name": "r"}
SLICED = {**CONFIG, "ipam": {"type": "whereabouts", **SLICES}}
# configuration that is there, options that are wanted, pools, what is refused (None: nothing)
IN_USE: list[tuple[t.Any, dict[str, t.Any], list[t.Any], str | None]] = [
    (OLD, {"range": "10.0.0.0/29"}, [pool("10.0.0.0/30", _1="default/pod-a")], "10.0.0.1 by default/pod-a"),
    (OLD, {"range": "10.0.0.0/29"}, [pool("10.0.0.0/30")], None),
    (OLD, {"range": "10.0.0.0/29"}, [pool("10.9.0.0/30", _1="x/y")], None),
    (OLD, {"range": "10.0.0.0/30", "network_name": "r"}, [pool("10.0.0.0/30", _2="x/y")], "10.0.0.2 by x/y"),
    (OLD, {"range": "10.0.0.0/30", "exclude": ["10.0.0.2"]}, [pool("10.0.0.0/30", _1="x/y")], None),
    (OLD, {"range": "10.0.0.0/30", "exclude": ["10.0.0.1"]}, [pool("10.0.0.0/30", _1="x/y")], "by x/y"),
    (SLICED, {"range": "10.0.0.0/25"}, [pool("10.0.0.16/28", "r-gpu-1-", _3="x/y")], "10.0.0.19 by x/y"),
    ({**OLD, "device": "ens9"}, {"range": "10.0.0.0/30"}, [pool("10.0.0.0/30", _1="x/y")], None),
]


@pytest.mark.parametrize(("old", "ipam", "pools", "says"), IN_USE, ids=range(len(IN_USE)))
def test_a_range_in_use(old: t.Any, ipam: dict[str, t.Any], pools: list[t.Any], says: str | None) -> None:
    client = FakeClient(nad("nic0", old))
    client.lists[POOLS] = pools
    wanted = attachment(ipam={**dict.fromkeys(module.IPAM), "type": "whereabouts", **ipam})
    if says is None:
        assert run(client, wanted)["changed"]
        return
    message = message_of(AttachmentError, run, client, wanted)
    assert "range_in_use, default/nic0: its range changes while addresses are in use: " in message
    assert says in message
    assert client.written == []


def test_pools_that_may_not_be_read_are_not_taken_for_empty() -> None:
    client = FakeClient(nad("nic0", OLD))
    client.lists[POOLS] = forbidden("Listing whereabouts' address pools")
    with pytest.raises(AttachmentError, match="could not be checked .*The right to list ippools"):
        run(client, ranged("10.0.0.0/29"))


def test_who_may_see_one_namespace() -> None:
    client = FakeClient()
    client.lists[NADS] = forbidden("Listing all")
    client.lists["/api/v1/nodes"] = forbidden("Listing the nodes")
    client.lists["/apis/networking.k8s.io/v1/servicecidrs"] = forbidden("Listing the service networks")
    client.objects["/api/v1/namespaces/default/services/kubernetes"] = forbidden("Reading")
    client.lists["all"] = [nad("nic0", OLD), nad("other", OLD, namespace="hidden")]
    result = run(
        client,
        ranged("10.0.0.0/30"),
        expected_pods=2,
        node_info={"gpu-1": {"interfaces": []}},
        target_nodes=["gpu-1"],
        ignore_lint=["device_missing"],
    )
    assert not result["changed"]
    codes = {row["code"] for row in result["not_checked"]}
    assert codes >= {"range_overlap", "range_overlaps_pods", "range_overlaps_services", "range_overlaps_nodes"}


def test_the_pod_network_that_kubeadm_knows() -> None:
    client = FakeClient(**{"/api/v1/nodes": [{"metadata": {"name": "gpu-1"}, "spec": {}}]})
    text = (
        "networking:\n  dnsDomain: cluster.local\n  podSubnet: 10.244.0.0/16,fd00::/56\n  serviceSubnet: 10.96.0.0/12\n"
    )
    at = "/api/v1/namespaces/kube-system/configmaps/kubeadm-config"
    client.objects[at] = {"data": {"ClusterConfiguration": text}}
    with pytest.raises(AttachmentError, match=r"10.244.3.0/24 overlaps the pod network 10.244.0.0/16 at 10.244.3.1"):
        run(client, ranged("10.244.3.0/24"))


def test_the_service_address_where_there_are_no_service_cidrs() -> None:
    client = FakeClient()
    client.objects["/api/v1/namespaces/default/services/kubernetes"] = {"spec": {"clusterIPs": ["10.96.0.1"]}}
    with pytest.raises(AttachmentError, match=r"10.96.0.0/24 overlaps the service network 10.96.0.1/32 at 10.96.0.1"):
        run(client, ranged("10.96.0.0/24"))
    rows = run(client, ranged("10.0.0.0/24"))["not_checked"]
    assert any("only the address of the service kubernetes was compared" in row["why"] for row in rows)


def test_what_was_done_before_a_failure_is_told() -> None:
    class Dying(FakeClient):
        def apply(self, path: str, body: t.Any, doing: str, *, force: bool = False, dry_run: bool = False) -> t.Any:
            if not dry_run and self.written:
                raise ApiError(f"{doing}: {self.host} could not be reached")
            return super().apply(path, body, doing, force=force, dry_run=dry_run)

    client = Dying()
    with pytest.raises(AttachmentError) as caught:
        run(client, attachment(), attachment("nic1", device="ens9"))
    assert str(caught.value) == (
        "Applying the attachment default/nic1: https://cluster:6443 could not be reached. Done before that: Create the "
        "attachment default/nic0"
    )
    assert caught.value.result["changed"] is True
    assert caught.value.result["actions"] == ["Create the attachment default/nic0"]


# Ansible's message, hint
HINTS = [
    ("attachments.devcie", " Did you mean attachments.device?"),
    (
        "attachments.ipam.rangeStart, attachments.chain.tpye",
        " Did you mean attachments.ipam.range_start, attachments.chain.type?",
    ),
    ("attachments.zzz", ""),
    ("zzz", ""),
]


@pytest.mark.parametrize(("unknown", "hint"), HINTS)
def test_hints(unknown: str, hint: str) -> None:
    message = f"Unsupported parameters for (rdmaops.gpu_fabric.network_attachment) module: {unknown}. Supported parameters include: a, b."
    assert module.hint(message) == hint
