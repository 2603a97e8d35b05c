# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Registering memory in a container whose answers are given by the test. Real limits: tests/integration."""

from __future__ import annotations

import errno
import json
import subprocess
import sys
import typing as t

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._fabric import memlock as fabric_memlock
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._fabric.memlock import (
    EXCEEDS,
    REGISTER,
    REMEDY,
    WITHOUT,
    memlock,
)
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._fabric.pod import Pod

SIZE = 67108864
PORT = {"rail": 0, "device": "rxe0", "port": 1, "gid_index": 1}


class FakePod(Pod):
    def __init__(
        self, limit: int, tools: t.Collection[str], answer: tuple[int | None, str], *, exceeds: bool = True
    ) -> None:
        self.limit = "unlimited" if limit == -1 else str(limit)
        self.exceeds = exceeds
        self.tools = tools
        self.answer = answer
        self.ran: list[t.Any] = []
        self.stopped = 0
        self.looks = 0

    def which(self, tool: str) -> str | None:
        return "/usr/bin/" + tool if tool in self.tools else None

    def memlock(self) -> tuple[str, bool]:
        return self.limit, self.exceeds

    def run(self, argv: t.Sequence[str], limit: float) -> tuple[int | None, str]:
        self.ran.append(list(argv))
        return self.answer

    def start(self, argv: t.Sequence[str], limit: float, _log: str) -> t.Any:
        self.ran.append(list(argv))
        return self

    def status(self) -> int | None:
        return self.answer[0]

    def stop(self) -> None:
        self.stopped += 1

    def listens(self, port: int) -> bool:
        self.looks += 1
        return self.looks > 2

    def output(self) -> str:
        return self.answer[1]

    def sleep(self, seconds: float) -> None:
        pass


def said(step: str, code: int | None = None) -> tuple[int, str]:
    return 0, json.dumps({"step": step, "errno": code}) + "\n"


LIMIT = "RLIMIT_MEMLOCK of the container is 8388608 bytes. "
LOW = f"registering 67108864 bytes with rxe0 failed with ENOMEM, {LIMIT}{REMEDY}"
PYTHON: list[tuple[int, tuple[int | None, str], bool | None, str | None]] = [
    # limit, answer, ok, error
    (8388608, said("reg_mr", errno.ENOMEM), False, LOW),
    (0, said("reg_mr", errno.EPERM), False, "failed with EPERM, RLIMIT_MEMLOCK of the container is 0 bytes. Raise"),
    (-1, said("done"), True, None),
    (SIZE * 2, said("done"), True, None),
    (-1, said("reg_mr", errno.ENOMEM), False, "is unlimited: look at its memory limit and at the kernel log"),
    (SIZE * 2, said("reg_mr", errno.ENOMEM), False, "is 134217728 bytes: look at its memory limit and at the kernel"),
    (-1, said("load"), None, "libibverbs.so.1 is not in the image (Debian: libibverbs1, RHEL: libibverbs)"),
    (-1, said("find"), False, "libibverbs does not know rxe0: is its file in the container's /dev/infiniband"),
    (-1, said("open", errno.EPERM), False, "rxe0 cannot be opened: EPERM"),
    (-1, said("alloc_pd", errno.ENOMEM), False, "rxe0 returns no protection domain: ENOMEM"),
    (-1, (1, "Traceback\nModuleNotFoundError: json\n"), None, "python3 exited with 1: Traceback ModuleNotFoundError"),
    (-1, (-9, ""), None, "python3 exited with -9: it printed nothing"),
    (-1, (None, ""), None, "python3 timed out after 60 s: it printed nothing"),
    (-1, (0, "[]\n"), None, "python3 exited with 0: []"),
]


@pytest.mark.parametrize(("limit", "answer", "ok", "error"), PYTHON, ids=range(len(PYTHON)))
def test_with_python(limit: int, answer: tuple[int | None, str], ok: bool | None, error: str | None) -> None:
    pod = FakePod(limit, {"setpriv", "python3", "ibv_rc_pingpong"}, answer)
    found = memlock(PORT, SIZE, 18515, pod)
    assert (found["ok"], found["by"], found["wanted_bytes"]) == (ok, "python3", SIZE)
    assert (found["limit_bytes"], found["unlimited"]) == ((None, True) if limit == -1 else (limit, False))
    assert found["error"] is None if error is None else error in found["error"]
    assert pod.ran == [[*WITHOUT, "python3", "-c", REGISTER, "rxe0", str(SIZE)]]


PINGPONG: list[tuple[tuple[int | None, str], bool | None, str | None]] = [
    ((None, ""), True, None),
    ((1, "Couldn't register MR\n"), False, f"registering 67108864 bytes with rxe0 failed, {LIMIT}Raise"),
    ((1, "Couldn't get context for rxe0\n"), None, "ibv_rc_pingpong exited with 1: Couldn't get context for rxe0"),
    ((-9, ""), None, "ibv_rc_pingpong exited with -9: it printed nothing"),
]


@pytest.mark.parametrize(("answer", "ok", "error"), PINGPONG, ids=range(len(PINGPONG)))
def test_without_python(answer: tuple[int | None, str], ok: bool | None, error: str | None) -> None:
    pod = FakePod(8388608, {"setpriv", "ibv_rc_pingpong"}, answer)
    found = memlock(PORT, SIZE, 18515, pod)
    assert (found["ok"], found["by"], pod.stopped) == (ok, "ibv_rc_pingpong", 1)
    assert found["error"] is None if error is None else error in found["error"]
    argv = ["ibv_rc_pingpong", "-d", "rxe0", "-i", "1", "-p", "18515", "-s", str(SIZE), "-g", "1"]
    assert pod.ran == [[*WITHOUT, *argv]]


def test_with_neither() -> None:
    found = memlock(PORT, SIZE, 18515, FakePod(-1, (), (0, ""), exceeds=False))
    assert (found["ok"], found["by"]) == (None, None)
    assert "neither python3 nor ibv_rc_pingpong" in found["error"]


def test_a_container_that_may_exceed_its_limit_and_has_no_setpriv_is_unknown() -> None:
    pod = FakePod(8388608, {"python3"}, said("done"))
    found = memlock(PORT, SIZE, 18515, pod)
    assert (found["ok"], found["by"], found["error"], pod.ran) == (None, None, EXCEEDS, [])
    assert "has CAP_IPC_LOCK" in EXCEEDS


def test_without_the_right_nothing_has_to_be_taken_away() -> None:
    pod = FakePod(8388608, {"python3"}, said("done"), exceeds=False)
    assert memlock(PORT, SIZE, 18515, pod)["ok"] is True
    assert pod.ran == [["python3", "-c", REGISTER, "rxe0", str(SIZE)]]


def test_the_program_itself_says_how_far_it_came() -> None:
    """There is no device of this name, and perhaps no library."""
    done = subprocess.run(
        [sys.executable, "-c", REGISTER, "rdmaops-none", "4096"], capture_output=True, text=True, timeout=30, check=True
    )
    assert json.loads(done.stdout)["step"] in ("load", "find")
    assert fabric_memlock._STEPS.keys() == {"load", "find", "open", "alloc_pd"}
