# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.

"""What prevents a host from becoming a node, found before anything is changed. Values in, sentences out.

Limits and names of checks are kubeadm's (cmd/kubeadm/app/preflight/checks.go and constants.go in k8s.io/kubernetes).
"""

from __future__ import annotations

import ipaddress
import re
import typing as t

from . import kubeadm_config as config

Json = t.Mapping[str, t.Any]

CONTROL_PLANE_MIB, CONTROL_PLANE_CPUS = 1700, 2
KUBELET_PORT = 10250
# Besides that of the API server: etcd's two, controller manager, scheduler.
CONTROL_PLANE_PORTS = (2379, 2380, 10257, 10259)
KUBELET_SKEW = 3
# What pod networks leave behind on a host.
_POD_DEVICES = re.compile(r"(lo|cni|pods|cbr|flannel|vxlan\.calico|tunl|cali|cilium|lxc|kube-|nodelocaldns|weave|veth)")
# Processes that an interrupted kubeadm has started.
_OWN = ("kubelet", "etcd", "kube-apiserver", "kube-controller", "kube-scheduler")


def ports(settings: Json, control_plane: bool) -> list[int]:
    """Return the ports that a node needs for itself."""
    return [KUBELET_PORT, *([settings["bind_port"], *CONTROL_PLANE_PORTS] if control_plane else [])]


def skew(settings: Json, programs: Json, source: str) -> list[str]:
    """Return what kubeadm would not allow of the programs that are, or will be, on a host."""
    wanted = config.version(settings["version"])
    if wanted is None:
        return []
    found = []
    if source == "local":
        found = [
            "%s is not installed, and kubernetes_source is local" % name
            for name in ("kubeadm", "kubelet", "kubectl")
            if programs.get(name) is None
        ]
    kubeadm, kubelet = config.version(programs.get("kubeadm")), config.version(programs.get("kubelet"))
    if kubeadm and not 0 <= kubeadm[1] - wanted[1] <= 1:
        found.append(
            "kubeadm %s cannot create a cluster of version %s: it supports its own minor version and the one before"
            % (programs["kubeadm"], settings["version"])
        )
    if kubelet and kubelet[:2] > wanted[:2]:
        found.append(
            "kubelet %s is newer than the API server (%s), which is not supported"
            % (programs["kubelet"], settings["version"])
        )
    elif kubelet and wanted[1] - kubelet[1] > KUBELET_SKEW:
        found.append(
            "kubelet %s is more than %d minor versions older than the API server (%s)"
            % (programs["kubelet"], KUBELET_SKEW, settings["version"])
        )
    return found


def host(settings: Json, node: Json, ignore: t.Sequence[str], least_mib: int, clean: bool) -> list[str]:
    """Return what prevents one host from becoming a node. ``clean``: what kubeadm has left will be removed."""
    seen, about = node["info"]["host"], node["info"]
    kubelet = settings["kubelet"]
    found = []
    if seen["swap"] and kubelet.get("failSwapOn", True):
        found.append(
            "swap is on (%s): switch it off (swapoff -a, /etc/fstab), or set failSwapOn: false in kubernetes_kubelet"
            % ", ".join(seen["swap"])
        )
    if seen["cgroup"] != "v2" and kubelet.get("failCgroupV1", True):
        found.append(
            "/sys/fs/cgroup is %s: kubelets since 1.35 need cgroup2; boot with systemd.unified_cgroup_hierarchy=1"
            % ("cgroup v1" if seen["cgroup"] else "not mounted")
        )
    least = max(least_mib, CONTROL_PLANE_MIB if node["control_plane"] and "Mem" not in ignore else 0)
    if seen["memory_mib"] is None or seen["memory_mib"] < least:
        found.append("it has %s MiB of memory, and %d are needed" % (seen["memory_mib"], least))
    if node["control_plane"] and seen["cpus"] < CONTROL_PLANE_CPUS and "NumCPU" not in ignore:
        found.append("it has %d CPU, and a control-plane node needs %d" % (seen["cpus"], CONTROL_PLANE_CPUS))
    wanted = ports(settings, node["control_plane"])
    for row in about["ports"]:
        own = clean and str(row["command"]).startswith(_OWN)
        if row["port"] in wanted and not own and "Port-%d" % row["port"] not in ignore:
            who = "%s, pid %s" % (row["command"], row["pid"]) if row["pid"] else "a process that could not be seen"
            found.append("port %d is in use (%s)" % (row["port"], who))
    return [*found, *addresses(settings, node)]


def addresses(settings: Json, node: Json) -> list[str]:
    """Return what is wrong with the host's addresses, and where they meet the networks of pods and services."""
    found = []
    try:
        mine = ipaddress.ip_address(node["address"])
    except ValueError:
        return ["kubernetes_address %r is not a valid IP address" % node["address"]]
    rows = [(row["device"], ipaddress.ip_interface(row["address"])) for row in node["info"]["host"]["interfaces"]]
    if mine.is_loopback:
        found.append("kubernetes_address %s is a loopback address, which a node cannot have" % mine)
    elif mine not in [one.ip for _device, one in rows]:
        found.append(
            "kubernetes_address %s is not an address of this host (it has: %s)"
            % (mine, ", ".join(str(one.ip) for _device, one in rows) or "none")
        )
    for name in ("pod_network", "service_network"):
        for network in config.networks(settings[name]):
            found += [
                "%s %s overlaps %s of its device %s" % (name, network, one.network, device)
                for device, one in rows
                if one.version == network.version and one.network.overlaps(network) and not _POD_DEVICES.match(device)
            ]
    return found


def cluster(settings: Json, nodes: t.Mapping[str, Json], avoid: t.Sequence[str]) -> list[str]:
    """Return what is wrong with the hosts side by side, and with the networks."""
    found = []
    for what, values in {
        "the node name": {name: one["name"] for name, one in nodes.items()},
        "the address": {name: one["address"] for name, one in nodes.items()},
        "the machine ID": {name: one["info"]["host"]["machine_id"] for name, one in nodes.items()},
    }.items():
        by_value: dict[t.Any, list[str]] = {}
        for name, value in values.items():
            if value is not None:
                by_value.setdefault(value, []).append(name)
        found += [
            "%s have %s %s in common" % (" and ".join(sorted(names)), what, value)
            for value, names in sorted(by_value.items())
            if len(names) > 1
        ]
    found += [
        "%s: the node name %r is not a valid DNS name (RFC 1123); set kubernetes_node_name" % (name, one["name"])
        for name, one in sorted(nodes.items())
        if not config.is_name(one["name"])
    ]
    for text in avoid:
        try:
            away = ipaddress.ip_network(text, strict=False)
        except ValueError:
            found.append("the network to avoid %r is not a network" % text)
            continue
        for name in ("pod_network", "service_network"):
            found += [
                "%s %s overlaps %s, which is used elsewhere" % (name, one, away)
                for one in config.networks(settings[name])
                if one.version == away.version and one.overlaps(away)
            ]
    for one in config.networks(settings["pod_network"]):
        # The controller manager gives each node a /24, or a /64 of IPv6, by default.
        each = 24 if one.version == 4 else 64
        if one.prefixlen > each or 1 << (each - one.prefixlen) < len(nodes):
            found.append(
                "pod_network %s has room for %d nodes with a /%d each, and there are %d"
                % (one, 0 if one.prefixlen > each else 1 << (each - one.prefixlen), each, len(nodes))
            )
    return found


__all__ = ("addresses", "cluster", "host", "ports", "skew")
