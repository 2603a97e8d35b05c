# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Playbook verify on hosts whose measurements are made up, because a fault must come, or not come, a second time."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.tests.support import made_up_fabric, site
from ansible_collections.rdmaops.gpu_fabric.tests.support.made_up_fabric import GOOD
from ansible_collections.rdmaops.gpu_fabric.tests.support.maintenance import linked, write_interpreter

Json = t.Any
HOSTS = ("gpu-1", "gpu-2", "gpu-3", "gpu-4")
# The slow one is measured once with each of the others, and then again.
FIRST, ALWAYS = len(HOSTS) - 1, 1000


def verify(place: Path, times: int, *arguments: str, **variables: Json) -> tuple[site.Run, Json]:
    """Run the playbook while rail 1 of gpu-3 is slow so many times, and return its report, too."""
    collection = place / "collections/ansible_collections/rdmaops/gpu_fabric"
    linked(collection, modules=made_up_fabric.MODULES)
    made_up_fabric.write_modules(collection)
    fault, python = place / "fault.json", place / "python"
    made_up_fabric.write_fault(fault, "gpu-3", 1, times)
    write_interpreter(python, TEST_FAULT=fault)
    nodes = {name: {**site.HERE, "ansible_python_interpreter": str(python)} for name in HOSTS}
    report = place / "report.json"
    own = {"ansible_become": False, "fabric_check_tests": ["ib_write_bw"], "fabric_check_report_json": str(report)}
    argv = site.hosts(place, {"gpu_nodes": {"hosts": nodes}}, {**own, **variables})
    path = {"ANSIBLE_COLLECTIONS_PATH": str(place / "collections"), "ANSIBLE_FORKS": "10"}
    run = site.ansible_playbook(*argv, "rdmaops.gpu_fabric.verify", *arguments, limit=300, **path)
    return run, json.loads(report.read_text()) if report.exists() else {}


@pytest.mark.long
@pytest.mark.parametrize(
    ("times", "verdict", "suspects", "repeat"),
    [(ALWAYS, "fail", [("port", "gpu-3", 1)], 2), (FIRST, "unknown", [], 1)],
)
def test_only_what_fails_again_is_blamed(tmp_path: Path, times: int, verdict: str, suspects: Json, repeat: int) -> None:
    earlier = tmp_path / "earlier.json"
    row = {"client": "gpu-2", "server": "gpu-1", "rail": 0, "test": "ib_write_bw", "verdict": "pass", "gbps": GOOD}
    earlier.write_text(json.dumps({"started": "2026-11-14T02:00:00Z", "pairs": [row]}))
    run, report = verify(tmp_path, times, fabric_check_repeat=repeat, fabric_check_baseline=str(earlier))
    assert [change["change"] for change in report["baseline"]["changes"]] == [0.0]
    assert {(row["results"], row["spread"]) for row in report["pairs"]} == {(repeat, 0.0 if repeat > 1 else None)}
    assert ("Repeatability: 2 measurements of each pair and rail differ by at most 0.0%" in run.output) == (repeat > 1)
    assert [(row["kind"], row["node"], row["rail"]) for row in report["suspects"]] == suspects
    assert (run.rc, report["verdict"]) == (2, verdict)
    assert {(row["rail"], "gpu-3" in (row["client"], row["server"])) for row in report["again"]} == {(1, True)}
    assert ("measured again with gpu-" in run.messages()) == bool(suspects)
    assert ("not repeatable: 97.0 Gb/s (" in json.dumps(report)) == (not suspects)


@pytest.mark.long
def test_a_round_that_would_not_end_in_time_is_not_begun(tmp_path: Path) -> None:
    # A round takes 10 s: two rails, each with a test of 3 s, a second to connect and another to end.
    run, report = verify(tmp_path, ALWAYS, fabric_check_time_limit=9)
    assert (run.rc, report["verdict"]) == (2, "unknown")
    assert {row["error"] for row in report["pairs"]} == {"not reached within fabric_check_time_limit (9 s)"}
    assert report["again"] == []


@pytest.mark.long
@pytest.mark.parametrize(("times", "verdict"), [(ALWAYS, "fail"), (0, "pass")])
def test_a_host_is_measured_with_partners_that_are_not_in_the_play(tmp_path: Path, times: int, verdict: str) -> None:
    run, report = verify(tmp_path, times, "--limit", "gpu-3", fabric_check_partners=["gpu-1", "gpu-4"])
    assert (run.rc, report["verdict"]) == (2 if times else 0, verdict), run.output
    assert {frozenset((row["client"], row["server"])) for row in report["pairs"]} == {
        frozenset(pair) for pair in (("gpu-3", "gpu-1"), ("gpu-3", "gpu-4"), ("gpu-1", "gpu-4"))
    }
    assert {row["verdict"] for row in report["pairs"] if row["rail"] == 0} == {"pass"}
    assert [(row["kind"], row["node"], row["rail"]) for row in report["suspects"]] == (
        [("port", "gpu-3", 1)] if times else []
    )


@pytest.mark.long
def test_partners_of_the_play_itself_are_refused(tmp_path: Path) -> None:
    run, _report = verify(tmp_path, 0, "--limit", "gpu-3,gpu-4", fabric_check_partners=["gpu-4"])
    assert (
        "fabric_check_partners (gpu-4) must be hosts of the inventory that are not in this play or batch" in run.output
    )
