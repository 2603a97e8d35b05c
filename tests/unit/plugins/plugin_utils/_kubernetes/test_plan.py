# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is decided about hosts: who is initialized, joins or is left alone, and who is refused, with the remedy."""

from __future__ import annotations

import copy

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._kubernetes.plan import Options, plan
from ansible_collections.rdmaops.gpu_fabric.tests.unit.plugins.plugin_utils._kubernetes.kubernetes_hosts import (
    OTHER,
    Json,
    cluster,
    host,
    kubelet,
    membership,
    node,
    plane_member,
    settings,
    worker_member,
)
from ansible_collections.rdmaops.gpu_fabric.tests.unit.plugins.plugin_utils._kubernetes.plans import (
    CONSENT,
    actions,
    decided,
    new_hosts,
    running,
)


def test_new_hosts() -> None:
    made = decided(new_hosts())
    assert made["problems"] == []
    assert actions(made) == {"cp-1": "init", "gpu-1": "join", "gpu-2": "join"}
    assert (made["leader"], made["joining"], made["joining_control_plane"]) == ("cp-1", ["gpu-1", "gpu-2"], [])
    assert {resource["status"] for resource in made["resources"]} == {"drift"}


def test_a_cluster_that_is_there() -> None:
    hosts = running()
    before = copy.deepcopy(hosts)
    made = decided(hosts)
    assert made["problems"] == []
    assert set(actions(made).values()) == {"none"}
    assert made["differences"] == [] == made["diff"] == made["joining"]
    assert {resource["status"] for resource in made["resources"]} == {"in_sync"}
    assert hosts == before


def test_further_control_plane_nodes_join_by_the_first() -> None:
    made = decided({**running(), "cp-2": host("cp-2", 20, control_plane=True)})
    assert made["problems"] == []
    assert (made["joining"], made["joining_control_plane"]) == (["cp-2"], ["cp-2"])


def test_the_first_host_of_the_group_may_be_lost_and_made_anew() -> None:
    made = decided({"cp-0": host("cp-0", 20, control_plane=True), **running()})
    assert made["problems"] == []
    assert (made["leader"], made["joining_control_plane"]) == ("cp-1", ["cp-0"])


def test_no_cluster_is_begun_while_a_control_plane_host_could_not_be_looked_at() -> None:
    made = decided(new_hosts(), group=["cp-0", "cp-1"])
    assert made["hosts"]["cp-1"]["action"] == "refuse"
    assert "cp-0 could not be checked and may have one" in made["problems"][0]
    assert decided(running(), group=["cp-0", "cp-1"])["problems"] == []


def test_a_kubelet_that_has_not_registered_its_node() -> None:
    made = decided(running(node("cp-1", 10), node("gpu-1", 11)))
    assert actions(made) == {"cp-1": "none", "gpu-1": "none", "gpu-2": "start"}
    made = decided(running(node("gpu-1", 11), node("gpu-2", 12)))
    assert actions(made)["cp-1"] == "start"


def test_a_name_of_a_node_that_is_gone_is_free() -> None:
    old = node("gpu-1", 11, ready=False)
    hosts = running(node("cp-1", 10), old, node("gpu-2", 12), gpu_1={"membership": membership()})
    assert decided(hosts)["problems"] == []


# --- who is refused ---

FOREIGN = {"membership": membership(kubelet=kubelet("gpu-1", OTHER, "198.51.100.1:6443"))}

# hosts, the host that is refused, and what is said of it
REFUSED: list[tuple[dict[str, Json], str, str]] = [
    (running(gpu_1=FOREIGN), "gpu-1", "a node of another cluster (198.51.100.1:6443)"),
    (running(gpu_1=FOREIGN), "gpu-1", CONSENT % ("198.51.100.1:6443", "gpu-1")),
    (new_hosts(gpu_1=FOREIGN), "cp-1", "gpu-1 already belong to one (198.51.100.1:6443)"),
    (
        running(gpu_1={"membership": worker_member("gpu-1", kubelet=kubelet("old"))}),
        "gpu-1",
        "it is in the cluster as old, and not as gpu-1",
    ),
    (
        running(gpu_1={"membership": membership(authority={"fingerprint": OTHER, "pin": "x"})}),
        "gpu-1",
        "kubeadm has left pki/ca.crt and no complete control-plane node",
    ),
    (
        running(gpu_1={"membership": plane_member("gpu-1")}),
        "gpu-1",
        "it is a control-plane node of the cluster but should be a worker",
    ),
    (
        running(node("cp-1", 10), node("gpu-1", 99), node("gpu-2", 12)),
        "gpu-1",
        "the Node gpu-1 of the cluster is another machine",
    ),
    (
        running(node("cp-1", 10), node("gpu-1", 99), gpu_1={"membership": membership()}),
        "gpu-1",
        "a Node gpu-1 is in the cluster and ready",
    ),
    (
        running(cp_1={"cluster": {"reachable": False, "error": "connection refused"}}),
        "cp-1",
        "its API server (192.0.2.10:6443) does not answer: connection refused",
    ),
    (running(cp_1={"cluster": cluster()}), "cp-1", "no ConfigMap kubeadm-config"),
    (running(cp_1={"cluster": None}), "cp-1", "it was not contacted"),
    (
        new_hosts(cp_1={"membership": membership(etcd=True)}),
        "cp-1",
        "kubeadm has left data of etcd and no complete control-plane node",
    ),
    (new_hosts(cp_1={"membership": membership(etcd=True)}), "cp-1", CONSENT % ("fabric", "cp-1")),
]


