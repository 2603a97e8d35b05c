# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The action fabric_verdict: files, check mode, and when the task fails."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest
import yaml
from ansible import constants
from ansible.errors import AnsibleActionFail, AnsibleError

from ansible_collections.rdmaops.gpu_fabric.plugins.action import fabric_verdict as plugin
from ansible_collections.rdmaops.gpu_fabric.plugins.modules import fabric_verdict as documentation
from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._fabric.table import table
from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._fabric.verdict import judge
from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._fabric.vocabulary import WANTED
from ansible_collections.rdmaops.gpu_fabric.tests.support import COLLECTION
from ansible_collections.rdmaops.gpu_fabric.tests.support.actions import run_action
from ansible_collections.rdmaops.gpu_fabric.tests.support.failures import message_of
from ansible_collections.rdmaops.gpu_fabric.tests.unit.plugins.plugin_utils._fabric.fabrics import many, worn

Json = t.Any


def arguments(**more: Json) -> Json:
    """Of two nodes on which all is well."""
    rail = {"rail": 0, "device": "mlx5_0", "state": "ACTIVE", "rate_gbps": 400.0}
    given = {
        "nodes": {name: {"reachable": True, "rails": [dict(rail)]} for name in ("a", "b")},
        "results": [
            {"client": "a", "server": "b", "rail": 0, "test": "rping", "ok": True, "pings": 10},
            {"client": "a", "server": "b", "rail": 0, "test": "ib_write_bw", "ok": True, "gbps": 388.0},
        ],
        "pairs": [["a", "b"]],
        "rails": [0],
        "tests": ["rping", "ib_write_bw"],
        "started": "2026-11-21T12:00:00Z",
    }
    return {**given, **more}


def bad(**more: Json) -> Json:
    given = arguments(**more)
    given["results"][1]["gbps"] = 12.1
    return given


def unknown(**more: Json) -> Json:
    given = arguments(**more)
    given["results"].pop()
    return given


class Shown:
    """What the action showed on the terminal."""

    def __init__(self) -> None:
        self.parts: list[tuple[str, str | None]] = []

    def display(self, text: str, color: str | None, stderr: bool) -> None:
        assert not stderr
        self.parts.append((text, color))

    @property
    def text(self) -> str:
        return "".join(text for text, _color in self.parts)


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> Shown:
    display = Shown()
    monkeypatch.setattr(plugin, "display", display)
    return display


def act(given: Json, directory: Path, check_mode: bool = False, no_log: bool = False) -> Json:
    return run_action(plugin, given, directory, check_mode=check_mode, no_log=no_log)


WORST = (
    "rail 0: the only measured pair fails between a and b: with two nodes it is not known which end it is, "
    "or the rail itself (its switch) (ib_write_bw 12.1 of 400 Gb/s, 3.0%, limit 80%)"
)
WHOLE = "For all of it, set html_path (fabric_check_report_html)"


def test_a_pass(tmp_path: Path, shown: Shown) -> None:
    done = act(arguments(), tmp_path)
    assert (done["failed"], done["changed"], done["files"], done["verdict"]) == (False, False, [], "pass")
    assert done["msg"] == "Fabric check: PASS"
    assert done["report"]["verdict"] == "pass"
    assert shown.text == table(done["report"])
    assert shown.parts[0] == ("Fabric check: PASS\n", constants.COLOR_OK)
    assert list(tmp_path.iterdir()) == []


# arguments, fail_on, failed
FAILING = [
    (bad, ["fail", "unknown"], True),
    (bad, None, True),
    (bad, ["fail"], True),
    (bad, ["unknown"], False),
    (bad, [], False),
    (unknown, ["fail", "unknown"], True),
    (unknown, None, True),
    (unknown, ["unknown"], True),
    (unknown, ["fail"], False),
    (arguments, ["fail", "unknown"], False),
]


