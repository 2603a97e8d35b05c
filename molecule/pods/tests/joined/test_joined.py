# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Before the collection has prepared anything for pods: check mode works, and the runtime's own limit is too low."""

from __future__ import annotations

import json

import pytest

from ansible_collections.rdmaops.gpu_fabric.molecule.pods.tests import podlab
from ansible_collections.rdmaops.gpu_fabric.tests.lab import tools


def test_nodes_are_ready(lab: podlab.PodLab) -> None:
    for node in podlab.NODES:
        lab.cluster.kubectl("wait", f"node/{node}", "--for=condition=Ready", "--timeout=60s", limit=90)


def test_check_mode_where_no_pod_exists_yet(lab: podlab.PodLab) -> None:
    done = lab.playbook("rdmaops.gpu_fabric.train", "--check", training_job_name="hold", training_job_command=["true"])
    assert done.returncode == 0, done.stdout
    assert lab.pods() == []


def test_with_the_limit_of_the_distribution_registering_fails(lab: podlab.PodLab) -> None:
    """A pod with the host's network has the host's devices, and its container the runtime's RLIMIT_MEMLOCK."""
    node = "gpu-1"
    with lab.run_pod("low", node, hostNetwork=True, container={"securityContext": podlab.AS_USER}):
        lab.ready("low")
        limits = lab.inside("low", "grep", "Max locked memory", "/proc/1/limits").split()
        assert limits[3] == "8388608", limits
        check = lab.memlock("ml/low")
        assert check["ok"] is False
        assert check["error"].startswith(
            "registering 67108864 bytes with rxe0 failed with ENOMEM, RLIMIT_MEMLOCK of the container is 8388608 bytes"
        ), check
        assert "gpu_node_runtime_restart_ok" in check["error"]


@pytest.mark.parametrize(
    ("device", "answer"),
    [
        (podlab.CARD, f"failed to get RDMA device for device ID {podlab.CARD}: no RDMA devices found"),
        ("", '"DeviceID" network configuration attribute is required for rdma CNI'),
    ],
)
def test_rdma_cni_finds_no_device_that_has_no_pci_address(lab: podlab.PodLab, device: str, answer: str) -> None:
    """Therefore soft-RoCE needs secondary_network_rdma_attachment=move: rxe0 is on this very card."""
    node, program = lab.nodes["gpu-1"], "/var/tmp/rdma-cni"
    assert node.ansible("copy", f"src={tools.get('rdma')} dest={program} mode=0755", check=False)["changed"]
    interfaces = [{"name": "rail0", "mac": "02:00:00:00:00:01"}, {"name": "net1", "sandbox": "/run/netns/probe"}]
    config = {
        "cniVersion": "1.0.0",
        "name": "rail0",
        "type": "rdma",
        "prevResult": {"cniVersion": "1.0.0", "interfaces": interfaces, "ips": [], "dns": {}},
        **({"deviceID": device} if device else {}),
    }
    words = "CNI_COMMAND=ADD CNI_CONTAINERID=probe CNI_NETNS=/run/netns/probe CNI_IFNAME=net1 CNI_PATH=/opt/cni/bin"
    node.check_output("ip netns add probe")
    try:
        run = node.run(f"echo %s | {words} {program}", json.dumps(config))
    finally:
        node.check_output(f"ip netns delete probe; rm -f {program}")
    assert (run.rc, json.loads(run.stdout)["msg"]) == (1, answer), run
    assert lab.names_on_host("gpu-1") == ["rxe0", "rxe1"]


def test_a_monitor_that_would_take_a_pods_device_for_dead_is_named(lab: podlab.PodLab) -> None:
    """It still sees the device, which no pod has taken yet."""
    with lab.polled("gpu-1", "rxe0") as answers:
        assert answers == ["there"] * 3
        options: podlab.Json = {
            "nodes": ["gpu-1"],
            "netns_mode": "exclusive",
            "kubeconfig": str(lab.cluster.kubeconfig),
        }
        refused = lab.module("control-plane", "rdma_mode_conflict_info", **options)
    assert refused["failed"]
    assert (
        "is NVSentinel's NIC health monitor, which takes a device that a pod has for one that failed" in refused["msg"]
    )
    assert "Exclude the devices of pods from it (nicExclusionRegex)" in refused["msg"]
