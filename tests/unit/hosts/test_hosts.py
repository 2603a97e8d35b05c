# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts as rdma_info has recorded them (option `dump`): what the collection decides about each is what is beside it.

Copy a record into this directory. This writes the answers of records that have none; read them before you commit them:

    python tests/unit/hosts/test_hosts.py
"""

from __future__ import annotations

import json
import tempfile
import typing as t
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.tests.support.replay import answers

HERE = Path(__file__).parent
ANSWERS = ".answers.json"
RECORDS = sorted(path for path in HERE.glob("*.json") if not path.name.endswith(ANSWERS))


def answers_file(record: Path) -> Path:
    return record.with_suffix(ANSWERS)


def read(path: Path) -> t.Any:
    return json.loads(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("record", RECORDS, ids=lambda path: path.stem)
def test_the_answers_are_those_beside_the_record(record: Path, tmp_path: Path) -> None:
    expected = answers_file(record)
    assert expected.exists(), "python tests/unit/hosts/test_hosts.py writes it"
    decisions = json.loads(json.dumps(answers(read(record), tmp_path)))
    for question, answer in read(expected).items():
        assert decisions.pop(question) == answer, question
    assert decisions == {}


def test_there_are_records_with_all_that_is_decided() -> None:
    every = [read(answers_file(record)) for record in RECORDS]
    modes = [answer for row in every for answer in row["mode"].values()]
    assert {mode.get("reboot_would_help", "error") for mode in modes} == {True, False, None, "error"}
    assert {resource["status"] for row in every for resource in row["audit"]} == {"in_sync", "drift", "unknown"}
    assert any(mode["conflicts"] for mode in modes)
    assert any(row["attachments"] for row in every)
    assert all(row["rails"] for row in every)


if __name__ == "__main__":
    for record in RECORDS:
        if not answers_file(record).exists():
            with tempfile.TemporaryDirectory() as directory:
                text = json.dumps(answers(read(record), Path(directory)), indent=1, sort_keys=True)
            answers_file(record).write_text(text + "\n", encoding="utf-8")
            print(answers_file(record))
