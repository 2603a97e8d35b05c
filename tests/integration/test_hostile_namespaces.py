# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A local user with a user namespace attacks what looks into network namespaces: nothing of theirs is opened.

The kernel itself is the witness: inotify(7) reports each open() of a file, and none where it was opened with O_PATH.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import time
import typing as t
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._netns import enter, quick_survey
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._netns.survey import Holder, Namespace
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._rdma.pci_netdevs import Function, Netdev
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._rdma_devices import follow
from ansible_collections.rdmaops.gpu_fabric.tests.support import need_root, need_tool, skip_or_fail
from ansible_collections.rdmaops.gpu_fabric.tests.support.waiting import wait_for

NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
IN_OPEN = 0x20
PYTHON = "/usr/bin/python3"

# All network namespaces of the machine, as rdma_info and rdma_audit_info look into them in exclusive mode.
LOOK = """
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._rdma_devices import info
class Host(info.Host):
    def system(self):
        return True, "exclusive"
    def look(self, gather):
        return {"devices": [], "unreadable": []}
for row in info.gather_info([], True, Host())["unreadable"]:
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
    "a FIFO": "mkdir /tmp/d; mkfifo /tmp/d/ns",
    "a file": "mkdir /tmp/d; echo x > /tmp/d/ns",
}

# A process whose namespace is opened by one of its files, when that has become something else.
FILE = """
import os, sys
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._netns import enter
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._netns import survey as netns
pid, number, inode = map(int, sys.argv[1:])
holder = netns.Holder("fd", "/proc/%d/fd/%d" % (pid, number), pid, "sh", None, None)
try:
    enter.within(netns.Namespace(inode, None, [holder], 1), os.getpid)
except enter.EnterError as exc:
    print(exc)
"""

# What keeps a namespace.
SURVEY = """
import sys
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._netns import survey as netns
for space in netns.survey().namespaces:
    if space.inode == int(sys.argv[1]):
        print(*[word for holder in space.holders for word in (holder.kind, holder.command)])
"""

# A process in a network namespace of its own whose memory cannot be read: it stays in mmap(2) of a file of the user's own
# file system (fuse(4)), which waits for a page of that file. Another process reads the page, and is never answered.
MEMORY = """
import ctypes, os, select, signal, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype, libc.mmap.argtypes = ctypes.c_void_p, [ctypes.c_void_p] + [ctypes.c_long] * 5
def checked(result):
    assert result == 0, os.strerror(ctypes.get_errno())
fuse = os.open(sys.argv[1], os.O_RDWR)
options = "fd=%d,rootmode=40000,user_id=0,group_id=0" % fuse
checked(libc.mount(b"fuse", b"/tmp", b"fuse", 6, options.encode()))
holder, reader = None, os.fork()
if reader == 0:
    os.close(fuse)
    try:
        os.read(os.open("/tmp/file", os.O_RDONLY), 10)
    finally:
        os._exit(1)
def hold():
    file = os.open("/tmp/file", os.O_RDONLY)
    checked(libc.unshare(0x40000000))
    print(os.getpid(), os.stat("/proc/self/ns/net").st_ino, flush=True)
    libc.mmap(0, 4096, 1, 2, file, 0)
    os._exit(1)
signal.signal(signal.SIGCHLD, lambda *_: os._exit(1))
def attributes(node):
    mode = 0o40755 if node == 1 else 0o100644
    return struct.pack("=6Q3I7I", node, 4096, 8, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)
while True:
    ready, _, _ = select.select([fuse, sys.stdin], [], [])
    if sys.stdin in ready:
        break
    request = os.read(fuse, 1 << 17)
    _length, code, unique, node = struct.unpack_from("=IIQQ", request)
    answer, error = b"", 0
    if code == 15 and holder is None:
        holder = os.fork()
        if holder == 0:
            os.close(fuse)
            hold()
    if code in (2, 15, 36):
        continue
    elif code == 26:
        answer = struct.pack("=4I2HI2H8I", 7, 31, 0, 0, 1, 1, 4096, 1, 1, 0, *[0] * 7)
    elif code == 1:
        answer = struct.pack("=4Q2I", 2, 0, 60, 60, 0, 0) + attributes(2)
    elif code == 3:
        answer = struct.pack("=Q2I", 60, 0, 0) + attributes(node)
    elif code == 14:
        # FOPEN_KEEP_CACHE, FOPEN_DIRECT_IO for the second
        answer = struct.pack("=Q2I", 0, 3 if holder else 2, 0)
    elif code not in (18, 25):
        error = -38
    os.write(fuse, struct.pack("=IiQ", 16 + len(answer), error, unique) + answer)
"""

# Network namespaces of a user's, each with a process.
FLOOD = """
import ctypes, os, sys
libc = ctypes.CDLL(None)
assert libc.unshare(0x10000000) == 0
reader, writer = os.pipe()
for _ in range(int(sys.argv[1])):
    if os.fork() == 0:
        os.close(reader)
        assert libc.unshare(0x40000000) == 0
        os.close(writer)  # the parent sees the end when all have done this
        sys.stdin.read()
        os._exit(0)
os.close(writer)
os.read(reader, 1)
print("ready", flush=True)
sys.stdin.read()
"""


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
    """A directory of root's, which no one else may enter."""
    made = tmp_path / "secret"
    made.mkdir(mode=0o700)
    os.mkfifo(made / "fifo")
    os.mkfifo(made / "ns")
    (made / "file").write_text("root's")
    return made


@pytest.fixture
def public() -> t.Iterator[Path]:
    """A directory that everyone may enter."""
    path = Path(tempfile.mkdtemp())
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


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


