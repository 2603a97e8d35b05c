# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the time of the demonstration goes: the arithmetic, and what the lab writes down for it."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.tests.lab import progress, times

LAB = [
    {"what": "installing the node's root file system", "seconds": 300.0},
    {"what": "building the image 0123456789ab (log: /x)", "seconds": 500.0},
    {"what": "booting gpu-1, gpu-2 (emulation)", "seconds": 90.0},
]


def event(begun: float, name: str, action: str, seconds: float) -> dict[str, t.Any]:
    return {"event": "task", "begun": begun, "name": name, "action": action, "seconds": seconds}


# Two nodes install at the same time; they reboot one after the other, by the same task.
EVENTS = [
    {"event": "play", "name": "nodes", "at": 0.0},
    event(1.0, "Install packages", "ansible.builtin.package", 40.0),
    event(1.0, "Install packages", "ansible.builtin.package", 55.0),
    event(60.0, "Bring", "rdmaops.gpu_fabric.rdma_system", 30.0),
    event(100.0, "Reboot the node", "ansible.builtin.reboot", 80.0),
    event(200.0, "Reboot the node", "rdmaops.gpu_fabric.node_reboot", 70.0),
]


def test_a_task_takes_until_its_last_host_has_done_it() -> None:
    assert times.tasks(EVENTS) == [
        ("Install packages", "package", 55.0),
        ("Bring", "rdma_system", 30.0),
        ("Reboot the node", "reboot", 80.0),
        ("Reboot the node", "node_reboot", 70.0),
    ]


def test_the_parts_add_up() -> None:
    result = times.parts(1000.0, 20.0, LAB, times.tasks(EVENTS))
    collection = {"packages of the nodes": 55.0, "reboot": 150.0, "the collection": 185.0}
    assert result == {"packages of this machine": 20.0, "image": 500.0, "boot": 90.0, **collection}
    assert times.floor(result) == 815.0
    assert sum(result.values()) == 1000.0


def test_an_image_that_was_there_takes_nothing() -> None:
    result = times.parts(100.0, 0.0, LAB[2:], [])
    assert (result["image"], result["boot"], result["the collection"]) == (0.0, 90.0, 10.0)


def test_the_lab_writes_its_steps_down_where_it_is_asked_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "times.jsonl"
    assert times.read_lines(path) == []
    monkeypatch.setenv("LAB_TIMES", str(path))
    with progress.step("booting gpu-1"):
        pass
    with pytest.raises(ZeroDivisionError), progress.step("booting gpu-2"):
        _ = 1 / 0
    (line,) = times.read_lines(path)
    assert (line["what"], json.loads(path.read_text())) == ("booting gpu-1", line)
    assert 0 <= line["seconds"] < 5
    monkeypatch.delenv("LAB_TIMES")
    with progress.step("booting gpu-3"):
        pass
    assert len(times.read_lines(path)) == 1
