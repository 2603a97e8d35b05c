# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""`make test-all` goes on after the last part that passed."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.rdmaops.gpu_fabric.tests.suite import resume, tree
from ansible_collections.rdmaops.gpu_fabric.tests.suite.parts import PARTS
from ansible_collections.rdmaops.gpu_fabric.tests.suite.runner import Part, Runner, Status

if t.TYPE_CHECKING:
    from pathlib import Path


class Suite:
    """Two parts whose outcome the test decides, and what they read."""

    def __init__(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.tmp_path = tmp_path
        self.state = resume.State(tmp_path / "state")
        self.statuses: dict[str, Status] = {"first": "passed", "second": "passed"}
        self.read = {"first": "a", "second": "b"}
        self.ran: list[str] = []
        self.parts = [Part(name, "a part", 60, 3600, self.run) for name in self.statuses]
        monkeypatch.setattr(resume, "key", lambda part: self.read[part.name])

    def run(self, runner: Runner) -> None:
        self.ran.append(runner.part)
        runner.add(f"check of {runner.part}", self.statuses[runner.part])

    def play(self, *chosen: str, require_all: bool = False) -> str:
        self.ran = []
        runner = Runner(everything=True, require_all=require_all, output=self.tmp_path / "out", commit="0123456789")
        return resume.run_rest(runner, self.parts, self.state, [part for part in self.parts if part.name in chosen])


@pytest.fixture
def suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Suite:
    return Suite(tmp_path, monkeypatch)


def test_what_has_passed_is_not_run_again(suite: Suite, capsys: pytest.CaptureFixture[str]) -> None:
    suite.statuses["second"] = "failed"
    assert suite.play() == "1 passed, 1 failed, 0 skipped"
    assert suite.ran == ["first", "second"]
    suite.statuses["second"] = "passed"
    assert suite.play() == "2 passed, 0 failed, 0 skipped"
    assert suite.ran == ["second"]
    assert "first: passed at 0123456, 20" in capsys.readouterr().out


def test_a_change_of_what_a_part_reads_voids_it(suite: Suite) -> None:
    suite.play()
    suite.read["second"] = "changed"
    suite.play()
    assert suite.ran == ["second"]
    suite.read["second"] = "b"
    assert suite.play() == "2 passed, 0 failed, 0 skipped"
    assert suite.ran == []


def test_chosen_parts_run_again_and_no_other(suite: Suite) -> None:
    suite.play("second")
    assert suite.ran == ["second"]
    suite.play("second")
    assert suite.ran == ["second"]


def test_a_skip_does_not_do_if_everything_is_required(suite: Suite) -> None:
    suite.statuses["first"] = "skipped"
    assert suite.play() == "1 passed, 0 failed, 1 skipped"
    assert suite.play() == "1 passed, 0 failed, 1 skipped"
    assert suite.ran == []
    assert suite.play(require_all=True) == "1 passed, 1 failed, 0 skipped"
    assert suite.ran == ["first"]


def test_an_interrupted_part_is_run_again(suite: Suite, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_runner: Runner) -> None:
        raise KeyboardInterrupt

    whole = suite.parts
    suite.parts = [whole[0], whole[1]._replace(run=interrupt)]
    assert suite.play() == "1 passed, 1 failed, 0 skipped"
    suite.parts = whole
    suite.play()
    assert suite.ran == ["second"]


def test_what_is_left_is_said_with_its_time(suite: Suite, capsys: pytest.CaptureFixture[str]) -> None:
    suite.play()
    printed = capsys.readouterr().out
    assert "left: first 60:00, second 60:00: 2 h 0 min in all" in printed
    assert "left: second 60:00: 1 h 0 min in all" in printed
    suite.read["second"] = "changed"
    suite.play()
    assert "left: second 0:00: 0 h 0 min in all" in capsys.readouterr().out


def test_what_takes_long_does_not_read_pages() -> None:
    assert {part.name for part in PARTS if part.pages} == {"lint", "sanity", "docs", "artifact"}
    names = tree.files(*resume.CODE)
    assert "plugins/modules/rdma_system.py" in names
    assert [name for name in names if name.endswith(".md") or name.startswith(("docs/", "tests/"))] == []


def test_what_a_part_reads_is_there() -> None:
    for part in PARTS:
        for pattern in part.tests:
            assert pattern.startswith(":(exclude)") or tree.files(pattern), (part.name, pattern)


def test_a_hash_covers_names_modes_and_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree, "ROOT", tmp_path)
    tree.git("init", "-q")
    (tmp_path / "a").write_text("1")
    observed = [tree.digest("a", "b")]
    (tmp_path / "a").write_text("2")
    observed.append(tree.digest("a", "b"))
    (tmp_path / "a").chmod(0o755)
    observed.append(tree.digest("a", "b"))
    (tmp_path / "a").rename(tmp_path / "b")
    observed.append(tree.digest("a", "b"))
    (tmp_path / "c").write_text("1")
    assert len(set(observed)) == 4
    assert tree.digest("a", "b") == observed[-1]
