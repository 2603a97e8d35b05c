# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The default boot entry, from configurations that the real GRUB tools write and check."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._boot import grub_shell, grub_syntax
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._boot.default import default_entry
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._boot.entry import Machine
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._boot.files import BootError
from ansible_collections.rdmaops.gpu_fabric.tests.support.debian_root import copy_of, inside, kernel

DEFAULTS = """
GRUB_DEFAULT={default}
GRUB_DISTRIBUTOR=Debian
GRUB_DISABLE_LINUX_UUID=true
GRUB_CMDLINE_LINUX_DEFAULT="quiet"
GRUB_CMDLINE_LINUX={arguments}
"""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = copy_of("initramfs-tools", tmp_path_factory.mktemp("root") / "debian")
    (path / "boot/grub").mkdir(exist_ok=True)
    # It wants a font and a picture that a root directory without a boot loader does not have.
    (path / "etc/grub.d/05_debian_theme").chmod(0o644)
    for name in ("vmlinuz", "initrd.img"):
        (path / f"boot/{name}-6.1.0-older").write_bytes(b"x")
    return path


def configure(root: Path, default: str = "0", arguments: str = '""') -> None:
    (root / "etc/default/grub").write_text(DEFAULTS.format(default=default, arguments=arguments))
    inside(root, "grub-mkconfig", "-o", "/boot/grub/grub.cfg")
    inside(root, "grub-script-check", "/boot/grub/grub.cfg")


def test_first_entry(root: Path) -> None:
    configure(root, arguments='"ib_core.netns_mode=1 console=ttyS0"')
    result = default_entry(str(root), Machine())
    version = kernel(root)
    assert (result.kind, result.kernel_version, result.problem) == ("grub", version, None)
    assert result.cmdline is not None
    assert result.cmdline.split()[-3:] == ["ib_core.netns_mode=1", "console=ttyS0", "quiet"]
    assert (result.kernel, list(result.initrd)) == (f"/boot/vmlinuz-{version}", [f"/boot/initrd.img-{version}"])
    path, line = result.where("ib_core.netns_mode=1")
    assert (path, line) == ("/boot/grub/grub.cfg", result.line)
    text = (root / "boot/grub/grub.cfg").read_text().splitlines()
    assert text[(line or 0) - 1].split()[:2] == ["linux", f"/boot/vmlinuz-{version}"]


def test_saved_and_next_entry(root: Path) -> None:
    configure(root, default="saved")
    text = (root / "boot/grub/grub.cfg").read_text()
    (submenu,) = [line.split("'")[3] for line in text.splitlines() if line.startswith("submenu")]
    (older,) = [
        line.split("'")[3] for line in text.splitlines() if "6.1.0-older-advanced" in line and "menuentry" in line
    ]

    def version() -> str | None:
        return default_entry(str(root), Machine()).kernel_version

    newest = kernel(root)
    (root / "boot/grub/grubenv").unlink(missing_ok=True)
    assert version() == newest
    inside(root, "grub-set-default", f"{submenu}>{older}")
    assert version() == "6.1.0-older"
    inside(root, "grub-set-default", "0")
    assert version() == newest
    inside(root, "grub-reboot", f"{submenu}>{older}")
    assert version() == "6.1.0-older"
    inside(root, "grub-editenv", "/boot/grub/grubenv", "unset", "next_entry")
    assert version() == newest


@pytest.mark.parametrize("value", ["plain", "a b  c", "back\\slash", "two\nlines", "#", "x=y=z", "a\\", "'\"$x`", "ä€"])
def test_grubenv(root: Path, value: str) -> None:
    (root / "tmp/env").unlink(missing_ok=True)
    inside(root, "grub-editenv", "/tmp/env", "create")
    inside(root, "grub-editenv", "/tmp/env", "set", "first=1", f"odd={value}", "last=2")
    result = grub_shell.read_grubenv((root / "tmp/env").read_text())
    assert {name: text for name, (text, _line) in result.items()} == {"first": "1", "odd": value, "last": "2"}


