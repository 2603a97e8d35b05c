# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Drift reports in ConfigMaps of a real API server: published, merged, kept and removed, and what stands in the way."""

from __future__ import annotations

import base64
import gzip
import json
import typing as t
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._errors import FabricError
from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._drift import configmap
from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._drift.report import dumps, merge, validate
from ansible_collections.rdmaops.gpu_fabric.tests.support.cluster import Cluster
from ansible_collections.rdmaops.gpu_fabric.tests.support.drift import Json, Place, copy
from ansible_collections.rdmaops.gpu_fabric.tests.support.failures import message_of


def maps(
    file: Path, namespace: str, run: str, job: str = "1", keep: int = 14, name: str = "drift"
) -> configmap.ConfigMaps:
    options = {"namespace": namespace, "name": name, "run": run, "job": job, "keep": keep}
    return configmap.ConfigMaps(options, configmap.connect({**options, "kubeconfig": str(file), "timeout": 30}))


def report(host: str, **more: t.Any) -> Json:
    entry = {"kind": "k", "name": "n", "status": "in_sync", **more}
    hosts = {host: {"status": entry["status"], "counts": {}, "objects": [entry]}}
    known = {"schema": 1, "started": "2026-11-21T12:00:00Z", "check_mode": True, "complete": True, "incomplete": []}
    return {**known, "verdict": entry["status"], "hosts": hosts}


def names(plane: Cluster, namespace: str, name: str = "drift") -> list[str]:
    result = plane.json("get", "configmaps", "-n", namespace, "-l", f"rdmaops.gpu-fabric/owner=drift.{name}")
    return sorted(item["metadata"]["name"] for item in result["items"])


def test_slices_are_published_and_read_back(plane: Cluster) -> None:
    with plane.namespace() as namespace:
        first, second = (maps(plane.kubeconfig, namespace, "4711", job) for job in ("1", "2"))
        assert first.publish(report("gpu-1"), "all is well", False) == f"ConfigMap {namespace}/drift.4711.1"
        second.publish(report("gpu-2", status="drift"), "oh", False)
        result = plane.json("get", "configmap", "drift.4711.1", "-n", namespace)
        assert result["data"] == {"verdict": "in_sync", "message": "all is well"}
        assert result["metadata"]["labels"] == {
            "rdmaops.gpu-fabric/owner": "drift.drift",
            "rdmaops.gpu-fabric/drift-run": "4711",
            "rdmaops.gpu-fabric/drift-part": "slice",
        }
        unpacked = gzip.decompress(base64.b64decode(result["binaryData"]["report.json.gz"]))
        assert json.loads(unpacked) == report("gpu-1")

        reports, problems = first.reports()
        assert problems == []
        assert [source for source, _report in reports] == [f"ConfigMap {namespace}/drift.4711.{n}" for n in (1, 2)]
        merged = merge(reports)
        assert (merged["verdict"], list(merged["hosts"])) == ("drift", ["gpu-1", "gpu-2"])
        # What was merged is no slice, and so is not merged again.
        assert first.publish(merged, "oh", True) == f"ConfigMap {namespace}/drift.4711"
        assert len(first.reports()[0]) == 2

        # A job that is started again rewrites its own; a host in two slices is an error.
        second.publish(report("gpu-2"), "well again", False)
        assert merge(first.reports()[0])["verdict"] == "in_sync"
        second.publish(report("gpu-1"), "twice", False)
        with pytest.raises(FabricError, match=r"host gpu-1 is in ConfigMap .*\.4711\.1 and in ConfigMap .*\.4711\.2"):
            merge(first.reports()[0])


def test_one_that_cannot_be_read_hides_no_other(plane: Cluster) -> None:
    with plane.namespace() as namespace:
        ours = maps(plane.kubeconfig, namespace, "4711")
        message = message_of(FabricError, ours.reports)
        assert message.startswith(f"Listing the drift reports of run 4711 in {namespace}: there is none")
        ours.publish(report("gpu-1"), "", False)
        maps(plane.kubeconfig, namespace, "4711", "2").publish({**report("gpu-2"), "schema": 2}, "", False)
        reports, problems = ours.reports()
        assert [content["hosts"].keys() for _source, content in reports] == [{"gpu-1": 0}.keys()]
        (problem,) = problems
        assert problem.startswith(f"Reading the drift report in ConfigMap {namespace}/drift.4711.2: it has schema 2")


def test_old_runs_go(plane: Cluster) -> None:
    with plane.namespace() as namespace:
        plane.kubectl("create", "configmap", "drift.foreign", "-n", namespace)
        # Another installation that publishes in this namespace, by its own name.
        maps(plane.kubeconfig, namespace, "1", name="site-b").publish(report("gpu-9"), "", False)
        for run in ("1", "2", "3"):
            for job in ("a", "b"):
                maps(plane.kubeconfig, namespace, run, job, keep=2).publish(report("gpu-1"), "", False)
        assert names(plane, namespace)[-2:] == ["drift.3.a", "drift.3.b"]
        assert len(names(plane, namespace)) == 4
        # With times of a second, which of the first two went is not told. The run itself stays, however old it is.
        maps(plane.kubeconfig, namespace, "4", keep=1).publish(report("gpu-1"), "", False)
        assert names(plane, namespace) == ["drift.4.1"]
        plane.kubectl("get", "configmap", "drift.foreign", "site-b.1.1", "-n", namespace)


