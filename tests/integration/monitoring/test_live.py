# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A Prometheus that really scrapes the exporter and what DCGM's exporter prints, and every query of every dashboard."""

from __future__ import annotations

import shutil
import typing as t

import pytest

from ansible_collections.rdmaops.gpu_fabric.tests.integration.monitoring.running import Site, site
from ansible_collections.rdmaops.gpu_fabric.tests.support import need_tool, prometheus

ALL = prometheus.dashboards()
# Scraped each second; Grafana takes four intervals at least.
GRAFANA = {"__rate_interval": "10s", "__interval": "1s", "__range": "1h"}


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[Site]:
    """Traffic runs, a device is taken out while it is looked at, and a file of another cannot be read."""
    need_tool("prometheus")
    need_tool("promtool")
    quick: dict[str, t.Any] = {"monitoring_for": "1s", "monitoring_unreadable_for": "1s"}
    with site(tmp_path_factory.mktemp("site"), **quick) as running:
        running.server.until('rdma_device_present{device="mlx5_1"} == 1')
        shutil.rmtree(running.made.tree.root / "class/infiniband/mlx5_1")
        card = running.made.tree.device("mlx5_5", 50, netdev="rail50")
        card.breaks("ports/1/counters/symbol_error")
        # An InfiniBand port: those of Ethernet may be down while they wait for a pod.
        card.write("ports/1/link_layer", "InfiniBand")
        running.server.until('rate(rdma_port_receive_bytes_total{device="mlx5_0", node="gpu-2"}[10s]) > 0')
        yield running


def asked(live: Site, dashboard: t.Mapping[str, t.Any]) -> dict[str, str]:
    """Give each variable the values that Grafana would offer, all of them chosen."""
    values = dict(GRAFANA)
    for variable in dashboard["templating"]["list"][1:]:
        definition = prometheus.substituted(variable["definition"], values)
        result = live.server.label_values(definition, variable["regex"])
        assert result, variable["name"]
        values[variable["name"]] = f"({'|'.join(result)})" if variable["multi"] else result[0]
    return values


def test_the_role_has_asked_the_prometheus_that_it_set_up(live: Site) -> None:
    live.server.until("count(up == 1) == 5")
    assert live.server.reloads() == 1
    assert "Check that Prometheus has loaded them" in live.run.output
    # One gNMIc, and four exporters.
    assert live.run.result("Report the targets that do not answer").get("skipped")
    targets = live.server.get("/api/v1/targets", state="active")["activeTargets"]
    assert {(target["labels"]["job"], target["labels"].get("node"), target["health"]) for target in targets} == {
        *((job, node, "up") for job in ("rdma_exporter", "dcgm_exporter") for node in ("gpu-1", "gpu-2")),
        ("switch_telemetry", None, "up"),
    }


def test_a_device_that_was_taken_out_is_missing(live: Site) -> None:
    live.server.until('rdma_device_present{node="gpu-1", device="mlx5_1"} == 0')
    result = live.server.query("rdma_device_present == 0")
    # mlx5_9 is expected and was never there.
    assert {(row["metric"]["node"], row["metric"]["device"]) for row in result} == {
        ("gpu-1", "mlx5_1"),
        ("gpu-1", "mlx5_9"),
    }
    assert not live.server.query('rdma_port_state_id{device="mlx5_1"}')
    live.server.until('ALERTS{alertname="RdmaDeviceMissing", device="mlx5_1", alertstate="firing"}')


def test_what_cannot_be_read_is_an_error_and_no_number(live: Site) -> None:
    (row,) = live.server.until('rdma_unreadable{device="mlx5_5"}')
    assert (row["metric"]["what"], row["metric"]["error"]) == ("counters/symbol_error", "EISDIR")
    assert not live.server.query('rdma_port_symbol_error_total{device="mlx5_5"}')
    live.server.until('ALERTS{alertname="RdmaUnreadable", device="mlx5_5", alertstate="firing"}')


@pytest.mark.parametrize("name", ALL)
def test_every_query_of_a_dashboard_has_an_answer(live: Site, name: str) -> None:
    live.server.until('rdma_device_present{node="gpu-1", device="mlx5_1"} == 0')
    live.server.until('rdma_unreadable{device="mlx5_5"}')
    live.server.until('ALERTS{alertname="RdmaDeviceMissing"}')
    values = asked(live, ALL[name])
    number = 0
    for panel in prometheus.panels(ALL[name]):
        for target in panel["targets"]:
            expression = prometheus.substituted(target["expr"], values)
            number += 1
            # A rate needs two scrapes of a series.
            assert live.server.until(expression), panel["title"]
    assert number >= len(ALL[name]["panels"])


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("rdmaops-throughput.json", "Received by device"),
        ("rdmaops-throughput.json", "Sent by pod"),
        ("rdmaops-throughput.json", "Sent, of the link's rate"),
        ("rdmaops-throughput.json", "Packets sent"),
        ("rdmaops-errors.json", "Retransmissions and timeouts, at the sender"),
        ("rdmaops-gpu.json", "GPU use"),
        ("rdmaops-job.json", "RDMA sent"),
        ("rdmaops-job.json", "Received by the switch from the job"),
    ],
)
def test_what_is_busy_shows(live: Site, name: str, title: str) -> None:
    (panel,) = [panel for panel in prometheus.panels(ALL[name]) if panel["title"] == title]
    values = asked(live, ALL[name])
    for target in panel["targets"]:
        expression = prometheus.substituted(target["expr"], values)
        assert live.server.until(f"({expression}) > 0")


def test_the_begin_of_a_job_is_marked(live: Site) -> None:
    dashboard = ALL["rdmaops-job.json"]
    values = asked(live, dashboard)
    assert (values["namespace"], values["job"]) == ("ml", "train")
    begin, end = (prometheus.substituted(mark["expr"], values) for mark in dashboard["annotations"]["list"])
    assert live.server.range(begin, 600, 1)
    assert not live.server.range(end, 600, 1)


def test_a_share_of_the_links_rate_is_no_more_than_all_of_it(live: Site) -> None:
    (panel,) = [
        panel
        for panel in prometheus.panels(ALL["rdmaops-throughput.json"])
        if panel["title"] == "Received, of the link's rate"
    ]
    expression = prometheus.substituted(panel["targets"][0]["expr"], asked(live, ALL["rdmaops-throughput.json"]))
    shares = {row["metric"]["device"]: float(row["value"][1]) for row in live.server.until(expression)}
    # 16 GB/s of 50 GB/s, on made-up files.
    assert 0.1 < shares["mlx5_0"] < 1


def test_alerts_say_it_in_words(live: Site) -> None:
    """promtool's tests have the texts; here no template has failed on real labels."""
    live.server.until('ALERTS{alertname="RdmaUnreadable", alertstate="firing"}')
    alerts = live.server.get("/api/v1/alerts")["alerts"]
    texts = [text for alert in alerts for text in alert["annotations"].values()]
    assert texts
    assert not [text for text in texts if "<error" in text or "<no value>" in text]
