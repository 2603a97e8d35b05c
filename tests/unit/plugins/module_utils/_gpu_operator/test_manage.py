# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import types
import typing as t
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._gpu_operator import cluster as gpu_operator_cluster
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._gpu_operator import manage
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._gpu_operator import plan as gpu_operator_plan
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._gpu_operator.compare import Change, Key, changes
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._helm import chart as helm_chart
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._helm import client
from ansible_collections.rdmaops.gpu_fabric.plugins.modules import gpu_operator as module
from ansible_collections.rdmaops.gpu_fabric.tests.support import charts

KEY = Key("nvidia.com/v1", "ClusterPolicy", "", "cluster-policy")


def release(status: str, revision: int = 3, deployed: int = 1000) -> client.Release:
    return client.Release("r", "n", revision, status, deployed, "gpu-operator", "v25.3.0", "", "", True, {})


class Host(manage.Host):
    """The edges, with a clock of the test's."""

    def __init__(self, **more: t.Any) -> None:
        self.clock = 1100.0
        self.busy: list[int] = []
        self.states: list[t.Any] = []
        for name, value in more.items():
            setattr(self, name, value)
        self.cluster = t.cast(
            t.Any,
            types.SimpleNamespace(read=lambda key: self.states.pop(0) if len(self.states) > 1 else self.states[0]),
        )

    def now(self) -> float:
        return self.clock

    def sleep(self, seconds: float) -> None:
        self.clock += seconds

    def running(self, name: str, namespace: str) -> list[int]:
        assert (name, namespace) == ("r", "n")
        return self.busy


RECOVER = {"on_pending": "recover", "pending_age": 60}
# status, options, helms at work on this host, seconds pending, what the message has
REFUSALS = [
    ("pending-upgrade", {"on_pending": "fail", "pending_age": 60}, [], 100, "set on_pending to recover"),
    ("pending-install", RECOVER, [77], 100, "a helm on this host (PID 77) is working on a release of this name"),
    ("pending-rollback", RECOVER, [], 59, "It is recovered once it is older than pending_age (60 s)"),
    ("uninstalling", RECOVER, [], 10, "The helm release n/r is uninstalling, revision 3, since 10 s"),
]


@pytest.mark.parametrize(("status", "params", "busy", "age", "text"), REFUSALS, ids=[row[0] for row in REFUSALS])
def test_pending_is_refused(status: str, params: dict[str, t.Any], busy: list[int], age: int, text: str) -> None:
    with pytest.raises(manage.OperatorError) as failure:
        manage._recovery(params, release(status, deployed=1100 - age), Host(busy=busy))
    assert text in str(failure.value)


# status, the history's states, the revision to go back to (None: uninstall)
RECOVERIES = [
    ("pending-install", ["pending-install"], None),
    ("uninstalling", ["superseded", "uninstalling"], None),
    ("pending-upgrade", ["superseded", "deployed", "pending-upgrade"], 2),
    ("pending-upgrade", ["deployed", "failed", "pending-upgrade"], 1),
    ("pending-upgrade", ["failed", "pending-upgrade"], None),
    ("pending-rollback", ["superseded", "failed", "pending-rollback"], 1),
]


@pytest.mark.parametrize(("status", "history", "revision"), RECOVERIES)
def test_recovery(status: str, history: list[str], revision: int | None) -> None:
    helm = types.SimpleNamespace(
        history=lambda name, namespace: [client.Revision(index, one) for index, one in enumerate(history, 1)],
        release=lambda name, namespace, number: release("deployed", number),
    )
    found = manage._recovery(RECOVER, release(status), Host(helm=helm))
    assert found is not None
    assert (found.base.revision if found.base else None) == revision


def test_a_deployed_or_failed_release_is_not_pending() -> None:
    for status in ("deployed", "failed"):
        assert manage._recovery(RECOVER, release(status), Host()) is None


