# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A local user with a user namespace attacks what looks into network namespaces: nothing of theirs is opened.

The kernel itself is the witness: inotify(7) reports each open() of a file, and none where it was opened with O_PATH.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import os
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._rdma import enter, netns
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._rdma.netns import Holder, Namespace
from ansible_collections.rdmaops.gpu_fabric.tests.support import need_root, need_tool, skip_or_fail

NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
IN_OPEN = 0x20
COUNTER = itertools.count()

# All network namespaces of the machine, as rdma_info and rdma_audit look into them in exclusive mode.
LOOK = """
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils import _rdma_info
class Host(_rdma_info.Host):
    def system(self):
        return True, "exclusive"
    def look(self, gather):
        return {"devices": [], "unreadable": []}
for row in _rdma_info.gather_info([], True, Host())["unreadable"]:
    print(row["netns"]["inode"] if row["netns"] else "-", row["error"])
"""

# In a mount namespace of the user's: a network namespace without a process, bound to a file, and over it another tree
# that has something else in that file's place.
PLANT = """
set -e
mount -t tmpfs none /tmp
mkdir /tmp/d
touch /tmp/d/ns
unshare -n sh -c 'mount --bind /proc/self/ns/net /tmp/d/ns; stat -L -c %i /proc/self/ns/net'
mount -t tmpfs none /tmp
"""
PLACES = {
    "a link to a FIFO of root's": "mkdir /tmp/d; ln -s {secret}/fifo /tmp/d/ns",
    "a link to a file of root's": "mkdir /tmp/d; ln -s {secret}/file /tmp/d/ns",
    "a directory that is a link": "ln -s {secret} /tmp/d",
    "a link to another process": "mkdir /tmp/d; ln -s /proc/self/fd/0 /tmp/d/ns",
    "a FIFO": "mkdir /tmp/d; mkfifo /tmp/d/ns",
    "a file": "mkdir /tmp/d; echo x > /tmp/d/ns",
}


@pytest.fixture(autouse=True)
def _machine() -> None:
    need_root()
    for tool in ("setpriv", "unshare", "ip"):
        need_tool(tool)
    tried = subprocess.run(
        [*NOBODY, "unshare", "-Urnm", "true"], capture_output=True, text=True, timeout=60, check=False
    )
    if tried.returncode != 0:
        skip_or_fail(f"an ordinary user may make no user namespace here: {tried.stderr}")


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """A directory of root's, which nobody else may enter."""
    made = tmp_path / "secret"
    made.mkdir(mode=0o700)
    os.mkfifo(made / "fifo")
    os.mkfifo(made / "ns")
    (made / "file").write_text("root's")
    return made


class Watch:
    """Reports whether one of some files was opened."""

    def __init__(self, *paths: Path) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self.handle = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        for path in paths:
            assert libc.inotify_add_watch(self.handle, bytes(path), IN_OPEN) >= 0, path

    def opened(self) -> bool:
        try:
            return bool(os.read(self.handle, 4096))
        except BlockingIOError:
            return False


@pytest.fixture
def watch(secret: Path) -> t.Iterator[Watch]:
    made = Watch(*secret.iterdir())
    # The witness sees what it is there for, and lets O_PATH pass.
    os.close(os.open(secret / "file", os.O_PATH))
    assert not made.opened()
    os.close(os.open(secret / "file", os.O_RDONLY))
    assert made.opened()
    yield made
    os.close(made.handle)


@contextlib.contextmanager
def user(*argv: str) -> t.Iterator[subprocess.Popen[str]]:
    """A program of an ordinary user; it says what it has to say in a line, and lives until its standard input ends."""
    child = subprocess.Popen([*NOBODY, *argv], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd="/")
    try:
        yield child
    finally:
        child.communicate(timeout=60)


def line(child: subprocess.Popen[str]) -> str:
    assert child.stdout is not None
    return child.stdout.readline().strip()


def look(program: str = LOOK, limit: float = 30) -> str:
    argv = [sys.executable, "-B", "-c", program]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=limit, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
def test_what_a_users_mount_table_names_is_not_opened(place: str, secret: Path, watch: Watch) -> None:
    program = PLANT + place.format(secret=secret) + "\necho planted\nexec cat"
    with user("unshare", "-Urm", "sh", "-c", program) as child:
        inode = int(line(child))
        assert line(child) == "planted"
        said = look()
        assert not watch.opened()
    assert f"{inode} Could not open the network namespace net:[{inode}]: " in said
