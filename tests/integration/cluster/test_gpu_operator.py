# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Module gpu_operator with real helm on a real API server, which has no nodes: nothing gets ready by itself."""

from __future__ import annotations

import functools
import json
import os
import signal
import subprocess
import sys
import time
import typing as t
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.tests.support import charts
from ansible_collections.rdmaops.gpu_fabric.tests.support.cluster import Cluster, private
from ansible_collections.rdmaops.gpu_fabric.tests.support.fault_proxy import FaultProxy

MODULE = "ansible_collections.rdmaops.gpu_fabric.plugins.modules.gpu_operator"
NAMESPACE = "gpu-operator"
POLICY = "clusterpolicies.nvidia.com"
DRIVERS = "nvidiadrivers.nvidia.com"


class Place:
    """A control plane of the tests' own, charts, and the module run as Ansible runs it."""

    def __init__(self, plane: Cluster, directory: Path) -> None:
        self.plane = plane
        self.directory = directory
        self.old = charts.packed(directory)
        self.new = charts.packed(directory, "v25.10.0")
        self.stale = charts.packed(directory, "old-crd")

    def start(self, *, check: bool = False, helm: str = "helm4", **options: t.Any) -> subprocess.Popen[str]:
        options = {
            "kubeconfig": str(self.plane.kubeconfig),
            "helm_binary": str(self.plane.tool(helm)) if helm else None,
            "wait": False,
            "wait_timeout": 60,
            "timeout": 60,
            "_ansible_check_mode": check,
            "_ansible_diff": True,
            "_ansible_tmpdir": None,
            "_ansible_remote_tmp": str(self.directory),
            **({} if options.get("state") == "absent" else {"chart": str(self.old)}),
            **options,
        }
        process = subprocess.Popen(
            [sys.executable, "-m", MODULE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        assert process.stdin
        given = {name: value for name, value in options.items() if value is not None}
        process.stdin.write(json.dumps({"ANSIBLE_MODULE_ARGS": given}))
        process.stdin.close()
        process.stdin = None
        return process

    @staticmethod
    def result(process: subprocess.Popen[str]) -> dict[str, t.Any]:
        out, _err = process.communicate(timeout=300)
        lines = [line for line in out.splitlines() if line.startswith("{")]
        assert lines, out
        return json.loads(lines[-1])

    def run(self, **options: t.Any) -> dict[str, t.Any]:
        found = self.result(self.start(**options))
        assert not found.get("failed"), found["msg"]
        return found

    def refused(self, **options: t.Any) -> str:
        """Run what has to fail, without having begun anything, and return the message."""
        found = self.result(self.start(**options))
        assert found.get("failed"), found
        assert not found.get("changed"), found
        return found["msg"]

    def helm(self, *argv: str, which: str = "helm4", check: bool = True) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "KUBECONFIG": str(self.plane.kubeconfig)}
        done = subprocess.run(
            [self.plane.tool(which), *argv], env=environment, capture_output=True, text=True, timeout=120
        )
        assert not check or done.returncode == 0, done.stderr
        return done

    def policy(self) -> dict[str, t.Any]:
        return self.plane.json("get", POLICY, "cluster-policy")

    def patch_policy(self, patch: dict[str, t.Any], *more: str) -> None:
        self.plane.kubectl("patch", POLICY, "cluster-policy", "--type=merge", "-p", json.dumps(patch), *more)

    def say(self, state: str, message: str = "") -> None:
        """Write the ClusterPolicy's status, as the operator would."""
        conditions = [{"type": "Error", "status": "True", "reason": "OperandNotReady", "message": message}]
        self.patch_policy(
            {"status": {"state": state, "conditions": conditions if message else []}}, "--subresource=status"
        )

    def wipe(self) -> None:
        kubectl = self.plane.kubectl
        kubectl("delete", "secret", "-A", "-l", "owner=helm", check=False)
        kubectl("delete", "crd", POLICY, DRIVERS, "nodefeatures.nfd.k8s-sigs.io", "--ignore-not-found")
        kubectl("delete", "clusterrole,clusterrolebinding", "gpu-operator", "--ignore-not-found")
        for namespace in (NAMESPACE, "other"):
            kubectl(
                "delete", "deployment,job,configmap,secret,sa", "-n", namespace, "--ignore-not-found",
                "gpu-operator", "gpu-operator-upgrade-crd", "nfd-worker-conf", "gpu-operator-webhook", check=False,
            )  # fmt: skip


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[Place]:
    with private(tmp_path_factory.mktemp("plane")) as plane:
        made = Place(plane, tmp_path_factory.mktemp("charts"))
        plane.kubectl("create", "namespace", "other")
        yield made


@pytest.fixture
def virgin(place: Place) -> Place:
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
    planned = place.run(check=True, **options)
    actions = [
        f"Create the namespace {namespace}",
        f"Install the helm release {namespace}/gpu-operator of gpu-operator v25.3.0",
    ]
    assert (planned["changed"], planned["actions"], planned["release"]) == (True, actions, None)
    assert not place.plane.kubectl("get", "namespace", namespace, "--ignore-not-found")
    assert not place.plane.kubectl("get", "crd", POLICY, "--ignore-not-found")
    shown = "".join(one["after"] for one in planned["diff"])
    assert "kind: ClusterPolicy" in shown
    assert "stand-in-for-a-secret" not in json.dumps(planned)
    assert "c3RhbmQtaW4tZm9yLWEtc2VjcmV0" not in json.dumps(planned)

    done = place.run(**options)
    same = ("changed", "actions", "diff", "resources", "values", "pruned", "drift")
    assert {key: done[key] for key in same} == {key: planned[key] for key in same}
    assert (
        done["after"]["release"]
        == planned["after"]["release"]
        == {
            "name": "gpu-operator",
            "namespace": namespace,
            "revision": 1,
            "status": "deployed",
            "chart": "gpu-operator-v25.3.0",
            "app_version": "v25.3.0",
        }
    )
    assert place.policy()["spec"]["driver"]["rdma"] == {"enabled": True, "useHostMofed": False}

    place.say("ready")
    again = place.run(**{**options, "wait": True})
    assert (again["changed"], again["diff"], again["drift"]) == (False, [], [])
    assert again["after"]["cluster_policy"] == {"name": "cluster-policy", "state": "ready", "message": ""}
    assert again["release"]["revision"] == 1
    assert [one["status"] for one in again["resources"]] == ["in_sync"]
    assert not place.run(check=True, **options)["changed"]

    upgrade = {**options, "chart": str(place.new), "upgrade_crds": True, "disrupt": True}
    planned = place.run(check=True, **upgrade)
    done = place.run(**upgrade)
    assert done["actions"] == planned["actions"]
    assert done["actions"][0] == f"Upgrade the CustomResourceDefinition {POLICY} from the chart"
    assert done["actions"][1].startswith(
        f"Upgrade the helm release {namespace}/gpu-operator to gpu-operator v25.10.0: from v25.3.0"
    )
    assert done["after"]["release"] == planned["after"]["release"]
    assert done["after"]["release"]["revision"] == 2
    assert place.policy()["spec"]["nodeStatusExporter"] == {"enabled": False}
    assert not place.run(**upgrade)["changed"]
    assert not place.run(check=True, **upgrade)["changed"]

    planned = place.run(check=True, state="absent", helm=helm)
    gone = place.run(state="absent", helm=helm)
    assert (
        gone["actions"]
        == planned["actions"]
        == [f"Uninstall the helm release {namespace}/gpu-operator of gpu-operator v25.10.0"]
    )
    assert (
        gone["leftovers"]
        == planned["leftovers"]
        == [f"CustomResourceDefinition {POLICY}", f"CustomResourceDefinition {DRIVERS}"]
    )
    assert not place.run(state="absent", helm=helm)["changed"]
    assert not place.run(check=True, state="absent", helm=helm)["changed"]


def test_a_generated_name_is_adopted_and_its_mistaken_value_goes(virgin: Place) -> None:
    virgin.helm("install", "--generate-name", "-n", "other", str(virgin.old), "--set", "toolkit-version=1.15.0-ubi8")
    done = virgin.run(toolkit_version="v1.17.6-ubuntu20.04", disrupt=True)
    name = done["release"]["name"]
    assert name.startswith("gpu-operator-1")
    assert done["release"]["namespace"] == "other"
    assert done["actions"] == [
        f"Upgrade the helm release other/{name} to gpu-operator v25.3.0: values toolkit, toolkit-version"
    ]
    assert done["disruptive"] == ["ClusterPolicy cluster-policy spec.toolkit.version"]
    assert virgin.policy()["spec"]["toolkit"]["version"] == "v1.17.6-ubuntu20.04"
    assert not virgin.run(toolkit_version="v1.17.6-ubuntu20.04")["changed"]

    virgin.helm("install", "second", "-n", NAMESPACE, str(virgin.old), "--take-ownership")
    text = virgin.refused()
    assert "There are 2 releases of the chart gpu-operator" in text
    assert f"{name} in the namespace other (deployed)" in text
    assert "second in the namespace gpu-operator (deployed)" in text
    assert "uninstall all but one" in text


def test_unknown_values(virgin: Place) -> None:
    given = {"toolkit-version": "1.15.0-ubi8"}
    text = virgin.refused(values=given)
    assert "toolkit-version is not a value of the chart gpu-operator v25.3.0 (is toolkit.version meant?)" in text
    assert "set on_unknown_value to warn or ignore" in text
    found = virgin.run(check=True, values=given, on_unknown_value="warn")
    assert found["unknown_values"] == [{"path": "toolkit-version", "nearest": "toolkit.version"}]
    assert "toolkit-version is not a value of the chart" in json.dumps(found["warnings"])
    assert "warnings" not in virgin.run(check=True, values=given, on_unknown_value="ignore")
    assert not virgin.plane.json("get", "secret", "-A", "-l", "owner=helm")["items"]


@pytest.mark.parametrize("helm", ["helm4", pytest.param("helm3", marks=pytest.mark.long)])
def test_drift_is_seen_and_put_right(virgin: Place, helm: str) -> None:
    virgin.run(helm=helm)
    virgin.patch_policy({"spec": {"driver": {"enabled": False}, "gdrcopy": {"image": "mine"}}})
    virgin.plane.kubectl("scale", "deployment/gpu-operator", "-n", NAMESPACE, "--replicas=0")
    virgin.plane.kubectl("delete", "configmap", "nfd-worker-conf", "-n", NAMESPACE)
    planned = virgin.run(check=True, helm=helm)
    policy = "ClusterPolicy cluster-policy"
    assert sorted(planned["drift"], key=lambda one: (one["object"], one["path"])) == [
        {"object": policy, "path": "spec.driver.enabled", "live": False, "desired": True},
        {"object": policy, "path": "spec.gdrcopy.image", "live": "mine", "desired": None},
        {"object": f"ConfigMap {NAMESPACE}/nfd-worker-conf", "path": "", "live": None, "desired": "present"},
        {"object": f"Deployment {NAMESPACE}/gpu-operator", "path": "spec.replicas", "live": 0, "desired": 1},
    ]
    assert planned["resources"][0]["status"] == "drift"
    shown = next(one for one in planned["diff"] if one["after_header"] == "ClusterPolicy cluster-policy")
    assert "image: mine" in shown["before"]
    assert "image: mine" not in shown["after"]
    done = virgin.run(helm=helm)
    assert done["actions"] == planned["actions"]
    assert (
        "drift of ClusterPolicy cluster-policy, ConfigMap gpu-operator/nfd-worker-conf, Deployment"
        in done["actions"][0]
    )
    spec = virgin.policy()["spec"]
    assert spec["driver"]["enabled"] is True
    assert "image" not in spec["gdrcopy"]
    assert virgin.plane.json("get", "deployment", "gpu-operator", "-n", NAMESPACE)["spec"]["replicas"] == 1
    assert not virgin.run(helm=helm)["changed"]


def test_a_stale_crd_prunes(virgin: Place) -> None:
    virgin.run(chart=str(virgin.stale), on_pruned="warn")
    virgin.helm("uninstall", "gpu-operator", "-n", NAMESPACE)  # helm leaves the CRDs

    text = virgin.refused(driver_rdma=True)
    assert f"{POLICY}: spec.driver.rdma" in text
    assert "Set upgrade_crds to true, or on_pruned to warn" in text

    lost = [{"object": "ClusterPolicy cluster-policy", "path": "spec.driver.rdma", "crd": POLICY}]
    warned = virgin.run(driver_rdma=True, on_pruned="warn")
    assert [{key: one[key] for key in lost[0]} for one in warned["pruned"]] == lost
    assert "rdma" not in virgin.policy()["spec"]["driver"]
    assert POLICY in json.dumps(warned["warnings"])
    assert not virgin.run(driver_rdma=True, on_pruned="warn")["changed"]

    planned = virgin.run(check=True, driver_rdma=True, upgrade_crds=True)
    assert planned["after"]["pruned"] == []
    done = virgin.run(driver_rdma=True, upgrade_crds=True)
    assert done["actions"] == planned["actions"]
    assert [{key: one[key] for key in lost[0]} for one in done["pruned"]] == lost
    assert virgin.policy()["spec"]["driver"]["rdma"]["enabled"] is True
    again = virgin.run(driver_rdma=True, upgrade_crds=True)
    assert (again["changed"], again["pruned"]) == (False, [])


def kill_in_hook(place: Place, verb: str, name: str, *argv: str) -> None:
    """Start helm, which waits for a hook's Job that nothing runs here, and kill it there."""
    process = subprocess.Popen(
        [place.plane.tool("helm4"), verb, name, *argv],
        env={**os.environ, "KUBECONFIG": str(place.plane.kubeconfig)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + 60
        while not place.plane.json("get", "job", "-n", NAMESPACE)["items"]:
            assert time.monotonic() < deadline
            assert process.poll() is None
            time.sleep(0.2)
        if "pending" not in json.dumps(place.plane.json("get", "secret", "-A", "-l", "owner=helm")):
            raise AssertionError("helm is at work and its release is not pending")
        text = place.refused(name=name, on_pending="recover", pending_age=0)
        assert f"a helm on this host (PID {process.pid}) is working on a release of this name and namespace" in text
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()


@pytest.mark.fault("helm killed")
@pytest.mark.parametrize("first", ["pending-upgrade", "pending-install"])
def test_a_killed_helm_leaves_a_pending_release(virgin: Place, first: str) -> None:
    name = f"killed-{first}-{os.getpid()}"  # tests beside this one have helms at work on the usual name
    run = functools.partial(virgin.run, name=name)
    if first == "pending-upgrade":
        run()
        kill_in_hook(virgin, "upgrade", name, str(virgin.new), "-n", NAMESPACE, "--set", "operator.upgradeCRD=true")
    else:
        source = charts.chart(virgin.directory / "with-hook")
        hook = source / "templates" / "upgrade_crd.yaml"
        hook.write_text(hook.read_text().replace("pre-upgrade", "pre-install,pre-upgrade"))
        kill_in_hook(virgin, "install", name, str(source), "-n", NAMESPACE, "--set", "operator.upgradeCRD=true")
    text = virgin.refused(name=name)
    assert f"The helm release gpu-operator/{name} is {first}, revision" in text
    assert "either helm is running now or it was killed" in text
    assert "set on_pending to recover" in text
    text = virgin.refused(name=name, on_pending="recover")
    assert "It is recovered once it is older than pending_age (1800 s)" in text
    planned = run(check=True, on_pending="recover", pending_age=0)
    done = run(on_pending="recover", pending_age=0)
    assert done["actions"] == planned["actions"]
    assert done["release"]["status"] == first
    assert done["after"]["release"]["status"] == "deployed"
    assert done["after"]["release"] == planned["after"]["release"]
    if first == "pending-upgrade":
        assert done["actions"] == [
            f"Roll the release gpu-operator/{name} (pending-upgrade, revision 2) back to revision 1, which a killed helm left"
        ]
        assert done["after"]["release"]["revision"] == 3
    else:
        assert (
            done["actions"][0]
            == f"Uninstall what a killed helm left of the release gpu-operator/{name} (pending-install, revision 1)"
        )
    assert not run()["changed"]


@pytest.mark.fault("helm killed")
def test_a_hook_that_never_ends_fails_and_the_next_run_goes_on(virgin: Place) -> None:
    virgin.run()
    values = {"operator": {"upgradeCRD": True}}
    failed = virgin.result(virgin.start(values=values, wait_timeout=4))
    assert failed["failed"]
    assert failed["changed"]
    assert "Upgrading the helm release gpu-operator/gpu-operator: helm exited with status 1. Output:" in failed["msg"]
    assert "A hook's Job that never finishes" in failed["msg"]
    assert "wait_timeout limits it" in failed["msg"]
    done = virgin.run()
    assert done["release"]["status"] == "failed"
    assert "the last revision is failed" in done["actions"][0]
    assert done["after"]["release"]["status"] == "deployed"
    assert not virgin.run()["changed"]


def test_waiting_says_what_the_operator_says(virgin: Place, tmp_path: Path) -> None:
    failed = virgin.result(virgin.start(wait=True, wait_timeout=3))
    assert failed["changed"]
    assert "after 3 s its state is not set (does the operator run?)" in failed["msg"]
    virgin.say("notReady", "driver DaemonSet is not ready")
    text = virgin.refused(wait=True, wait_timeout=3)
    assert "its state is notReady, and the operator says: OperandNotReady: driver DaemonSet is not ready" in text
    assert "raise wait_timeout, or set wait to false" in text
    with FaultProxy(virgin.plane, tmp_path / "proxy") as proxy:
        process = virgin.start(wait=True, kubeconfig=str(proxy.kubeconfig))
        # It asks for nothing else as long as it waits.
        deadline = time.monotonic() + 60
        while [line.rpartition("/")[2] for line in proxy.asked[-2:]] != ["cluster-policy"] * 2:
            assert time.monotonic() < deadline, proxy.asked
            time.sleep(0.1)
        virgin.say("ready")
        assert virgin.result(process)["after"]["cluster_policy"]["state"] == "ready"


@pytest.mark.long
def test_gpu_pods_are_kept(virgin: Place) -> None:
    virgin.run()
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "gpu-1"}}
    container = {"name": "c", "image": "x", "resources": {"limits": {"nvidia.com/gpu": "2"}}}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "train-0", "namespace": "other"},
        "spec": {"nodeName": "gpu-1", "containers": [container]},
    }
    for one in (node, pod):
        virgin.plane.kubectl("apply", "-f", "-", stdin=json.dumps(one))
    try:
        assert virgin.run(check=True, dcgm_exporter=False)["gpu_pods"] == []
        text = virgin.refused(check=True, driver_version="580.1")
        assert text == virgin.refused(driver_version="580.1")
        assert "Changing ClusterPolicy cluster-policy spec.driver.version takes the GPUs" in text
        assert "other/train-0 on gpu-1 (nvidia.com/gpu: 2)" in text
        assert "Delete these pods, or set disrupt to true" in text
        assert "other/train-0 on gpu-1" in virgin.refused(state="absent")
        assert virgin.run(driver_version="580.1", disrupt=True)["gpu_pods"][0]["name"] == "train-0"
    finally:
        virgin.plane.kubectl("delete", "pod", "train-0", "-n", "other", "--force", "--grace-period=0")
        virgin.plane.kubectl("delete", "node", "gpu-1")


