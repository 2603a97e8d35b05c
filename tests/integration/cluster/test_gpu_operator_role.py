# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Role gpu_operator through ansible-playbook, with real helm on a real API server without nodes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.tests.support import charts
from ansible_collections.rdmaops.gpu_fabric.tests.support.cluster import Cluster, private


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[Cluster]:
    with private(tmp_path_factory.mktemp("plane")) as cluster:
        yield cluster


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
        self.playbook = directory / "play.yml"
        role = {"hosts": "localhost", "gather_facts": False, "roles": ["rdmaops.gpu_fabric.gpu_operator"]}
        self.playbook.write_text(json.dumps([role]))

    def run(self, *argv: str, rc: int = 0, **options: t.Any) -> tuple[int, str]:
        """Run the role and return how many tasks changed something, and what was printed."""
        extra = json.dumps({**self.options, **options})
        command = [
            str(Path(sys.executable).parent / "ansible-playbook"),
            "-i",
            "localhost,",
            "-c",
            "local",
            "-e",
            extra,
        ]
        environment = {**os.environ, "ANSIBLE_PYTHON_INTERPRETER": sys.executable, "ANSIBLE_NOCOLOR": "1"}
        done = subprocess.run(
            [*command, *argv, str(self.playbook)], env=environment, capture_output=True, text=True, timeout=300
        )
        out = done.stdout + done.stderr
        assert done.returncode == rc, out
        match = re.search(r"changed=(\d+)", out)
        assert match, out
        return int(match.group(1)), out


@pytest.fixture
def play(plane: Cluster, tmp_path: Path) -> Play:
    return Play(plane, tmp_path)


def test_the_drill_and_consent(play: Play, plane: Cluster) -> None:
    changed, out = play.run("--check", "--diff")
    assert changed == 1
    assert "kind: ClusterPolicy" in out
    assert not plane.kubectl("get", "namespace", "gpu-operator", "--ignore-not-found")
    assert play.run()[0] == 1
    policy = plane.json("get", "clusterpolicies.nvidia.com", "cluster-policy")
    assert policy["spec"]["driver"]["rdma"] == {"enabled": True, "useHostMofed": True}
    assert play.run()[0] == 0
    assert play.run("--check")[0] == 0

    container = {"name": "c", "image": "x", "resources": {"limits": {"nvidia.com/gpu": "8"}}}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "train-0", "namespace": "default"},
        "spec": {"nodeName": "gpu-1", "containers": [container]},
    }
    plane.kubectl(
        "apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "gpu-1"}})
    )
    plane.kubectl("wait", "--for=create", "serviceaccount/default", "-n", "default", "--timeout=30s")
    plane.kubectl("apply", "-f", "-", stdin=json.dumps(pod))
    for argv in (["--check"], []):
        _changed, out = play.run(*argv, rc=2, gpu_operator_driver_version="580.1")
        text = " ".join(out.split())
        assert "This run would change ClusterPolicy cluster-policy spec.driver.version" in text
        assert "default/train-0 on gpu-1 (nvidia.com/gpu: 8)" in text
        assert "Wait until these pods finish, or set gpu_operator_disrupt_ok to true" in text
    assert plane.json("get", "clusterpolicies.nvidia.com", "cluster-policy")["spec"] == policy["spec"]
    assert play.run(gpu_operator_driver_version="580.1", gpu_operator_disrupt_ok=True)[0] == 1
    policy = plane.json("get", "clusterpolicies.nvidia.com", "cluster-policy")
    assert policy["spec"]["driver"]["version"] == "580.1"
    assert "default/train-0" in play.run(rc=2, gpu_operator_state="absent")[1]
    plane.kubectl("delete", "pod", "train-0", "--force", "--grace-period=0")
    assert play.run(gpu_operator_state="absent")[0] == 1
    assert play.run(gpu_operator_state="absent")[0] == 0