def noise(size: int) -> str:
    """Return text that cannot be compressed to less than three quarters."""
    import random

    return base64.b64encode(random.Random(1).randbytes(size)).decode()


def test_no_more_than_a_configmap_holds(plane: Cluster) -> None:
    with plane.namespace() as namespace:
        ours = maps(plane.kubeconfig, namespace, "4711")
        fits = report("gpu-1", diff=noise(1000000))
        assert configmap.CONFIGMAP_BYTES * 0.95 < len(gzip.compress(dumps(fits).encode())) < configmap.CONFIGMAP_BYTES
        ours.publish(fits, "", False)
        assert ours.reports()[0][0][1] == fits
        large = maps(plane.kubeconfig, namespace, "4712")
        message = message_of(FabricError, large.publish, report("gpu-1", diff=noise(1050000)), "", False)
        assert f"Publishing the drift report in ConfigMap {namespace}/drift.4712.1: it takes 10" in message
        assert "bytes, compressed, and a ConfigMap can hold 1048576. Cut the diffs shorter" in message
        assert names(plane, namespace) == ["drift.4711.1"]


def test_rights(plane: Cluster) -> None:
    """Those that are documented are enough, and each that lacks is named."""
    with plane.namespace() as namespace:
        joe = maps(plane.user("joe"), namespace, "4711")
        message = message_of(FabricError, joe.publish, report("gpu-1"), "", False)
        assert 'User "joe" cannot patch resource "configmaps"' in message
        assert "Give this user that right by a Role" in message
        verbs = [f"--verb={verb}" for verb in ("list", "patch", "create", "delete")]
        plane.kubectl("create", "role", "drift", *verbs, "--resource=configmaps", "-n", namespace)
        plane.bind("rolebinding", "joe", "patch", "configmaps", "--role=drift", "-n", namespace)
        joe.publish(report("gpu-1"), "", False)
        maps(plane.user("joe"), namespace, "4712", keep=1).publish(report("gpu-1"), "", False)
        assert names(plane, namespace) == ["drift.4712.1"]
        with pytest.raises(FabricError, match='namespaces "nowhere" not found. Create the namespace first'):
            maps(plane.kubeconfig, "nowhere", "4711").publish(report("gpu-1"), "", False)


@pytest.mark.long
def test_the_role_publishes_and_merges(plane: Cluster, tmp_path: Path) -> None:
    """In check mode, by ansible-playbook, with the kubeconfig as a path and as a dictionary."""
    import yaml

    place = Place(tmp_path, ["gpu-1"])
    (tmp_path / "a").write_text("x\n")
    judge = {"name": "Judge", "hosts": "localhost", "roles": ["rdmaops.gpu_fabric.drift"]}
    place.write(place.play(copy("a")), judge)
    content = yaml.safe_load(plane.kubeconfig.read_text())
    with plane.namespace() as namespace:
        common = {"drift_publish": "configmap", "drift_configmap_namespace": namespace, "drift_run": "4711"}
        known = {**common, "drift_kubeconfig": str(plane.kubeconfig), "drift_job": "1"}
        ran = place.run(str(tmp_path / "play.yml"), "--check", "-e", json.dumps(known))
        assert ran.rc == 0, ran.output
        Place(tmp_path, ["gpu-2"])
        (tmp_path / "a").write_text("y\n")
        (tmp_path / "v.json").write_text(json.dumps({**common, "drift_kubeconfig": content, "drift_job": "2"}))
        ran = place.run(str(tmp_path / "play.yml"), "--check", "-vvv", "-e", f"@{tmp_path}/v.json")
        assert ran.rc == 2
        assert "The verdict is drift" in ran.output
        keys = [entry["user"][name] for entry in content["users"] for name in entry["user"] if name.endswith("-data")]
        assert keys
        assert all(key not in ran.output for key in keys)
        ran = place.run("rdmaops.gpu_fabric.drift_merge", "-e", json.dumps(known))
        assert ran.rc == 2
        assert "The verdict is drift: 1 drift, 0 unknown, 1 in sync, on 2 hosts; gpu-2: copy " in ran.output
        prefix = "gpu-fabric-drift.4711"
        assert names(plane, namespace, "gpu-fabric-drift") == [prefix, f"{prefix}.1", f"{prefix}.2"]
        merged = configmap.unpack(plane.json("get", "configmap", prefix, "-n", namespace), "it")
        assert list(validate(merged, "it")["hosts"]) == ["gpu-1", "gpu-2"]
