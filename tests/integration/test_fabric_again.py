# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Playbook verify on hosts whose measurements are made up, because a fault must come, or not come, a second time."""

from __future__ import annotations

import json
import sys
import typing as t
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.tests.support import site
from ansible_collections.rdmaops.gpu_fabric.tests.support.maintenance import linked
from ansible_collections.rdmaops.gpu_fabric.tests.unit.plugins.filter.rdma_results import TWO

Json = t.Any
HOSTS = ("gpu-1", "gpu-2", "gpu-3", "gpu-4")
GOOD, BAD = 388.0, 97.0
# The slow one is measured once with each of the others, and then again.
FIRST, ALWAYS = len(HOSTS) - 1, 1000
PORT = {"rate_gbps": 400.0, "netdev_mtu": 9000, "active_mtu": 4096}
DEVICES = [
    {**device, "netns": {"initial": True}, "users": [], "ports": [{**port, **PORT} for port in device["ports"]]}
    for device in TWO["devices"]
]
INFO = f"""#!/usr/bin/python
import json
from ansible.module_utils.basic import AnsibleModule
module = AnsibleModule(dict.fromkeys(("gather", "all_netns", "pod"), {{"type": "raw"}}), supports_check_mode=True)
module.exit_json(**json.loads({json.dumps(json.dumps({**TWO, "devices": DEVICES}))}))
"""
PROBE = f"""#!/usr/bin/python
import json, os
from ansible.module_utils.basic import AnsibleModule
OPTIONS = ("state", "exec", "tools", "devices", "ports", "numa_pinning", "memlock_bytes", "tcp_port", "tests", "lifetime",
           "patience", "rail_netdevs", "test_timeout", "kubeconfig", "context", "pod", "container", "quiet_bytes_per_second")
module = AnsibleModule({{name: {{"type": "raw"}} for name in OPTIONS}}, supports_check_mode=True)
ready = {{"address": None, "gpus": 0, "problems": [], "busy": [], "checks": [], "placements": []}}
results = []
fault = json.load(open(os.environ["TEST_FAULT"]))
for test in module.params["tests"] or [] if module.params["state"] == "measured" else []:
    slow = fault["node"] in (test["client"], test["server"]) and test["rail"] == fault["rail"]
    if slow:
        # The slow node is in one pair of a round, so that one of these is counted at a time.
        with open(os.environ["TEST_FAULT"] + ".times", "a") as stream:
            stream.write("x")
            slow = stream.tell() <= fault["times"]
    results.append({{**{{key: test[key] for key in ("client", "server", "rail", "test", "id")}}, "ok": True,
                    "gbps": {BAD} if slow else {GOOD}}})
module.exit_json(changed=False, failed_tests=[], results=results, **ready)
"""


def verify(place: Path, times: int, **variables: Json) -> tuple[site.Run, Json]:
    """Run the playbook while rail 1 of gpu-3 is slow so many times, and return its report, too."""
    collection = place / "collections/ansible_collections/rdmaops/gpu_fabric"
    linked(collection, modules=("rdma_info", "fabric_probe"))
    for name, text in (("rdma_info", INFO), ("fabric_probe", PROBE)):
        (collection / f"plugins/modules/{name}.py").write_text(text)
    fault = place / "fault.json"
    fault.write_text(json.dumps({"node": "gpu-3", "rail": 1, "times": times}))
    python = place / "python"
    python.write_text(f'#!/bin/sh\nTEST_FAULT={fault} exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    nodes = {name: {**site.HERE, "ansible_python_interpreter": str(python)} for name in HOSTS}
    report = place / "report.json"
    own = {"ansible_become": False, "fabric_check_tests": ["ib_write_bw"], "fabric_check_report_json": str(report)}
    argv = site.hosts(place, {"gpu_nodes": {"hosts": nodes}}, {**own, **variables})
    path = {"ANSIBLE_COLLECTIONS_PATH": str(place / "collections"), "ANSIBLE_FORKS": "10"}
    run = site.ansible_playbook(*argv, "rdmaops.gpu_fabric.verify", limit=300, **path)
    assert report.exists(), run.output
    return run, json.loads(report.read_text())


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
