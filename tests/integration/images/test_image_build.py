# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A build by a real buildah that does not come to its end: nothing of it goes on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.tests.integration.images.test_training_image_role import busybox_root
from ansible_collections.rdmaops.gpu_fabric.tests.support import need_root, need_tool
from ansible_collections.rdmaops.gpu_fabric.tests.support.waiting import wait_for

NAME = "registry.example.com/ml/sleeps:1"
# Under nohup, or in the background of a script, signals are ignored, and children inherit that.
CODE = """
import json, signal, sys
signal.signal(signal.SIGHUP, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._images import build
try:
    build.manage(json.load(sys.stdin), False)
except build.ImageError as exc:
    print(exc)
"""


def processes(marker: str) -> list[int]:
    """Return the processes that have the marker among their arguments."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            if marker.encode() in (place / "cmdline").read_bytes().split(b"\0"):
                found.append(int(place.name))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


class Sleeper(t.NamedTuple):
    """A module whose build has come to a step of ten minutes, and how to tell that step's processes from others."""

    module: subprocess.Popen[str]
    marker: str


@pytest.fixture
def start(tmp_path: Path) -> t.Iterator[t.Callable[[int], Sleeper]]:
    need_root()
    need_tool("buildah")
    # A number of seconds that no other process sleeps for.
    marker = f"600.{os.getpid()}"
    busybox_root(tmp_path / "root.tar")
    (tmp_path / "storage.conf").write_text(
        f'[storage]\ndriver = "vfs"\ngraphroot = "{tmp_path}/graph"\nrunroot = "{tmp_path}/run"\n'
    )
    # One process stays with the step, and one goes into a session of its own.
    step = f"RUN setsid sleep {marker} & sleep {marker}"
    file = {"name": "root.tar", "content": None, "src": str(tmp_path / "root.tar"), "checksum": None, "mode": "0644"}
    params = {
        "name": NAME, "containerfile": f"FROM scratch\nADD root.tar /\n{step}\n", "files": [file], "output": "archive",
        "directory": str(tmp_path / "images"), "rebuild": False, "buildah_binary": None, "isolation": "chroot",
        "auth_file": None, "username": None, "password": None,
    }  # fmt: skip
    started: list[subprocess.Popen[str]] = []

    def begin(timeout: int) -> Sleeper:
        module = subprocess.Popen(
            [sys.executable, "-c", CODE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            start_new_session=True, env={**os.environ, "CONTAINERS_STORAGE_CONF": str(tmp_path / "storage.conf")},
        )  # fmt: skip
        started.append(module)
        assert module.stdin
        module.stdin.write(json.dumps({**params, "timeout": timeout}))
        module.stdin.close()
        wait_for(lambda: len(processes(marker)) == 2, 120)
        return Sleeper(module, marker)

    yield begin
    for module in started:
        module.kill()
        module.wait()
    for pid in processes(marker):
        os.kill(pid, signal.SIGKILL)


@pytest.mark.long
def test_a_build_that_takes_too_long(start: t.Callable[[int], Sleeper]) -> None:
    build = start(30)
    assert build.module.stdout
    output = build.module.stdout.read()
    assert processes(build.marker) == []
    assert f"Building {NAME}: buildah timed out after 30 s and was killed. Output: " in output
    assert "RUN setsid sleep" in output


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_module_that_is_stopped(start: t.Callable[[int], Sleeper], number: signal.Signals) -> None:
    build = start(600)
    build.module.send_signal(number)
    build.module.wait(30)
    wait_for(lambda: not processes(build.marker), 30)
