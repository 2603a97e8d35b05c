# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The role on this machine, with files: check, do, do again, check again, and away; and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from ansible_collections.rdmaops.gpu_fabric.tests.integration.monitoring.running import GNMIC_HOST, NODES, Place
from ansible_collections.rdmaops.gpu_fabric.tests.support import need_tool, prometheus


@pytest.fixture
def place(tmp_path: Path) -> Place:
    need_tool("promtool")
    made = Place(tmp_path)
    made.configured()
    return made


def written(place: Place) -> set[str]:
    own = {"hosts.json", "variables.json", "book.json", "prometheus.yml", "prometheus.log"}
    names = {str(path.relative_to(place.root)) for path in place.root.rglob("*") if path.is_file()}
    return {name for name in names - own if not name.startswith("data/")}


@pytest.mark.long
def test_the_drill(place: Place) -> None:
    with prometheus.running(place.root, place.config) as server:
        by_signal = {
            "monitoring_reload": "signal",
            # No other Prometheus of this machine.
            "monitoring_prometheus_process": f"^[^ ]*prometheus .*--web.listen-address=127.0.0.1:{server.port} ",
            "monitoring_prometheus_url": server.url,
        }
        given = place.variables(**by_signal)
        planned = place.play(given, check=True, gnmic=GNMIC_HOST)
        assert (planned.rc, planned.changed() > 0) == (0, True), planned.output
        assert written(place) == set()
        assert server.reloads() == 0

        done = place.play(given, given, gnmic=GNMIC_HOST)
        assert done.rc == 0, done.output
        # Both runs have told what they did; the second has done nothing.
        assert [result["changed"] for result in done.results("or remove them")] == [True, False]
        first, second = done.results("Write the dashboards")
        assert len(first["results"]) == len(prometheus.dashboards())
        assert second.get("results", []) == []
        assert server.reloads() == 1
        assert written(place) == {
            "rules/rdmaops-gpu_fabric.yml",
            "scrape/rdmaops-gpu_fabric.yml",
            "targets/rdma_exporter.yml",
            "targets/dcgm_exporter.yml",
            "targets/switch_telemetry.yml",
            "provisioning/dashboards/rdmaops-gpu_fabric.yml",
            *(f"dashboards/{name}" for name in prometheus.dashboards()),
        }
        targets = yaml.safe_load((place.root / "targets/rdma_exporter.yml").read_text())
        expected = {node: f"{address}:9879" for node, address in NODES.items()}
        assert targets == [{"targets": [target], "labels": {"node": node}} for node, target in expected.items()]
        (provider,) = yaml.safe_load(place.provider.read_text())["providers"]
        assert provider["options"]["path"] == str(place.dashboards)

        again = place.play(given, check=True, gnmic=GNMIC_HOST)
        assert (again.rc, again.changed()) == (0, 0), again.output
        assert all(place.dashboards.joinpath(name).stat().st_mode & 0o777 == 0o644 for name in prometheus.dashboards())

        gone = place.variables(monitoring_state="absent", **by_signal)
        away = place.play(gone, gnmic=GNMIC_HOST)
        assert away.rc == 0, away.output
        assert written(place) == set()
        assert server.reloads() == 2


@pytest.mark.long
def test_a_run_that_was_stopped_before_the_reload_is_finished_by_the_next(place: Place) -> None:
    with prometheus.running(place.root, place.config) as server:
        given = place.variables(
            monitoring_parts=["prometheus"], monitoring_prometheus_url=server.url, monitoring_reload="none"
        )
        assert place.play(given).rc == 0
        assert server.reloads() == 0
        run = place.play({**given, "monitoring_reload": "http"}, {**given, "monitoring_reload": "http"})
        assert run.rc == 0, run.output
        assert run.changed() == 1
        assert server.reloads() == 1
    # No exporter runs.
    silent = run.result("Report the targets that do not answer")["msg"]
    assert silent.startswith("Prometheus cannot scrape 4 of 4 targets: ")
    assert "dcgm_exporter of gpu-1 (" in silent
    assert "connection refused" in silent
    assert silent.endswith("which the role gpu_operator sets by itself if the group monitoring has a host.")


