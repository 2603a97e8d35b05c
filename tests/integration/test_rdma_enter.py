# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Entering real network namespaces, by whatever keeps them, and leaving nothing behind."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import subprocess
import sys
import time
import typing as t
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._netns import enter, nsfs, survey, target
from ansible_collections.rdmaops.gpu_fabric.tests.support import need_root, need_tool

COUNTER = itertools.count()


@pytest.fixture
def name() -> t.Iterator[str]:
    """A named namespace with a network device of its own."""
    need_root()
    tool = need_tool("ip")
    made = f"rdmaops-enter-{os.getpid()}-{next(COUNTER)}"
    subprocess.run([tool, "netns", "add", made], check=True, timeout=30)
    subprocess.run(
        [tool, "-n", made, "link", "add", "rd0", "type", "veth", "peer", "name", "rd1"], check=True, timeout=30
    )
    yield made
    subprocess.run([tool, "netns", "del", made], check=False, timeout=30, capture_output=True)


@contextlib.contextmanager
def opened(name: str) -> t.Iterator[int]:
    result = target.resolve("netns", name)
    try:
        yield result.handle
    finally:
        os.close(result.handle)


def interfaces() -> list[str]:
    return sorted(os.listdir("/sys/class/net"))


def test_what_is_read_inside_is_the_namespaces_own(name: str) -> None:
    before = (os.readlink("/proc/self/ns/net"), os.readlink("/proc/self/ns/mnt"), interfaces())
    with opened(name) as handle:
        assert enter.inside(handle, lambda: os.stat("/proc/self/ns/net").st_ino) == os.fstat(handle).st_ino
        assert enter.inside(handle, interfaces, sysfs=True) == ["lo", "rd0", "rd1"]
    assert (os.readlink("/proc/self/ns/net"), os.readlink("/proc/self/ns/mnt"), interfaces()) == before


def test_the_own_namespace_can_be_entered_too() -> None:
    need_root()
    handle = os.open("/proc/self/ns/net", os.O_RDONLY)
    try:
        assert enter.inside(handle, interfaces, sysfs=True) == interfaces()
    finally:
        os.close(handle)


def test_errors_come_back_with_their_number(name: str) -> None:
    def missing() -> t.Any:
        return os.listdir("/nowhere")

    def wrong() -> t.Any:
        raise ValueError("no number")

    with opened(name) as handle:
        with pytest.raises(enter.EnterError) as caught:
            enter.inside(handle, missing)
        assert caught.value.errno == errno.ENOENT
        with pytest.raises(enter.EnterError) as caught:
            enter.inside(handle, wrong)
        assert str(caught.value) == "ValueError: no number"
        with pytest.raises(enter.EnterError, match="exited without an answer"):
            enter.inside(handle, lambda: os._exit(3))


def children() -> set[str]:
    """Return the children of this process, which other tests' fixtures may have, too."""
    return set(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())


def test_who_hangs_is_stopped(name: str) -> None:
    before = children()
    began = time.monotonic()
    with opened(name) as handle, pytest.raises(enter.EnterError, match="within the time limit"):
        enter.inside(handle, lambda: time.sleep(60), timeout=0.5)
    assert time.monotonic() - began < 20
    assert children() <= before


def test_large_answers(name: str) -> None:
    with opened(name) as handle:
        assert enter.inside(handle, lambda: "x" * 5_000_000) == "x" * 5_000_000


def test_nothing_but_a_network_namespace_is_entered() -> None:
    need_root()
    handle = os.open("/proc/self/ns/mnt", os.O_RDONLY)
    try:
        assert not nsfs.is_net_namespace(handle)
        with pytest.raises(OSError, match="it is not a network namespace"):
            nsfs.by_link("/proc/self/ns/mnt")
        with pytest.raises(enter.EnterError, match="Could not enter the network namespace: Invalid argument"):
            enter.inside(handle, interfaces)
    finally:
        os.close(handle)


HOLD = """
import ctypes, os, socket, sys
libc = ctypes.CDLL(None, use_errno=True)
home = os.open("/proc/self/ns/net", os.O_RDONLY)
fd = os.open(sys.argv[2], os.O_RDONLY)
kind = sys.argv[1]
if kind != "fd":
    assert libc.setns(fd, 0x40000000) == 0
    os.close(fd)
if kind == "socket":
    held = socket.socket(socket.AF_UNIX)
    assert libc.setns(home, 0x40000000) == 0
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("kind", ["process", "fd", "socket", "mount"])
def test_a_namespace_is_opened_by_whatever_keeps_it(name: str, kind: str) -> None:
    inode = os.stat("/run/netns/" + name).st_ino
    with contextlib.ExitStack() as stack:
        if kind != "mount":
            holder = stack.enter_context(
                subprocess.Popen(
                    [sys.executable, "-c", HOLD, kind, "/run/netns/" + name],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                )
            )
            stack.callback(t.cast(t.IO[str], holder.stdin).close)
            assert t.cast(t.IO[str], holder.stdout).readline() == "ready\n"
            subprocess.run(["ip", "netns", "del", name], check=True, timeout=30)
        (space,) = [space for space in survey.survey().namespaces if space.inode == inode]
        assert {holder.kind for holder in space.holders} == {kind}
        handle = enter.opened(space)
        try:
            assert os.fstat(handle).st_ino == inode
            assert enter.inside(handle, interfaces, sysfs=True) == ["lo", "rd0", "rd1"]
        finally:
            os.close(handle)
    if kind != "mount":
        with pytest.raises(enter.EnterError, match="Could not open the network namespace net:"):
            enter.opened(space._replace(name=None))
