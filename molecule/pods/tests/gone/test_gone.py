# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The pods are gone, and a pod whose sandbox is killed gets its device again."""

from __future__ import annotations

import contextlib
import json
import threading
import time
import typing as t
import urllib.request

import pytest

from ansible_collections.rdmaops.gpu_fabric.molecule.pods.tests import podlab
from ansible_collections.rdmaops.gpu_fabric.tests.support.prometheus import Prometheus


@pytest.mark.parametrize("node", podlab.NODES)
def test_the_card_and_the_device_are_back(lab: podlab.PodLab, node: str) -> None:
    assert lab.pods() == []
    lab.wait("the device is back on the host", lambda: lab.names_on_host(node) == ["rxe0", "rxe1"])
    assert lab.nodes[node].check_output("basename $(readlink -f /sys/class/net/rail0/device/..)") == podlab.CARD
    audit = lab.module(node, "rdma_audit_info", expected=["rxe0", "rxe1"], settle=5)
    assert {row["status"] for row in audit["resources"]} == {"in_sync"}
    places = {row["name"]: row["live"] for row in audit["resources"]}
    assert (places["rxe0"], places[podlab.CARD]) == ("the host", "rail0 on the host")


@pytest.mark.parametrize("node", podlab.NODES)
def test_prometheus_sees_it_on_the_host_again(metrics: Prometheus, node: str) -> None:
    place = f'rdma_device_info{{node="{node}",device="rxe0",netns="host"}}'
    metrics.until(place, podlab.SCRAPE_S)
    # The last values of the previous Prometheus are shown for five minutes (query.lookback-delta).
    counter = f'rdma_hw_sent_pkts_total{{node="{node}",device="rxe0"}}'
    (series,) = metrics.until(f"{counter} and timestamp({counter}) > time() - 30", podlab.SCRAPE_S)
    assert series["metric"].get("pod_name", "") == ""


def test_no_address_is_left(lab: podlab.PodLab) -> None:
    pools = lab.cluster.json("get", "ippools.whereabouts.cni.cncf.io", "-n", "rdmaops-network")["items"]
    assert [row for pool in pools for row in (pool["spec"].get("allocations") or {}).values()] == []


@contextlib.contextmanager
def scraping(address: str) -> t.Iterator[t.Callable[[], int]]:
    """Scrape a node without a pause, and yield a function that returns how often it has answered."""
    ended = threading.Event()
    answers: list[int] = []

    def scrape() -> None:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        while not ended.is_set():
            with opener.open(f"http://{address}:9879/metrics", timeout=60) as answer:
                answers.append(len(answer.read()))

    thread = threading.Thread(target=scrape, daemon=True)
    thread.start()
    try:
        yield lambda: len(answers)
    finally:
        ended.set()
        thread.join(60)


def test_scrapes_do_not_keep_the_device_of_a_pod_that_is_deleted(lab: podlab.PodLab) -> None:
    """With a grace period the object goes last, after the sandbox: SyncTerminatedPod() in kubernetes' pkg/kubelet/kubelet.go."""
    with lab.run_pod("watched", "gpu-2", rail=podlab.RAIL, terminationGracePeriodSeconds=1):
        lab.ready("watched")
        lab.wait("the device is in the pod", lambda: lab.names_on_host("gpu-2") == ["rxe1"])
        with scraping("10.91.0.2") as answered:
            before = answered()
            lab.cluster.kubectl("delete", "pod", "watched", "-n", podlab.NAMESPACE, "--timeout=120s", limit=150)
            deleted = time.monotonic()
            lab.wait("the device is back", lambda: lab.names_on_host("gpu-2") == ["rxe0", "rxe1"])
            took = time.monotonic() - deleted
            assert answered() > before
    assert took < 5, f"the device was back {took:.1f} s after the pod had gone"


def test_a_pod_whose_sandbox_is_killed_gets_its_device_again(lab: podlab.PodLab) -> None:
    """A pod whose container is killed keeps it: the network namespace is the sandbox's."""
    node = lab.nodes["gpu-1"]

    def space() -> str:
        """Return the name of its network namespace: the kernel reuses the inode of a deleted one."""
        return " ".join(name for name in node.check_output("ls /run/netns").split() if name.startswith("cni-"))

    def at_start(pod: str) -> list[str]:
        return [link["ifname"] for link in json.loads(lab.inside(pod, "cat", podlab.AT_START))]

    def container() -> str:
        return str(lab.pod("again")["status"]["containerStatuses"][0].get("containerID"))

    with lab.run_pod("again", "gpu-1", rail=podlab.RAIL, restartPolicy="Always"):
        lab.ready("again")
        lab.wait("the device is in the pod", lambda: [link["ifname"] for link in lab.devices("again")] == ["rxe0"])
        assert at_start("again") == ["rxe0"]
        first_space, first = space(), container()
        node.check_output("pkill -KILL -f '^sleep infinity'")
        lab.wait("another container runs", lambda: container() != first)
        lab.ready("again")
        second = container()
        assert space() == first_space
        assert [link["ifname"] for link in lab.devices("again")] == ["rxe0"]
        node.check_output("pkill -KILL -x pause")
        lab.wait("the pod has another sandbox", lambda: space() not in ("", first_space), podlab.POD_S)
        lab.wait("a container runs in it", lambda: container() != second, podlab.POD_S)
        lab.ready("again")
        lab.wait(
            "the device is in the new sandbox", lambda: [link["ifname"] for link in lab.devices("again")] == ["rxe0"]
        )
        assert at_start("again") == ["rxe0"]
        assert lab.names_on_host("gpu-1") == ["rxe1"]
    lab.wait("the device is back", lambda: lab.names_on_host("gpu-1") == ["rxe0", "rxe1"])
