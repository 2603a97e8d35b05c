# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names, addresses and places: what versions.toml and the environment say."""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import hashlib
import os
import pathlib
import shutil
import typing as t

from .progress import LabError, say

HERE = pathlib.Path(__file__).resolve().parent
REPOSITORY = HERE.parent.parent
OUTSIDE_RAIL = 0xFF
# sizeof(sun_path) is 108 (unix(7)); ssh puts a random suffix of 17 characters behind a control socket's name.
SOCKET_PATH_MAX = 107
LONGEST_SOCKET_NAME = len("/") + 40 + 17


def versions() -> dict[str, t.Any]:
    # Not of the Pythons of old nodes, on which tests of module code run too.
    import tomllib

    with (HERE / "versions.toml").open("rb") as file:
        return tomllib.load(file)


def node_name(index: int) -> str:
    return f"gpu-{index}"


def node_index(name: str) -> int:
    """The number in a node's name; it is the last part of its addresses."""
    prefix, _, number = name.partition("-")
    plain = number.isascii() and number.isdigit() and number == str(int(number))
    if prefix == "gpu" and plain and 1 <= int(number) <= 99:
        return int(number)
    raise LabError(f"{name!r} is not a node of the lab: the names are gpu-1 to gpu-99")


def mac(prefix: str, rail: int, index: int) -> str:
    return f"{prefix}:{rail:02x}:{index:02x}"


def rail_address(prefix: str, rail: int, index: int) -> str:
    return f"{prefix}.{rail}.{index}"


def kvm_usable(cpuinfo: str | None = None, device: str = "/dev/kvm") -> bool:
    """Whether QEMU may use KVM.

    The device alone proves nothing: a guest started on a CPU without vmx or svm
    hangs before its first instruction.
    """
    text = pathlib.Path("/proc/cpuinfo").read_text() if cpuinfo is None else cpuinfo
    flags = {word for line in text.splitlines() if line.startswith("flags") for word in line.split(":", 1)[1].split()}
    return bool(flags & {"vmx", "svm"}) and os.access(device, os.R_OK | os.W_OK)


@dataclasses.dataclass(frozen=True)
class Places:
    cache: pathlib.Path
    state: pathlib.Path
    sockets: pathlib.Path

    @property
    def images(self) -> pathlib.Path:
        return self.cache / "images"

    def node(self, name: str) -> pathlib.Path:
        return self.state / name


def places(environ: t.Mapping[str, str] | None = None) -> Places:
    env = os.environ if environ is None else environ
    home = pathlib.Path(env.get("HOME") or "~").expanduser()
    base = pathlib.Path(env.get("XDG_CACHE_HOME") or home / ".cache")
    cache = pathlib.Path(env.get("LAB_CACHE") or base / "rdmaops" / "lab").absolute()
    state = pathlib.Path(env.get("LAB_STATE") or cache / "state").absolute()
    return Places(cache, state, socket_directory(state, env))


def socket_directory(state: pathlib.Path, environ: t.Mapping[str, str]) -> pathlib.Path:
    """Where the lab's sockets are: beside the state, unless that path is too long for a socket."""
    inside = state / "run"
    if len(os.fsencode(inside)) + LONGEST_SOCKET_NAME <= SOCKET_PATH_MAX:
        return inside
    short = hashlib.sha256(os.fsencode(state)).hexdigest()[:12]
    return pathlib.Path(environ.get("XDG_RUNTIME_DIR") or "/tmp") / f"rdmaops-lab-{short}"


def host_packages(config: t.Mapping[str, t.Any]) -> list[str]:
    return sorted(set(config["host"]["packages"].values()))


def missing_commands(config: t.Mapping[str, t.Any]) -> dict[str, str]:
    """Commands that are not there, and the package that brings each."""
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    return {
        command: package
        for command, package in config["host"]["packages"].items()
        if shutil.which(command, path=path) is None
    }


@contextlib.contextmanager
def lock(path: pathlib.Path, busy: str, wait: bool = False) -> t.Iterator[None]:
    """Hold a lock that the kernel gives up with the process."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if not wait:
                raise LabError(f"{busy} ({path})") from None
            say(f"{busy}: waiting for it")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
