# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The role's rules as promtool judges them: each alert fires when it should, and when it should not it does not."""

from __future__ import annotations

import json
import re
import subprocess
import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.rdmaops.gpu_fabric.tests.integration.monitoring.cases import CASES, EXCLUSIVE, Case
from ansible_collections.rdmaops.gpu_fabric.tests.integration.monitoring.running import Place
from ansible_collections.rdmaops.gpu_fabric.tests.support import need_tool

Json = dict[str, t.Any]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """What the role writes with its defaults; promtool judges it on the way."""
    need_tool("promtool")
    place = Place(tmp_path_factory.mktemp("alerts"))
    place.configured()
    run = place.play(
        place.variables(monitoring_reload="none", monitoring_parts=["prometheus"], monitoring_switches=True)
    )
    assert run.rc == 0, run.output
    return place


@pytest.fixture(scope="module")
def rules(written: Place) -> dict[str, Json]:
    """The alerts by name."""
    groups = yaml.safe_load(written.rules.read_text())["groups"]
    return {rule["alert"]: rule for group in groups for rule in group["rules"] if "alert" in rule}


def promtool(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    argv = [need_tool("promtool"), *arguments]
    return subprocess.run(argv, capture_output=True, text=True, timeout=120, cwd=cwd, check=False)


def expected(case: Case, rule: Json) -> Json:
    """What promtool is to find: labels, and texts with the labels in them."""
    assert case.labels is not None
    labels = {**case.labels, **rule["labels"]}
    texts = {
        name: re.sub(r"\{\{ \$labels\.(\w+) \}\}", lambda match: labels.get(match[1], ""), text)
        for name, text in rule["annotations"].items()
    }
    texts.update(case.texts)
    assert "{{" not in json.dumps(texts), f"{case.alert}, {case.name}: say what the text is"
    return {"exp_labels": labels, "exp_annotations": texts}


def as_promtool_takes(cases: t.Iterable[Case], rules: t.Mapping[str, Json], file: str) -> Json:
    """Return a file of tests as promtool takes it."""
    return {
        "rule_files": [file],
        "evaluation_interval": "1m",
        "tests": [
            {
                "name": f"{case.alert}: {case.name}",
                "interval": "1m",
                "input_series": [{"series": name, "values": values} for name, values in case.series.items()],
                "alert_rule_test": [
                    {
                        "alertname": case.alert,
                        "eval_time": f"{case.minute}m",
                        "exp_alerts": [] if case.labels is None else [expected(case, rules[case.alert])],
                    }
                ],
            }
            for case in cases
        ],
    }


def test_all_of_it_passes_promtool(written: Place) -> None:
    done = promtool("check", "config", str(written.config))
    assert done.returncode == 0, done.stdout + done.stderr
    assert str(written.rules) in done.stdout
    for kind, file in (("rules", written.rules), ("config", written.scrape)):
        done = promtool("check", kind, str(file))
        assert done.returncode == 0, done.stdout + done.stderr
    assert "19 rules found" in promtool("check", "rules", str(written.rules)).stdout


def test_every_alert_has_a_case_in_which_it_fires_and_one_in_which_it_does_not(rules: dict[str, Json]) -> None:
    assert {case.alert for case in CASES if case.labels is not None} == set(rules)
    assert {case.alert for case in CASES if case.labels is None} == set(rules)


def test_every_alert_says_what_it_is_about_and_what_unblocks_it(rules: dict[str, Json]) -> None:
    for name, rule in rules.items():
        assert rule["labels"]["severity"] in ("critical", "warning"), name
        assert set(rule["annotations"]) == {"summary", "description", "runbook"}, name
        assert all(text.strip() for text in rule["annotations"].values()), name
        # What is counted over a window lasts.
        assert rule.get("for") in (("5m", "15m") if "[1h]" not in rule["expr"] else (None,)), name


def test_alerts_fire_when_they_should_and_only_then(written: Place, rules: dict[str, Json]) -> None:
    file = written.root / "cases.json"
    file.write_text(json.dumps(as_promtool_takes(CASES, rules, str(written.rules))))
    done = promtool("test", "rules", str(file))
    assert done.returncode == 0, done.stdout + done.stderr


def test_promtool_does_find_an_alert_that_does_not_fire(written: Place, rules: dict[str, Json]) -> None:
    labels, texts = {"node": "gpu-1", "mode": "x"}, {"description": ""}
    case = Case("RdmaNetnsModeWrong", "wrong on purpose", {EXCLUSIVE: "1x30"}, 20, labels, texts)
    file = written.root / "wrong.json"
    file.write_text(json.dumps(as_promtool_takes([case], rules, str(written.rules))))
    done = promtool("test", "rules", str(file))
    assert done.returncode == 1
    assert "RdmaNetnsModeWrong" in done.stdout + done.stderr
