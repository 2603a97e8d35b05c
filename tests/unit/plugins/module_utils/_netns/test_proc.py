# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Texts of /proc: cgroups, mounts and processes, also damaged, and recorded ones."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._netns import survey as netns

UID = "7b2f3c1e-93d4-4f21-9f0e-2f5a6c7d8e9f"


UID_ = UID.replace("-", "_")


STATIC = "0123456789abcdef0123456789abcdef"


SLICE = f"kubepods-burstable-pod{UID_}.slice"


POD = f"/kubepods.slice/kubepods-burstable.slice/{SLICE}"


KUBELET = f"/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod{UID_}.slice"


CRI = "cri-containerd-12ab.scope"


NODE = "d" * 64


OTHER_UID = "0b5e3a4e-8f0c-4b0e-9a34-4f6f2f4a1c11"


# text of /proc/PID/cgroup, unit, UID of the pod
CGROUPS = [
    # v2
    ("0::/system.slice/sshd.service\n", "sshd.service", None),
    ("0::/\n", None, None),
    ("", None, None),
    ("0::/init.scope\n", "init.scope", None),
    ("0::/system.slice/pn.service/below\n", "pn.service", None),
    ("0::/system.slice/system-getty.slice/getty@tty1.service\n", "getty@tty1.service", None),
    ("0::/user.slice/user-0.slice/session-3.scope\n", "session-3.scope", None),
    ("0::/user.slice/user-1000.slice/user@1000.service/app.slice/app-x.scope\n", "user@1000.service", None),
    ("0::/system.slice/_tasks.service\n", "tasks.service", None),
    ("0::/system.slice/docker-12ab.scope/system.slice/nginx.service\n", "docker-12ab.scope", None),
    ("0::/machine.slice/libpod-12ab.scope/container\n", "libpod-12ab.scope", None),
    ("0::/docker/12ab/system.slice/nginx.service\n", None, None),
    # v1, hybrid
    ("9:name=systemd:/\n8:pids:/\n0::/\n", None, None),
    ("12:pids:/system.slice/a.service\n1:name=systemd:/system.slice/a.service\n", "a.service", None),
    ("4:memory:/x\n1:name=systemd:/system.slice/a.service\n0::/system.slice/a.service\n", "a.service", None),
    ("11:devices:/system.slice/a.service\n", "a.service", None),
    # pods: systemd, then cgroupfs
    (f"0::{POD}/{CRI}\n", CRI, UID),
    (f"0::/kubepods.slice/kubepods-pod{UID_}.slice/crio-12ab.scope\n", "crio-12ab.scope", UID),
    (f"1:name=systemd:{POD}/{CRI}\n", CRI, UID),
    (f"0::{POD}/{CRI}/init.scope\n", CRI, UID),
    (f"0::/kubepods/burstable/pod{UID}/12ab\n", None, UID),
    (f"0::/kubepods/pod{UID}/12ab\n", None, UID),
    (f"0::/kubepods/besteffort/pod{STATIC}/12ab\n", None, STATIC),
    (f"0::{KUBELET}/{CRI}\n", CRI, UID),
    (f"0::/system.slice/containerd.service/{SLICE}:cri-containerd:12ab\n", "containerd.service", UID),
    # the kubelet with a root of its own for the groups, and in a container that is a node (kind)
    (f"0::/gpu.slice/gpu-kubepods.slice/gpu-kubepods-pod{UID_}.slice/{CRI}\n", CRI, UID),
    (f"0::/system.slice/docker-{NODE}.scope{KUBELET}/{CRI}\n", f"docker-{NODE}.scope", UID),
    (f"0::/docker/{NODE}/kubelet/kubepods/burstable/pod{UID}/12ab\n", None, UID),
    (f"0::/machine.slice/libpod-{NODE}.scope/container{KUBELET}/{CRI}\n", f"libpod-{NODE}.scope", UID),
    # read in a container with a cgroup namespace of its own: what is shared with it is "/.."
    (f"0::/../../kubepods-besteffort-pod{UID_}.slice/{CRI}\n", CRI, UID),
    (f"0::/../../../kubepods-besteffort.slice/kubepods-besteffort-pod{UID_}.slice/{CRI}\n", CRI, UID),
    (f"0::/../../../kubepods-pod{UID_}.slice/{CRI}\n", CRI, UID),
    (f"0::/../../../gpu-kubepods-burstable.slice/gpu-kubepods-burstable-pod{UID_}.slice/{CRI}\n", CRI, UID),
    (f"0::/../../../besteffort/pod{UID}/12ab\n", None, UID),
    (f"0::/../../pod{UID}/12ab\n", None, UID),
    (f"0::/../../../..{POD}/{CRI}\n", CRI, UID),
    (f"0::/../../..{KUBELET}/{CRI}\n", CRI, UID),
    (f"0::/../{CRI}\n", CRI, None),
    ("0::/../../../../system.slice/a.service\n", "a.service", None),
    ("0::/../../../../init.scope\n", "init.scope", None),
    (f"0::/../../../../user.slice/user-1000.slice/user@1000.service{POD}/{CRI}\n", "user@1000.service", None),
    (f"0::/../../../../user.slice/pod{UID}/12ab\n", None, None),
    (f"0::/../../../../system.slice/batch.service/pod{UID}/12ab\n", "batch.service", None),
    (f"0::/pod{UID}/12ab\n", None, None),
    # a user's systemd, a service of a user's and a container make any groups below their own
    (f"0::/user.slice/user-1000.slice/user@1000.service{POD}/{CRI}\n", "user@1000.service", None),
    (f"0::/user.slice/user-1000.slice/user@1000.service/app.slice/{SLICE}/{CRI}\n", "user@1000.service", None),
    (f"0::/user.slice/user-1000.slice/user@1000.service/user.slice/docker-{NODE}.scope{KUBELET}\n", "user@1000.service", None),
    (f"1:name=systemd:/user.slice/user-1000.slice/user@1000.service{POD}/{CRI}\n", "user@1000.service", None),
    (f"0::/user.slice{POD}/{CRI}\n", CRI, None),
    (f"0::/system.slice/batch.service{POD}/{CRI}\n", "batch.service", None),
    (f"0::/system.slice/batch.service/kubepods/pod{UID}/12ab\n", "batch.service", None),
    (f"0::/kubepods.slice/kubepods-pod{OTHER_UID.replace('-', '_')}.slice/{CRI}{POD}/{CRI}\n", CRI, OTHER_UID),
    # a pod's name is not its UID, and a UID elsewhere is no pod
    ("0::/kubepods/burstable/podman/12ab\n", None, None),
    (f"0::/user.slice/pod{UID}/12ab\n", None, None),
]  # fmt: skip


