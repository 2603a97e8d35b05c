# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Finding network namespaces in a /proc that is given by the test. Real ones: tests/integration/exporter."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._netns import quick_survey as module
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._netns.quick_survey import spaces
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._netns.survey import Holder, Unreadable

UID = "11111111-2222-3333-4444-555555555555"
POD = f"0::/kubepods.slice/kubepods-pod{UID.replace('-', '_')}.slice/cri-containerd-1.scope\n"


class Proc:
    """A /proc whose namespaces are files, linked to by their inodes as the kernel spells them."""

    def __init__(self, root: Path) -> None:
        self.root = root / "proc"
        self.files = root / "namespaces"
        self.names = self.root / "1/root/run/netns"
        for place in (self.files, self.names):
            place.mkdir(parents=True)

    def namespace(self, name: str) -> int:
        file = self.files / name
        file.touch()
        return file.stat().st_ino

    def process(self, pid: str, name: str, cgroup: str = "0::/init.scope\n", started: int = 30) -> None:
        inode = self.namespace(name)
        place = self.root / pid / "ns"
        place.mkdir(parents=True, exist_ok=True)
        os.link(self.files / name, place / f"net:[{inode}]")
        (place / "net").symlink_to(f"net:[{inode}]")
        (self.root / pid / "cgroup").write_text(cgroup)
        (self.root / pid / "stat").write_text(f"{pid} (sh) S 1 1 1 0 -1 0 0 0 0 0 0 1 0 0 20 0 1 0 {started} 0 0")

    def named(self, title: str, name: str) -> None:
        self.namespace(name)
        os.link(self.files / name, self.names / title)


@pytest.fixture
def proc(tmp_path: Path) -> Proc:
    made = Proc(tmp_path)
    for pid in ("self", "1", "2"):
        made.process(pid, "host")
    return made


def test_by_processes_and_names(proc: Proc) -> None:
    proc.process("30", "pod", POD)
    proc.process("31", "pod", POD)
    proc.named("cni-1", "pod")
    proc.named("lab", "lab")
    (proc.root / "40").mkdir()  # a process that is ending
    result = spaces(str(proc.root))
    assert result.initial == result.own == proc.namespace("host")
    assert result.unreadable == []
    pod, lab = (
        next(space for space in result.others if space.inode == proc.namespace(name)) for name in ("pod", "lab")
    )
    assert len(result.others) == 2
    assert (pod.name, pod.holders_total) == ("cni-1", 3)
    assert [(holder.kind, holder.pid, holder.pod) for holder in pod.holders] == [
        ("process", 30, {"uid": UID}),
        ("process", 31, {"uid": UID}),
        ("mount", 1, None),
    ]
    assert [holder.started for holder in pod.holders] == [30, 30, None]
    assert lab.holders == [Holder("mount", "/run/netns/lab", 1, "", None, None)]


def test_a_number_that_another_process_has_got(proc: Proc, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is said of a process is of one process: its namespace is looked at again when its pod is known."""
    proc.process("30", "pod", POD)
    real = os.readlink

    def readlink(path: str, dir_fd: int | None = None) -> str:
        return real(path) if dir_fd is None else "net:[1]"

    monkeypatch.setattr(module.os, "readlink", readlink)
    (pod,) = spaces(str(proc.root)).others
    assert (pod.inode, pod.holders) == (proc.namespace("pod"), [])


def test_the_hosts_is_another_than_the_own(proc: Proc) -> None:
    shutil.rmtree(proc.root / "self")
    proc.process("self", "container")
    result = spaces(str(proc.root))
    assert (result.initial, result.own) == (proc.namespace("host"), proc.namespace("container"))
    assert [space.inode for space in result.others] == [result.initial]


def test_what_may_not_be_read_is_said(proc: Proc, monkeypatch: pytest.MonkeyPatch) -> None:
    proc.process("30", "pod", POD)
    real = os.readlink

    def readlink(path: str, dir_fd: int | None = None) -> str:
        if "/30/" in path:
            raise PermissionError(13, "Permission denied")
        return real(path, dir_fd=dir_fd)

    monkeypatch.setattr(module.os, "readlink", readlink)
    result = spaces(str(proc.root))
    assert (result.others, result.unreadable) == ([], [Unreadable(f"{proc.root}/30/ns/net", "EACCES")])


def test_no_proc(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        spaces(str(tmp_path))
