# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import socket
import stat
import threading
import time
import typing as t
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._images import containerd
from ansible_collections.rdmaops.gpu_fabric.tests.support.waiting import limits_count_from, wait_for

FIXTURES = Path(__file__).parents[1] / "fixtures" / "containerd"
VERSIONS = ["1.6.20", "1.7.24", "2.1.9"]
DIGEST = "sha256:7f0f2590a171f96da0ea0143dbe45edd6a3cd876d406f7be8271bf1f418f8eef"


def recorded(version: str, name: str) -> str:
    return (FIXTURES / f"ctr-{version}_{name}.txt").read_text()


@pytest.mark.parametrize("version", VERSIONS)
def test_recorded_output(version: str) -> None:
    assert containerd.parse_version(recorded(version, "version")) == tuple(map(int, version.split(".")))
    assert containerd.parse_images(recorded(version, "images_none")) == {}
    assert containerd.parse_images(recorded(version, "images")) == {
        f"127.0.0.1:5055/team/tiny@{DIGEST}": DIGEST,
        "registry.example.com/team/tiny:1": DIGEST,
    }
    store = containerd.parse_store(recorded(version, "plugins_content"))
    assert store == "/var/lib/containerd/io.containerd.content.v1.content"


# what a registry did, what unblocks it
ANSWERS = [
    ("unauthorized", "Set username and password, or auth_file"),
    ("unreachable", "The registry cannot be reached from this host"),
    ("unknown", "The registry does not have this image"),
]


@pytest.mark.parametrize(("name", "start"), ANSWERS, ids=[row[0] for row in ANSWERS])
@pytest.mark.parametrize("version", VERSIONS)
def test_recorded_answers_of_registries(version: str, name: str, start: str) -> None:
    text = recorded(version, f"pull_{name}")
    said = containerd.last_lines(text)
    assert said.startswith("ctr: failed to resolve ")
    assert "level=" not in said
    assert containerd.advice(text).startswith(start)


def test_versions_of_others() -> None:
    assert containerd.parse_version("ctr github.com/k3s-io/containerd v1.7.23-k3s2\n") == (1, 7, 23)
    assert containerd.parse_version("ctr github.com/containerd/containerd v2.0.0-rc.1\n") == (2, 0, 0)
    with pytest.raises(containerd.ContainerdError, match=r"it answered 'bash: ctr', which is not a containerd version"):
        containerd.parse_version("bash: ctr")


def test_a_line_that_was_not_understood() -> None:
    with pytest.raises(containerd.ContainerdError, match=r"could not be parsed: 'registry\.example\.com/a:1 - -'"):
        containerd.parse_images("REF TYPE DIGEST\nregistry.example.com/a:1 - -\n")
    assert containerd.parse_store("Type: io.containerd.grpc.v1\nExports:\n  root /wrong\n") is None


def test_last_lines_are_short_and_without_the_secret() -> None:
    assert (
        containerd.last_lines("x\n" * 20 + "ctr: bad login joe:abc.\n", "abc")
        == "x | x | x | ctr: bad login joe:********"
    )
    assert containerd.last_lines('time="1" level=info msg=a\n\n') == "nothing"


class Scripted:
    """A containerd whose socket answers, with a ctr that is a shell script: a version that there is not, a hang."""

    def __init__(self, directory: Path, script: str, timeout: int = 5) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.bind(str(directory / "s"))
        self.socket.listen()
        binary = directory / "ctr"
        binary.write_text("#!/bin/sh\n" + script)
        binary.chmod(binary.stat().st_mode | stat.S_IXUSR)
        self.ctr = containerd.Containerd(str(directory / "s"), "k8s.io", str(binary), timeout)

    def close(self) -> None:
        self.socket.close()


@pytest.fixture
def scripted(tmp_path: Path) -> t.Iterator[t.Callable[..., Scripted]]:
    made: list[Scripted] = []

    def make(script: str, timeout: int = 5) -> Scripted:
        made.append(Scripted(tmp_path, 'case "$*" in *--version) echo ctr v2.1.0; exit;; esac\n' + script, timeout))
        return made[-1]

    yield make
    for fake in made:
        fake.close()


def test_a_ctr_that_hangs_is_ended(
    scripted: t.Callable[..., Scripted], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also while it takes what is fed to it, and no more."""
    busy = tmp_path / "busy"
    fake = scripted(f"echo busy >&2; touch {busy}; exec sleep 600", timeout=1)
    limits_count_from(busy, monkeypatch)
    others = set(threading.enumerate())
    began = time.monotonic()
    message = "ctr timed out after 1 s and was killed. Output: busy. Raise timeout"
    with pytest.raises(containerd.ContainerdError, match=message):
        fake.ctr.pull("h/a@" + DIGEST, None, None, "Pull it")
    busy.unlink()
    with pytest.raises(containerd.ContainerdError, match=message):
        fake.ctr.load(lambda sink: sink.write(b"x" * 10_000_000) and None, "Import it")
    assert time.monotonic() - began < 300
    wait_for(lambda: set(threading.enumerate()) <= others)


def test_what_ctr_says_counts_when_it_ends_before_it_was_fed(scripted: t.Callable[..., Scripted]) -> None:
    fake = scripted("echo ctr: no space left >&2; exit 3")
    with pytest.raises(
        containerd.ContainerdError, match="Import it: ctr exited with status 3. Output: ctr: no space left"
    ):
        fake.ctr.load(lambda sink: sink.write(b"x" * 10_000_000) and None, "Import it")


def test_the_password_is_typed(scripted: t.Callable[..., Scripted], tmp_path: Path) -> None:
    """It comes by the terminal, without echo, and is in no argument."""
    seen = tmp_path / "seen"
    fake = scripted(f'read -r word; echo "$* / $word" > {seen}; tty >> {seen}; echo "said $word" >&2; exit 1')
    with pytest.raises(containerd.ContainerdError, match=r"said \*\*\*\*\*\*\*\*"):
        fake.ctr.pull("h/a@" + DIGEST, "/hosts", containerd.Login("joe", "pa ss"), "Pull it")
    arguments, _slash, word = seen.read_text().splitlines()[0].partition(" / ")
    assert word == "pa ss"
    assert arguments.endswith(f"images pull --local --hosts-dir /hosts --user joe h/a@{DIGEST}")
    assert seen.read_text().splitlines()[1].startswith("/dev/pts/")
    for bad in ("a\x03b", "x" * 4001, "a\nb"):
        with pytest.raises(containerd.ContainerdError, match="which ctr cannot be given"):
            fake.ctr.pull("h/a", None, containerd.Login("joe", bad), "Pull it")


def test_nobody_at_the_socket(tmp_path: Path) -> None:
    address = str(tmp_path / "s")
    with pytest.raises(containerd.ContainerdError, match=r"No such file or directory\. Install and start containerd"):
        containerd.reach(address)
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(address)
    with pytest.raises(
        containerd.ContainerdError, match="The socket exists, but nothing is listening: start containerd"
    ):
        containerd.reach(address)
    os.unlink(address)


def test_no_ctr(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(containerd, "_DIRECTORIES", ())
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(containerd.ContainerdError, match=r"ctr was not found in .*set ctr_binary"):
        containerd.find(None)
