# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts on which kubeadm was interrupted, or is at work."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.rdmaops.gpu_fabric.tests.unit.plugins.plugin_utils._kubernetes.kubernetes_hosts import (
    OTHER,
    Json,
    cluster,
    host,
    membership,
    node,
    plane_member,
    started,
    worker_member,
)
from ansible_collections.rdmaops.gpu_fabric.tests.unit.plugins.plugin_utils._kubernetes.plans import (
    CONSENT,
    KNOWN,
    decided,
    new_hosts,
    running,
)


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
INITS: dict[str, tuple[Json, Json, Json | None, Json]] = {
    "nothing but keys": ({**EMPTY, "manifests": []}, {}, None, {"action": "init", "clean": True}),
    "no data yet": (EMPTY, {}, None, {"action": "init", "clean": True, "discard_etcd": False}),
    "no data yet, and silence": (EMPTY, {}, SILENT, {"action": "init", "clean": True}),
    "data without consent": (DATA, {}, SILENT, {"action": "refuse", "clean": False}),
    "a whole one that is silent": ({}, {}, SILENT, {"action": "refuse", "clean": False}),
    "a whole one that was not asked": ({}, {}, None, {"action": "refuse", "clean": False}),
    "finished by an administrator": ({}, {"answers": True}, ONE, {"action": "none", "clean": False, "unmark": True}),
    "finished, and ready by the cluster's word alone": ({}, {}, ONE, {"action": "none", "unmark": True}),
    "finished, with etcd elsewhere": (EMPTY, {"answers": True}, ONE, {"action": "none", "clean": False}),
    "ready, and kubeadm-config is missing": ({}, {"answers": True}, cluster(), {"action": "refuse", "clean": False}),
    "it cannot be judged": (EMPTY, {"answers": None}, SILENT, {"action": "refuse", "clean": False}),
    "at work": (EMPTY, {"at_work": True, "answers": None}, None, {"action": "refuse", "clean": False}),
    "at work, as far as can be said": (EMPTY, {"at_work": None}, None, {"action": "refuse", "clean": False}),
    "others have joined": ({}, {}, FINISHED, {"action": "none", "clean": False, "unmark": True}),
}


@pytest.mark.parametrize(("part", "mark", "there", "due"), INITS.values(), ids=INITS)
def test_an_init_that_did_not_come_to_its_end(part: Json, mark: Json, there: Json | None, due: Json) -> None:
    half = {"membership": plane_member("cp-1", started=started("init", **mark), **part), "cluster": there}
    made = decided(new_hosts(cp_1=half))
    assert {name: made["hosts"]["cp-1"][name] for name in due} == due, made["problems"]
    assert bool(made["problems"]) is (due["action"] == "refuse")


def refusal(mark: Json, there: Json | None = SILENT, **part: t.Any) -> str:
    half = {"membership": plane_member("cp-1", started=started("init", **mark), **part), "cluster": there}
    return str(decided(new_hosts(cp_1=half))["problems"][0])


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
    assert "set kubernetes_reset_consent=192.0.2.10:6443 or fabric" in decided(new_hosts(cp_1=half))["problems"][0]
    for consent, action in (("fabric", "init"), ("192.0.2.10:6443", "init"), ("other", "refuse"), ("true", "refuse")):
        made = decided(new_hosts(cp_1=half), reset_consent=consent)
        due = {name: made["hosts"]["cp-1"][name] for name in ("action", "clean", "discard_etcd")}
        assert due == {"action": action, "clean": action == "init", "discard_etcd": action == "init"}
    # A whole one is for kubernetes_state=reset, whatever the consent.
    whole = {"membership": plane_member("cp-1", started=started("init")), "cluster": SILENT}
    assert decided(new_hosts(cp_1=whole), reset_consent="fabric")["hosts"]["cp-1"]["action"] == "refuse"


@pytest.mark.parametrize("action", ["init", "join", "reset", "renew"])
@pytest.mark.parametrize("name", ["cp-1", "gpu-1"])
def test_a_host_on_which_kubeadm_is_at_work(name: str, action: str) -> None:
    """Whatever it has made so far, and whatever is planned for the host."""
    at_work = started(action, at_work=True, answers=None)
    for hosts in (new_hosts(), running()):
        hosts[name]["info"]["membership"]["started"] = at_work
        made = decided(hosts)
        assert made["hosts"][name]["action"] == "refuse"
        assert made["problems"][0].startswith(f"{name}: kubeadm {action} is still at work since")
