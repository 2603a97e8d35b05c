# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The cluster that `site` has created: nodes, services, names, and no secret in the output."""

from __future__ import annotations

import base64
import json
import re
import typing as t

import yaml
from testinfra.host import Host

from ansible_collections.rdmaops.gpu_fabric.molecule.kubernetes.tests import nodelab
from ansible_collections.rdmaops.gpu_fabric.molecule.pods.tests import podlab


def test_three_nodes_are_ready(lab: podlab.PodLab) -> None:
    nodes = lab.cluster.json("get", "nodes")["items"]
    assert sorted(node["metadata"]["name"] for node in nodes) == sorted(nodelab.NODES)
    for node in nodes:
        conditions = {row["type"]: row["status"] for row in node["status"]["conditions"]}
        assert conditions["Ready"] == "True", node["metadata"]["name"]
        assert node["status"]["nodeInfo"]["kubeletVersion"] == "v1.37.1"
        assert node["status"]["addresses"][0]["address"].startswith("10.90.1.")


def test_kubeadm_has_recorded_the_requested_configuration(lab: podlab.PodLab) -> None:
    stored = lab.cluster.json("get", "configmap", "kubeadm-config", "-n", "kube-system")["data"]["ClusterConfiguration"]
    config = yaml.safe_load(stored)
    assert config["controlPlaneEndpoint"] == "10.90.1.3:6443"
    assert config["networking"]["podSubnet"] == "10.244.0.0/16"
    assert config["imageRepository"] == "lab.invalid"


def test_the_kubeconfig_is_its_owners_alone() -> None:
    path = nodelab.EPHEMERAL / "kubeconfig"
    assert path.stat().st_mode & 0o777 == 0o600
    assert yaml.safe_load(path.read_text())["clusters"][0]["cluster"]["server"].startswith("https://127.0.0.1:")


def test_no_token_is_left(lab: podlab.PodLab) -> None:
    """The token of kubeadm init itself is valid for a minute, and then removed by the controller manager."""
    secrets = lab.cluster.json("get", "secrets", "-n", "kube-system")["items"]
    tokens = [secret for secret in secrets if secret["type"] == "bootstrap.kubernetes.io/token"]
    descriptions = [base64.b64decode(token["data"].get("description", "")).decode() for token in tokens]
    assert not [text for text in descriptions if "rdmaops" in text], descriptions
    assert not [secret for secret in secrets if secret["metadata"]["name"] == "kubeadm-certs"]


def test_secrets_are_encrypted_and_who_reads_them_is_logged(lab: podlab.PodLab, nodes: dict[str, Host]) -> None:
    plane = nodes[nodelab.PLANE]
    lab.cluster.kubectl("create", "secret", "generic", "sealed", "--from-literal=word=nothing-for-etcd")
    lab.cluster.kubectl("get", "secret", "sealed")
    assert plane.run("grep -rqa k8s:enc:secretbox:v1:lab: /var/lib/etcd/member").rc == 0
    assert plane.run("grep -rqa nothing-for-etcd /var/lib/etcd/member").rc == 1
    entries = [json.loads(line) for line in plane.check_output("cat /var/log/kubernetes/audit/audit.log").splitlines()]
    verbs = {entry["verb"] for entry in entries if entry["objectRef"].get("name") == "sealed"}
    assert verbs >= {"create", "get"}
    assert {entry["objectRef"]["resource"] for entry in entries} == {"secrets"}
    assert plane.file("/etc/kubernetes/encryption/configuration.yaml").mode == 0o600
    lab.cluster.kubectl("delete", "secret", "sealed")


def test_services_names_and_the_way_between_nodes(lab: podlab.PodLab) -> None:
    """kube-proxy, CoreDNS and the bridges: a pod reaches the API server by its name, and a pod on the other node."""
    lab.cluster.kubectl("create", "namespace", podlab.NAMESPACE, check=False)
    with lab.run_pod("first", "gpu-1"), lab.run_pod("second", "gpu-2"):
        lab.ready("first", "second")
        code = "import socket; print(socket.gethostbyname('kubernetes.default.svc.cluster.local'))"
        assert lab.inside("first", "python3", "-c", code).strip() == "10.96.0.1"
        code = "import ssl, urllib.request as r; print(r.urlopen('https://10.96.0.1/version', context=ssl._create_unverified_context()).status)"
        assert lab.inside("first", "python3", "-c", code).strip() == "200"
        address = lab.pod("second")["status"]["podIP"]
        assert "1 received" in lab.inside("first", "ping", "-c", "1", "-W", "20", address)


def test_check_mode_changes_nothing_and_prints_no_secret_at_any_verbosity() -> None:
    done = nodelab.play("--check", "--diff", "-vvvvv", book="rdmaops.gpu_fabric.site")
    assert done.rc == 0, done.output[-3000:]
    assert done.changed == 0
    config = yaml.safe_load((nodelab.EPHEMERAL / "kubeconfig").read_text())
    key = config["users"][0]["user"]["client-key-data"]
    assert key[:60] not in done.output
    assert nodelab.ENCRYPTION_KEY not in done.output
    assert base64.b64decode(key).decode().splitlines()[1] not in done.output
    assert not re.search(r"\b[a-z0-9]{6}\.[a-z0-9]{16}\b", done.output)


def test_a_configuration_that_differs_is_refused_or_reported() -> None:
    other: dict[str, t.Any] = {"kubernetes_certificate_names": ["127.0.0.1", "api.example.org"]}
    done = nodelab.play("--check", "--diff", **other)
    assert done.rc != 0
    assert "apiServer.certSANs" in done.output
    assert "kubernetes_on_difference=report" in " ".join(done.output.split())
    reported = nodelab.play("--check", "--diff", kubernetes_on_difference="report", **other)
    assert reported.rc == 0, reported.output
    assert "+  - api.example.org" in reported.output


def test_certificates_that_expire_are_reported_and_renewed_by_choice(
    lab: podlab.PodLab, nodes: dict[str, Host]
) -> None:
    plane = nodes[nodelab.PLANE]
    before = plane.check_output("sha256sum /etc/kubernetes/pki/apiserver.crt")
    done = nodelab.play(kubernetes_certificates_renew_before=3000)
    assert (done.rc, done.changed) == (0, 0), done.output
    assert "/etc/kubernetes/pki/apiserver.crt 36" in done.output
    done = nodelab.play(kubernetes_certificates_renew_before=3000, kubernetes_certificates_renew="due")
    assert done.rc == 0, done.output
    assert plane.check_output("sha256sum /etc/kubernetes/pki/apiserver.crt") != before
    assert plane.check_output("ls /etc/kubernetes/manifests | wc -l") == "4"
    assert json.loads(lab.cluster.kubectl("version", "-o", "json"))["serverVersion"]
