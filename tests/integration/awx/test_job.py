# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A job as AWX runs it, judged by the events that AWX gets."""

from __future__ import annotations

import collections
import json
import sys
import typing as t
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._drift.report import validate
from ansible_collections.rdmaops.gpu_fabric.tests.support import need_root, runner
from ansible_collections.rdmaops.gpu_fabric.tests.support.runner import Job, as_awx

SECRET = "Xk7-hunter2-Qz9"
REPORT = "drift/report.json"
BOOK = "look.yml"

# A file that is as it should be, one that is not, and one that may not be shown; on two hosts that are this machine.
LOOK: list[dict[str, t.Any]] = [
    {
        "name": "Look",
        "hosts": "gpu_nodes",
        "gather_facts": False,
        "tasks": [
            {
                "name": "Options of a module",
                "rdmaops.gpu_fabric.modprobe_options": {
                    "name": "rdmaops_job",
                    "options": {"answer": 42},
                    "root": "{{ place }}",
                },
            },
            {
                "name": "Files of ours",
                "rdmaops.gpu_fabric.owned_files": {
                    "files": [{"path": "{{ place }}/{{ item }}", "content": "a line\n"}]
                },
                "loop": ["one", "two"],
            },
            {
                "name": "A secret",
                "ansible.builtin.copy": {"content": "{{ secret }}", "dest": "{{ place }}/secret", "mode": "0600"},
                "no_log": True,
            },
            {
                "name": "Tell how it went",
                "ansible.builtin.set_stats": {"data": {"looked_at": "{{ ansible_play_hosts | join(' ') }}"}},
                "run_once": True,
            },
            {"name": "Not on every host", "ansible.builtin.ping": {}, "when": "inventory_hostname == 'gpu-1'"},
            {
                "name": "Fail on one",
                "ansible.builtin.assert": {"that": "inventory_hostname != 'gpu-2'", "fail_msg": "gpu-2 is not well"},
            },
        ],
    }
]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("awx")


@pytest.fixture(scope="module")
def job(place: Path) -> Job:
    need_root()
    here = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable, "place": str(place / "host")}
    (place / "host/etc/modprobe.d").mkdir(parents=True)
    (place / "hosts.yml").write_text(json.dumps({"gpu_nodes": {"hosts": {"gpu-1": here, "gpu-2": here}}}))
    (place / "awx").mkdir()
    return as_awx(
        BOOK,
        place / "hosts.yml",
        place=place / "awx",
        extra_vars={"secret": SECRET},
        environment={"RDMAOPS_DRIFT_REPORT": str(place / REPORT)},
        files={BOOK: json.dumps(LOOK)},
    )


def test_it_ends_as_it_has_to(job: Job, place: Path) -> None:
    assert job.status == "failed", job.stdout()
    assert [path for path in (place / "host").rglob("*") if not path.is_dir()] == []


def test_no_event_is_missing(job: Job) -> None:
    counters = [event["counter"] for event in job.events]
    assert counters == list(range(1, len(counters) + 1))
    kinds = collections.Counter(job.kinds())
    expected = {
        "playbook_on_start": 1,
        "playbook_on_play_start": 1,
        "playbook_on_task_start": 6,
        "runner_on_start": 11,
        "runner_item_on_ok": 4,
        "runner_on_ok": 9,
        "runner_on_skipped": 1,
        "runner_on_failed": 1,
        "playbook_on_stats": 1,
    }
    assert {kind: kinds[kind] for kind in expected} == expected
    # What an event has needs a play, a task and a host to belong to.
    known = {event["uuid"] for event in job.events}
    assert all(event["parent_uuid"] in known for event in job.events if event.get("parent_uuid"))


def test_the_collection_is_that_of_the_project(job: Job) -> None:
    """FQCNs are found in what AWX has installed, and nowhere else."""
    (started,) = [event["event_data"] for event in job.events if event["event"] == "playbook_on_start"]
    assert started["playbook"] == BOOK
    actions = {event["event_data"].get("resolved_action") for event in job.events}
    assert "rdmaops.gpu_fabric.modprobe_options" in actions
    installed = job.container / "requirements_collections/ansible_collections/rdmaops/gpu_fabric"
    assert (installed / "MANIFEST.json").is_file()
    assert not (installed / "tests").exists()


def test_what_would_change_arrives(job: Job) -> None:
    results = job.results("Options of a module")
    assert [result["changed"] for result in results] == [True, True]
    for result in results:
        (diff,) = result["diff"]
        assert (diff["before"], "options rdmaops_job answer=42\n" in diff["after"]) == ("", True)
        assert result["actions"]
        (resource,) = [entry for entry in result["resources"] if entry["status"] == "drift"]
        assert resource["desired"] == "42"
    stats = next(event["event_data"] for event in job.events if event["event"] == "playbook_on_stats")
    assert stats["changed"] == {"gpu-1": 3, "gpu-2": 3}
    assert stats["failures"] == {"gpu-2": 1}
    assert "+options rdmaops_job answer=42" in job.stdout()


def test_what_set_stats_gives_arrives(job: Job) -> None:
    assert job.artifacts == {"looked_at": "gpu-1 gpu-2"}


def test_no_secret_arrives(job: Job, place: Path) -> None:
    assert SECRET not in job.told()
    assert len(job.results("A secret")) == 2
    assert SECRET not in (place / REPORT).read_text()


def test_the_drift_callback_reports(job: Job, place: Path) -> None:
    """It comes from the project's ansible.cfg."""
    report = json.loads((place / REPORT).read_text())
    validate(report, "the report")
    assert (report["verdict"], report["complete"]) == ("drift", True)
    assert set(report["hosts"]) == {"gpu-1", "gpu-2"}
    statuses = {entry["name"]: entry["status"] for entry in report["hosts"]["gpu-1"]["objects"]}
    assert statuses["rdmaops_job.answer"] == "drift"
    assert any(entry["status"] == "unknown" for entry in report["hosts"]["gpu-2"]["objects"])


def test_awx_installs_nothing_else(job: Job, place: Path) -> None:
    assert [name for name in runner.REQUIREMENTS if (place / "awx/project" / name).exists()] == [
        "collections/requirements.yml"
    ]
    assert job.status
