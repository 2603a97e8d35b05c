# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pods of the lab's cluster, the nodes that they run on, and measurements between them."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
import typing as t
from pathlib import Path

import yaml
from testinfra.host import Host

from ansible_collections.rdmaops.gpu_fabric.tests.support import COLLECTION
from ansible_collections.rdmaops.gpu_fabric.tests.support.cluster import cluster
from ansible_collections.rdmaops.gpu_fabric.tests.support.site import environment

EPHEMERAL = Path(os.environ["MOLECULE_EPHEMERAL_DIRECTORY"])
NAMESPACE = "ml"
NODES = ("gpu-1", "gpu-2")
# The attachment of rail0, its card, and how long an emulated node may take for a pod.
RAIL = "default/rail0"
CARD = "0000:00:04.0"
POD_S = 300

# In a pod: the RDMA links that its program saw when it started.
AT_START = "/run/links-at-start.json"

# How long Prometheus may take to know: emulated nodes answer a scrape within seconds.
SCRAPE_S = 120.0
# While a measurement uses a node's only processor, reading a namespace may end with ETIMEDOUT; afterwards it does not.
ALL_DEVICES = "rdma_device_info and on() (count(rdma_device_info) == 4)"
NOTHING_UNREADABLE = "absent(rdma_unreadable)"
PROMETHEUS = EPHEMERAL / "prometheus"

# With privileges and not as root: only the limit determines how much memory it may lock.
AS_USER = {"privileged": True, "runAsUser": 1000}

Json = dict[str, t.Any]