def test_refused_before_anything_is_done(virgin: Place, tmp_path: Path) -> None:
    other = charts.chart(tmp_path)
    (other / "Chart.yaml").write_text("apiVersion: v2\nname: web\nversion: 1.2.3\n")
    text = virgin.refused(chart=str(other))
    assert (
        f"The chart {other} is web 1.2.3: this module manages only the NVIDIA GPU Operator (chart gpu-operator)" in text
    )
    assert "no such file or directory on the host that runs this task" in virgin.refused(chart="/no/such.tgz")
    text = virgin.refused(chart="gpu-operator", chart_repo_url="http://127.0.0.1:9", chart_version="v25.3.0")
    assert "http://127.0.0.1:9 is plain http, and the download would not be verified" in text
    text = virgin.refused(chart="gpu-operator", chart_repo_url="https://127.0.0.1:9", chart_version="v25.3.0")
    assert "Fetching the chart gpu-operator v25.3.0 from https://127.0.0.1:9: helm exited with status 1" in text
    assert "Check chart, chart_repo_url and chart_version" in text
    assert "has the version v25.3.0, and chart_version is v9.9.9" in virgin.refused(chart_version="v9.9.9")
    text = virgin.refused(namespace="nowhere")
    assert "namespace nowhere does not exist. Create it, or set create_namespace to true" in text
    assert "(helm_binary) is not an executable file" in virgin.refused(helm="", helm_binary="/no/helm")
    assert "no-such-helm was not found in" in virgin.refused(helm="", helm_binary="no-such-helm")
    ancient = tmp_path / "helm"
    ancient.write_text("#!/bin/sh\necho v3.2.4\n")
    ancient.chmod(0o755)
    text = virgin.refused(helm="", helm_binary=str(ancient))
    assert "is helm v3.2.4, and 3.8.0 or newer is needed" in text
    text = virgin.refused(dcgm_exporter_service_monitor=True)
    assert "creates a ServiceMonitor of monitoring.coreos.com/v1, and the API server does not know this kind" in text
    text = virgin.refused(driver_version="1", values={"driver": {"version": "2"}})
    assert "driver_version is 1, and values.driver.version is 2: they contradict each other" in text
    assert not virgin.plane.json("get", "secret", "-A", "-l", "owner=helm")["items"]
    assert not virgin.plane.kubectl("get", "crd", POLICY, "--ignore-not-found")

    virgin.run()
    text = virgin.refused(check=True, values={"mig": {"strategy": "bogus"}})
    assert "Trying the ClusterPolicy cluster-policy by a dry run" in text
    assert "Unsupported value" in text
    assert text.endswith("Correct values")


