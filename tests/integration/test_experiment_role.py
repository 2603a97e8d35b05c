# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Role experiment with a fabric that was measured before it, or was not. Jobs are run by molecule/training."""

from __future__ import annotations

import typing as t
from pathlib import Path

from ansible_collections.rdmaops.gpu_fabric.tests.support import site

REPORT = {
    "verdict": "pass",
    "reasons": [],
    "started": "2026-11-24T12:00:00Z",
    "pairs": [{"client": "gpu-1", "server": "gpu-2", "rail": 0, "test": "ib_write_bw_cm", "gbps": 22.9}],
}
INVENTORY = {
    "gpu_nodes": {"hosts": {"gpu-1": site.HERE}},
    "experiments": {"hosts": {"bandwidth": {**site.HERE, "experiment_kind": "fabric"}}},
}
DOCUMENT = {"title": "the document", "numbers": {"bandwidth_cm": 23.14}}


def play(directory: Path, *arguments: str, measured: bool = True, **variables: t.Any) -> site.Run:
    verdict = {"ansible.builtin.set_fact": {"fabric_check_verdict": {"report": REPORT}}}
    plays: list[t.Any] = [
        {"hosts": "gpu_nodes", "tasks": [verdict] if measured else []},
        {"hosts": "experiments", "roles": ["rdmaops.gpu_fabric.experiment"]},
    ]
    given = {"experiment_directory": str(directory / "results"), "experiment_document": DOCUMENT, **variables}
    argv = site.book(directory, *plays, inventory=INVENTORY, variables=given)
    return site.ansible_playbook(*argv, *arguments, limit=120)


def test_check_run_and_again(tmp_path: Path) -> None:
    page = tmp_path / "results" / "bandwidth.html"
    assert play(tmp_path, "--check").rc == 0
    assert not page.exists()
    run = play(tmp_path)
    assert (run.rc, run.changed()) == (0, 1), run.output
    assert run.result("beside the others")["result"]["run"]["numbers"] == {"bandwidth_cm": 22.9}
    assert "23.14 Gb/s" in page.read_text()
    artifact = run.result("artifact of the run")["ansible_stats"]["data"]
    assert artifact["experiment_results"]["bandwidth"]["run"]["numbers"] == {"bandwidth_cm": 22.9}
    for again in (play(tmp_path), play(tmp_path, "--check")):
        assert (again.rc, again.changed()) == (0, 0), again.output


def test_a_fabric_that_was_not_measured_is_refused(tmp_path: Path) -> None:
    run = play(tmp_path, measured=False)
    assert run.rc != 0
    assert run.messages() == (
        "Experiment bandwidth: the fabric was not measured in this run. Run the playbook experiment without --limit, or with a limit"
        " that includes the group gpu_nodes (gpu-1)."
    )
    assert not (tmp_path / "results").exists()
