# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The action drift_verdict, by ansible-playbook and ansible-runner: what it writes, merges, and fails for."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import ansible_runner
import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._drift.report import validate
from ansible_collections.rdmaops.gpu_fabric.tests.support.drift import (
    PROGRAM,
    VERDICT,
    Json,
    Place,
    copy,
    run_it,
    verdict,
)


def test_without_the_callback_the_verdict_is_an_error(host: Place) -> None:
    (host.path / "ansible.cfg").write_text("[defaults]\n")
    (host.path / "a").write_text("x\n")
    ran = host.check(copy("a"))
    assert ran.rc == 2
    assert "the callback rdmaops.gpu_fabric.drift did not record it" in ran.output
    assert "ANSIBLE_CALLBACKS_ENABLED=rdmaops.gpu_fabric.drift" in ran.output
    assert ran.report == {}
    ran = host.run(host.book, "--check", ANSIBLE_CALLBACKS_ENABLED="rdmaops.gpu_fabric.drift")
    assert ran.rc == 0, ran.output
    assert ran.report["verdict"] == "in_sync"


@pytest.mark.long
def test_another_ansible_playbook_inside_does_not_find_the_outer_run(host: Place) -> None:
    (host.path / "a").write_text("x\n")
    host.write(VERDICT, name="inner.yml")
    (host.path / "inner.cfg").write_text("[defaults]\n")
    inner = {
        **run_it(*host.command(str(host.path / "inner.yml")), check_mode=False, changed_when=False, register="inner"),
        "environment": {"ANSIBLE_CONFIG": str(host.path / "inner.cfg")},
        "failed_when": "'did not record it' not in inner.stdout + inner.stderr",
    }
    ran = host.check(copy("a"), inner)
    assert ran.rc == 0, ran.output


def test_drift_need_not_fail(host: Place) -> None:
    host.write(host.play(copy("a")), verdict(drift_fail=False))
    ran = host.run()
    assert ran.rc == 0
    assert ran.report["verdict"] == "drift"


def test_a_report_that_cannot_be_written(host: Place) -> None:
    (host.path / "file").write_text("")
    written = {"html": str(host.path / "v.html"), "prometheus": str(host.path / "v.prom"), "fail_on": []}
    host.write(host.play(copy("a")), verdict(report=str(host.path / "file/x.json"), **written))
    ran = host.run()
    assert ran.rc == 2
    assert f"Writing {host.path}/file/x.json: File exists, the drift report's option 'report'" in ran.output
    assert "The verdict is drift" in ran.output
    assert (host.path / "v.html").stat().st_size > 1000
    assert 'gpu_fabric_drift_verdict{verdict="drift"} 1' in (host.path / "v.prom").read_text()


def test_a_callback_that_cannot_write_says_so_and_fails_the_verdict(host: Place) -> None:
    (host.path / "file").write_text("")
    (host.path / "a").write_text("x\n")
    host.write(host.play(copy("a")), VERDICT)
    page = host.path / "page.html"
    places = {"RDMAOPS_DRIFT_REPORT": str(host.path / "file/x.json"), "RDMAOPS_DRIFT_HTML": str(page)}
    ran = host.run(host.book, "--check", **places)
    assert ran.rc == 2
    assert f"Writing {host.path}/file/x.json: File exists" in ran.output
    assert "The verdict is in_sync" in ran.output
    assert page.exists()


def test_slices_are_merged(host: Place) -> None:
    (host.path / "a").write_text("x\n")
    host.write(host.play(copy("a")))
    for name in ("s1", "s2"):
        variables = f"ansible_connection=local place={host.path} ansible_python_interpreter={sys.executable}"
        (host.path / "hosts").write_text(f"{name} {variables}\n")
        # What AWX sets for each job.
        ran = host.run(RDMAOPS_DRIFT_REPORT=str(host.path / "slices/$JOB_ID.json"), JOB_ID=name)
        assert ran.rc == 0, ran.output
    files = [str(host.path / f"slices/{name}.json") for name in ("s1", "s2")]
    host.write(verdict(merge=files, report=str(host.path / "all.json")))
    assert host.run().rc == 0
    merged = json.loads((host.path / "all.json").read_text())
    assert (merged["verdict"], list(merged["hosts"])) == ("in_sync", ["s1", "s2"])

    host.write(verdict(merge=[files[0], files[0]]))
    ran = host.run()
    assert ran.rc == 2
    assert f"host s1 is in {files[0]} and in {files[0]}" in ran.output

    other = json.loads(Path(files[1]).read_text())
    Path(files[1]).write_text(json.dumps({**other, "schema": 2}))
    host.write(verdict(merge=files))
    ran = host.run()
    assert ran.rc == 2
    assert f"Reading the drift report {files[1]}: it has schema 2" in ran.output


def test_a_document_on_the_standard_output_stays_one(host: Place) -> None:
    host.write(host.play(copy("a")), VERDICT)
    environment = {**host.environment, "ANSIBLE_STDOUT_CALLBACK": "ansible.posix.json"}
    argv = host.command(host.book, "--check")
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=300)
    assert json.loads(done.stdout)["plays"]
    assert "Drift: DRIFT" in done.stderr


def without_times(report: Json) -> Json:
    return {**report, "started": None, "finished": None}


@pytest.mark.parametrize("fails", [True, pytest.param(False, marks=pytest.mark.long)])
def test_a_check_job_of_ansible_runner_gives_the_same_report(
    host: Place, fails: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    (host.path / "a").write_text("x\n")
    tasks = [copy("a"), copy("b"), run_it("true")]
    host.write(host.play(*tasks), verdict(drift_fail=fails, artifact=True))
    played = host.run(host.book, "--check", "--diff")
    assert played.rc == (2 if fails else 0)

    project = host.path / "job/project"
    project.mkdir(parents=True)
    (project / "play.yml").write_text((host.path / "play.yml").read_text())
    # AWX takes callbacks_enabled over from the project's own file.
    (project / "ansible.cfg").write_text((host.path / "ansible.cfg").read_text())
    inventory = host.path / "job/inventory"
    inventory.mkdir()
    (inventory / "hosts").write_text((host.path / "hosts").read_text())
    for name in [name for name in os.environ if name.startswith("ANSIBLE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PATH", f"{PROGRAM.parent}{os.pathsep}{os.environ['PATH']}")
    job = ansible_runner.run(
        private_data_dir=str(host.path / "job"),
        playbook="play.yml",
        cmdline="--check --diff",
        ident="check",
        quiet=True,
        envvars={"RDMAOPS_DRIFT_REPORT": str(host.path / "job.json"), "COLUMNS": "120"},
    )
    assert (job.rc, job.status) == ((2, "failed") if fails else (0, "successful"))
    report = json.loads((host.path / "job.json").read_text())
    assert without_times(report) == without_times(played.report)
    assert report["verdict"] == "drift"
    # What AWX keeps as the artifacts of a job, of one that failed too.
    artifacts = [event["event_data"]["artifact_data"] for event in job.events if event["event"] == "playbook_on_stats"]
    assert artifacts[-1]["drift_verdict"] == "drift"
    assert artifacts[-1]["drift_counts"] == {"in_sync": 1, "unknown": 1, "drift": 1}
    assert artifacts[-1]["drift_hosts"] == {"drift": ["gpu-1"], "unknown": []}
    kept = validate(artifacts[-1]["drift_report"], "the artifact")
    assert (kept["verdict"], kept["hosts"]) == ("drift", report["hosts"])
    # What a failed task returns is printed: not the report, for which the table stands.
    output = job.stdout.read()
    assert "Drift: DRIFT" in output
    assert '"objects"' not in output
