# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._gpu_operator import values as values_of
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._helm import chart as helm_chart
from ansible_collections.rdmaops.gpu_fabric.tests.support import charts
from ansible_collections.rdmaops.gpu_fabric.tests.support.failures import message_of

NOTHING = dict.fromkeys(values_of.SHORTCUTS)


@pytest.fixture(scope="module")
def chart(tmp_path_factory: pytest.TempPathFactory) -> helm_chart.Chart:
    return helm_chart.read(str(charts.packed(tmp_path_factory.mktemp("chart"))))


# given, unknown path, nearest known one
UNKNOWN = [
    ({"toolkit-version": "1.15.0-ubi8"}, "toolkit-version", "toolkit.version"),
    ({"driver": {"rmda": {"enabled": True}}}, "driver.rmda", "driver.rdma"),
    ({"driver": {"rdma": {"useHostMOFED": True}}}, "driver.rdma.useHostMOFED", "driver.rdma.useHostMofed"),
    ({"dcgm-exporter": {"enabled": False}}, "dcgm-exporter", "dcgmExporter"),
    ({"zzz": 1}, "zzz", ""),
    (
        {"node-feature-discovery": {"worker": {"enabled": True}}},
        "node-feature-discovery.worker.enabled",
        "node-feature-discovery.worker.enable",
    ),
]


@pytest.mark.parametrize(("given", "path", "nearest"), UNKNOWN, ids=[row[1] for row in UNKNOWN])
def test_unknown_names_the_nearest(given: dict, path: str, nearest: str, chart: helm_chart.Chart) -> None:
    assert values_of.unknown(given, chart) == [values_of.Unknown(path, nearest)]


KNOWN = [
    {},
    {"driver": {"enabled": False, "version": "570.1"}},
    {"daemonsets": {"labels": {"any": "thing"}}},  # an empty map takes anything
    {"operator": {"nodeSelector": {"a": "b"}, "resources": {"limits": {"nvidia.com/x": 1}}}},
    {"driver": {"nvidiaDriverCRD": {"nodeSelector": {"x": "y"}}}},
    {"operator": {"version": "v25.3.1"}},  # commented out in values.yaml
    {"devicePlugin": {"config": {"name": "x", "create": True}}},  # an example in a comment
    {"driver": {"kernelModuleType": "open"}},  # only the templates ask for it
    {"devicePlugin": {"nodeSelector": {"a": "b"}}},
    {"driver": {"env": [{"name": "A", "value": "b"}]}},
    {"node-feature-discovery": {"worker": {"tolerations": [{"key": "x"}]}}},
    {"driver": {"rdma": None}},
]


@pytest.mark.parametrize("given", KNOWN, ids=[str(index) for index in range(len(KNOWN))])
def test_known_values_are_no_error(given: dict, chart: helm_chart.Chart) -> None:
    assert values_of.unknown(given, chart) == []


def test_explanation(chart: helm_chart.Chart) -> None:
    found = values_of.unknown({"toolkit-version": "1", "zzz": 1}, chart)
    assert values_of.explain(found, chart) == (
        "toolkit-version is not a value of the chart gpu-operator v25.3.0 (is toolkit.version meant?); "
        "zzz is not a value of the chart gpu-operator v25.3.0"
    )


def test_shortcuts_become_values() -> None:
    given = {"driver": {"version": "570.1", "rdma": {"enabled": True}}, "other": [1]}
    params = {
        **NOTHING,
        "values": given,
        "driver_version": "570.1",
        "driver_rdma_use_host_mofed": False,
        "gdrcopy": True,
    }
    assert values_of.desired(params) == {
        "driver": {"version": "570.1", "rdma": {"enabled": True, "useHostMofed": False}},
        "other": [1],
        "gdrcopy": {"enabled": True},
    }
    assert "gdrcopy" not in given


# option, its value, values, what the message has
CONTRADICTIONS = [
    (
        "driver_version",
        "570.1",
        {"driver": {"version": "550.2"}},
        "driver_version is 570.1, and values.driver.version is 550.2",
    ),
    (
        "toolkit_enabled",
        False,
        {"toolkit": {"enabled": True}},
        "toolkit_enabled is false, and values.toolkit.enabled is true",
    ),
    (
        "mig_strategy",
        "mixed",
        {"mig": "single"},
        "mig_strategy sets the value mig.strategy, and in values mig is not a map",
    ),
]


@pytest.mark.parametrize(("option", "value", "given", "text"), CONTRADICTIONS, ids=[row[0] for row in CONTRADICTIONS])
def test_contradiction_names_both(option: str, value: object, given: dict, text: str) -> None:
    assert text in message_of(values_of.ValuesError, values_of.desired, {**NOTHING, "values": given, option: value})


def test_a_comment_in_another_section_is_not_known_everywhere(tmp_path: Path) -> None:
    place = charts.chart(tmp_path)
    (place / "values.yaml").write_text("a:\n  b: 1\n  # c:\n  #   d: 1\ne:\n  f: 1\n")
    (place / "templates" / "clusterpolicy.yaml").write_text("{{ .Values.a.g }}\n")
    for name in ("operator", "upgrade_crd", "service_monitor", "nvidiadriver"):
        (place / "templates" / f"{name}.yaml").unlink()
    chart = helm_chart.read(str(place))
    assert values_of.unknown({"a": {"b": 1, "c": {"d": 2}, "g": 3}, "e": {"f": 2}}, chart) == []
    assert [one.path for one in values_of.unknown({"e": {"c": 1}}, chart)] == ["e.c"]