def test_a_policy_of_somebody_else_is_left_alone(virgin: Place) -> None:
    virgin.run()
    virgin.plane.kubectl("delete", "secret", "-n", NAMESPACE, "-l", "owner=helm")
    virgin.plane.kubectl("annotate", POLICY, "cluster-policy", "meta.helm.sh/release-name-")
    text = virgin.refused()
    assert "already" in text
    assert "Delete it, or hand it over: set the label app.kubernetes.io/managed-by=Helm" in text
    left = virgin.run(state="absent")["leftovers"]
    assert "ClusterPolicy cluster-policy" in left


def test_a_user_who_may_only_read_sees_drift(virgin: Place) -> None:
    virgin.run()
    virgin.patch_policy({"spec": {"driver": {"enabled": False}}})
    rules = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list"]}]
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "reader"},
        "rules": rules,
    }
    virgin.plane.kubectl("apply", "-f", "-", stdin=json.dumps(role))
    virgin.plane.kubectl("create", "clusterrolebinding", "reader", "--clusterrole=reader", "--user=reader")
    found = virgin.run(check=True, kubeconfig=str(virgin.plane.user("reader")))
    assert [one["path"] for one in found["drift"]] == ["spec.driver.enabled"]
    assert "Cannot determine whether the API server accepts the ClusterPolicy" in json.dumps(found["warnings"])
    text = virgin.refused(check=True, kubeconfig=str(virgin.plane.user("nobody-at-all")))
    assert "forbidden" in text
    assert "Grant the user that right by a Role or a ClusterRole" in text


