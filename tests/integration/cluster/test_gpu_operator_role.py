# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Role gpu_operator through ansible-playbook, with real helm on a real API server without nodes."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.tests.support import charts, site
from ansible_collections.rdmaops.gpu_fabric.tests.support.cluster import Cluster
from ansible_collections.rdmaops.gpu_fabric.tests.support.objects import manifest


class Play:
    def __init__(self, plane: Cluster, directory: Path) -> None:
        self.options = {
            "gpu_operator_chart": str(charts.packed(directory)),
            "gpu_operator_chart_repo_url": "",
            "gpu_operator_chart_version": "v25.3.0",
            "gpu_operator_name": "of-the-role",
            "gpu_operator_kubeconfig": str(plane.kubeconfig),
            "gpu_operator_helm_binary": str(plane.tool("helm4")),
            "gpu_operator_wait": False,
            "gpu_operator_timeout": 60,
        }
        self.directory = directory

    def run(self, *arguments: str, rc: int = 0, **options: t.Any) -> site.Run:
        role = {"roles": ["rdmaops.gpu_fabric.gpu_operator"]}
        argv = site.book(self.directory, role, variables={**self.options, **options})
        run = site.ansible_playbook(*argv, *arguments, limit=300)
        assert run.rc == rc, run.output
        return run


@pytest.fixture
def play(own_cluster: Cluster, tmp_path: Path) -> Play:
    return Play(own_cluster, tmp_path)


def test_the_drill_and_consent(play: Play, own_cluster: Cluster) -> None:
    plane = own_cluster
    planned = play.run("--check", "--diff")
    assert planned.changed() == 1
    assert "kind: ClusterPolicy" in planned.output
    assert not plane.kubectl("get", "namespace", "gpu-operator", "--ignore-not-found")
    assert play.run().changed() == 1
    policy = plane.json("get", "clusterpolicies.nvidia.com", "cluster-policy")
    assert policy["spec"]["driver"]["rdma"] == {"enabled": True, "useHostMofed": True}
    assert play.run().changed() == 0
    assert play.run("--check").changed() == 0

    container = {"name": "c", "image": "x", "resources": {"limits": {"nvidia.com/gpu": "8"}}}
    spec = {"nodeName": "gpu-1", "containers": [container]}
    plane.kubectl("wait", "--for=create", "serviceaccount/default", "-n", "default", "--timeout=30s")
    plane.apply(manifest("v1", "Node", "gpu-1"), manifest("v1", "Pod", "train-0", "default", spec=spec))
    for arguments in (["--check"], []):
        refused = play.run(*arguments, rc=2, gpu_operator_driver_version="580.1")
        text = " ".join(refused.messages().split())
        assert "This run would change ClusterPolicy cluster-policy spec.driver.version" in text
        assert "default/train-0 on gpu-1 (nvidia.com/gpu: 8)" in text
        assert "Wait until these pods finish, or set gpu_operator_disrupt_ok to true" in text
    assert plane.json("get", "clusterpolicies.nvidia.com", "cluster-policy")["spec"] == policy["spec"]
    assert play.run(gpu_operator_driver_version="580.1", gpu_operator_disrupt_ok=True).changed() == 1
    policy = plane.json("get", "clusterpolicies.nvidia.com", "cluster-policy")
    assert policy["spec"]["driver"]["version"] == "580.1"
    assert "default/train-0" in play.run(rc=2, gpu_operator_state="absent").messages()
    plane.kubectl("delete", "pod", "train-0", "--force", "--grace-period=0")
    assert play.run(gpu_operator_state="absent").changed() == 1
    assert play.run(gpu_operator_state="absent").changed() == 0
