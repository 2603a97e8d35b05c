# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Texts of /proc, and the scan over an invented /proc. Real namespaces: tests/integration/test_netns_holders.py."""

from __future__ import annotations

import errno
import json
import os
import re
import subprocess
import sys
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
    return re.sub(r"[ \t\n\\#]", lambda match: "\\%03o" % ord(match.group()), path)


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
    assert {pid: one and one[:3] for pid, one in about.items()} == {
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
    found = netns.process(text)
    assert found is not None
    assert found.comm == Path("/proc/self/comm").read_text(encoding="utf-8").rstrip("\n")
    assert not found.kernel
    assert found.threads == len(threads)


# --- an invented /proc ---------------------------------------------------------------------------------

INITIAL, OTHER, THIRD = 4026531833, 4026532177, 4026532200


class Proc:
    """A /proc of symbolic links and files, and the system calls' answers about it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.sockets: dict[tuple[int, int], int | OSError | None] = {}
        self.asked: list[tuple[int, int]] = []
        self.own: set[int] = set()
        self.detached: dict[str, int] = {}
        self._pid = 0
        self.add(1)
        self.add(2, flags=0x00200000)
        (root / "self").symlink_to("1")
        pid = self.root / "1/ns/pid"
        pid.unlink()
        pid.symlink_to("pid:[4026531836]")

    def add(
        self, pid: int, net: int = INITIAL, mnt: int = 1, root: str = "/", threads: int = 1, flags: int = 0
    ) -> Path:
        base = self.root / str(pid)
        self.task(base, net, mnt, root)
        text = f"{pid} (name{pid}) S 1 1 1 0 -1 {flags} 0 0 0 0 0 1 0 0 20 0 {threads} 0 30 0 0"
        (base / "stat").write_text(text, encoding="utf-8")
        (base / "cmdline").write_bytes(b"/bin/prog\0work\0--password=x\0")
        (base / "cgroup").write_text(f"0::/system.slice/u{pid}.service\n", encoding="utf-8")
        return base

    def task(self, base: Path, net: int = INITIAL, mnt: int = 1, root: str = "/") -> None:
        (base / "ns").mkdir(parents=True)
        for kind, inode in (("net", net), ("mnt", mnt), ("pid", 4026531836)):
            (base / "ns" / kind).symlink_to(f"{kind}:[{inode}]")
        (base / "root").symlink_to(root)
        (base / "fd").mkdir()
        (base / "fdinfo").mkdir()
        (base / "mountinfo").write_text("", encoding="utf-8")

    def fd(self, base: Path, number: int, link: str, info: str = "pos:\t0\nflags:\t0\nmnt_id:\t999\n") -> None:
        (base / "fd" / str(number)).symlink_to(link)
        (base / "fdinfo" / str(number)).write_text(info, encoding="utf-8")

    # The edge's methods. Handles are given back to the scan, which closes them.
    def pidfd(self, task: int, _thread: bool) -> int:
        self._pid = task
        return os.open("/dev/null", os.O_RDONLY)

    def socket_namespace(self, _pidfd: int, fd: int) -> int | None:
        self.asked.append((self._pid, fd))
        found = self.sockets[self._pid, fd]
        if isinstance(found, OSError):
            raise found
        return found

    def own_files(self, _leader: int, thread: int) -> bool:
        return thread in self.own

    def net_namespace(self, path: str) -> int | None:
        return self.detached.get(path)

    def survey(self, limit: int = 10) -> netns.Survey:
        return netns.survey(limit, str(self.root), self)


@pytest.fixture
def proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Proc:
    made = Proc(tmp_path)
    # stat() follows a link, and these lead nowhere.
    real = os.stat
    monkeypatch.setattr(
        os, "stat", lambda path, **rest: real("/proc/self/ns/net" if "/ns/net" in str(path) else path, **rest)
    )
    return made


def rows(survey: netns.Survey) -> dict[int, list[tuple[str, int, str]]]:
    return {
        row.inode: [(holder.kind, holder.pid, Path(holder.path).name) for holder in row.holders]
        for row in survey.namespaces
    }


def test_an_idle_machine(proc: Proc) -> None:
    assert proc.survey() == netns.Survey([], [])
    assert proc.survey().problem is None


def test_a_process(proc: Proc) -> None:
    proc.add(70, net=OTHER)
    assert proc.survey() == netns.Survey(
        [
            netns.Namespace(
                OTHER,
                None,
                [netns.Holder("process", f"{proc.root}/70/ns/net", 70, "/bin/prog work", "u70.service", None, 30)],
                1,
            )
        ],
        [],
    )


def test_a_process_stands_for_its_descriptors(proc: Proc) -> None:
    base = proc.add(70, net=OTHER)
    proc.fd(base, 3, f"net:[{OTHER}]")
    proc.fd(base, 4, "socket:[9]")
    proc.sockets[70, 4] = OTHER
    assert rows(proc.survey()) == {OTHER: [("process", 70, "net")]}


def test_kernel_threads_are_passed_over(proc: Proc) -> None:
    proc.add(70, net=OTHER, flags=0x00200000)
    assert proc.survey().namespaces == []


def test_a_mount_is_counted_once_for_two_views_of_a_mount_namespace(proc: Proc) -> None:
    line = f"60 42 0:4 net:[{OTHER}] /run/netns/blue rw - nsfs nsfs rw\n"
    for pid, root in ((70, "/"), (71, "/chroot"), (72, "/")):
        base = proc.add(pid, mnt=5, root=root)
        (base / "mountinfo").write_text(line, encoding="utf-8")
    survey = proc.survey()
    assert [(row.inode, row.holders_total) for row in survey.namespaces] == [(OTHER, 1)]
    assert survey.namespaces[0].holders[0][:3] == ("mount", "/run/netns/blue", 70)


def test_the_hosts_mounts_alone_are_followed_and_give_names(proc: Proc) -> None:
    """Every user has a mount table of their own to write (user_namespaces(7)): it names holders, and nothing else."""
    line = "6%d 42 0:4 net:[%d] /run/netns/%s rw - nsfs nsfs rw\n"
    (proc.root / "1/mountinfo").write_text(line % (0, OTHER, "blue"), encoding="utf-8")
    (proc.add(71, mnt=5) / "mountinfo").write_text(line % (1, THIRD, "blue"), encoding="utf-8")
    hosts, users = proc.survey().namespaces
    assert (hosts.inode, hosts.name, hosts.holders[0].foreign) == (OTHER, "blue", False)
    assert (users.inode, users.name, users.holders[0].foreign) == (THIRD, None, True)
    assert users.holders[0][:3] == ("mount", "/run/netns/blue", 71)


# mounts of the namespace as (pid, id, point, optional fields), those that count
COPIES = [
    # `ip netns add` mounts it twice in one place, below and on top of its bind mount of /run/netns
    ([(70, 46, "/run/netns/b", "shared:65"), (70, 47, "/run/netns/b", "shared:65")], [(70, "/run/netns/b")]),
    # received by other mount namespaces: peers and slaves
    (
        [(70, 46, "/run/netns/b", "shared:65"), (71, 131, "/run/netns/b", "shared:77 master:65")],
        [(70, "/run/netns/b")],
    ),
    ([(70, 131, "/run/netns/b", "master:65"), (71, 46, "/run/netns/b", "shared:65")], [(71, "/run/netns/b")]),
    ([(70, 46, "/run/netns/b", "shared:65"), (71, 48, "/run/netns/b", "shared:65")], [(70, "/run/netns/b")]),
    # the original is gone, or the copy is somewhere else: it will not go by itself
    ([(70, 131, "/run/netns/b", "shared:77 master:65")], [(70, "/run/netns/b")]),
    (
        [(70, 46, "/run/netns/b", "shared:65"), (71, 131, "/elsewhere", "master:65")],
        [(70, "/run/netns/b"), (71, "/elsewhere")],
    ),
    (
        [(70, 46, "/run/netns/b", "shared:65"), (70, 47, "/elsewhere", "shared:65")],
        [(70, "/elsewhere"), (70, "/run/netns/b")],
    ),
    # private
    ([(70, 46, "/run/netns/b", ""), (71, 48, "/run/netns/b", "")], [(70, "/run/netns/b"), (71, "/run/netns/b")]),
]


@pytest.mark.parametrize(("lines", "counted"), COPIES)
def test_a_copy_that_goes_with_its_original_does_not_count(
    proc: Proc, lines: list[tuple[int, int, str, str]], counted: list[tuple[int, str]]
) -> None:
    for pid in {row[0] for row in lines}:
        text = "".join(
            f"{number} 1 0:5 net:[{OTHER}] {point} rw {groups}{' ' if groups else ''}- nsfs nsfs rw\n"
            for owner, number, point, groups in lines
            if owner == pid
        )
        (proc.add(pid, mnt=pid) / "mountinfo").write_text(text, encoding="utf-8")
    (found,) = proc.survey().namespaces
    assert sorted((holder.pid, holder.path) for holder in found.holders) == counted
    assert found.holders_total == len(counted)


def test_a_view_is_read_once(proc: Proc) -> None:
    proc.add(70, mnt=5)
    second = proc.add(71, mnt=5)
    (second / "mountinfo").unlink()
    (second / "mountinfo").mkdir()  # reading it would be an error
    assert proc.survey().unreadable == []


def test_a_file_by_its_mount_and_not_by_its_link(proc: Proc) -> None:
    base = proc.add(70, mnt=5)
    (base / "mountinfo").write_text(
        f"60 42 0:4 net:[{OTHER}] /x rw - nsfs nsfs rw\n61 42 0:4 pid:[77] /y rw - nsfs nsfs rw\n", encoding="utf-8"
    )
    proc.fd(base, 3, "/run/netns/some-name", "pos:\t0\nmnt_id:\t60\n")
    proc.fd(base, 4, "/run/netns/other-name", "pos:\t0\nmnt_id:\t61\n")
    assert rows(proc.survey()) == {OTHER: [("mount", 70, "x"), ("fd", 70, "3")]}


# link, fdinfo, whether the file is looked at
DETACHED = [
    ("/", "mnt_id:\t999\n", True),
    ("/var/log/x", "mnt_id:\t999\n", False),
    ("/", f"mnt_id:\t999\nino:\t{OTHER}\n", True),
    ("/gone/place", f"mnt_id:\t999\nino:\t{OTHER}\n", True),
    ("/", "mnt_id:\t999\nino:\t12\n", False),
    ("/nfs/file", "mnt_id:\t999\nino:\t72057594037927936\n", False),
    ("/dev/null", "mnt_id:\t999\n", False),
    ("pipe:[12]", "mnt_id:\t999\n", False),
    ("anon_inode:[eventfd]", "mnt_id:\t999\n", False),
    ("mnt:[4026532300]", "mnt_id:\t999\n", False),
]


@pytest.mark.parametrize(("link", "info", "looked"), DETACHED)
def test_only_what_may_be_a_namespace_is_looked_at(proc: Proc, link: str, info: str, looked: bool) -> None:
    base = proc.add(70)
    proc.fd(base, 3, link, info)
    proc.detached[f"{proc.root}/70/fd/3"] = OTHER
    assert rows(proc.survey()) == ({OTHER: [("fd", 70, "3")]} if looked else {})


def test_a_socket_is_asked_for_once_and_names_every_process(proc: Proc) -> None:
    for pid in (70, 71):
        base = proc.add(pid)
        proc.fd(base, 5, "socket:[9]")
        proc.fd(base, 6, "socket:[9]")
        proc.fd(base, 7, "socket:[10]")
    proc.sockets = {(70, 5): OTHER, (70, 6): OTHER, (70, 7): INITIAL}
    survey = proc.survey()
    assert {row[:2] for row in rows(survey)[OTHER]} == {("socket", 70), ("socket", 71)}
    assert survey.namespaces[0].holders_total == 2
    assert sorted(pid for pid, _fd in proc.asked) == [70, 70]


def test_a_descriptor_closed_meanwhile_is_asked_for_again_elsewhere(proc: Proc) -> None:
    for pid in (70, 71):
        proc.fd(proc.add(pid), 5, "socket:[9]")
    proc.sockets = {(70, 5): None, (71, 5): OTHER}
    assert rows(proc.survey()) == {OTHER: [("socket", 71, "5")]}


def test_threads(proc: Proc) -> None:
    base = proc.add(70, threads=3)
    for task, inode in ((70, INITIAL), (71, INITIAL), (72, OTHER)):
        proc.task(base / "task" / str(task), inode)
    proc.own = {71}
    proc.fd(base / "task/71", 9, f"net:[{THIRD}]")
    found = proc.survey()
    assert [(row.inode, row.holders[0].kind, row.holders[0].path) for row in found.namespaces] == [
        (OTHER, "process", f"{proc.root}/70/task/72/ns/net"),
        (THIRD, "fd", f"{proc.root}/70/task/71/fd/9"),
    ]


def test_no_kind_crowds_out_another(proc: Proc) -> None:
    for pid in range(100, 120):
        proc.fd(proc.add(pid), 3, f"net:[{OTHER}]")
    proc.add(200, net=OTHER)
    proc.add(201, net=OTHER)
    (found,) = proc.survey(4).namespaces
    assert [(holder.kind, holder.pid) for holder in found.holders] == [
        ("process", 200),
        ("process", 201),
        ("fd", 100),
        ("fd", 101),
    ]
    assert found.holders_total == 22


# command line, command
COMMANDS = [
    (b"/usr/bin/python3\0/opt/x.py\0secret\0", "/usr/bin/python3 /opt/x.py"),
    (b"mysql\0-psecret\0", "mysql"),
    (b"", "name70"),
    (b"-bash\0", "name70"),
    (b"nginx: master process /usr/sbin/nginx", "nginx: master process /usr/sbin/nginx"),
    (b"\xff" * 200, "\ufffd" * 80),
]


@pytest.mark.parametrize(("cmdline", "command"), COMMANDS)
def test_command(proc: Proc, cmdline: bytes, command: str) -> None:
    base = proc.add(70, net=OTHER)
    (base / "cmdline").write_bytes(cmdline)
    assert proc.survey().namespaces[0].holders[0].command == command


def test_a_process_that_ends_is_nothing(proc: Proc) -> None:
    base = proc.add(70, net=OTHER)
    (base / "ns/net").unlink()
    (proc.root / "71").mkdir()
    proc.fd(proc.add(72), 3, "socket:[9]")
    proc.sockets[72, 3] = OSError(errno.ESRCH, "No such process")
    assert proc.survey() == netns.Survey([], [])


def test_a_socket_that_cannot_be_asked_is_told(proc: Proc) -> None:
    proc.fd(proc.add(70), 3, "socket:[9]")
    proc.sockets[70, 3] = OSError(errno.EPERM, "Operation not permitted")
    assert proc.survey().unreadable == [
        netns.Unreadable(f"{proc.root}/70/fd/3", "EPERM (Operation not permitted)"),
    ]


def test_a_kernel_that_cannot_tell_of_sockets_says_so_once(proc: Proc, monkeypatch: pytest.MonkeyPatch) -> None:
    for pid in (70, 71):
        base = proc.add(pid)
        for fd in range(3, 9):
            proc.fd(base, fd, f"socket:[{fd}]")

    def refuse(_task: int, _thread: bool) -> int:
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(proc, "pidfd", refuse)
    (row,) = proc.survey().unreadable
    assert row == netns.Unreadable(f"{proc.root}/70/fd/{Path(row.path).name}", "ENOSYS (Function not implemented)")


def test_a_container_is_no_host(proc: Proc) -> None:
    pid = proc.root / "1/ns/pid"
    pid.unlink()
    pid.symlink_to("pid:[4026532999]")
    with pytest.raises(netns.NamespaceError) as caught:
        proc.survey()
    assert str(caught.value) == (
        "Could not list network namespaces: this process is in its own PID namespace (a container?) and cannot "
        "see the processes of the host. Run it on the host itself"
    )


def test_a_shielded_init_is_told_and_the_rest_is_listed(proc: Proc, monkeypatch: pytest.MonkeyPatch) -> None:
    proc.add(70, net=OTHER)
    real = os.readlink

    def readlink(path: str) -> str:
        if "/1/ns/net" in path:
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return real(path)

    monkeypatch.setattr(os, "readlink", readlink)
    survey = proc.survey()
    assert rows(survey) == {OTHER: [("process", 70, "net")]}
    assert survey.unreadable == [netns.Unreadable(f"{proc.root}/1/ns/net", "EACCES (Permission denied)")]
    assert survey.problem is not None
    monkeypatch.setattr(netns, "survey", lambda _limit: survey)
    with pytest.raises(netns.NamespaceError) as caught:
        netns.others()
    assert str(caught.value) == (
        f"Could not look for network namespaces everywhere: {proc.root}/1/ns/net: EACCES (Permission denied). This "
        "needs root with CAP_SYS_PTRACE and CAP_NET_ADMIN on the host (become: true), and Linux 5.6 for sockets"
    )


def test_no_proc(tmp_path: Path) -> None:
    with pytest.raises(netns.NamespaceError) as caught:
        netns.survey(proc=str(tmp_path / "proc"))
    assert str(caught.value) == (
        f"Could not list network namespaces: {tmp_path}/proc/self/ns/pid: No such file or directory"
    )


def test_import_loads_no_foreign_functions() -> None:
    program = f"import sys; import {netns.__name__}; print('ctypes' in sys.modules)"
    done = subprocess.run([sys.executable, "-I", "-B", "-c", program], capture_output=True, text=True)
    assert done.stdout == "False\n"
