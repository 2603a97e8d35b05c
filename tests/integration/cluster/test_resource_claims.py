# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Claim templates on a real API server, with made-up devices; kube-scheduler judges the same claims."""

from __future__ import annotations

import json
import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._claims.manage import ClaimError, manage
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._errors import FabricError
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._training_job.check import manage as check_job
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._training_job.manage import objects
from ansible_collections.rdmaops.gpu_fabric.tests.support import claim_boards as boards
from ansible_collections.rdmaops.gpu_fabric.tests.support.claim_cases import IMPOSSIBLE, POSSIBLE
from ansible_collections.rdmaops.gpu_fabric.tests.support.cluster import Cluster
from ansible_collections.rdmaops.gpu_fabric.tests.support.failures import message_of
from ansible_collections.rdmaops.gpu_fabric.tests.support.module import options_of
from ansible_collections.rdmaops.gpu_fabric.tests.support.objects import apply_set, client, manifest
from ansible_collections.rdmaops.gpu_fabric.tests.support.training_nodes import IMAGE
from ansible_collections.rdmaops.gpu_fabric.tests.support.waiting import wait_for

# Thirty nodes with their devices.
pytestmark = pytest.mark.long
API = "resource.k8s.io/v1"
Json = t.Any
# By the name of the node on which it is judged.
CASES: dict[str, tuple[str, str, Json, list[Json]]] = {
    f"case-{number}": (name, status, raw, pieces)
    for number, (name, status, raw, pieces) in enumerate(
        [
            *((name, "possible", *case) for name, case in POSSIBLE.items()),
            *((name, "impossible", case[0], case[1]) for name, case in IMPOSSIBLE.items()),
        ]
    )
}


def info(plane: Cluster, **options: t.Any) -> Json:
    return manage(options_of("resource_claim_template_info", **options), True, client(plane.kubeconfig))


def device_classes() -> list[Json]:
    return [
        manifest(API, "DeviceClass", name, spec={"selectors": [{"cel": {"expression": text}} for text in texts]})
        for name, texts in boards.CLASSES.items()
    ]


def slices(node: str, pieces: list[Json]) -> list[Json]:
    rows = []
    for number, piece in enumerate(pieces):
        spec = json.loads(json.dumps(piece["spec"]))
        spec["nodeName"] = spec["pool"]["name"] = node
        rows.append(manifest(API, "ResourceSlice", f"{node}-{number}", spec=spec))
    return rows


def pod(node: str, namespace: str) -> Json:
    container = {"name": "c", "image": "x", "resources": {"claims": [{"name": "devices"}]}}
    spec = {
        "nodeSelector": {"case": node},
        "tolerations": [{"operator": "Exists"}],
        "containers": [container],
        "resourceClaims": [{"name": "devices", "resourceClaimTemplateName": node}],
    }
    return manifest("v1", "Pod", node, namespace, spec=spec)


@pytest.fixture(scope="module")
def namespace(own_cluster: Cluster) -> Iterator[str]:
    """A namespace with a template for each case, and a node that has the case's devices."""
    own_cluster.apply(*device_classes())
    with own_cluster.namespace() as name:
        for node, (_name, _status, raw, pieces) in CASES.items():
            machine = manifest("v1", "Node", node)
            machine["metadata"]["labels"] = {"case": node}
            template = manifest(API, "ResourceClaimTemplate", node, name, spec=raw["spec"])
            own_cluster.apply(machine, *slices(node, pieces), template)
            room = json.dumps({"status": {"allocatable": {"pods": "110"}, "capacity": {"pods": "110"}}})
            own_cluster.kubectl("patch", "node", node, "--subresource=status", "--type=merge", "-p", room)
        yield name


def verdicts(plane: Cluster, namespace: str) -> dict[str, str]:
    """Return what the scheduler says of each pod that it has looked at."""
    found = {}
    for row in plane.json("get", "pods", "-n", namespace)["items"]:
        for condition in row["status"].get("conditions", []):
            if condition["type"] == "PodScheduled":
                found[row["metadata"]["name"]] = "possible" if condition["status"] == "True" else "impossible"
    return found