WORDS = st.sampled_from(
    ["menuentry", "a", "'b c'", '"$x y"', "${y}", "$z", "{", "}", ";", "\n", "if", "then", "fi", "else", "elif", "true",
     "[", "]", "set", "x=1", "function", "while", "until", "do", "done", "for", "in", "#c", "\\;", "a{b", "''"]
)  # fmt: skip


def test_scripts_that_grub_accepts_are_understood(root: Path, request: pytest.FixtureRequest) -> None:
    """grub-script-check is GRUB's own parser: what it takes, and we do not, would be a machine without an answer."""
    long = request.config.getoption("--long")
    texts: list[str] = []

    @settings(max_examples=4000 if long else 400, deadline=None, database=None, derandomize=not long)
    @given(st.lists(WORDS, max_size=14).map(" ".join))
    def collect(text: str) -> None:
        texts.append(text)

    collect()
    for number, text in enumerate(texts):
        (root / "tmp" / f"s{number}").write_text(text + "\n")
    script = (
        f"cd /tmp; for n in $(seq 0 {len(texts) - 1}); do grub-script-check s$n >/dev/null 2>&1 && echo $n; done; true"
    )
    accepted = [texts[int(number)] for number in inside(root, "sh", "-c", script).split()]
    assert len(accepted) > 20
    refused = []
    for text in accepted:
        try:
            grub_syntax.parse(text, "grub.cfg")
        except BootError as exc:
            refused.append((text, str(exc)))
    print(f"{len(accepted)} of {len(texts)} scripts are good ones")
    assert refused == []


def emulate(root: Path, script: str) -> str:
    """Let GRUB itself, built as a program (grub-emu), run a script as its grub.cfg, and return what it printed."""
    directory = root / "tmp/emu"
    directory.mkdir(exist_ok=True)
    (directory / "grub.cfg").write_text("terminal_output console\n" + script)
    # It wants a terminal, whose foreground it is to stay in whatever shell `script` takes, and breaks lines at its width.
    command = "stty cols 1000; TERM=dumb timeout --foreground 500 grub-emu -d /tmp/emu"
    printed = inside(root, "script", "-qec", command, "/dev/null")
    return re.sub(r"\x1b\[[0-9;]*[A-Za-z]|\r", "", printed)


MENU = """
menuentry 'A' --id a { linux /k "0" }
submenu 's' --id sub {
    menuentry 'x' --id 1a2b { linux /k "1>0" }
    menuentry 'Entry two' --id b { linux /k "1>1" }
    submenu deep {
        menuentry p { linux /k "1>2>0" }
        menuentry q { linux /k "1>2>1" }
    }
}
menuentry 'b>c' --id 6ab-5.1 { linux /k "2" }
menuentry 'sixth' --id 1a2b { linux /k "3" }
"""
DEFAULTS_SHORT = ["1>2>1", "s>Entry two", "sub>1", "b>>c", "1a2b", "6ab-5.1", "sixth", "1>>x"]
DEFAULTS_LONG = [
    "0", "1", "2", "1>1", "1>b", "0x1", "010", "08", "9", "gone", "1>9", " 1", "1 ", "-1", ">", "1>", ">1", "A>B", "2>0",
    "4294967297", "4294967295", "18446744073709551616", "0x", "+1", "sub>deep>q", "sub>>deep", "s>1a2b", "a", "A", "1 >1",
]  # fmt: skip


@pytest.mark.parametrize(
    "default", [*DEFAULTS_SHORT, *(pytest.param(value, marks=pytest.mark.long) for value in DEFAULTS_LONG)]
)
def test_grub_boots_the_entry_that_we_name(root: Path, default: str) -> None:
    script = f"set timeout=0\nset default='{default}'\n" + MENU
    printed = emulate(root, re.sub(r"linux /k (\S+)", r"echo BOOTS \1; exit", script))
    booted = re.search(r"BOOTS (\S+)", printed)
    assert booted, printed[-2000:]
    (root / "boot/grub/grub.cfg").write_text(script)
    (root / "k").touch()
    assert default_entry(str(root), Machine()).cmdline == booted[1]


