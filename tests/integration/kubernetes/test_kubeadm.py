# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What kubeadm itself says of the configurations that are made for it."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import typing as t
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._kubeadm.manage import (
    with_certificate_key,
    with_secrets,
)
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._kubeadm.node import CERTIFICATES
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._kubeadm.node_look import Looker
from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._kubernetes import kubeadm_config as config
from ansible_collections.rdmaops.gpu_fabric.tests.lab import config as config_of_lab
from ansible_collections.rdmaops.gpu_fabric.tests.lab import kubernetes_images, tools
from ansible_collections.rdmaops.gpu_fabric.tests.support import skip_or_fail
from ansible_collections.rdmaops.gpu_fabric.tests.unit.plugins.plugin_utils._kubernetes.kubernetes_hosts import (
    Json,
    settings,
)

# kubeadm takes long to build, where its release cannot be had.
pytestmark = pytest.mark.long

PLANE = {"name": "cp-1", "address": "192.0.2.10", "control_plane": True}
WORKER = {"name": "gpu-1", "address": "192.0.2.11", "control_plane": False}
PIN = "sha256:" + "ab" * 32
TOKEN = "abcdef.0123456789abcdef"


def kubeadm() -> Path:
    try:
        return tools.get("kubeadm")
    except tools.Unavailable as exc:
        skip_or_fail(str(exc))


def judged(documents: t.Sequence[Json], place: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    path = place / "config.yaml"
    path.write_text("---\n".join(json.dumps(document) + "\n" for document in documents))
    return subprocess.run(
        [str(kubeadm()), *(argv or ("config", "validate")), f"--config={path}"],
        capture_output=True,
        text=True,
        timeout=60,
    )


FULL: Json = {
    "image_repository": "registry.example.org/k8s",
    "etcd_image_tag": "3.6.8-0",
    "dns_image_tag": "v1.14.2",
    "proxy_mode": "nftables",
    "skip_phases": ["addon/coredns"],
    "control_plane_taint": False,
    "timeouts": {"controlPlaneComponentHealthCheck": "8m0s"},
    "patches_directory": "/etc/kubernetes-patches",
    "kubelet": {"failSwapOn": False, "evictionHard": {"memory.available": "20Mi"}},
    "pod_network": "10.244.0.0/16,fd00:10:244::/56",
    "service_network": "10.96.0.0/16,fd00:10:96::/112",
}


@pytest.mark.parametrize("more", [{}, FULL], ids=["least", "most"])
def test_kubeadm_takes_what_is_made(more: Json, tmp_path: Path) -> None:
    given = settings(**more)
    init = with_certificate_key(config.documents(given, PLANE, "init"), "0f" * 32)
    for documents in (
        init,
        with_secrets(config.documents(given, WORKER, "join", PIN), TOKEN, None),
        with_secrets(config.documents(given, PLANE, "join", PIN), TOKEN, "0f" * 32),
    ):
        done = judged(documents, tmp_path)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "unknown field" not in done.stderr, done.stderr


def test_kubeadm_refuses_what_it_does_not_know(tmp_path: Path) -> None:
    """The judge is one that can say no."""
    documents = config.documents(settings(), PLANE, "init")
    documents[1]["podSubnet"] = "10.244.0.0/16"
    done = judged(documents, tmp_path)
    assert done.returncode != 0 or "unknown field" in done.stderr, done.stdout + done.stderr


def test_images_are_those_that_were_asked_for(tmp_path: Path) -> None:
    done = judged(config.documents(settings(**FULL), PLANE, "init"), tmp_path, "config", "images", "list")
    assert done.returncode == 0, done.stderr
    assert "registry.example.org/k8s/etcd:3.6.8-0" in done.stdout
    assert "registry.example.org/k8s/kube-apiserver:v1.37.1" in done.stdout


def test_the_lab_has_an_image_for_every_name(tmp_path: Path) -> None:
    known = config_of_lab.versions()
    given = settings(
        version=known["tools"]["kubernetes"]["version"].removeprefix("v"),
        image_repository=kubernetes_images.REPOSITORY,
        etcd_image_tag=kubernetes_images.etcd_tag(known),
        dns_image_tag=kubernetes_images.dns_tag(known),
    )
    done = judged(config.documents(given, PLANE, "init"), tmp_path, "config", "images", "list")
    assert sorted(done.stdout.split()) == sorted(kubernetes_images.names(known).values()), done.stderr


def test_what_kubeadm_writes_is_what_is_read(tmp_path: Path) -> None:
    """Certificates and kubeconfigs of kubeadm's own phases, in a root directory of the test's."""
    conf = tmp_path / "etc/kubernetes"
    documents = config.documents(settings(cluster_configuration={"certificatesDir": str(conf / "pki")}), PLANE, "init")
    for phase in (("certs", "all"), ("kubeconfig", "all", f"--kubeconfig-dir={conf}")):
        done = judged(documents, tmp_path, "init", "phase", *phase)
        assert done.returncode == 0, done.stdout + done.stderr
    (conf / "manifests").mkdir()
    (conf / "manifests/kube-apiserver.yaml").touch()
    looker = Looker(lambda _argv: None, str(tmp_path))
    result = looker.membership()
    assert result["kubelet"]["user"] == "system:node:cp-1"
    assert result["admin"]["user"] == "kubernetes-admin"
    assert result["kubelet"]["server"] == "https://192.0.2.10:6443"
    assert result["kubelet"]["authority"] == result["admin"]["authority"] == result["authority"]["fingerprint"]
    assert re.fullmatch("sha256:[0-9a-f]{64}", result["authority"]["pin"])
    rows = {certificate["name"]: certificate for certificate in looker.certificates()}
    assert set(CERTIFICATES) <= set(rows)
    assert {"admin.conf", "controller-manager.conf", "scheduler.conf", "super-admin.conf"} <= set(rows)
    assert {row["days"] for row in rows.values() if row["renewable"]} == {364}
    assert all(row["days"] > 3640 for row in rows.values() if not row["renewable"])

    # The same as kubeadm computes it: `kubeadm token create --print-join-command` shows it, and needs a cluster.
    key = subprocess.run(
        ["openssl", "x509", "-pubkey", "-noout", "-in", str(conf / "pki/ca.crt")], capture_output=True, check=True
    ).stdout
    der = subprocess.run(["openssl", "pkey", "-pubin", "-outform", "der"], input=key, capture_output=True, check=True)
    assert result["authority"]["pin"] == "sha256:" + hashlib.sha256(der.stdout).hexdigest()
