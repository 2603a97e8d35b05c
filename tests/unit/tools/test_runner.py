# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The runner of `make test`: what it counts, and what it stops."""

from __future__ import annotations

import json
import sys
import time
import typing as t

import pytest

from ansible_collections.rdmaops.gpu_fabric.tests import run

if t.TYPE_CHECKING:
    from pathlib import Path

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
def runner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> run.Runner:
    monkeypatch.setattr(run, "OUTPUT", tmp_path / "out")
    monkeypatch.setattr(run, "ROOT", tmp_path)
    return run.Runner(everything=False, require_all=False)


def part(name: str, body: t.Callable[[run.Runner], object], budget: int = 60) -> run.Part:
    return run.Part(name, "a part", budget, budget, body)


def play(runner: run.Runner, *parts: run.Part) -> str:
    for one in parts:
        runner.run(one, time.monotonic() + 60)
    return run.report(runner, parts)


def test_cases_of_a_junit_report_are_counted(runner: run.Runner, tmp_path: Path) -> None:
    (tmp_path / "report.xml").write_text(REPORT)
    last = play(runner, part("unit", lambda one: one.junit(tmp_path / "report.xml")))
    assert last == "2 passed, 2 failed, 1 skipped"
    assert [(check.name, check.status, check.reason) for check in runner.checks if check.status != "passed"] == [
        ("a::bad", "failed", "assert 1 == 2"),
        ("a::broken", "failed", "no fixture"),
        ("a::left", "skipped", "no tool"),
    ]


def test_a_skip_is_a_failure_where_everything_is_required(runner: run.Runner, tmp_path: Path) -> None:
    runner.require_all = True
    (tmp_path / "report.xml").write_text(REPORT)
    last = play(runner, part("unit", lambda one: one.junit(tmp_path / "report.xml")))
    assert last == "2 passed, 3 failed, 0 skipped"
    assert runner.checks[-2].reason == "skipped, and REQUIRE_ALL is set: no tool"


def test_a_part_that_tests_nothing_has_failed(runner: run.Runner) -> None:
    assert play(runner, part("empty", lambda _one: None)) == "0 passed, 1 failed, 0 skipped"
    assert runner.checks[0].reason == "nothing was tested"


def test_a_damaged_report_has_no_cases(runner: run.Runner, tmp_path: Path) -> None:
    (tmp_path / "report.xml").write_text(REPORT[:200])
    play(runner, part("unit", lambda one: one.junit(tmp_path / "report.xml")))
    assert [check.reason for check in runner.checks] == ["nothing was tested"]


def test_commands_are_judged_by_their_exit_status(runner: run.Runner, capsys: pytest.CaptureFixture[str]) -> None:
    def body(one: run.Runner) -> None:
        one.command("good", [sys.executable, "-c", "print('quiet')"], limit=20)
        one.command("bad", [sys.executable, "-c", "print('why'); raise SystemExit(3)"], limit=20)
        one.command("absent", ["/nonexistent/tool"], limit=20)

    assert play(runner, part("lint", body)) == "1 passed, 2 failed, 0 skipped"
    printed = capsys.readouterr().out
    assert "quiet" not in printed
    assert "    why\n" in printed
    assert "cannot run /nonexistent/tool" in printed
    assert [check.reason for check in runner.checks] == ["", "exit status 3", "exit status 127"]


