# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A training job's pods on two nodes of kubeadm's cluster, and the fabric between two that hold their devices."""

from __future__ import annotations

import functools

from ansible_collections.rdmaops.gpu_fabric.molecule.pods.tests import podlab

PODS = ("hold-0", "hold-1")


def test_the_job_was_on_both_nodes(lab: podlab.PodLab) -> None:
    pods = [lab.pod(name) for name in ("train-0", "train-1")]
    assert sorted(pod["spec"]["nodeName"] for pod in pods) == ["gpu-1", "gpu-2"]
    assert {pod["status"]["phase"] for pod in pods} == {"Succeeded"}


def test_each_pod_has_its_device(lab: podlab.PodLab) -> None:
    lab.ready(*PODS)
    for pod in PODS:
        # The service that moves it is late on a busy processor; jobs wait, too (training_job_rdma_wait).
        lab.wait(f"the device is in {pod}", functools.partial(lab.devices, pod))
        (device,) = lab.devices(pod)
        assert (device["ifname"], device["netdev"], device["state"]) == ("rxe0", "net1", "ACTIVE")


def test_the_fabric_between_them(lab: podlab.PodLab) -> None:
    report = lab.verify(*PODS, tests=["rping", "ib_write_bw"])
    assert report["verdict"] == "pass", report
