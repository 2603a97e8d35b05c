# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A disk with containerd's directory, for images that nodes have from the start.

An emulated node takes minutes to unpack what this machine unpacks in seconds, so this machine's containerd does it, in
a directory of its own that becomes the disk.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time
import typing as t

from . import config
from .progress import LabError, step, tail

LABEL = "lab-containers"
NAMESPACE = "k8s.io"
# Room for what nodes import and run on top.
SPARE_MIB = 4096
LIMIT_S = 600


# Another layout of the disk has another number.
LAYOUT = 2


def digest(archives: t.Sequence[pathlib.Path]) -> str:
    whole = hashlib.sha256(b"%d" % LAYOUT)
    for path in archives:
        with path.open("rb") as file:
            whole.update(hashlib.file_digest(file, "sha256").digest())
    return whole.hexdigest()[:16]


def disk(places: config.Places, archives: t.Sequence[pathlib.Path]) -> pathlib.Path:
    """The disk of these images' archives, created if the cache has none."""
    if os.geteuid() != 0:
        raise LabError("unpacking images needs root: they hold files of many owners")
    for program in ("containerd", "ctr", "mke2fs"):
        if shutil.which(program) is None:
            raise LabError(
                f"unpacking images needs {program}: apt-get install --no-install-recommends containerd e2fsprogs"
            )
    path = places.cache / "containers" / f"{digest(archives)}.raw"
    with config.lock(places.cache / "containers.lock", "another command unpacks images", wait=True):
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(prefix=".unpack-", dir=path.parent) as work:
                unpack(pathlib.Path(work), archives)
                write(pathlib.Path(work) / "root", path)
    return path


def unpack(work: pathlib.Path, archives: t.Sequence[pathlib.Path]) -> None:
    log = work / "log"
    with containerd(work, log) as address:
        for path in archives:
            with step(f"unpacking {path.name}"):
                argv = ["ctr", "--address", address, "--namespace", NAMESPACE, "images", "import", str(path)]
                done = subprocess.run(
                    argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT_S, check=False
                )
                if done.returncode:
                    raise LabError(
                        f"unpacking {path}: {done.stderr.strip()}; the end of containerd's log:\n{tail(log, 10)}"
                    )
        name_by_digest(address)


def name_by_digest(address: str) -> None:
    """Give each image the name that a pod has for it which asks for a digest."""
    ctr = ["ctr", "--address", address, "--namespace", NAMESPACE, "images"]
    listed = subprocess.run([*ctr, "ls"], capture_output=True, text=True, timeout=60, check=True).stdout
    for line in listed.splitlines()[1:]:
        name, _type, digest = line.split()[:3]
        repository = name.rpartition(":")[0]
        if "@" not in name:
            subprocess.run(
                [*ctr, "tag", "--force", name, f"{repository}@{digest}"], capture_output=True, timeout=60, check=True
            )


@contextlib.contextmanager
def containerd(work: pathlib.Path, log: pathlib.Path) -> t.Iterator[str]:
    """A containerd that has nothing to do with this machine's own."""
    address = str(work / "socket")
    (work / "config.toml").write_text('version = 2\ndisabled_plugins = ["io.containerd.grpc.v1.cri"]\n')
    argv = ["containerd", f"--config={work}/config.toml", f"--root={work}/root", f"--state={work}/state"]
    with log.open("w") as out:
        child = subprocess.Popen([*argv, f"--address={address}"], stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        try:
            end = time.monotonic() + 60
            while subprocess.run(
                ["ctr", "--address", address, "version"], capture_output=True, timeout=20, check=False
            ).returncode:
                if child.poll() is not None or time.monotonic() > end:
                    raise LabError(f"containerd did not start; the end of its log:\n{tail(log, 20)}")
                time.sleep(0.2)
            yield address
        finally:
            child.send_signal(signal.SIGTERM)
            try:
                child.wait(timeout=20)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()


def write(root: pathlib.Path, target: pathlib.Path) -> None:
    """Make a file system of a directory, as root's and without mounting anything."""
    used = int(
        subprocess.run(
            ["du", "-sm", str(root)], capture_output=True, text=True, timeout=120, check=True
        ).stdout.split()[0]
    )
    new = target.with_suffix(".new")
    new.unlink(missing_ok=True)
    with step(f"writing the disk of images ({used} MiB)"):
        argv = [
            "mke2fs",
            "-q",
            "-t",
            "ext4",
            "-L",
            LABEL,
            "-d",
            str(root),
            str(new),
            f"{used + used // 4 + SPARE_MIB}M",
        ]
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT_S, check=False
        )
    if done.returncode:
        raise LabError(f"writing the disk of images: mke2fs ended with {done.returncode}: {done.stderr.strip()}")
    new.replace(target)


__all__ = ["LABEL", "disk"]
