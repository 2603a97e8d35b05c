# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Modules of the cluster with nothing to change, on a real API server, against kubernetes.core's on the same objects."""

from __future__ import annotations

import json
import secrets
import sys
import tempfile
import typing as t
import uuid
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.tests.benchmarks.library import (
    BenchmarkError,
    Case,
    Played,
    Sample,
    limited,
)
from ansible_collections.rdmaops.gpu_fabric.tests.benchmarks.nodes import CPU, Place, task
from ansible_collections.rdmaops.gpu_fabric.tests.support import COLLECTION, charts
from ansible_collections.rdmaops.gpu_fabric.tests.support.cluster import Cluster, cluster, private

RAILS = 8
# One call in looks at one object, and in eight calls: what Ansible itself costs comes eight times there.
GOAL_LOOK = 1.5
GOAL_EIGHT = 0.25
# Seconds, for everything that helm itself cannot see.
LIMIT_LOOK = 1.0
WARM_UP = 1
DEFINITION = COLLECTION / "roles/secondary_network/files/multus-definitions.yml"
API = "k8s.cni.cncf.io/v1"
KIND = "NetworkAttachmentDefinition"
VALUES = {"driver": {"rdma": {"enabled": True}}}
Task = dict[str, t.Any]


def local(place: Place, name: str) -> Place:
    """Return this machine as a place to measure on."""
    workplace = place.workplace / name
    workplace.mkdir(parents=True, exist_ok=True)
    inventory = workplace / "hosts.json"
    variables = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    inventory.write_text(json.dumps({"all": {"hosts": {"here": variables}}}))
    return Place(inventory, "here", place.workplace, None, place.runs)


def in_turn(place: Place, prepare: t.Sequence[Task], tasks: t.Mapping[str, Task], name: str) -> Played:
    """Run tasks in turn, there and back; each is a play, so that what it and its children have worked is known.

    What a task's process has worked is known when the next one starts: therefore the word after it.
    """
    word = task("word", "ansible.builtin.debug", {"msg": "done"})

    def play_of(label: str, title: str) -> dict[str, t.Any]:
        return {"name": title, "hosts": "all", "gather_facts": False, "tasks": [{**tasks[label], "name": title}, word]}

    plays: list[dict[str, t.Any]] = [{"name": "prepare", "hosts": "all", "gather_facts": False, "tasks": list(prepare)}]
    for number in range(WARM_UP + place.runs):
        labels = list(tasks) if number % 2 == 0 else list(tasks)[::-1]
        plays += [play_of(label, label if number >= WARM_UP else "warm up") for label in labels]
    played = place.play(plays, name)
    changed = sorted({label for label in tasks for row in played.named(label) if row.changed})
    if changed:
        raise BenchmarkError(f"{' and '.join(changed)} changed something that was in sync")
    return played


def cases(played: Played, title: str, ours: str, peers: t.Mapping[str, float | None], note: str = "") -> list[Case]:
    """Return the rows of one thing against its peers: seconds of the clock, and of the processor."""
    cases = []
    for peer, goal in peers.items():
        cases.append(Case(title, "s", played.sample(ours), peer, played.sample(peer), goal, note))
        cases.append(Case(title + CPU, "s", worked(played, ours), peer, worked(played, peer), goal))
        note = ""
    return cases


def worked(played: Played, name: str) -> Sample:
    return Sample([play.controller for play in played.plays if play.name == name and play.controller is not None])


def network_attachment(place: Place) -> list[Case]:
    try:
        plane = cluster()
    except (pytest.skip.Exception, pytest.fail.Exception) as error:
        raise BenchmarkError(str(error)) from None
    plane.kubectl("apply", "--server-side", "-f", str(DEFINITION))
    owner = f"bench-{uuid.uuid4().hex[:8]}"
    with plane.namespace() as namespace:
        return attachments(local(place, "network_attachment"), plane, owner, namespace)


