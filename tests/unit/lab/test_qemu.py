# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a node is started, and what its console and its monitor tell."""

from __future__ import annotations

import itertools
import json
import socket
import threading
import typing as t
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.tests.lab import config, qemu
from ansible_collections.rdmaops.gpu_fabric.tests.lab.progress import LabError, tail
from ansible_collections.rdmaops.gpu_fabric.tests.support.failures import message_of


def node(tmp_path: Path) -> qemu.Node:
    return qemu.Node(
        "gpu-3", 3, 2203, (5000, 5001), tmp_path / "disk", tmp_path / "console", tmp_path / "pid", tmp_path / "qmp"
    )


def values(argv: list[str], option: str) -> list[str]:
    return [value for name, value in itertools.pairwise(argv) if name == option]


def test_cards_of_a_node(tmp_path: Path) -> None:
    argv = qemu.machine(config.versions(), node(tmp_path), kvm=False)
    assert values(argv, "-netdev") == [
        "user,id=outside,hostfwd=tcp:127.0.0.1:2203-:22",
        "socket,id=rail0,mcast=230.0.0.1:5000,localaddr=127.0.0.1",
        "socket,id=rail1,mcast=230.0.0.1:5001,localaddr=127.0.0.1",
    ]
    cards = [value for value in values(argv, "-device") if value.startswith("virtio-net-pci")]
    macs = [card.split("mac=")[1].split(",")[0] for card in cards]
    assert macs == ["52:54:00:90:ff:03", "52:54:00:90:00:03", "52:54:00:90:01:03"]
    slots = [value.split("addr=")[1].split(",")[0] for value in values(argv, "-device") if "addr=" in value]
    assert len(slots) == len(set(slots)) == 4


# kvm, accelerator, cpu
ACCELERATORS = [(True, "kvm", "host"), (False, "tcg,thread=multi,tb-size=192", "max,la57=off")]


@pytest.mark.parametrize(("kvm", "accelerator", "cpu"), ACCELERATORS)
def test_accelerator(tmp_path: Path, kvm: bool, accelerator: str, cpu: str) -> None:
    settings = config.versions()
    settings["guest"]["tb_size_mib"] = 192
    argv = qemu.machine(settings, node(tmp_path), kvm=kvm)
    assert (values(argv, "-accel"), values(argv, "-cpu")) == ([accelerator], [cpu])


def test_the_disk_is_the_nodes_own(tmp_path: Path) -> None:
    (drive,) = values(qemu.machine(config.versions(), node(tmp_path), kvm=False), "-drive")
    # Lab.processes() finds a lab's machines by the beginning of this word.
    assert drive.startswith(f"if=none,id=disk,file={tmp_path}/disk,format=qcow2,")


# console, panicked, prompt
CONSOLES: list[tuple[str, bool, str | None]] = [
    ("[    3.8] Kernel panic - not syncing: Fatal exception in interrupt\r\n", True, None),
    ("[    3.8] ---[ end Kernel panic - not syncing: Attempted to kill init! ]---", True, None),
    ("[    0.1] Command line: panic=-1 ro quiet\r\n", False, None),
    ("error: no such partition.\r\ngrub rescue> ", False, "grub rescue>"),
    ("ALERT!  LABEL=x does not exist.  Dropping to a shell!\r\n\r\n(initramfs) ", False, "(initramfs)"),
    ("Give root password for maintenance\r\n", False, "Give root password for maintenance"),
    ("gpu-1 login: ", False, None),
    ("Loading initial ramdisk ...\r\n", False, None),
]


@pytest.mark.parametrize(("console", "panicked", "prompt"), CONSOLES)
def test_what_a_console_tells(console: str, panicked: bool, prompt: str | None) -> None:
    assert (qemu.panicked(console), qemu.stuck(console)) == (panicked, prompt)


def test_the_end_of_a_log_begins_where_the_boot_did(tmp_path: Path) -> None:
    log = tmp_path / "console"
    log.write_bytes(b"Kernel panic - not syncing\r\n")
    offset = log.stat().st_size
    with log.open("ab") as file:
        file.write(b"one\r\ntwo\r\nthree \xff\r\n")
    assert tail(log, 2, offset) == "two\nthree �"
    assert tail(log, 9, offset) == "one\ntwo\nthree �"
    assert tail(tmp_path / "none") == ""


def test_the_end_of_a_log_has_nothing_that_moves_or_resets_a_terminal(tmp_path: Path) -> None:
    """The firmware clears the screen, and systemd writes in colours."""
    log = tmp_path / "console"
    log.write_bytes(b"\x1b[1;31mFAILED\x1b[0m\tunit\r\n\x1bc\x1b[?7l\x1b[2J\x1b(B\x07\r\n")
    assert tail(log, 1) == "FAILED  unit"


def monitor(path: Path, answers: list[dict[str, t.Any]]) -> threading.Thread:
    """A monitor that greets, accepts the handshake and then gives these answers."""
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(path))
    server.listen()

    def serve() -> None:
        connection, _ = server.accept()
        with server, connection, connection.makefile("rw") as file:
            file.write(json.dumps({"QMP": {}}) + "\n")
            file.flush()
            assert json.loads(file.readline())["execute"] == "qmp_capabilities"
            file.write(json.dumps({"return": {}}) + "\n")
            file.flush()
            file.readline()
            file.writelines(json.dumps(answer) + "\n" for answer in answers)
            file.flush()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    return thread


def test_events_are_no_answers(tmp_path: Path) -> None:
    thread = monitor(tmp_path / "qmp", [{"event": "NIC_RX_FILTER_CHANGED"}, {"return": {"status": "running"}}])
    with qemu.Monitor(tmp_path / "qmp") as session:
        assert session.execute("query-status") == {"status": "running"}
    thread.join(5)


def test_a_refusal_is_told(tmp_path: Path) -> None:
    monitor(tmp_path / "qmp", [{"error": {"class": "DeviceNotFound", "desc": "Device 'rail9' not found"}}])
    with qemu.Monitor(tmp_path / "qmp") as session:
        message = message_of(LabError, session.execute, "set_link", name="rail9", up=False)
    assert message == "QEMU refused set_link {'name': 'rail9', 'up': False}: Device 'rail9' not found"


def test_a_machine_that_went_away(tmp_path: Path) -> None:
    path = tmp_path / "qmp"
    monitor(path, [])
    with qemu.Monitor(path) as session:
        message = message_of(LabError, session.execute, "query-status")
    assert message == f"the machine's monitor {path} closed the connection"


def test_a_machine_that_is_off(tmp_path: Path) -> None:
    path = tmp_path / "qmp"
    message = f"no answer from the machine's monitor {path}: [Errno 2] No such file or directory"
    assert message_of(LabError, qemu.Monitor, path) == message
