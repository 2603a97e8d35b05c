# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What files and programs of a node say, as values."""

from __future__ import annotations

import base64

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._kubeadm import node
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._tool_output.listeners import listeners_in


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("v1.37.1\n", "1.37.1"),
        ("Kubernetes v1.37.1", "1.37.1"),
        # Debian 13's package
        ("containerd github.com/containerd/containerd 1.7.24~ds1 1.7.24~ds1-6+b4\n", "1.7.24"),
        ("command not found", None),
        ("", None),
    ],
)
def test_version(text: str, version: str | None) -> None:
    assert node.version_in(text) == version


def test_swap() -> None:
    # /proc/swaps of Linux 6.18
    title = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"
    assert node.swaps_in(title) == []
    assert node.swaps_in(title + "/dev/sda2    partition\t524284\t\t0\t\t-2\n/swap file 1 0 -3\n") == [
        "/dev/sda2",
        "/swap",
    ]


@pytest.mark.parametrize(
    ("mounts", "kind"),
    [
        ("cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid 0 0\n", "v2"),
        ("tmpfs /sys/fs/cgroup tmpfs ro 0 0\ncgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n", "v1"),
        ("proc /proc proc rw 0 0\n", None),
    ],
)
def test_cgroup(mounts: str, kind: str | None) -> None:
    assert node.cgroup_in(mounts) == kind


# /proc/net/tcp of Linux 6.18: a listener on all addresses, one on the loopback, and a connection
TCP = """  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000:280A 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 18001 1 0 100 0 0 10 0
   1: 0100007F:094B 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 18002 1 0 100 0 0 10 0
   2: 0100007F:1925 0100007F:9C40 01 00000000:00000000 00:00000000 00000000     0        0 18003 1 0 20 4 30 10 -1
"""


def test_memory_that_no_machine_has() -> None:
    assert node.memory_in("MemTotal:       %s kB\n" % ("9" * 5000)) is None


def test_listeners() -> None:
    assert listeners_in(TCP) == {10250: "18001", 2379: "18002"}
    assert listeners_in("") == {}
    assert listeners_in(TCP.replace(":280A", "")) == {2379: "18002"}


# `containerd config dump` of 1.7.24 and 2.1, shortened
OLD = """disabled_plugins = []
imports = ["/etc/containerd/config.toml"]
version = 2

[plugins]

  [plugins."io.containerd.grpc.v1.cri"]
    sandbox_image = "registry.k8s.io/pause:3.8"

    [plugins."io.containerd.grpc.v1.cri".cni]
      bin_dir = "/usr/lib/cni"
      conf_dir = "/etc/cni/net.d"

    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      BinaryName = ""
      SystemdCgroup = false

    [plugins."io.containerd.grpc.v1.cri".registry]
      config_path = ""
"""
NEW = """version = 3
disabled_plugins = []

[plugins]
  [plugins.'io.containerd.cri.v1.images']
    [plugins.'io.containerd.cri.v1.images'.pinned_images]
      sandbox = 'registry.k8s.io/pause:3.10'
    [plugins.'io.containerd.cri.v1.images'.registry]
      config_path = '/etc/containerd/certs.d'
  [plugins.'io.containerd.cri.v1.runtime']
    [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
      SystemdCgroup = true
    [plugins.'io.containerd.cri.v1.runtime'.cni]
      bin_dir = ''
      bin_dirs = ['/opt/cni/bin', '/usr/lib/cni']
      conf_dir = '/etc/cni/net.d'
"""


# `containerd config dump` of Debian's 2.1.9, shortened, for a file of version 3 that sets bin_dir; bin_dirs is the default
DEPRECATED = """version = 3

[plugins]
  [plugins.'io.containerd.cri.v1.runtime']
    [plugins.'io.containerd.cri.v1.runtime'.cni]
      bin_dir = '/opt/cni/bin3'
      bin_dirs = ['/usr/lib/cni', '/opt/cni/bin']
      conf_dir = '/etc/cni/net.d'
"""


def test_a_directory_of_plugins_replaces_the_default_list() -> None:
    """containerd 2.1 to 2.3 empties bin_dirs then (ValidateRuntimeConfig in internal/cri/config/config.go); 2.4 has no bin_dir."""
    assert node.runtime_in(DEPRECATED)["cni_bin_dirs"] == ["/opt/cni/bin3"]


def test_runtime() -> None:
    both = {"cri": True, "cni_conf_dir": "/etc/cni/net.d"}
    assert node.runtime_in(OLD) == {
        **both,
        "systemd_cgroup": False,
        "sandbox_image": "registry.k8s.io/pause:3.8",
        "config_path": "",
        "cni_bin_dirs": ["/usr/lib/cni"],
    }
    assert node.runtime_in(NEW) == {
        **both,
        "systemd_cgroup": True,
        "sandbox_image": "registry.k8s.io/pause:3.10",
        "config_path": "/etc/containerd/certs.d",
        "cni_bin_dirs": ["/opt/cni/bin", "/usr/lib/cni"],
    }
    # Docker's packages of containerd come so.
    assert node.runtime_in('disabled_plugins = ["io.containerd.grpc.v1.cri"]\n')["cri"] is False
    assert node.runtime_in("")["systemd_cgroup"] is False


def test_what_a_manifest_says() -> None:
    text = "    - --advertise-address=%s\n    - --secure-port=7443\n    - --data-dir=/data/etcd\n"
    assert node.api_server_in(text % "192.0.2.10") == "https://192.0.2.10:7443"
    assert node.api_server_in(text % "fd00::10") == "https://[fd00::10]:7443"
    assert node.api_server_in("    - --secure-port=7443\n") is None
    assert node.etcd_dir_in(text) == "/data/etcd"
    assert node.etcd_dir_in("") == node.etcd_dir_in(None) == "/var/lib/etcd"


def test_nodes() -> None:
    answer = {
        "items": [
            {
                "metadata": {"name": "cp-1", "labels": {"node-role.kubernetes.io/control-plane": ""}},
                "spec": {"podCIDR": "10.244.0.0/24"},
                "status": {
                    "conditions": [{"type": "Ready", "status": "True"}],
                    "addresses": [
                        {"type": "InternalIP", "address": "192.0.2.10"},
                        {"type": "InternalIP", "address": "2001:db8::10"},
                        {"type": "Hostname", "address": "cp-1"},
                    ],
                    "nodeInfo": {"kubeletVersion": "v1.37.1", "machineID": "ab"},
                },
            },
            {"metadata": {"name": "gpu-1"}},
        ]
    }
    first, second = node.nodes_in(answer)
    assert first == {
        "name": "cp-1",
        "version": "1.37.1",
        "machine_id": "ab",
        "ready": True,
        "internal_ip": "192.0.2.10",
        "pod_cidr": "10.244.0.0/24",
        "control_plane": True,
    }
    assert (second["ready"], second["control_plane"], second["pod_cidr"]) == (False, False, None)
    assert node.nodes_in({}) == []


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def test_kubeconfig() -> None:
    text = (
        f"clusters:\n- cluster:\n    certificate-authority-data: {encoded('authority')}\n"
        f"    server: https://192.0.2.10:6443\nusers:\n- name: x\n  user:\n"
        f"    client-certificate-data: '{encoded('client')}'\n    client-key-data: c2VjcmV0LWtleQ==\n"
    )
    assert node.kubeconfig_in(text) == ("https://192.0.2.10:6443", "authority", "client")
    assert node.kubeconfig_in(text.replace("-data: ", "-data: $")) == ("https://192.0.2.10:6443", "", "")
    assert node.kubeconfig_in("{") == node.kubeconfig_in("") == (None, "", "")
