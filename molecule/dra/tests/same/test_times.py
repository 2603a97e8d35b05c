# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How long a pod waits for its program, and for an RDMA link. Figures of emulated machines are for comparison only."""

from __future__ import annotations

import datetime
import statistics
import time

import pytest

from ansible_collections.rdmaops.gpu_fabric.molecule.dra.tests import ways
from ansible_collections.rdmaops.gpu_fabric.molecule.pods.tests import podlab

NODE = "gpu-2"
TIMES = 3
# When the program has started, and when there was a link that is up.
WAIT = "date +%s.%N >/run/started; until rdma link | grep -q ACTIVE; do sleep 0.1; done; date +%s.%N >/run/linked; exec sleep infinity"


def offered(lab: podlab.PodLab) -> bool:
    """Return whether the scheduler may give the device out: with claims, whether the node has published it."""
    if ways.way_of(lab) is ways.ATTACHMENTS:
        return True
    rows = lab.cluster.json("get", "resourceslices")["items"]
    devices = [device for row in rows if row["spec"]["nodeName"] == NODE for device in row["spec"].get("devices", [])]
    return ["dra.net/ifName" in device["attributes"] for device in devices] == [True]


def clock(lab: podlab.PodLab) -> float:
    """Return by how much the clock of the node is ahead."""
    before = time.time()
    there = float(lab.nodes[NODE].check_output("date +%s.%N"))
    return there - (before + time.time()) / 2


def seconds(lab: podlab.PodLab, file: str) -> float:
    """Return how long after the pod was created a file was written in it."""
    created = datetime.datetime.fromisoformat(lab.pod("timed")["metadata"]["creationTimestamp"]).timestamp()
    return float(lab.inside("timed", "cat", f"/run/{file}")) - clock(lab) - created


def median(rows: list[float]) -> str:
    return f"{statistics.median(rows):.0f} s ({min(rows):.0f} to {max(rows):.0f})"


def test_from_a_pod_to_rdma(lab: podlab.PodLab, capsys: pytest.CaptureFixture[str]) -> None:
    plain, started, linked = [], [], []
    for _ in range(TIMES):
        with lab.run_pod("timed", NODE, container={"command": ["sh", "-c", WAIT]}):
            lab.ready("timed")
            plain.append(seconds(lab, "started"))
        lab.wait("the device is offered", lambda: offered(lab), podlab.POD_S)
        with ways.pod_with_rail(lab, "timed", NODE, container={"command": ["sh", "-c", WAIT]}):
            lab.ready("timed")
            ways.has_device(lab, "timed")
            started.append(seconds(lab, "started"))
            linked.append(seconds(lab, "linked"))
        ways.until_back(lab, NODE)
    with capsys.disabled():
        print(
            f"\nthe program of a pod without a rail: {median(plain)}; with one: {median(started)}; RDMA: {median(linked)}"
        )