@pytest.mark.parametrize(("given", "fail_on", "failed"), FAILING)
def test_when_it_fails(given: t.Callable[..., Json], fail_on: Json, failed: bool, tmp_path: Path, shown: Shown) -> None:
    done = act(given(**({} if fail_on is None else {"fail_on": fail_on})), tmp_path)
    assert done["failed"] is failed
    if given is bad:
        assert done["msg"] == f"Fabric check: FAIL, 1 reason: {WORST}. {WHOLE}"
        assert shown.parts[0] == ("Fabric check: FAIL\n", constants.COLOR_ERROR)
    # Ansible prints what a failed task returns.
    assert ("report" in done) is not failed


@pytest.mark.parametrize(
    ("results", "check_mode", "why"),
    [
        ([], True, "nothing is measured in check mode"),
        ([], False, "no result came back"),
        # They are from elsewhere: one of them is missing there.
        (arguments()["results"][:1], True, "no result came back"),
    ],
)
def test_why_nothing_was_measured(results: Json, check_mode: bool, why: str, tmp_path: Path, shown: Shown) -> None:
    tests = ["rping", "ib_write_bw", "nccl_tests"]
    nodes = {name: {**node, "pod": "ml/" + name, "gpus": 8} for name, node in arguments()["nodes"].items()}
    done = act(arguments(results=results, tests=tests, nodes=nodes, fail_on=[]), tmp_path, check_mode)
    assert done["verdict"] == "unknown"
    missing = [pair["error"] for pair in done["report"]["pairs"] if pair["verdict"] == "unknown"]
    assert missing == [why] * (2 - len(results))
    assert done["report"]["nccl"]["error"] == why
    assert "unknown, " + why in shown.text


def test_files_the_four_steps(tmp_path: Path, shown: Shown) -> None:
    given = bad(json_path="made/r.json", html_path=str(tmp_path / "made" / "deep" / "r.html"), fail_on=[])
    files = [str(tmp_path / "made" / "r.json"), str(tmp_path / "made" / "deep" / "r.html")]
    before = act(given, tmp_path, check_mode=True)
    assert (before["changed"], before["files"], before["failed"]) == (True, files, False)
    assert list(tmp_path.iterdir()) == []
    done = act(given, tmp_path)
    assert (done["changed"], done["files"], done["report"]) == (True, files, before["report"])
    assert json.loads(Path(files[0]).read_text()) == done["report"]
    assert "Fabric check: <span" in Path(files[1]).read_text()
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["deep", "made", "r.html", "r.json"]
    for check_mode in (False, True):
        again = act(given, tmp_path, check_mode)
        assert (again["changed"], again["files"]) == (False, [])
    other = act({**given, "started": "later"}, tmp_path)
    assert (other["changed"], other["files"]) == (True, files)


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o027, 0o640), (0o077, 0o600)])
def test_who_may_read_the_files_is_up_to_the_umask(tmp_path: Path, shown: Shown, umask: int, mode: int) -> None:
    former = os.umask(umask)
    try:
        done = act(bad(json_path="r.json", html_path="r.html", fail_on=[]), tmp_path)
        assert os.umask(umask) == umask
    finally:
        os.umask(former)
    assert [stat.S_IMODE(Path(file).stat().st_mode) for file in done["files"]] == [mode, mode]


def test_a_file_is_written_before_the_task_fails(tmp_path: Path, shown: Shown) -> None:
    done = act(bad(json_path="r.json"), tmp_path)
    assert (done["failed"], done["changed"]) == (True, True)
    assert json.loads((tmp_path / "r.json").read_text())["verdict"] == "fail"


def test_a_file_that_cannot_be_written(tmp_path: Path, shown: Shown) -> None:
    (tmp_path / "file").write_text("")
    done = act(bad(json_path="file/r.json", html_path="r.html", fail_on=[]), tmp_path)
    path = tmp_path / "file" / "r.json"
    assert done["msg"].startswith(f"Could not write the report: Writing {path}: ")
    assert done["msg"].endswith(f". Fabric check: FAIL, 1 reason: {WORST}. All of it: {tmp_path}/r.html")
    assert (done["failed"], done["changed"], done["files"]) == (True, True, [str(tmp_path / "r.html")])
    done = act(arguments(html_path=str(tmp_path)), tmp_path)
    assert done["failed"] is True
    assert done["msg"].endswith(". Fabric check: PASS")


