# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is written to modprobe.d, what is refused, and what an interruption leaves."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils import _files
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._decision import Decision
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._files import HEADER, FileError
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._kmod.config import parse, read_tree, settings
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._kmod.conflict import without
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._kmod.plan import add_to, apply, install_command, plan
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._kmod.plan_model import ConflictError, Plan, PlanError
from ansible_collections.rdmaops.gpu_fabric.tests.support.failures import message_of
from ansible_collections.rdmaops.gpu_fabric.tests.support.trees import write_tree

# A busy machine is no reason to fail.
SLOW = hypothesis_settings(deadline=None)

OURS = "/etc/modprobe.d/zz-ours.conf"
A = "/etc/modprobe.d/a.conf"
LATER = "/etc/modprobe.d/zzz.conf"
LIB = "/usr/lib/modprobe.d/a.conf"
WANTED = {"netns_mode": "0"}
TEXT = HEADER + "\noptions ib_core netns_mode=0\n"
UNREADABLE = (
    "Reading /etc/modprobe.d/a.conf: it is not a text file (it has control characters), and what kmod makes of it is not "
    "known. Nothing has been changed. Repair the file, or rename it so that its name does not end in .conf."
)
FIRST = "Files that are not managed by this task give ib_core another value: "
REMEDY = (
    "Nothing has been changed. Remove what is said there, or set on_conflict to take_over, which takes the parameter out "
    "of files in /etc/modprobe.d and keeps a copy"
)


