# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Programs with a time limit: what they print, how they end, and that nothing of them stays."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils import _command
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._command import Done, TimedOut, run
from ansible_collections.rdmaops.gpu_fabric.tests.support.waiting import has_ended, wait_for


def sh(script: str, timeout: float = 60, **options: object) -> Done:
    return run(["sh", "-c", script], timeout, **options)  # type: ignore[arg-type]


def test_status_and_both_streams() -> None:
    assert sh("echo out; echo err >&2; exit 3") == Done(3, "out\n", "err\n")
    assert sh("kill -TERM $$") == Done(-15, "", "")


def test_one_stream_of_both() -> None:
    assert sh("echo out; echo err >&2", merged=True) == Done(0, "out\nerr\n", "")


def test_input_environment_and_directory(tmp_path: Path) -> None:
    done = sh(
        'cat; echo "$X $LC_ALL ${HOME-none}"; pwd', stdin=b"in\n", env={"X": "x", "PATH": os.defpath}, cwd=str(tmp_path)
    )
    assert done.out.splitlines() == ["in", "x C none", str(tmp_path)]


def test_without_input_a_program_reads_nothing() -> None:
    assert sh("cat") == Done(0, "", "")


def test_what_is_not_text() -> None:
    assert sh(r"printf '\377'").out == "\ufffd"


def test_a_program_that_is_not_there() -> None:
    with pytest.raises(FileNotFoundError):
        run(["/nonexistent/program"], 60)


def test_a_program_that_is_late_has_what_it_printed(tmp_path: Path) -> None:
    with pytest.raises(TimedOut) as caught:
        sh(f"echo out; echo err >&2; touch {tmp_path}/up; sleep 1000", 2)
    assert (caught.value.out, caught.value.err) == ("out\n", "err\n")


def test_what_it_has_started_ends_with_it(tmp_path: Path) -> None:
    """A shell script's child, in the same group, which holds the output open and ignores SIGTERM."""
    begun = time.monotonic()
    with pytest.raises(TimedOut):
        sh(f"(trap '' TERM; sh -c 'echo $$ >{tmp_path}/pid; exec sleep 1000') & wait", 2, grace=0.5)
    assert time.monotonic() - begun < 60
    pid = int((tmp_path / "pid").read_text())
    wait_for(lambda: has_ended(pid))


def test_it_may_clean_up(tmp_path: Path) -> None:
    with pytest.raises(TimedOut):
        sh(f"trap 'touch {tmp_path}/clean; exit 0' TERM; sleep 1000 & wait", 2)
    assert (tmp_path / "clean").exists()


def test_who_starts_it_hears_of_its_pid() -> None:
    pids: list[int] = []
    assert sh("echo $$", started=pids.append).out == f"{pids[0]}\n"


class Interrupted(BaseException):
    """What a signal raises while a program is waited for."""


@pytest.mark.parametrize("kill", [False, True])
def test_an_interrupted_wait_kills_only_what_it_should(kill: bool) -> None:
    def interrupt(_number: int, _frame: object) -> None:
        raise Interrupted

    pids: list[int] = []
    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.5)
    try:
        with pytest.raises(Interrupted):
            run(["sleep", "1000"], 60, started=pids.append, kill_if_interrupted=kill)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert has_ended(pids[0]) is kill
    if not kill:
        os.kill(pids[0], signal.SIGKILL)
        os.waitpid(pids[0], 0)


def test_meanwhile_is_called_while_it_runs_and_output_and_limit_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_command, "MEANWHILE_S", 0.1)
    calls: list[float] = []
    words = ["sh", "-c", "cat; echo a; sleep 1; echo b"]
    done = run(words, 60, stdin=b"in\n", meanwhile=lambda: calls.append(time.monotonic()))
    assert done == Done(0, "in\na\nb\n", "")
    assert len(calls) >= 2
    with pytest.raises(TimedOut) as caught:
        run(["sh", "-c", "echo a; sleep 1000"], 1, grace=0.5, meanwhile=lambda: None)
    assert caught.value.out == "a\n"
