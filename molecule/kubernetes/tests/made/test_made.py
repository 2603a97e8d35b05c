# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The cluster that `site` has made: nodes, services, names, and nothing secret in what was said."""

from __future__ import annotations

import base64
import json
import re
import typing as t

import nodelab
import podlab
import yaml


def test_three_nodes_are_ready(lab: podlab.PodLab) -> None:
    nodes = lab.cluster.json("get", "nodes")["items"]
    assert sorted(one["metadata"]["name"] for one in nodes) == sorted(nodelab.NODES)
    for one in nodes:
        conditions = {row["type"]: row["status"] for row in one["status"]["conditions"]}
        assert conditions["Ready"] == "True", one["metadata"]["name"]
        assert one["status"]["nodeInfo"]["kubeletVersion"] == "v1.36.3"
        assert one["status"]["addresses"][0]["address"].startswith("10.90.1.")


def test_kubeadm_has_written_down_what_was_asked_for(lab: podlab.PodLab) -> None:
    kept = lab.cluster.json("get", "configmap", "kubeadm-config", "-n", "kube-system")["data"]["ClusterConfiguration"]
    found = yaml.safe_load(kept)
    assert found["controlPlaneEndpoint"] == "10.90.1.3:6443"
    assert found["networking"]["podSubnet"] == "10.244.0.0/16"
    assert found["imageRepository"] == "lab.invalid"


def test_the_kubeconfig_is_its_owners_alone() -> None:
    path = nodelab.EPHEMERAL / "kubeconfig"
    assert path.stat().st_mode & 0o777 == 0o600
    assert yaml.safe_load(path.read_text())["clusters"][0]["cluster"]["server"].startswith("https://127.0.0.1:")


def test_no_token_is_left(lab: podlab.PodLab) -> None:
    """That of kubeadm init itself is good for a minute, and then removed by the controller manager."""
    secrets = lab.cluster.json("get", "secrets", "-n", "kube-system")["items"]
    left = [one for one in secrets if one["type"] == "bootstrap.kubernetes.io/token"]
    said = [base64.b64decode(one["data"].get("description", "")).decode() for one in left]
    assert not [text for text in said if "rdmaops" in text], said
    assert not [one for one in secrets if one["metadata"]["name"] == "kubeadm-certs"]


def test_services_names_and_the_way_between_nodes(lab: podlab.PodLab) -> None:
    """kube-proxy, CoreDNS and the bridges: a pod of one node finds the API server by name, and a pod of the other."""
    lab.cluster.kubectl("create", "namespace", podlab.NAMESPACE, check=False)
    with lab.run_pod("one", "gpu-1", rail=False), lab.run_pod("two", "gpu-2", rail=False):
        lab.ready("one", "two")
        code = "import socket; print(socket.gethostbyname('kubernetes.default.svc.cluster.local'))"
        assert lab.inside("one", "python3", "-c", code).strip() == "10.96.0.1"
        code = "import ssl, urllib.request as r; print(r.urlopen('https://10.96.0.1/version', context=ssl._create_unverified_context()).status)"
        assert lab.inside("one", "python3", "-c", code).strip() == "200"
        address = lab.pod("two")["status"]["podIP"]
        assert "1 received" in lab.inside("one", "ping", "-c", "1", "-W", "20", address)


def test_check_mode_changes_nothing_and_prints_no_secret_at_any_verbosity() -> None:
    done = nodelab.play("--check", "--diff", "-vvvvv", book="rdmaops.gpu_fabric.site")
    assert done.rc == 0, done.output[-3000:]
    assert done.changed == 0
    config = yaml.safe_load((nodelab.EPHEMERAL / "kubeconfig").read_text())
    key = config["users"][0]["user"]["client-key-data"]
    assert key[:60] not in done.output
    assert base64.b64decode(key).decode().splitlines()[1] not in done.output
    assert not re.search(r"\b[a-z0-9]{6}\.[a-z0-9]{16}\b", done.output)


def test_a_configuration_that_differs_is_refused_or_reported() -> None:
    wish: dict[str, t.Any] = {"kubernetes_certificate_names": ["127.0.0.1", "api.example.org"]}
    done = nodelab.play("--check", "--diff", **wish)
    assert done.rc != 0
    assert "apiServer.certSANs" in done.output
    assert "kubernetes_on_difference=report" in " ".join(done.output.split())
    reported = nodelab.play("--check", "--diff", kubernetes_on_difference="report", **wish)
    assert reported.rc == 0, reported.output
    assert "+  - api.example.org" in reported.output


def test_certificates_that_end_are_reported_and_renewed_by_choice(lab: podlab.PodLab) -> None:
    plane = nodelab.machine(nodelab.PLANE)
    before = plane.shell("sha256sum /etc/kubernetes/pki/apiserver.crt")
    done = nodelab.play(kubernetes_certificates_renew_before=3000)
    assert (done.rc, done.changed) == (0, 0), done.output
    assert "/etc/kubernetes/pki/apiserver.crt 36" in done.output
    done = nodelab.play(kubernetes_certificates_renew_before=3000, kubernetes_certificates_renew="due")
    assert done.rc == 0, done.output
    assert plane.shell("sha256sum /etc/kubernetes/pki/apiserver.crt") != before
    assert plane.shell("ls /etc/kubernetes/manifests | wc -l").strip() == "4"
    assert json.loads(lab.cluster.kubectl("version", "-o", "json"))["serverVersion"]
