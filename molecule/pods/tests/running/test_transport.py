# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the two pods that wait use: nothing, RDMA, or TCP on the network device of their rail."""

from __future__ import annotations

import contextlib
import json
import threading
import time
import typing as t

from ansible_collections.rdmaops.gpu_fabric.molecule.pods.tests import podlab
from ansible_collections.rdmaops.gpu_fabric.tests.support.prometheus import Prometheus

PORT = 5001
RECEIVE = f"import socket; s = socket.create_server(('', {PORT})).accept()[0]\nwhile s.recv(1 << 20): pass"
SEND = f"import socket, sys; s = socket.create_connection((sys.argv[1], {PORT}))\nwhile True: s.sendall(bytes(1 << 16))"
# The receiver may not listen yet.
AGAIN = ["sh", "-c", 'until "$@"; do sleep 1; done', "sh"]
# Seconds: the window of the alert's rates, in which there may be RDMA of an earlier test, its "for", and two scrapes; and
# longer than all looks of a test and that.
ALERT_S = 360.0
LIMIT = 600
BANDWIDTH = ["ib_write_bw", "-d", "rxe0", "-x", "1", "-s", "65536", "-D", str(LIMIT)]
# Of each kind, so that there are twenty.
LOOKS = {"idle": 6, "rdma": 7, "tcp": 7}
ALERT = 'ALERTS{alertname="RdmaUnusedByPod",pod_name=~"hold-.*"}'


def look(lab: podlab.PodLab) -> podlab.Json:
    """What the module says of the job's pods."""
    options: podlab.Json = {
        "namespace": podlab.NAMESPACE,
        "label_selectors": ["rdmaops.gpu-fabric/job=hold"],
        "seconds": 5,
    }
    result = lab.module("control-plane", "transport_info", kubeconfig=str(lab.cluster.kubeconfig), **options)
    assert "transport" in result, result
    return result


@contextlib.contextmanager
def traffic(lab: podlab.PodLab, receiver: list[str], sender: list[str], mark: str) -> t.Iterator[None]:
    """Something that one pod sends to the other, until what has a mark on its command line is killed."""
    (link,) = json.loads(lab.inside("hold-0", "ip", "-j", "-4", "address", "show", "net1"))
    ends = {"hold-0": receiver, "hold-1": [*sender, str(link["addr_info"][0]["local"])]}
    # Not the shell itself.
    kill = f"for i in /proc/[0-9]*; do ! grep -aq '{mark[:-1]}[{mark[-1]}]' $i/cmdline || kill -9 ${{i#/proc/}}; done"

    def run(pod: str) -> None:
        lab.inside(pod, "timeout", str(LIMIT), *ends[pod], check=False, limit=LIMIT + 60)

    def runs(pod: str) -> bool:
        return mark in lab.inside(pod, "sh", "-c", "cat /proc/[0-9]*/cmdline", check=False)

    threads = []
    try:
        for pod in ends:
            threads.append(threading.Thread(target=run, args=(pod,)))
            threads[-1].start()
            end = time.monotonic() + 60
            while not runs(pod):
                assert time.monotonic() < end, f"{mark} does not run in {pod}"
        yield
    finally:
        for pod in ends:
            lab.inside(pod, "sh", "-c", kill, check=False)
        for thread in threads:
            thread.join()


def judged(lab: podlab.PodLab, transport: str) -> list[podlab.Json]:
    return [result for result in (look(lab) for _ in range(LOOKS[transport])) if result["transport"] != transport]


def test_pods_that_wait_are_idle(lab: podlab.PodLab) -> None:
    assert judged(lab, "idle") == []


def test_pods_that_use_tcp_raise_an_alert(lab: podlab.PodLab, metrics: Prometheus) -> None:
    python = ["python3", "-c"]
    with traffic(lab, [*python, RECEIVE], [*AGAIN, *python, SEND], str(PORT)):
        assert judged(lab, "tcp") == []
        metrics.until(f'count({ALERT[:-1]},alertstate="firing"}}) == 2', ALERT_S)


def test_pods_that_use_rdma(lab: podlab.PodLab, metrics: Prometheus) -> None:
    with traffic(lab, BANDWIDTH, [*AGAIN, *BANDWIDTH], "ib_write_bw"):
        assert judged(lab, "rdma") == []
    assert metrics.query(ALERT) == []


def test_a_pod_by_its_name(lab: podlab.PodLab) -> None:
    options: podlab.Json = {"namespace": podlab.NAMESPACE, "name": "hold-0", "seconds": 1}
    result = lab.module("control-plane", "transport_info", kubeconfig=str(lab.cluster.kubeconfig), **options)
    (pod,) = result["pods"]
    assert (pod["pod"], pod["node"], pod["transport"]) == ("ml/hold-0", "gpu-1", "idle")
    assert set(pod["rdma"]) == {"rxe0/1"}
    assert set(pod["netdevs"]) == {"eth0", "net1"}
