# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Programs in a real container, made by containerd and runc as a pod's: with its rights, in time, and without a trace."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import secrets
import shutil
import signal
import stat
import subprocess
import sys
import time
import typing as t
import uuid
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils import _fabric_enter, _fabric_host
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._fabric_container import ContainerError, find
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._fabric_place import Place
from ansible_collections.rdmaops.gpu_fabric.tests.lab import containers
from ansible_collections.rdmaops.gpu_fabric.tests.support import need_root, need_tool
from ansible_collections.rdmaops.gpu_fabric.tests.support.waiting import wait_for

MEMLOCK = 65536
# CAP_CHOWN, CAP_KILL, CAP_SETGID, CAP_SETUID, CAP_IPC_LOCK
RIGHTS = ["CAP_CHOWN", "CAP_KILL", "CAP_SETGID", "CAP_SETUID", "CAP_IPC_LOCK"]
MASK = 1 << 0 | 1 << 5 | 1 << 6 | 1 << 7 | 1 << 14


@pytest.fixture(scope="module")
def runtime(tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[list[str]]:
    """The command line of a containerd of its own."""
    need_root()
    for tool in ("containerd", "runc"):
        need_tool(tool)
    ctr = need_tool("ctr")
    work = tmp_path_factory.mktemp("containerd")
    with containers.containerd(work, work / "log") as address:
        yield [ctr, "--address", address, "--namespace", "k8s.io"]


class Kubernetes:
    """Containers as the kubelet of a node would have them, with its logs."""

    def __init__(self, runtime: list[str], work: Path) -> None:
        self.runtime = runtime
        self.work = work
        self.made: list[str] = []
        self.root = work / "root"
        busybox = need_tool("busybox")
        for name in ("bin", "proc", "dev", "tmp"):
            (self.root / name).mkdir(parents=True)
        shutil.copy(busybox, self.root / "bin/busybox")
        for name in ("sh", "sleep", "cat", "id", "setsid", "dd"):
            (self.root / "bin" / name).symlink_to("busybox")
        for name in ("logs", "links"):
            (work / name).mkdir()

    def ctr(self, *arguments: str, check: bool = True) -> str:
        done = subprocess.run([*self.runtime, *arguments], capture_output=True, text=True, timeout=60, check=False)
        assert not check or done.returncode == 0, done.stderr
        return done.stdout

    def run(self, user: int = 0) -> str:
        """Start the container of the pod ml/train-0, which sleeps; return its id."""
        uid, ident = str(uuid.uuid4()), secrets.token_hex(32)
        (self.work / "logs" / f"ml_train-0_{uid}").mkdir()
        (self.work / "links" / f"train-0_ml_main-{ident}.log").touch()
        process = {
            "user": {"uid": user, "gid": user, "additionalGids": [44]},
            "args": ["sleep", "1000"],
            "env": ["PATH=/bin", "NAME=value"],
            "cwd": "/",
            "noNewPrivileges": True,
            "capabilities": dict.fromkeys(("bounding", "effective", "permitted"), RIGHTS),
            "rlimits": [{"type": "RLIMIT_MEMLOCK", "soft": MEMLOCK, "hard": MEMLOCK}],
        }
        null = {"allow": True, "type": "c", "major": 1, "minor": 3, "access": "rwm"}
        spec = {
            "ociVersion": "1.0.2",
            "process": process,
            "root": {"path": str(self.root)},
            "hostname": "train-0",
            "mounts": [
                {"destination": "/proc", "type": "proc", "source": "proc"},
                {"destination": "/dev", "type": "tmpfs", "source": "tmpfs"},
            ],
            "linux": {
                "cgroupsPath": f"/kubepods/pod{uid}/{ident}",
                "namespaces": [{"type": kind} for kind in ("pid", "ipc", "uts", "mount", "network")],
                "resources": {"devices": [{"allow": False, "access": "rwm"}, null]},
            },
        }
        path = self.work / f"{ident}.json"
        path.write_text(json.dumps(spec))
        self.made.append(ident)
        self.ctr("run", "--detach", "--config", str(path), ident)
        pid = next(line.split()[1] for line in self.ctr("tasks", "ls").splitlines() if line.startswith(ident))
        # While a process is in execve(2), /proc has no environment of it (environ_read in fs/proc/base.c).
        wait_for(lambda: Path(f"/proc/{pid}/comm").read_text() == "sleep\n")
        return ident

    def pod(self, monkeypatch: pytest.MonkeyPatch) -> _fabric_host.Pod:
        places = {name: str(self.work / name) for name in ("logs", "links")}
        monkeypatch.setattr(_fabric_host, "find", lambda pod, container: find(pod, container, **places))
        monkeypatch.setattr(_fabric_host, "LOGS", str(self.work))
        return _fabric_host.Pod("ml/train-0", "main")

    def end(self, ident: str) -> None:
        self.ctr("tasks", "kill", "--signal", "SIGKILL", ident, check=False)
        self.ctr("tasks", "rm", "--force", ident, check=False)
        self.ctr("containers", "rm", ident, check=False)
        shutil.rmtree(self.work / "logs")
        (self.work / "logs").mkdir()


@pytest.fixture
def kubernetes(runtime: list[str], tmp_path: Path) -> t.Iterator[Kubernetes]:
    made = Kubernetes(runtime, tmp_path)
    yield made
    for ident in made.made:
        made.end(ident)


@pytest.fixture
def pod(kubernetes: Kubernetes, monkeypatch: pytest.MonkeyPatch) -> t.Iterator[_fabric_host.Pod]:
    kubernetes.run()
    held = kubernetes.pod(monkeypatch)
    yield held
    held.close()


def processes(ident: str) -> list[str]:
    """Who is in the container, as the host sees it."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if ident in (place / "cgroup").read_text():
                found.append((place / "cmdline").read_text().replace("\0", " ").strip())
    return sorted(found)


@pytest.mark.parametrize("user", [0, 1000])
def test_a_program_is_as_if_the_container_ran_it(
    kubernetes: Kubernetes, monkeypatch: pytest.MonkeyPatch, user: int
) -> None:
    ident = kubernetes.run(user)
    pod = kubernetes.pod(monkeypatch)
    try:
        script = (
            "id; ulimit -l; cat /proc/self/status; cat /proc/sys/kernel/hostname; cat /proc/self/cgroup; echo $NAME"
        )
        status, said = pod.run(["sh", "-c", script], 20)
        assert status == 0
        assert said.startswith(f"uid={user} gid={user} groups=44\n{MEMLOCK // 1024}\n")
        fields = dict(line.split(":\t", 1) for line in said.split("\n") if ":\t" in line)
        assert int(fields["CapBnd"], 16) == MASK
        assert int(fields["CapEff"], 16) == (0 if user else MASK)
        assert (fields["NoNewPrivs"], fields["CapInh"], fields["CapAmb"]) == ("1", "0" * 16, "0" * 16)
        assert "\ntrain-0\n" in said
        assert said.endswith("\nvalue\n")
        assert ident in said
        # Nothing of what this process has open is there, not even for its own children.
        os.dup2(2, 200, inheritable=True)
        try:
            assert "/200" not in pod.run(["sh", "-c", "echo /proc/self/fd/*"], 20)[1]
        finally:
            os.close(200)
        # A file that only root of the host has made, and every user of the container can write.
        assert pod.run(["sh", "-c", f"echo written > {_fabric_enter.DOCUMENT}"], 20) == (0, "")
        assert pod.read(_fabric_enter.DOCUMENT) == "written\n"
        assert pod.which("sleep") == "/bin/sleep"
        assert pod.which("containerd") is None
    finally:
        pod.close()


def test_a_capability_can_be_left_out(pod: _fabric_host.Pod) -> None:
    _status, said = pod.run(["cat", "/proc/self/status"], 20, without=_fabric_enter.CAP_IPC_LOCK)
    fields = dict(line.split(":\t", 1) for line in said.split("\n") if ":\t" in line)
    assert {int(fields[name], 16) for name in ("CapBnd", "CapEff", "CapPrm")} == {MASK & ~(1 << 14)}


def test_the_containers_list_of_devices_counts(pod: _fabric_host.Pod) -> None:
    node = "/tmp/kmsg"
    os.mknod(f"/proc/{pod.container.pid}/root{node}", stat.S_IFCHR | 0o666, os.makedev(1, 11))
    status, said = pod.run(["dd", "if=" + node, "of=/dev/null", "bs=1", "count=1"], 20)
    assert status != 0
    assert "Operation not permitted" in said


def test_exit_status_and_document(pod: _fabric_host.Pod) -> None:
    path = pod.place("0-0-ib_write_bw.json")
    assert pod.run(["sh", "-c", f"echo out; echo '{{}}' > {path}; exit 3"], 20) == (3, "out\n")
    assert pod.read(path) == "{}\n"
    pod.remove(path)
    assert pod.read(path) == ""
    assert pod.run(["sh", "-c", "kill -9 $$"], 20) == (-signal.SIGKILL, "")
    with pytest.raises(ContainerError) as caught:
        pod.run(["nothing"], 20)
    assert str(caught.value) == (
        "Running nothing in the container main of the pod ml/train-0: No such file or directory"
    )


def test_a_time_limit_ends_whatever_came_of_it(pod: _fabric_host.Pod, monkeypatch: pytest.MonkeyPatch) -> None:
    started = _fabric_enter._Chain._child

    def printed(chain: _fabric_enter._Chain, step: t.Callable[[], None]) -> int:
        """The limit of a program counts from when this has returned: here, when it has printed."""
        child = started(chain, step)
        if step == chain._become:
            wait_for(lambda: os.fstat(chain.order.output).st_size == len("here\n"))
        return child

    monkeypatch.setattr(_fabric_enter._Chain, "_child", printed)
    before = processes(pod.container.ident)
    script = "trap '' TERM; setsid sleep 333 & sleep 444 & echo here; while true; do sleep 1; done"
    assert pod.run(["sh", "-c", script], 1) == (None, "here\n")
    assert processes(pod.container.ident) == before == ["sleep 1000"]


def test_orphans_end_with_the_program(pod: _fabric_host.Pod) -> None:
    assert pod.run(["sh", "-c", "setsid sleep 333 & exit 0"], 20) == (0, "")
    assert processes(pod.container.ident) == ["sleep 1000"]


def test_a_server_goes_on_and_is_stopped(pod: _fabric_host.Pod, tmp_path: Path) -> None:
    log = tmp_path / "server"
    server = pod.start(["sh", "-c", "echo up; setsid sleep 333 & sleep 444"], 100, str(log))
    wait_for(lambda: log.read_text() == "up\n")
    assert server.status() is None
    wait_for(lambda: {"sleep 333", "sleep 444"} <= set(processes(pod.container.ident)))
    server.stop()
    wait_for(lambda: processes(pod.container.ident) == ["sleep 1000"])
    short = pod.start(["sleep", "444"], 1, str(log))
    wait_for(lambda: short.status() is not None)
    assert short.status() == 124
    assert processes(pod.container.ident) == ["sleep 1000"]


SERVE = """
import os, sys
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils import _fabric_host
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._fabric_container import find
places = dict(logs=sys.argv[1] + "/logs", links=sys.argv[1] + "/links")
_fabric_host.find = lambda pod, container: find(pod, container, **places)
pod = _fabric_host.Pod("ml/train-0", None)
if sys.argv[2] == "start":
    pod.start(["sleep", "555"], 4, sys.argv[1] + "/log")
else:
    print("ready", flush=True)
    pod.run(["sleep", "666"], 100)
"""


def test_a_server_outlives_the_task_until_its_limit(
    kubernetes: Kubernetes, pod: _fabric_host.Pod, tmp_path: Path
) -> None:
    began = time.monotonic()
    subprocess.run([sys.executable, "-c", SERVE, str(kubernetes.work), "start"], check=True, timeout=60)
    wait_for(lambda: "sleep 555" in processes(pod.container.ident))
    wait_for(lambda: processes(pod.container.ident) == ["sleep 1000"])
    assert time.monotonic() - began >= 4


def test_a_client_ends_with_the_task(kubernetes: Kubernetes, pod: _fabric_host.Pod) -> None:
    argv = [sys.executable, "-c", SERVE, str(kubernetes.work), "run"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as task:
        wait_for(lambda: "sleep 666" in processes(pod.container.ident))
        task.kill()
    wait_for(lambda: processes(pod.container.ident) == ["sleep 1000"])


def test_a_container_that_ends_meanwhile(kubernetes: Kubernetes, pod: _fabric_host.Pod, tmp_path: Path) -> None:
    gone = r"The container main of the pod ml/train-0 has ended \(its process \d+ is gone\)"
    server = pod.start(["sleep", "444"], 100, str(tmp_path / "server"))
    wait_for(lambda: "sleep 444" in processes(pod.container.ident))
    os.kill(pod.container.pid, signal.SIGKILL)
    with pytest.raises(ContainerError, match=gone):
        wait_for(lambda: server.status() is not None)
    with pytest.raises(ContainerError, match=gone):
        pod.run(["sleep", "1"], 20)
    wait_for(lambda: not Path(f"/proc/{pod.container.pid}").exists())
    with pytest.raises(ContainerError, match=gone):
        Place(pod.container)
    with pytest.raises(ContainerError, match="has no process on this host"):
        _fabric_host.Pod("ml/train-0", None)


def test_the_network_is_the_pods(pod: _fabric_host.Pod) -> None:
    assert pod.network(lambda: sorted(os.listdir("/sys/class/net")))[0] == "lo"
    assert pod.network(lambda: os.stat("/proc/self/ns/net").st_ino) != os.stat("/proc/self/ns/net").st_ino
    assert pod.way() == (None, None)
    assert not pod.listens(80)


def test_own_limits_are_untouched(pod: _fabric_host.Pod) -> None:
    before = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    spaces = [os.readlink(f"/proc/self/ns/{kind}") for kind in ("net", "mnt", "pid", "ipc")]
    assert pod.run(["sh", "-c", "ulimit -l"], 20) == (0, "64\n")
    assert pod.held.limits[resource.RLIMIT_MEMLOCK] == (MEMLOCK, MEMLOCK)
    assert resource.getrlimit(resource.RLIMIT_MEMLOCK) == before
    assert [os.readlink(f"/proc/self/ns/{kind}") for kind in ("net", "mnt", "pid", "ipc")] == spaces
