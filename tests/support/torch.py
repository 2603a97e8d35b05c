# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A Python with PyTorch and torchvision, and the training workload run by it.

It is, in this order, what TORCH_PYTHON names, the python3 of PATH if it has both, or Debian's packages in a root
directory that is created once (about 900 MB) and kept in the lab's cache: the package index has no build for the CPU alone.
"""

from __future__ import annotations

import functools
import importlib
import json
import os
import shutil
import subprocess
import sys
import time
import typing as t
from pathlib import Path

from ansible_collections.rdmaops.gpu_fabric.tests.lab import ports
from ansible_collections.rdmaops.gpu_fabric.tests.support import COLLECTION, debian_root, need_root, skip_or_fail
from ansible_collections.rdmaops.gpu_fabric.tests.support.waiting import wait_for

WORKLOAD = COLLECTION / "roles" / "training_image" / "files" / "workload"
HAS_BOTH = "import importlib.util as u, sys; sys.exit(not (u.find_spec('torch') and u.find_spec('torchvision')))"


# The workload and a test's directory are seen under /run, which is the command's own.
ENTER = """
set -e
mkdir "$1/run/workload" "$1/run/test"
mount --bind "$2" "$1/run/workload"
mount --bind "$3" "$1/run/test"
root=$1
shift 3
exec chroot "$root" /bin/sh -c 'cd /run/test && exec "$@"' sh "$@"
"""


def module(name: str) -> t.Any:
    """Return a module of the workload that does not need PyTorch; its neighbours are found by their plain names."""
    sys.path.insert(0, str(WORKLOAD))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(WORKLOAD))


def has_both(python: str) -> bool:
    try:
        done = subprocess.run([python, "-c", HAS_BOTH], capture_output=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


@functools.lru_cache(maxsize=1)
def interpreter() -> str:
    """Return the path of a Python with PyTorch and torchvision, empty for the one in Debian's root directory."""
    named = os.environ.get("TORCH_PYTHON")
    if named:
        if not has_both(named):
            skip_or_fail(f"TORCH_PYTHON={named} has no torch and torchvision")
        return named
    python = shutil.which("python3")
    return python if python and has_both(python) else ""


def command(directory: Path, script: str, *arguments: str) -> list[str]:
    """Return the command that runs a script of the workload in ``directory``; its paths are relative to that.

    The process of the command is Python itself: a signal to it reaches the workload.
    """
    return python(directory, script_path(script), *arguments)


def script_path(script: str) -> str:
    """Return where the interpreter finds a script of the workload."""
    return f"{WORKLOAD if interpreter() else '/run/workload'}/{script}"


def python(directory: Path, *arguments: str) -> list[str]:
    """Return the command that runs Python with those arguments in ``directory``."""
    return _inside(directory, interpreter() or "python3", *arguments)


def mpirun(directory: Path, ranks: int, script: str, *arguments: str) -> list[str]:
    """Return the command by which Open MPI runs a script as several ranks on this machine."""
    # No network device is a rail here, and more ranks than processors may be wanted.
    argv = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-np", str(ranks)]
    return _inside(directory, *argv, interpreter() or "python3", script_path(script), *arguments)


def _inside(directory: Path, *argv: str) -> list[str]:
    """Return the command that runs a program where PyTorch is."""
    if interpreter():
        return ["env", "-C", str(directory), *argv]
    need_root()
    root = debian_root.debian_root("torch")
    return debian_root.mounted(root, ["sh", "-c", ENTER, "sh", str(root), str(WORKLOAD), str(directory), *argv])


def environment(**variables: str) -> dict[str, str]:
    """Return this process's environment without the variables of a rank, with ``variables``.

    One thread per rank: sums come in the same order, and two ranks share a small machine.
    """
    from_outside = ("RANK", "WORLD_", "LOCAL_", "MASTER_", "OMPI_", "VC_", "TORCHELASTIC_", "GLOO_", "NCCL_", "PYTHON")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(from_outside)}
    return {**kept, "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1", **variables}


class Done(t.NamedTuple):
    """How one rank ended."""

    status: int
    out: str
    err: str

    @property
    def result(self) -> dict[str, t.Any]:
        """The JSON that rank 0 prints last."""
        (line,) = [line for line in self.out.splitlines() if line.startswith("RESULT ")]
        result: dict[str, t.Any] = json.loads(line.removeprefix("RESULT "))
        return result


class Job:
    """Ranks of one job on this machine, each a process with its output in files; ended with the block."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._reserved = ports.reserve()
        self.port = ports.number(self._reserved)
        self._started: list[tuple[subprocess.Popen[bytes], Path, Path]] = []

    def __enter__(self) -> Job:
        return self

    def __exit__(self, *dummy: object) -> None:
        for process, _out, _err in self._started:
            process.kill()
            process.wait(60)
        self._reserved.close()

    def start(self, argv: t.Sequence[str], **variables: str) -> subprocess.Popen[bytes]:
        """Start a process of the job."""
        number = len(self._started)
        out, err = (self.directory / f"{self.port}-{number}.{name}" for name in ("out", "err"))
        with out.open("wb") as output, err.open("wb") as errors:
            process = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=output, stderr=errors, env=environment(**variables)
            )
        self._started.append((process, out, err))
        return process

    def rank(self, rank: int, world: int, script: str, *words: str) -> subprocess.Popen[bytes]:
        """Start one rank of a script; options give it its rank."""
        who = ["--rank", str(rank), "--world-size", str(world), "--master-addr", "127.0.0.1"]
        argv = command(self.directory, script, *who, "--master-port", str(self.port), *words)
        return self.start(argv)

    def wait(self, limit: float) -> list[Done]:
        """Return how the processes ended, in the order in which they were started."""
        ends = time.monotonic() + limit
        ranks = []
        for process, out, err in self._started:
            status = process.wait(max(0.1, ends - time.monotonic()))
            ranks.append(Done(status, out.read_text(), err.read_text()))
        return ranks

    def running(self, number: int) -> bool:
        """Whether the process of that number, in the order in which they were started, has not ended."""
        return self._started[number][0].poll() is None

    def take_port(self) -> None:
        """Listen where rank 0 wants to."""
        self._reserved.listen()

    def wait_for(self, text: str, limit: float) -> None:
        """Return once the first process has printed ``text``."""
        process, out, err = self._started[0]

        wait_for(lambda: text in out.read_text() or process.poll() is not None, limit, pause=0.1, report=out.read_text)
        assert text in out.read_text(), (process.returncode, out.read_text(), err.read_text())


def two(directory: Path, script: str, *words: str, limit: float = 600) -> list[Done]:
    """Run a script as two ranks and return how they ended."""
    with Job(directory) as job:
        for rank in range(2):
            job.rank(rank, 2, script, *words)
        return job.wait(limit)


__all__ = [
    "WORKLOAD",
    "Done",
    "Job",
    "command",
    "environment",
    "interpreter",
    "module",
    "mpirun",
    "python",
    "script_path",
    "two",
]
