# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is decided about hosts: who is made, who joins, who is left alone, and who is refused with the remedy."""

from __future__ import annotations

import copy
import typing as t

import pytest
import yaml

from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._kubernetes import kubeadm_config as config
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
    started,
    worker_member,
)

ALL = ("cp-1", "gpu-1", "gpu-2")
KNOWN = {
    "cluster_configuration": yaml.safe_dump(config.cluster_configuration(settings())),
    "kubelet_configuration": yaml.safe_dump(config.kubelet_configuration(settings())),
}


def virgin(**more: Json) -> dict[str, Json]:
    """A control-plane host and two others; parts of each are given by its name, with _ for -."""
    return {
        name: host(name, number, control_plane=name.startswith("cp"), **more.get(name.replace("-", "_"), {}))
        for number, name in enumerate(("cp-1", "gpu-1", "gpu-2"), 10)
    }


def running(*nodes: Json, **more: Json) -> dict[str, Json]:
    """The same, where the cluster is there and both others are nodes."""
    there = nodes or (node("cp-1", 10, control_plane=True), node("gpu-1", 11), node("gpu-2", 12))
    given: dict[str, Json] = {
        "cp_1": {"membership": plane_member("cp-1"), "cluster": cluster(*there, **KNOWN)},
        "gpu_1": {"membership": worker_member("gpu-1")},
        "gpu_2": {"membership": worker_member("gpu-2")},
    }
    for name, part in more.items():
        given[name] = {**given[name], **part}
    return virgin(**given)


def actions(made: Json) -> dict[str, str]:
    return {name: one["action"] for name, one in made["hosts"].items()}


def decided(hosts: dict[str, Json], **options: t.Any) -> Json:
    return plan(hosts, settings(), Options(**options))


def test_virgin_hosts() -> None:
    made = decided(virgin())
    assert made["problems"] == []
    assert actions(made) == {"cp-1": "init", "gpu-1": "join", "gpu-2": "join"}
    assert (made["leader"], made["joining"], made["joining_control_plane"]) == ("cp-1", ["gpu-1", "gpu-2"], [])
    assert {one["status"] for one in made["resources"]} == {"drift"}


def test_a_cluster_that_is_there() -> None:
    hosts = running()
    before = copy.deepcopy(hosts)
    made = decided(hosts)
    assert made["problems"] == []
    assert set(actions(made).values()) == {"none"}
    assert made["differences"] == [] == made["diff"] == made["joining"]
    assert {one["status"] for one in made["resources"]} == {"in_sync"}
    assert hosts == before


def test_further_control_plane_nodes_join_by_the_first() -> None:
    hosts = running()
    hosts["cp-2"] = host("cp-2", 20, control_plane=True)
    made = decided(hosts)
    assert made["problems"] == []
    assert (made["joining"], made["joining_control_plane"]) == (["cp-2"], ["cp-2"])


def test_the_first_host_of_the_group_may_be_lost_and_made_anew() -> None:
    hosts = running()
    hosts = {"cp-0": host("cp-0", 20, control_plane=True), **hosts}
    made = decided(hosts)
    assert made["problems"] == []
    assert (made["leader"], made["joining_control_plane"]) == ("cp-1", ["cp-0"])


def test_no_cluster_is_begun_while_a_control_plane_host_could_not_be_looked_at() -> None:
    made = decided(virgin(), group=["cp-0", "cp-1"])
    assert made["hosts"]["cp-1"]["action"] == "refuse"
    assert "cp-0 could not be checked and may have one" in made["problems"][0]
    assert decided(running(), group=["cp-0", "cp-1"])["problems"] == []


# --- what was broken off ---


