# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The runner of `make test`: what it counts, and what it stops."""

from __future__ import annotations

import json
import sys
import time
import typing as t
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.tests import run
from ansible_collections.rdmaops.gpu_fabric.tests.suite import report, tree
from ansible_collections.rdmaops.gpu_fabric.tests.suite.load import Pace
from ansible_collections.rdmaops.gpu_fabric.tests.suite.parts import PARTS
from ansible_collections.rdmaops.gpu_fabric.tests.suite.runner import Part, Runner, budget_of
from ansible_collections.rdmaops.gpu_fabric.tests.support import waiting

REPORT = """<?xml version="1.0" encoding="utf-8"?>
<testsuites><testsuite name="pytest" errors="1" failures="1" skipped="2" tests="5">
<testcase classname="a" name="good" time="0.5"/>
<testcase classname="a" name="bad" time="0.1"><failure message="assert 1 == 2&#10;more">text</failure></testcase>
<testcase classname="a" name="broken" time="0.1"><error message="no fixture">text</error></testcase>
<testcase classname="a" name="left" time="0"><skipped type="pytest.skip" message="no tool">path</skipped></testcase>
<testcase classname="a" name="known" time="0"><skipped type="pytest.xfail" message="known">path</skipped></testcase>
</testsuite></testsuites>
"""


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    return Runner(everything=False, require_all=False, output=tmp_path / "out")


def part(name: str, body: t.Callable[[Runner], object], budget: int = 60) -> Part:
    return Part(name, "a part", budget, budget, body)


def play(runner: Runner, *parts: Part) -> str:
    for each in parts:
        runner.run(each)
    return report.report(runner, parts)


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def test_cases_of_a_junit_report_are_counted(runner: Runner, tmp_path: Path) -> None:
    (tmp_path / "report.xml").write_text(REPORT)
    last = play(runner, part("unit", lambda runner: runner.junit(tmp_path / "report.xml")))
    assert last == "2 passed, 2 failed, 1 skipped"
    assert [(check.name, check.status, check.reason) for check in runner.checks if check.status != "passed"] == [
        ("a::bad", "failed", "assert 1 == 2"),
        ("a::broken", "failed", "no fixture"),
        ("a::left", "skipped", "no tool"),
    ]


def test_a_skip_is_a_failure_where_everything_is_required(runner: Runner, tmp_path: Path) -> None:
    runner.require_all = True
    (tmp_path / "report.xml").write_text(REPORT)
    last = play(runner, part("unit", lambda runner: runner.junit(tmp_path / "report.xml")))
    assert last == "2 passed, 3 failed, 0 skipped"
    assert runner.checks[-2].reason == "skipped, and REQUIRE_ALL is set: no tool"


def test_a_part_that_tests_nothing_has_failed(runner: Runner) -> None:
    assert play(runner, part("empty", lambda _it: None)) == "0 passed, 1 failed, 0 skipped"
    assert runner.checks[0].reason == "nothing was tested"


def test_a_damaged_report_has_no_cases(runner: Runner, tmp_path: Path) -> None:
    (tmp_path / "report.xml").write_text(REPORT[:200])
    play(runner, part("unit", lambda runner: runner.junit(tmp_path / "report.xml")))
    assert [check.reason for check in runner.checks] == ["nothing was tested"]


def test_commands_are_judged_by_their_exit_status(runner: Runner, capsys: pytest.CaptureFixture[str]) -> None:
    def body(runner: Runner) -> None:
        runner.command("good", [sys.executable, "-c", "print('quiet')"], limit=20)
        runner.command("bad", [sys.executable, "-c", "print('why'); raise SystemExit(3)"], limit=20)
        runner.command("absent", ["/nonexistent/tool"], limit=20)

    assert play(runner, part("lint", body)) == "1 passed, 2 failed, 0 skipped"
    printed = capsys.readouterr().out
    assert "quiet" not in printed
    assert "    why\n" in printed
    assert "cannot run /nonexistent/tool" in printed
    assert [check.reason for check in runner.checks] == ["", "exit status 3", "exit status 127"]


