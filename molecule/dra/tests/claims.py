# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pods with claims, and where their devices are."""

from __future__ import annotations

import contextlib
import typing as t

from ansible_collections.rdmaops.gpu_fabric.molecule.pods.tests import podlab

ON_HOST = ["rxe0", "rxe1"]
# Nobody's user, and nothing beyond what every container has.
PLAIN: podlab.Json = {"securityContext": {"runAsUser": 1000, "allowPrivilegeEscalation": False}}


@contextlib.contextmanager
def pod_with_rail(lab: podlab.PodLab, name: str, node: str, **spec: t.Any) -> t.Iterator[None]:
    """A pod that sleeps, with a claim of rail0; the scheduler puts it on a node, or its claim would not be allocated."""
    container = {"resources": {"claims": [{"name": "rail0"}]}, **spec.pop("container", {})}
    claims = [{"name": "rail0", "resourceClaimTemplateName": "rail0"}]
    selector = {"kubernetes.io/hostname": node}
    with lab.run_pod(
        name, node, rail=False, nodeName=None, nodeSelector=selector, container=container, resourceClaims=claims, **spec
    ):
        yield


def links(lab: podlab.PodLab, pod: str) -> list[tuple[str, str, str]]:
    """Return the RDMA links that a pod sees: device, network device, state."""
    return [(link["ifname"], link.get("netdev", ""), link["state"]) for link in lab.devices(pod)]


def address(lab: podlab.PodLab, node: str) -> str:
    """Return the IPv4 address of rail0 on the host, if it has one."""
    return lab.nodes[node].run("ip -4 -o address show dev rail0 | awk '{print $4}'").stdout.strip()


def until_back(lab: podlab.PodLab, node: str) -> None:
    """Wait until the host has the card with its address and the RDMA device, under their names."""
    lab.wait("the RDMA device is back", lambda: lab.names_on_host(node) == ON_HOST, podlab.POD_S)
    lab.wait("the card has its address", lambda: address(lab, node) == f"10.90.0.{node[-1]}/24", podlab.POD_S)
    audit = lab.module(node, "rdma_audit_info", expected=ON_HOST, settle=5)
    assert {row["status"] for row in audit["resources"]} == {"in_sync"}, audit


__all__ = ["ON_HOST", "PLAIN", "address", "links", "pod_with_rail", "until_back"]