def test_a_worker_killed_before_it_had_its_identity() -> None:
    """bootstrap-kubelet.conf without kubelet.conf, and the port of a kubelet that tries in vain."""
    left = membership(bootstrapping=True, authority={"fingerprint": OTHER, "pin": "x"}, started=started("join"))
    port = {"port": 10250, "pid": 7, "command": "kubelet"}
    made = decided(running(node("cp-1", 10), node("gpu-2", 12), gpu_1={"membership": left, "ports": [port]}))
    assert made["problems"] == []
    assert (made["hosts"]["gpu-1"]["action"], made["hosts"]["gpu-1"]["clean"]) == ("join", True)
    # Without our mark it is a join of another tool, or of an administrator, which may be at work.
    made = decided(running(node("cp-1", 10), node("gpu-2", 12), gpu_1={"membership": {**left, "started": None}}))
    assert made["hosts"]["gpu-1"]["action"] == "refuse"
    assert "kubeadm has left bootstrap-kubelet.conf, pki/ca.crt" in made["problems"][0]


def test_a_worker_killed_after_it() -> None:
    """kubelet.conf is there, and no Node: kubeadm had not ended, so it is done again."""
    half = worker_member("gpu-1", started=started("join"))
    made = decided(running(node("cp-1", 10), node("gpu-2", 12), gpu_1={"membership": half}))
    assert (made["hosts"]["gpu-1"]["action"], made["hosts"]["gpu-1"]["clean"]) == ("join", True)
    made = decided(running(gpu_1={"membership": half}))
    assert made["hosts"]["gpu-1"]["action"] == "none"
    assert made["hosts"]["gpu-1"]["unmark"] is True


def test_a_control_plane_node_killed_during_its_join() -> None:
    half = plane_member("cp-2", started=started("join"), admin=None)
    hosts = running()
    hosts["cp-2"] = host("cp-2", 20, control_plane=True, membership=half)
    made = decided(hosts)
    assert {name: made["hosts"]["cp-2"][name] for name in ("action", "clean", "discard_etcd")} == {
        "action": "join",
        "clean": True,
        "discard_etcd": True,
    }
    assert made["leader"] == "cp-1"
    # Its API server answers: it is left as it is.
    half["started"]["answers"] = True
    assert decided(hosts)["hosts"]["cp-2"]["clean"] is False


# etcd has data, and of the manifests only its own is there.
DATA: Json = {"manifests": ["etcd.yaml"]}
EMPTY: Json = {"etcd": False}
SILENT: Json = {"reachable": False, "error": "connection refused"}
ONE = cluster(node("cp-1", 10), **KNOWN)
FINISHED = cluster(node("cp-1", 10), node("gpu-1", 11), node("gpu-2", 12), **KNOWN)

# An init that did not come to its end: what is there besides, the mark, what the cluster says, and what is due.
INITS: list[tuple[str, Json, Json, Json | None, Json]] = [
    ("nothing but keys", {**EMPTY, "manifests": []}, {}, None, {"action": "init", "clean": True}),
    ("no data yet", EMPTY, {}, None, {"action": "init", "clean": True, "discard_etcd": False}),
    ("no data yet, and silence", EMPTY, {}, SILENT, {"action": "init", "clean": True}),
    ("data without consent", DATA, {}, SILENT, {"action": "refuse", "clean": False}),
    ("a whole one that is silent", {}, {}, SILENT, {"action": "refuse", "clean": False}),
    ("a whole one that was not asked", {}, {}, None, {"action": "refuse", "clean": False}),
    ("finished by an administrator", {}, {"answers": True}, ONE, {"action": "none", "clean": False, "unmark": True}),
    ("finished, and ready by the cluster's word alone", {}, {}, ONE, {"action": "none", "unmark": True}),
    ("finished, with etcd elsewhere", EMPTY, {"answers": True}, ONE, {"action": "none", "clean": False}),
    ("ready, and kubeadm-config is missing", {}, {"answers": True}, cluster(), {"action": "refuse", "clean": False}),
    ("it cannot be judged", EMPTY, {"answers": None}, SILENT, {"action": "refuse", "clean": False}),
    ("at work", EMPTY, {"at_work": True, "answers": None}, None, {"action": "refuse", "clean": False}),
    ("at work, as far as can be said", EMPTY, {"at_work": None}, None, {"action": "refuse", "clean": False}),
    ("others have joined", {}, {}, FINISHED, {"action": "none", "clean": False, "unmark": True}),
]


