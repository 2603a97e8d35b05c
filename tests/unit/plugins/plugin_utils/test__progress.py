# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Progress while a module runs: how often, what it says, and that it ends with the module."""

from __future__ import annotations

import threading
import time
import typing as t
from types import SimpleNamespace

import pytest
from ansible.plugins.action.normal import ActionModule as NormalAction
from ansible.plugins.action.reboot import ActionModule as Reboot

from ansible_collections.rdmaops.gpu_fabric.plugins.action import (
    container_image,
    gpu_operator,
    image_build,
    kubeadm,
    node_drain,
    node_reboot,
)
from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils import _progress

Json = t.Any


class Screen:
    """What was shown."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def display(self, text: str, stderr: bool = False) -> None:
        assert stderr
        self.lines.append(text)


def test_a_line_for_each_interval_until_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_progress, "INTERVAL_S", 0.05)
    screen = Screen()
    threads = threading.active_count()
    with _progress.progress(screen, "gpu-01: draining"):
        deadline = time.monotonic() + 20
        while len(screen.lines) < 3 and time.monotonic() < deadline:
            time.sleep(0.01)
    count = len(screen.lines)
    assert count >= 3
    assert set(screen.lines) <= {"0:00:00 gpu-01: draining", "0:00:01 gpu-01: draining"}
    time.sleep(0.2)
    assert (len(screen.lines), threading.active_count()) == (count, threads)


def test_nothing_is_shown_of_what_is_quick_and_an_error_passes() -> None:
    screen = Screen()
    with pytest.raises(ZeroDivisionError), _progress.progress(screen, "x"):
        _ = 1 / 0
    assert screen.lines == []


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0:00:00"), (59.9, "0:00:59"), (3661, "1:01:01"), (90000, "25:00:00")]
)
def test_the_time(seconds: float, text: str) -> None:
    assert _progress.clock(seconds) == text


def run(plugin: Json, base: type, arguments: Json, monkeypatch: pytest.MonkeyPatch, **task: Json) -> list[str]:
    """Run an action whose work takes until two lines were shown; return them."""
    screen = Screen()

    def work(*_given: Json) -> Json:
        deadline = time.monotonic() + 20
        while len(screen.lines) < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
        return {"changed": True}

    monkeypatch.setattr(base, "run", work)
    monkeypatch.setattr(_progress, "INTERVAL_S", 0.03)
    action = plugin.ActionModule.__new__(plugin.ActionModule)
    action._task = SimpleNamespace(args=arguments, **{"no_log": False, "check_mode": False, **task})
    action._display = screen
    variables = {"inventory_hostname": "gpu-01", "ansible_play_hosts_all": ["gpu-07", "gpu-01", "gpu-31"]}
    assert action.run(None, variables) == {"changed": True}
    return screen.lines[:2]


DRAIN = {"name": "node-1", "state": "drained", "drain_timeout": 600, "ready_timeout": 300}


@pytest.mark.parametrize(
    ("plugin", "arguments", "text"),
    [
        (node_drain, DRAIN, "draining node node-1, for at most 600 s"),
        (node_drain, {"name": "node-1"}, "draining node node-1"),
        (node_drain, {**DRAIN, "state": "uncordoned"}, "waiting for node node-1 to be back, for at most 300 s"),
        (kubeadm, {"action": "init", "timeout": 900}, "kubeadm init, for at most 900 s"),
        (gpu_operator, {"wait_timeout": 900}, "helm release of the GPU Operator, for at most 900 s"),
        (image_build, {"name": "r/train:1", "timeout": 7200}, "building image r/train:1, for at most 7200 s"),
        (container_image, {"name": "r/train:1"}, "fetching image r/train:1"),
    ],
)
def test_what_is_said(plugin: Json, arguments: Json, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(plugin, NormalAction, arguments, monkeypatch)[0] == "0:00:00 gpu-01: " + text


def test_no_log_hides_the_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = run(kubeadm, NormalAction, {"action": "token"}, monkeypatch, no_log=True)
    assert shown[0] == "0:00:00 gpu-01: the task is at work"


def test_a_reboot_says_at_once_which_node_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "0:00:00 gpu-01 (node 2 of 3): rebooting, for at most 900 s"
    assert run(node_reboot, Reboot, {"reboot_timeout": 900}, monkeypatch) == [text, text]
    assert node_reboot.position({}) == "None: rebooting"
