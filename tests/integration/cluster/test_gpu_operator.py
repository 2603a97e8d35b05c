# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Module gpu_operator with real helm on a real API server, which has no nodes: nothing gets ready by itself."""

from __future__ import annotations

import functools
import json
import os
import time
import typing as t
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.tests.support import charts, site
from ansible_collections.rdmaops.gpu_fabric.tests.support.cluster import Cluster
from ansible_collections.rdmaops.gpu_fabric.tests.support.fault_proxy import FaultProxy
from ansible_collections.rdmaops.gpu_fabric.tests.support.gpu_operator import DRIVERS, NAMESPACE, POLICY, Place
from ansible_collections.rdmaops.gpu_fabric.tests.support.objects import manifest
from ansible_collections.rdmaops.gpu_fabric.tests.support.waiting import wait_for


@pytest.fixture(scope="module")
def place(own_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Place:
    own_cluster.kubectl("create", "namespace", "other")
    return Place(own_cluster, tmp_path_factory.mktemp("charts"))


@pytest.fixture
def fresh(place: Place) -> Place:
    """Return the place with nothing of an operator in the cluster, but with its namespace."""
    place.wipe()
    if not place.plane.kubectl("get", "namespace", NAMESPACE, "--ignore-not-found"):
        place.plane.kubectl("create", "namespace", NAMESPACE)
    return place


@pytest.mark.parametrize("helm", ["helm4", pytest.param("helm3", marks=pytest.mark.long)])
def test_the_drill(place: Place, helm: str) -> None:
    place.wipe()
    namespace = f"drill-{helm}"
    options: dict[str, t.Any] = {
        "helm": helm,
        "namespace": namespace,
        "create_namespace": True,
        "driver_rdma": True,
        "values": {"driver": {"nvidiaDriverCRD": {"enabled": True}}},
    }
    install(place, namespace, options)
    change_nothing(place, options)
    upgrade(place, namespace, {**options, "chart": str(place.new), "upgrade_crds": True, "disrupt": True})
    uninstall(place, namespace, helm)


def install(place: Place, namespace: str, options: dict[str, t.Any]) -> None:
    planned = place.run(check=True, **options)
    actions = [
        f"Create the namespace {namespace}",
        f"Install the helm release {namespace}/gpu-operator of gpu-operator v25.3.0",
    ]
    assert (planned["changed"], planned["actions"], planned["release"]) == (True, actions, None)
    assert not place.plane.kubectl("get", "namespace", namespace, "--ignore-not-found")
    assert not place.plane.kubectl("get", "crd", POLICY, "--ignore-not-found")
    assert "kind: ClusterPolicy" in "".join(diff["after"] for diff in planned["diff"])
    assert "stand-in-for-a-secret" not in json.dumps(planned)
    assert "c3RhbmQtaW4tZm9yLWEtc2VjcmV0" not in json.dumps(planned)

    done = place.run(**options)
    same = ("changed", "actions", "diff", "resources", "values", "pruned", "drift")
    assert {key: done[key] for key in same} == {key: planned[key] for key in same}
    release = {"name": "gpu-operator", "namespace": namespace, "revision": 1, "status": "deployed"}
    release.update(chart="gpu-operator-v25.3.0", app_version="v25.3.0")
    assert done["after"]["release"] == planned["after"]["release"] == release
    assert place.policy()["spec"]["driver"]["rdma"] == {"enabled": True, "useHostMofed": False}


def change_nothing(place: Place, options: dict[str, t.Any]) -> None:
    place.report("ready")
    again = place.run(**{**options, "wait": True})
    assert (again["changed"], again["diff"], again["drift"]) == (False, [], [])
    assert again["after"]["cluster_policy"] == {"name": "cluster-policy", "state": "ready", "message": ""}
    assert again["release"]["revision"] == 1
    assert [row["status"] for row in again["resources"]] == ["in_sync"]
    assert not place.run(check=True, **options)["changed"]


def upgrade(place: Place, namespace: str, options: dict[str, t.Any]) -> None:
    planned = place.run(check=True, **options)
    done = place.run(**options)
    assert done["actions"] == planned["actions"]
    assert done["actions"][0] == f"Upgrade the CustomResourceDefinition {POLICY} from the chart"
    assert done["actions"][1].startswith(
        f"Upgrade the helm release {namespace}/gpu-operator to gpu-operator v25.10.0: from v25.3.0"
    )
    assert done["after"]["release"] == planned["after"]["release"]
    assert done["after"]["release"]["revision"] == 2
    assert place.policy()["spec"]["nodeStatusExporter"] == {"enabled": False}
    assert not place.run(**options)["changed"]
    assert not place.run(check=True, **options)["changed"]


def uninstall(place: Place, namespace: str, helm: str) -> None:
    planned = place.run(check=True, state="absent", helm=helm)
    gone = place.run(state="absent", helm=helm)
    action = f"Uninstall the helm release {namespace}/gpu-operator of gpu-operator v25.10.0"
    assert gone["actions"] == planned["actions"] == [action]
    names = (POLICY, "nodefeatures.nfd.k8s-sigs.io", DRIVERS)
    leftovers = [f"CustomResourceDefinition {name}" for name in names]
    assert gone["leftovers"] == planned["leftovers"] == leftovers
    assert not place.run(state="absent", helm=helm)["changed"]
    assert not place.run(check=True, state="absent", helm=helm)["changed"]


def test_a_generated_name_is_adopted_and_its_mistaken_value_goes(fresh: Place) -> None:
    fresh.helm("install", "--generate-name", "-n", "other", str(fresh.old), "--set", "toolkit-version=1.15.0-ubi8")
    done = fresh.run(toolkit_version="v1.17.6-ubuntu20.04", disrupt=True)
    name = done["release"]["name"]
    assert name.startswith("gpu-operator-1")
    assert done["release"]["namespace"] == "other"
    assert done["actions"] == [
        f"Upgrade the helm release other/{name} to gpu-operator v25.3.0: values toolkit, toolkit-version"
    ]
    assert done["disruptive"] == ["ClusterPolicy cluster-policy spec.toolkit.version"]
    assert fresh.policy()["spec"]["toolkit"]["version"] == "v1.17.6-ubuntu20.04"
    assert not fresh.run(toolkit_version="v1.17.6-ubuntu20.04")["changed"]

    fresh.helm("install", "second", "-n", NAMESPACE, str(fresh.old), "--take-ownership")
    text = fresh.refused()
    assert "There are 2 releases of the chart gpu-operator" in text
    assert f"{name} in the namespace other (deployed)" in text
    assert "second in the namespace gpu-operator (deployed)" in text
    assert "uninstall all but one" in text


def test_unknown_values(fresh: Place) -> None:
    values = {"toolkit-version": "1.15.0-ubi8"}
    text = fresh.refused(values=values)
    assert "toolkit-version is not a value of the chart gpu-operator v25.3.0 (is toolkit.version meant?)" in text
    assert "set on_unknown_value to warn or ignore" in text
    result = fresh.run(check=True, values=values, on_unknown_value="warn")
    assert result["unknown_values"] == [{"path": "toolkit-version", "nearest": "toolkit.version"}]
    assert "toolkit-version is not a value of the chart" in json.dumps(result["warnings"])
    assert "warnings" not in fresh.run(check=True, values=values, on_unknown_value="ignore")
    assert not fresh.plane.json("get", "secret", "-A", "-l", "owner=helm")["items"]


@pytest.mark.parametrize("helm", ["helm4", pytest.param("helm3", marks=pytest.mark.long)])
def test_drift_is_seen_and_put_right(fresh: Place, helm: str) -> None:
    fresh.run(helm=helm)
    fresh.patch_policy({"spec": {"driver": {"enabled": False}, "gdrcopy": {"image": "mine"}}})
    fresh.plane.kubectl("scale", "deployment/gpu-operator", "-n", NAMESPACE, "--replicas=0")
    fresh.plane.kubectl("delete", "configmap", "nfd-worker-conf", "-n", NAMESPACE)
    planned = fresh.run(check=True, helm=helm)
    policy = "ClusterPolicy cluster-policy"
    assert sorted(planned["drift"], key=lambda row: (row["object"], row["path"])) == [
        {"object": policy, "path": "spec.driver.enabled", "live": False, "desired": True},
        {"object": policy, "path": "spec.gdrcopy.image", "live": "mine", "desired": None},
        {"object": f"ConfigMap {NAMESPACE}/nfd-worker-conf", "path": "", "live": None, "desired": "present"},
        {"object": f"Deployment {NAMESPACE}/gpu-operator", "path": "spec.replicas", "live": 0, "desired": 1},
    ]
    assert planned["resources"][0]["status"] == "drift"
    shown = next(diff for diff in planned["diff"] if diff["after_header"] == "ClusterPolicy cluster-policy")
    assert "image: mine" in shown["before"]
    assert "image: mine" not in shown["after"]
    done = fresh.run(helm=helm)
    assert done["actions"] == planned["actions"]
    drift = "drift of ClusterPolicy cluster-policy, ConfigMap gpu-operator/nfd-worker-conf, Deployment"
    assert drift in done["actions"][0]
    spec = fresh.policy()["spec"]
    assert spec["driver"]["enabled"] is True
    assert "image" not in spec["gdrcopy"]
    assert fresh.plane.json("get", "deployment", "gpu-operator", "-n", NAMESPACE)["spec"]["replicas"] == 1
    assert not fresh.run(helm=helm)["changed"]


def test_a_stale_crd_prunes(fresh: Place) -> None:
    fresh.run(chart=str(fresh.stale), on_pruned="warn")
    fresh.helm("uninstall", "gpu-operator", "-n", NAMESPACE)  # helm leaves the CRDs

    text = fresh.refused(driver_rdma=True)
    assert f"{POLICY}: spec.driver.rdma" in text
    assert "Set upgrade_crds to true, or on_pruned to warn" in text

    lost = [{"object": "ClusterPolicy cluster-policy", "path": "spec.driver.rdma", "crd": POLICY}]
    warned = fresh.run(driver_rdma=True, on_pruned="warn")
    assert [{key: row[key] for key in lost[0]} for row in warned["pruned"]] == lost
    assert "rdma" not in fresh.policy()["spec"]["driver"]
    assert POLICY in json.dumps(warned["warnings"])
    assert not fresh.run(driver_rdma=True, on_pruned="warn")["changed"]

    planned = fresh.run(check=True, driver_rdma=True, upgrade_crds=True)
    assert planned["after"]["pruned"] == []
    done = fresh.run(driver_rdma=True, upgrade_crds=True)
    assert done["actions"] == planned["actions"]
    assert [{key: row[key] for key in lost[0]} for row in done["pruned"]] == lost
    assert fresh.policy()["spec"]["driver"]["rdma"]["enabled"] is True
    again = fresh.run(driver_rdma=True, upgrade_crds=True)
    assert (again["changed"], again["pruned"]) == (False, [])


@pytest.mark.fault("helm killed")
@pytest.mark.parametrize("first", ["pending-upgrade", "pending-install"])
def test_a_killed_helm_leaves_a_pending_release(fresh: Place, first: str) -> None:
    name = f"killed-{first}-{os.getpid()}"  # tests beside this one have helms at work on the usual name
    run = functools.partial(fresh.run, name=name)
    if first == "pending-upgrade":
        run()
        fresh.kill_in_hook("upgrade", name, str(fresh.new), "-n", NAMESPACE, "--set", "operator.upgradeCRD=true")
    else:
        source = charts.chart(fresh.directory / "with-hook")
        hook = source / "templates" / "upgrade_crd.yaml"
        hook.write_text(hook.read_text().replace("pre-upgrade", "pre-install,pre-upgrade"))
        fresh.kill_in_hook("install", name, str(source), "-n", NAMESPACE, "--set", "operator.upgradeCRD=true")
    text = fresh.refused(name=name)
    assert f"The helm release gpu-operator/{name} is {first}, revision" in text
    assert "either helm is running now or it was killed" in text
    assert "set on_pending to recover" in text
    text = fresh.refused(name=name, on_pending="recover")
    assert "It is recovered once it is older than pending_age (1800 s)" in text
    planned = run(check=True, on_pending="recover", pending_age=0)
    done = run(on_pending="recover", pending_age=0)
    assert done["actions"] == planned["actions"]
    assert done["release"]["status"] == first
    assert done["after"]["release"]["status"] == "deployed"
    assert done["after"]["release"] == planned["after"]["release"]
    if first == "pending-upgrade":
        back = "(pending-upgrade, revision 2) back to revision 1, which a killed helm left"
        assert done["actions"] == [f"Roll the release gpu-operator/{name} {back}"]
        assert done["after"]["release"]["revision"] == 3
    else:
        action = f"Uninstall what a killed helm left of the release gpu-operator/{name} (pending-install, revision 1)"
        assert done["actions"][0] == action
    assert not run()["changed"]


@pytest.mark.fault("helm killed")
def test_a_hook_that_never_ends_fails_and_the_next_run_goes_on(fresh: Place) -> None:
    fresh.run()
    values = {"operator": {"upgradeCRD": True}}
    failed = fresh.result(fresh.start(values=values, wait_timeout=4))
    assert failed["failed"]
    assert failed["changed"]
    assert "Upgrading the helm release gpu-operator/gpu-operator: helm exited with status 1. Output:" in failed["msg"]
    assert "A hook's Job that never finishes" in failed["msg"]
    assert "wait_timeout limits it" in failed["msg"]
    done = fresh.run()
    assert done["release"]["status"] == "failed"
    assert "the last revision is failed" in done["actions"][0]
    assert done["after"]["release"]["status"] == "deployed"
    assert not fresh.run()["changed"]


def test_waiting_reports_what_the_operator_reports(fresh: Place, tmp_path: Path) -> None:
    failed = fresh.result(fresh.start(wait=True, wait_timeout=3))
    assert failed["changed"]
    assert "after 3 s its state is not set (does the operator run?)" in failed["msg"]
    fresh.report("notReady", "driver DaemonSet is not ready")
    text = fresh.refused(wait=True, wait_timeout=3)
    assert "its state is notReady, and the operator says: OperandNotReady: driver DaemonSet is not ready" in text
    assert "raise wait_timeout, or set wait to false" in text
    with FaultProxy(fresh.plane, tmp_path / "proxy") as proxy:
        process = fresh.start(wait=True, kubeconfig=str(proxy.kubeconfig))
        # While it waits, it requests nothing else.
        policy = ["cluster-policy"] * 2
        wait_for(lambda: [line.rpartition("/")[2] for line in proxy.asked[-2:]] == policy, report=lambda: proxy.asked)
        fresh.report("ready")
        assert fresh.result(process)["after"]["cluster_policy"]["state"] == "ready"


@pytest.mark.long
def test_gpu_pods_are_kept(fresh: Place) -> None:
    fresh.run()
    container = {"name": "c", "image": "x", "resources": {"limits": {"nvidia.com/gpu": "2"}}}
    spec = {"nodeName": "gpu-1", "containers": [container]}
    fresh.plane.apply(manifest("v1", "Node", "gpu-1"), manifest("v1", "Pod", "train-0", "other", spec=spec))
    try:
        assert fresh.run(check=True, dcgm_exporter=False)["gpu_pods"] == []
        text = fresh.refused(check=True, driver_version="580.1")
        assert text == fresh.refused(driver_version="580.1")
        assert "Changing ClusterPolicy cluster-policy spec.driver.version takes the GPUs" in text
        assert "other/train-0 on gpu-1 (nvidia.com/gpu: 2)" in text
        assert "Delete these pods, or set disrupt to true" in text
        assert "other/train-0 on gpu-1" in fresh.refused(state="absent")
        assert fresh.run(driver_version="580.1", disrupt=True)["gpu_pods"][0]["name"] == "train-0"
    finally:
        fresh.plane.kubectl("delete", "pod", "train-0", "-n", "other", "--force", "--grace-period=0")
        fresh.plane.kubectl("delete", "node", "gpu-1")


def test_refused_before_anything_is_done(fresh: Place, tmp_path: Path) -> None:
    other = charts.chart(tmp_path)
    (other / "Chart.yaml").write_text("apiVersion: v2\nname: web\nversion: 1.2.3\n")
    text = fresh.refused(chart=str(other))
    only = "this module manages only the NVIDIA GPU Operator (chart gpu-operator)"
    assert f"The chart {other} is web 1.2.3: {only}" in text
    assert "no such file or directory on the host that runs this task" in fresh.refused(chart="/no/such.tgz")
    text = fresh.refused(chart="gpu-operator", chart_repo_url="http://127.0.0.1:9", chart_version="v25.3.0")
    assert "http://127.0.0.1:9 is plain http, and the download would not be verified" in text
    text = fresh.refused(chart="gpu-operator", chart_repo_url="https://127.0.0.1:9", chart_version="v25.3.0")
    assert "Fetching the chart gpu-operator v25.3.0 from https://127.0.0.1:9: helm exited with status 1" in text
    assert "Check chart, chart_repo_url and chart_version" in text
    assert "has the version v25.3.0, and chart_version is v9.9.9" in fresh.refused(chart_version="v9.9.9")
    text = fresh.refused(namespace="nowhere")
    assert "namespace nowhere does not exist. Create it, or set create_namespace to true" in text
    assert "(helm_binary) is not an executable file" in fresh.refused(helm="", helm_binary="/no/helm")
    assert "no-such-helm was not found in" in fresh.refused(helm="", helm_binary="no-such-helm")
    ancient = tmp_path / "helm"
    ancient.write_text("#!/bin/sh\necho v3.2.4\n")
    ancient.chmod(0o755)
    text = fresh.refused(helm="", helm_binary=str(ancient))
    assert "is helm v3.2.4, and 3.8.0 or newer is needed" in text
    text = fresh.refused(dcgm_exporter_service_monitor=True)
    assert "creates a ServiceMonitor of monitoring.coreos.com/v1, and the API server does not know this kind" in text
    text = fresh.refused(driver_version="1", values={"driver": {"version": "2"}})
    assert "driver_version is 1, and values.driver.version is 2: they contradict each other" in text
    assert not fresh.plane.json("get", "secret", "-A", "-l", "owner=helm")["items"]
    assert not fresh.plane.kubectl("get", "crd", POLICY, "--ignore-not-found")

    fresh.run()
    text = fresh.refused(check=True, values={"mig": {"strategy": "bogus"}})
    assert "Trying the ClusterPolicy cluster-policy by a dry run" in text
    assert "Unsupported value" in text
    assert text.endswith("Correct values")


def test_a_policy_of_another_owner_is_left_alone(fresh: Place) -> None:
    fresh.run()
    fresh.plane.kubectl("delete", "secret", "-n", NAMESPACE, "-l", "owner=helm")
    fresh.plane.kubectl("annotate", POLICY, "cluster-policy", "meta.helm.sh/release-name-")
    text = fresh.refused()
    assert "already" in text
    assert "Delete it, or hand it over: set the label app.kubernetes.io/managed-by=Helm" in text
    assert "ClusterPolicy cluster-policy" in fresh.run(state="absent")["leftovers"]


def test_a_user_who_may_only_read_sees_drift(fresh: Place) -> None:
    fresh.run()
    fresh.patch_policy({"spec": {"driver": {"enabled": False}}})
    rules = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list"]}]
    fresh.plane.apply(manifest("rbac.authorization.k8s.io/v1", "ClusterRole", "reader", rules=rules))
    fresh.plane.bind("clusterrolebinding", "reader", "list", "pods", "--clusterrole=reader")
    result = fresh.run(check=True, kubeconfig=str(fresh.plane.user("reader")))
    assert [row["path"] for row in result["drift"]] == ["spec.driver.enabled"]
    assert "Cannot determine whether the API server accepts the ClusterPolicy" in json.dumps(result["warnings"])
    text = fresh.refused(check=True, kubeconfig=str(fresh.plane.user("nobody-at-all")))
    assert "forbidden" in text
    assert "Grant the user that right by a Role or a ClusterRole" in text


def test_credentials_are_in_no_output(fresh: Place, tmp_path: Path) -> None:
    helm, calls = tmp_path / "helm", tmp_path / "calls"
    helm.write_text(f'#!/bin/sh\necho "$*" >>{calls}\nexec {fresh.plane.tool("helm4")} "$@"\n')
    helm.chmod(0o755)
    options = {
        "kubeconfig": str(fresh.plane.token_kubeconfig()),
        "helm_binary": str(helm),
        "chart": str(fresh.old),
        "wait": False,
        "values": {"driver": {"env": [{"name": "NGC_API_KEY", "value": "a-value-to-hide"}]}},
    }
    task = {"rdmaops.gpu_fabric.gpu_operator": options}
    run = site.run_tasks(tmp_path, [task], "-vvvvv", "--diff", limit=300, **site.AS_A_USER)
    assert run.rc == 0, run.output
    assert "Install the helm release" in run.output
    arguments = calls.read_text()
    assert "install gpu-operator" in arguments
    everything = run.output + arguments
    assert fresh.plane.plane.token() not in everything
    assert "a-value-to-hide" not in everything
    assert fresh.policy()["spec"]["driver"]["env"][0]["value"] == "a-value-to-hide"


# In `make test`, test_helm_faults.py breaks an upgrade's connections.
@pytest.mark.long
def test_an_api_server_that_stops_in_the_middle(fresh: Place) -> None:
    name = f"stopped-{os.getpid()}"
    fresh.run(name=name)
    process = fresh.start(values={"operator": {"upgradeCRD": True}}, wait_timeout=20, timeout=15, name=name)
    wait_for(lambda: fresh.plane.json("get", "job", "-n", NAMESPACE)["items"], 90)
    fresh.plane.stop()
    began = time.monotonic()
    try:
        failed = fresh.result(process)
        assert failed["failed"]
        assert failed["changed"]
        assert f"Upgrading the helm release gpu-operator/{name}" in failed["msg"]
        assert time.monotonic() - began < 20 + 15 + 10 + 30
        text = fresh.refused(timeout=10, name=name)
        assert "refused" in text
        assert "run again when it answers" in text
    finally:
        fresh.plane.start()
    done = fresh.run(on_pending="recover", pending_age=0, name=name)
    assert done["release"]["status"] in ("pending-upgrade", "failed")
    assert done["after"]["release"]["status"] == "deployed"
    assert not fresh.run(name=name)["changed"]
