# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts as kubernetes_node_info sees them, for tests of what is decided about them."""

from __future__ import annotations

import typing as t

Json = dict[str, t.Any]

AUTHORITY, OTHER = "aa" * 32, "bb" * 32

SETTINGS: Json = {
    "version": "1.37.1", "cluster_name": "fabric", "endpoint": "192.0.2.10:6443", "bind_port": 6443,
    "pod_network": "10.244.0.0/16", "service_network": "10.96.0.0/16", "dns_domain": "cluster.local",
    "certificate_names": ["api.example.org"], "image_repository": "", "etcd_image_tag": "", "dns_image_tag": "",
    "proxy_mode": "", "skip_phases": [], "control_plane_taint": True, "kubelet": {}, "cluster_configuration": {},
    "timeouts": {}, "patches_directory": "", "audit_policy": "", "encryption": "",
    "cri_socket": "unix:///run/containerd/containerd.sock",
}  # fmt: skip


def settings(**more: t.Any) -> Json:
    return {**SETTINGS, **more}


def membership(**more: t.Any) -> Json:
    nothing = dict.fromkeys(("kubelet", "admin", "authority", "started"))
    return {**nothing, "bootstrapping": False, "manifests": [], "parked": [], "etcd": False, **more}


def started(action: str, **more: t.Any) -> Json:
    """The mark of a kubeadm that was broken off, unless more is given."""
    since = "2026-04-01T12:00:00Z"
    return {"action": action, "since": since, "pid": 4711, "at_work": False, "answers": False, **more}


def kubelet(name: str, authority: str = AUTHORITY, server: str = "192.0.2.10:6443") -> Json:
    return {"server": "https://" + server, "authority": authority, "user": "system:node:" + name}


def worker_member(name: str, **more: t.Any) -> Json:
    pinned = {"fingerprint": AUTHORITY, "pin": "sha256:" + "cc" * 32}
    return membership(**{"kubelet": kubelet(name), "authority": pinned, **more})


def plane_member(name: str, **more: t.Any) -> Json:
    admin = {"server": "https://192.0.2.10:6443", "authority": AUTHORITY, "user": "kubernetes-admin"}
    manifests = ["etcd.yaml", "kube-apiserver.yaml", "kube-controller-manager.yaml", "kube-scheduler.yaml"]
    return worker_member(name, **{"admin": admin, "manifests": manifests, "etcd": True, **more})


def host(name: str, number: int, /, *, control_plane: bool = False, **info: t.Any) -> Json:
    """A host that fits; parts of what was seen are given to make it another."""
    machine = {"hostname": name, "machine_id": f"{number:032x}", "memory_mib": 4096, "cpus": 4}
    interfaces = [{"device": "eth0", "address": f"192.0.2.{number}/24"}]
    about = {**machine, "swap": [], "cgroup": "v2", "interfaces": interfaces, **info.pop("host", {})}
    programs = dict.fromkeys(("kubeadm", "kubelet", "kubectl", "containerd"))
    address = info.pop("address", f"192.0.2.{number}")
    new: Json = {"programs": programs, "ports": [], "membership": membership(), "certificates": [], "cluster": None}
    planned = {"name": info.pop("name", name), "address": address, "control_plane": control_plane}
    return {**planned, "info": {"host": about, **new, **info}}


def node(name: str, number: int, /, *, ready: bool = True, control_plane: bool = False, **more: t.Any) -> Json:
    """A Node of the cluster."""
    state = {"name": name, "version": "1.37.1", "ready": ready, "control_plane": control_plane}
    addresses = {"internal_ip": f"192.0.2.{number}", "pod_cidr": f"10.244.{number}.0/24"}
    return {**state, "machine_id": f"{number:032x}", **addresses, **more}


def cluster(*nodes: Json, **more: t.Any) -> Json:
    configurations = {"cluster_configuration": None, "kubelet_configuration": None}
    return {"reachable": True, "error": None, "nodes": list(nodes), **configurations, **more}
