# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is found before anything is changed."""

from __future__ import annotations

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._kubernetes.plan import Options, plan
from ansible_collections.rdmaops.gpu_fabric.tests.unit.plugins.plugin_utils._kubernetes.kubernetes_hosts import (
    Json,
    settings,
    worker_member,
)
from ansible_collections.rdmaops.gpu_fabric.tests.unit.plugins.plugin_utils._kubernetes.plans import (
    decided,
    new_hosts,
    running,
)


def second(device: str, address: str) -> Json:
    """What is seen of gpu-1 if it has another network device."""
    interfaces = [{"device": "eth0", "address": "192.0.2.11/24"}, {"device": device, "address": address}]
    return {"host": {"interfaces": interfaces}}


CGROUP = (
    "/sys/fs/cgroup is %s: the role installs Kubernetes 1.31 and newer, and kubelets since 1.35 do not start without "
    "cgroup2 (failCgroupV1). Boot with systemd.unified_cgroup_hierarchy=1, or set failCgroupV1: false in "
    "kubernetes_kubelet. If an older Kubernetes runs on such hosts already, set kubernetes_kubeconfig to its "
    "kubeconfig: this role then does nothing, and the other roles use that cluster"
)
# parts of gpu-1 as it was seen, and what is said of it
UNFIT: list[tuple[Json, str]] = [
    ({"host": {"swap": ["/dev/sda2", "/swap"]}}, "swap is on (/dev/sda2, /swap)"),
    ({"host": {"cgroup": "v1"}}, CGROUP % "cgroup v1"),
    ({"host": {"cgroup": None}}, CGROUP % "not mounted"),
    ({"host": {"memory_mib": 512}}, "it has 512 MiB of memory, and 700 are needed"),
    ({"host": {"memory_mib": None}}, "it has None MiB of memory"),
    ({"ports": [{"port": 10250, "pid": 7, "command": "kubelet"}]}, "port 10250 is in use (kubelet, pid 7)"),
    ({"ports": [{"port": 10250, "pid": None, "command": None}]}, "a process that could not be seen"),
    ({"address": "192.0.2.99"}, "kubernetes_address 192.0.2.99 is not an address of this host (it has: 192.0.2.11)"),
    ({"address": "127.0.0.1"}, "is a loopback address"),
    ({"address": "gpu-1"}, "'gpu-1' is not a valid IP address"),
    (second("ib0", "10.244.7.1/24"), "pod_network 10.244.0.0/16 overlaps 10.244.7.0/24 of its device ib0"),
    (second("ib0", "10.96.7.1/8"), "service_network 10.96.0.0/16 overlaps 10.0.0.0/8 of its device ib0"),
]


@pytest.mark.parametrize(("part", "text"), UNFIT)
def test_unfit(part: Json, text: str) -> None:
    made = decided(new_hosts(gpu_1=part))
    assert [line for line in made["problems"] if line.startswith("gpu-1: ") and text in line], made["problems"]
    assert not [line for line in made["problems"] if not line.startswith("gpu-1: ")]


def test_what_pods_leave_behind_is_no_overlap() -> None:
    assert decided(new_hosts(gpu_1=second("cni0", "10.244.7.1/24")))["problems"] == []


def test_what_is_a_node_already_is_not_measured_again() -> None:
    assert decided(running(gpu_1={"membership": worker_member("gpu-1"), "host": {"swap": ["/swap"]}}))["problems"] == []


def test_a_control_plane_needs_more() -> None:
    part = {"host": {"memory_mib": 1500, "cpus": 1}, "ports": [{"port": 2379, "pid": 1, "command": "etcd"}]}
    problems = decided(new_hosts(cp_1=part))["problems"]
    assert len(problems) == 3, problems
    assert "1700 are needed" in problems[0]
    assert "control-plane node needs 2" in problems[1]
    assert "port 2379 is in use (etcd, pid 1)" in problems[2]
    assert decided(new_hosts(cp_1=part), ignore=["Mem", "NumCPU", "Port-2379"])["problems"] == []
    # A worker has a use for neither.
    assert decided(new_hosts(gpu_1={**part, "ports": [{"port": 2379, "pid": 1, "command": "etcd"}]}))["problems"] == []


def test_settings_of_the_kubelet_allow_what_they_say() -> None:
    part = {"host": {"swap": ["/swap"], "cgroup": "v1"}}
    given = settings(kubelet={"failSwapOn": False, "failCgroupV1": False})
    assert plan(new_hosts(gpu_1=part), given, Options())["problems"] == []


RUNTIME = (
    "kubelet 1.38.0 does not start with containerd 1.7.24: since Kubernetes 1.38, it takes the cgroup driver from the "
    "container runtime (RuntimeConfig of the CRI), and containerd has this call since 2.0. Install containerd 2.0 or "
    "newer (kubernetes_packages names its package), or set kubernetes_version to 1.37 or older. "
    "ContainerRuntimeVersion in kubernetes_ignore_preflight_errors skips this check"
)