class PodLab:
    def __init__(self, nodes: dict[str, Host]) -> None:
        self.cluster = cluster()
        self.nodes = nodes

    @property
    def image(self) -> str:
        """The image that create.yml has provided."""
        variables = yaml.safe_load((EPHEMERAL / "inventory/image.yml").read_text())["all"]["vars"]
        return t.cast(str, variables["training_job_image"])

    def pods(self) -> list[Json]:
        return t.cast("list[Json]", self.cluster.json("get", "pods", "-n", NAMESPACE)["items"])

    def pod(self, name: str) -> Json:
        return t.cast(Json, self.cluster.json("get", "pod", name, "-n", NAMESPACE))

    def inside(self, pod: str, *argv: str, check: bool = True, limit: float = 180) -> str:
        """Run a program in a pod as a user would."""
        return self.cluster.kubectl("exec", "-n", NAMESPACE, pod, "--", *argv, check=check, limit=limit)

    def ready(self, *names: str) -> None:
        wanted = [f"pod/{name}" for name in names]
        self.cluster.kubectl(
            "wait", "-n", NAMESPACE, "--for=condition=Ready", f"--timeout={POD_S}s", *wanted, limit=POD_S + 30
        )

    def devices(self, pod: str) -> list[Json]:
        """Return the RDMA links as the pod sees them."""
        return t.cast("list[Json]", json.loads(self.inside(pod, "rdma", "-j", "link")))

    def names_on_host(self, node: str) -> list[str]:
        """Return the names of the RDMA devices that the host has."""
        return sorted(link["ifname"] for link in json.loads(self.nodes[node].check_output("rdma -j link")))

    @contextlib.contextmanager
    def run_pod(self, name: str, node: str, rail: str = "", **spec: t.Any) -> t.Iterator[None]:
        """A pod that sleeps, with the attachment of a rail if one is named; it is deleted at the end."""
        container = {
            "name": "main",
            "image": self.image,
            "imagePullPolicy": "Never",
            "command": ["sh", "-c", f"rdma -j link >{AT_START}; exec sleep infinity"],
            "securityContext": {"privileged": True},
            **spec.pop("container", {}),
        }
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": name,
                "annotations": {"k8s.v1.cni.cncf.io/networks": rail} if rail else {},
            },
            "spec": {
                "nodeName": node,
                "terminationGracePeriodSeconds": 0,
                "containers": [container],
                **spec,
            },
        }
        self.cluster.kubectl("apply", "-n", NAMESPACE, "-f", "-", stdin=json.dumps(body))
        try:
            yield
        finally:
            self.cluster.kubectl(
                *("delete", "pod", name, "-n", NAMESPACE, "--ignore-not-found", f"--timeout={POD_S}s"), limit=POD_S + 30
            )

    @contextlib.contextmanager
    def polled(self, node: str, device: str) -> t.Iterator[list[str]]:
        """A monitor that polls the devices of the host, as NVSentinel's does; its first three answers."""
        name = "nic-health-monitor"
        text = f"[ -e /sys/class/infiniband/{device} ] && echo there || echo missed"
        script = f"#!/bin/sh\nfor poll in 1 2 3; do {text}; sleep 1; done\nexec sleep infinity\n"
        self.cluster.kubectl("create", "configmap", name, "-n", NAMESPACE, f"--from-literal={name}={script}")
        container = {
            "command": [f"/opt/{name}/{name}"],
            "volumeMounts": [{"name": "script", "mountPath": f"/opt/{name}"}],
        }
        volume = {"name": "script", "configMap": {"name": name, "defaultMode": 0o755}}

        def answers() -> list[str]:
            return self.cluster.kubectl("logs", name, "-n", NAMESPACE).split()

        try:
            with self.run_pod(name, node, hostNetwork=True, container=container, volumes=[volume]):
                self.ready(name)
                self.wait("it has looked three times", lambda: len(answers()) == 3)
                yield answers()
        finally:
            self.cluster.kubectl("delete", "configmap", name, "-n", NAMESPACE)

    def wait(self, text: str, condition: t.Callable[[], object], limit: float = 90) -> None:
        """Wait until a condition is met."""
        end = time.monotonic() + limit
        while not condition():
            assert time.monotonic() < end, f"not within {limit:.0f} s: {text}"
            time.sleep(1)

    def module(self, node: str, module: str, /, *, check: bool = False, **arguments: t.Any) -> Json:
        """Run a module of the collection on a node."""
        argv = [str(Path(sys.executable).parent / "ansible"), "-i", str(EPHEMERAL / "inventory"), node]
        argv += ["-m", f"rdmaops.gpu_fabric.{module}", "-a", json.dumps(arguments), *(["--check"] if check else [])]
        done = subprocess.run(
            argv, cwd=COLLECTION, env=environment(ANSIBLE_LOAD_CALLBACK_PLUGINS="1"), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300, check=False
        )  # fmt: skip
        document = json.loads(done.stdout[done.stdout.index("{\n") :])
        return t.cast(Json, document["plays"][0]["tasks"][0]["hosts"][node])

    def transport(self, job: str, seconds: int = 5) -> str:
        """What the pods of a job use, as module transport_info says."""
        result = self.module(
            *("control-plane", "transport_info"), kubeconfig=str(self.cluster.kubeconfig), namespace=NAMESPACE,
            label_selectors=[f"rdmaops.gpu-fabric/job={job}"], seconds=seconds,
        )  # fmt: skip
        assert "transport" in result, result
        return str(result["transport"])

    def wait_for_transport(self, job: str, transport: str, limit: float) -> None:
        """Wait until the pods of a job use a transport, and go on using it.

        DistributedDataParallel sends the weights, 0.9 MB of small_cnn, and then imports 900 modules, which can take an
        emulated processor longer than a look of 5 s. In a look of 30 s, the weights alone are below the 64 KiB/s of an
        idle device.
        """
        self.wait(f"{job} over {transport}", lambda: self.transport(job, seconds=30) == transport, limit)

    def playbook(self, book: str, *arguments: str, **variables: t.Any) -> subprocess.CompletedProcess[str]:
        argv = [str(Path(sys.executable).parent / "ansible-playbook"), "-i", str(EPHEMERAL / "inventory"), book]
        return subprocess.run(
            [*argv, *arguments, "-e", json.dumps(variables)],
            cwd=COLLECTION, env=environment(ANSIBLE_STDOUT_CALLBACK="ansible.builtin.default"), stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=3000, check=False,
        )  # fmt: skip

    def memlock(self, pod: str, device: str = "rxe0") -> Json:
        """Let a program in a pod register memory with a device."""
        ports = [{"rail": 0, "device": device, "port": 1, "gid_index": 1}]
        probe = self.module(
            *("control-plane", "fabric_probe"), kubeconfig=str(self.cluster.kubeconfig), pod=pod, state="ready",
            tools=["memlock"], ports=ports,
        )  # fmt: skip
        (check,) = probe["checks"]
        return t.cast(Json, check)

    def verify(self, first: str, second: str, *, tests: t.Sequence[str]) -> Json:
        """Measure between two pods, wherever they are."""
        places = {self.pod(name)["spec"]["nodeName"]: f"{NAMESPACE}/{name}" for name in (first, second)}
        return self._measured("pods", fabric_check_pod=f"{{{{ {places!r}[inventory_hostname] }}}}", tests=tests)

    def verify_hosts(self, device: str, *, tests: t.Sequence[str]) -> Json:
        """Measure between the hosts, with a device that no pod has."""
        rails = f"{{{{ rails | selectattr('rdma', 'eq', '{device}') }}}}"
        return self._measured("hosts", fabric_check_rails=rails, tests=tests)

    def _measured(self, name: str, tests: t.Sequence[str], **variables: t.Any) -> Json:
        report = EPHEMERAL / f"fabric-{name}.json"
        report.unlink(missing_ok=True)
        done = self.playbook(
            "rdmaops.gpu_fabric.verify",
            fabric_check_tests=list(tests),
            fabric_check_report_json=str(report),
            fabric_check_report_html=str(report.with_suffix(".html")),
            **variables,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return t.cast(Json, json.loads(report.read_text()))