@pytest.mark.parametrize(("text", "unit", "uid"), CGROUPS)
def test_cgroup(text: str, unit: str | None, uid: str | None) -> None:
    assert netns.cgroup_unit(text) == unit
    assert netns.cgroup_pod(text) == (None if uid is None else {"uid": uid})


MOUNTINFO = r"""
22 27 0:21 / /proc rw,relatime - proc proc rw
42 27 254:0 /run/netns /run/netns rw,relatime shared:1 - ext4 /dev/vda rw,discard
60 42 0:4 net:[4026532177] /run/netns/blue rw shared:2 - nsfs nsfs rw
61 42 0:4 net:[4026532178] /a\040place\134x rw shared:2 master:3 propagate_from:4 unbindable - nsfs nsfs rw
62 42 0:4 mnt:[4026532179] /run/snapd/ns/lxd.mnt rw - nsfs nsfs rw
63 42 0:4 / /odd rw - nsfs nsfs rw
64 42 0:4 net:[4026532180] /nsfs\040-\040nsfs rw - tmpfs nsfs rw
"""


def test_mounts() -> None:
    assert netns.mounts(MOUNTINFO) == [
        netns.Mount(60, "net", 4026532177, "/run/netns/blue", "2", None),
        netns.Mount(61, "net", 4026532178, "/a place\\x", "2", "3"),
        netns.Mount(62, "mnt", 4026532179, "/run/snapd/ns/lxd.mnt"),
    ]


NUMBERS = "20 0 {flags} 0 0 0 0 0 1 0 0 20 0 {threads} 0 30 0 0"


# text of /proc/PID/stat, what it says
STATS = [
    ("7 (sh) S 1 7 7 0 -1 4194304 9 9 9 9 9 9 9 9 20 0 1 0 30 0 0", netns.Process("sh", 1, False, 30)),
    ("7 (a) (b) 9) S 1 7 7 0 -1 4194304 9 9 9 9 9 9 9 9 20 0 12 0 30 0", netns.Process("a) (b) 9", 12, False, 30)),
    ("2 (kthreadd) S 0 0 0 0 -1 2129984 0 0 0 0 0 1 0 0 20 0 1 0 30 0", netns.Process("kthreadd", 1, True, 30)),
    ("", None),
    ("7 (sh) S 1 7", None),
    ("7 (sh) S 1 7 7 0 -1 flags 9 9 9 9 9 9 9 9 20 0 1 0 30 0 0", None),
]


@pytest.mark.parametrize(("text", "expected"), STATS)
def test_process(text: str, expected: netns.Process | None) -> None:
    assert netns.process(text) == expected


PIECES = st.lists(
    st.sampled_from(["0::/", "1:name=systemd:", "kubepods", "-pod", UID, UID_, ".slice", "/", ":", " - nsfs ", "net:[",
                     "7", "]", "\\040", " ", "\n", "(", ")", "\udcff", ".service"]),
    max_size=20,
).map("".join)  # fmt: skip


