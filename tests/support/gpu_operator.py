# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module gpu_operator as Ansible runs it, on a control plane and with charts of the test's own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import typing as t
from pathlib import Path

from ansible_collections.rdmaops.gpu_fabric.tests.support import charts
from ansible_collections.rdmaops.gpu_fabric.tests.support.cluster import Cluster
from ansible_collections.rdmaops.gpu_fabric.tests.support.waiting import wait_for

MODULE = "ansible_collections.rdmaops.gpu_fabric.plugins.modules.gpu_operator"
NAMESPACE = "gpu-operator"
POLICY = "clusterpolicies.nvidia.com"
DRIVERS = "nvidiadrivers.nvidia.com"
GPU_CLUSTERS = "gpuclusters.nvidia.com"
COMPUTE_DOMAINS = "computedomains.resource.nvidia.com"


class Place:
    """A control plane of the tests' own, charts, and the module run as Ansible runs it."""

    def __init__(self, plane: Cluster, directory: Path) -> None:
        self.plane = plane
        self.directory = directory
        self.old = charts.packed(directory)
        self.new = charts.packed(directory, "v25.10.0")
        self.dra = charts.packed(directory, "v25.10.0", "v26.7.0")
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
        pipes: t.Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        process = subprocess.Popen([sys.executable, "-m", MODULE], text=True, start_new_session=True, **pipes)
        assert process.stdin
        arguments = {name: value for name, value in options.items() if value is not None}
        process.stdin.write(json.dumps({"ANSIBLE_MODULE_ARGS": arguments}))
        process.stdin.close()
        process.stdin = None
        return process

    @staticmethod
    def result(process: subprocess.Popen[str]) -> dict[str, t.Any]:
        out, _err = process.communicate(timeout=300)
        lines = [line for line in out.splitlines() if line.startswith("{")]
        assert lines, out
        return t.cast("dict[str, t.Any]", json.loads(lines[-1]))

    def run(self, **options: t.Any) -> dict[str, t.Any]:
        result = self.result(self.start(**options))
        assert not result.get("failed"), result["msg"]
        return result

    def refused(self, **options: t.Any) -> str:
        """Run what has to fail before it changes anything, and return the message."""
        result = self.result(self.start(**options))
        assert result.get("failed"), result
        assert not result.get("changed"), result
        return str(result["msg"])

    def helm(self, *argv: str, which: str = "helm4", check: bool = True) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "KUBECONFIG": str(self.plane.kubeconfig)}
        done = subprocess.run(
            [self.plane.tool(which), *argv], env=environment, capture_output=True, text=True, timeout=120
        )
        assert not check or done.returncode == 0, done.stderr
        return done

    def policy(self) -> dict[str, t.Any]:
        return t.cast("dict[str, t.Any]", self.plane.json("get", POLICY, "cluster-policy"))

    def patch_policy(self, patch: dict[str, t.Any], *more: str) -> None:
        self.plane.kubectl("patch", POLICY, "cluster-policy", "--type=merge", "-p", json.dumps(patch), *more)

    def report(self, state: str, message: str = "", of: tuple[str, str] = (POLICY, "cluster-policy")) -> None:
        """Write an object's status, as the operator would."""
        conditions = [{"type": "Error", "status": "True", "reason": "OperandNotReady", "message": message}]
        patch = json.dumps({"status": {"state": state, "conditions": conditions if message else []}})
        self.plane.kubectl("patch", *of, "--type=merge", "-p", patch, "--subresource=status")

    def kill_in_hook(self, verb: str, name: str, *argv: str) -> None:
        """Start helm, which waits for a hook's Job that nothing runs here, and kill it there."""
        environment = {**os.environ, "KUBECONFIG": str(self.plane.kubeconfig)}
        argv = (str(self.plane.tool("helm4")), verb, name, *argv)
        process = subprocess.Popen(argv, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            wait_for(lambda: process.poll() is not None or self.plane.json("get", "job", "-n", NAMESPACE)["items"])
            assert process.poll() is None
            if "pending" not in json.dumps(self.plane.json("get", "secret", "-A", "-l", "owner=helm")):
                raise AssertionError("helm is at work and its release is not pending")
            text = self.refused(name=name, on_pending="recover", pending_age=0)
            assert f"a helm on this host (PID {process.pid}) is working on a release of this name and namespace" in text
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()

    def wipe(self) -> None:
        kubectl = self.plane.kubectl
        kubectl("delete", "secret", "-A", "-l", "owner=helm", check=False)
        crds = (POLICY, DRIVERS, GPU_CLUSTERS, COMPUTE_DOMAINS, "nodefeatures.nfd.k8s-sigs.io")
        kubectl("delete", "crd", *crds, "--ignore-not-found")
        kubectl("delete", "clusterrole,clusterrolebinding", "gpu-operator", "--ignore-not-found")
        for namespace in (NAMESPACE, "other"):
            kubectl(
                "delete", "deployment,job,configmap,secret,sa", "-n", namespace, "--ignore-not-found",
                "gpu-operator", "gpu-operator-upgrade-crd", "gpu-operator-cleanup-gpucluster", "nfd-worker-conf", "gpu-operator-webhook", check=False,
            )  # fmt: skip


__all__ = ["COMPUTE_DOMAINS", "DRIVERS", "GPU_CLUSTERS", "MODULE", "NAMESPACE", "POLICY", "Place"]
