# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The list of namespace holders against real namespaces, one of each kind.

Other namespaces may exist on the machine: a test looks only for those it made, by inode.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import subprocess
import sys
import threading
import time
import typing as t
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._netns import survey
from ansible_collections.rdmaops.gpu_fabric.tests.support import need_root, need_tool, skip_or_fail
from ansible_collections.rdmaops.gpu_fabric.tests.support.waiting import wait_for

COUNTER = itertools.count()

# What the holding programs share. A program says "ready" and lives until its standard input ends.
PRELUDE = """
import ctypes, fcntl, os, socket, struct, sys, threading
libc = ctypes.CDLL(None, use_errno=True)
def enter(path, kind=0x40000000):
    fd = os.open(path, os.O_RDONLY)
    assert libc.setns(fd, kind) == 0, os.strerror(ctypes.get_errno())
    os.close(fd)
def unshare(flags):
    assert libc.unshare(flags) == 0, os.strerror(ctypes.get_errno())
def ready():
    print("ready", flush=True)
    sys.stdin.read()
path = sys.argv[1]
"""
OPEN_FILE = "handle = os.open(path, os.O_RDONLY)\nready()"
SOCKET = """
home = os.open("/proc/self/ns/net", os.O_RDONLY)
enter(path)
held = socket.socket(socket.AF_UNIX)
assert libc.setns(home, 0x40000000) == 0
os.close(home)
{then}
ready()
"""
TAP = """
home = os.open("/proc/self/ns/net", os.O_RDONLY)
enter(path)
held = os.open("/dev/net/tun", os.O_RDWR)
assert libc.setns(home, 0x40000000) == 0
os.close(home)
ready()
"""
THREAD = """
started = threading.Event()
def work():
    enter(path)
    started.set()
    threading.Event().wait()
threading.Thread(target=work, daemon=True).start()
started.wait()
ready()
"""
THREAD_FILES = """
started = threading.Event()
def work():
    unshare(0x400)
    held = os.open(path, os.O_RDONLY)
    started.set()
    threading.Event().wait()
threading.Thread(target=work, daemon=True).start()
started.wait()
ready()
"""
PRIVATE_MOUNT = """
import subprocess
unshare(0x20000)
subprocess.run(["mount", "--make-rprivate", "/"], check=True)
os.close(os.open(sys.argv[2], os.O_CREAT))
subprocess.run(["mount", "--bind", path, sys.argv[2]], check=True)
{then}
ready()
"""


@pytest.fixture(autouse=True)
def _machine() -> None:
    need_root()
    need_tool("ip")
    # Some machines shield their first process even from root; every other task must be readable.
    shielded = [row for row in survey.survey().unreadable if not row.path.startswith("/proc/1/")]
    assert shielded == []


class Net(t.NamedTuple):
    name: str
    path: str
    inode: int


def run(*argv: str) -> None:
    subprocess.run(argv, check=True, timeout=60)


@pytest.fixture
def net() -> t.Iterator[Net]:
    name = f"rdmaops-test-{os.getpid()}-{next(COUNTER)}"
    run("ip", "netns", "add", name)
    path = f"/run/netns/{name}"
    try:
        yield Net(name, path, os.stat(path).st_ino)
    finally:
        if os.path.exists(path):
            run("ip", "netns", "del", name)


@contextlib.contextmanager
def holding(program: str, *arguments: str) -> t.Iterator[subprocess.Popen[str]]:
    argv = [sys.executable, "-c", PRELUDE + program, *arguments]
    child = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        yield child
    finally:
        assert child.stdin is not None
        child.stdin.close()
        child.wait(timeout=60)
        assert child.stdout is not None
        child.stdout.close()


def find(inode: int, limit: int = 10) -> survey.Namespace | None:
    return next((row for row in survey.survey(limit).namespaces if row.inode == inode), None)


def held(inode: int, limit: int = 10) -> survey.Namespace:
    namespace = find(inode, limit)
    assert namespace is not None
    return namespace