def root(program: str, *arguments: str, limit: float = 30) -> str:
    """What a program of root's prints within a time. One that hangs is left to the end of what it hangs on."""
    argv = [sys.executable, "-B", "-c", program, *arguments]
    child = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    try:
        output, _nothing = child.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        child.kill()
        raise
    assert child.returncode == 0
    return output


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
def test_what_a_users_mount_table_names_is_not_opened(place: str, secret: Path, watch: Watch) -> None:
    program = PLANT + place.format(secret=secret) + "\necho planted\nexec cat"
    with user("unshare", "-Urm", "sh", "-c", program) as child:
        inode = int(line(child))
        assert line(child) == "planted"
        output = root(LOOK)
        assert not watch.opened()
    assert (
        f"{inode} Could not open the network namespace net:[{inode}]: the mount /tmp/d/ns of process {child.pid} (cat) is "
        "in another mount namespace, and paths from the mount tables of others are not followed. End the processes "
        "there to release it\n"
    ) in output


def test_a_file_that_has_become_another_is_not_opened(public: Path) -> None:
    """Found as a network namespace; then the user puts a FIFO under its number."""
    fifo = public / "fifo"
    os.mkfifo(fifo)
    fifo.chmod(0o666)
    with user("sh", "-c", f"exec 7<>{fifo} 8<{fifo} 7>&-; echo ready; exec cat") as child:
        assert line(child) == "ready"
        watch = Watch(fifo)
        output = root(FILE, str(child.pid), "8", "4026539999")
        assert not watch.opened()
        os.close(watch.handle)
    assert output == (
        f"Could not open the network namespace net:[4026539999]: /proc/{child.pid}/fd/8: the file was replaced\n"
    )


def test_a_command_line_that_cannot_be_read_is_not_waited_for(public: Path) -> None:
    if not os.path.exists("/dev/fuse"):
        skip_or_fail("needs /dev/fuse")
    # As udev makes it, for everyone.
    device = public / "fuse"
    os.mknod(device, stat.S_IFCHR, os.stat("/dev/fuse").st_rdev)
    device.chmod(0o666)
    with user("unshare", "-Urm", PYTHON, "-c", MEMORY, str(device)) as child:
        pid, inode = line(child).split()
        wait_for(lambda: Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "D")
        output = root(SURVEY, inode)
    assert output == "process python3\n"


@pytest.fixture
def pod() -> t.Iterator[Namespace]:
    """A namespace with a process, as if that were a pod's."""
    argv = ["unshare", "--net", "sh", "-c", "echo ready; exec cat"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert line(child) == "ready"
        inode = os.stat(f"/proc/{child.pid}/ns/net").st_ino
        (namespace,) = [space for space in quick_survey.spaces().others if space.inode == inode]
        yield namespace._replace(holders=[holder._replace(pod={"uid": "u"}) for holder in namespace.holders])
        child.communicate()


@pytest.fixture
def named() -> t.Iterator[Namespace]:
    """A namespace that root has made and no process is in."""
    name = f"rdmaops-hostile-{os.getpid()}"
    subprocess.run(["ip", "netns", "add", name], check=True, timeout=60)
    path = f"/run/netns/{name}"
    yield Namespace(os.stat(path).st_ino, name, [Holder("mount", path, 1, "", None, None)], 1)
    subprocess.run(["ip", "netns", "del", name], check=True, timeout=60)


CARD = Function("0000:07:00.0")


def parent(pid: int) -> int | None:
    """The parent of a process; PIDs are not in its order, because they start again from the beginning."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return None


@pytest.mark.parametrize("count", [50, pytest.param(500, marks=pytest.mark.long)])
def test_many_namespaces_of_a_user_cost_a_bounded_time(
    count: int, pod: Namespace, named: Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They come last, so what pods and root have is found all the same; what was not reached is said."""

    def inside() -> tuple[list[Netdev], list[str]]:
        time.sleep(0.1)  # so that there is no time for all
        mine = os.stat("/proc/self/ns/net").st_ino in (pod.inode, named.inode)
        return [Netdev("net1", *CARD)] if mine else [], []

    monkeypatch.setattr(follow, "_inside", inside)
    monkeypatch.setattr(follow, "TOTAL_S", 2.0)
    with user(PYTHON, "-c", FLOOD, str(count)) as child:
        assert line(child) == "ready"
        observed = quick_survey.spaces()
        users = [space for space in observed.others if any(parent(holder.pid) == child.pid for holder in space.holders)]
        others = [*users[:count], named, pod]
        monkeypatch.setattr(quick_survey, "spaces", lambda: observed._replace(others=others))
        began = time.monotonic()
        places, problem = follow.Host().places({CARD})
        assert time.monotonic() - began < 10
    assert [place.space.inode for place in places[CARD]] == [named.inode, pod.inode]
    assert problem is not None
    assert re.match(rf"No time was left to look into \d+ of {count + 2} network namespaces: net:\[", problem)


def test_a_pid_that_another_process_has_got(pod: Namespace) -> None:
    (holder,) = pod.holders
    assert holder.started
    assert enter.within(pod, lambda: os.stat("/proc/self/ns/net").st_ino) == pod.inode
    other = pod._replace(holders=[holder._replace(started=holder.started - 1)])
    text = f"Could not open the network namespace net:[{pod.inode}]: {holder.path}: the process has exited"
    for attempt in (lambda: enter.within(other, os.getpid), lambda: enter.opened(other)):
        with pytest.raises(enter.EnterError) as caught:
            attempt()
        assert str(caught.value) == text