def policy(state: str | None, *conditions: tuple[str, str, str]) -> dict[str, t.Any]:
    rows = [{"type": kind, "status": "True", "reason": reason, "message": text} for kind, reason, text in conditions]
    return {"status": {"state": state, "conditions": rows}}


def wait(host: Host, steady: int, limit: int = 20) -> t.Any:
    plan = t.cast(t.Any, types.SimpleNamespace(policy_key=KEY, namespace="n"))
    return manage._wait({"wait_timeout": limit}, host, plan, steady)


def test_ready_from_before_the_change_is_not_believed_at_once() -> None:
    ready, not_ready = policy("ready"), policy("notReady")
    host = Host(states=[ready, not_ready, ready])
    assert wait(host, 5)["state"] == "ready"
    assert host.clock >= 1100 + 2 + 2 + 5
    assert wait(Host(states=[ready]), 0)["state"] == "ready"


# what is found, what the message has
TIMEOUTS = [
    (None, "its state is missing"),
    (policy(None), "its state is not set (does the operator run?)"),
    (policy("ignored"), "its state is ignored. The release is in place"),
    (
        policy("notReady", ("Error", "OperandNotReady", "x is not ready")),
        "and the operator says: OperandNotReady: x is not ready",
    ),
]


@pytest.mark.parametrize(("found", "text"), TIMEOUTS, ids=["missing", "none", "ignored", "not ready"])
def test_wait_has_an_end(found: t.Any, text: str) -> None:
    host = Host(states=[found])
    with pytest.raises(manage.OperatorError) as failure:
        wait(host, 0)
    assert text in str(failure.value)
    assert "after 20 s" in str(failure.value)
    assert 20 <= host.clock - 1100 <= 22


def test_a_list_of_pods_is_short() -> None:
    pods = [{"namespace": "a", "name": str(index), "node": "g", "holds": "nvidia.com/gpu: 1"} for index in range(12)]
    assert manage.pod_list(pods).startswith("a/0 on g (nvidia.com/gpu: 1), a/1")
    assert manage.pod_list(pods).endswith(" and 2 more")


def pod(resources: dict[str, t.Any], labels: dict[str, str] | None = None, path: str = "") -> dict[str, t.Any]:
    volumes = [{"hostPath": {"path": path}}] if path else []
    return {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"resources": {"limits": resources}}], "volumes": volumes},
    }


# pod, what it holds
USES = [
    (pod({"nvidia.com/gpu": "8"}), "nvidia.com/gpu: 8"),
    (pod({"nvidia.com/mig-1g.10gb": 1}), "nvidia.com/mig-1g.10gb: 1"),
    (pod({"nvidia.com/gpu.shared": 1}), "nvidia.com/gpu.shared: 1"),
    (pod({"nvidia.com/gpu": "0"}), ""),
    (pod({"nvidia.com/hostdev": "1", "cpu": 1}), ""),
    (pod({}, path="/dev/nvidia0"), "/dev/nvidia0"),
    (pod({}, {"app.kubernetes.io/managed-by": "gpu-operator"}, "/dev/nvidia0"), ""),
]


@pytest.mark.parametrize(("one", "text"), USES)
def test_who_holds_gpus(one: dict[str, t.Any], text: str) -> None:
    assert gpu_operator_cluster._gpu_use(one) == text


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
    assert gpu_operator_plan._disrupts(Change(path, 1, 2), kind) is disturbs


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


@given(live=maps, wanted=maps)
def test_a_merge_patch_makes_the_wanted_map(live: dict[str, t.Any], wanted: dict[str, t.Any]) -> None:
    patch = gpu_operator_plan.merge_patch(live, wanted)
    assert changes(applied(live, patch), wanted) == []
    assert not gpu_operator_plan.merge_patch(wanted, wanted)