def short(namespace: survey.Namespace) -> list[tuple[str, int, str]]:
    return [(holder.kind, holder.pid, holder.path) for holder in namespace.holders]


def wait_until_gone(namespace: survey.Namespace) -> None:
    """Wait until no holder is left that the namespace had, and no new one in this process.

    The kernel gives the inode number of a freed namespace to the next one (proc_alloc_inum()).
    """
    former = set(short(namespace))

    def is_held() -> bool:
        current = find(namespace.inode)
        return bool(current and any(row[1] == os.getpid() or row in former for row in short(current)))

    wait_for(lambda: not is_held(), pause=0.05)


def kinds(namespace: survey.Namespace) -> list[tuple[str, int]]:
    return [(holder.kind, holder.pid) for holder in namespace.holders]


@contextlib.contextmanager
def unnamed(net: Net, program: str, *arguments: str) -> t.Iterator[tuple[subprocess.Popen[str], survey.Namespace]]:
    """A process that holds a namespace whose name was deleted, and what is found then; it is gone in the end."""
    with holding(program, net.path, *arguments) as child:
        run("ip", "netns", "del", net.name)
        result = held(net.inode)
        yield child, result
    wait_until_gone(result)


def test_nothing_of_the_initial_namespace() -> None:
    initial = os.stat("/proc/2/ns/net").st_ino
    assert find(initial) is None


def test_name(net: Net) -> None:
    result = held(net.inode)
    assert result.name == net.name
    # A process that enters a mount namespace of its own has a copy.
    assert {(holder.kind, holder.path) for holder in result.holders} == {("mount", net.path)}
    assert result.holders_total == len(result.holders)
    run("ip", "netns", "del", net.name)
    wait_until_gone(result)


def test_process_and_its_command() -> None:
    with subprocess.Popen(["unshare", "-n", "sleep", "321"]) as child:
        try:
            initial = os.stat("/proc/2/ns/net").st_ino
            while os.stat(f"/proc/{child.pid}/ns/net").st_ino == initial or "unshare" in Path(
                f"/proc/{child.pid}/comm"
            ).read_text(encoding="utf-8"):
                time.sleep(0.01)
            inode = os.stat(f"/proc/{child.pid}/ns/net").st_ino
            result = held(inode)
            assert short(result) == [("process", child.pid, f"/proc/{child.pid}/ns/net")]
            assert result.name is None
            assert result.holders[0].command == "sleep 321"
            assert result.holders_total == 1
        finally:
            child.kill()
    wait_until_gone(result)


def test_open_file_of_a_deleted_namespace(net: Net) -> None:
    with holding(OPEN_FILE, net.path) as child:
        assert {holder.kind for holder in held(net.inode).holders} == {"mount", "fd"}
        run("ip", "netns", "del", net.name)
        result = held(net.inode)
        assert kinds(result) == [("fd", child.pid)]
        path = result.holders[0].path
        assert path.startswith(f"/proc/{child.pid}/fd/")
        assert os.stat(path).st_ino == net.inode
        assert result.name is None
        assert result.holders[0].command == Path(sys.executable).name or sys.executable in result.holders[0].command
    wait_until_gone(result)


def test_file_opened_through_a_process(net: Net) -> None:
    """The link of such a file reads net:[inode], of one opened by the mount its path."""
    program = "home = os.open('/proc/self/ns/net', os.O_RDONLY)\nenter(path)\n"
    program += "held = os.open('/proc/self/ns/net', os.O_RDONLY)\nassert libc.setns(home, 0x40000000) == 0\nready()"
    with unnamed(net, program) as (child, result):
        assert kinds(result) == [("fd", child.pid)]


def test_socket_of_a_deleted_namespace(net: Net) -> None:
    with unnamed(net, SOCKET.format(then="")) as (child, result):
        assert kinds(result) == [("socket", child.pid)]
        assert os.readlink(result.holders[0].path).startswith("socket:[")


