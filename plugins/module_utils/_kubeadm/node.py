# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""Parsers for files and program output that describe a host as a node of Kubernetes.

Paths and ports are kubeadm's (cmd/kubeadm/app/constants/constants.go in k8s.io/kubernetes).
"""

from __future__ import annotations

import base64
import binascii
import re
import typing as t

Json = t.Dict[str, t.Any]

CONF_DIR = "/etc/kubernetes"
ETCD_DIR = "/var/lib/etcd"
# The action that this collection has started on a host and not finished, and its process.
STARTED = "/var/lib/rdmaops/kubeadm-started.json"
# Where manifests wait while their pods are restarted.
PARKED = CONF_DIR + "/rdmaops-parked"
CERTIFICATES = (
    "ca",
    "apiserver",
    "apiserver-kubelet-client",
    "apiserver-etcd-client",
    "front-proxy-ca",
    "front-proxy-client",
    "etcd/ca",
    "etcd/server",
    "etcd/peer",
    "etcd/healthcheck-client",
)
KUBECONFIGS = ("admin.conf", "super-admin.conf", "controller-manager.conf", "scheduler.conf")
# `kubeadm certs renew` creates no new authorities, and the kubelet renews its own certificate.
NOT_RENEWED = ("ca", "front-proxy-ca", "etcd/ca", "kubelet-client")

_VERSION = re.compile(r"\bv?(\d{1,9}\.\d{1,9}\.\d{1,9})")
_HEADER = re.compile(r"\[{1,2}([^\[\]]+)\]{1,2}\s*(?:#.*)?$")
_PART = re.compile(r"\"[^\"]*\"|'[^']*'|[^.\"'\s]+")
_PAIR = re.compile(r"([A-Za-z0-9_-]+)\s*=\s*(.+)$")


def version_in(text: str) -> str | None:
    """Return the first version in what a program has printed, without a leading v."""
    match = _VERSION.search(text)
    return match.group(1) if match else None


def swaps_in(text: str) -> list[str]:
    """Return the swap devices and files in /proc/swaps (proc(5)), whose first line has titles."""
    return [line.split()[0] for line in text.splitlines()[1:] if line.strip()]


def cgroup_in(mounts: str) -> str | None:
    """Return what is mounted at /sys/fs/cgroup: v2, v1 (also with v2 beside it), or None."""
    for line in mounts.splitlines():
        fields = line.split()
        if len(fields) > 2 and fields[1] == "/sys/fs/cgroup":
            return "v2" if fields[2] == "cgroup2" else "v1"
    return None


def memory_in(meminfo: str) -> int | None:
    """Return the total memory in MiB, from /proc/meminfo."""
    match = re.search(r"(?m)^MemTotal:\s+(\d{1,19}) kB$", meminfo)
    return int(match.group(1)) // 1024 if match else None


def interfaces_in(addresses: t.Sequence[Json]) -> list[dict[str, str]]:
    """Return devices with their global addresses and prefix lengths, from `ip -j address`."""
    return [
        {"device": str(link["ifname"]), "address": "%s/%s" % (address["local"], address["prefixlen"])}
        for link in addresses
        for address in link.get("addr_info") or []
        if address.get("scope") == "global" and "local" in address
    ]


def toml_values(text: str) -> dict[tuple[str, ...], str]:
    """Return the plain values of a TOML file by section and key, as containerd prints its own; no nested values."""
    section: tuple[str, ...] = ()
    values = {}
    for line in text.splitlines():
        line = line.strip()
        header = _HEADER.match(line)
        if header:
            section = tuple(part.strip("\"'") for part in _PART.findall(header.group(1)))
            continue
        pair = _PAIR.match(line)
        if pair:
            values[(*section, pair.group(1))] = pair.group(2).strip("\"'")
    return values


def runtime_in(dump: str) -> Json:
    """Return the settings that matter to a node from `containerd config dump`, of containerd 1.x and 2.x."""
    values = toml_values(dump)
    old, images, runtime = (
        "io.containerd.grpc.v1.cri",
        "io.containerd.cri.v1.images",
        "io.containerd.cri.v1.runtime",
    )

    def first(*keys: tuple[str, ...]) -> str | None:
        return next((values[("plugins", *key)] for key in keys if ("plugins", *key) in values), None)

    runc = ("containerd", "runtimes", "runc", "options", "SystemdCgroup")
    disabled = values.get(("disabled_plugins",), "")
    # containerd 2.1 to 2.3 has both. A bin_dir that is set replaces the default of bin_dirs (ValidateRuntimeConfig in
    # internal/cri/config/config.go), and the dump, which is made before that, has the default all the same.
    directories = first((old, "cni", "bin_dir"), (runtime, "cni", "bin_dir")) or first((runtime, "cni", "bin_dirs"))
    return {
        "cri": not any(name in disabled for name in (old, images, runtime)),
        "systemd_cgroup": first((old, *runc), (runtime, *runc)) == "true",
        "sandbox_image": first((old, "sandbox_image"), (images, "pinned_images", "sandbox")),
        "config_path": first((old, "registry", "config_path"), (images, "registry", "config_path")) or "",
        "cni_bin_dirs": re.findall(r"[\"']?(/[^\"',\]\s]+)", directories or ""),
        "cni_conf_dir": first((old, "cni", "conf_dir"), (runtime, "cni", "conf_dir")),
    }


def conffile_in(output: str, path: str) -> str | None:
    """Return the MD5 of a file as its Debian package ships it, from `dpkg-query -f '${Conffiles}'`."""
    for line in output.splitlines():
        fields = line.split()
        if len(fields) >= 2 and fields[0] == path:
            return fields[1]
    return None


def _yaml_value(text: str, key: str) -> str | None:
    # kubeadm writes kubeconfigs in block style, a key to a line, and nodes have no library for YAML.
    match = re.search(r"(?m)^[ \t-]*%s:[ \t]*[\"']?([^\"'\s]+)[\"']?[ \t]*$" % re.escape(key), text)
    return match.group(1) if match else None


def _decoded(text: str | None) -> str:
    try:
        return base64.b64decode(text or "", validate=True).decode("utf-8", "replace")
    except (binascii.Error, ValueError):
        return ""


class Kubeconfig(t.NamedTuple):
    """The parts of a kubeconfig of kubeadm, without a key. Certificates are PEM, and empty if it has none."""

    server: str | None
    authority: str
    client: str


def kubeconfig_in(text: str) -> Kubeconfig:
    return Kubeconfig(
        _yaml_value(text, "server"),
        _decoded(_yaml_value(text, "certificate-authority-data")),
        _decoded(_yaml_value(text, "client-certificate-data")),
    )


def nodes_in(answer: Json) -> list[Json]:
    """Return the relevant fields of a list of Nodes."""
    return [node_in(node) for node in answer.get("items") or []]


def node_in(node: Json) -> Json:
    meta, status = node["metadata"], node.get("status") or {}
    conditions = {row["type"]: row["status"] for row in status.get("conditions") or []}
    addresses = {row["type"]: row["address"] for row in reversed(status.get("addresses") or [])}
    about = status.get("nodeInfo") or {}
    return {
        "name": meta["name"],
        "version": (about.get("kubeletVersion") or "").lstrip("v") or None,
        "machine_id": about.get("machineID"),
        "ready": conditions.get("Ready") == "True",
        "internal_ip": addresses.get("InternalIP"),
        "pod_cidr": (node.get("spec") or {}).get("podCIDR"),
        "control_plane": "node-role.kubernetes.io/control-plane" in (meta.get("labels") or {}),
    }


def configurations_in(answer: Json) -> dict[str, str | None]:
    """Return the texts of kubeadm's configurations from a list of ConfigMaps."""
    texts = {config_map["metadata"]["name"]: config_map.get("data") or {} for config_map in answer.get("items") or []}
    return {
        "cluster_configuration": texts.get("kubeadm-config", {}).get("ClusterConfiguration"),
        "kubelet_configuration": texts.get("kubelet-config", {}).get("kubelet"),
    }


def api_server_in(manifest: str) -> str | None:
    """Return the address of the API server that kubeadm's manifest starts, as a URL."""
    flags = dict(re.findall(r"--(advertise-address|secure-port)=([0-9A-Fa-f.:]{1,45})", manifest))
    if len(flags) != 2:
        return None
    address = flags["advertise-address"]
    return "https://%s:%s" % ("[%s]" % address if ":" in address else address, flags["secure-port"])


def etcd_dir_in(manifest: str | None) -> str:
    """Return the data directory of etcd from kubeadm's manifest."""
    match = re.search(r"--data-dir=(/[^\s\"'\0]+)", manifest or "")
    return match.group(1) if match else ETCD_DIR


__all__ = (
    "CERTIFICATES",
    "CONF_DIR",
    "ETCD_DIR",
    "KUBECONFIGS",
    "NOT_RENEWED",
    "PARKED",
    "STARTED",
    "Kubeconfig",
    "api_server_in",
    "cgroup_in",
    "conffile_in",
    "configurations_in",
    "etcd_dir_in",
    "interfaces_in",
    "kubeconfig_in",
    "memory_in",
    "node_in",
    "nodes_in",
    "runtime_in",
    "swaps_in",
    "toml_values",
    "version_in",
)