def test_the_scheduler_has_no_other_opinion(own_cluster: Cluster, namespace: str) -> None:
    own_cluster.apply(*(pod(node, namespace) for node in CASES))
    expected = {node: status for node, (_name, status, _raw, _pieces) in CASES.items()}
    wait_for(lambda: verdicts(own_cluster, namespace).keys() == expected.keys(), 60)
    assert verdicts(own_cluster, namespace) == expected
    # With the claims allocated, the module says of each what it said before.
    result = info(own_cluster, nodes=list(CASES), on_impossible="warn")
    assert {row["template"]: row["nodes"][row["template"].partition("/")[2]] for row in result["templates"]} == {
        f"{namespace}/{node}": status for node, status in expected.items()
    }


def test_a_template_that_no_node_can_satisfy_fails(own_cluster: Cluster, namespace: str) -> None:
    raw, _pieces, _code, sentence = IMPOSSIBLE["one pair, split"]
    place = next(node for node, case in CASES.items() if case[0] == "one pair, split")
    with pytest.raises(ClaimError) as caught:
        info(own_cluster, templates=[raw], nodes=[place])
    assert f"Checking 1 claim templates: split, ml/worker: on 1 of 1 nodes ({place}), {sentence}" in str(caught.value)
    assert caught.value.result["templates"][0]["status"] == "impossible"
    assert caught.value.result["resources"][0]["status"] == "drift"
    assert info(own_cluster, templates=[raw], nodes=[place], on_impossible="warn")["changed"] is False


def test_a_class_that_is_yet_to_be_created_counts(own_cluster: Cluster, namespace: str) -> None:
    place = next(node for node, case in CASES.items() if case[0] == "one rail by its name")
    raw = boards.template(boards.request("gpu", "whole.example"))
    with pytest.raises(ClaimError, match=r"there is no DeviceClass whole.example \(there are: dra.net"):
        info(own_cluster, templates=[raw], nodes=[place])
    expression = {"cel": {"expression": boards.CLASSES["gpu.nvidia.com"][0]}}
    coming = manifest(API, "DeviceClass", "whole.example", spec={"selectors": [expression]})
    assert info(own_cluster, templates=[raw], nodes=[place], device_classes=[coming])["lint"] == []


def test_a_rule_taints_devices(own_cluster: Cluster, namespace: str) -> None:
    place = next(node for node, case in CASES.items() if case[0] == "one rail by its name")
    selector = {"driver": "dra.net", "pool": place, "device": "pci-0000-10-00-0"}
    taint = {"key": "rdmaops/cable", "effect": "NoSchedule"}
    raw = boards.template(boards.rail(0))
    assert info(own_cluster, templates=[raw], nodes=[place])["lint"] == []
    own_cluster.apply(manifest(API, "DeviceTaintRule", "loose", spec={"deviceSelector": selector, "taint": taint}))
    try:
        with pytest.raises(
            ClaimError, match=r"it could have is tainted: pci-0000-10-00-0 \(rdmaops/cable:NoSchedule\)"
        ):
            info(own_cluster, templates=[raw], nodes=[place])
    finally:
        own_cluster.kubectl("delete", "devicetaintrule", "loose")


def test_a_missing_right_is_named(own_cluster: Cluster, tmp_path: Path) -> None:
    options = options_of("resource_claim_template_info", templates=[boards.template(boards.rail(0))])
    with pytest.raises(FabricError, match="resourceslices"):
        manage(options, True, client(own_cluster.user("nobody")))


def names_of(text: str) -> str:
    return next(node for node, case in CASES.items() if case[0] == text)


