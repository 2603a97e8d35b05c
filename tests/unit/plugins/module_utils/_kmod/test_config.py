# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What kmod makes of modprobe.d. That the rules are kmod's is proven in tests/integration/test_modprobe_oracle.py."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._kmod import config
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._kmod.cmdline import cmdline_settings
from ansible_collections.rdmaops.gpu_fabric.tests.support.trees import write_tree

# A busy machine is no reason to fail.
SLOW = hypothesis_settings(deadline=None)

A = "/etc/modprobe.d/a.conf"
B = "/etc/modprobe.d/b.conf"
NOT_TEXT = "it is not a text file (it has control characters), and what kmod makes of it is not known"
NOT_UTF8 = "it is not a text file (it is not UTF-8), and what kmod makes of it is not known"

# text, (line, module, name, value) of each assignment
PARSED = [
    ("options ib_core netns_mode=0\n", [(1, "ib_core", "netns_mode", "0")]),
    ("# one\n\noptions ib-core netns-mode=0 x=1", [(3, "ib_core", "netns_mode", "0"), (3, "ib_core", "x", "1")]),
    (
        "options ib_core \\\n  netns_mode=0 \\\n\tx=1\noptions foo y=2\n",
        [(2, "ib_core", "netns_mode", "0"), (3, "ib_core", "x", "1"), (4, "foo", "y", "2")],
    ),
    # The line is that on which the word begins.
    ("options a b=1 netns_mo\\\nde=0\n", [(1, "a", "b", "1"), (1, "a", "netns_mode", "0")]),
    ("options a x=1\r\n", [(1, "a", "x", "1")]),
    ('options a x="b c" "y=d e"\n', [(1, "a", "x", "b c"), (1, "a", "y", "d e")]),
    ("options a flag\n", [(1, "a", "flag", "1")]),
    ("options a größe=ü\n", [(1, "a", "größe", "ü")]),
    # The second byte of an à is a no-break space in Latin-1, and therefore a space to the kernel.
    ("options a à=1\n", [(1, "a", "\udcc3", "1"), (1, "a", "=1", "1")]),
    ("options a x=1 --=2 y=3\n", [(1, "a", "x", "1"), (1, "a", "__", "2"), (1, "a", "y", "3")]),
    ("options a\noptions\n  # options a x=1\nblacklist a\n", []),
    ("options a x=1 -- y=2\noptions a z=3\n", [(1, "a", "x", "1")]),
    ('options a x="1\noptions a y=2\noptions b z=3\n', [(1, "a", "x", "1 y=2 "), (3, "b", "z", "3")]),
    ("options a x=1\0 y=2\noptions b z=3\n", [(1, "a", "x", "1"), (2, "b", "z", "3")]),
]


@pytest.mark.parametrize(("text", "expected"), PARSED)
def test_parse(text: str, expected: list[tuple[int, str, str, str]]) -> None:
    lines = text.split("\n")
    assert config.parse(A, text) == [config.Assignment(A, line, lines[line - 1], *words) for line, *words in expected]


@SLOW
@given(st.text())
def test_any_text_is_parsed(text: str) -> None:
    for assignment in config.parse(A, text):
        assert 1 <= assignment.line <= text.count("\n") + 1
        assert text.split("\n")[assignment.line - 1] == assignment.text


@SLOW
@given(st.binary())
def test_any_bytes_are_parsed(data: bytes) -> None:
    text = data.decode("utf-8", "surrogateescape")
    config.parse(A, "options a " + text)
    config.parse(A, text)
    for start, end, _name, _value in config.words(text):
        assert 0 <= start < end <= len(text)
    cmdline_settings(text, "a")
    cmdline_settings(text, "a", builtin=True)
    config.from_texts({A: text, B: text}, "a")


@SLOW
@given(
    st.dictionaries(
        st.sampled_from([A, B, "/run/modprobe.d/a.conf"]), st.text("opins abcfu=\\\n\"'#-_=\t", max_size=60)
    )
)
def test_a_module_given_first_or_last_is_the_same(texts: dict[str, str]) -> None:
    texts = {path: text.replace("f", "options a ") for path, text in texts.items()}
    assert config.settings(config.from_texts(texts, "a"), "a") == config.settings(config.from_texts(texts), "a")


def test_settings_and_history() -> None:
    tree = config.from_texts({B: "options a-b x-y=2\n", A: "options a_b x_y=1 z=0\n"}, "a_b")
    assert tree.files == [A, B]
    assert [assignment.value for assignment in config.history(tree, "a-b", "x-y")] == ["1", "2"]
    assert {name: (assignment.value, assignment.path) for name, assignment in config.settings(tree, "a-b").items()} == {
        "x_y": ("2", B),
        "z": ("0", A),
    }