def test_a_report_that_is_not_readable_text_is_written_anew(tmp_path: Path, shown: Shown) -> None:
    (tmp_path / "r.json").write_bytes(b"\xff\xfe")
    assert act(arguments(json_path="r.json"), tmp_path)["changed"] is True


def test_no_log_shows_nothing(tmp_path: Path, shown: Shown) -> None:
    assert act(arguments(), tmp_path, no_log=True)["verdict"] == "pass"
    assert shown.text == ""


def test_the_present_time_where_none_is_given(tmp_path: Path, shown: Shown) -> None:
    given = arguments()
    del given["started"]
    assert re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ", act(given, tmp_path)["report"]["started"])


# change, part of the message
REFUSED: list[tuple[Json, str]] = [
    ({"min_share": 2}, "Could not judge the fabric: min_share must be a number above 0 and up to 1"),
    ({"pairs": [["a", "z"]]}, "Could not judge the fabric: wanted.pairs has 'z', which is not in nodes"),
    ({"results": [{}]}, "the client of a result must be the name of a node, not None"),
    ({"tests": ["ping"]}, "value of tests must be one or more of: rping, ib_send_lat, ib_write_bw"),
    ({"fail_on": ["pass"]}, "value of fail_on must be one or more of: fail, unknown. Got no match for: pass"),
    ({"nodes": 5}, "'nodes' is of type"),
    ({"rail": [0]}, "Unsupported parameters"),
    ({"pairs": None}, "pairs"),
]


@pytest.mark.parametrize(("change", "message"), REFUSED)
def test_what_is_refused(change: Json, message: str, tmp_path: Path, shown: Shown) -> None:
    error = message_of((AnsibleActionFail, AnsibleError), act, arguments(json_path="r.json", **change), tmp_path)
    assert message in error
    assert list(tmp_path.iterdir()) == []


def test_the_documentation_has_the_arguments() -> None:
    options = yaml.safe_load(documentation.DOCUMENTATION)["options"]
    keys = ("type", "elements", "choices", "default", "required")
    described = {name: {key: option[key] for key in keys if key in option} for name, option in options.items()}
    assert described == documentation.ARGUMENT_SPEC
    assert documentation.ARGUMENT_SPEC["tests"]["choices"] == list(WANTED)
    returned = yaml.safe_load(documentation.RETURN)
    report = judge(*(arguments()[key] for key in ("nodes", "results")), {k: arguments()[k] for k in ("pairs", "rails", "tests")}, 0.8, "")  # fmt: skip
    assert set(returned["report"]["contains"]) == set(report)
    assert set(returned["report"]["contains"]["pairs"]["contains"]) == set(report["pairs"][0])


# --- in Ansible ---------------------------------------------------------------------------------------------------


def play(directory: Path, given: Json, *options: str) -> subprocess.CompletedProcess[str]:
    tasks = [
        {"name": "Judge", "rdmaops.gpu_fabric.fabric_verdict": {**given, "nodes": "{{ seen }}"}, "register": "judged"},
        {"ansible.builtin.debug": {"msg": "CHANGED={{ judged.changed }} VERDICT={{ judged.report.verdict }}"}},
    ]
    # The host has no connection that works: the action needs none.
    variables = {"seen": given["nodes"], "ansible_connection": "ssh", "ansible_host": "host.invalid"}
    play = {"hosts": "nowhere", "gather_facts": False, "vars": variables, "tasks": tasks}
    (directory / "play.yml").write_text(json.dumps([play]))
    return ansible(directory, *options)


def ansible(directory: Path, *options: str) -> subprocess.CompletedProcess[str]:
    argv = [str(Path(sys.prefix) / "bin" / "ansible-playbook"), "-i", "nowhere,", *options, "play.yml"]
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(directory), "ANSIBLE_NOCOLOR": "1", "LC_ALL": "C.UTF-8"}
    return subprocess.run(argv, capture_output=True, text=True, timeout=120, env=environment, cwd=directory)


