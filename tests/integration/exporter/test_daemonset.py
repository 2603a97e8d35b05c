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
    tasks = [part for part in parts if "the exporter" in part.split("]")[0] and "cluster" in part.split("]")[0]]
    return ["changed" if "\nchanged: [" in part else "ok" if "\nok: [" in part else part for part in tasks]


def test_the_drill(plane: Cluster, tmp_path: Path) -> None:
    with plane.namespace() as namespace:
        given = variables(plane, namespace)
        check = play(tmp_path / "check", role(**given), check=True)
        assert steps(check.output) == ["changed"], check.output
        assert HASH not in check.output
        assert plane.json("get", "daemonsets", "-n", namespace)["items"] == []
        twice = play(tmp_path / "twice", role(**given), role(**given))
        assert steps(twice.output) == ["changed", "ok"], twice.output
        again = play(tmp_path / "again", role(**given), check=True)
        assert steps(again.output) == ["ok"], again.output
        looked_at(plane, namespace)
        # Another file for the same exporter: the pods are re-created. Without a web configuration its Secret goes.
        bare = variables(plane, namespace, rdma_exporter_web_config={}, rdma_exporter_expected_devices=["mlx5_0"])
        before = revision(plane, namespace)
        gone = variables(plane, namespace, rdma_exporter_state="absent")
        done = play(tmp_path / "bare", role(**bare))
        assert steps(done.output) == ["changed"], done.output
        assert revision(plane, namespace) != before
        assert [item["metadata"]["name"] for item in plane.json("get", "secrets", "-n", namespace)["items"]] == []
        done = play(tmp_path / "gone", role(**gone), role(**gone))
        assert steps(done.output) == ["changed", "ok"], done.output
        items = plane.json("get", "daemonsets,configmaps,serviceaccounts", "-n", namespace)["items"]
        assert {item["metadata"]["name"] for item in items} == {"kube-root-ca.crt", "default"}


def revision(plane: Cluster, namespace: str) -> str:
    result = plane.json("get", "daemonset", "rdma-exporter", "-n", namespace)
    return t.cast(str, result["spec"]["template"]["metadata"]["annotations"]["rdmaops.gpu-fabric/revision"])


def looked_at(plane: Cluster, namespace: str) -> None:
    """What the API server has taken is what least rights are, and the exporter's own files."""
    result = plane.json("get", "daemonset", "rdma-exporter", "-n", namespace)
    pod = result["spec"]["template"]["spec"]
    containers = {container["name"]: container for container in pod["containers"]}
    rights = {name: container["securityContext"] for name, container in containers.items()}
    answers, looks = rights["rdma-exporter"], rights["look"]
    assert looks["capabilities"] == {"drop": ["ALL"], "add": ["SYS_ADMIN", "SYS_PTRACE"]}
    assert (looks["runAsUser"], containers["look"].get("ports")) == (0, None)
    assert answers["capabilities"] == {"drop": ["ALL"]}
    assert answers["runAsNonRoot"]
    assert pod["securityContext"] == {"fsGroup": answers["runAsUser"]}
    for context in rights.values():
        assert (context["readOnlyRootFilesystem"], context["allowPrivilegeEscalation"]) == (True, False)
        assert context.get("privileged") is None
    mounts = {name: {mount["name"] for mount in entry["volumeMounts"]} for name, entry in containers.items()}
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
    account = f"system:serviceaccount:{namespace}:rdma-exporter"
    assert "pods" not in plane.kubectl("auth", "can-i", "--list", "--as", account)
