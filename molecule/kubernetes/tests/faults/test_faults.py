# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Interrupted runs converge, and a node of another cluster is refused, with the remedy."""

from __future__ import annotations

import os
import signal

import pytest
from testinfra.host import Host

from ansible_collections.rdmaops.gpu_fabric.molecule.kubernetes.tests import nodelab
from ansible_collections.rdmaops.gpu_fabric.molecule.pods.tests import podlab

WORKER = "gpu-2"
CLUSTER = "10.90.1.3:6443"


@pytest.fixture(scope="module", autouse=True)
def without_pods(lab: podlab.PodLab) -> None:
    """A worker will be removed: its pods go first, so that their devices come back."""
    lab.cluster.kubectl("delete", "pods", "--all", "-n", podlab.NAMESPACE, "--timeout=600s", limit=660)


def ready(lab: podlab.PodLab, name: str = WORKER) -> None:
    lab.cluster.kubectl("wait", f"node/{name}", "--for=condition=Ready", "--timeout=600s", limit=660)


def remove_worker(lab: podlab.PodLab) -> None:
    done = nodelab.play("--limit", WORKER, kubernetes_state="reset", kubernetes_reset_consent=CLUSTER)
    assert done.rc == 0, done.output
    names = [node["metadata"]["name"] for node in lab.cluster.json("get", "nodes")["items"]]
    assert WORKER not in names


def test_a_control_plane_that_reboots(lab: podlab.PodLab) -> None:
    nodelab.lab("power", nodelab.PLANE, "reset")
    done = nodelab.play()
    assert (done.rc, done.changed) == (0, 0), done.output
    ready(lab, nodelab.PLANE)


def test_reset_without_the_clusters_name(lab: podlab.PodLab) -> None:
    done = nodelab.play("--limit", WORKER, kubernetes_state="reset", kubernetes_reset_consent="another")
    assert done.rc != 0
    assert f"The cluster is {CLUSTER} or kubernetes" in " ".join(done.output.split())
    assert done.changed == 0
    ready(lab)


def test_a_worker_killed_during_its_join_whose_next_token_expires(lab: podlab.PodLab, nodes: dict[str, Host]) -> None:
    """Both on one worker, because removing it and adding it again takes an emulated machine eight minutes."""
    node = nodes[WORKER]
    remove_worker(lab)
    running = nodelab.start()
    try:
        mark = "[ -e /etc/kubernetes/bootstrap-kubelet.conf ] || [ -e /etc/kubernetes/kubelet.conf ] && echo yes || :"
        lab.wait("the worker is at its join", lambda: "yes" in node.check_output(mark), limit=900)
        nodelab.lab("power", WORKER, "cut")
    finally:
        os.killpg(running.pid, signal.SIGKILL)
        running.wait()
    nodelab.lab("power", WORKER, "on")
    assert "join" in node.check_output("cat /var/lib/rdmaops/kubeadm-started.json")

    timeouts = {"discovery": "60s", "tlsBootstrap": "30s", "kubernetesAPICall": "20s"}
    done = nodelab.play(kubernetes_token_ttl=1, kubernetes_timeouts=timeouts)
    assert done.rc != 0, done.output
    assert "run again, which makes a new one" in " ".join(done.output.split()), done.output

    done = nodelab.play()
    assert done.rc == 0, done.output
    ready(lab)


def test_a_node_of_another_cluster(nodes: dict[str, Host]) -> None:
    """Its kubelet.conf names another authority and another server."""
    node = nodes[WORKER]
    other = (
        "cd /etc/kubernetes; cp -p kubelet.conf /root/kubelet.conf; "
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout /dev/null -subj /CN=kubernetes -out /root/ca.crt 2>/dev/null; "
        'sed -i -e "s#certificate-authority-data: .*#certificate-authority-data: $(base64 -w0 /root/ca.crt)#" '
        "-e 's#server: .*#server: https://198.51.100.1:6443#' kubelet.conf"
    )
    try:
        node.check_output(other)
        done = nodelab.play()
        output = " ".join(done.output.split())
        assert done.rc != 0
        assert f"{WORKER}: it is a node of another cluster (198.51.100.1:6443)" in output, done.output
        assert f"-e kubernetes_state=reset -e kubernetes_reset_consent=198.51.100.1:6443 --limit {WORKER}" in output
        assert done.changed == 0
    finally:
        node.check_output("cp -p /root/kubelet.conf /etc/kubernetes/kubelet.conf")
    # Nothing is left to do after everything that happened before, either.
    done = nodelab.play()
    assert (done.rc, done.changed) == (0, 0), done.output
