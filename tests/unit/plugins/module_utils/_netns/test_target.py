# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Finding the namespace that a device is wanted in."""

from __future__ import annotations

import errno
import os
import typing as t
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._netns import nsfs, pods, target
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._netns.pods import PodError
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._netns.target import TargetError, resolve
from ansible_collections.rdmaops.gpu_fabric.tests.support.failures import message_of
from ansible_collections.rdmaops.gpu_fabric.tests.support.trees import write_tree

A, B = "a" * 64, "a" * 12 + "b" * 52
UID = "0b5e3a4e-8f0c-4b0e-9a34-4f6f2f4a1c11"
SLICE = "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod%s.slice" % UID.replace("-", "_")


@pytest.fixture
def proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A /proc in which every file is a network namespace."""

    def opened(descriptor: int, path: str, _inode: int | None) -> int:
        if os.fstat(descriptor).st_size == 3:
            raise OSError(errno.EINVAL, "it is not a network namespace", path)
        return os.open(f"/proc/self/fd/{descriptor}", os.O_RDONLY)

    monkeypatch.setattr(nsfs, "_opened", opened)
    groups = {
        1: "0::/init.scope\n",
        40: "0::%s/cri-containerd-%s.scope\n" % (SLICE, A),
        41: "0::%s/cri-containerd-%s.scope\n" % (SLICE, A),
        50: "0::/docker/%s\n" % B,
        60: "12:devices:/kubepods/besteffort/pod%s/%s\n0::/\n" % (UID, "c" * 64),
    }
    for pid, text in groups.items():
        stat = "%d (sleep) S %s %d 0\n" % (pid, "0 " * 17 + "0", pid)
        write_tree(tmp_path / str(pid), {"ns/net": "net %d" % pid, "cgroup": text, "stat": stat})
    (tmp_path / "self").mkdir()
    os.remove(tmp_path / "60/ns/net")
    os.link(tmp_path / "1/ns/net", tmp_path / "60/ns/net")
    return tmp_path


def found(kind: str, value: t.Any, proc: Path, **more: t.Any) -> tuple[str, str]:
    namespace = resolve(kind, value, str(proc), **more)
    try:
        assert namespace.inode == os.fstat(namespace.handle).st_ino
        return os.read(namespace.handle, 100).decode(), namespace.text
    finally:
        os.close(namespace.handle)


def test_pid(proc: Path) -> None:
    assert found("pid", 41, proc) == ("net 41", "process 41")
    assert message_of(TargetError, resolve, "pid", 4242, str(proc)) == (
        "No process has the PID 4242 (any longer). A restarted pod has another one: give the pod "
        "or the container instead"
    )


def test_netns_by_name_and_path(proc: Path, tmp_path: Path) -> None:
    names = tmp_path / "netns"
    write_tree(names, {"blue": "net blue", "odd": "odd"})
    assert found("netns", "blue", proc, names=str(names)) == ("net blue", "netns blue")
    assert found("netns", str(names / "blue"), proc) == ("net blue", str(names / "blue"))
    for value, text in {
        "green": "No network namespace is named green; 'ip netns' has: blue, odd. Create it with 'ip netns add "
        "green', or give a path",
        "..": "'..' is not a valid name of a network namespace",
        "": "'' is not a valid name of a network namespace",
        "odd": "%s/odd is not a network namespace" % names,
        "/nowhere/x": "No network namespace at /nowhere/x",
    }.items():
        assert message_of(TargetError, resolve, "netns", value, str(proc), str(names)) == text


@pytest.mark.parametrize("value", [A, "containerd://" + A, "a" * 13])
def test_container(proc: Path, value: str) -> None:
    assert found("container", value, proc) == ("net 40", "container aaaaaaaaaaaa")


def test_container_of_docker(proc: Path) -> None:
    assert found("container", B, proc)[0] == "net 50"


CONTAINERS = [
    ("a" * 12, "Several containers begin with aaaaaaaaaaaa: %s, %s. Give more digits" % (A, B)),
    (
        "f" * 12,
        "No process of this host is in a container with the ID ffffffffffff. Is it running, and on this host? Users' containers "
        "(below user.slice) are not searched: give the PID of one of their processes",
    ),
    ("train-0", "'train-0' is not a valid container ID (12 to 64 hexadecimal digits)"),
    ("aaaa", "'aaaa' is not a valid container ID (12 to 64 hexadecimal digits)"),
    (
        "c" * 64,
        "The container cccccccccccc is in the host's own network namespace (hostNetwork): it already has the host's "
        "devices",
    ),
]


def test_a_users_own_groups_are_no_container_and_no_pod(proc: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process of a user's with a lower PID, in groups that the user has named."""
    user = "0::/user.slice/user-1000.slice/user@1000.service/kubepods.slice%s/cri-containerd-%s.scope\n"
    write_tree(proc / "30", {"ns/net": "net 30", "cgroup": user % (SLICE, A)})
    monkeypatch.setattr(pods, "names", lambda _logs: {UID: ("ml", "train-0")})
    assert found("container", A, proc)[0] == "net 40"
    assert found("pod", "ml/train-0", proc)[0] == "net 40"