def test_files_elsewhere_and_of_other_names_do_not_count() -> None:
    tree = config.from_texts(
        dict.fromkeys(("/etc/modules", "/etc/modprobe.d/sub/a.conf", A + ".bak"), "options a x=1\n")
    )
    assert (tree.files, tree.assignments, tree.unreadable) == ([], [], [])


def test_a_file_in_etc_hides_one_of_its_name_in_lib() -> None:
    tree = config.from_texts(
        {"/lib/modprobe.d/a.conf": "options a x=lib\n", A: "", "/usr/lib/modprobe.d/b.conf": "options a y=1\n"}
    )
    assert tree.files == [A, "/usr/lib/modprobe.d/b.conf"]
    assert list(config.settings(tree, "a")) == ["y"]


# a name in a line of options, the module that it is for
@pytest.mark.parametrize(
    ("name", "module"),
    [
        ("my-alias", "my_alias"),
        ("a-[b-c]-d", "a_[b-c]_d"),
        ("[-][-]-", "[-][-]_"),
        ("a-[b", None),
        ("a]-b", None),
        ("[a]-]", None),
    ],
)
def test_dashes_in_brackets_stay(name: str, module: str | None) -> None:
    assert [assignment.module for assignment in config.parse(A, f"options {name} x=1\n")] == (
        [module] if module else []
    )


def test_an_alias_brings_its_options_along() -> None:
    texts = {A: "options other x=1\noptions my-alias x=2\n", B: "alias my-alias a-b\ninstall a_b /bin/true\t1\n"}
    tree = config.from_texts(texts, "a_b")
    assert [(assignment.module, assignment.value) for assignment in tree.assignments] == [("my_alias", "2")]
    assert [(line.command, line.module, line.rest) for line in tree.directives] == [
        ("options", "my_alias", "x=2"),
        ("alias", "my_alias", "a-b"),
        ("install", "a_b", "/bin/true\t1"),
    ]
    assert config.settings(tree, "a_b") == {}


# text, what is wrong with it
TEXTS = [
    ("options a x=1\n", None),
    ("options a x=größe\n\f\v\t\r\n", None),
    ("# Gr\udcfc\udcdfe\noptions a x=1\n", None),
    ("options a x=\udcfc\n", NOT_UTF8),
    ("options a x=1\0\n", NOT_TEXT),
    ("\x1f\x8b\x08", NOT_TEXT),
    ("# \x7f\n", NOT_TEXT),
]


@pytest.mark.parametrize(("text", "problem"), TEXTS)
def test_binary_files_are_found(text: str, problem: str | None) -> None:
    tree = config.from_texts({A: text, B: "options a y=1\n"})
    assert tree.unreadable == ([] if problem is None else [(A, problem)])
    assert B in tree.files
    assert (A in tree.files) is (problem is None)


def test_a_hidden_binary_file_does_no_harm() -> None:
    assert config.from_texts({"/lib/modprobe.d/a.conf": "\0", A: "options a x=1\n"}).unreadable == []


def link(root: Path, path: str, target: str) -> None:
    (root / path[1:]).parent.mkdir(parents=True, exist_ok=True)
    (root / path[1:]).symlink_to(target)


def test_nothing_there(tmp_path: Path) -> None:
    tree = config.read_tree(str(tmp_path), module="a")
    assert (tree.files, tree.assignments, tree.unreadable) == ([], [], [])


def test_planned_files_are_laid_over_those_there(tmp_path: Path) -> None:
    write_tree(tmp_path, {A: "options a x=1\n", B: "options a x=2\n"})
    planned = {
        A: "options a x=3\n",
        B: None,
        "/run/modprobe.d/c.conf": "options a y=4\n",
        "/lib/modprobe.d/a.conf": "x",
    }
    tree = config.read_tree(str(tmp_path), planned, "a")
    assert {name: assignment.value for name, assignment in config.settings(tree, "a").items()} == {"x": "3", "y": "4"}
    assert (tmp_path / A[1:]).read_text() == "options a x=1\n"


def test_a_planned_file_takes_the_place_of_a_broken_one(tmp_path: Path) -> None:
    write_tree(tmp_path, {A: b"\0"})
    assert config.read_tree(str(tmp_path)).unreadable == [(A, NOT_TEXT)]
    assert config.read_tree(str(tmp_path), {A: "options a x=1\n"}).unreadable == []


