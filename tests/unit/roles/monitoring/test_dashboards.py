# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The dashboards as JSON: what Grafana needs of them, and no metric that nobody has."""

from __future__ import annotations

import re
import typing as t

import pytest

from ansible_collections.rdmaops.gpu_fabric.tests.support import COLLECTION, prometheus
from ansible_collections.rdmaops.gpu_fabric.tests.unit.roles.monitoring.made_up import (
    DCGM,
    GNMIC,
    MadeUp,
    exporter,
    pod_node,
)
from ansible_collections.rdmaops.gpu_fabric.tests.unit.roles.rdma_exporter.series import Series

ALL = prometheus.dashboards()
VARIABLE = {"type": "prometheus", "uid": "${datasource}"}

every = pytest.mark.parametrize("name", ALL)


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The names that the exporter serves of a node with all drivers and one file that cannot be read, and DCGM's."""
    made = MadeUp(tmp_path_factory.mktemp("node") / "sys")
    made.tree.device("broken", 99, netdev="rail99").breaks("ports/1/counters/symbol_error")
    served = Series(exporter(made.tree.root).scrape())
    made.close()
    others = re.findall(r"^# TYPE (\w+)", DCGM.read_text() + GNMIC.read_text(), re.M)
    recorded = re.findall(r"- record: (\S+)", (COLLECTION / "roles/monitoring/templates/rules.yml.j2").read_text())
    in_pod = Series(pod_node(lambda _name: 1))
    return {*served.types, *in_pod.types, *others, *recorded, *prometheus.OWN_NAMES}


def targets(dashboard: dict[str, t.Any]) -> list[tuple[str, dict[str, t.Any]]]:
    return [(panel["title"], target) for panel in prometheus.panels(dashboard) for target in panel.get("targets", [])]


def strings(value: t.Any) -> t.Iterator[str]:
    if isinstance(value, dict):
        for key, one in value.items():
            yield key
            yield from strings(one)
    elif isinstance(value, list):
        for one in value:
            yield from strings(one)
    elif isinstance(value, str):
        yield value


def data_sources(value: t.Any) -> t.Iterator[t.Any]:
    if isinstance(value, dict):
        if "datasource" in value:
            yield value["datasource"]
        value = list(value.values())
    if isinstance(value, list):
        for one in value:
            yield from data_sources(one)


def test_there_are_six_of_different_names() -> None:
    assert set(ALL) == {
        f"rdmaops-{name}.json" for name in ("errors", "gpu", "job", "overview", "switches", "throughput")
    }
    assert {name: f"{dashboard['uid']}.json" for name, dashboard in ALL.items()} == {name: name for name in ALL}
    assert len({dashboard["title"] for dashboard in ALL.values()}) == len(ALL)


@every
def test_what_grafana_needs(name: str) -> None:
    one = ALL[name]
    # apps/dashboard/pkg/migration/schemaversion/migrations.go of Grafana 12.
    assert one["schemaVersion"] == 42
    # An id is the database's; with one, Grafana would overwrite another dashboard.
    assert one.get("id") is None
    assert re.fullmatch(r"[a-zA-Z0-9_-]{1,40}", one["uid"])
    found = prometheus.panels(one)
    assert len({panel["id"] for panel in found}) == len(found)
    assert all(panel["title"] for panel in found)
    taken: set[tuple[int, int]] = set()
    for panel in found:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert not taken & cells, f"{panel['title']} lies on another panel"
        taken |= cells


def test_gpus_and_rdma_share_the_crosshair() -> None:
    assert ALL["rdmaops-gpu.json"]["graphTooltip"] == 1


@every
def test_the_data_source_is_a_variable_everywhere(name: str) -> None:
    one = ALL[name]
    first = one["templating"]["list"][0]
    assert (first["type"], first["name"], first["query"]) == ("datasource", "datasource", "prometheus")
    for panel in prometheus.panels(one):
        assert panel["datasource"] == VARIABLE
        assert all(target["datasource"] == VARIABLE for target in panel["targets"])
    assert all(variable["datasource"] == VARIABLE for variable in one["templating"]["list"][1:])
    assert all(found == VARIABLE for found in data_sources(one))


@every
def test_every_target_asks_for_something(name: str) -> None:
    found = targets(ALL[name])
    assert found
    for title, target in found:
        assert target["expr"].strip(), title
        assert target["instant"] != target["range"], title
    for panel in prometheus.panels(ALL[name]):
        letters = [target["refId"] for target in panel["targets"]]
        assert len(set(letters)) == len(letters), panel["title"]


@every
def test_variables_are_there_and_used(name: str) -> None:
    one = ALL[name]
    defined = {variable["name"] for variable in one["templating"]["list"]}
    used = {word for text in strings(one) for word in prometheus.used_variables(text)} - {"__all"}
    assert used - prometheus.GRAFANA_NAMES == defined


@every
def test_rates_follow_the_scrape_interval(name: str) -> None:
    for title, target in targets(ALL[name]):
        ranges = re.findall(r"\[([^]]*)\]", re.sub(r'"[^"]*"', "", target["expr"]))
        assert set(ranges) <= {"$__rate_interval"}, title


@every
def test_no_metric_that_nobody_has(name: str, known: set[str]) -> None:
    expressions = [(title, target["expr"]) for title, target in targets(ALL[name])]
    expressions += [
        (variable["name"], re.sub(r"label_values\((.*), \w+\)", r"\1", variable["definition"]))
        for variable in ALL[name]["templating"]["list"][1:]
    ]
    unknown = {(title, metric) for title, expression in expressions for metric in prometheus.names(expression) - known}
    assert not unknown


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ('sum by (node) (rate(a_total{x="b_total"}[5m])) / on (node) max(c) or 0 * d', {"a_total", "c", "d"}),
        ("e == bool 4 unless on (node, device) f{g=~\"h{2}\"}", {"e", "f"}),
        ("max_over_time((i == 4)[14d:1h]) and 1e6 * j offset 5m", {"i", "j"}),
    ],
)  # fmt: skip
def test_names_of_an_expression(expression: str, expected: set[str]) -> None:
    assert prometheus.names(expression) == expected


def test_a_wrong_name_is_found(known: set[str]) -> None:
    assert prometheus.names('rate(rdma_hw_packet_seq_errs_total{node="a"}[1m])') - known