def attachments(place: Place, plane: Cluster, owner: str, namespace: str) -> list[Case]:
    """Measure eight rails in one call against one look, against eight calls, and against one call with a list of eight."""
    # A set that a run before this one has left, because it was killed, may have others.
    second = 100 + secrets.randbelow(150)

    def rail(number: int) -> dict[str, t.Any]:
        addresses = {"type": "whereabouts", "range": f"10.{second}.{number}.0/24"}
        return {"name": f"rail{number}", "type": "host-device", "device": f"eth{number}", "ipam": addresses}

    access = {"kubeconfig": str(plane.kubeconfig)}
    wish = {"owner": owner, "namespace": namespace, "attachments": [rail(number) for number in range(RAILS)]}
    ours = task("eight rails", "rdmaops.gpu_fabric.network_attachment", {**access, **wish})
    place.play([{"name": "make", "hosts": "all", "gather_facts": False, "tasks": [ours]}], "network_attachment")
    objects = [bare(body) for body in plane.json("get", "network-attachment-definitions", "-n", namespace)["items"]]
    if len(objects) != RAILS:
        raise BenchmarkError(f"network_attachment has made {len(objects)} of {RAILS} objects")
    look = {"api_version": API, "kind": KIND, "name": "rail0", "namespace": namespace}
    apply = {**access, "state": "present"}
    tasks = {
        "ours": ours,
        "k8s_info of one": task("one", "kubernetes.core.k8s_info", {**access, **look}),
        "eight k8s": {**task("each", "kubernetes.core.k8s", {**apply, "definition": "{{ item }}"}), "loop": objects},
        "k8s with a list": task("all", "kubernetes.core.k8s", {**apply, "definition": objects}),
    }
    tasks["eight k8s"]["loop_control"] = {"label": "{{ item.metadata.name }}"}
    played = in_turn(place, [], tasks, "network_attachment")
    goals: dict[str, float | None] = {"eight k8s": GOAL_EIGHT, "k8s_info of one": GOAL_LOOK, "k8s with a list": None}
    note = "it lints, and finds what others have made; the peers do not"
    return cases(played, f"network_attachment, {RAILS} rails in sync", "ours", goals, note)


def bare(body: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Return an object as a user writes it."""
    metadata = {key: body["metadata"][key] for key in ("name", "namespace", "labels")}
    return {"apiVersion": API, "kind": KIND, "metadata": metadata, "spec": body["spec"]}


def gpu_operator(place: Place) -> list[Case]:
    """Measure a release in sync; the control plane and the chart, of the lab's own, are there for it alone."""
    with tempfile.TemporaryDirectory(prefix="rdmaops-bench-") as directory:
        try:
            with private(Path(directory) / "plane") as plane:
                return release(local(place, "gpu_operator"), plane, charts.packed(Path(directory)))
        except (pytest.skip.Exception, pytest.fail.Exception) as error:
            raise BenchmarkError(str(error)) from None


def release(place: Place, plane: Cluster, chart: Path) -> list[Case]:
    access = {"kubeconfig": str(plane.kubeconfig)}
    helm = str(plane.tool("helm3"))
    wish = {"chart": str(chart), "namespace": "gpu-operator", "create_namespace": True, "values": VALUES, "wait": False}
    theirs = {
        "binary_path": helm,
        "name": "gpu-operator",
        "chart_ref": str(chart),
        "release_namespace": "gpu-operator",
        "create_namespace": True,
        "values": VALUES,
    }
    ours = task("release", "rdmaops.gpu_fabric.gpu_operator", {**access, **wish, "helm_binary": helm})
    tasks = {"ours": ours, "helm": task("release", "kubernetes.core.helm", {**access, **theirs})}
    played = in_turn(place, [ours], tasks, "gpu_operator")
    return looks(played)


def looks(played: Played) -> list[Case]:
    """Return the rows of a look at a release in sync."""
    note = "it renders the chart and compares every live object; the peer compares values and the chart's version"
    title = "gpu_operator, nothing to change, helm 3"
    whole = limited(title, "s", played.sample("ours"), LIMIT_LOOK, note)
    return [whole, *cases(played, title, "ours", {"helm": None})]


CASES: dict[str, t.Callable[[Place], list[Case]]] = {
    "network_attachment": network_attachment,
    "gpu_operator": gpu_operator,
}

__all__ = ["CASES"]