def test_lib_is_usr_lib_on_a_merged_usr(tmp_path: Path) -> None:
    write_tree(tmp_path, {"/usr/lib/modprobe.d/a.conf": "options a x=1\n"})
    link(tmp_path, "/lib", "/usr/lib")
    assert config.read_tree(str(tmp_path)).files == ["/usr/lib/modprobe.d/a.conf"]
    tree = config.read_tree(str(tmp_path), {"/lib/modprobe.d/a.conf": "options a x=2\n"})
    assert [(assignment.path, assignment.value) for assignment in tree.assignments] == [
        ("/usr/lib/modprobe.d/a.conf", "2")
    ]
    assert config.canonical(str(tmp_path), "/lib/modprobe.d/a.conf") == "/usr/lib/modprobe.d/a.conf"
    assert config.canonical(str(tmp_path), A) == A


def test_links_are_followed_inside_the_root(tmp_path: Path) -> None:
    write_tree(tmp_path, {"/srv/real.conf": "options a x=1\n", "/lib/modprobe.d/null.conf": "options a y=1\n"})
    link(tmp_path, A, "/srv/real.conf")
    link(tmp_path, "/etc/modprobe.d/null.conf", "/dev/null")
    tree = config.read_tree(str(tmp_path))
    assert [(assignment.path, assignment.name) for assignment in tree.assignments] == [(A, "x")]
    assert tree.unreadable == []


def test_a_link_to_nowhere_counts_only_where_it_may_hide_a_file(tmp_path: Path) -> None:
    link(tmp_path, A, "/nowhere")
    assert config.read_tree(str(tmp_path)).unreadable == []
    write_tree(tmp_path, {"/lib/modprobe.d/a.conf": "options a x=1\n"})
    assert config.read_tree(str(tmp_path)).unreadable == [(A, "it is a symbolic link to nowhere")]


def test_a_link_loop_is_unreadable(tmp_path: Path) -> None:
    link(tmp_path, A, "b.conf")
    link(tmp_path, B, "a.conf")
    unreadable = config.read_tree(str(tmp_path)).unreadable
    assert [path for path, _error in unreadable] == [A, B]
    assert unreadable[0][1].endswith("too many levels of symbolic links")


def test_a_named_pipe_is_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / A[1:]).parent.mkdir(parents=True)
    os.mkfifo(tmp_path / A[1:])
    assert config.read_tree(str(tmp_path)).unreadable == [(A, "it is not a regular file")]


def test_a_directory_that_is_a_file(tmp_path: Path) -> None:
    write_tree(tmp_path, {"/etc/modprobe.d": "options a x=1\n"})
    assert config.read_tree(str(tmp_path)).unreadable == [("/etc/modprobe.d/*.conf", "Not a directory")]


def test_what_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_tree(tmp_path, {A: "options a x=1\n"})
    real_open = open

    def refuse(path: object, *args: object, **kwargs: object) -> object:
        if str(path).endswith("a.conf"):
            raise PermissionError(13, "Permission denied", str(path))
        return real_open(path, *args, **kwargs)  # type: ignore[call-overload]

    monkeypatch.setattr("builtins.open", refuse)
    assert config.read_tree(str(tmp_path)).unreadable == [(A, "Permission denied; run as root (become: true)")]


# libkmod's files; whether kmod reads /usr/local/lib/modprobe.d. As `chroot DIR modprobe --showconfig` of Debian's kmod
# 28-1, 30+20221128-1 and 34.2-2 shows.
LIBRARIES = [
    (["usr/lib64/libkmod.so.2.3.3"], False),  # kmod 25 of RHEL 8
    (["usr/lib64/libkmod.so.2.3.6", "usr/lib64/libkmod.so.2"], False),  # kmod 28 of RHEL 9
    ([f"usr/lib/{os.uname().machine}-linux-gnu/libkmod.so.2.3.6"], False),
    (["lib/libkmod.so.2.3.7"], True),  # kmod 29
    (["usr/lib64/libkmod.so.2.4.0"], True),
    (["usr/lib64/libkmod.so.2.4.1", "usr/lib64/libkmod.so.2"], True),  # kmod 31 of RHEL 10
    (["usr/lib64/libkmod.so.2.3.6", "usr/lib64/libkmod.so.2.5.1"], True),
    (["usr/lib64/libkmod.so.2.3.6.bak", "usr/lib64/libkmod.so.2.x.6"], True),
    ([], True),
]


@pytest.mark.parametrize(("libraries", "read"), LIBRARIES)
def test_usr_local_is_read_since_kmod_29(tmp_path: Path, libraries: list[str], read: bool) -> None:
    local = "/usr/local/lib/modprobe.d/l.conf"
    write_tree(tmp_path, {local: "options a x=1\n", A: "options a y=2\n", **dict.fromkeys(libraries, "")})
    tree = config.read_tree(str(tmp_path))
    assert tree.files == [A, *([local] if read else [])]
    assert {name: setting.value for name, setting in config.settings(tree, "a").items()} == {
        "y": "2",
        **({"x": "1"} if read else {}),
    }