@pytest.mark.parametrize(("part", "mark", "there", "due"), [row[1:] for row in INITS], ids=[row[0] for row in INITS])
def test_an_init_that_did_not_come_to_its_end(part: Json, mark: Json, there: Json | None, due: Json) -> None:
    half = {"membership": plane_member("cp-1", started=started("init", **mark), **part), "cluster": there}
    made = decided(virgin(cp_1=half))
    assert {name: made["hosts"]["cp-1"][name] for name in due} == due, made["problems"]
    assert bool(made["problems"]) is (due["action"] == "refuse")


def refusal(mark: Json, there: Json | None = SILENT, **part: t.Any) -> str:
    half = {"membership": plane_member("cp-1", started=started("init", **mark), **part), "cluster": there}
    return str(decided(virgin(cp_1=half))["problems"][0])


def test_what_is_said_of_an_init_that_is_not_done_again() -> None:
    assert refusal({"at_work": True}) == (
        "cp-1: kubeadm init is still at work since 2026-04-01T12:00:00Z, PID 4711. Wait until it has ended "
        "(ps -fp 4711 shows it), and run again"
    )
    assert "names no process" in refusal({"at_work": None})
    assert "kubectl --kubeconfig=/etc/kubernetes/admin.conf get --raw=/readyz shows it" in refusal(
        {"answers": None}, etcd=False
    )
    text = refusal({})
    assert "its API server (192.0.2.10:6443) does not answer: connection refused" in text
    assert CONSENT % ("192.0.2.10:6443", "cp-1") in text


def test_data_of_a_first_node_go_with_consent_alone() -> None:
    half = {"membership": plane_member("cp-1", started=started("init"), **DATA), "cluster": SILENT}
    assert "set kubernetes_reset_consent=192.0.2.10:6443 or fabric" in decided(virgin(cp_1=half))["problems"][0]
    for consent, action in (("fabric", "init"), ("192.0.2.10:6443", "init"), ("other", "refuse"), ("true", "refuse")):
        made = decided(virgin(cp_1=half), reset_consent=consent)
        due = {name: made["hosts"]["cp-1"][name] for name in ("action", "clean", "discard_etcd")}
        assert due == {"action": action, "clean": action == "init", "discard_etcd": action == "init"}
    # A whole one is for kubernetes_state=reset, whatever the consent.
    whole = {"membership": plane_member("cp-1", started=started("init")), "cluster": SILENT}
    assert decided(virgin(cp_1=whole), reset_consent="fabric")["hosts"]["cp-1"]["action"] == "refuse"


@pytest.mark.parametrize("action", ["init", "join", "reset", "renew"])
@pytest.mark.parametrize("name", ["cp-1", "gpu-1"])
def test_a_host_on_which_kubeadm_is_at_work(name: str, action: str) -> None:
    """Whatever it has made so far, and whatever is planned for the host."""
    at_work = started(action, at_work=True, answers=None)
    for hosts in (virgin(), running()):
        hosts[name]["info"]["membership"]["started"] = at_work
        made = decided(hosts)
        assert made["hosts"][name]["action"] == "refuse"
        assert made["problems"][0].startswith(f"{name}: kubeadm {action} is still at work since")


def test_a_kubelet_that_has_not_registered_its_node() -> None:
    made = decided(running(node("cp-1", 10), node("gpu-1", 11)))
    assert actions(made) == {"cp-1": "none", "gpu-1": "none", "gpu-2": "start"}
    made = decided(running(node("gpu-1", 11), node("gpu-2", 12)))
    assert actions(made)["cp-1"] == "start"


