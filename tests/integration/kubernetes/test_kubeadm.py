# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What kubeadm itself says of the configurations that are made for it."""

from __future__ import annotations

import json
import subprocess
import typing as t
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._kubeadm import with_certificate_key, with_secrets
from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils import _kubeadm_config as config
from ansible_collections.rdmaops.gpu_fabric.tests.lab import tools
from ansible_collections.rdmaops.gpu_fabric.tests.support import skip_or_fail
from ansible_collections.rdmaops.gpu_fabric.tests.unit.plugins.plugin_utils.kubernetes_hosts import Json, settings

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
    path.write_text("---\n".join(json.dumps(one) + "\n" for one in documents))
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
    assert "registry.example.org/k8s/kube-apiserver:v1.36.3" in done.stdout
