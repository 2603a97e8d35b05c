# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Playbook verify on a good fabric and on bad ones: what was not measured never passes."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import typing as t
from pathlib import Path

import pytest
from testinfra.host import Host

from ansible_collections.rdmaops.gpu_fabric.tests.support import COLLECTION, site
from ansible_collections.rdmaops.gpu_fabric.tests.support.hosts import rail_address

pytestmark = pytest.mark.usefixtures("first")

LAB = [sys.executable, str(COLLECTION / "tests/lab/lab.py")]


def verify(tmp_path: Path, *arguments: str, **variables: t.Any) -> tuple[site.Run, dict[str, t.Any]]:
    """Run the playbook; return its result and its report."""
    files = {f"fabric_check_report_{kind}": str(tmp_path / f"report.{kind}") for kind in ("json", "html")}
    run = site.playbook("rdmaops.gpu_fabric.verify", "gpu_nodes", *arguments, limit=600, **files, **variables)
    report = tmp_path / "report.json"
    return run, json.loads(report.read_text()) if report.exists() else {}


def test_a_good_fabric(tmp_path: Path) -> None:
    rates = {"ib_write_bw": 2.5, "ib_write_bw_all_rails": 2.5, "ib_write_bw_bidirectional": 5.0}
    run, report = verify(tmp_path, fabric_check_tests=["rping", "ib_send_lat", *rates], fabric_check_repeat=2)
    assert (run.rc, report["verdict"], report["reasons"], report["skipped"]) == (0, "pass", [], [])
    assert sorted((pair["rail"], pair["test"]) for pair in report["pairs"]) == [
        (rail, test) for rail in (0, 1) for test in ["ib_send_lat", *sorted(rates), "rping"]
    ]
    # soft-RoCE has the IPv4 address of its card at index 1; perftest's default is 0.
    assert {rail["gid_index"] for node in report["nodes"] for rail in node["rails"]} == {1}
    for pair in report["pairs"]:
        assert pair["verdict"] == "pass"
        assert pair["results"] == 2
        if pair["test"] == "ib_send_lat":
            assert 0 < pair["latency_us"] <= pair["latency_99_us"]
        if pair["test"] in rates:
            assert pair["expected_gbps"] == rates[pair["test"]]
            assert 0.0001 < pair["share"] < 1
            assert pair["spread"] is not None
    assert (tmp_path / "report.html").read_text().startswith("<!DOCTYPE html>")
    assert "Fabric check: PASS" in run.output


def test_a_share_that_is_too_small(tmp_path: Path) -> None:
    run, report = verify(tmp_path, fabric_check_min_share=0.99, fabric_check_tests=["ib_write_bw"])
    assert (run.rc, report["verdict"]) == (2, "fail")
    assert {pair["verdict"] for pair in report["pairs"]} == {"fail"}


def test_a_cut_cable_is_named(tmp_path: Path) -> None:
    subprocess.run([*LAB, "cable", "gpu-1", "1", "down"], check=True, timeout=60)
    try:
        time.sleep(2)
        began = time.monotonic()
        run, report = verify(tmp_path)
        assert time.monotonic() - began < 300
    finally:
        subprocess.run([*LAB, "cable", "gpu-1", "1", "up"], check=True, timeout=60)
    assert (run.rc, report["verdict"]) == (2, "fail")
    assert "rail 1: node gpu-1 (rxe1, rail1): the port is DOWN, not ACTIVE" in run.messages()
    assert [(suspect["kind"], suspect["node"], suspect["rail"]) for suspect in report["suspects"]] == [
        ("port", "gpu-1", 1)
    ]
    assert {(pair["rail"], pair["verdict"]) for pair in report["pairs"]} == {(0, "pass"), (1, "unknown")}


