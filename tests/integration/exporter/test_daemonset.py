# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The DaemonSet on a real API server: check, do, do again, check again, and away."""

from __future__ import annotations

import base64
import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.rdmaops.gpu_fabric.tests.integration.exporter.running import play, role
from ansible_collections.rdmaops.gpu_fabric.tests.support.cluster import Cluster, cluster

HASH = "$2y$10$" + "a" * 53


@pytest.fixture(scope="module")
def plane() -> Cluster:
    return cluster()


def variables(plane: Cluster, namespace: str, **more: t.Any) -> dict[str, t.Any]:
    return {
        "rdma_exporter_method": "daemonset",
        "rdma_exporter_api_host": "here",
        "rdma_exporter_kubeconfig": str(plane.kubeconfig),
        "rdma_exporter_namespace": namespace,
        "rdma_exporter_image": "registry.example/python:3.13",
        "rdma_exporter_web_config": {"basic_auth_users": {"ann": HASH}},
        # There are no nodes on which it could answer.
        "rdma_exporter_wait": 0,
        **more,
    }


def steps(output: str) -> list[str]:
    """Return "changed" or "ok" of each time that the cluster was dealt with."""
    parts = output.split("TASK [rdmaops.gpu_fabric.rdma_exporter : ")[1:]
    found = [part for part in parts if "the exporter" in part.split("]")[0] and "cluster" in part.split("]")[0]]
    return ["changed" if "\nchanged: [" in part else "ok" if "\nok: [" in part else part for part in found]


def test_the_drill(plane: Cluster, tmp_path: Path) -> None:
    with plane.namespace() as namespace:
        given = variables(plane, namespace)
        check = play(tmp_path / "check", role(**given), check=True)
        assert steps(check.stdout) == ["changed"], check.stdout + check.stderr
        assert HASH not in check.stdout
        assert plane.json("get", "daemonsets", "-n", namespace)["items"] == []
        twice = play(tmp_path / "twice", role(**given), role(**given))
        assert steps(twice.stdout) == ["changed", "ok"], twice.stdout + twice.stderr
        again = play(tmp_path / "again", role(**given), check=True)
        assert steps(again.stdout) == ["ok"], again.stdout + again.stderr
        looked_at(plane, namespace)
        # Another file for the same exporter: the pods are re-created. Without a web configuration its Secret goes.
        bare = variables(plane, namespace, rdma_exporter_web_config={}, rdma_exporter_expected_devices=["mlx5_0"])
        before = revision(plane, namespace)
        gone = variables(plane, namespace, rdma_exporter_state="absent")
        done = play(tmp_path / "bare", role(**bare))
        assert steps(done.stdout) == ["changed"], done.stdout + done.stderr
        assert revision(plane, namespace) != before
        assert [item["metadata"]["name"] for item in plane.json("get", "secrets", "-n", namespace)["items"]] == []
        done = play(tmp_path / "gone", role(**gone), role(**gone))
        assert steps(done.stdout) == ["changed", "ok"], done.stdout + done.stderr
        left = plane.json("get", "daemonsets,configmaps,serviceaccounts", "-n", namespace)["items"]
        assert {one["metadata"]["name"] for one in left} == {"kube-root-ca.crt", "default"}


def revision(plane: Cluster, namespace: str) -> str:
    result = plane.json("get", "daemonset", "rdma-exporter", "-n", namespace)
    return t.cast(str, result["spec"]["template"]["metadata"]["annotations"]["rdmaops.gpu-fabric/revision"])


def looked_at(plane: Cluster, namespace: str) -> None:
    """What the API server has taken is what least rights are, and the exporter's own files."""
    result = plane.json("get", "daemonset", "rdma-exporter", "-n", namespace)
    pod = result["spec"]["template"]["spec"]
    containers = {container["name"]: container for container in pod["containers"]}
    rights = {name: one["securityContext"] for name, one in containers.items()}
    answers, looks = rights["rdma-exporter"], rights["look"]
    assert looks["capabilities"] == {"drop": ["ALL"], "add": ["SYS_ADMIN", "SYS_PTRACE"]}
    assert (looks["runAsUser"], containers["look"].get("ports")) == (0, None)
    assert answers["capabilities"] == {"drop": ["ALL"]}
    assert answers["runAsNonRoot"]
    assert pod["securityContext"] == {"fsGroup": answers["runAsUser"]}
    for one in rights.values():
        assert (one["readOnlyRootFilesystem"], one["allowPrivilegeEscalation"], one.get("privileged")) == (
            True,
            False,
            None,
        )
    mounts = {name: {mount["name"] for mount in one["volumeMounts"]} for name, one in containers.items()}
    assert mounts == {"rdma-exporter": {"code", "look", "web"}, "look": {"code", "look", "logs"}}
    assert (pod["hostNetwork"], pod["hostPID"], pod["automountServiceAccountToken"]) == (True, True, False)
    files = plane.json("get", "configmap", "rdma-exporter", "-n", namespace)["data"]
    (code,) = [volume["configMap"] for volume in pod["volumes"] if volume["name"] == "code"]
    paths = {item["path"]: files[item["key"]] for item in code["items"]}
    assert len(paths) == len(files)
    for path in ("__main__.py", "rdma_exporter/look.py"):
        assert paths[path].startswith("# Copyright")
    assert "nldev.py" in {path.rpartition("/")[2] for path in paths}
    secret = plane.json("get", "secret", "rdma-exporter-web", "-n", namespace)["data"]["web.yml"]
    assert yaml.safe_load(base64.b64decode(secret)) == {"basic_auth_users": {"ann": HASH}}
    assert containers["rdma-exporter"]["readinessProbe"]["httpGet"]["path"] == "/-/healthy"
    assert (
        plane.kubectl("auth", "can-i", "--list", "--as", f"system:serviceaccount:{namespace}:rdma-exporter").count(
            "pods"
        )
        == 0
    )
