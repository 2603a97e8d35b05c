# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""containerd's configuration as the role writes it, read by containerd itself; and what the role finds wrong with others."""

from __future__ import annotations

import subprocess
import typing as t
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._files import is_ours
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._kubernetes_node import runtime_in
from ansible_collections.rdmaops.gpu_fabric.tests.support import COLLECTION, need_tool
from ansible_collections.rdmaops.gpu_fabric.tests.support.role_values import values

Json = dict[str, t.Any]
ROLE = COLLECTION / "roles/kubernetes"
MIRROR = {"kubernetes_registry_mirrors": {"registry.k8s.io": ["https://mirror.example.org"]}}


def value(name: str, **given: t.Any) -> t.Any:
    return values(ROLE).value(name, **{"groups": {}, "hostvars": {"here": {}}, **given})


def dumped(text: str, place: Path) -> Json:
    path = place / "config.toml"
    path.write_text(text)
    argv = [need_tool("containerd"), f"--config={path}", "config", "dump"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return runtime_in(done.stdout)


def wrong(config: Json | None, **given: t.Any) -> list[str]:
    look = {"runtime": {"config": config, "config_owner": "absent"}}
    return t.cast("list[str]", value("__kubernetes_runtime_wrong", __kubernetes_look=look, **given))


@pytest.mark.parametrize("given", [{}, {"kubernetes_sandbox_image": "registry.example.org/pause:3.10.2", **MIRROR}])
def test_what_the_role_writes_is_right(given: Json, tmp_path: Path) -> None:
    text = value("__kubernetes_runtime_text", **given)
    assert is_ours(text)
    found = dumped(text, tmp_path)
    assert found["cri"] is True
    assert found["systemd_cgroup"] is True
    assert found["cni_bin_dirs"] == ["/opt/cni/bin"]
    assert wrong(found, **given) == []


def test_what_a_distribution_delivers_is_not(tmp_path: Path) -> None:
    # /etc/containerd/config.toml of Debian 13
    debian = 'version = 2\n\n[plugins]\n  [plugins."io.containerd.grpc.v1.cri"]\n    [plugins."io.containerd.grpc.v1.cri".cni]\n      bin_dir = "/usr/lib/cni"\n'
    found = wrong(dumped(debian, tmp_path), kubernetes_sandbox_image="registry.example.org/pause:3.10.2", **MIRROR)
    assert len(found) == 4, found
    assert "SystemdCgroup" in found[0]
    assert "looked for in /usr/lib/cni" in found[1]
    docker = wrong(dumped('version = 2\ndisabled_plugins = ["io.containerd.grpc.v1.cri"]\n', tmp_path))
    assert docker[0] == "the plugin cri is disabled"
    assert wrong(None) == ["there is no configuration that containerd reads"]


def test_what_somebody_has_added_is_left_alone(tmp_path: Path) -> None:
    """NVIDIA's toolkit puts its runtime into the same file."""
    more = (
        '\n[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.nvidia]\n  runtime_type = "io.containerd.runc.v2"\n'
    )
    assert wrong(dumped(value("__kubernetes_runtime_text") + more, tmp_path)) == []


# --- the role's other values ---


def test_settings_keep_their_kinds() -> None:
    found = value("__kubernetes_settings", kubernetes_bind_port="7443", kubernetes_control_plane_taint="false")
    assert (found["bind_port"], found["control_plane_taint"]) == (7443, False)
    assert found["version"] == "1.36.3"


@pytest.mark.parametrize(
    ("given", "endpoint"),
    [
        ({"hostvars": {"cp-1": {"ansible_host": "192.0.2.10"}}}, "192.0.2.10:6443"),
        ({"hostvars": {"cp-1": {"kubernetes_address": "2001:db8::1"}}}, "[2001:db8::1]:6443"),
        ({"hostvars": {"cp-1": {}}, "kubernetes_control_plane_endpoint": "api.example.org:443"}, "api.example.org:443"),
    ],
)
def test_the_endpoint(given: Json, endpoint: str) -> None:
    assert value("__kubernetes_endpoint", groups={"kubernetes_control_plane": ["cp-1"]}, **given) == endpoint


def test_files_of_a_node() -> None:
    found = {one["path"]: one["content"] for one in value("__kubernetes_files", kubernetes_source="archive", **MIRROR)}
    assert found["/etc/modules-load.d/50-rdmaops-kubernetes.conf"].split() == ["overlay", "br_netfilter"]
    assert (
        'server = "https://registry.k8s.io"\n\n[host."https://mirror.example.org"]\n'
        in (found["/etc/containerd/certs.d/registry.k8s.io/hosts.toml"])
    )
    assert "ExecStart=/usr/local/bin/kubelet " in found["/etc/systemd/system/kubelet.service.d/10-rdmaops-kubeadm.conf"]
    # Packages bring the unit themselves.
    packaged = {one["path"]: one["content"] for one in value("__kubernetes_files")}
    assert not packaged["/etc/systemd/system/kubelet.service"]


def test_programs_and_their_checksums() -> None:
    given = {"kubernetes_checksums": {"kubelet": "sha256:" + "0" * 64}}
    found = {one["name"]: one for one in value("__kubernetes_program_sources", **given)}
    assert found["kubeadm"]["url"] == "https://dl.k8s.io/release/v1.36.3/bin/linux/amd64/kubeadm"
    assert found["kubeadm"]["checksum"] == "sha256:https://dl.k8s.io/release/v1.36.3/bin/linux/amd64/kubeadm.sha256"
    assert found["kubelet"]["checksum"] == "sha256:" + "0" * 64


# what a site says, and what is said of it
PROBLEMS: list[tuple[Json, str]] = [
    ({}, "kubernetes_pod_network_manifest has to name"),
    (
        {"kubernetes_pod_network_manifest": "https://example.org/calico.yaml"},
        "kubernetes_pod_network_checksum has to be",
    ),
    (
        {"kubernetes_pod_network": "bridge", "kubernetes_package_repository": "https://x"},
        "needs kubernetes_package_key",
    ),
]


@pytest.mark.parametrize(("given", "text"), PROBLEMS)
def test_problems(given: Json, text: str) -> None:
    (found,) = value("__kubernetes_problems", **given)
    assert text in found


def test_no_problems() -> None:
    good = {
        "kubernetes_pod_network_manifest": "https://example.org/c.yaml",
        "kubernetes_pod_network_checksum": "sha256:" + "0" * 64,
    }
    assert value("__kubernetes_problems", **good) == []
    assert value("__kubernetes_problems", kubernetes_pod_network="bridge") == []


LOOK: Json = {"membership": {"kubelet": None, "admin": None, "parked": [], "etcd": False}}


def member(server: str) -> Json:
    return {"membership": {**LOOK["membership"], "kubelet": {"server": f"https://{server}"}}}


def test_by_which_names_a_cluster_is_left() -> None:
    given = {"__kubernetes_endpoint": "192.0.2.10:6443", "kubernetes_cluster_name": "fabric"}
    names = "__kubernetes_reset_names"
    assert value(names, __kubernetes_look=member("192.0.2.10:6443"), **given) == ["192.0.2.10:6443", "fabric"]
    # The name of this site's cluster takes no host out of another one.
    assert value(names, __kubernetes_look=member("198.51.100.1:6443"), **given) == ["198.51.100.1:6443"]
    assert value(names, __kubernetes_look=LOOK, **given) == ["fabric"]