def test_socket_shared_with_a_child_names_both(net: Net) -> None:
    then = "if os.fork() == 0:\n    sys.stdin.read()\n    os._exit(0)"
    with unnamed(net, SOCKET.format(then=then)) as (child, result):
        assert result.holders_total == 2
        assert {holder.kind for holder in result.holders} == {"socket"}
        forked = [holder.pid for holder in result.holders if holder.pid != child.pid]
        assert len(forked) == 1
        assert f"PPid:\t{child.pid}\n" in Path(f"/proc/{forked[0]}/status").read_text(encoding="utf-8")


def test_many_sockets_of_one_process_are_one_holder(net: Net) -> None:
    with unnamed(net, SOCKET.format(then="more = [held.dup() for _ in range(20)]")) as (_child, result):
        assert result.holders_total == 1


def test_tap_device(net: Net) -> None:
    if not os.path.exists("/dev/net/tun"):
        skip_or_fail("needs /dev/net/tun")
    with unnamed(net, TAP) as (child, result):
        assert kinds(result) == [("socket", child.pid)]
        assert os.readlink(result.holders[0].path) == "/dev/net/tun"


def test_thread_in_another_namespace_than_its_process(net: Net) -> None:
    with unnamed(net, THREAD) as (child, result):
        ((kind, pid, path),) = short(result)
        assert (kind, pid) == ("process", child.pid)
        assert path.startswith(f"/proc/{child.pid}/task/")
        assert os.stat(path).st_ino == net.inode


def test_thread_with_descriptors_of_its_own(net: Net) -> None:
    with unnamed(net, THREAD_FILES) as (child, result):
        ((kind, pid, path),) = short(result)
        assert (kind, pid) == ("fd", child.pid)
        assert path.startswith(f"/proc/{child.pid}/task/")


def test_bind_mount_in_another_mount_namespace(net: Net, tmp_path: Path) -> None:
    point = tmp_path / "a place"
    # The copy of /run/netns/NAME there is private as well: `ip netns del` here does not reach it.
    with unnamed(net, PRIVATE_MOUNT.format(then=""), str(point)) as (child, result):
        assert set(kinds(result)) == {("mount", child.pid)}
        assert str(point) in {holder.path for holder in result.holders}
        assert not os.path.samestat(os.stat(point), os.stat(f"/proc/{child.pid}/root{point}"))


def test_file_opened_on_a_mount_of_another_mount_namespace(net: Net, tmp_path: Path) -> None:
    then = 'handle = os.open(sys.argv[2], os.O_RDONLY)\nsubprocess.run(["umount", "-l", sys.argv[2]], check=True)'
    then += '\nsubprocess.run(["umount", "-l", path], check=True)'
    with unnamed(net, PRIVATE_MOUNT.format(then=then), str(tmp_path / "point")) as (child, result):
        assert kinds(result) == [("fd", child.pid)]


def test_mount_seen_only_from_outside_a_chroot(net: Net, tmp_path: Path) -> None:
    """The first process of the mount namespace is in a chroot that hides the mount."""
    inside = tmp_path / "inside"
    inside.mkdir()
    then = f"if os.fork() == 0:\n    sys.stdin.read()\n    os._exit(0)\nos.chroot({str(inside)!r})"
    with unnamed(net, PRIVATE_MOUNT.format(then=then), str(tmp_path / "point")) as (child, result):
        assert str(tmp_path / "point") in {holder.path for holder in result.holders}
        assert child.pid not in {holder.pid for holder in result.holders}


def test_limit_keeps_one_of_each_kind_and_the_total(net: Net) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(4):
            stack.enter_context(holding(OPEN_FILE, net.path))
        stack.enter_context(holding(SOCKET.format(then=""), net.path))
        result = held(net.inode, limit=3)
        assert [holder.kind for holder in result.holders] == ["mount", "fd", "socket"]
        assert result.holders_total >= 6