def test_a_command_out_of_time_is_stopped_with_its_children(
    runner: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sign = tmp_path / "sign"
    child = f"import os, time; open({str(sign)!r}, 'x').write(str(os.getpid())); time.sleep(600)"
    # It is out of time as soon as its child runs.
    monkeypatch.setattr(runner, "time_left", lambda *_limit: 0 if sign.exists() and sign.read_text() else 60)
    play(
        runner,
        part(
            "slow",
            lambda runner: runner.command(
                "slow", python(f"import subprocess; subprocess.run({python(child)!r})"), limit=60
            ),
        ),
    )
    assert runner.checks[0].reason == "stopped: out of time"
    assert runner.stopped == {"slow"}
    waiting.wait_for(lambda: waiting.has_ended(int(sign.read_text())))


def test_a_command_has_a_limit_of_its_own(runner: Runner) -> None:
    assert play(
        runner, part("slow", lambda runner: runner.command("nap", python("import time; time.sleep(600)"), limit=0.1))
    )
    assert runner.checks[0].reason == "stopped: out of time"
    assert runner.stopped == set()


def test_a_part_over_its_hard_limit_is_stopped_and_says_so(runner: Runner, capsys: pytest.CaptureFixture[str]) -> None:
    def body(runner: Runner) -> None:
        runner.command("first", python("import time; time.sleep(600)"), limit=600)
        runner.command("second", python(""), limit=60)

    assert play(runner, part("slow", body, budget=0)) == "0 passed, 2 failed, 0 skipped"
    assert "STOPPED: out of time" in capsys.readouterr().out


def test_what_a_daemon_writes_later_is_in_the_log(runner: Runner, tmp_path: Path) -> None:
    """It has the command's output, and holds up neither the command nor the part."""
    go = tmp_path / "go"
    daemon = (
        f"import os, time\nwhile not os.path.exists({str(go)!r}): time.sleep(0.01)\n"
        "os.write(1, b'late\\n')\n"
    )  # fmt: skip
    code = f"import subprocess; subprocess.Popen({python(daemon)!r}, start_new_session=True); print('early')"
    assert play(runner, part("lab", lambda runner: runner.command("up", python(code), limit=60)))
    assert runner.checks[0].status == "passed"
    log = tmp_path / "out/lab/up.log"
    assert log.read_text().endswith("early\n")
    go.touch()
    waiting.wait_for(lambda: log.read_text().endswith("early\nlate\n"))


def test_live_output_is_printed_whole(runner: Runner, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    play(
        runner,
        part("live", lambda runner: runner.command("live", python("print('a line\\n' * 5000)"), limit=60, live=True)),
    )
    assert capfdbinary.readouterr().out.count(b"a line\n") == 5000


def test_over_budget_is_shown(runner: Runner, capsys: pytest.CaptureFixture[str]) -> None:
    outcome = runner.run(part("slow", lambda runner: runner.add("check", "passed")))
    runner.outcomes["slow"] = outcome._replace(seconds=61, allowed=60)
    report.report(runner, [part("slow", lambda _it: None)])
    assert "  over budget" in capsys.readouterr().out


def test_pytest_cases_and_missing_tests(runner: Runner, tmp_path: Path) -> None:
    (tmp_path / "test_some.py").write_text("def test_a(): pass\ndef test_b(): assert 0\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "none").mkdir()

    def body(runner: Runner) -> None:
        runner.pytest("some", "-p", "no:cacheprovider", str(tmp_path / "test_some.py"), limit=60)
        runner.pytest("none", "-p", "no:cacheprovider", str(tmp_path / "none"), limit=60)

    assert play(runner, part("unit", body)) == "1 passed, 2 failed, 0 skipped"
    assert runner.checks[-1].reason == f"missing: no test in -p no:cacheprovider {tmp_path}/none"


def test_interpreters_run_and_are_what_they_say() -> None:
    result = tree.interpreters()
    assert f"{sys.version_info[0]}.{sys.version_info[1]}" in result
    assert all("shims" not in path for path in result.values())


def test_what_others_have_set_does_not_reach_a_test(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANSIBLE_CONFIG", "/nonexistent.cfg")
    monkeypatch.setenv("PYTEST_ADDOPTS", "--collect-only")
    environment = Runner(everything=False, require_all=True).environment
    assert "ANSIBLE_CONFIG" not in environment
    assert "PYTEST_ADDOPTS" not in environment
    assert environment["REQUIRE_ALL"] == "1"


def test_a_part_without_a_budget_is_for_test_all() -> None:
    assert {each.name for each in PARTS if not each.budget and not each.name.startswith("molecule-")} == {
        "support",
        "faults",
    }
    assert budget_of(part("faults", lambda _it: None, budget=0)._replace(budget_all=9), everything=False) == 9


def test_every_scenario_is_a_part() -> None:
    scenarios = {Path(name).parent.name for name in tree.files("molecule/*/molecule.yml")}
    parts = {each.name for each in PARTS if each.name.startswith("molecule")}
    assert parts == {"molecule", *(f"molecule-{name}" for name in scenarios - {"default"})}


def test_a_command_may_take_what_is_left_of_three_limits(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    runner.limit, runner.part_limit = 100, 40
    runner.part_pace = Pace(runner.others)
    now = runner.part_pace.began = runner.pace.began
    monkeypatch.setattr(time, "monotonic", lambda: now + 10)
    assert runner.time_left() == 30
    assert runner.time_left(now + 5, limit=10) == 5
    runner.part_limit = 1000
    assert runner.time_left() == 90


def test_the_budgets_fit_what_the_whole_may_take() -> None:
    assert sum(each.budget for each in PARTS) <= run.TOTAL_LIMIT


def test_what_was_tried_and_lost_is_summed_by_kind(
    runner: Runner, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Written by tests in a process of their own, as they do it: by the marker, and by a block."""
    tests = (
        "import pytest\n"
        "from ansible_collections.rdmaops.gpu_fabric.tests.support import faults\n"
        "@pytest.mark.fault('disk')\ndef test_good(): pass\n"
        "@pytest.mark.fault('disk')\ndef test_bad(): assert 0\n"
        "@pytest.mark.fault('disk')\ndef test_left(): pytest.skip('no disk')\n"
        "def test_many():\n"
        "    with faults.tried('parsers', 'p') as tally:\n"
        "        for n in range(7):\n"
        "            with tally.one(n):\n"
        "                assert n != 3, 'the third'\n"
        "def test_ends():\n"
        "    with faults.tried('parsers', 'q'):\n"
        "        raise ValueError\n"
        "def test_nothing():\n"
        "    with faults.tried('parsers', 'r'): pass\n"
    )

    def body(runner: Runner) -> None:
        (tmp_path / "test_some.py").write_text(tests)
        (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n  fault: fault\n")
        plugin = f"{tree.COLLECTION}.tests.support.plugin"
        runner.pytest("some", "-p", plugin, "-p", "no:cacheprovider", str(tmp_path / "test_some.py"), limit=60)

    assert play(runner, part("faults", body)) == "1 passed, 4 failed, 1 skipped"
    printed = capsys.readouterr().out
    assert "3: AssertionError: the third" in printed
    assert "p: 1 of 7 lost" in printed
    assert "r: nothing was tried" in printed
    table = [line.split() for line in printed[printed.index("faults and hostile input") :].splitlines()[:4]]
    assert table == [
        ["faults", "and", "hostile", "input", "tried", "lost"],
        ["disk", "2", "1"],
        ["parsers", "9", "2"],
        ["total", "11", "3"],
    ]
    summary = json.loads((tmp_path / "out/summary.json").read_text())
    assert summary["faults"] == {"disk": {"tried": 2, "lost": 1}, "parsers": {"tried": 9, "lost": 2}}


def test_without_faults_there_is_no_table(runner: Runner, capsys: pytest.CaptureFixture[str]) -> None:
    play(runner, part("empty", lambda _it: None))
    assert "tried" not in capsys.readouterr().out
