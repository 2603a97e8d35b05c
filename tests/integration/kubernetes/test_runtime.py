# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""containerd's configuration as the role writes it, read by containerd itself; and what the role finds wrong with others."""

from __future__ import annotations

import json
import subprocess
import typing as t
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._files import is_ours
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._kubeadm.node import runtime_in, version_in
from ansible_collections.rdmaops.gpu_fabric.tests.support import COLLECTION, need_tool
from ansible_collections.rdmaops.gpu_fabric.tests.support.role_values import values

Json = dict[str, t.Any]
ROLE = COLLECTION / "roles/kubernetes"
MIRROR = {"kubernetes_registry_mirrors": {"registry.k8s.io": ["https://mirror.example.org"]}}


def value(name: str, **given: t.Any) -> t.Any:
    return values(ROLE).value(name, **{"groups": {}, "hostvars": {"here": {}}, **given})


def written(**given: t.Any) -> str:
    """Return what the role writes for the containerd of this machine."""
    argv = [need_tool("containerd"), "--version"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True)
    look = {"programs": {"containerd": version_in(done.stdout)}}
    return t.cast("str", value("__kubernetes_runtime_text", __kubernetes_state_before=look, **given))


def dumped(text: str, place: Path) -> Json:
    path = place / "config.toml"
    path.write_text(text)
    argv = [need_tool("containerd"), f"--config={path}", "config", "dump"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return runtime_in(done.stdout)


def wrong(config: Json | None, **given: t.Any) -> list[str]:
    look = {"runtime": {"config": config, "config_owner": "absent"}}
    return t.cast("list[str]", value("__kubernetes_runtime_wrong", __kubernetes_state_before=look, **given))


@pytest.mark.parametrize("given", [{}, {"kubernetes_sandbox_image": "registry.example.org/pause:3.10.2", **MIRROR}])
def test_what_the_role_writes_is_right(given: Json, tmp_path: Path) -> None:
    text = written(**given)
    assert is_ours(text)
    result = dumped(text, tmp_path)
    assert result["cri"] is True
    assert result["systemd_cgroup"] is True
    assert result["cni_bin_dirs"] == ["/opt/cni/bin"]
    assert wrong(result, **given) == []


def test_what_a_distribution_delivers_is_not(tmp_path: Path) -> None:
    # /etc/containerd/config.toml of Debian 13
    debian = 'version = 2\n\n[plugins]\n  [plugins."io.containerd.grpc.v1.cri"]\n    [plugins."io.containerd.grpc.v1.cri".cni]\n      bin_dir = "/usr/lib/cni"\n'
    result = wrong(dumped(debian, tmp_path), kubernetes_sandbox_image="registry.example.org/pause:3.10.2", **MIRROR)
    assert len(result) == 4, result
    assert "SystemdCgroup" in result[0]
    assert "looked for in /usr/lib/cni" in result[1]
    docker = wrong(dumped('version = 2\ndisabled_plugins = ["io.containerd.grpc.v1.cri"]\n', tmp_path))
    assert docker[0] == "the plugin cri is disabled"
    assert wrong(None) == ["there is no configuration that containerd reads"]


def test_what_somebody_has_added_is_left_alone(tmp_path: Path) -> None:
    """NVIDIA's toolkit puts its runtime into the same file."""
    more = (
        '\n[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.nvidia]\n  runtime_type = "io.containerd.runc.v2"\n'
    )
    assert wrong(dumped(written() + more, tmp_path)) == []


# --- the role's other values ---


def test_settings_keep_their_kinds() -> None:
    result = value("__kubernetes_settings", kubernetes_bind_port="7443", kubernetes_control_plane_taint="false")
    assert (result["bind_port"], result["control_plane_taint"]) == (7443, False)
    assert result["version"] == "1.37.1"


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
    files = {
        entry["path"]: entry["content"] for entry in value("__kubernetes_files", kubernetes_source="archive", **MIRROR)
    }
    assert files["/etc/modules-load.d/50-rdmaops-kubernetes.conf"].split() == ["overlay", "br_netfilter"]
    assert (
        'server = "https://registry.k8s.io"\n\n[host."https://mirror.example.org"]\n'
        in (files["/etc/containerd/certs.d/registry.k8s.io/hosts.toml"])
    )
    assert "ExecStart=/usr/local/bin/kubelet " in files["/etc/systemd/system/kubelet.service.d/10-rdmaops-kubeadm.conf"]
    # Packages bring the unit themselves.
    packaged = {entry["path"]: entry["content"] for entry in value("__kubernetes_files")}
    assert not packaged["/etc/systemd/system/kubelet.service"]


# Nothing in the collection says what these are.
NEWER: Json = {"kubernetes_version": "1.99.0", "kubernetes_cni_plugins_version": "v1.99.0"}


def test_programs_and_their_checksums() -> None:
    given = {"kubernetes_checksums": {"kubelet": "sha256:" + "0" * 64}}
    sources = {entry["name"]: entry for entry in value("__kubernetes_program_sources", **given)}
    assert sources["kubeadm"]["url"] == "https://dl.k8s.io/release/v1.37.1/bin/linux/amd64/kubeadm"
    assert sources["kubeadm"]["checksum"].startswith("sha256:087b6340")
    assert sources["kubelet"]["checksum"] == "sha256:" + "0" * 64
    (plugins,) = value("__kubernetes_cni_sources")
    assert plugins["checksum"].startswith("sha256:b98f74a0")
    for source in (*value("__kubernetes_program_sources", **NEWER), *value("__kubernetes_cni_sources", **NEWER)):
        assert source["checksum"] == ""


# what a site says, and what is said of it
PROBLEMS: list[tuple[Json, str]] = [
    ({}, "kubernetes_pod_network_manifest must name"),
    (
        {"kubernetes_pod_network_manifest": "https://example.org/calico.yaml"},
        "kubernetes_pod_network_checksum must be",
    ),
    (
        {"kubernetes_pod_network": "bridge", "kubernetes_package_repository": "https://x"},
        "needs kubernetes_package_key",
    ),
    (
        {
            "kubernetes_pod_network": "bridge",
            "kubernetes_registry_mirrors": {"registry.k8s.io": ["http://m", "https://n"]},
        },
        "kubernetes_registry_mirrors has http://m for registry.k8s.io: nodes pull by tags, and over plain http nothing "
        "verifies what comes. Give an https:// address.",
    ),
    (
        {
            "kubernetes_pod_network": "bridge",
            "kubernetes_source": "archive",
            "kubernetes_cni_plugins_checksum": "sha256:http://mirror.example.org/cni-plugins.tgz.sha256",
        },
        "kubernetes_cni_plugins_checksum must be sha256: and the digest of cni-plugins-linux-amd64-v1.9.1.tgz: `curl -fsSL "
        "https://github.com/containernetworking/plugins/releases/download/v1.9.1/cni-plugins-linux-amd64-v1.9.1.tgz | "
        "sha256sum` prints it, on a machine and network that you trust.",
    ),
]


@pytest.mark.parametrize(("given", "text"), PROBLEMS)
def test_problems(given: Json, text: str) -> None:
    (problem,) = value("__kubernetes_problems", **given)
    assert text in problem


def test_a_release_without_a_digest_is_asked_for() -> None:
    given = {"kubernetes_pod_network": "bridge", "kubernetes_mirror": "http://mirror.example.org", **NEWER}
    result = value("__kubernetes_problems", kubernetes_source="archive", **given)
    assert len(result) == 4
    assert result[0] == (
        "kubernetes_checksums.kubeadm must be sha256: and the digest of kubeadm: `curl -fsSL "
        "https://dl.k8s.io/release/v1.99.0/bin/linux/amd64/kubeadm | sha256sum` prints it, on a machine and network that you "
        "trust."
    )
    # apt and dnf verify signatures, whatever the packages come by.
    for source in ("packages", "local"):
        repository = {
            "kubernetes_package_repository": "http://mirror.example.org/deb/",
            "kubernetes_package_key": "key.asc",
        }
        assert value("__kubernetes_problems", kubernetes_source=source, **given, **repository) == []


def test_packages_are_verified_by_a_key_of_the_controller() -> None:
    """No key is fetched: a file is copied, and each repository names it."""
    given = {"kubernetes_package_repository": "http://mirror.example.org/deb/"}
    result = value("__kubernetes_repository_files", **given)
    assert "Signed-By: /etc/apt/keyrings/rdmaops-kubernetes.asc" in result["apt"][0]["content"].splitlines()
    assert {"gpgcheck=1", "gpgkey=file:///etc/pki/rpm-gpg/rdmaops-kubernetes.asc"} <= set(
        result["dnf"][0]["content"].splitlines()
    )
    key = values(ROLE).task(
        "programs_packages.yml", "Install the key that signs the packages", "src", kubernetes_package_key="k"
    )
    assert key == "k"


def test_no_problems() -> None:
    good = {
        "kubernetes_pod_network_manifest": "https://example.org/c.yaml",
        "kubernetes_pod_network_checksum": "sha256:" + "0" * 64,
    }
    assert value("__kubernetes_problems", **good) == []
    assert value("__kubernetes_problems", kubernetes_pod_network="bridge") == []


NODES = [
    {"name": "here", "pod_cidr": "10.244.1.0/24", "internal_ip": "192.0.2.11"},
    {"name": "gpu-2", "pod_cidr": "10.244.2.0/24", "internal_ip": "192.0.2.12"},
    {"name": "cp-1", "pod_cidr": "10.244.0.0/24", "internal_ip": "192.0.2.10"},
    {"name": "new", "pod_cidr": None, "internal_ip": None},
]
THEN: Json = {"__kubernetes_state_after": {"cluster": {"nodes": NODES}}}


def test_the_bridge_of_a_node() -> None:
    result = json.loads(value("__kubernetes_bridge_text", **THEN))
    bridge, portmap = result["plugins"]
    assert bridge["ipam"]["ranges"] == [[{"subnet": "10.244.1.0/24"}]]
    assert (bridge["type"], portmap["type"]) == ("bridge", "portmap")


def test_ways_to_the_pods_of_others() -> None:
    lines = value("__kubernetes_routes_text", **THEN).splitlines()
    # In the order of names, so that a second run finds the same.
    assert [line for line in lines if line.startswith("ExecStart=")] == [
        "ExecStart=ip route replace 10.244.0.0/24 via 192.0.2.10",
        "ExecStart=ip route replace 10.244.2.0/24 via 192.0.2.12",
    ]
    # A unit without anything to do is none.
    alone = {"__kubernetes_state_after": {"cluster": {"nodes": NODES[:1]}}}
    assert not value("__kubernetes_routes_text", **alone)
    assert not value("__kubernetes_routes_text", __kubernetes_state_after={"cluster": None})


def test_who_is_not_registered_yet() -> None:
    known = {name: {"__kubernetes_node_before": {"name": name}} for name in ("here", "new", "late")}
    given = {"ansible_play_hosts": list(known), "hostvars": known, **THEN}
    assert value("__kubernetes_unregistered", **given) == ["new", "late"]
    assert value("__kubernetes_unregistered", **{**given, "ansible_play_hosts": ["here"]}) == []


def test_nodes_in_the_order_in_which_they_are_made() -> None:
    known = {name: {"__kubernetes_node_before": {"name": name}} for name in ("gpu-1", "cp-2", "cp-1")}
    given = {
        "ansible_play_hosts": list(known),
        "hostvars": known,
        "groups": {"kubernetes_control_plane": ["cp-1", "cp-2"]},
    }
    assert list(value("__kubernetes_nodes", **given)) == ["cp-1", "cp-2", "gpu-1"]


LOOK: Json = {"membership": {"kubelet": None, "admin": None, "parked": [], "etcd": False}}


def member(server: str) -> Json:
    return {"membership": {**LOOK["membership"], "kubelet": {"server": f"https://{server}"}}}


def test_by_which_names_a_cluster_is_left() -> None:
    given = {"__kubernetes_endpoint": "192.0.2.10:6443", "kubernetes_cluster_name": "fabric"}
    names = "__kubernetes_reset_names"
    assert value(names, __kubernetes_state_before=member("192.0.2.10:6443"), **given) == ["192.0.2.10:6443", "fabric"]
    # The name of this site's cluster takes no host out of another one.
    assert value(names, __kubernetes_state_before=member("198.51.100.1:6443"), **given) == ["198.51.100.1:6443"]
    assert value(names, __kubernetes_state_before=LOOK, **given) == ["fabric"]