@given(st.one_of(st.text(max_size=200), PIECES))
def test_parsers_take_any_text(text: str) -> None:
    netns.cgroup_unit(text)
    netns.cgroup_pod(text)
    netns.process(text)
    netns.mounts(text)


@st.composite
def damaged(draw: st.DrawFn, text: str) -> str:
    """A text of /proc of which words are gone, or are others."""
    words = text.split(" ")
    for _change in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(words)))
        words[at : at + draw(st.integers(0, 2))] = draw(
            st.lists(st.sampled_from(["7", "-", "x:1", "net:[]"]), max_size=1)
        )
    return " ".join(words)


@given(damaged("60 42 0:4 net:[4026532177] /run/netns/blue rw shared:2 - nsfs nsfs rw"))
def test_damaged_mounts(text: str) -> None:
    for mount in netns.mounts(text):
        assert (mount.kind, mount.inode) == ("net", 4026532177)


@given(damaged("7 (sh) S 1 7 7 0 -1 4194304 9 9 9 9 9 9 9 9 20 0 1 0 30 0 0"))
def test_damaged_processes(text: str) -> None:
    process = netns.process(text)
    assert process is None or process.comm in ("sh", "")


def mangled(path: str) -> str:
    """As the kernel writes paths (mangle_path() in fs/seq_file.c, with the characters of show_mountinfo())."""
    return re.sub(r"[ \t\n\\#]", lambda match: f"\\{ord(match.group()):03o}", path)


NUMBERS_OR_NONE = st.none() | st.integers(1, 10**9).map(str)


@given(st.sampled_from(["net", "mnt", "user"]), st.integers(1, 2**32), st.text(), NUMBERS_OR_NONE, NUMBERS_OR_NONE)
def test_any_mount_point_is_read_back(
    kind: str, inode: int, point: str, shared: str | None, master: str | None
) -> None:
    groups = [f"{name}:{group}" for name, group in (("shared", shared), ("master", master)) if group]
    line = " ".join(["60", "42", "0:4", f"{kind}:[{inode}]", mangled("/" + point), "rw", *groups])
    expected = [netns.Mount(60, kind, inode, "/" + point, shared, master)]
    assert netns.mounts(f"59 42 0:21 / /proc rw - proc proc rw\n{line} - nsfs nsfs rw\n") == expected


@given(st.text(), st.integers(1, 10**6))
def test_any_process_name_is_read_back(name: str, threads: int) -> None:
    stat = f"7 ({name}) S 1 7 7 0 -1 4194304 9 9 9 9 9 9 9 9 20 0 {threads} 0 30 0 0"
    assert netns.process(stat) == netns.Process(name, threads, False, 30)


RECORDINGS = sorted((Path(__file__).parents[1] / "fixtures").glob("proc_*.json"))


def test_there_are_recordings() -> None:
    assert RECORDINGS


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_recorded_processes(path: Path) -> None:
    """init, kthreadd, a unit with PrivateNetwork=yes and a shell by ssh, while the namespace rdt was there."""
    recorded = json.loads(path.read_text(encoding="utf-8"))
    texts = recorded["processes"]
    unit = recorded["unit_pid"]
    (session,) = set(texts) - {"1", "2", unit}
    about = {pid: netns.process(texts[pid]["stat"]) for pid in texts}
    assert {pid: process and process[:3] for pid, process in about.items()} == {
        "1": ("systemd", 1, False),
        "2": ("kthreadd", 1, True),
        unit: ("sleep", 1, False),
        session: ("python3", 1, False),
    }
    assert netns.cgroup_unit(texts["1"]["cgroup"]) == "init.scope"
    assert netns.cgroup_unit(texts["2"]["cgroup"]) is None
    assert netns.cgroup_unit(texts[unit]["cgroup"]) == "rdt.service"
    assert (netns.cgroup_unit(texts[session]["cgroup"]) or "").endswith((".scope", ".service"))
    assert {netns.cgroup_pod(text["cgroup"]) for text in texts.values()} == {None}
    # The unit has a mount namespace of its own (systemd mounts a /sys for the network namespace).
    for pid in ("1", unit, session):
        assert {(row.kind, row.inode, row.point) for row in netns.mounts(texts[pid]["mountinfo"])} == {
            ("net", recorded["netns"], "/run/netns/rdt")
        }
    assert {row.id for row in netns.mounts(texts["1"]["mountinfo"])}.isdisjoint(
        row.id for row in netns.mounts(texts[unit]["mountinfo"])
    )


def test_the_parsers_own_process() -> None:
    # Threads of tests before this one may be about to end.
    while True:
        threads = os.listdir("/proc/self/task")
        text = Path("/proc/self/stat").read_text(encoding="utf-8")
        if os.listdir("/proc/self/task") == threads:
            break
    process = netns.process(text)
    assert process is not None
    assert process.comm == Path("/proc/self/comm").read_text(encoding="utf-8").rstrip("\n")
    assert not process.kernel
    assert process.threads == len(threads)