def test_packets_that_are_lost_are_a_failure_within_the_limit(first: Host, tmp_path: Path) -> None:
    """The port is up, and nothing comes through: a switch that drops, say."""
    first.check_output("tc qdisc add dev rail1 root netem loss 100%")
    try:
        began = time.monotonic()
        run, report = verify(tmp_path, fabric_check_timeout=25, fabric_check_patience=5)
        assert time.monotonic() - began < 400
    finally:
        first.check_output("tc qdisc del dev rail1 root")
    assert (run.rc, report["verdict"]) == (2, "fail")
    assert {(pair["rail"], pair["verdict"]) for pair in report["pairs"]} == {(0, "pass"), (1, "fail")}
    assert all("rail 1" in suspect["why"] for suspect in report["suspects"])
    assert report["suspects"]


def test_a_missing_tool_never_passes(first: Host, tmp_path: Path) -> None:
    first.check_output("mv /usr/bin/ib_write_bw /usr/bin/ib_write_bw.away")
    try:
        run, report = verify(tmp_path)
    finally:
        first.check_output("mv /usr/bin/ib_write_bw.away /usr/bin/ib_write_bw")
    assert (run.rc, report["verdict"]) == (2, "unknown")
    assert "ib_write_bw is not installed (package perftest)" in run.messages()


def test_a_node_that_is_not_reached_never_passes(tmp_path: Path) -> None:
    other = tmp_path / "other.yml"
    other.write_text("gpu_nodes:\n  hosts:\n    gpu-2:\n      ansible_port: 9\n")
    run, report = verify(tmp_path, "-i", str(other))
    assert run.rc != 0
    assert report["verdict"] in ("unknown", "fail")
    assert any("gpu-2" in reason for reason in report["reasons"])


def test_a_result_that_cannot_be_read_never_passes(first: Host, tmp_path: Path) -> None:
    first.check_output(
        "printf '#!/bin/sh\\necho fine\\n' > /usr/local/bin/ib_write_bw; chmod +x /usr/local/bin/ib_write_bw"
    )
    try:
        run, report = verify(tmp_path, fabric_check_tests=["ib_write_bw"])
    finally:
        first.check_output("rm /usr/local/bin/ib_write_bw")
    assert (run.rc, report["verdict"]) == (2, "unknown")
    assert {pair["verdict"] for pair in report["pairs"]} == {"unknown"}


def test_a_device_in_use_is_skipped_and_unknown(first: Host, tmp_path: Path) -> None:
    first.check_output(
        f"systemd-run --quiet --collect --unit=held timeout 300 rping -s -a {rail_address(first, 0)} -P -p 7999"
    )
    time.sleep(4)
    run, report = verify(tmp_path)
    assert (run.rc, report["verdict"]) == (2, "unknown")
    assert {pair["verdict"] for pair in report["pairs"]} == {"unknown"}
    assert any("rxe0 is in use by rping (PID " in line["why"] for line in report["skipped"])
    # With consent it is measured all the same.
    run, report = verify(tmp_path, fabric_check_when_busy="run", fabric_check_tests=["rping"])
    assert (run.rc, report["verdict"]) == (0, "pass")


def test_a_device_that_a_pod_has_is_unknown(first: Host, tmp_path: Path) -> None:
    first.check_output("ip netns add blue; rdma dev set rxe1 netns blue")
    run, report = verify(tmp_path)
    assert (run.rc, report["verdict"]) == (2, "unknown")
    assert any("rxe1 is in another network namespace than the host" in line["why"] for line in report["skipped"])


def test_a_report_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "report.json").mkdir()
    files = {"fabric_check_report_json": str(tmp_path / "report.json"), "fabric_check_tests": ["rping"]}
    run = site.playbook("rdmaops.gpu_fabric.verify", "gpu_nodes", limit=600, **files)
    assert run.rc == 2
    assert str(tmp_path / "report.json") in run.messages()


@pytest.mark.parametrize("fail_on", [["fail", "unknown"], ["fail"]])
def test_check_mode_sends_nothing_and_does_not_fail(tmp_path: Path, fail_on: list[str]) -> None:
    run, report = verify(tmp_path, "--check", fabric_check_fail_on=fail_on)
    assert (run.rc, report) == (0, {})
    assert "Fabric check: UNKNOWN" in run.output
