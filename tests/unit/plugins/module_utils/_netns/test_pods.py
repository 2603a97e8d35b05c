# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which process is a pod's first one, over a /proc and logs of the kubelet that are given by the test."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._netns.pods import PodError, Process, claims, first
from ansible_collections.rdmaops.gpu_fabric.tests.support.failures import message_of
from ansible_collections.rdmaops.gpu_fabric.tests.support.trees import write_tree

OLD, NEW = "0b5e3a4e-8f0c-4b0e-9a34-4f6f2f4a1c11", "1c6f4b5f-901d-4c1f-8b45-5a70304b2d22"
SANDBOX, MAIN, SIDE = (letter * 64 for letter in "abc")
SYSTEMD = "0::/kubepods.slice/kubepods-pod%s.slice/cri-containerd-%s.scope\n"
CGROUPFS = "11:pids:/kubepods/burstable/pod%s/%s\n1:name=systemd:/kubepods/burstable/pod%s/%s\n"


class Node:
    def __init__(self, path: Path) -> None:
        self.places = {name: path / name for name in ("proc", "logs")}
        for place in self.places.values():
            place.mkdir()

    def pod(self, uid: str, name: str = "ml_train-0") -> Node:
        (self.places["logs"] / f"{name}_{uid}").mkdir()
        return self

    def process(self, pid: int, groups: str, command: str = "python3", state: str = "S", started: int = 0) -> Node:
        stat = f"{pid} ({command}) {state} {'0 ' * 18}{started or pid} 0 0\n"
        write_tree(self.places["proc"] / str(pid), {"cgroup": groups, "stat": stat})
        return self

    def first(self, pod: str = "ml/train-0") -> Process:
        places = {name: str(place) for name, place in self.places.items()}
        return first(pod, **places)


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def scope(uid: str, ident: str, runtime: str = "cri-containerd") -> str:
    return (SYSTEMD % (uid.replace("-", "_"), ident)).replace("cri-containerd", runtime)


@pytest.mark.parametrize(
    "groups",
    [scope(OLD, MAIN), scope(OLD, MAIN, "crio"), scope(OLD, MAIN, "docker"), CGROUPFS % (OLD, MAIN, OLD, MAIN)],
)
def test_every_runtime(node: Node, groups: str) -> None:
    node.pod(OLD).process(1, "0::/init.scope\n", "systemd")
    node.process(70, groups.replace(MAIN, SANDBOX), "pause").process(80, groups)
    assert node.first() == Process(70, 70, OLD)


def test_a_helper_of_the_runtime_is_in_the_hosts_namespaces(node: Node) -> None:
    node.pod(OLD).process(60, scope(OLD, MAIN, "crio-conmon"), "conmon").process(80, scope(OLD, MAIN, "crio"))
    assert node.first().pid == 80


def test_pids_may_have_begun_again(node: Node) -> None:
    node.pod(OLD).process(99, scope(OLD, MAIN), started=5).process(12, scope(OLD, MAIN), "sh", started=7)
    assert node.first().pid == 99


def test_the_pod_of_before_has_logs_only(node: Node) -> None:
    node.pod(OLD).pod(NEW).process(80, scope(NEW, MAIN))
    assert node.first().uid == NEW


SAID: dict[str, tuple[t.Callable[[Node], t.Any], str]] = {
    "no pod": (lambda node: node.pod(OLD, "ml_train-1"), "The kubelet of this host has no pod ml/train-0 ("),
    "no sandbox yet": (
        lambda node: node.pod(OLD),
        "The pod ml/train-0 has no process on this host: its sandbox does not exist yet, or it has ended. Wait until it "
        "is Running",
    ),
    "a zombie": (lambda node: node.pod(OLD).process(80, scope(OLD, MAIN), state="Z"), "has no process on this host"),
    "two": (
        lambda node: node.pod(OLD).pod(NEW).process(80, scope(OLD, MAIN)).process(90, scope(NEW, SIDE)),
        f"There are 2 pods ml/train-0 on this host (UIDs {OLD}, {NEW}): one of them is terminating. Wait until it is gone",
    ),
}


@pytest.mark.parametrize(("prepare", "text"), SAID.values(), ids=SAID)
def test_what_is_missing_is_said(node: Node, prepare: t.Callable[[Node], t.Any], text: str) -> None:
    prepare(node)
    assert text in message_of(PodError, node.first)


@pytest.mark.parametrize("name", ["train-0", "ml/", "/train-0", "ml/train-0/main"])
def test_what_is_no_pod(node: Node, name: str) -> None:
    with pytest.raises(PodError, match=f"'{name}' is not the name of a pod: write NAMESPACE/NAME"):
        node.first(name)


# Of the kubelet 1.37.1, with a pod that has a claim.
STATE = (
    r'{"Data":"{\"kind\":\"DRACheckpoint\",\"apiVersion\":\"checkpoint.dra.kubelet.k8s.io/v1\",\"ClaimInfoStateList\":[{'
    r"\"ClaimUID\":\"0679a941-92d7-4962-b9f0-f7d6887b42f2\",\"ClaimName\":\"hold-1-rail0-nbvdn\",\"Namespace\":\"ml\","
    r'\"PodUIDs\":{\"799c26a5-3e4b-40be-9029-526769ebe7fb\":{}},\"DriverState\":{\"dra.net\":{\"Devices\":null}}}]}",'
    r'"Checksum":1599495379}'
)


def test_claims_of_pods(tmp_path: Path) -> None:
    state = tmp_path / "dra_manager_state"
    state.write_text(STATE)
    assert claims(str(state)) == {"799c26a5-3e4b-40be-9029-526769ebe7fb": ["ml/hold-1-rail0-nbvdn"]}


@pytest.mark.parametrize("text", ["", "{}", '{"Data": "{}"}', '{"Data": 1}', '{"Data": "[]"}'])
def test_a_state_of_another_kubelet_has_no_claims(tmp_path: Path, text: str) -> None:
    state = tmp_path / "dra_manager_state"
    state.write_text(text)
    assert claims(str(state)) == {}
    assert claims(str(tmp_path / "none")) == {}
