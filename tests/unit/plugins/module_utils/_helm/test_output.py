# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._helm import output
from ansible_collections.rdmaops.gpu_fabric.tests.support.failures import message_of

FIXTURES = Path(__file__).parents[1] / "fixtures" / "helm"
VERSIONS = ["3.22.0", "4.3.1"]


def recorded(version: str, name: str) -> str:
    return (FIXTURES / f"helm-{version}_{name}").read_text()


@pytest.mark.parametrize("version", VERSIONS)
def test_recorded_releases(version: str) -> None:
    assert output.parse_list(recorded(version, "list.json")) == [
        output.Listed("gpu-operator-1715330617", "gpu", "deployed", "gpu-operator", "v25.3.0")
    ]
    assert [release.status for release in output.parse_list(recorded(version, "list_failed.json"))] == ["failed"]
    assert output.parse_list(recorded(version, "list_empty.json")) == []
    assert output.parse_history(recorded(version, "history.json")) == [
        output.Revision(1, "deployed"),
        output.Revision(2, "failed"),
    ]
    release = output.parse_release(recorded(version, "get_all.txt"), recorded(version, "get_values.json"))
    assert release._replace(manifest="", deployed=0) == output.Release(
        "gpu-operator-1715330617",
        "gpu",
        1,
        "deployed",
        0,
        "gpu-operator",
        "v25.3.0",
        "v25.3.0",
        "",
        version.startswith("4"),
        {"toolkit-version": "1.15.0-ubi8"},
    )
    assert "\nkind: ClusterPolicy\n" in release.manifest
    assert release.deployed > 1_700_000_000
    assert not release.pending


@pytest.mark.parametrize("version", VERSIONS)
def test_recorded_version(version: str) -> None:
    text = recorded(version, "version.txt")
    assert output.parse_version(text, "helm") == tuple(map(int, version.split(".")))


# what helm says, what the message has
VERSION_ERRORS = [
    ("v3.2.4+g0ad800e", "/bin/helm is helm v3.2.4+g0ad800e, and 3.8.0 or newer is needed"),
    ("v2.17.0", "and 3.8.0 or newer is needed"),
    ("command not found", "it answered 'command not found', which is not a helm version"),
]


@pytest.mark.parametrize(("text", "message"), VERSION_ERRORS, ids=["3.2", "2.17", "none"])
def test_version_errors(text: str, message: str) -> None:
    assert message in message_of(output.HelmError, output.parse_version, text, "/bin/helm")


# chart as helm lists it, name, version
CHARTS = [
    ("gpu-operator-v24.3.0", "gpu-operator", "v24.3.0"),
    ("gpu-operator-25.3.0-rc.1", "gpu-operator", "25.3.0-rc.1"),
    ("gpu-operator-extras-1.2.3", "gpu-operator-extras", "1.2.3"),
    ("my-chart-1.2", "my-chart-1.2", ""),
]


@pytest.mark.parametrize(("chart", "name", "version"), CHARTS, ids=[row[0] for row in CHARTS])
def test_chart_names(chart: str, name: str, version: str) -> None:
    entry = {"name": "r", "namespace": "n", "status": "deployed", "chart": chart}
    assert output.parse_list(json.dumps([entry])) == [output.Listed("r", "n", "deployed", name, version)]


def test_last_lines_are_short_and_without_secrets() -> None:
    text = (
        "WARNING: Kubernetes configuration file is group-readable.\n" + "x\n" * 20 + "Error: token abc-secret is bad\n"
    )
    assert output.last_lines(text, ["abc-secret"]) == "x | " * 7 + "Error: token ******** is bad"
    assert output.last_lines("") == "nothing"
    lines = output.last_lines(recorded("4.3.1", "upgrade_hook.txt"))
    assert lines.startswith(
        "Error: UPGRADE FAILED: pre-upgrade hooks failed: resource Job/gpu/gpu-operator-upgrade-crd"
    )