def files_below(root: Path) -> dict[str, str]:
    """Return every file below root, with its text."""
    return {
        str(path)[len(str(root)) :]: path.read_bytes().decode("utf-8", "surrogateescape")
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


def make(root: Path, on_conflict: str = "fail", state: str = "present", **options: str | None) -> Plan:
    return plan(str(root), "ib-core", options or (WANTED if state == "present" else {}), OURS, state, on_conflict)


def refused(root: Path, on_conflict: str = "fail", state: str = "present") -> str:
    before = files_below(root)
    text = message_of(PlanError, make, root, on_conflict, state)
    assert files_below(root) == before
    return text


def test_the_four_step_drill(tmp_path: Path) -> None:
    planned = make(tmp_path)
    assert planned.changed
    assert (planned.writes, planned.backups, planned.conflicts, planned.warnings) == ({OURS: TEXT}, [], [], [])
    assert settings(planned.before, "ib_core") == {}
    assert settings(planned.after, "ib_core")["netns_mode"].path == OURS
    assert files_below(tmp_path) == {}
    apply(planned)
    assert files_below(tmp_path) == {OURS: TEXT}
    assert os.stat(tmp_path / OURS[1:]).st_mode & 0o777 == 0o644
    for _again in range(2):
        planned = make(tmp_path)
        assert not planned.changed
        assert planned.after is planned.before
        apply(planned)
        assert files_below(tmp_path) == {OURS: TEXT}


def test_the_steps_are_told(tmp_path: Path) -> None:
    write_tree(tmp_path, {A: "options ib_core netns_mode=1 x=1\n"})
    decision = Decision()
    add_to(make(tmp_path, "take_over"), decision)
    assert decision.result() == {
        "changed": True,
        "actions": [f"Back up {A}", f"Write {OURS}", f"Write {A}"],
        "diff": [
            {"before_header": path, "after_header": path, "before": before, "after": after}
            for path, before, after in (
                (OURS, "", TEXT),
                (A, "options ib_core netns_mode=1 x=1\n", "options ib_core x=1\n"),
            )
        ],
    }


MORE = HEADER + "\noptions ib_core x=1\noptions ib_core y=2\n"
# what we had, what is to be absent, what we have then
ABSENT: list[tuple[str | None, dict[str, str | None], str | None]] = [
    (None, {}, None),
    (TEXT, {}, None),
    (TEXT, {"netns_mode": None}, None),
    (TEXT, {"netns_mode": "7"}, None),
    (TEXT, {"x": None}, TEXT),
    (TEXT + "options ib_core x=1\n", {"x": None}, TEXT),
    (TEXT + "options ib_core x=1\noptions other y=2\n", {"x": None}, TEXT),
    (TEXT + "options ib-core x=1 \\\n y=2\n# edited\n", {"netns_mode": None}, MORE),
    (HEADER + "\n", {"x": None}, None),
]  # fmt: skip


@pytest.mark.parametrize(("before", "gone", "after"), ABSENT)
def test_absent(tmp_path: Path, before: str | None, gone: dict[str, str | None], after: str | None) -> None:
    write_tree(tmp_path, {} if before is None else {OURS: before})
    planned = plan(str(tmp_path), "ib_core", gone, OURS, "absent", "fail")
    assert planned.changed is (before != after)
    apply(planned)
    assert files_below(tmp_path) == ({} if after is None else {OURS: after})
    assert not plan(str(tmp_path), "ib_core", gone, OURS, "absent", "fail").changed


def test_a_removal_reports_its_steps(tmp_path: Path) -> None:
    write_tree(tmp_path, {OURS: TEXT})
    decision = Decision()
    add_to(make(tmp_path, state="absent"), decision)
    diff = [{"before_header": OURS, "after_header": OURS, "before": TEXT, "after": ""}]
    assert decision.result() == {"changed": True, "actions": [f"Remove {OURS}"], "diff": diff}


@pytest.mark.parametrize("text", ["options ib_core netns_mode=N\n", "options ib_core x=1\n"])
def test_a_plan_without_changes_adds_nothing(tmp_path: Path, text: str) -> None:
    write_tree(tmp_path, {OURS: TEXT, A: text})
    decision, planned = Decision(), make(tmp_path)
    assert planned.after is planned.before
    add_to(planned, decision)
    assert decision.result() == {"changed": False, "actions": [], "diff": []}


def test_what_others_still_set_is_told(tmp_path: Path) -> None:
    write_tree(tmp_path, {OURS: TEXT, A: " options ib_core netns_mode=0\n"})
    planned = make(tmp_path, state="absent", netns_mode=None)
    assert planned.warnings == [f"{A}:1 still sets netns_mode of ib_core: options ib_core netns_mode=0"]
    assert make(tmp_path).warnings == []


def test_present_has_exactly_these(tmp_path: Path) -> None:
    write_tree(tmp_path, {OURS: HEADER + "\noptions ib_core netns_mode=0 x=1\noptions other y=1\n# edited\n"})
    apply(make(tmp_path))
    assert files_below(tmp_path) == {OURS: TEXT}


def test_none_is_not_set_by_our_file(tmp_path: Path) -> None:
    write_tree(tmp_path, {OURS: TEXT, A: "options ib_core netns_mode=1\n"})
    planned = make(tmp_path, netns_mode=None, x="1")
    assert planned.writes == {OURS: HEADER + "\noptions ib_core x=1\n"}
    assert planned.conflicts == []
    assert planned.warnings == [f"{A}:1 still sets netns_mode of ib_core: options ib_core netns_mode=1"]


@pytest.mark.parametrize(
    "text", ["options ib_core netns_mode=0\n", "options ib-core netns-mode=N\n", "options ib_core x=1\n", "# no\n"]
)
@pytest.mark.parametrize("path", [A, LATER, LIB])
def test_no_conflict(tmp_path: Path, path: str, text: str) -> None:
    write_tree(tmp_path, {path: text})
    planned = make(tmp_path)
    assert (planned.writes, planned.conflicts, planned.warnings) == ({OURS: TEXT}, [], [])


def test_conflict_fails_and_names_the_line(tmp_path: Path) -> None:
    write_tree(tmp_path, {A: "# why\noptions ib_core x=1 \\\n  netns_mode=1\n"})
    assert refused(tmp_path) == (
        f"{FIRST}{A}:3: netns_mode=1 (netns_mode is to be 0). {REMEDY}, or to warn, which leaves them alone "
        f"({OURS} comes later and wins)."
    )
    with pytest.raises(ConflictError) as caught:
        make(tmp_path)
    assert caught.value.conflicts == [{"path": A, "line": 3, "text": "netns_mode=1", "wins": False}]


def test_conflict_that_wins_does_not_advise_to_warn(tmp_path: Path) -> None:
    write_tree(tmp_path, {A: "options ib_core netns_mode=1\n", LATER: "options ib_core netns_mode=Y\n"})
    assert refused(tmp_path) == (
        f"{FIRST}{A}:1: options ib_core netns_mode=1 (netns_mode is to be 0); "
        f"{LATER}:1: options ib_core netns_mode=Y (netns_mode is to be 0). {REMEDY}."
    )


def test_warn_writes_where_ours_wins(tmp_path: Path) -> None:
    write_tree(tmp_path, {A: "options ib_core netns_mode=1\n"})
    planned = make(tmp_path, "warn")
    assert planned.writes == {OURS: TEXT}
    assert planned.conflicts == [{"path": A, "line": 1, "text": "options ib_core netns_mode=1", "wins": False}]
    assert planned.warnings == [
        f"{A}:1: options ib_core netns_mode=1 (netns_mode is to be 0); {OURS} comes later and wins"
    ]
    apply(planned)
    again = make(tmp_path, "warn")
    assert (again.changed, again.warnings, again.conflicts) == (False, planned.warnings, planned.conflicts)


def test_warn_fails_where_the_other_wins(tmp_path: Path) -> None:
    write_tree(tmp_path, {LATER: "options ib_core netns_mode=1\n"})
    assert refused(tmp_path, "warn") == (
        f"{FIRST}{LATER}:1: options ib_core netns_mode=1 (netns_mode is to be 0). Nothing has been changed. {LATER} would "
        f"win over {OURS}, so a warning would not be enough. {REMEDY[len('Nothing has been changed. ') :]}."
    )


def test_options_of_an_alias_are_a_conflict(tmp_path: Path) -> None:
    write_tree(tmp_path, {A: "alias net-x ib_core\noptions net_x netns_mode=1\n"})
    assert refused(tmp_path).startswith(f"{FIRST}{A}:2: options net_x netns_mode=1 (netns_mode is to be 0). ")
    apply(make(tmp_path, "take_over"))
    assert files_below(tmp_path)[A] == "alias net-x ib_core\n"


def test_take_over(tmp_path: Path) -> None:
    text = "# a\noptions ib_core  x=1\tnetns_mode=1 y=2 # b\r\noptions foo netns_mode=1\n\n"
    text += "options ib-core netns-mode=1\n# c"
    write_tree(tmp_path, {A: text, LATER: "options ib_core netns_mode=1\n", LIB: "options ib_core netns_mode=1\n"})
    os.chmod(tmp_path / A[1:], 0o600)
    planned = make(tmp_path, "take_over")
    assert list(planned.writes) == [OURS, A, LATER]
    assert planned.backups == [A, LATER]
    conflicts = [(item["path"], item["line"], item["wins"]) for item in planned.conflicts]
    assert conflicts == [(A, 2, False), (A, 5, False), (LATER, 1, True)]
    apply(planned)
    assert files_below(tmp_path) == {
        OURS: TEXT,
        A: "# a\noptions ib_core  x=1 y=2 # b\r\noptions foo netns_mode=1\n\n# c",
        A + ".rdmaops-backup": text,
        # An empty file stays: it hides others of its name.
        LATER: "",
        LATER + ".rdmaops-backup": "options ib_core netns_mode=1\n",
        LIB: "options ib_core netns_mode=1\n",
    }
    assert os.stat(tmp_path / A[1:]).st_mode & 0o777 == 0o600
    assert not make(tmp_path).changed
    assert not make(tmp_path, "take_over").changed


def test_take_over_changes_nothing_outside_etc(tmp_path: Path) -> None:
    write_tree(tmp_path, {LIB: "options ib_core netns_mode=1\n", LATER: "options ib_core netns_mode=1\n"})
    assert refused(tmp_path, "take_over") == (
        f"{LIB}:1: options ib_core netns_mode=1: on_conflict=take_over changes files in /etc/modprobe.d only. Nothing has "
        "been changed. To be rid of this, put a file named /etc/modprobe.d/a.conf in place, empty or without the "
        "parameter: it hides those of the same name in the other directories."
    )
    write_tree(tmp_path, {A: ""})
    apply(make(tmp_path, "take_over"))
    assert settings(read_tree(str(tmp_path)), "ib_core")["netns_mode"].value == "0"


def test_take_over_leaves_links_alone(tmp_path: Path) -> None:
    write_tree(tmp_path, {"/srv/real.conf": "options ib_core netns_mode=1\n", "/etc/modprobe.d/x": ""})
    (tmp_path / A[1:]).symlink_to("/srv/real.conf")
    assert refused(tmp_path, "take_over") == (
        f"{A} is a symbolic link to /srv/real.conf, and writing would put a file in its place. Nothing has been "
        "changed. Remove the link, or set the parameter where it points to."
    )


def test_take_over_refuses_what_it_cannot_take_apart(tmp_path: Path) -> None:
    write_tree(tmp_path, {A: 'options ib_core x="1\noptions ib_core y=2" netns_mode=1\n'})
    assert refused(tmp_path, "take_over") == (
        f'{A}:2: options ib_core y=2" netns_mode=1: this cannot be taken out without changing what else the file says. '
        "Nothing has been changed. Change it by hand."
    )


def test_a_file_of_somebody_else_at_our_path(tmp_path: Path) -> None:
    write_tree(tmp_path, {OURS: "# mine\noptions ib_core netns_mode=0\n"})
    message = (
        f"{OURS} was not written by this collection (it does not have its header), so it is left alone. Nothing has been "
        "changed. Move it away, choose another path, or set on_conflict to take_over, which keeps a copy as "
        f"{OURS}.rdmaops-backup."
    )
    assert refused(tmp_path) == message
    assert refused(tmp_path, "warn") == message
    with pytest.raises(ConflictError) as caught:
        make(tmp_path, state="absent")
    assert caught.value.conflicts == [{"path": OURS, "line": 1, "text": "# mine", "wins": True}]
    planned = make(tmp_path, "take_over")
    assert (planned.writes, planned.backups) == ({OURS: TEXT}, [OURS])
    apply(planned)
    assert files_below(tmp_path) == {OURS: TEXT, OURS + ".rdmaops-backup": "# mine\noptions ib_core netns_mode=0\n"}


def test_an_absent_file_of_somebody_else_is_taken_over_with_a_copy(tmp_path: Path) -> None:
    write_tree(tmp_path, {OURS: "options ib_core netns_mode=0\n"})
    apply(make(tmp_path, "take_over", "absent"))
    assert files_below(tmp_path) == {OURS + ".rdmaops-backup": "options ib_core netns_mode=0\n"}


def test_our_path_is_a_link(tmp_path: Path) -> None:
    write_tree(tmp_path, {"/srv/x": TEXT, "/etc/modprobe.d/x": ""})
    (tmp_path / OURS[1:]).symlink_to("/dev/null")
    assert refused(tmp_path) == (
        f"{OURS} is a symbolic link to /dev/null, and writing would put a file in its place. Nothing has been changed. "
        "Remove the link, or set the parameter where it points to."
    )


@pytest.mark.parametrize("path", [A, LATER])
@pytest.mark.parametrize("state", ["present", "absent"])
@pytest.mark.parametrize("on_conflict", ["fail", "warn", "take_over"])
def test_binary_files_are_refused(tmp_path: Path, path: str, state: str, on_conflict: str) -> None:
    write_tree(tmp_path, {path: "options foo x=1\0", OURS: TEXT})
    assert refused(tmp_path, on_conflict, state) == UNREADABLE.replace(A, path)


# path, what is said of it
PATHS = ["/etc/a.conf", "/etc/modprobe.d/a", "/etc/modprobe.d/.a.conf", "a.conf", "/etc/modprobe.d/x/a.conf",
         "/etc/modprobe.d/../modprobe.d/a.conf", "/etc/modprobe.d//a.conf/", "", "/etc/modprobe.d/"]  # fmt: skip


@pytest.mark.parametrize("path", PATHS)
def test_paths_that_kmod_does_not_read(tmp_path: Path, path: str) -> None:
    assert message_of(PlanError, plan, str(tmp_path), "a", {"x": "1"}, path) == (
        f"{path}: kmod does not read this file. The path must end in .conf and be directly in one of "
        "/etc/modprobe.d, /run/modprobe.d, /usr/local/lib/modprobe.d, /usr/lib/modprobe.d, /lib/modprobe.d, best in the "
        "first."
    )


def test_a_path_that_an_old_kmod_does_not_read(tmp_path: Path) -> None:
    path = "/usr/local/lib/modprobe.d/a.conf"
    assert plan(str(tmp_path), "a", {"x": "1"}, path).changed
    write_tree(tmp_path, {"usr/lib64/libkmod.so.2.3.6": ""})
    assert message_of(PlanError, plan, str(tmp_path), "a", {"x": "1"}, path) == (
        f"{path}: the kmod of this system does not read this directory, which releases before 29 do not know. Put the "
        "file into /etc/modprobe.d."
    )


def test_a_path_that_another_file_hides(tmp_path: Path) -> None:
    write_tree(tmp_path, {"/etc/modprobe.d/x.conf": ""})
    assert message_of(PlanError, plan, str(tmp_path), "a", {"x": "1"}, "/usr/lib/modprobe.d/x.conf") == (
        "/usr/lib/modprobe.d/x.conf would not set x of a: /etc/modprobe.d/x.conf hides it, having the same name in a "
        "directory of higher priority. Nothing has been changed. Repair that first."
    )


@pytest.mark.parametrize("line", ["options ib_core y=1 --", 'options ib_core y="1'])
def test_an_earlier_line_that_swallows_ours(tmp_path: Path, line: str) -> None:
    write_tree(tmp_path, {A: line + "\n"})
    message = (
        f"{OURS} would not set netns_mode of ib_core: an earlier line ends the parameters with -- or opens a quote that it "
        "does not close. Nothing has been changed. Repair that first."
    )
    assert refused(tmp_path) == message
    write_tree(tmp_path, {OURS: TEXT})
    assert refused(tmp_path) == message


def test_an_install_command_is_told(tmp_path: Path) -> None:
    write_tree(tmp_path, {A: "install ib_core /bin/true\n"})
    planned = make(tmp_path)
    sentence = f"{A}:1 runs a command instead of loading ib_core: install ib_core /bin/true"
    assert install_command(planned.before, "ib-core") == sentence
    assert install_command(planned.before, "other") is None
    assert planned.warnings == [sentence + "; whether it passes parameters on is not known"]


@pytest.mark.parametrize("after", range(5))
def test_interrupted_between_any_two_writes(tmp_path: Path, after: int) -> None:
    """Whatever has been done by then, no file is half written, and the same task comes to the same end."""
    foreign = "options ib_core netns_mode=1 x=1\n"
    write_tree(tmp_path, {A: foreign, LATER: foreign})
    decision = Decision()
    add_to(make(tmp_path, "take_over"), decision)
    steps = decision._steps
    assert len(steps) == 5
    for step in steps[:after]:
        step.carry_out()
    for path, text in files_below(tmp_path).items():
        assert text in (foreign, TEXT, "options ib_core x=1\n"), path
    apply(make(tmp_path, "take_over"))
    assert files_below(tmp_path) == {
        OURS: TEXT,
        A: "options ib_core x=1\n",
        A + ".rdmaops-backup": foreign,
        LATER: "options ib_core x=1\n",
        LATER + ".rdmaops-backup": foreign,
    }
    assert not make(tmp_path).changed


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_tree(tmp_path, {OURS: TEXT})
    planned = make(tmp_path, netns_mode="1")

    def refuse(_old: str, _new: str) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(_files.os, "rename", refuse)
    message = message_of(FileError, apply, planned)
    assert message == f"Writing {tmp_path}{OURS}: No space left on device; free some space"
    assert files_below(tmp_path) == {OURS: TEXT}


# text, parameters that go, what is left
WITHOUT = [
    ("options a x=1\n", [("a", "x")], ""),
    ("options a x=1", [("a", "x")], ""),
    ("options a x=1 y=2\n", [("a", "x")], "options a y=2\n"),
    ("options a x=1 y=2\n", [("a", "y")], "options a x=1\n"),
    ("options a x=1 y=2\n", [("a", "x"), ("a", "y")], ""),
    ("options a\tx=1\t y=2  z=3 \n", [("a", "y")], "options a\tx=1  z=3 \n"),
    ("options a x=1 \\\n  y=2 \\\n  z=3\n# end", [("a", "y")], "options a x=1 \\\n \\\n  z=3\n# end"),
    ("options a x=1 \\\n  y=2\n# end", [("a", "y")], "options a x=1 \\\n\n# end"),
    ("options a x=1 y\\\n=\\\n2 z=3\n", [("a", "y")], "options a x=1 z=3\n"),
    ("options a \\\nx=1\noptions b x=1\n", [("a", "x")], "options b x=1\n"),
    ('options a "x=1 2" y="3 4"\n', [("a", "x")], 'options a y="3 4"\n'),
    ('options a "x=1 2" y="3 4"\n', [("a", "y")], 'options a "x=1 2"\n'),
    ("# options a x=1\noptions b x=1\n", [("a", "x")], "# options a x=1\noptions b x=1\n"),
    ("options a-b x-y=1 z=1\r\n", [("a_b", "x_y")], "options a-b z=1\r\n"),
    ("options a ü=1 x=ä y=ö\n", [("a", "x")], "options a ü=1 y=ö\n"),
    ("options a x=1 y=\\\\ z=1\\\\\n", [("a", "x")], "options a y=\\\\ z=1\\\\\n"),
    ("options a x=1\ry=2\r\n", [("a", "x")], "options a \ry=2\r\n"),
    ("options a x=1\ry=2\r\n", [("a", "y")], "options a x=1\r\r\n"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "gone", "expected"), WITHOUT)
def test_without(text: str, gone: list[tuple[str, str]], expected: str) -> None:
    assert without(text, gone) == expected


@SLOW
@given(
    st.lists(
        st.sampled_from(["options a ", "options b ", "x=1", " y=2", "\\\n", "\n", " ", "\t", "# ", "\r"]), max_size=30
    )
)
def test_without_takes_out_that_and_nothing_else(pieces: list[str]) -> None:
    text = "".join(pieces)
    rest = without(text, {("a", "x")})
    before, after = ([row[3:] for row in parse(A, content)] for content in (text, rest))
    assert after == [row for row in before if row[:2] != ("a", "x")]
    assert without(rest, {("a", "x")}) == rest


@SLOW
@given(st.text(), st.sampled_from(["x", "y"]))
def test_without_never_fails(text: str, name: str) -> None:
    without(text, {("a", name)})
    without("options a " + text, {("a", name)})
