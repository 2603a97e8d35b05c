# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.

"""Find what prevents a host from becoming a node, before anything is changed. Values in, sentences out.

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
# In addition to the API server: etcd's two, controller manager, scheduler.
CONTROL_PLANE_PORTS = (2379, 2380, 10257, 10259)
KUBELET_SKEW = 3
# Devices that pod networks leave on a host.
_POD_DEVICES = re.compile(r"(lo|cni|pods|cbr|flannel|vxlan\.calico|tunl|cali|cilium|lxc|kube-|nodelocaldns|weave|veth)")
_CGROUP = (
    "/sys/fs/cgroup is %s: the role installs Kubernetes 1.31 and newer, and kubelets since 1.35 do not start without "
    "cgroup2 (failCgroupV1). Boot with systemd.unified_cgroup_hierarchy=1, or set failCgroupV1: false in "
    "kubernetes_kubelet. If an older Kubernetes runs on such hosts already, set kubernetes_kubeconfig to its "
    "kubeconfig: this role then does nothing, and the other roles use that cluster"
)
# KEP 4033. Up to 1.37, the kubelet uses its own setting (cgroupDriver) if the runtime does not have the call.
_DRIVER_OF_RUNTIME, _CALL_OF_CONTAINERD = (1, 38), (2, 0)
_DRIVER_CHECK = "ContainerRuntimeVersion"
_DRIVER = (
    "kubelet %s does not start with containerd %s: since Kubernetes 1.38, it takes the cgroup driver from the "
    "container runtime (RuntimeConfig of the CRI), and containerd has this call since 2.0. Install containerd 2.0 or "
    "newer (kubernetes_packages names its package), or set kubernetes_version to 1.37 or older. "
    "ContainerRuntimeVersion in kubernetes_ignore_preflight_errors skips this check"
)
# Processes that an interrupted kubeadm has started.
_OWN = ("kubelet", "etcd", "kube-apiserver", "kube-controller", "kube-scheduler")


def ports(settings: Json, control_plane: bool) -> list[int]:
    """Return the ports that a node needs."""
    return [KUBELET_PORT, *([settings["bind_port"], *CONTROL_PLANE_PORTS] if control_plane else [])]


def skew(settings: Json, programs: Json, source: str) -> list[str]:
    """Return what kubeadm does not support in the present or future versions of programs on a host."""
    target = config.version(settings["version"])
    if target is None:
        return []
    problems = []
    if source == "local":
        problems = [
            "%s is not installed, and kubernetes_source is local" % name
            for name in ("kubeadm", "kubelet", "kubectl")
            if programs.get(name) is None
        ]
    kubeadm, kubelet = config.version(programs.get("kubeadm")), config.version(programs.get("kubelet"))
    if kubeadm and not 0 <= kubeadm[1] - target[1] <= 1:
        problems.append(
            "kubeadm %s cannot create a cluster of version %s: it supports its own minor version and the one before"
            % (programs["kubeadm"], settings["version"])
        )
    if kubelet and kubelet[:2] > target[:2]:
        problems.append(
            "kubelet %s is newer than the API server (%s), which is not supported"
            % (programs["kubelet"], settings["version"])
        )
    elif kubelet and target[1] - kubelet[1] > KUBELET_SKEW:
        problems.append(
            "kubelet %s is more than %d minor versions older than the API server (%s)"
            % (programs["kubelet"], KUBELET_SKEW, settings["version"])
        )
    return problems


def runtime(kubelet: t.Any, containerd: t.Any, ignore: t.Sequence[str]) -> list[str]:
    """Return why a kubelet cannot run with a containerd. A version that is unknown prevents nothing."""
    wants, has = config.version(kubelet), config.version(containerd)
    if wants is None or has is None or _DRIVER_CHECK in ignore:
        return []
    if wants[:2] < _DRIVER_OF_RUNTIME or has[:2] >= _CALL_OF_CONTAINERD:
        return []
    return [_DRIVER % (kubelet, containerd)]


def host(settings: Json, node: Json, ignore: t.Sequence[str], least_mib: int, clean: bool) -> list[str]:
    """Return what prevents one host from becoming a node. ``clean``: what kubeadm left will be removed."""
    facts, info = node["info"]["host"], node["info"]
    kubelet = settings["kubelet"]
    problems = []
    if facts["swap"] and kubelet.get("failSwapOn", True):
        problems.append(
            "swap is on (%s): switch it off (swapoff -a, /etc/fstab), or set failSwapOn: false in kubernetes_kubelet"
            % ", ".join(facts["swap"])
        )
    if facts["cgroup"] != "v2" and kubelet.get("failCgroupV1", True):
        problems.append(_CGROUP % ("cgroup v1" if facts["cgroup"] else "not mounted"))
    least = max(least_mib, CONTROL_PLANE_MIB if node["control_plane"] and "Mem" not in ignore else 0)
    if facts["memory_mib"] is None or facts["memory_mib"] < least:
        problems.append("it has %s MiB of memory, and %d are needed" % (facts["memory_mib"], least))
    if node["control_plane"] and facts["cpus"] < CONTROL_PLANE_CPUS and "NumCPU" not in ignore:
        problems.append("it has %d CPU, and a control-plane node needs %d" % (facts["cpus"], CONTROL_PLANE_CPUS))
    node_ports = ports(settings, node["control_plane"])
    for row in info["ports"]:
        own = clean and str(row["command"]).startswith(_OWN)
        if row["port"] in node_ports and not own and "Port-%d" % row["port"] not in ignore:
            process = "%s, pid %s" % (row["command"], row["pid"]) if row["pid"] else "a process that could not be seen"
            problems.append("port %d is in use (%s)" % (row["port"], process))
    return [*problems, *addresses(settings, node)]


def addresses(settings: Json, node: Json) -> list[str]:
    """Return what is wrong with the host's addresses, and their overlaps with the networks of pods and services."""
    problems = []
    try:
        address = ipaddress.ip_address(node["address"])
    except ValueError:
        return ["kubernetes_address %r is not a valid IP address" % node["address"]]
    rows = [(row["device"], ipaddress.ip_interface(row["address"])) for row in node["info"]["host"]["interfaces"]]
    if address.is_loopback:
        problems.append("kubernetes_address %s is a loopback address, which a node cannot have" % address)
    elif address not in [interface.ip for _device, interface in rows]:
        problems.append(
            "kubernetes_address %s is not an address of this host (it has: %s)"
            % (address, ", ".join(str(interface.ip) for _device, interface in rows) or "none")
        )
    for name in ("pod_network", "service_network"):
        for network in config.networks(settings[name]):
            problems += [
                "%s %s overlaps %s of its device %s" % (name, network, interface.network, device)
                for device, interface in rows
                if interface.version == network.version
                and interface.network.overlaps(network)
                and not _POD_DEVICES.match(device)
            ]
    return problems