def test_a_name_of_a_node_that_is_gone_is_free() -> None:
    old = node("gpu-1", 11, ready=False)
    assert (
        decided(running(node("cp-1", 10), old, node("gpu-2", 12), gpu_1={"membership": membership()}))["problems"] == []
    )


# --- who is refused ---

FOREIGN = {"membership": membership(kubelet=kubelet("gpu-1", OTHER, "198.51.100.1:6443"))}
CONSENT = "-e kubernetes_state=reset -e kubernetes_reset_consent=%s --limit %s"

# hosts, the host that is refused, and what is said of it
REFUSED: list[tuple[dict[str, Json], str, str]] = [
    (running(gpu_1=FOREIGN), "gpu-1", "a node of another cluster (198.51.100.1:6443)"),
    (running(gpu_1=FOREIGN), "gpu-1", CONSENT % ("198.51.100.1:6443", "gpu-1")),
    (virgin(gpu_1=FOREIGN), "cp-1", "gpu-1 already belong to one (198.51.100.1:6443)"),
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
        virgin(cp_1={"membership": membership(etcd=True)}),
        "cp-1",
        "kubeadm has left data of etcd and no complete control-plane node",
    ),
    (
        virgin(cp_1={"membership": membership(etcd=True)}),
        "cp-1",
        CONSENT % ("fabric", "cp-1"),
    ),
]


@pytest.mark.parametrize(("hosts", "name", "text"), REFUSED)
def test_refused(hosts: dict[str, Json], name: str, text: str) -> None:
    made = decided(hosts)
    assert made["hosts"][name]["action"] == "refuse"
    assert [one for one in made["problems"] if one.startswith(name + ": ") and text in one], made["problems"]


def test_a_wish_for_a_control_plane_node_that_is_a_worker() -> None:
    hosts = running()
    hosts["gpu-1"]["control_plane"] = True
    made = decided(hosts)
    assert "it is a worker of the cluster but should be a control-plane node" in made["problems"][0]


def test_hosts_without_a_control_plane() -> None:
    hosts = {name: one for name, one in virgin().items() if name != "cp-1"}
    made = decided(hosts)
    assert made["hosts"] == {}
    assert "the hosts of this run include no control-plane host" in made["problems"][0]


# --- what is found before anything is changed ---

# parts of gpu-1 as it was seen, and what is said of it
UNFIT: list[tuple[Json, str]] = [
    ({"host": {"swap": ["/dev/sda2", "/swap"]}}, "swap is on (/dev/sda2, /swap)"),
    ({"host": {"cgroup": "v1"}}, "/sys/fs/cgroup is cgroup v1"),
    ({"host": {"cgroup": None}}, "/sys/fs/cgroup is not mounted"),
    ({"host": {"memory_mib": 512}}, "it has 512 MiB of memory, and 700 are needed"),
    ({"host": {"memory_mib": None}}, "it has None MiB of memory"),
    ({"ports": [{"port": 10250, "pid": 7, "command": "kubelet"}]}, "port 10250 is in use (kubelet, pid 7)"),
    ({"ports": [{"port": 10250, "pid": None, "command": None}]}, "a process that could not be seen"),
    ({"address": "192.0.2.99"}, "kubernetes_address 192.0.2.99 is not an address of this host (it has: 192.0.2.11)"),
    ({"address": "127.0.0.1"}, "is a loopback address"),
    ({"address": "gpu-1"}, "'gpu-1' is not a valid IP address"),
    (
        {
            "host": {
                "interfaces": [
                    {"device": "eth0", "address": "192.0.2.11/24"},
                    {"device": "ib0", "address": "10.244.7.1/24"},
                ]
            }
        },
        "pod_network 10.244.0.0/16 overlaps 10.244.7.0/24 of its device ib0",
    ),
    (
        {
            "host": {
                "interfaces": [
                    {"device": "eth0", "address": "192.0.2.11/24"},
                    {"device": "ib0", "address": "10.96.7.1/8"},
                ]
            }
        },
        "service_network 10.96.0.0/16 overlaps 10.0.0.0/8 of its device ib0",
    ),
]