def test_in_a_playbook(tmp_path: Path) -> None:
    given = arguments(json_path="out/r.json", html_path="out/r.html")
    for options, changed, files in (
        (["--check"], True, []),
        ([], True, ["r.html", "r.json"]),
        ([], False, ["r.html", "r.json"]),
    ):
        done = play(tmp_path, given, *options)
        assert done.returncode == 0, done.stdout + done.stderr
        assert f"CHANGED={changed} VERDICT=pass" in done.stdout
        why = "not proven: whether there are GPUs is not known on a, b"
        assert (
            why + "\n\nRail 0, rping: 1 pass\nRail 0, ib_write_bw: 1 pass, 388.0 Gb/s, 97.0% of the link's rate\n"
            in done.stdout
        )
        assert sorted(path.name for path in (tmp_path / "out").glob("*")) == files
    assert json.loads((tmp_path / "out" / "r.json").read_text())["pairs"][1]["share"] == 0.97


def test_in_a_playbook_that_fails(tmp_path: Path) -> None:
    done = play(tmp_path, bad(json_path="r.json"))
    assert done.returncode == 2, done.stdout + done.stderr
    assert "Fabric check: FAIL" in done.stdout
    assert "FAIL, 1 reason: rail 0: the only measured pair fails between a and b" in done.stdout
    assert "CHANGED" not in done.stdout
    assert json.loads((tmp_path / "r.json").read_text())["verdict"] == "fail"


def test_role_fabric_check_ends_with_a_screen_and_keeps_the_report(tmp_path: Path) -> None:
    fabric = worn(many(64, 8))
    tasks = yaml.safe_load((COLLECTION / "roles/fabric_check/tasks/main.yml").read_text())[-3:]
    names = ["Give the verdict", "Set the condition of the nodes", "Fail if the verdict requires it"]
    assert [task["name"] for task in tasks] == names
    kept = "REASONS={{ fabric_check_verdict.report.reasons | length }}"
    plays = [
        {"hosts": "nowhere", "gather_facts": False, "tasks": [{"block": tasks, "rescue": [{"debug": {"msg": kept}}]}]}
    ]
    variables = {
        "__fabric_check_actors": ["nowhere"],
        "__fabric_check_hosts": ["nowhere"],
        "__fabric_check_nodes": fabric.nodes,
        "__fabric_check_rounds": [[{"client": client, "server": server} for client, server in fabric.wanted["pairs"]]],
        "__fabric_check_results": fabric.results,
        "__fabric_check_started": "2026-11-21T12:00:00Z",
        "__fabric_check_late": False,
        "fabric_check_tests": ["rping", "ib_write_bw"],
        "fabric_check_report_json": "",
        "fabric_check_report_html": str(tmp_path / "r.html"),
        "fabric_check_fail_on": ["fail"],
    }
    (tmp_path / "variables.json").write_text(json.dumps(variables))
    (tmp_path / "play.yml").write_text(json.dumps(plays))
    own = [f"@{COLLECTION}/roles/fabric_check/{part}/main.yml" for part in ("defaults", "vars")]
    files = [word for file in (*own, "@variables.json") for word in ("-e", file)]
    done = ansible(tmp_path, "-v", *files)
    reasons = len(fabric.report()["reasons"])
    assert f"REASONS={reasons}" in done.stdout, done.stdout + done.stderr
    lines = done.stdout[done.stdout.index("TASK [Give the verdict]") : done.stdout.index("TASK [debug]")].splitlines()
    # Since ansible-core 2.19 the message and its source are also on standard error.
    errors = done.stderr.splitlines()
    assert len(lines) + len(errors) <= 60
    assert max(map(len, lines + errors)) < 600
    (fatal,) = [line for line in lines if line.startswith("fatal: ")]
    assert f'"Fabric check: FAIL, {reasons} reasons; first: ' in fatal
    assert f"All of it: {tmp_path}/r.html" in fatal
