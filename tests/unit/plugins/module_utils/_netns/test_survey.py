# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What keeps network namespaces, in an invented /proc. Real ones: tests/integration/test_netns_holders.py."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._netns import survey as netns
from ansible_collections.rdmaops.gpu_fabric.tests.support.failures import message_of
from ansible_collections.rdmaops.gpu_fabric.tests.support.trees import write_tree

INITIAL = 4026531833


OTHER = 4026532177


THIRD = 4026532200


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
        group = f"0::/system.slice/u{pid}.service\n"
        write_tree(base, {"stat": text, "cmdline": b"/bin/prog\0work\0--password=x\0", "cgroup": group})
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
        answer = self.sockets[self._pid, fd]
        if isinstance(answer, OSError):
            raise answer
        return answer

    def own_files(self, _leader: int, thread: int) -> bool:
        return thread in self.own

    def net_namespace(self, path: str) -> int | None:
        return self.detached.get(path)

    def survey(self, limit: int = 10) -> netns.Survey:
        return netns.survey(limit, str(self.root), self)


@pytest.fixture
def proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Proc:
    tree = Proc(tmp_path)
    # stat() follows a link, and these lead nowhere.
    real = os.stat
    monkeypatch.setattr(
        os, "stat", lambda path, **rest: real("/proc/self/ns/net" if "/ns/net" in str(path) else path, **rest)
    )
    return tree


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
    holder = netns.Holder("process", f"{proc.root}/70/ns/net", 70, "/bin/prog work", "u70.service", None, 30)
    assert proc.survey() == netns.Survey([netns.Namespace(OTHER, None, [holder], 1)], [])


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


B, ELSEWHERE = "/run/netns/b", "/elsewhere"
# mounts of the namespace as (pid, id, point, optional fields), those that count
COPIES = [
    # `ip netns add` mounts it twice in one place, below and on top of its bind mount of /run/netns
    ([(70, 46, B, "shared:65"), (70, 47, B, "shared:65")], [(70, B)]),
    # received by other mount namespaces: peers and slaves
    ([(70, 46, B, "shared:65"), (71, 131, B, "shared:77 master:65")], [(70, B)]),
    ([(70, 131, B, "master:65"), (71, 46, B, "shared:65")], [(71, B)]),
    ([(70, 46, B, "shared:65"), (71, 48, B, "shared:65")], [(70, B)]),
    # the original is gone, or the copy is somewhere else: it will not go by itself
    ([(70, 131, B, "shared:77 master:65")], [(70, B)]),
    ([(70, 46, B, "shared:65"), (71, 131, ELSEWHERE, "master:65")], [(70, B), (71, ELSEWHERE)]),
    ([(70, 46, B, "shared:65"), (70, 47, ELSEWHERE, "shared:65")], [(70, ELSEWHERE), (70, B)]),
    # private
    ([(70, 46, B, ""), (71, 48, B, "")], [(70, B), (71, B)]),
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
    (namespace,) = proc.survey().namespaces
    assert sorted((holder.pid, holder.path) for holder in namespace.holders) == counted
    assert namespace.holders_total == len(counted)


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
    result = proc.survey()
    assert [(row.inode, row.holders[0].kind, row.holders[0].path) for row in result.namespaces] == [
        (OTHER, "process", f"{proc.root}/70/task/72/ns/net"),
        (THIRD, "fd", f"{proc.root}/70/task/71/fd/9"),
    ]


def test_no_kind_crowds_out_another(proc: Proc) -> None:
    for pid in range(100, 120):
        proc.fd(proc.add(pid), 3, f"net:[{OTHER}]")
    proc.add(200, net=OTHER)
    proc.add(201, net=OTHER)
    (namespace,) = proc.survey(4).namespaces
    holders = [(holder.kind, holder.pid) for holder in namespace.holders]
    assert holders == [("process", 200), ("process", 201), ("fd", 100), ("fd", 101)]
    assert namespace.holders_total == 22


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
    row = netns.Unreadable(f"{proc.root}/70/fd/3", "EPERM (Operation not permitted)")
    assert proc.survey().unreadable == [row]


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
    assert message_of(netns.NamespaceError, proc.survey) == (
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
    assert message_of(netns.NamespaceError, netns.others) == (
        f"Could not look for network namespaces everywhere: {proc.root}/1/ns/net: EACCES (Permission denied). This "
        "needs root with CAP_SYS_PTRACE and CAP_NET_ADMIN on the host (become: true), and Linux 5.6 for sockets"
    )


def test_no_proc(tmp_path: Path) -> None:
    assert message_of(netns.NamespaceError, netns.survey, proc=str(tmp_path / "proc")) == (
        f"Could not list network namespaces: {tmp_path}/proc/self/ns/pid: No such file or directory"
    )


def test_import_loads_no_foreign_functions() -> None:
    program = f"import sys; import {netns.__name__}; print('ctypes' in sys.modules)"
    result = subprocess.run([sys.executable, "-I", "-B", "-c", program], capture_output=True, text=True)
    assert result.stdout == "False\n"
