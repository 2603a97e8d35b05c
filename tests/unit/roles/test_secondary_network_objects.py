# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rights and workloads of Multus and whereabouts, as role secondary_network creates them."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.rdmaops.gpu_fabric.tests.support import COLLECTION
from ansible_collections.rdmaops.gpu_fabric.tests.support.role_values import values

Json = dict[str, t.Any]
DIGEST = "@sha256:" + "ab" * 32
WHEREABOUTS = {
    "secondary_network_source": "manifest",
    "secondary_network_whereabouts_image": "ghcr.io/k8snetworkplumbingwg/whereabouts:v0.9.4" + DIGEST,
}


def objects(**site: t.Any) -> list[Json]:
    return t.cast(
        "list[Json]", values(COLLECTION / "roles/secondary_network").value("__secondary_network_objects", **site)
    )


def rules(name: str, **site: t.Any) -> dict[tuple[str, str], list[str]]:
    (role,) = (item for item in objects(**site) if (item["kind"], item["metadata"]["name"]) == ("ClusterRole", name))
    return {
        (group, resource): rule["verbs"]
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }


@pytest.mark.parametrize("multus", ["thin", "thick"])
def test_multus_may_read_the_devices_of_resource_claims(multus: str) -> None:
    """After 4.3.0, a pod with a claim gets no network without (pkg/draclient/draclient.go of Multus)."""
    given = rules("multus", secondary_network_multus=multus, secondary_network_multus_image="multus" + DIGEST)
    claims = {resource: verbs for (group, resource), verbs in given.items() if group == "resource.k8s.io"}
    assert claims == {"resourceclaims": ["get"], "resourceslices": ["list"]}


def test_addresses_are_freed_with_consent_only() -> None:
    """Since whereabouts 0.9.4, its reconciler is a Deployment of its own, which would free them without."""
    workloads = [item for item in objects(**WHEREABOUTS) if item["kind"] in ("Deployment", "DaemonSet", "CronJob")]
    assert [(item["kind"], item["metadata"]["name"]) for item in workloads] == [("DaemonSet", "whereabouts")]
    (container,) = workloads[0]["spec"]["template"]["spec"]["containers"]
    assert "ip-reconciler" not in " ".join(container["command"])