def test_an_error_in_the_middle_says_what_was_begun() -> None:
    error = manage._failed(client.HelmError("no"), ["Do this"])
    assert (str(error), error.result) == ("no", {"changed": True, "actions": ["Do this"]})


def test_fields_that_the_api_server_drops_are_lost_with_consent_only(tmp_path: Path) -> None:
    chart = helm_chart.read(str(charts.chart(tmp_path)))
    plan = gpu_operator_plan.Plan(t.cast("t.Any", None), chart, {}, "n")
    plan.pruned_after = [{"path": "spec.new", "crd": "clusterpolicies.nvidia.com"}]
    with pytest.raises(gpu_operator_plan.PlanError, match=r"clusterpolicies.nvidia.com: spec.new. Set upgrade_crds"):
        gpu_operator_plan._pruned(plan, {"on_pruned": "fail"})
    gpu_operator_plan._pruned(plan, {"on_pruned": "warn"})
    (text,) = plan.warnings
    assert "clusterpolicies.nvidia.com: spec.new" in text


class Helm:
    """A helm that knows one release and remembers what it was asked to do."""

    version = (4, 1, 0)

    def __init__(self) -> None:
        self.done: list[str] = []

    def releases(self) -> list[t.Any]:
        return [release("deployed")]

    def release(self, name: str, namespace: str) -> client.Release:
        return release("deployed")

    def template(self, *arguments: t.Any, **more: t.Any) -> None:
        """Its text is read by the plan, which the test gives."""

    def upgrade(self, *arguments: t.Any, **more: t.Any) -> None:
        self.done.append("upgrade")

    def uninstall(self, *arguments: t.Any, **more: t.Any) -> None:
        self.done.append("uninstall")


@pytest.fixture
def disruptive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> t.Callable[..., tuple[t.Any, list[str]]]:
    """Run the module where a change of a release takes GPUs from a pod."""
    archive = str(charts.packed(tmp_path))
    held = [{"namespace": "ml", "name": "train-0", "node": "gpu-1", "holds": "nvidia.com/gpu: 8"}]
    cluster = types.SimpleNamespace(
        discover=lambda: None,
        version="1.36.0",
        api_versions=[],
        namespace=lambda name: {},
        gpu_pods=lambda: held,
        policies=list,
        definitions=lambda group: [],
    )

    def make(params: t.Any, cluster: t.Any, chart: t.Any, *arguments: t.Any, **more: t.Any) -> t.Any:
        plan = gpu_operator_plan.Plan(cluster, chart, {}, "n")
        plan.base = release("deployed")._replace(version="v24.9.0")
        plan.disruptive = ["ClusterPolicy cluster-policy spec.driver.version"]
        return plan

    monkeypatch.setattr(gpu_operator_plan, "make", make)
    defaults = {name: option.get("default") for name, option in module.SPEC.items()}

    def run(check: bool = False, **options: t.Any) -> tuple[t.Any, list[str]]:
        host = manage.Host(t.cast("t.Any", Helm()), t.cast("t.Any", cluster), lambda text: None)
        params = {**defaults, "chart": archive, "wait": False, **options}
        try:
            return manage.manage(params, check, host), t.cast("t.Any", host.helm).done
        except manage.OperatorError as exc:
            return exc, t.cast("t.Any", host.helm).done

    return run


@pytest.mark.parametrize(("state", "does"), [("present", "upgrade"), ("absent", "uninstall")])
def test_pods_keep_their_gpus_without_consent(disruptive: t.Any, state: str, does: str) -> None:
    for check in (True, False):
        error, done = disruptive(check, state=state)
        assert (
            "takes the GPUs from the pods that use them: ml/train-0 on gpu-1 (nvidia.com/gpu: 8). Nothing was "
            in str(error)
        )
        assert (type(error), done) == (manage.OperatorError, [])
        result, done = disruptive(check, state=state, disrupt=True)
        assert result["gpu_pods"][0]["name"] == "train-0"
        assert done == ([] if check else [does])
