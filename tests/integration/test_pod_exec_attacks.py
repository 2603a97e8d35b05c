# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Containers that attack the host while something is measured in them: nothing of it is opened, read or written.

Whoever has a pod chooses what /dev/null, /proc and the mount table are in it, and may have more capabilities than the
measurement needs.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import typing as t
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._errors import FabricError
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._fabric import pod as fabric_pod
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._fabric.pod import Pod
from ansible_collections.rdmaops.gpu_fabric.tests.support import runc
from ansible_collections.rdmaops.gpu_fabric.tests.support.runc import Container, Runtime

SECRET = "what only root of the host reads"
# A file that the host's process has open, its program, and its root directory by the numbers that would come next.
LINKS = ("/proc/self/fd/{handle}", "/proc/self/exe", "/proc/9/root{secret}", "/proc/10/root{secret}")
SYS_ADMIN, SYS_PTRACE = ("CAP_SYS_ADMIN", "CAP_MKNOD"), ("CAP_SYS_PTRACE", "CAP_DAC_READ_SEARCH")


class Host:
    """What of the host an attack is after."""

    def __init__(self, directory: Path) -> None:
        self.secret = directory / "secret"
        self.secret.write_text(SECRET)
        self.secret.chmod(0o600)
        self.programs = [
            Path(sys.executable).resolve(),
            *(Path(str(shutil.which(program))) for program in ("runc", "ctr")),
        ]
        self.before = self.state()

    def state(self) -> list[t.Any]:
        looks = [
            (program.stat().st_mtime_ns, hashlib.sha256(program.read_bytes()).digest()) for program in self.programs
        ]
        return [*looks, self.secret.read_text(), os.stat("/dev/null").st_rdev]

    def unharmed(self, *said: str) -> None:
        assert self.state() == self.before
        # Nor has anything been its own program.
        assert not any(SECRET in text or "\x7fELF" in text for text in said), said


@pytest.fixture(scope="module")
def runtime(tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[Runtime]:
    with runc.runtime(tmp_path_factory.mktemp("containerd")) as made:
        yield made


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def measured(container: Container) -> list[str]:
    """What programs of the container print that are run as a measurement's are."""
    output = []
    try:
        pod = Pod(container)
        # What they have been given is read, then written to.
        script = "for fd in /proc/self/fd/*; do cat $fd; cat $fd/etc/hostname; echo written >> $fd; done; true"
        for argv in (["cat"], ["sh", "-c", script]):
            output.append(pod.run(argv, 2)[1])
        output += pod.texts(["/proc/self/net/tcp", "/proc/self/limits"])
        pod.close()
    except FabricError as exc:
        output.append(str(exc))
    return output


@pytest.mark.parametrize("link", LINKS)
def test_a_null_device_that_leads_elsewhere(runtime: Runtime, host: Host, link: str) -> None:
    with host.secret.open() as stream:
        target = link.format(handle=stream.fileno(), secret=host.secret)
        script = f"rm /dev/null; ln -s {target} /dev/null; exec sleep 1000"
        with runtime.container(argv=("sh", "-c", script)) as container:
            output = measured(container)
    host.unharmed(*output)


@pytest.mark.parametrize(
    "script",
    [
        # All that programs are looked up by, read from or told to.
        "mount -t tmpfs x /proc; mkdir -p /proc/self/net; mkfifo /proc/self/net/tcp /proc/self/limits",
        "mount -t tmpfs x /proc; ln -s / /proc/self",
        "mount -t tmpfs x /dev; mkfifo /dev/null /dev/stdout /dev/stderr",
        "rm /dev/stdout /dev/stderr; ln -s /proc/1/root /dev/stdout; ln -s /dev/stderr /dev/stderr",
    ],
)
def test_a_mount_table_that_is_hostile(
    runtime: Runtime, host: Host, script: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fabric_pod, "_LOOK_S", 2)
    argv, rights = ("sh", "-c", script + "; exec sleep 1000"), [*runc.RIGHTS, *SYS_ADMIN]
    with runtime.container(argv=argv, rights=rights, confined=False) as container:
        host.unharmed(*measured(container))


def test_a_process_that_may_look_into_all_others(runtime: Runtime, host: Host) -> None:
    """It reads the host's file by the root of any process that comes into its PID namespace, until it has been asked."""
    look = (
        f"for one in /proc/[0-9]*; do cat $one/root{host.secret} $one/cwd/{host.secret} >> /tmp/found 2>/dev/null; done"
    )
    script = f"while true; do {look}; done & exec sleep 1000"
    with runtime.container(argv=("sh", "-c", script), rights=[*runc.RIGHTS, *SYS_PTRACE]) as container:
        pod = Pod(container)
        pod.run(["sleep", "2"], 10)
        server = pod.start(["sleep", "3"], 10, "")
        _status, text = pod.run(["cat", "/tmp/found"], 10)
        server.stop()
        host.unharmed(text, *measured(container))


def test_a_program_that_is_the_hosts_own(runtime: Runtime, host: Host) -> None:
    """CVE-2019-5736: the container's sh is whatever comes in, which is then written to."""
    script = "rm /bin/sh; ln -s /proc/self/exe /bin/sh; exec sleep 1000"
    with runtime.container(argv=("sh", "-c", script)) as container:
        host.unharmed(*measured(container))