@pytest.mark.parametrize(("part", "text"), UNFIT)
def test_unfit(part: Json, text: str) -> None:
    made = decided(virgin(gpu_1=part))
    assert [one for one in made["problems"] if one.startswith("gpu-1: ") and text in one], made["problems"]
    assert not [one for one in made["problems"] if not one.startswith("gpu-1: ")]


def test_what_pods_leave_behind_is_no_overlap() -> None:
    part = {
        "host": {
            "interfaces": [
                {"device": "eth0", "address": "192.0.2.11/24"},
                {"device": "cni0", "address": "10.244.7.1/24"},
            ]
        }
    }
    assert decided(virgin(gpu_1=part))["problems"] == []


def test_what_is_a_node_already_is_not_measured_again() -> None:
    assert decided(running(gpu_1={"membership": worker_member("gpu-1"), "host": {"swap": ["/swap"]}}))["problems"] == []


def test_a_control_plane_needs_more() -> None:
    part = {"host": {"memory_mib": 1500, "cpus": 1}, "ports": [{"port": 2379, "pid": 1, "command": "etcd"}]}
    found = decided(virgin(cp_1=part))["problems"]
    assert len(found) == 3, found
    assert "1700 are needed" in found[0]
    assert "control-plane node needs 2" in found[1]
    assert "port 2379 is in use (etcd, pid 1)" in found[2]
    assert decided(virgin(cp_1=part), ignore=["Mem", "NumCPU", "Port-2379"])["problems"] == []
    # A worker has a use for neither.
    assert decided(virgin(gpu_1={**part, "ports": [{"port": 2379, "pid": 1, "command": "etcd"}]}))["problems"] == []


def test_settings_of_the_kubelet_allow_what_they_say() -> None:
    part = {"host": {"swap": ["/swap"], "cgroup": "v1"}}
    given = settings(kubelet={"failSwapOn": False, "failCgroupV1": False})
    assert plan(virgin(gpu_1=part), given, Options())["problems"] == []


def test_two_of_one_name_address_or_machine() -> None:
    hosts = virgin(gpu_1={"name": "gpu-2"})
    assert decided(hosts)["problems"] == ["gpu-1 and gpu-2 have the node name gpu-2 in common"]
    hosts = virgin(gpu_1={"host": {"machine_id": f"{12:032x}"}})
    assert "have the machine ID" in decided(hosts)["problems"][0]
    hosts = virgin(gpu_1={"name": "GPU_1"})
    assert "'GPU_1' is not a valid DNS name (RFC 1123)" in decided(hosts)["problems"][0]


def test_networks() -> None:
    assert "overlaps 10.244.0.0/14" in decided(virgin(), avoid=["10.244.0.0/14"])["problems"][0]
    assert "the network to avoid 'rails' is not a network" in decided(virgin(), avoid=["rails"])["problems"][0]
    small = plan(virgin(), settings(pod_network="10.244.0.0/23"), Options())
    assert small["problems"] == ["pod_network 10.244.0.0/23 has room for 2 nodes with a /24 each, and there are 3"]
    smaller = plan(virgin(), settings(pod_network="10.244.0.0/26"), Options())
    assert "room for 0 nodes" in smaller["problems"][0]
    both = plan(virgin(), settings(pod_network="10.96.0.0/17"), Options())
    assert both["problems"] == ["pod_network 10.96.0.0/17 and service_network 10.96.0.0/16 overlap"]
    assert {one["status"] for one in both["resources"]} == {"unknown"}


