# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The configuration that role kubernetes writes for each containerd, and the kubelets that it refuses with one."""

from __future__ import annotations

import tomllib
import typing as t

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.filter.kubelet_problems import kubelet_problems
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._files import is_ours
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._kubeadm.node import runtime_in
from ansible_collections.rdmaops.gpu_fabric.tests.support import COLLECTION
from ansible_collections.rdmaops.gpu_fabric.tests.support.role_values import values

Json = dict[str, t.Any]
ROLE = COLLECTION / "roles/kubernetes"
PAUSE = "registry.example.org/pause:3.10.2"
OLD = "io.containerd.grpc.v1.cri"
IMAGES, RUNTIME = "io.containerd.cri.v1.images", "io.containerd.cri.v1.runtime"


def programs(containerd: str | None, kubelet: str | None = None) -> Json:
    return {"programs": {"containerd": containerd, "kubelet": kubelet}}


def value(name: str, **given: t.Any) -> t.Any:
    return values(ROLE).value(name, **{"groups": {}, "hostvars": {"here": {}}, **given})


def text(containerd: str | None, **given: t.Any) -> str:
    return str(value("__kubernetes_runtime_text", __kubernetes_state_before=programs(containerd), **given))


# containerd, the version of its configuration, the section of images and that of the runtime, and the key of directories
WRITTEN = [
    ("1.6.20", 2, OLD, OLD, "bin_dir"),
    ("1.7.24", 2, OLD, OLD, "bin_dir"),
    # Not installed, in check mode.
    (None, 2, OLD, OLD, "bin_dir"),
    ("2.0.14", 3, IMAGES, RUNTIME, "bin_dir"),
    ("2.1.9", 3, IMAGES, RUNTIME, "bin_dirs"),
    ("2.4.2", 3, IMAGES, RUNTIME, "bin_dirs"),
]


@pytest.mark.parametrize(("containerd", "version", "images", "runtime", "directories"), WRITTEN)
def test_the_configuration_of_each_containerd(
    containerd: str | None, version: int, images: str, runtime: str, directories: str
) -> None:
    written = text(containerd, kubernetes_sandbox_image=PAUSE)
    assert is_ours(written)
    config = tomllib.loads(written)
    assert config["version"] == version
    assert config["imports"] == ["/etc/containerd/conf.d/*.toml"]
    assert set(config["plugins"]) == {images, runtime}
    assert config["plugins"][runtime]["cni"] == {
        directories: ["/opt/cni/bin"] if directories == "bin_dirs" else "/opt/cni/bin",
        "conf_dir": "/etc/cni/net.d",
    }
    # What is compared with the configuration that containerd runs with.
    assert runtime_in(written) == {
        "cri": True,
        "systemd_cgroup": True,
        "sandbox_image": PAUSE,
        "config_path": "/etc/containerd/certs.d",
        "cni_bin_dirs": ["/opt/cni/bin"],
        "cni_conf_dir": "/etc/cni/net.d",
    }


def test_without_an_image_of_sandboxes_it_is_that_of_containerd() -> None:
    assert "sandbox" not in text("1.7.24")
    assert "sandbox" not in text("2.1.9")


def test_what_was_just_installed_counts() -> None:
    assert tomllib.loads(text(None, __kubernetes_state_installed=programs("2.2.1")))["version"] == 3
    # The task was skipped.
    assert tomllib.loads(text("2.2.1", __kubernetes_state_installed={"skipped": True}))["version"] == 3


def refused(action: str = "join", **given: t.Any) -> bool:
    name = "Refuse a kubelet that the installed containerd cannot serve"
    site = {"groups": {}, "hostvars": {"here": {}}, "__kubernetes_step": {"action": action}, **given}
    return not values(ROLE).task("host.yml", name, "that", **site)


def test_a_kubelet_that_the_installed_containerd_cannot_serve() -> None:
    before: Json = {"__kubernetes_state_before": programs(None)}
    old = {**before, "__kubernetes_state_installed": programs("1.7.24"), "kubernetes_version": "1.38.0"}
    assert refused(**old)
    # kubeadm has done its work on such a host.
    assert not refused("none", **old)
    assert not refused(**{**old, "kubernetes_version": "1.37.2"})
    assert not refused(**old, kubernetes_ignore_preflight_errors=["ContainerRuntimeVersion"])
    assert not refused(**{**old, "__kubernetes_state_installed": programs("2.2.1")})
    assert not refused(**{**old, "__kubernetes_state_installed": {"skipped": True}})
    installed = {"__kubernetes_state_before": programs(None, "1.37.2"), "kubernetes_source": "local"}
    assert not refused(**{**old, **installed})
    assert refused(**{**old, "__kubernetes_state_before": programs(None, "1.37.2")})
    (problem,) = value("__kubernetes_kubelet_problems", **old)
    assert problem.startswith("kubelet 1.38.0 does not start with containerd 1.7.24: ")


def test_versions_that_are_unknown_prevent_nothing() -> None:
    assert kubelet_problems("1.38.0", "") == []
    assert kubelet_problems("stable-1", "1.7.24") == []