NAMES = ["u", "v", "w"]
VALUES = st.sampled_from(
    ["1", "a", "'b c'", "$u", '"$v $u"', "${w}x", "''", "-x", "' y'", "!", "'z '", '"a  b"', "\\;", "$u$v", "x'y'\"$w\"",
     "10"]
)  # fmt: skip
ATOMS = st.one_of(
    st.tuples(VALUES, st.sampled_from(["=", "!=", "<", ">", "-lt", "-ge", "-eq", "-ne"]), VALUES).map(
        lambda words: " ".join(words).replace("<", "'<'").replace(">", "'>'")
    ),
    st.tuples(st.sampled_from(["-n", "-z", "! -n", "-f", "-d", "-e", "-s"]), VALUES).map(" ".join),
    VALUES,
    st.tuples(st.sampled_from(["-n", "-z", "!", "a ="]), VALUES).map(lambda words: f"( {words[0]} {words[1]} )"),
)
TESTS = st.lists(ATOMS, min_size=1, max_size=3).flatmap(
    lambda atoms: st.lists(st.sampled_from(["-a", "-o"]), min_size=len(atoms), max_size=len(atoms)).map(
        lambda joints: " ".join(word for pair in zip(atoms, joints, strict=True) for word in pair).rsplit(" ", 1)[0]
    )
)
ASSIGNMENTS = st.tuples(st.sampled_from(["set ", ""]), st.sampled_from(NAMES), VALUES).map(
    lambda words: f"{words[0]}{words[1]}={words[2]}"
)
STATEMENTS: st.SearchStrategy[str] = st.recursive(
    ASSIGNMENTS,
    lambda inner: st.one_of(
        st.tuples(TESTS, inner, inner).map(lambda parts: f"if [ {parts[0]} ]; then {parts[1]}; else {parts[2]}; fi"),
        st.tuples(TESTS, inner, TESTS, inner).map(
            lambda parts: f"if test {parts[0]}; then {parts[1]}; elif [ ! {parts[2]} ]; then {parts[3]}; fi"
        ),
        st.tuples(st.sampled_from(NAMES), st.lists(VALUES, max_size=3), inner).map(
            lambda parts: f"for {parts[0]} in {' '.join(parts[1])}; do {parts[2]}; done"
        ),
        st.tuples(inner, inner).map("\n".join),
    ),
    max_leaves=5,
)
# GRUB forgets a function that is defined inside of another statement.
SCRIPTS = st.one_of(
    STATEMENTS,
    st.tuples(STATEMENTS, st.lists(VALUES, max_size=3), STATEMENTS).map(
        lambda parts: f"function f {{ {parts[0]}; set v=$1; w=$2; }}\nf {' '.join(parts[1])}\n{parts[2]}"
    ),
)


def test_grub_computes_what_we_compute(root: Path, request: pytest.FixtureRequest) -> None:
    long = request.config.getoption("--long")
    texts: list[str] = []

    @settings(max_examples=3000 if long else 400, deadline=None, database=None, derandomize=not long)
    @given(SCRIPTS)
    def collect(text: str) -> None:
        texts.append(text)

    collect()
    script = ""
    for number, text in enumerate(texts):
        script += f"set u=1; set v='p q'; set w=\n{text}\necho \"R{number}<$u><$v><$w>\"\n"
    printed = emulate(root, script + "exit\n")
    answers = {int(number): values for number, values in re.findall(r"^R(\d+)(<.*>)$", printed, re.MULTILINE)}
    assert len(answers) == len(texts), printed[-3000:]
    different = []
    for number, text in enumerate(texts):
        env: dict[str, str] = grub_shell.variables(f"set u=1; set v='p q'; set w=\n{text}\n", str(root))
        ours = "".join(f"<{env.get(name, '')}>" for name in NAMES)
        if ours != answers[number]:
            different.append((text, answers[number], ours))
    assert different == []