# installed on gpu-1, and what is said of it
SKEW: list[tuple[Json, str]] = [
    ({"kubeadm": None, "kubelet": None, "kubectl": None}, "kubeadm is not installed, and kubernetes_source is local"),
    ({"kubeadm": "1.35.1"}, "kubeadm 1.35.1 cannot create a cluster of version 1.36.3"),
    ({"kubeadm": "1.38.0"}, "kubeadm 1.38.0 cannot create a cluster of version 1.36.3"),
    ({"kubelet": "1.37.0"}, "kubelet 1.37.0 is newer than the API server (1.36.3)"),
    ({"kubelet": "1.32.9"}, "kubelet 1.32.9 is more than 3 minor versions older"),
]
GOOD = {"kubeadm": "1.36.3", "kubelet": "1.36.3", "kubectl": "1.36.3", "containerd": "1.7.24"}


@pytest.mark.parametrize(("part", "text"), SKEW)
def test_version_skew(part: Json, text: str) -> None:
    hosts = virgin(cp_1={"programs": GOOD}, gpu_1={"programs": {**GOOD, **part}}, gpu_2={"programs": GOOD})
    found = decided(hosts, source="local")["problems"]
    assert [one for one in found if one.startswith("gpu-1: ") and text in one], found


def test_versions_that_go_together() -> None:
    older = {**GOOD, "kubelet": "1.33.0", "kubeadm": "1.37.1"}
    hosts = virgin(cp_1={"programs": GOOD}, gpu_1={"programs": older}, gpu_2={"programs": GOOD})
    assert decided(hosts, source="local")["problems"] == []


def test_a_kubelet_that_somebody_has_upgraded_too_far() -> None:
    hosts = running(gpu_1={"membership": worker_member("gpu-1"), "programs": {**GOOD, "kubelet": "1.37.0"}})
    assert "newer than the API server" in decided(hosts)["problems"][0]


# --- what has drifted ---


def test_a_configuration_that_differs() -> None:
    made = plan(running(), settings(version="1.36.4", kubelet={"maxPods": 64}), Options())
    assert [one["path"] for one in made["differences"]] == ["kubernetesVersion", "maxPods"]
    assert len(made["problems"]) == 2
    assert (
        'kubeadm-config of the cluster has kubernetesVersion "v1.36.3", and "v1.36.4" is wanted' in made["problems"][0]
    )
    before, after = made["diff"][0]["before"], made["diff"][0]["after"]
    assert "kubernetesVersion: v1.36.3\n" in before
    assert "kubernetesVersion: v1.36.4\n" in after
    assert before.replace("v1.36.3", "v1.36.4") == after

    reported = plan(running(), settings(version="1.36.4"), Options(on_difference="report"))
    assert reported["problems"] == []
    (row,) = [one for one in reported["resources"] if one["kind"] == "kubeadm_configuration"]
    assert (row["status"], row["desired"], row["live"]) == ("drift", "v1.36.4", "v1.36.3")


def test_a_configuration_that_is_no_yaml() -> None:
    hosts = running(cp_1={"cluster": cluster(node("cp-1", 10), cluster_configuration="a: b: c")})
    assert "clusterName" in [one["path"] for one in decided(hosts)["differences"]]


def certificate(name: str, days: int | None, renewable: bool = True) -> Json:
    return {"name": name, "path": f"/etc/kubernetes/pki/{name}.crt", "days": days, "renewable": renewable}


def test_certificates_that_run_out() -> None:
    rows = [
        certificate("apiserver", 12),
        certificate("ca", 3000, False),
        certificate("etcd/server", None),
        certificate("ok", 31),
    ]
    hosts = running(cp_1={"membership": plane_member("cp-1"), "certificates": rows})
    made = decided(hosts)
    assert made["problems"] == []
    assert [(one["name"], one["days"]) for one in made["certificates"]] == [("apiserver", 12), ("etcd/server", None)]
    assert made["hosts"]["cp-1"]["renew"] is False
    states = {
        one["name"].rpartition("/")[2]: one["status"] for one in made["resources"] if one["kind"] == "certificate"
    }
    assert states == {"apiserver.crt": "drift", "ca.crt": "in_sync", "server.crt": "unknown", "ok.crt": "in_sync"}

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