@pytest.mark.parametrize(("hosts", "name", "text"), REFUSED)
def test_refused(hosts: dict[str, Json], name: str, text: str) -> None:
    made = decided(hosts)
    assert made["hosts"][name]["action"] == "refuse"
    assert [line for line in made["problems"] if line.startswith(name + ": ") and text in line], made["problems"]


def test_a_wish_for_a_control_plane_node_that_is_a_worker() -> None:
    hosts = running()
    hosts["gpu-1"]["control_plane"] = True
    made = decided(hosts)
    assert "it is a worker of the cluster but should be a control-plane node" in made["problems"][0]


def test_hosts_without_a_control_plane() -> None:
    hosts = {name: host for name, host in new_hosts().items() if name != "cp-1"}
    made = decided(hosts)
    assert made["hosts"] == {}
    assert "the hosts of this run include no control-plane host" in made["problems"][0]


# --- what has drifted ---


def test_a_configuration_that_differs() -> None:
    made = plan(running(), settings(version="1.37.2", kubelet={"maxPods": 64}), Options())
    assert [entry["path"] for entry in made["differences"]] == ["kubernetesVersion", "maxPods"]
    assert len(made["problems"]) == 2
    difference = 'kubeadm-config of the cluster has kubernetesVersion "v1.37.1", and "v1.37.2" is wanted'
    assert difference in made["problems"][0]
    before, after = made["diff"][0]["before"], made["diff"][0]["after"]
    assert "kubernetesVersion: v1.37.1\n" in before
    assert "kubernetesVersion: v1.37.2\n" in after
    assert before.replace("v1.37.1", "v1.37.2") == after

    reported = plan(running(), settings(version="1.37.2"), Options(on_difference="report"))
    assert reported["problems"] == []
    (row,) = [resource for resource in reported["resources"] if resource["kind"] == "kubeadm_configuration"]
    assert (row["status"], row["desired"], row["live"]) == ("drift", "v1.37.2", "v1.37.1")


def test_a_configuration_that_is_no_yaml() -> None:
    hosts = running(cp_1={"cluster": cluster(node("cp-1", 10), cluster_configuration="a: b: c")})
    assert "clusterName" in [entry["path"] for entry in decided(hosts)["differences"]]


def certificate(name: str, days: int | None, renewable: bool = True) -> Json:
    return {"name": name, "path": f"/etc/kubernetes/pki/{name}.crt", "days": days, "renewable": renewable}


def test_certificates_that_run_out() -> None:
    rows = [certificate(name, days) for name, days in (("apiserver", 12), ("etcd/server", None), ("ok", 31))]
    rows.insert(1, certificate("ca", 3000, False))
    hosts = running(cp_1={"membership": plane_member("cp-1"), "certificates": rows})
    made = decided(hosts)
    assert made["problems"] == []
    assert [(row["name"], row["days"]) for row in made["certificates"]] == [("apiserver", 12), ("etcd/server", None)]
    assert made["hosts"]["cp-1"]["renew"] is False
    rows = [row for row in made["resources"] if row["kind"] == "certificate"]
    assert {row["name"].rpartition("/")[2]: row["status"] for row in rows} == {
        "apiserver.crt": "drift",
        "ca.crt": "in_sync",
        "server.crt": "unknown",
        "ok.crt": "in_sync",
    }

    chosen = decided(hosts, renew="due")
    assert chosen["hosts"]["cp-1"]["renew"] is True
    assert chosen["hosts"]["gpu-1"]["renew"] is False
    assert decided(hosts, renew="due", renew_before_days=11)["hosts"]["cp-1"]["renew"] is True  # one cannot be read


def test_authorities_are_not_renewed() -> None:
    hosts = running(cp_1={"membership": plane_member("cp-1"), "certificates": [certificate("ca", 3, False)]})
    made = decided(hosts, renew="due")
    assert made["hosts"]["cp-1"]["renew"] is False
    assert made["certificates"][0]["name"] == "ca"


def test_static_pods_that_a_broken_off_renewal_has_taken_down() -> None:
    half = plane_member("cp-1", parked=["kube-scheduler.yaml"])
    assert decided(running(cp_1={"membership": half}))["hosts"]["cp-1"]["unpark"] is True
