# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Eight rails with nothing to change, in one call, in looks of kubernetes.core.k8s_info at one object."""

from __future__ import annotations

import json
import sys
import typing as t
import uuid

import pytest

from ansible_collections.rdmaops.gpu_fabric.tests.benchmarks.library import BenchmarkError, Case
from ansible_collections.rdmaops.gpu_fabric.tests.benchmarks.nodes import CPU, Place, task, there_and_back
from ansible_collections.rdmaops.gpu_fabric.tests.support import COLLECTION
from ansible_collections.rdmaops.gpu_fabric.tests.support.cluster import Cluster, cluster

RAILS = 8
GOAL = 1.5
DEFINITION = COLLECTION / "roles/secondary_network/files/multus-definitions.yml"


def network_attachment(place: Place) -> list[Case]:
    try:
        plane = cluster()
    except (pytest.skip.Exception, pytest.fail.Exception) as error:
        raise BenchmarkError(str(error)) from None
    plane.kubectl("apply", "--server-side", "-f", str(DEFINITION))
    owner = f"bench-{uuid.uuid4().hex[:8]}"
    with plane.namespace() as namespace:
        return measure(place, plane, owner, namespace)


def measure(place: Place, plane: Cluster, owner: str, namespace: str) -> list[Case]:
    workplace = place.workplace / "network_attachment"
    workplace.mkdir(parents=True, exist_ok=True)
    inventory = workplace / "hosts.json"
    local = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    inventory.write_text(json.dumps({"all": {"hosts": {"here": local}}}))
    here = Place(inventory, "here", place.workplace, None, place.runs)

    def rail(number: int) -> dict[str, t.Any]:
        addresses = {"type": "whereabouts", "range": f"10.200.{number}.0/24"}
        return {"name": f"rail{number}", "type": "host-device", "device": f"eth{number}", "ipam": addresses}

    ours = {
        "kubeconfig": str(plane.kubeconfig),
        "owner": owner,
        "namespace": namespace,
        "attachments": [rail(number) for number in range(RAILS)],
    }
    theirs = {
        "kubeconfig": str(plane.kubeconfig),
        "api_version": "k8s.cni.cncf.io/v1",
        "kind": "NetworkAttachmentDefinition",
        "name": "rail0",
        "namespace": namespace,
    }
    one = task("eight rails", "rdmaops.gpu_fabric.network_attachment", ours)
    other = task("one object", "kubernetes.core.k8s_info", theirs)
    plays = [
        {"name": "prepare", "hosts": "all", "gather_facts": False, "tasks": [one, other]},
        {
            "name": "measure",
            "hosts": "all",
            "gather_facts": False,
            "tasks": there_and_back({**one, "name": "ours"}, {**other, "name": "theirs"}, place.runs),
        },
    ]
    played = here.play(plays, "network_attachment")
    if any(row.changed for row in played.named("ours")):
        raise BenchmarkError("network_attachment has changed something that was in sync")
    title, peer = f"network_attachment, {RAILS} rails in sync", "k8s_info of one"
    cases = [Case(title, "s", played.sample("ours"), peer, played.sample("theirs"), GOAL)]
    worked = played.cpu_sample("ours")
    if worked:
        cases.append(Case(title + CPU, "s", worked, peer, played.cpu_sample("theirs"), GOAL))
    return cases


CASES: dict[str, t.Callable[[Place], list[Case]]] = {"network_attachment": network_attachment}

__all__ = ["CASES"]
