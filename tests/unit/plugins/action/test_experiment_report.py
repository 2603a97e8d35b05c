# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The action experiment_report: its files, the earlier run, check mode, and what it refuses."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest
from ansible.errors import AnsibleActionFail

from ansible_collections.rdmaops.gpu_fabric.plugins.action import experiment_report as plugin
from ansible_collections.rdmaops.gpu_fabric.tests.support.actions import run_action
from ansible_collections.rdmaops.gpu_fabric.tests.support.failures import message_of
from ansible_collections.rdmaops.gpu_fabric.tests.unit.plugins.plugin_utils._experiment.runs import TRAINED, job, log_of


def arguments(**more: t.Any) -> dict[str, t.Any]:
    document = {"title": "the document", "numbers": {"accuracy": 0.856, "seconds": 897}}
    return {"name": "cifar10", "directory": "results", "job": job(log_of(TRAINED)), "document": document, **more}


def run(directory: Path, check_mode: bool = False, **more: t.Any) -> t.Any:
    return run_action(plugin, arguments(**more), directory, check_mode=check_mode)


def test_files_and_the_earlier_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [str(tmp_path / "results" / name) for name in ("cifar10.json", "cifar10.html")]
    checked = run(tmp_path, check_mode=True)
    assert (checked["changed"], checked["files"]) == (True, files)
    assert not (tmp_path / "results").exists()
    first = run(tmp_path)
    assert (first["changed"], first["files"]) == (True, files)
    assert first["msg"] == f"Experiment cifar10: {files[1]}"
    assert json.loads(Path(files[0]).read_text()) == first["result"]
    assert Path(files[1]).read_text().startswith("<!DOCTYPE html>")
    assert "this run      0.8571\n" in capsys.readouterr().out
    again = run(tmp_path)
    assert (again["changed"], again["result"]) == (False, first["result"])
    slower = job(log_of({**TRAINED, "seconds": 1000.0}))
    second = run(tmp_path, job=slower)
    assert second["changed"]
    assert second["result"]["earlier"] == first["result"]["run"]
    assert run(tmp_path, job=slower)["result"] == second["result"]


def test_beside_other_experiments(tmp_path: Path) -> None:
    run(tmp_path, name="vgg16")
    result = run(tmp_path, beside=["vgg16", "resnet50"])
    assert result["msg"].endswith("cifar10.html; not beside it, as they have no result yet: resnet50")
    assert ">vgg16<" in (tmp_path / "results" / "cifar10.html").read_text()


def test_a_log_without_a_result_writes_nothing(tmp_path: Path) -> None:
    message = message_of(AnsibleActionFail, run, tmp_path, job=job("Traceback"))
    assert message.startswith("Experiment cifar10: the logs of the job's pods have neither a result of train.py")
    assert not (tmp_path / "results").exists()


# arguments, what the message says
REFUSED = [
    ({"name": "../x"}, "Experiment '../x': the name is part of a file name, and may only have letters, digits,"),
    ({"beside": ["a/b"]}, "Experiment 'a/b': the name is part of a file name"),
    ({"job": None}, "Experiment cifar10: exactly one of job and fabric is required"),
    ({"fabric": {}}, "Experiment cifar10: exactly one of job and fabric is required"),
    (
        {"document": {"title": "d", "numbers": {"speed": 1}}},
        "Experiment cifar10: document.numbers has speed, which is not measured; known are bandwidth, bandwidth_cm, ",
    ),
    (
        {"document": {"title": "d", "details": {"gpus": 1}}},
        "Experiment cifar10: document.details has gpus, which is not measured; known are kind, model, ",
    ),
    (
        {"document": {"title": "d", "numbers": {"accuracy": "high"}}},
        "Experiment cifar10: document.numbers has a value that is not a number for accuracy",
    ),
]


@pytest.mark.parametrize(("changes", "text"), REFUSED)
def test_refused(changes: dict[str, t.Any], text: str, tmp_path: Path) -> None:
    assert message_of(AnsibleActionFail, run, tmp_path, **changes).startswith(text)
    assert list(tmp_path.iterdir()) == []