def test_a_kubelet_that_its_containerd_cannot_serve() -> None:
    hosts = new_hosts(gpu_1={"programs": {"containerd": "1.7.24"}}, gpu_2={"programs": {"containerd": "2.0.0"}})
    refused = plan(hosts, settings(version="1.38.0"), Options())
    assert refused["problems"] == [f"gpu-1: {RUNTIME}"]
    assert plan(hosts, settings(version="1.38.0"), Options(ignore=["ContainerRuntimeVersion"]))["problems"] == []
    assert plan(hosts, settings(version="1.37.2"), Options())["problems"] == []
    # Not installed yet: the role looks again when it is.
    absent = new_hosts(gpu_1={"programs": {"containerd": None}})
    assert plan(absent, settings(version="1.38.0"), Options())["problems"] == []


def test_the_kubelet_that_is_installed_counts_where_it_is_used() -> None:
    older = {**GOOD, "kubeadm": "1.38.0", "kubelet": "1.37.2"}
    hosts = new_hosts(cp_1={"programs": older}, gpu_1={"programs": older}, gpu_2={"programs": older})
    assert plan(hosts, settings(version="1.38.0"), Options(source="local"))["problems"] == []
    newer = {**GOOD, "kubeadm": "1.38.0", "kubelet": "1.38.0"}
    hosts = new_hosts(cp_1={"programs": older}, gpu_1={"programs": newer}, gpu_2={"programs": older})
    assert plan(hosts, settings(version="1.38.0"), Options(source="local"))["problems"] == [f"gpu-1: {RUNTIME}"]


def test_two_of_one_name_address_or_machine() -> None:
    hosts = new_hosts(gpu_1={"name": "gpu-2"})
    assert decided(hosts)["problems"] == ["gpu-1 and gpu-2 have the node name gpu-2 in common"]
    hosts = new_hosts(gpu_1={"host": {"machine_id": f"{12:032x}"}})
    assert "have the machine ID" in decided(hosts)["problems"][0]
    hosts = new_hosts(gpu_1={"name": "GPU_1"})
    assert "'GPU_1' is not a valid DNS name (RFC 1123)" in decided(hosts)["problems"][0]


def test_networks() -> None:
    assert "overlaps 10.244.0.0/14" in decided(new_hosts(), avoid=["10.244.0.0/14"])["problems"][0]
    assert "the network to avoid 'rails' is not a network" in decided(new_hosts(), avoid=["rails"])["problems"][0]
    small = plan(new_hosts(), settings(pod_network="10.244.0.0/23"), Options())
    assert small["problems"] == ["pod_network 10.244.0.0/23 has room for 2 nodes with a /24 each, and there are 3"]
    smaller = plan(new_hosts(), settings(pod_network="10.244.0.0/26"), Options())
    assert "room for 0 nodes" in smaller["problems"][0]
    both = plan(new_hosts(), settings(pod_network="10.96.0.0/17"), Options())
    assert both["problems"] == ["pod_network 10.96.0.0/17 and service_network 10.96.0.0/16 overlap"]
    assert {resource["status"] for resource in both["resources"]} == {"unknown"}


# installed on gpu-1, and what is said of it
SKEW: list[tuple[Json, str]] = [
    ({"kubeadm": None, "kubelet": None, "kubectl": None}, "kubeadm is not installed, and kubernetes_source is local"),
    ({"kubeadm": "1.36.1"}, "kubeadm 1.36.1 cannot create a cluster of version 1.37.1"),
    ({"kubeadm": "1.39.0"}, "kubeadm 1.39.0 cannot create a cluster of version 1.37.1"),
    ({"kubelet": "1.38.0"}, "kubelet 1.38.0 is newer than the API server (1.37.1)"),
    ({"kubelet": "1.33.9"}, "kubelet 1.33.9 is more than 3 minor versions older"),
]
GOOD = {"kubeadm": "1.37.1", "kubelet": "1.37.1", "kubectl": "1.37.1", "containerd": "1.7.24"}


@pytest.mark.parametrize(("part", "text"), SKEW)
def test_version_skew(part: Json, text: str) -> None:
    hosts = new_hosts(cp_1={"programs": GOOD}, gpu_1={"programs": {**GOOD, **part}}, gpu_2={"programs": GOOD})
    problems = decided(hosts, source="local")["problems"]
    assert [problem for problem in problems if problem.startswith("gpu-1: ") and text in problem], problems


def test_versions_that_go_together() -> None:
    older = {**GOOD, "kubelet": "1.34.0", "kubeadm": "1.37.1"}
    hosts = new_hosts(cp_1={"programs": GOOD}, gpu_1={"programs": older}, gpu_2={"programs": GOOD})
    assert decided(hosts, source="local")["problems"] == []


def test_a_kubelet_that_somebody_has_upgraded_too_far() -> None:
    hosts = running(gpu_1={"membership": worker_member("gpu-1"), "programs": {**GOOD, "kubelet": "1.38.0"}})
    assert "newer than the API server" in decided(hosts)["problems"][0]
