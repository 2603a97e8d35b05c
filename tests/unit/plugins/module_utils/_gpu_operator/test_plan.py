# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import types
import typing as t
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._gpu_operator import cluster
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._gpu_operator import plan as operator_plan
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._gpu_operator.cluster import (
    DRIVER,
    GPU_CLUSTER,
    POLICY,
)
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._gpu_operator.compare import Change, changes
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._helm import chart as helm_chart
from ansible_collections.rdmaops.gpu_fabric.tests.support import charts

# kind, path, whether GPU pods are disturbed
DISTURBS = [
    ("ClusterPolicy", "spec.driver.version", True),
    ("ClusterPolicy", "spec.driver.upgradePolicy.autoUpgrade", False),
    ("ClusterPolicy", "spec.toolkit.enabled", True),
    ("ClusterPolicy", "spec.mig.strategy", True),
    ("ClusterPolicy", "spec.dcgmExporter.enabled", False),
    ("NVIDIADriver", "spec.version", True),
    ("NVIDIADriver", "metadata.labels.x", False),
]


@pytest.mark.parametrize(("kind", "path", "disturbs"), DISTURBS)
def test_what_disturbs_pods(kind: str, path: str, disturbs: bool) -> None:
    assert operator_plan._disrupts(Change(path, 1, 2), kind) is disturbs


def applied(target: t.Any, patch: t.Any) -> t.Any:
    """Apply a merge patch, as RFC 7386 says it."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = applied(result.get(key), value)
    return result


values = st.booleans() | st.integers(0, 3) | st.sampled_from(["", "a"]) | st.lists(st.integers(0, 2), max_size=2)
maps = st.recursive(
    st.dictionaries(st.sampled_from("abc"), values, max_size=3),
    lambda inner: st.dictionaries(st.sampled_from("abc"), inner | values, max_size=3),
    max_leaves=6,
)


@given(live=maps, desired=maps)
def test_a_merge_patch_makes_the_desired_map(live: dict[str, t.Any], desired: dict[str, t.Any]) -> None:
    patch = operator_plan.merge_patch(live, desired)
    assert changes(applied(live, patch), desired) == []
    assert not operator_plan.merge_patch(desired, desired)


def test_fields_that_the_api_server_drops_are_lost_with_consent_only(tmp_path: Path) -> None:
    chart = helm_chart.read(str(charts.chart(tmp_path)))
    state = t.cast("t.Any", types.SimpleNamespace(chart=chart))
    plan = operator_plan.Plan(t.cast("t.Any", None), state)
    plan.pruned_after = [{"path": "spec.new", "crd": "clusterpolicies.nvidia.com"}]
    with pytest.raises(operator_plan.PlanError, match=r"clusterpolicies.nvidia.com: spec.new. Set upgrade_crds"):
        operator_plan._pruned(plan, {"on_pruned": "fail"})
    operator_plan._pruned(plan, {"on_pruned": "warn"})
    (text,) = plan.warnings
    assert "clusterpolicies.nvidia.com: spec.new" in text


def document(kind: tuple[str, str], name: str, **annotations: str) -> dict[str, t.Any]:
    marks = {annotation.replace("_", "-"): text for annotation, text in annotations.items()}
    metadata = {"name": name, "annotations": {f"helm.sh/{key}": text for key, text in marks.items()}}
    return {"apiVersion": kind[0], "kind": kind[1], "metadata": metadata, "spec": {}}


# what the release has, what the cluster has, what takes GPUs from pods when the chart no longer creates it
DELETIONS = [
    ([document(POLICY, "cluster-policy")], True, ["ClusterPolicy cluster-policy (deleted)"]),
    (
        [document(GPU_CLUSTER, "gpu-cluster"), document(DRIVER, "default")],
        True,
        ["GPUCluster gpu-cluster (deleted)", "NVIDIADriver default (deleted)"],
    ),
    ([document(POLICY, "cluster-policy", resource_policy="keep")], True, []),
    ([document(POLICY, "cluster-policy")], False, []),
    ([document(("v1", "ConfigMap"), "settings")], True, []),
]


@pytest.mark.parametrize(("stored", "live", "disruptive"), DELETIONS)
def test_an_object_that_the_chart_no_longer_creates(
    tmp_path: Path, stored: list[t.Any], live: bool, disruptive: list[str]
) -> None:
    manifest = "\n---\n".join(map(json.dumps, stored))
    base = types.SimpleNamespace(manifest=manifest, version="v26.7.0", values={}, status="deployed")
    chart = helm_chart.read(str(charts.chart(tmp_path, "v25.10.0", "v26.7.0")))
    state = types.SimpleNamespace(
        base=base, release=base, recovery=None, chart=chart, values={}, name="r", namespace="n"
    )
    objects = {each["metadata"]["name"]: each for each in stored if live}
    client = types.SimpleNamespace(
        get=lambda path, doing: objects.get(path.rpartition("/")[2]), items=lambda path, doing: []
    )
    known = cluster.Cluster(t.cast("t.Any", client))
    for kind in (POLICY, GPU_CLUSTER, DRIVER):
        known.kinds[kind] = cluster.Resource(kind[1].lower(), False)
    known.kinds[("v1", "ConfigMap")] = cluster.Resource("configmaps", True)
    params = {"upgrade_crds": False, "on_pruned": "fail"}
    plan = operator_plan.make(params, t.cast("t.Any", state), "", known)
    assert plan.disruptive == disruptive
