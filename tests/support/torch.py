# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A Python with PyTorch and torchvision, and the training workload run by it.

It is, in this order, what TORCH_PYTHON names, the python3 of PATH if it has both, or Debian's packages in a root
directory that is made once (about 900 MB) and kept in the lab's cache: the package index has no build for the CPU alone.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
from pathlib import Path

from ansible_collections.rdmaops.gpu_fabric.tests.support import COLLECTION, debian_root, need_root, skip_or_fail

WORKLOAD = COLLECTION / "roles" / "training_image" / "files" / "workload"
HAS_BOTH = "import importlib.util as u, sys; sys.exit(not (u.find_spec('torch') and u.find_spec('torchvision')))"

debian_root.PACKAGES["torch"] = ("python3-torch", "python3-torchvision")
debian_root.FILES["torch"] = {}

# The workload and a test's directory are seen under /run, in a mount namespace that goes with the command.
ENTER = """
set -e
mount -t proc proc "$1/proc"
mount --rbind /dev "$1/dev"
mount -t sysfs -o ro sysfs "$1/sys"
mount -t tmpfs tmpfs "$1/run"
mkdir "$1/run/workload" "$1/run/test"
mount --bind "$2" "$1/run/workload"
mount --bind "$3" "$1/run/test"
root=$1
shift 3
exec chroot "$root" /bin/sh -c 'cd /run/test && exec "$@"' sh "$@"
"""


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
    found = shutil.which("python3")
    return found if found and has_both(found) else ""


def command(directory: Path, script: str, *arguments: str) -> list[str]:
    """Return the command that runs a script of the workload in ``directory``; its paths are relative to that.

    The process of the command is Python itself: a signal to it reaches the workload.
    """
    return python(directory, f"{WORKLOAD if interpreter() else '/run/workload'}/{script}", *arguments)


def python(directory: Path, *arguments: str) -> list[str]:
    """Return the command that runs Python with those arguments in ``directory``."""
    found = interpreter()
    if found:
        return ["env", "-C", str(directory), found, *arguments]
    need_root()
    root = debian_root.debian_root("torch")
    enter = ["unshare", "--mount", "--propagation", "private", "sh", "-c", ENTER, "sh"]
    return [*enter, str(root), str(WORKLOAD), str(directory), "python3", *arguments]


def environment(**variables: str) -> dict[str, str]:
    """Return this process's environment less what says who a rank is, with ``variables``.

    One thread per rank: sums come in the same order, and two ranks share a small machine.
    """
    from_outside = ("RANK", "WORLD_", "LOCAL_", "MASTER_", "OMPI_", "VC_", "TORCHELASTIC_", "GLOO_", "NCCL_", "PYTHON")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(from_outside)}
    return {**kept, "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1", **variables}


__all__ = ["WORKLOAD", "command", "environment", "interpreter", "python"]
