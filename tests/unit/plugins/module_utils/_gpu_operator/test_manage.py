# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import types
import typing as t
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._decision import Decision
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._gpu_operator import model
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._gpu_operator import plan as operator_plan
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._gpu_operator.manage import manage
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._helm import output
from ansible_collections.rdmaops.gpu_fabric.plugins.modules import gpu_operator as module
from ansible_collections.rdmaops.gpu_fabric.tests.support import charts


def release() -> output.Release:
    return output.Release("r", "n", 3, "deployed", 1000, "gpu-operator", "v24.9.0", "", "", True, {})


def test_an_error_in_the_middle_says_what_was_begun() -> None:
    decision = Decision()
    decision.add("Do this", lambda: None)
    error = model.failed(output.HelmError("no"), decision)
    assert (str(error), error.result) == ("no", {"changed": True, "actions": ["Do this"]})


def test_a_list_of_pods_is_short() -> None:
    pods = [{"namespace": "a", "name": str(index), "node": "g", "holds": "nvidia.com/gpu: 1"} for index in range(12)]
    assert model.pod_list(pods).startswith("a/0 on g (nvidia.com/gpu: 1), a/1")
    assert model.pod_list(pods).endswith(" and 2 more")


class Helm:
    """A helm that knows one release and remembers what it was asked to do."""

    version = (4, 1, 0)

    def __init__(self) -> None:
        self.done: list[str] = []

    def releases(self) -> list[t.Any]:
        return [release()]

    def release(self, name: str, namespace: str) -> output.Release:
        return release()

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
        all_of=lambda kind: [],
        definitions=list,
    )

    def make(params: t.Any, state: t.Any, rendered: t.Any, cluster: t.Any) -> t.Any:
        plan = operator_plan.Plan(cluster, state)
        plan.disruptive = ["ClusterPolicy cluster-policy spec.driver.version"]
        return plan

    monkeypatch.setattr(operator_plan, "make", make)
    defaults = {name: option.get("default") for name, option in module.SPEC.items()}

    def run(check: bool = False, **options: t.Any) -> tuple[t.Any, list[str]]:
        host = model.Host(t.cast("t.Any", Helm()), t.cast("t.Any", cluster), lambda text: None)
        params = {**defaults, "chart": archive, "wait": False, **options}
        try:
            return manage(params, check, host), t.cast("t.Any", host.helm).done
        except model.OperatorError as exc:
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
        assert (type(error), done) == (model.OperatorError, [])
        result, done = disruptive(check, state=state, disrupt=True)
        assert result["gpu_pods"][0]["name"] == "train-0"
        assert done == ([] if check else [does])
