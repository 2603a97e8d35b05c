# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Real network namespaces: found by their processes, entered by a child, and let go of."""

from __future__ import annotations

import os
import subprocess
import time
import typing as t

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._netns.quick_survey import spaces
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._netns.survey import Namespace
from ansible_collections.rdmaops.gpu_fabric.roles.rdma_exporter.files.rdma_exporter import walk
from ansible_collections.rdmaops.gpu_fabric.tests.support import need_root, need_tool
from ansible_collections.rdmaops.gpu_fabric.tests.support.waiting import wait_for


@pytest.fixture
def sleeper() -> t.Iterator[subprocess.Popen[str]]:
    """A process in a network namespace of its own."""
    need_root()
    code = "ip link add rd0 type veth peer name rd1 && echo ready && exec sleep 600"
    argv = [need_tool("unshare"), "--net", "sh", "-c", code]
    need_tool("ip")
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    yield process
    process.kill()
    process.communicate()


def namespace_of(process: subprocess.Popen[str]) -> int:
    return os.stat(f"/proc/{process.pid}/ns/net").st_ino


def space_of(process: subprocess.Popen[str]) -> Namespace:
    (namespace,) = [space for space in spaces().others if space.inode == namespace_of(process)]
    return namespace


def look(has_sysfs: bool) -> t.Any:
    return [has_sysfs, os.stat("/proc/self/ns/net").st_ino, sorted(os.listdir("/sys/class/net"))]


def go(walker: walk.Walker, *members: Namespace, limit: float = 20) -> dict[int, t.Any]:
    return walker.walk(members, limit, time.monotonic() + 60)


def test_what_is_inside(sleeper: subprocess.Popen[str]) -> None:
    space = space_of(sleeper)
    # An exporter of another test may be looking into it.
    assert ("process", sleeper.pid) in [(holder.kind, holder.pid) for holder in space.holders]
    before = (os.readlink("/proc/self/ns/net"), os.readlink("/proc/self/ns/mnt"))
    (answer,) = go(walk.walker(look), space).values()
    assert answer == {"value": [True, space.inode, ["lo", "rd0", "rd1"]]}
    assert (os.readlink("/proc/self/ns/net"), os.readlink("/proc/self/ns/mnt")) == before
    assert "rd0" not in os.listdir("/sys/class/net")


def test_two_by_one_child(sleeper: subprocess.Popen[str]) -> None:
    other = subprocess.Popen(
        [need_tool("unshare"), "--net", "sh", "-c", "echo ready; exec sleep 600"], stdout=subprocess.PIPE, text=True
    )
    try:
        assert other.stdout is not None
        assert other.stdout.readline() == "ready\n"
        both = [space_of(sleeper), space_of(other)]
        result = go(walk.walker(look), *both)
        assert [result[space.inode]["value"][2] for space in both] == [["lo", "rd0", "rd1"], ["lo"]]
        assert [result[space.inode]["value"][1] for space in both] == [space.inode for space in both]
    finally:
        other.kill()
        other.communicate()


def test_one_that_hangs_does_not_keep_its_namespace(sleeper: subprocess.Popen[str]) -> None:
    space = space_of(sleeper)
    (answer,) = go(walk.walker(lambda has_sysfs: time.sleep(60)), space, limit=1).values()
    assert answer["error"] == "no answer from inside within 1 s"
    # The walk waits for the end of what it kills only for a moment.
    wait_for(lambda: [pid for pid in os.listdir("/proc") if is_in(pid, space.inode)] == [str(sleeper.pid)])


def is_in(pid: str, inode: int) -> bool:
    try:
        return os.readlink(f"/proc/{pid}/ns/net") == f"net:[{inode}]"
    except OSError:
        return False


def test_one_that_is_gone(sleeper: subprocess.Popen[str]) -> None:
    space = space_of(sleeper)
    sleeper.kill()
    sleeper.wait()
    (answer,) = go(walk.walker(look), space).values()
    assert answer["errno"] == 2
    assert f"Could not open the network namespace net:[{space.inode}]" in answer["error"]
