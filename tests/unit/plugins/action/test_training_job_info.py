# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Waiting for a job in short looks: when it ends, what a user sees, and an API server that is away for a while."""

from __future__ import annotations

import typing as t
from types import SimpleNamespace

import pytest
from ansible.plugins.action import ActionBase

from ansible_collections.rdmaops.gpu_fabric.plugins.action import training_job_info as action

Json = t.Any


def look(state: str, **more: Json) -> Json:
    ended = state in ("succeeded", "failed", "absent")
    fixed = {"reached": ended, "last_line": None, "changed": False, "queued": False}
    return {"state": state, "progress": state, **fixed, **more}


AWAY = {"failed": True, "msg": "Reading the state of the job lab/train: could not be reached"}


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(action, "time", made)
    return made


def wait(clock: Clock, looks: list[Json], monkeypatch: pytest.MonkeyPatch, **options: Json) -> tuple[Json, list[Json]]:
    """Run the action with looks that take as long as they may."""
    given = {"kind": "pods", "name": "train", "namespace": "lab", "wait_timeout": 600, **options}
    asked: list[Json] = []
    ahead = iter(looks)

    def execute(module_name: str, module_args: Json, task_vars: Json) -> Json:
        asked.append(module_args)
        clock.now += module_args["wait_timeout"]
        return dict(next(ahead))

    plugin = action.ActionModule.__new__(action.ActionModule)
    plugin._task = SimpleNamespace(args=given, check_mode=False, no_log=False)
    monkeypatch.setattr(ActionBase, "run", lambda *_given: {})
    monkeypatch.setattr(plugin, "_execute_module", execute)
    spec = {name: entry.get("default") for name, entry in action.ARGUMENT_SPEC.items()}
    monkeypatch.setattr(plugin, "validate_argument_spec", lambda argument_spec: (None, {**spec, **given}))
    return plugin.run(), asked


def test_it_ends_with_the_job_and_says_how_it_went(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    looks = [look("pending"), look("running", last_line="Epoch 3"), look("succeeded")]
    result, asked = wait(clock, looks, monkeypatch)
    assert (result["state"], result["gave_up"], result["waited_s"]) == ("succeeded", None, 180)
    assert [arguments["known"] for arguments in asked] == ["", "pending", "running"]
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.splitlines() == ["0:01:00 lab/train: pending", "0:02:00 lab/train: running | Epoch 3"]


def test_limits(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    result, asked = wait(clock, [look("running")] * 3, monkeypatch, wait_timeout=100)
    assert (result["gave_up"], result["state"]) == ("wait_timeout", "running")
    assert [arguments["wait_timeout"] for arguments in asked] == [60, 40]
    clock.now = 0
    result, _asked = wait(clock, [look("pending")] * 3, monkeypatch, start_timeout=90)
    assert (result["gave_up"], result["waited_s"]) == ("start_timeout", 120)


def test_the_time_in_a_queue_is_not_that_of_a_start(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = [*[look("pending", queued=True)] * 5, *[look("pending")] * 3]
    result, _asked = wait(clock, looks, monkeypatch, start_timeout=90)
    assert (result["gave_up"], result["waited_s"]) == ("start_timeout", 7 * 60)


def test_an_api_server_that_is_away_for_a_while(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    result, _asked = wait(clock, [look("running"), AWAY, AWAY, look("succeeded")], monkeypatch)
    assert result["state"] == "succeeded"
    assert "could not be read: Reading the state of the job lab/train: could not be reached" in capsys.readouterr().err
    clock.now = 0
    result, asked = wait(clock, [look("running"), *[AWAY] * 50], monkeypatch)
    assert result["failed"]
    assert len(asked) < 10
    result, asked = wait(clock, [AWAY], monkeypatch)
    assert (result["failed"], len(asked)) == (True, 1)


def test_one_look(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    result, asked = wait(clock, [look("running")], monkeypatch, wait_timeout=0)
    assert (result["state"], result["gave_up"], asked[0]["wait_timeout"]) == ("running", None, 0)
