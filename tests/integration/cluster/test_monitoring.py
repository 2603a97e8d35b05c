# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Monitoring as objects of Prometheus' operator, on a real API server: check, do, do again, check again, and away."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.rdmaops.gpu_fabric.tests.integration.monitoring.running import Place
from ansible_collections.rdmaops.gpu_fabric.tests.support import operators, prometheus
from ansible_collections.rdmaops.gpu_fabric.tests.support.cluster import Cluster, cluster
from ansible_collections.rdmaops.gpu_fabric.tests.support.site import Run

OWNER = "rdmaops.gpu-fabric/owner"
OBJECTS = "in the cluster"
GNMIC = "192.0.2.21"


@pytest.fixture(scope="module")
def plane() -> Cluster:
    plane = cluster()
    operators.install(plane, "prometheus-operator")
    return plane


def variables(place: Place, plane: Cluster, namespace: str, **more: t.Any) -> dict[str, t.Any]:
    return place.variables(
        monitoring_method="operator",
        monitoring_api_host="here",
        monitoring_kubeconfig=str(plane.kubeconfig),
        monitoring_namespace=namespace,
        monitoring_rdma_exporter_namespace=namespace,
        monitoring_object_labels={"release": "kube-prometheus-stack"},
        monitoring_rdma_exporter_scrape={"scheme": "https", "tlsConfig": {"insecureSkipVerify": True}},
        **more,
    )


def steps(run: Run) -> list[bool]:
    """Whether each call to the API server has changed, or would have, what there is."""
    assert run.rc == 0, run.output
    return [result["changed"] for name, _host, result in run.tasks if name.endswith(OBJECTS)]


def objects(plane: Cluster, namespace: str) -> dict[tuple[str, str], t.Any]:
    kinds = "services,servicemonitors,scrapeconfigs,prometheusrules,configmaps"
    items = plane.json("get", kinds, "-n", namespace, "-l", OWNER)["items"]
    return {(item["kind"], item["metadata"]["name"]): item for item in items}


def test_the_drill(plane: Cluster, tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.configured()
    files = place.variables(monitoring_parts=["prometheus"], monitoring_reload="none")
    with plane.namespace() as namespace:
        options = variables(place, plane, namespace)
        assert steps(place.play(options, check=True, gnmic=GNMIC)) == [True, True]
        assert objects(plane, namespace) == {}
        # Rules and jobs, then dashboards, and both once more.
        assert steps(place.play(options, options, files, gnmic=GNMIC)) == [True, True, False, False]
        assert steps(place.play(options, check=True, gnmic=GNMIC)) == [False, False]
        looked_at(plane, namespace)
        # promtool judges the files.
        rules = objects(plane, namespace)["PrometheusRule", "rdmaops-gpu-fabric"]["spec"]
        assert rules == yaml.safe_load(place.rules.read_text())
        bare = variables(place, plane, namespace, monitoring_dcgm=False, monitoring_parts=["prometheus"])
        gone = {**options, "monitoring_state": "absent"}
        assert steps(place.play(bare, gone, gone)) == [True, True, True, False, False]
        assert objects(plane, namespace) == {}


def looked_at(plane: Cluster, namespace: str) -> None:
    """What the API server has taken, unknown fields refused."""
    result = objects(plane, namespace)
    names = [name.removesuffix(".json") for name in prometheus.dashboards()]
    assert set(result) == {
        ("Service", "rdma-exporter"),
        ("ServiceMonitor", "rdma-exporter"),
        ("ServiceMonitor", "dcgm-exporter"),
        ("ScrapeConfig", "switch-telemetry"),
        ("PrometheusRule", "rdmaops-gpu-fabric"),
        *(("ConfigMap", name) for name in names),
    }
    owners = {item["kind"]: item["metadata"]["labels"][OWNER] for item in result.values()}
    assert owners == {
        "Service": f"monitoring.{namespace}",
        "ServiceMonitor": f"monitoring.{namespace}",
        "ScrapeConfig": f"monitoring.{namespace}",
        "PrometheusRule": f"monitoring.{namespace}",
        "ConfigMap": f"monitoring-dashboards.{namespace}",
    }
    service = result["Service", "rdma-exporter"]
    monitor = result["ServiceMonitor", "rdma-exporter"]
    # The pods of the role rdma_exporter have this label and this port.
    assert service["spec"]["selector"] == {"app.kubernetes.io/name": "rdma-exporter"}
    assert [port["targetPort"] for port in service["spec"]["ports"]] == ["metrics"]
    assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    (endpoint,) = monitor["spec"]["endpoints"]
    assert (endpoint["port"], endpoint["scheme"]) == (service["spec"]["ports"][0]["name"], "https")
    assert {relabeling.get("targetLabel") for relabeling in endpoint["relabelings"]} == {"node", "job", None}
    scrape = result["ScrapeConfig", "switch-telemetry"]["spec"]
    assert scrape["staticConfigs"] == [{"targets": [f"{GNMIC}:9804"]}]
    assert scrape["relabelings"] == [{"action": "replace", "targetLabel": "job", "replacement": "switch_telemetry"}]
    for kind in ("ServiceMonitor", "ScrapeConfig", "PrometheusRule", "ConfigMap"):
        assert all(
            item["metadata"]["labels"]["release"] == "kube-prometheus-stack"
            for (item_kind, _name), item in result.items()
            if item_kind == kind
        )
    for file, dashboard in prometheus.dashboards().items():
        item = result["ConfigMap", file.removesuffix(".json")]
        assert item["metadata"]["labels"]["grafana_dashboard"] == "1"
        assert json.loads(item["data"][file]) == dashboard