def test_credentials_are_in_no_output(virgin: Place, tmp_path: Path) -> None:
    helm, calls = tmp_path / "helm", tmp_path / "calls"
    helm.write_text(f'#!/bin/sh\necho "$*" >>{calls}\nexec {virgin.plane.tool("helm4")} "$@"\n')
    helm.chmod(0o755)
    options = {
        "kubeconfig": str(virgin.plane.token_kubeconfig()),
        "helm_binary": str(helm),
        "chart": str(virgin.old),
        "wait": False,
        "values": {"driver": {"env": [{"name": "NGC_API_KEY", "value": "a-value-to-hide"}]}},
    }
    play = [{"hosts": "localhost", "gather_facts": False, "tasks": [{"rdmaops.gpu_fabric.gpu_operator": options}]}]
    playbook = tmp_path / "play.yml"
    # Not among the arguments of Ansible, which shows what a user wrote in a play that fails.
    playbook.write_text(json.dumps(play))
    argv = [
        str(Path(sys.executable).parent / "ansible-playbook"),
        "-vvvvv",
        "--diff",
        "-i",
        "localhost,",
        "-c",
        "local",
    ]
    environment = {**os.environ, "ANSIBLE_PYTHON_INTERPRETER": sys.executable, "ANSIBLE_NOCOLOR": "1"}
    done = subprocess.run(
        [*argv, str(playbook)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout
    assert "Install the helm release" in done.stdout
    arguments = calls.read_text()
    assert "install gpu-operator" in arguments
    everything = done.stdout + arguments
    assert virgin.plane.plane.token() not in everything
    assert "a-value-to-hide" not in everything
    assert virgin.policy()["spec"]["driver"]["env"][0]["value"] == "a-value-to-hide"


def test_an_api_server_that_stops_in_the_middle(virgin: Place) -> None:
    name = f"stopped-{os.getpid()}"
    virgin.run(name=name)
    process = virgin.start(values={"operator": {"upgradeCRD": True}}, wait_timeout=20, timeout=15, name=name)
    deadline = time.monotonic() + 90
    while not virgin.plane.json("get", "job", "-n", NAMESPACE)["items"]:
        assert time.monotonic() < deadline
        time.sleep(0.2)
    virgin.plane.stop()
    began = time.monotonic()
    try:
        failed = virgin.result(process)
        assert failed["failed"]
        assert failed["changed"]
        assert f"Upgrading the helm release gpu-operator/{name}" in failed["msg"]
        assert time.monotonic() - began < 20 + 15 + 10 + 30
        text = virgin.refused(timeout=10, name=name)
        assert "refused" in text
        assert "run again when it answers" in text
    finally:
        virgin.plane.start()
    done = virgin.run(on_pending="recover", pending_age=0, name=name)
    assert done["release"]["status"] in ("pending-upgrade", "failed")
    assert done["after"]["release"]["status"] == "deployed"
    assert not virgin.run(name=name)["changed"]