def test_a_job_whose_claims_no_node_can_satisfy_is_not_started(own_cluster: Cluster, namespace: str) -> None:
    def check(name: str, **options: Json) -> Json:
        job = {"kind": "pods", "name": "train", "namespace": namespace, "image": IMAGE, "command": ["train"]}
        manifests = objects({**job, "gpus": 0, "workers": 1, "claims": [name], **options})
        assert manifests[-1]["spec"]["resourceClaims"] == [{"name": name, "resourceClaimTemplateName": name}]
        assert manifests[-1]["spec"]["containers"][0]["resources"] == {"claims": [{"name": name}]}
        params = {"objects": manifests, "capacity": True, "image_present": False}
        return check_job(params, True, client(own_cluster.kubeconfig))

    tolerations = [{"operator": "Exists"}]
    place = names_of("one rail by its name")
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
    patch = json.dumps({"status": {"conditions": [ready]}})
    own_cluster.kubectl("patch", "node", place, "--subresource=status", "-p", patch)
    assert check(place, tolerations=tolerations)["placed"] == {place: 1}
    impossible = names_of("more GPUs than there are")
    with pytest.raises(FabricError) as caught:
        check(impossible, tolerations=tolerations)
    # One of them publishes nothing.
    count = len(CASES) - 1
    assert f"too_few_devices, {namespace}/{impossible}: on " in str(caught.value)
    assert f" of {count} nodes (" in str(caught.value)
    with pytest.raises(
        FabricError, match="ResourceClaimTemplate test-[0-9a-f]+/rail9 does not exist; there are: case-0"
    ):
        check("rail9", tolerations=tolerations)


def test_a_template_is_replaced_where_it_differs(own_cluster: Cluster, namespace: str) -> None:
    """The API server does not let anything of a template change."""

    def apply(raw: Json, *, check: bool = False) -> Json:
        return apply_set(own_cluster, "rails", {**raw, "apiVersion": API}, check=check, diff=True)

    raw = boards.template(boards.rail(0))
    raw["metadata"] = {"name": "rail0", "namespace": namespace}
    assert apply(raw)["actions"] == [f"Make ResourceClaimTemplate {namespace}/rail0"]
    assert apply(raw)["actions"] == []
    raw["spec"]["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] = "gpu.nvidia.com"
    checked = apply(raw, check=True)
    assert checked["actions"] == [f"Replace ResourceClaimTemplate {namespace}/rail0"]
    assert "gpu.nvidia.com" in checked["diff"][0]["after"]
    assert apply(raw)["actions"] == checked["actions"]
    assert apply(raw)["actions"] == []


def test_a_driver_with_claims_is_not_removed(own_cluster: Cluster, namespace: str) -> None:
    labels = {"rdmaops.gpu-fabric/dra-driver": "driver.example"}
    pods = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "x"}]}}
    spec = {
        "selector": {"matchLabels": {"a": "b"}},
        "template": {**pods, "spec": {**pods["spec"], "nodeSelector": {"no": "node"}}},
    }
    driver = manifest("apps/v1", "DaemonSet", "dranet", namespace, spec=spec)
    driver["metadata"]["labels"] = labels
    request = [boards.rail(0)]
    claim = manifest(API, "ResourceClaim", "held", namespace, spec={"devices": {"requests": request}})
    assert apply_set(own_cluster, "drivers", driver)["changed"]
    own_cluster.apply(claim)
    result = {"request": "rail0", "driver": "driver.example", "pool": "a", "device": "pci-0000-10-00-0"}
    status = json.dumps({"status": {"allocation": {"devices": {"results": [result]}}}})
    own_cluster.kubectl(
        "patch", "resourceclaim", "held", "-n", namespace, "--type=merge", "-p", status, "--subresource=status"
    )
    remove = {"prune": True, "prune_kinds": ["apps/v1/DaemonSet"], "namespace": namespace}
    text = (
        f"Removing DaemonSet {namespace}/dranet: 1 claims have devices of the driver driver.example, and their pods cannot "
        f"end without it: {namespace}/held. Delete these pods first. Nothing was removed"
    )
    for check in (True, False):
        assert message_of(FabricError, apply_set, own_cluster, "drivers", check=check, **remove) == text
    own_cluster.kubectl("delete", "resourceclaim", "held", "-n", namespace)
    assert apply_set(own_cluster, "drivers", **remove)["actions"] == [f"Remove DaemonSet {namespace}/dranet"]