@pytest.mark.parametrize("name", ["a", ".a.conf", ".conf", "a.conf~", "a.conf.rdmaops-backup", "a.CONF", "conf"])
def test_other_names_are_no_configuration(name: str) -> None:
    assert not config.is_conf(name)


# value, what every kernel makes of it, and what the newest do
BOOLEANS = [
    ("1", True, True), ("y", True, True), ("Y", True, True), ("yes", True, True), ("on", True, True), ("ON", True, True),
    ("0", False, False), ("n", False, False), ("N", False, False), ("off", False, False), ("Of", False, False),
    ("true", None, True), ("T", None, True), ("false", None, False), ("f", None, False), ("enabled", None, True),
    ("D", None, False), ("", None, None), ("2", None, None), ("o", None, None), ("ox", None, None), (" 1", None, None),
    ("10", True, True), ("-1", None, None), (None, None, None),
]  # fmt: skip


@pytest.mark.parametrize(("value", "every", "newest"), BOOLEANS)
def test_kernel_bool(value: str | None, every: bool | None, newest: bool | None) -> None:
    assert config.kernel_bool(value) is every
    assert config.kernel_bool(value, newest=True) is newest


# one, other, the same
SAME = [
    ("1", "1", True), ("1", "Y", True), ("N", "0", True), ("off", "N", True), ("Y", "N", False), ("1", "y", False),
    ("1", "2", False), ("2", "Y", False), (None, None, True), (None, "N", False), ("x", "Y", False), ("", "N", False),
    # What sysfs shows is what the kernel has made of it.
    ("true", "Y", True), ("false", "N", True), ("enabled", "Y", True), ("f", "Y", False),
]  # fmt: skip


@pytest.mark.parametrize(("value", "other", "expected"), SAME)
def test_same_value(value: str | None, other: str | None, expected: bool) -> None:
    assert config.same_value(value, other) is expected
    assert config.same_value(other, value) is expected


# command line, settings of ib_core by kmod, settings if it is built in
CMDLINES = [
    ("ro quiet", {}, {}),
    ("ib_core.netns_mode=0", {"netns_mode": "0"}, {"netns_mode": "0"}),
    ("ib-core.netns-mode=0 ib_core.x", {"netns_mode": "0", "x": "1"}, {"netns_mode": "0", "x": "1"}),
    ('ib_core.x="a b" "ib_core.y=c d"', {"x": "a b", "y": "c d"}, {"x": "a b", "y": "c d"}),
    ("ib_core.x=1 -- ib_core.y=2", {"x": "1", "y": "2"}, {"x": "1"}),
    ("ib_core.x=1 ib_core.x=2 my_ib_core.x=3", {"x": "2"}, {"x": "2"}),
    ("ib_core.x.y=1", {}, {"x.y": "1"}),
]


@pytest.mark.parametrize(("text", "by_kmod", "builtin"), CMDLINES)
def test_cmdline_settings(text: str, by_kmod: dict[str, str], builtin: dict[str, str]) -> None:
    assert cmdline_settings(text, "ib-core") == by_kmod
    assert cmdline_settings(text, "ib_core", builtin=True) == builtin


def test_kmod_reads_4095_bytes_of_the_command_line() -> None:
    text = "x" * 4080 + " ib_core.x=1234567"
    assert cmdline_settings(text, "ib_core") == {"x": "1234"}
    assert cmdline_settings("ü" * 2040 + " ib_core.x=1234567", "ib_core") == {"x": "1234"}


def test_render() -> None:
    options = {"b": "x y", "a": "1", "c": "back\\slash", "d": "", "e": "à"}
    assert config.render("ib_core", options, "# header") == (
        '# header\noptions ib_core a=1\noptions ib_core b="x y"\noptions ib_core c=back\\\\slash\n'
        'options ib_core d=\noptions ib_core e="à"\n'
    )


VALUES = st.text(st.characters(exclude_characters='"', exclude_categories=["Cc", "Cs"]))


@SLOW
@given(st.dictionaries(st.from_regex("[a-z_][a-z0-9_]*", fullmatch=True), VALUES, min_size=1))
def test_what_is_rendered_is_what_is_read(options: dict[str, str]) -> None:
    text = config.render("a", options, "# header")
    assert {assignment.name: assignment.value for assignment in config.parse(A, text)} == options