def test_a_listing_keeps_no_namespace_alive(net: Net) -> None:
    """A veth goes when the namespace of its peer does, so its host end tells when that really happened."""
    link = f"rdt{os.getpid() % 100000}x"
    made = subprocess.run(
        ["ip", "link", "add", link, "type", "veth", "peer", "name", "p0", "netns", net.name], capture_output=True
    )
    if made.returncode != 0:
        skip_or_fail(f"needs veth: {made.stderr.decode()}")
    before = sorted(os.listdir("/proc/self/fd"))
    with holding(OPEN_FILE, net.path), holding(SOCKET.format(then=""), net.path):
        for _ in range(5):
            assert find(net.inode) is not None
        run("ip", "netns", "del", net.name)
        # Both holders are gone after this block, and no handle of ours is left.
        assert find(net.inode) is not None
    wait_for(lambda: not os.path.exists(f"/sys/class/net/{link}"), pause=0.05)
    assert sorted(os.listdir("/proc/self/fd")) == before


def test_processes_that_come_and_go() -> None:
    stop = threading.Event()

    def churn() -> None:
        while not stop.is_set():
            subprocess.run(["unshare", "-n", "true"], check=True)

    thread = threading.Thread(target=churn)
    thread.start()
    try:
        for _ in range(30):
            assert [row for row in survey.survey().unreadable if not row.path.startswith("/proc/1/")] == []
    finally:
        stop.set()
        thread.join()


OTHERS = "try:\n    print(netns.others())\nexcept netns.NamespaceError as exc:\n    print(exc)\n"


def elsewhere(*prefix: str, program: str = OTHERS) -> subprocess.CompletedProcess[str]:
    program = f"from {survey.__package__} import survey as netns\n" + program
    return subprocess.run(
        [*prefix, sys.executable, "-I", "-B", "-c", program], text=True, capture_output=True, timeout=60
    )


def test_without_root_there_is_no_list() -> None:
    need_tool("setpriv")
    done = elsewhere("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
    if "Permission denied" in done.stderr and not done.stdout:
        skip_or_fail("the checkout or its Python cannot be read by an ordinary user")
    assert done.stdout == (
        "Could not list network namespaces: /proc/1/ns/net: Permission denied. "
        "This needs root with CAP_SYS_PTRACE (become: true)\n"
    )


def test_in_a_container_there_is_no_list() -> None:
    done = elsewhere("unshare", "--pid", "--fork", "--mount-proc")
    assert done.stdout == (
        "Could not list network namespaces: this process is in its own PID namespace (a container?) and cannot "
        "see the processes of the host. Run it on the host itself\n"
    )


def test_an_incomplete_list_is_refused(net: Net) -> None:
    """Without CAP_NET_ADMIN the kernel does not tell the namespace of a socket."""
    need_tool("setpriv")
    refused = "for row in netns.survey().unreadable:\n    print(row.path, row.error)\n" + OTHERS
    with holding(SOCKET.format(then=""), net.path) as child:
        done = elsewhere("setpriv", "--bounding-set=-net_admin", "--inh-caps=-all", program=refused)
    *rows, message = done.stdout.splitlines()
    assert any(
        row.startswith(f"/proc/{child.pid}/fd/") and row.endswith(" EPERM (Operation not permitted)") for row in rows
    )
    assert message.startswith("Could not look for network namespaces everywhere: /proc/")
    assert message.endswith(
        "This needs root with CAP_SYS_PTRACE and CAP_NET_ADMIN on the host (become: true), and Linux 5.6 for sockets"
    )


def test_three_hundred_processes_and_two_thousand_descriptors_in_a_second() -> None:
    program = """
begun, signs = os.pipe()
for _ in range(300):
    if os.fork() == 0:
        held = [socket.socket() for _ in range(4)] + [open("/proc/self/exe", "rb") for _ in range(2)]
        os.write(signs, b"x")
        sys.stdin.read()
        os._exit(0)
for _ in range(300):
    os.read(begun, 1)
ready()
"""
    with holding(program, "-"):
        started = time.process_time()
        survey.survey()
        spent = time.process_time() - started
    assert spent < 1.0
