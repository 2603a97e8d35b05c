# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the two pods that wait use: nothing, RDMA, or TCP on the network device of their rail."""

from __future__ import annotations

import contextlib
import json
import threading
import typing as t

from ansible_collections.rdmaops.gpu_fabric.molecule.pods.tests import podlab
from ansible_collections.rdmaops.gpu_fabric.tests.support.prometheus import Prometheus

# ADDRESS becomes that of the first pod on the rail.
BANDWIDTH = ["ib_write_bw", "-d", "rxe0", "-x", "1", "-s", "65536", "-D", "600"]
# The receiver may not listen yet.
SENDER = ["sh", "-c", 'until "$@"; do sleep 1; done', "sh", *BANDWIDTH, "ADDRESS"]
# A job whose ranks communicate over TCP although their pods have RDMA devices.
GLOO = [
    *("env", "GLOO_SOCKET_IFNAME=net1", "OMP_NUM_THREADS=1", "python3", "/opt/rdmaops/workload/train.py", "--no-cuda"),
    *("--data-set", "mnist", "--use-dummy-data", "8000", "--batch-size", "8", "--epochs", "1000"),
    *("--test-interval", "1000", "--backend", "gloo", "--world-size", "2", "--master-addr", "ADDRESS", "--rank"),
]
# Seconds: the window of the alert's rates, in which there may be RDMA of an earlier test, its "for", and two scrapes; and
# longer than all looks of a test and that.
ALERT_S = 360.0
LIMIT = 900
# Until an emulated processor has loaded PyTorch.
START_S = 300.0
# Of each kind, so that there are twenty.
LOOKS = {"idle": 6, "rdma": 7, "tcp": 7}
ALERT = 'ALERTS{alertname="RdmaUnusedByPod",pod_name=~"hold-.*"}'


@contextlib.contextmanager
def traffic(lab: podlab.PodLab, transport: str, receiver: list[str], sender: list[str], mark: str) -> t.Iterator[None]:
    """Something that one pod sends to the other, until what has a mark on its command line is killed."""
    (link,) = json.loads(lab.inside("hold-0", "ip", "-j", "-4", "address", "show", "net1"))
    address = str(link["addr_info"][0]["local"])
    ends = {"hold-0": receiver, "hold-1": sender}
    # Not the shell itself.
    kill = f"for i in /proc/[0-9]*; do ! grep -aq '{mark[:-1]}[{mark[-1]}]' $i/cmdline || kill -9 ${{i#/proc/}}; done"

    def run(pod: str) -> None:
        words = [address if word == "ADDRESS" else word for word in ends[pod]]
        lab.inside(pod, "timeout", str(LIMIT), *words, check=False, limit=LIMIT + 60)

    threads = [threading.Thread(target=run, args=(pod,)) for pod in ends]
    try:
        for thread in threads:
            thread.start()
        lab.wait_for_transport("hold", transport, START_S)
        yield
    finally:
        for pod in ends:
            lab.inside(pod, "sh", "-c", kill, check=False)
        for thread in threads:
            thread.join()


def judged(lab: podlab.PodLab, transport: str) -> list[str]:
    return [word for word in (lab.transport("hold") for _ in range(LOOKS[transport])) if word != transport]


def test_pods_that_wait_are_idle(lab: podlab.PodLab) -> None:
    assert judged(lab, "idle") == []


def test_a_gloo_job_raises_an_alert(lab: podlab.PodLab, metrics: Prometheus) -> None:
    with traffic(lab, "tcp", [*GLOO, "0"], [*GLOO, "1"], "mnist"):
        assert judged(lab, "tcp") == []
        metrics.until(f'count({ALERT[:-1]},alertstate="firing"}}) == 2', ALERT_S)


def test_pods_that_use_rdma(lab: podlab.PodLab, metrics: Prometheus) -> None:
    with traffic(lab, "rdma", BANDWIDTH, SENDER, "ib_write_bw"):
        assert judged(lab, "rdma") == []
    assert metrics.query(ALERT) == []


def test_a_pod_by_its_name(lab: podlab.PodLab) -> None:
    options: podlab.Json = {"namespace": podlab.NAMESPACE, "name": "hold-0", "seconds": 1}
    result = lab.module("control-plane", "transport_info", kubeconfig=str(lab.cluster.kubeconfig), **options)
    (pod,) = result["pods"]
    node = lab.pod("hold-0")["spec"]["nodeName"]
    assert (pod["pod"], pod["node"], pod["transport"]) == ("ml/hold-0", node, "idle")
    assert set(pod["rdma"]) == {"rxe0/1"}
    assert set(pod["netdevs"]) == {"eth0", "net1"}
