# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The exporter as pods with minimal rights: they see what the service saw, devices in other pods too."""

from __future__ import annotations

import json

import pytest

from ansible_collections.rdmaops.gpu_fabric.molecule.pods.tests import podlab
from ansible_collections.rdmaops.gpu_fabric.tests.support.prometheus import Prometheus


def test_a_pod_on_each_node_and_no_service(lab: podlab.PodLab) -> None:
    label = "app.kubernetes.io/name=rdma-exporter"
    pods = lab.cluster.json("get", "pods", "-n", "rdmaops-system", "-l", label)["items"]
    assert sorted(pod["spec"]["nodeName"] for pod in pods) == list(podlab.NODES)
    for node in podlab.NODES:
        for unit in ("rdma_exporter", "rdma_exporter-look"):
            assert lab.nodes[node].run("systemctl is-active %s", unit).stdout == "inactive\n"


def test_it_sees_devices_of_hosts_and_of_pods(lab: podlab.PodLab, metrics: Prometheus) -> None:
    holders = {
        (row["metric"]["node"], row["metric"]["device"]): row["metric"].get("pod_name", "")
        for row in metrics.until(podlab.ALL_DEVICES, podlab.SCRAPE_S)
    }
    pods = {str(pod["spec"]["nodeName"]): str(pod["metadata"]["name"]) for pod in lab.pods()}
    assert holders == {
        (node, device): name for node in podlab.NODES for device, name in (("rxe0", pods[node]), ("rxe1", ""))
    }
    metrics.until(podlab.NOTHING_UNREADABLE, podlab.SCRAPE_S)
    assert metrics.query("rdma_hw_sent_pkts_total{netns='pod'}")


# CAP_SYS_PTRACE is 19, CAP_SYS_ADMIN 21 (include/uapi/linux/capability.h).
@pytest.mark.parametrize(
    ("container", "user", "capabilities"), [("rdma-exporter", "59879", 0), ("look", "0", 1 << 19 | 1 << 21)]
)
def test_its_containers_have_the_rights_that_they_need_and_no_more(
    lab: podlab.PodLab, container: str, user: str, capabilities: int
) -> None:
    argv = ["exec", "-n", "rdmaops-system", "daemonset/rdma-exporter", "-c", container, "--", "python3", "-c"]
    code = "import json; print(json.dumps(dict(l.split(':', 1) for l in open('/proc/self/status') if ':' in l)))"
    status = {name: text.strip() for name, text in json.loads(lab.cluster.kubectl(*argv, code, limit=180)).items()}
    rights = f"{capabilities:016x}"
    assert status["Uid"].split() == [user] * 4
    assert (status["CapEff"], status["CapBnd"], status["NoNewPrivs"], status["Seccomp"]) == (rights, rights, "1", "2")
