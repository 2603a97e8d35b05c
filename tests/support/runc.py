# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Containers of a containerd and a runc, as a pod's would be: with a user, capabilities, limits and a seccomp filter."""

from __future__ import annotations

import contextlib
import json
import re
import secrets
import shutil
import subprocess
import typing as t
from pathlib import Path

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._pod_exec.crictl import CrictlExec
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._pod_exec.stream import Stream
from ansible_collections.rdmaops.gpu_fabric.tests.lab import containers
from ansible_collections.rdmaops.gpu_fabric.tests.support import need_root, need_tool
from ansible_collections.rdmaops.gpu_fabric.tests.support.waiting import wait_for

MEMLOCK = 65536
RIGHTS = ("CAP_CHOWN", "CAP_KILL", "CAP_SETGID", "CAP_SETUID", "CAP_IPC_LOCK")
MASK = 1 << 0 | 1 << 5 | 1 << 6 | 1 << 7 | 1 << 14
TOOLS = (
    *("cat", "echo", "env", "id", "ln", "ls", "mkdir", "mkfifo", "mount", "nc", "rm", "setsid", "sh", "sleep"),
    *("timeout", "true", "yes"),
)


class Container(CrictlExec):
    """A container in which programs are run by `ctr tasks exec`, as by `crictl exec`."""

    def __init__(self, ident: str, ctr: t.Sequence[str]) -> None:
        super().__init__("container main of the pod ml/train-0", "192.0.2.7", [])
        self.ident, self.ctr = ident, ctr

    def open(self, argv: t.Sequence[str]) -> Stream:
        # Each has a name of its own.
        self._before = [*self.ctr, "tasks", "exec", "--exec-id", secrets.token_hex(8), self.ident]
        return super().open(argv)

    def pid(self) -> int:
        listed = subprocess.run([*self.ctr, "tasks", "ls"], capture_output=True, text=True, timeout=60, check=True)
        return next(int(line.split()[1]) for line in listed.stdout.splitlines() if line.startswith(self.ident))

    def processes(self) -> list[str]:
        """Who is in the container, as the host sees it."""
        commands = []
        for place in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if self.ident in (place / "cgroup").read_text():
                    commands.append((place / "cmdline").read_text().replace("\0", " ").strip())
        # Processes without a command line have exited, and their parent has not waited for them.
        return sorted(filter(None, commands))


class Runtime:
    """A containerd of its own."""

    def __init__(self, ctr: list[str], work: Path) -> None:
        self.ctr, self.work = ctr, work
        self.busybox = need_tool("busybox")

    def _run(self, *arguments: str, check: bool = True) -> None:
        done = subprocess.run([*self.ctr, *arguments], capture_output=True, text=True, timeout=60, check=False)
        assert not check or done.returncode == 0, done.stderr

    def _root(self, ident: str, tools: t.Sequence[str], programs: t.Sequence[str]) -> Path:
        root = self.work / ident
        for name in ("bin", "proc", "dev", "tmp"):
            (root / name).mkdir(parents=True)
        (root / "tmp").chmod(0o1777)
        shutil.copy(self.busybox, root / "bin/busybox")
        for name in tools:
            (root / "bin" / name).symlink_to("busybox")
        for name in programs:
            listed = subprocess.run(["ldd", need_tool(name)], capture_output=True, text=True, timeout=20, check=True)
            for library in re.findall(r"(/\S+) \(0x", listed.stdout):
                place = root / library.lstrip("/")
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(library, place)
            shutil.copy(need_tool(name), root / "bin" / {"dash": "sh"}.get(name, name))
        return root

    @contextlib.contextmanager
    def container(
        self,
        *,
        user: int = 0,
        tools: t.Sequence[str] = TOOLS,
        programs: t.Sequence[str] = (),
        argv: t.Sequence[str] = ("sleep", "1000"),
        rights: t.Sequence[str] = RIGHTS,
        confined: bool = True,
    ) -> t.Iterator[Container]:
        """The container main of the pod ml/train-0, which sleeps.

        ``tools`` are busybox', whose shell has all others too; ``programs`` are this machine's, dash as sh.
        """
        ident = secrets.token_hex(32)
        process = {
            "user": {"uid": user, "gid": user, "additionalGids": [44]},
            "args": list(argv),
            "env": ["PATH=/bin", "NAME=value"],
            "cwd": "/",
            "noNewPrivileges": True,
            "capabilities": {kind: list(rights) for kind in ("bounding", "effective", "permitted")},
            "rlimits": [{"type": "RLIMIT_MEMLOCK", "soft": MEMLOCK, "hard": MEMLOCK}],
        }
        refused = {"names": ["mkdir"], "action": "SCMP_ACT_ERRNO"}
        spec = {
            "ociVersion": "1.0.2",
            "process": process,
            "root": {"path": str(self._root(ident, tools, programs))},
            "hostname": "train-0",
            "mounts": [
                {"destination": "/proc", "type": "proc", "source": "proc"},
                {"destination": "/dev", "type": "tmpfs", "source": "tmpfs"},
            ],
            "linux": {
                "cgroupsPath": f"/kubepods/pod{ident[:8]}/{ident}",
                "namespaces": [{"type": kind} for kind in ("pid", "ipc", "uts", "mount", "network")],
                **({"seccomp": {"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [refused]}} if confined else {}),
            },
        }
        path = self.work / f"{ident}.json"
        path.write_text(json.dumps(spec))
        container = Container(ident, self.ctr)
        try:
            self._run("run", "--detach", "--config", str(path), ident)
            # What it has been asked to do before it sleeps is done.
            wait_for(lambda: "sleep 1000" in container.processes())
            yield container
        finally:
            self._run("tasks", "kill", "--signal", "SIGKILL", ident, check=False)
            self._run("tasks", "rm", "--force", ident, check=False)
            self._run("containers", "rm", ident, check=False)
            # Of the pod; runc removes the container's own.
            for place in Path("/sys/fs/cgroup").glob(f"**/kubepods/pod{ident[:8]}"):
                with contextlib.suppress(OSError):
                    place.rmdir()


@contextlib.contextmanager
def runtime(work: Path) -> t.Iterator[Runtime]:
    need_root()
    for tool in ("containerd", "runc"):
        need_tool(tool)
    ctr = need_tool("ctr")
    with containers.containerd(work, work / "log") as address:
        yield Runtime([ctr, "--address", address, "--namespace", "k8s.io"], work)
