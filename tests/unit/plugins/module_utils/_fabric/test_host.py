# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Programs on the host: their time limits and their output."""

from __future__ import annotations

import socket
import subprocess
import typing as t
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._fabric import host as fabric_host
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._fabric.host import Host, ProbeError
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._fabric.pod import Pod
from ansible_collections.rdmaops.gpu_fabric.tests.support.waiting import limits_count_from, wait_for


class Container(Pod):
    """A container whose programs are the host's."""

    def __init__(self, status: int = 0) -> None:
        self.ended = status

    def run(self, argv: t.Sequence[str], limit: float) -> tuple[int | None, str]:
        return self.ended, Host().run(argv, limit)[1]


def test_a_program_that_cannot_be_started() -> None:
    host = Host()
    with pytest.raises(ProbeError, match="Running /nowhere/x: No such file or directory"):
        host.run(["/nowhere/x"], 5)
    assert host.run(["sh", "-c", "echo a; exit 3"], 60) == (3, "a\n")


def test_what_was_printed_before_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mark = tmp_path / "printed"
    limits_count_from(mark, monkeypatch)
    assert Host().run(["sh", "-c", f"echo a; touch {mark}; exec sleep 60"], 0.3) == (None, "a\n")


def test_what_a_server_prints_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fabric_host, "_LOG", 1 << 16)
    log = tmp_path / "server"
    server = Host().start(["sh", "-c", "yes | head -c 300000; echo 'still here' >&2; exit 7"], 60, str(log))
    wait_for(lambda: server.status() is not None)
    assert (server.status(), log.stat().st_size) == (7, 1 << 16)
    assert server.output() == log.read_text()


def test_servers_of_an_earlier_round_are_ended_and_nothing_else(tmp_path: Path) -> None:
    server = Host().start(["sh", "-c", "trap '' TERM; sleep 60; true"], 60, str(tmp_path / "server"))
    with subprocess.Popen(["sleep", "60"]) as other:
        Host().end_servers()
        wait_for(lambda: server.status() is not None)
        assert (server.status(), other.poll()) == (-9, None)
        other.kill()


def test_servers_of_another_namespace_are_left_alone(tmp_path: Path) -> None:
    server = Host().start(["sleep", "60"], 60, str(tmp_path / "server"))
    elsewhere = Host()
    elsewhere.netns = "/proc/1/ns/uts"
    elsewhere.end_servers()
    assert server.status() is None
    server.stop()


def test_what_a_client_prints_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fabric_host, "_KEPT", 1000)
    assert Host().run(["sh", "-c", "yes | head -c 300000; echo end"], 60) == (0, ("y\n" * 1000)[-996:] + "end\n")


def test_ports_that_listen() -> None:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        number = one.getsockname()[1]
        assert not Host().listens(number)
        one.listen()
        assert Host().listens(number)


def test_paths_without_links(tmp_path: Path) -> None:
    """On the host, and as a container's shell finds them."""
    (tmp_path / "link").symlink_to(tmp_path / "device")
    (tmp_path / "device").touch()
    paths = [str(tmp_path / name) for name in ("link", "no/where", "device")]
    device = str(tmp_path / "device")
    assert Host().real_paths(paths) == [device, "", device]
    assert Container().real_paths(paths) == [device, "", device]
    assert Container(127).real_paths(paths) == ["", "", ""]
