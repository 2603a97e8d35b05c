# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Three machines that have only Debian: what check mode reports, and what is refused before anything is changed."""

from __future__ import annotations

import typing as t

import pytest
from testinfra.host import Host

from ansible_collections.rdmaops.gpu_fabric.molecule.kubernetes.tests import nodelab

Nodes = dict[str, Host]


def untouched(nodes: Nodes) -> None:
    assert sorted(nodes) == sorted(nodelab.NODES)
    for name, node in nodes.items():
        for path in ("/etc/kubernetes", "/etc/containerd", "/usr/local/bin/kubeadm"):
            assert not node.file(path).exists, f"{name}: {path}"


def test_check_mode_reports_what_would_be_done(nodes: Nodes) -> None:
    done = nodelab.play("--check", "--diff")
    assert done.rc == 0, done.output
    assert done.changed > 0
    assert "Create the first control-plane node" in done.output
    untouched(nodes)


# variables of a site, and the message about them
REFUSED: list[tuple[dict[str, t.Any], str]] = [
    ({"kubernetes_pod_range": "10.90.0.0/16"}, "overlaps 10.90.0.0/24 of its device"),
    (
        {"kubernetes_service_range": "10.244.0.0/16"},
        "pod_network 10.244.0.0/16 and service_network 10.244.0.0/16 overlap",
    ),
    ({"kubernetes_version": "1.30.1"}, "older than 1.31"),
    ({"kubernetes_source": "local"}, "kubeadm is not installed, and kubernetes_source is local"),
    ({"kubernetes_min_memory_mib": 65536}, "and 65536 are needed"),
    ({"kubernetes_address": "192.0.2.1"}, "kubernetes_address 192.0.2.1 is not an address of this host"),
    ({"kubernetes_node_name": "same"}, "have the node name same in common"),
]


@pytest.mark.parametrize(("variables", "text"), REFUSED)
def test_refused(nodes: Nodes, variables: dict[str, t.Any], text: str) -> None:
    done = nodelab.play(**variables)
    assert done.rc != 0
    assert text in " ".join(done.output.split()), done.output
    assert done.changed == 0
    untouched(nodes)


def test_swap_and_a_port_in_use_are_reported_together(nodes: Nodes) -> None:
    first, second = nodes["gpu-1"], nodes["gpu-2"]
    first.check_output(
        "dd if=/dev/zero of=/swap bs=1M count=16 status=none; chmod 600 /swap; mkswap -q /swap; swapon /swap"
    )
    second.check_output("setsid -f python3 -m http.server 10250 >/dev/null 2>&1 </dev/null; sleep 5")
    try:
        done = nodelab.play()
        output = " ".join(done.output.split())
        assert done.rc != 0
        assert "gpu-1: swap is on (/swap)" in output
        assert "gpu-2: port 10250 is in use (python3, pid" in output
        assert done.changed == 0
    finally:
        first.check_output("swapoff /swap; rm /swap")
        second.check_output("kill $(ss -Hltnp 'sport = :10250' | sed 's/.*pid=\\([0-9]*\\).*/\\1/')")
    untouched(nodes)
