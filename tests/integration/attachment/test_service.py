# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The service's command line and its waiting."""

from __future__ import annotations

import importlib.util
import os
import pathlib
import socket
import subprocess
import sys

import pytest

from ansible_collections.rdmaops.gpu_fabric.tests.integration.exporter.running import PYTHON, play
from ansible_collections.rdmaops.gpu_fabric.tests.support import need_root, need_tool, skip_or_fail
from ansible_collections.rdmaops.gpu_fabric.tests.support.site import role

FILE = pathlib.Path(__file__).parents[3] / "roles/rdma_attachment/files/__main__.py"
_spec = importlib.util.spec_from_file_location("rdma_attachment_service", FILE)
assert _spec
assert _spec.loader
service = importlib.util.module_from_spec(_spec)
sys.modules[_spec.name] = service
_spec.loader.exec_module(service)


def test_links_are_read() -> None:
    options = service.build_parser().parse_args(["--link", "rxe0=rxe,0000:00:05.0", "--exclude", "mlx5_9", "--once"])
    assert options.link == [("rxe0", "rxe", "0000:00:05.0")]
    assert (options.exclude, options.include, options.once) == (["mlx5_9"], [], True)


@pytest.mark.parametrize("text", ["rxe0", "rxe0=rxe", "=rxe,0000:00:05.0", "rxe0=tun,0000:00:05.0", "rxe0=rxe,00:05.0"])
def test_a_link_that_is_none_is_refused(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        service.build_parser().parse_args(["--link", text])
    assert ended.value.code == 2
    assert f"'{text}' is not NAME=TYPE,PCI_ADDRESS with a TYPE of rxe, siw" in capsys.readouterr().err


def test_it_looks_often_after_an_event_and_seldom_when_nothing_comes_of_it() -> None:
    pace = service.Pace()
    assert pace.after(event=True, done=False) == service.FIRST_RETRY_S
    waits = [pace.after(event=False, done=False) for _ in range(12)]
    assert waits[:3] == [0.4, 0.8, 1.6]
    assert waits[-1] == service.LAST_RETRY_S
    assert pace.after(event=True, done=False) == service.FIRST_RETRY_S
    assert pace.after(event=True, done=True) == service.LAST_RETRY_S


# In a network namespace of its own nothing else causes events.
EVENTS = """
import runpy, subprocess, sys
service = runpy.run_path(sys.argv[1])
assert not service["Events"]().wait(0.0)
for words in ("add test0 type veth peer name test1", "del test0"):
    events = service["Events"]()
    subprocess.run(["ip", "link", *words.split()], check=True)
    assert events.wait(60), words
"""


def test_an_event_wakes_it() -> None:
    """A real one: a network device that comes and goes."""
    need_root()
    need_tool("ip")
    argv = [need_tool("unshare"), "--net", sys.executable, "-c", EVENTS, str(FILE)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=180, check=False)
    if "Unknown device type" in done.stderr:
        skip_or_fail(f"making a network device: {done.stderr}")
    assert done.returncode == 0, done.stderr


def test_what_the_role_brings_runs_by_itself(tmp_path: pathlib.Path) -> None:
    """All that it imports is there, and the distribution's Python is enough."""
    places = {"rdma_attachment_directory": str(tmp_path / "lib"), "__rdma_attachment_unit_directory": str(tmp_path)}
    links = [{"name": "rxe0", "type": "rxe", "pci_address": "0000:00:05.0"}]
    given = {**places, "rdma_attachment_links": links, "rdma_attachment_exclude": ["mlx5_9"]}
    for changed in (1, 0):
        done = play(tmp_path, role("rdma_attachment", "code.yml", **given))
        assert done.rc == 0, done.output
        assert f"changed={changed}" in done.output
    unit = (tmp_path / "rdma_attachment.service").read_text()
    (command,) = [line.partition("=")[2].split() for line in unit.splitlines() if line.startswith("ExecStart=")]
    assert command[-4:] == ["--exclude", "mlx5_9", "--link", "rxe0=rxe,0000:00:05.0"]
    assert command[:3] == [PYTHON, "-I", "-B"]
    ran = subprocess.run([*command, "--once"], capture_output=True, text=True, timeout=60, check=False)
    assert ran.stderr == ""
    assert ran.stdout.startswith("revision ")
    if not pathlib.Path("/sys/class/infiniband").exists():
        assert ran.returncode == 1
        assert "ib_core" in ran.stdout


def test_it_notifies_systemd_when_it_has_looked(tmp_path: pathlib.Path) -> None:
    """So `systemctl start` waits for that, and fails if the program ends before."""
    address = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(address)
        listener.settimeout(60)
        environment = {**os.environ, "NOTIFY_SOCKET": address}
        program = subprocess.Popen([sys.executable, str(FILE)], env=environment, stdout=subprocess.DEVNULL)
        try:
            assert listener.recv(64) == b"READY=1"
            assert program.poll() is None
        finally:
            program.terminate()
            assert program.wait(60) == 0


def test_the_unit_waits_for_it() -> None:
    unit = (FILE.parents[1] / "templates/rdma_attachment.service.j2").read_text()
    assert "\nType=notify\n" in unit


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("#!/bin/sh\necho 3.6\n", "is Python 3.6"),
        ("#!/bin/sh\necho 'cannot execute' >&2\nexit 1\n", "does not start (cannot execute)"),
        (None, "does not start"),
    ],
    ids=["RHEL 8", "broken", "missing"],
)
def test_a_python_that_is_too_old_is_refused(tmp_path: pathlib.Path, text: str | None, reason: str) -> None:
    python = tmp_path / "python3"
    if text is not None:
        python.write_text(text)
        python.chmod(0o755)
    done = play(tmp_path, role("rdma_attachment", "python.yml", rdma_attachment_python=str(python)))
    assert done.rc != 0
    output = " ".join(done.output.split())
    assert f"{python} {reason}" in output
    assert "The service needs Python 3.8 or newer. Install it (on RHEL 8, the package python3.11), and set" in output


@pytest.mark.parametrize("version", ["3.8", "3.13"])
def test_a_newer_python_is_not(tmp_path: pathlib.Path, version: str) -> None:
    python = tmp_path / "python3"
    python.write_text(f"#!/bin/sh\necho {version}\n")
    python.chmod(0o755)
    done = play(tmp_path, role("rdma_attachment", "python.yml", rdma_attachment_python=str(python)))
    assert done.rc == 0, done.output