def test_a_command_over_its_limit_is_stopped_with_its_children(runner: run.Runner, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    child = f"import time, pathlib; time.sleep(3); pathlib.Path({str(mark)!r}).touch()"
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    began = time.monotonic()
    play(runner, part("slow", lambda one: one.command("slow", [sys.executable, "-c", code], limit=0.5)))
    assert time.monotonic() - began < 3
    assert runner.checks[0].reason == "stopped: out of time"
    time.sleep(max(0, 3.5 - (time.monotonic() - began)))
    assert not mark.exists()


def test_a_part_over_its_hard_limit_is_stopped_and_says_so(
    runner: run.Runner, capsys: pytest.CaptureFixture[str]
) -> None:
    def body(one: run.Runner) -> None:
        one.command("first", [sys.executable, "-c", "import time; time.sleep(30)"], limit=60)
        one.command("second", [sys.executable, "-c", ""], limit=60)

    assert play(runner, part("slow", body, budget=1)) == "0 passed, 2 failed, 0 skipped"
    assert "STOPPED: out of time" in capsys.readouterr().out


def test_a_daemon_that_holds_the_output_does_not_hold_the_part(runner: run.Runner) -> None:
    code = (
        "import subprocess, sys\n"
        "nap = [sys.executable, '-c', 'import time; time.sleep(20)']\n"
        "subprocess.Popen(nap, start_new_session=True)\n"
    )
    began = time.monotonic()
    assert play(runner, part("lab", lambda one: one.command("up", [sys.executable, "-c", code], limit=30)))
    assert runner.checks[0].status == "passed"
    assert time.monotonic() - began < 15


def test_over_budget_is_told(runner: run.Runner, capsys: pytest.CaptureFixture[str]) -> None:
    slow = part(
        "slow", lambda one: one.command("nap", [sys.executable, "-c", "import time; time.sleep(0.3)"], limit=9) and None
    )
    runner.run(slow, time.monotonic() + 60)
    run.report(runner, [slow._replace(budget=0, budget_all=0)])
    assert "  over budget" in capsys.readouterr().out


def test_pytest_cases_and_missing_tests(runner: run.Runner, tmp_path: Path) -> None:
    (tmp_path / "test_some.py").write_text("def test_a(): pass\ndef test_b(): assert 0\n")
    (tmp_path / "none").mkdir()

    def body(one: run.Runner) -> None:
        one.pytest("some", "-p", "no:cacheprovider", "test_some.py", limit=60)
        one.pytest("none", "-p", "no:cacheprovider", "none", limit=60)

    assert play(runner, part("unit", body)) == "1 passed, 2 failed, 0 skipped"
    assert runner.checks[-1].reason == "missing: no test in -p no:cacheprovider none"


def test_interpreters_run_and_are_what_they_say() -> None:
    found = run.interpreters()
    assert f"{sys.version_info[0]}.{sys.version_info[1]}" in found
    assert all("shims" not in path for path in found.values())


def test_what_others_have_set_does_not_reach_a_test(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANSIBLE_CONFIG", "/nonexistent.cfg")
    monkeypatch.setenv("PYTEST_ADDOPTS", "--collect-only")
    environment = run.Runner(everything=False, require_all=True).environment
    assert "ANSIBLE_CONFIG" not in environment
    assert "PYTEST_ADDOPTS" not in environment
    assert environment["REQUIRE_ALL"] == "1"


def test_a_part_without_a_budget_is_for_test_all() -> None:
    assert [one.name for one in run.PARTS if not one.budget] == ["support", "faults"]
    assert run.budget_of(part("faults", lambda _one: None, budget=0)._replace(budget_all=9), everything=False) == 9


def test_the_budgets_fit_what_the_whole_may_take() -> None:
    assert sum(one.budget for one in run.PARTS) <= run.TOTAL_LIMIT


def test_what_was_tried_and_lost_is_summed_by_kind(runner: run.Runner, capsys: pytest.CaptureFixture[str]) -> None:
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

    def body(one: run.Runner) -> None:
        (run.ROOT / "test_some.py").write_text(tests)
        (run.ROOT / "pytest.ini").write_text("[pytest]\nmarkers =\n  fault: fault\n")
        plugin = f"{run.COLLECTION}.tests.support.plugin"
        one.pytest("some", "-p", plugin, "-p", "no:cacheprovider", "test_some.py", limit=60)

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
    summary = json.loads((run.OUTPUT / "summary.json").read_text())
    assert summary["faults"] == {"disk": {"tried": 2, "lost": 1}, "parsers": {"tried": 9, "lost": 2}}


def test_without_faults_there_is_no_table(runner: run.Runner, capsys: pytest.CaptureFixture[str]) -> None:
    play(runner, part("empty", lambda _one: None))
    assert "tried" not in capsys.readouterr().out
