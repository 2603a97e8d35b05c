# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""`make mutants`: the mistakes that it makes, the choice among them, and the score that it asks for."""

from __future__ import annotations

import collections
import typing as t

import pytest

from ansible_collections.rdmaops.gpu_fabric.tests.mutants import mutations, run

if t.TYPE_CHECKING:
    from pathlib import Path

EVERY_KIND = '''
"""Not a text to change."""
from __future__ import annotations

import typing as t

if t.TYPE_CHECKING:
    from pathlib import Path

__all__ = ["choose"]


def choose(items: list[str], limit: int = 3) -> str | None:
    """Nor is this."""
    chosen = {}
    for item in items:
        if not item or item == "é":
            continue
        if len(item) < limit and item in chosen:
            break
        chosen[item] = t.cast("int", len(item) * 2 + limit)
        limit += 1
        chosen.update({})
    if limit > 9:
        raise ValueError(f"{limit} is too many")
    while limit >= 9:
        del chosen["key"]
    wide = [item for item in items if item is not None]
    return None if not wide else "".join(wide)
'''


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("x = a == b", {"(a != b)"}),
        ("x = a is b", {"(a is not b)"}),
        ("x = a not in b", {"(a in b)"}),
        ("x = a < b <= c", {"(a <= b <= c)", "(a < b < c)"}),
        ("x = a > b", {"(a >= b)"}),
        ("x = a and b", {"(a or b)", "(True)", "(False)"}),
        ("x = not a", {"(a)"}),
        ("x = a + b", {"(a - b)"}),
        ("x = a * b", {"(a // b)"}),
        ("x = a & b", {"(a | b)"}),
        ("x = True", {"(False)"}),
        ("x = 2", {"(3)"}),
        ("x = 'key'", {"('')"}),
        ("x = ''", {"('mutant')"}),
        ("x = 'a sentence'", set()),
        ("x = f'{1}'", set()),
        ("x: 'str' = y", set()),
        ("__all__ = ['name']", set()),
        ("x = t.cast('int', y)", set()),
        ("if t.TYPE_CHECKING:\n    x = 1", set()),
        ("if a:\n    b", {"(True)", "(False)"}),
        ("x = b if a else c", {"(True)", "(False)"}),
        ("x = [b for b in c if b]", {"(True)", "(False)"}),
        ("while a:\n    b", {"(False)"}),
        ("def f():\n    return a", {"(None)"}),
        ("def f():\n    return None", set()),
        ("raise E", {"pass"}),
        ("for a in b:\n    continue", {"pass"}),
        ("for a in b:\n    break", {"pass"}),
        ("a += b", {"pass"}),
        ("del a", {"pass"}),
        ("a()", {"pass"}),
        ("a[b] = c", {"pass"}),
        ("a.b = c", {"pass"}),
        ("a = b", set()),
    ],
)
def test_each_kind_of_mistake(source: str, expected: set[str]) -> None:
    assert {mutant.new for mutant in mutations.mutants_of("file.py", source)} == expected


def test_each_mutant_changes_its_place_and_compiles() -> None:
    mutants = mutations.mutants_of("file.py", EVERY_KIND)
    assert len({mutant.identity for mutant in mutants}) == len(mutants) > 40
    for mutant in mutants:
        changed = mutations.changed(EVERY_KIND, mutant)
        compile(changed, "file.py", "exec")
        assert EVERY_KIND.splitlines()[: mutant.line - 1] == changed.splitlines()[: mutant.line - 1]
        assert changed != EVERY_KIND


def test_the_choice_is_that_of_the_seed_and_survives_an_edit_elsewhere() -> None:
    mutants = mutations.mutants_of("file.py", EVERY_KIND)
    chosen = [mutant.identity for mutant in mutations.chosen(mutants, "1", 10)]
    assert chosen == [mutant.identity for mutant in mutations.chosen(mutants[::-1], "1", 10)]
    assert chosen != [mutant.identity for mutant in mutations.chosen(mutants, "2", 10)]
    moved = mutations.mutants_of("file.py", "import os\n" + EVERY_KIND)
    assert chosen == [mutant.identity for mutant in mutations.chosen(moved, "1", 10)]


@pytest.mark.parametrize(
    ("failed", "limit", "equivalent", "survived", "expected"),
    [(90, 5, 0, 5, True), (90, 4, 0, 6, False), (90, 0, 5, 5, False), (91, 0, 5, 4, True), (94, 0, 6, 0, False)],
)
def test_the_score_that_is_asked_for(failed: int, limit: int, equivalent: int, survived: int, expected: bool) -> None:
    counts = collections.Counter(failed=failed, limit=limit, equivalent=equivalent, survived=survived)
    assert run.enough(counts) is expected


@pytest.mark.parametrize(
    ("claims", "outcome", "status", "said"),
    [
        ({}, "failed", 0, ""),
        ({}, "survived", 1, "survived: "),
        ({"first": "A reason."}, "failed", 1, "claimed equivalent, and found: "),
        ({"unknown": "A reason."}, "failed", 1, "claimed equivalent, and not in the code: unknown"),
    ],
)
def test_a_survivor_and_a_wrong_claim_fail(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    claims: dict[str, str],
    outcome: str,
    status: int,
    said: str,
) -> None:
    (tmp_path / "code.py").write_text("raise E\n")
    (mutant,) = mutations.mutants_of("code.py", "raise E\n")
    table = "".join(f"{mutant.identity if key == 'first' else key} = '{value}'\n" for key, value in claims.items())
    (tmp_path / "mutants.toml").write_text(f"[group.one]\nfiles = ['code.py']\ntests = []\n[equivalent]\n{table}")
    monkeypatch.setattr(run, "ROOT", tmp_path)
    monkeypatch.setattr(run, "SETTINGS", tmp_path / "mutants.toml")
    monkeypatch.setattr(run.Copy, "__init__", lambda self, directory: None)
    monkeypatch.setattr(run.Copy, "outcome", lambda self, tests, limit: "survived")
    monkeypatch.setattr(run.Copy, "outcome_with", lambda self, *arguments: outcome)
    monkeypatch.setattr("sys.argv", ["run.py"])
    assert run.main() == status
    assert said in capsys.readouterr().out