@pytest.mark.long
def test_a_prometheus_that_does_not_read_the_files_is_noticed(place: Place) -> None:
    place.config.write_text(json.dumps({"global": {"scrape_interval": "1s"}}))
    with prometheus.running(place.root, place.config) as server:
        given = {"monitoring_parts": ["prometheus"], "monitoring_reload": "http", "monitoring_wait": 2}
        run = place.play(place.variables(monitoring_prometheus_url=server.url, **given))
    assert run.rc == 2, run.output
    assert f"Prometheus at {server.url} has not loaded all rules of {place.rules} and the jobs" in run.messages()
    assert f"In {place.config}, rule_files needs {place.rules.parent}/*.yml" in run.messages()


def test_what_is_refused_is_refused_before_anything_is_written(place: Place) -> None:
    run = place.play(place.variables(monitoring_for="5 minutes", monitoring_reload="none"))
    assert run.rc == 2, run.output
    assert "Validating rules and scrape jobs for here: promtool rejects the rules:" in run.messages()
    assert "not a valid duration string" in run.messages()
    assert written(place) == set()


@pytest.mark.long
def test_dashboards_that_were_edited_or_are_of_another_release(place: Place) -> None:
    given = place.variables(monitoring_parts=["grafana"])
    assert place.play(given, gnmic=GNMIC_HOST).rc == 0
    overview = place.dashboards / "rdmaops-overview.json"
    whole = overview.read_bytes()
    overview.write_bytes(whole[:-10])
    (place.dashboards / "rdmaops-old.json").write_text("{}")
    run = place.play(given, given, gnmic=GNMIC_HOST)
    assert (run.rc, run.changed()) == (0, 2), run.output
    assert overview.read_bytes() == whole
    assert {path.name for path in place.dashboards.iterdir()} == set(prometheus.dashboards())


@pytest.mark.long
def test_no_prometheus_to_signal(place: Place) -> None:
    given = {"monitoring_parts": ["prometheus"], "monitoring_reload": "signal", "monitoring_wait": 0}
    run = place.play(place.variables(monitoring_prometheus_process="^nobody-has-this-name ", **given))
    assert run.rc == 2, run.output
    assert "no process's command line matches ^nobody-has-this-name" in run.messages()


@pytest.mark.long
def test_gnmic_is_scraped_where_the_inventory_has_it(place: Place) -> None:
    given = place.variables(monitoring_reload="none", monitoring_parts=["prometheus"])
    targets = place.root / "targets/switch_telemetry.yml"
    assert place.play(given, gnmic="192.0.2.21").rc == 0
    assert yaml.safe_load(targets.read_text()) == [{"targets": ["192.0.2.21:9804"], "labels": {}}]
    jobs = [job["job_name"] for job in yaml.safe_load(place.scrape.read_text())["scrape_configs"]]
    assert jobs == ["rdma_exporter", "dcgm_exporter", "switch_telemetry"]
    assert "SwitchSilent" in place.rules.read_text()
    assert place.play(given).rc == 0
    assert not targets.exists()
    assert "switch_telemetry" not in place.scrape.read_text() + place.rules.read_text()


@pytest.mark.long
def test_nodes_of_two_modes_have_an_alert_each(place: Place) -> None:
    """The inventory says which mode a node is to be in."""
    given = place.variables(monitoring_reload="none", monitoring_parts=["prometheus"])
    run = place.play(given, modes={"gpu-1": "shared"})
    assert run.rc == 0, run.output
    groups = yaml.safe_load(place.rules.read_text())["groups"]
    (rule,) = [rule for group in groups for rule in group["rules"] if rule.get("alert") == "RdmaNetnsModeWrong"]
    assert rule["expr"].split("\n") == [
        'rdma_netns_mode{mode="shared", node=~"gpu\\\\-1"} == 0',
        'or rdma_netns_mode{mode="exclusive", node=~"gpu\\\\-2"} == 0',
        "",
    ]