@pytest.mark.parametrize(("kind", "value"), [("container", "e" * 64), ("pod", "ml/train-0")])
def test_a_helper_of_cri_o_is_not_in_its_container(
    proc: Path, monkeypatch: pytest.MonkeyPatch, kind: str, value: str
) -> None:
    """conmon is older than the container's first process, and in the host's namespaces."""
    (proc / "1/cgroup").write_text("0::%s/crio-conmon-%s.scope\n" % (SLICE, "e" * 64))
    for pid in (40, 41):
        (proc / str(pid) / "cgroup").write_text("0::%s/crio-%s.scope\n" % (SLICE, "e" * 64))
    monkeypatch.setattr(pods, "names", lambda _logs: {UID: ("ml", "train-0")})
    assert found(kind, value, proc)[0] == "net 40"


@pytest.mark.parametrize("kind", ["container", "pod"])
def test_a_number_that_another_process_has_got(proc: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """The pod's process ends after its cgroup was read, and another one gets its PID."""
    monkeypatch.setattr(pods, "names", lambda _logs: {UID: ("ml", "train-0")})
    module, name = {"container": (target, "_groups"), "pod": (pods, "_processes")}[kind]
    real = getattr(module, name)

    def processes(*args: t.Any) -> list[t.Any]:
        seen = list(real(*args))
        (proc / "40/cgroup").write_text("0::/user.slice/user-1000.slice/session-1.scope\n")
        return seen

    monkeypatch.setattr(module, name, processes)
    with pytest.raises(TargetError, match=r"The processes of .* have just exited"):
        resolve(kind, {"container": A, "pod": "ml/train-0"}[kind], str(proc))


@pytest.mark.parametrize(("value", "text"), CONTAINERS)
def test_containers_that_are_none(proc: Path, value: str, text: str) -> None:
    assert message_of(TargetError, resolve, "container", value, str(proc)) == text


def test_pod(proc: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = {UID: ("ml", "train-0"), "1" * 8 + UID[8:]: ("ml", "ended")}
    monkeypatch.setattr(pods, "names", lambda _logs: known)
    assert found("pod", "ml/train-0", proc) == ("net 40", "pod ml/train-0")
    for value, text in {
        "ml/gone": "The kubelet of this host has no pod ml/gone (/var/log/pods has no directory of it). Create it, and make sure that it runs "
        "on this node",
        "ml/ended": "The pod ml/ended has no process on this host: its sandbox does not exist yet, or it has ended. "
        "Wait until it is Running",
        "train-0": "'train-0' is not the name of a pod: write NAMESPACE/NAME",
        "a/b/c": "'a/b/c' is not the name of a pod: write NAMESPACE/NAME",
        "/x": "'/x' is not the name of a pod: write NAMESPACE/NAME",
    }.items():
        assert message_of(PodError, resolve, "pod", value, str(proc)) == text


def test_two_pods_of_one_name(proc: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A StatefulSet makes the next one while the processes of the last one still end: it is not taken for it."""
    other = "2" * 8 + UID[8:]
    monkeypatch.setattr(pods, "names", lambda _logs: {UID: ("ml", "train-0"), other: ("ml", "train-0")})
    (proc / "41/cgroup").write_text("0::/kubepods/besteffort/pod%s/%s\n" % (other, "d" * 64))
    assert message_of(PodError, resolve, "pod", "ml/train-0", str(proc)) == (
        "There are 2 pods ml/train-0 on this host (UIDs %s, %s): one of them is terminating. Wait until it is gone"
        % (UID, other)
    )


def test_names_of_pods(tmp_path: Path) -> None:
    for name in ("ml_train-0_" + UID, "kube-system_etcd-cp_" + "f" * 32, "junk", "a_b"):
        (tmp_path / name).mkdir()
    assert pods.names(str(tmp_path)) == {UID: ("ml", "train-0"), "f" * 32: ("kube-system", "etcd-cp")}
    assert pods.names(str(tmp_path / "gone")) == {}


def test_the_hosts_own() -> None:
    namespace = target.initial()
    os.close(namespace.handle)
    assert namespace.text == "the host"
    assert namespace.inode in [
        os.stat(f"/proc/{pid}/ns/net").st_ino for pid in (1, 2) if os.access(f"/proc/{pid}/ns/net", 4)
    ]
