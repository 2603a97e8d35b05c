# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A run of distributed data parallel training over both pods, according to its logs."""

from __future__ import annotations

import json

import pytest

from ansible_collections.rdmaops.gpu_fabric.molecule.pods.tests import podlab

LOGS = podlab.EPHEMERAL / "logs"
PODS = ("train-0", "train-1")


def result(pod: str) -> podlab.Json:
    """Return the final values of a rank."""
    lines = [line for line in (LOGS / f"{pod}.log").read_text().splitlines() if " RANK {" in f" {line}"]
    assert len(lines) == 1, lines
    values: podlab.Json = json.loads(lines[0][lines[0].index("{") :])
    return values


def test_it_ended_well_on_two_nodes(lab: podlab.PodLab) -> None:
    assert {lab.pod(pod)["status"]["phase"] for pod in PODS} == {"Succeeded"}
    assert sorted(str(lab.pod(pod)["spec"]["nodeName"]) for pod in PODS) == list(podlab.NODES)


def test_both_ranks_have_the_same_loss() -> None:
    first, second = (result(pod) for pod in PODS)
    assert (first["rank"], second["rank"]) == (0, 1)
    assert first["loss"] == second["loss"] > 0
    assert first["checksum"] == second["checksum"]


@pytest.mark.parametrize("node", podlab.NODES)
def test_the_device_came_back_when_the_pod_had_ended(lab: podlab.PodLab, node: str) -> None:
    lab.wait("the device is back on the host", lambda: lab.names_on_host(node) == ["rxe0", "rxe1"])
