# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The ways by which pods get the rail, and where its devices are."""

from __future__ import annotations

import contextlib
import typing as t

from ansible_collections.rdmaops.gpu_fabric.molecule.pods.tests import podlab

ON_HOST = ["rxe0", "rxe1"]
# Nobody's user, and nothing beyond what every container has.
PLAIN: podlab.Json = {"securityContext": {"runAsUser": 1000, "allowPrivilegeEscalation": False}}
TRAIN = "rdmaops.gpu_fabric.train"


class Way(t.NamedTuple):
    """What a pod has: the name of the network device, the beginning of its address; and what a job asks by."""

    netdev: str
    network: str
    job: podlab.Json

    def asked_by(self, pod: str) -> str:
        """Return what rdma_audit_info says after the pod's name, or the beginning of it."""
        return f", by the claim ml/{pod}-rail0-" if self is CLAIMS else ""


CLAIMS = Way("rail0", "10.90.0.", {"claims": ["rail0"]})
# In /dev/infiniband of an unprivileged pod there would be nothing.
ATTACHMENTS = Way("net1", "10.200.", {"networks": ["ml/rail0"], "privileged": True})


def way_of(lab: podlab.PodLab) -> Way:
    """Return the way that the cluster has now."""
    return CLAIMS if lab.cluster.json("get", "resourceclaimtemplates", "-n", "ml")["items"] else ATTACHMENTS


@contextlib.contextmanager
def pod_with_rail(lab: podlab.PodLab, name: str, node: str, **spec: t.Any) -> t.Iterator[None]:
    """A pod that sleeps, with rail0."""
    if way_of(lab) is CLAIMS:
        # The scheduler puts it on a node, or its claim would not be allocated.
        spec["nodeName"], spec["nodeSelector"] = None, {"kubernetes.io/hostname": node}
        spec["container"] = {"resources": {"claims": [{"name": "rail0"}]}, **spec.get("container", {})}
        spec["resourceClaims"] = [{"name": "rail0", "resourceClaimTemplateName": "rail0"}]
        rail = ""
    else:
        rail = "ml/rail0"
    with lab.run_pod(name, node, rail, **spec):
        yield


def links(lab: podlab.PodLab, pod: str) -> list[tuple[str, str, str]]:
    """Return the RDMA links that a pod sees: device, network device, state."""
    return [(link["ifname"], link.get("netdev", ""), link["state"]) for link in lab.devices(pod)]


def has_device(lab: podlab.PodLab, pod: str) -> None:
    """Wait until a pod has the device; the service of the node brings it a moment after the network device."""
    expected = [("rxe0", way_of(lab).netdev, "ACTIVE")]
    lab.wait(f"{pod} has the RDMA device", lambda: links(lab, pod) == expected)


def address(lab: podlab.PodLab, node: str) -> str:
    """Return the IPv4 address of rail0 on the host, if it has one."""
    return lab.nodes[node].run("ip -4 -o address show dev rail0 | awk '{print $4}'").stdout.strip()


def until_back(lab: podlab.PodLab, node: str) -> None:
    """Wait until the host has the card with its address and the RDMA device, under their names."""
    lab.wait("the RDMA device is back", lambda: lab.names_on_host(node) == ON_HOST, podlab.POD_S)
    lab.wait("the card has its address", lambda: address(lab, node) == f"10.90.0.{node[-1]}/24", podlab.POD_S)
    audit = lab.module(node, "rdma_audit_info", expected=ON_HOST, settle=5)
    assert {row["status"] for row in audit["resources"]} == {"in_sync"}, audit


def job(lab: podlab.PodLab, **more: t.Any) -> podlab.Json:
    """Return the variables of a job whose two workers have the rail."""
    variables = {"name": "train", "workers": 2, **way_of(lab).job, **more}
    return {f"training_job_{key}": value for key, value in variables.items()}


__all__ = [
    "ATTACHMENTS",
    "CLAIMS",
    "ON_HOST",
    "PLAIN",
    "TRAIN",
    "Way",
    "address",
    "has_device",
    "job",
    "links",
    "pod_with_rail",
    "until_back",
    "way_of",
]