def cluster(settings: Json, nodes: t.Mapping[str, Json], avoid: t.Sequence[str]) -> list[str]:
    """Return what is wrong with the hosts together, and with the networks."""
    problems = []
    for attribute, values in {
        "the node name": {name: node["name"] for name, node in nodes.items()},
        "the address": {name: node["address"] for name, node in nodes.items()},
        "the machine ID": {name: node["info"]["host"]["machine_id"] for name, node in nodes.items()},
    }.items():
        by_value: dict[t.Any, list[str]] = {}
        for name, value in values.items():
            if value is not None:
                by_value.setdefault(value, []).append(name)
        problems += [
            "%s have %s %s in common" % (" and ".join(sorted(names)), attribute, value)
            for value, names in sorted(by_value.items())
            if len(names) > 1
        ]
    problems += [
        "%s: the node name %r is not a valid DNS name (RFC 1123); set kubernetes_node_name" % (name, node["name"])
        for name, node in sorted(nodes.items())
        if not config.is_name(node["name"])
    ]
    for text in avoid:
        try:
            avoided = ipaddress.ip_network(text, strict=False)
        except ValueError:
            problems.append("the network to avoid %r is not a network" % text)
            continue
        for name in ("pod_network", "service_network"):
            problems += [
                "%s %s overlaps %s, which is used elsewhere" % (name, network, avoided)
                for network in config.networks(settings[name])
                if network.version == avoided.version and network.overlaps(avoided)
            ]
    for network in config.networks(settings["pod_network"]):
        # By default, the controller manager assigns each node a /24, or a /64 of IPv6.
        node_prefix = 24 if network.version == 4 else 64
        if network.prefixlen > node_prefix or 1 << (node_prefix - network.prefixlen) < len(nodes):
            problems.append(
                "pod_network %s has room for %d nodes with a /%d each, and there are %d"
                % (
                    network,
                    0 if network.prefixlen > node_prefix else 1 << (node_prefix - network.prefixlen),
                    node_prefix,
                    len(nodes),
                )
            )
    return problems


__all__ = ("addresses", "cluster", "host", "ports", "runtime", "skew")
