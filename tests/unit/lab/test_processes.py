# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Background programs: which are ours, how they start and how they end."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
import typing as t
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.tests.lab import processes
from ansible_collections.rdmaops.gpu_fabric.tests.lab.progress import LabError

# Goes on until it is killed; --stubborn does not hear a request to end.
PROGRAM = """
import signal, sys, time
if "--stubborn" in sys.argv:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("ready", flush=True)
time.sleep(300)
"""


@pytest.fixture
def place(tmp_path: Path) -> t.Iterator[Path]:
    """A directory with a program named rdmaops-test, of which nothing is left running."""
    made = tmp_path / "place"
    made.mkdir()
    (made / "program.py").write_text(PROGRAM)
    (tmp_path / "rdmaops-test").symlink_to(os.path.realpath(sys.executable))
    yield made
    processes.stop("rdmaops-test", made, 0)
    processes.stop("rdmaops-test", tmp_path, 0)


def start(place: Path, *argv: str) -> int:
    log = place / "log"
    processes.start([str(place.parent / "rdmaops-test"), str(place / "program.py"), *argv], log)
    end = time.monotonic() + 60
    while not log.exists() or "ready" not in log.read_text():
        assert time.monotonic() < end
        time.sleep(0.02)
    (process,) = processes.find("rdmaops-test", place)
    return process.pid


def test_started_and_ended(place: Path) -> None:
    assert processes.find("rdmaops-test", place) == []
    pid = start(place, "--word")
    (process,) = processes.find("rdmaops-test", place)
    assert process.argv[2:] == ("--word",)
    # It is a child of init, of no session that a terminal could end, and holds none of our files.
    stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    assert int(stat[1]) != os.getpid()
    assert int(stat[3]) != os.getsid(0)
    assert {os.readlink(f"/proc/{pid}/fd/{number}") for number in (0, 1, 2)} == {"/dev/null", str(place / "log")}
    assert processes.memory_kib(pid) > 1000
    assert processes.stop("rdmaops-test", place, 30) is True
    assert processes.state(pid) in ("", "Z")
    assert processes.stop("rdmaops-test", place, 30) is False


def test_one_that_does_not_listen(place: Path) -> None:
    pid = start(place, "--stubborn")
    assert processes.stop("rdmaops-test", place, 0.3) is True
    assert processes.state(pid) in ("", "Z")


def test_one_that_is_frozen(place: Path) -> None:
    pid = start(place)
    assert processes.signal_all("rdmaops-test", place, processes.signal.SIGSTOP)
    end = time.monotonic() + 30
    while processes.state(pid) != "T":
        assert time.monotonic() < end
        time.sleep(0.02)
    begun = time.monotonic()
    assert processes.stop("rdmaops-test", place, 60) is True
    assert time.monotonic() - begun < 30


def test_strangers(place: Path, tmp_path: Path) -> None:
    """It takes the program's name and a file of the directory: neither alone, nor a directory that begins alike."""
    alike = tmp_path / "place2"
    shutil.copytree(place, alike)
    commands = [
        [str(tmp_path / "rdmaops-test"), str(alike / "program.py")],
        [sys.executable, str(place / "program.py")],
        [str(tmp_path / "rdmaops-test"), "-c", PROGRAM],
        [str(tmp_path / "rdmaops-test"), "-c", PROGRAM, str(place)],
    ]
    strangers = [subprocess.Popen(command, stdout=subprocess.DEVNULL) for command in commands]
    try:
        assert processes.find("rdmaops-test", place) == []
        assert processes.stop("rdmaops-test", place, 0) is False
        assert [stranger.poll() for stranger in strangers] == [None] * len(strangers)
    finally:
        for stranger in strangers:
            stranger.kill()
            stranger.wait()


def test_a_log_that_cannot_be_written(place: Path) -> None:
    (place / "log").mkdir()
    processes.start(["/bin/true"], place / "log")
    with pytest.raises((LabError, OSError)):
        processes.start(["/bin/true"], place / "program.py" / "log")


def test_no_process() -> None:
    assert processes.state(2**22 + 1) == ""
    assert processes.memory_kib(2**22 + 1) == 0
