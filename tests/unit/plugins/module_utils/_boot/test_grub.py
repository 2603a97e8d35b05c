# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""GRUB: the default entry of recorded configurations, and scripts run as GRUB runs them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._boot import grub_shell
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._boot.entry import BootEntry
from ansible_collections.rdmaops.gpu_fabric.tests.support.trees import write_tree
from ansible_collections.rdmaops.gpu_fabric.tests.unit.plugins.module_utils._boot.boot_tree import (
    FIXTURES,
    boot,
    grubenv,
)

NEWER = "6.12.107+deb13-amd64"


OLDER = "6.12.99+deb13-amd64"


DEBIAN = "root=/dev/vda ro console=ttyS0,115200 ib_core.netns_mode=1 quiet"


def debian(root: Path, config: str = "grub-2.12-debian13-default.cfg", **env: str) -> BootEntry:
    write_tree(
        root, {f"boot/{name}-{version}": "x" for name in ("vmlinuz", "initrd.img") for version in (NEWER, OLDER)}
    )
    if env:
        write_tree(root, {"boot/grub/grubenv": grubenv(**env)})
    return boot(root, {"boot/grub/grub.cfg": (FIXTURES / config).read_text()})


def test_debian(tmp_path: Path) -> None:
    write_tree(tmp_path, {"etc/default/grub": ""})
    assert debian(tmp_path) == BootEntry(
        kind="grub",
        source="/boot/grub/grub.cfg",
        line=90,
        cmdline=DEBIAN,
        kernel=f"/boot/vmlinuz-{NEWER}",
        kernel_version=NEWER,
        initrd=(f"/boot/initrd.img-{NEWER}",),
        title="Debian GNU/Linux",
        problem=None,
        parts=(("/boot/grub/grub.cfg", 90, DEBIAN),),
        remedy="change GRUB_CMDLINE_LINUX or GRUB_CMDLINE_LINUX_DEFAULT in /etc/default/grub and run update-grub",
    )


ADVANCED = "gnulinux-advanced-/dev/vda"


OLD = f"gnulinux-{OLDER}-advanced-/dev/vda"


SAVED_CASES = [
    # variables of grubenv, kernel version, line
    ({}, NEWER, 90),
    ({"saved_entry": "0"}, NEWER, 90),
    ({"saved_entry": "1"}, NEWER, 101),
    ({"saved_entry": "1>2"}, OLDER, 121),
    ({"saved_entry": "1>9"}, NEWER, 101),
    ({"saved_entry": "9"}, NEWER, 90),
    ({"saved_entry": f"{ADVANCED}>{OLD}"}, OLDER, 121),
    ({"saved_entry": f"Advanced options for Debian GNU/Linux>Debian GNU/Linux, with Linux {OLDER}"}, OLDER, 121),
    ({"saved_entry": f"1>{OLD}"}, OLDER, 121),
    # The entry of a submenu is not found in the main menu: the first entry is taken.
    ({"saved_entry": OLD}, NEWER, 90),
    ({"saved_entry": "gone"}, NEWER, 90),
    ({"next_entry": f"{ADVANCED}>{OLD}"}, OLDER, 121),
    ({"next_entry": "1>2", "saved_entry": "0"}, OLDER, 121),
    ({"next_entry": "", "saved_entry": "1>2"}, OLDER, 121),
]


@pytest.mark.parametrize(("env", "version", "line"), SAVED_CASES)
def test_saved(tmp_path: Path, env: dict[str, str], version: str, line: int) -> None:
    default = debian(tmp_path, "grub-2.12-debian13-saved.cfg", **env)
    assert (default.kernel_version, default.line, default.problem) == (version, line, None)


def test_recorded_grubenv(tmp_path: Path) -> None:
    text = (FIXTURES / "grubenv-2.12-saved").read_text()
    assert grub_shell.read_grubenv(text) == {"saved_entry": (f"{ADVANCED}>{OLD}", 3), "odd": ("a\\b\nc#d", 4)}
    write_tree(tmp_path, {"boot/grub/grubenv": text})
    assert debian(tmp_path, "grub-2.12-debian13-saved.cfg").kernel_version == OLDER


def test_grubenv_without_signature() -> None:
    assert grub_shell.read_grubenv("# Another Block\nsaved_entry=1\n") == {}


SEPARATE_CASES = [
    # where the files are, /boot is a mount, kernel found
    (["boot/vmlinuz-" + NEWER, "boot/initrd.img-" + NEWER], True, "/boot/vmlinuz-" + NEWER),
    (["boot/vmlinuz-" + NEWER, "boot/initrd.img-" + NEWER], False, "/boot/vmlinuz-" + NEWER),
    (["boot/vmlinuz-" + NEWER, "boot/initrd.img-" + NEWER, "vmlinuz-" + NEWER], True, "/boot/vmlinuz-" + NEWER),
    (["boot/vmlinuz-" + NEWER, "boot/initrd.img-" + NEWER, "vmlinuz-" + NEWER], False, "/vmlinuz-" + NEWER),
]


@pytest.mark.parametrize(("files", "mounted", "kernel"), SEPARATE_CASES)
def test_separate_boot(tmp_path: Path, files: list[str], mounted: bool, kernel: str) -> None:
    write_tree(tmp_path, dict.fromkeys(files, "x"))
    config = (FIXTURES / "grub-2.12-debian13-separate-boot.cfg").read_text()
    default = boot(tmp_path, {"boot/grub/grub.cfg": config}, boot_is_mount=mounted)
    assert (default.kernel, default.initrd, default.cmdline) == (kernel, ("/boot/initrd.img-" + NEWER,), DEBIAN)


UBUNTU = "6.8.0-45-generic"
UBUNTU_INITRD = f"/boot/initrd.img-{UBUNTU}"


def ubuntu(root: Path, *files: str, **env: str) -> BootEntry:
    write_tree(root, dict.fromkeys((f"boot/vmlinuz-{UBUNTU}", *files), "x"))
    if env:
        write_tree(root, {"boot/grub/grubenv": grubenv(**env)})
    config = (FIXTURES / "handmade-ubuntu2404.cfg").read_text()
    return boot(root, {"boot/grub/grub.cfg": config}, boot_is_mount=True)


def test_ubuntu_without_initrd(tmp_path: Path) -> None:
    default = ubuntu(tmp_path)
    assert default.cmdline == (
        "root=PARTUUID=5a1c7a42-0f2c-4f29-9c80-6a1ad2f0a003 ro console=tty1 console=ttyS0 vt.handoff=7 panic=-1"
    )
    assert (default.initrd, default.problem, default.kernel_version) == ((), None, UBUNTU)
    assert default.where("vt.handoff=7") == ("/boot/grub/grub.cfg", 51)
    assert default.where("panic=-1") == ("/boot/grub/grub.cfg", default.line)


def test_ubuntu_after_a_failed_boot_without_initrd(tmp_path: Path) -> None:
    default = ubuntu(tmp_path, UBUNTU_INITRD, initrdfail="1", recordfail="1")
    assert default.cmdline == "root=LABEL=cloudimg-rootfs ro console=tty1 console=ttyS0"
    assert default.initrd == (UBUNTU_INITRD,)


def test_two_images_and_a_quoted_argument(tmp_path: Path) -> None:
    default = ubuntu(tmp_path, UBUNTU_INITRD, "boot/microcode.cpio", next_entry="1>0")
    assert default.cmdline == (
        'root=LABEL=cloudimg-rootfs ro console=tty1 "dyndbg=file drivers/infiniband/* +p" vt.handoff=7'
    )
    assert default.initrd == ("/boot/microcode.cpio", UBUNTU_INITRD)


SCRIPT_CASES = [
    # grub.cfg, command line of the default entry
    ("menuentry a {\nlinux /k a\\ b 'c d' \"e $x f\" ${y}g\n}\nx=1\nset y='2 3'\n", '"a b" "c d" "e 1 f" 2 3g'),
    ("menuentry a { linux /k a=\\$b \"\\$c\" '$d' }", "a=$b $c $d"),
    ("menuentry a { linux /k a # not this\n}", "a"),
    ("menuentry a { linux /k a#this }", "a#this"),
    ("menuentry a { linux /k a \\\n b }", "a b"),
    ("menuentry a { linux /k a; echo b }", "a"),
    ("menuentry a { linux /k \"it's\" }", "it\\'s"),
    ("set default=b\nmenuentry a { linux /k 1 }\nmenuentry 'x' --id b { linux /k 2 }", "2"),
    ("set default='b>>c'\nmenuentry a { linux /k 1 }\nmenuentry 'b>c' { linux /k 2 }", "2"),
    ("default='s>1'\nsubmenu s {\nmenuentry a { linux /k 1 }\nmenuentry b { linux /k 2 }\n}", "2"),
    ("default=0x1\nmenuentry a { linux /k 1 }\nmenuentry b { linux /k 2 }", "2"),
    ("default=1a2b\nmenuentry a --id=1a2b { linux /k 1 }\nmenuentry b { linux /k 2 }", "2"),
    ("x='1 default=0'; set default=$x\nmenuentry a { linux /k 1 }\nmenuentry b { linux /k 2 }", "2"),
    ("set default=1; set default\nmenuentry a { linux /k 1 }\nmenuentry b { linux /k 2 }", "2"),
    ("for i in a b; do menuentry $i { linux /k x; }; done; set default=1", "x"),
    ("function f { set v=$1; return; set v=no; }\nf yes\nmenuentry a { linux /k $v }", "yes"),
    ("if [ -f /n -o ! -e /k ]; then v=1; elif [ 1 -lt 2 -a a ]; then v=2; fi\nmenuentry a { linux /k $v }", "2"),
    ("if false; then v=1; else if true; then v=2; fi; fi\nmenuentry a { linux /k $v }", "2"),
    ("if [ ( a = b -o c = c ) -a x ]; then v=1; fi\nmenuentry a { linux /k $v }", "1"),
    ("v=1\nwhile [ $v != 111 ]; do v=1$v; done\nmenuentry a { linux /k $v }", "111"),
    ("until true; do v=1; done\nmenuentry a { linux /k x$v }", "x"),
    ("menuentry a --source 'linux /k inline'\n", "inline"),
    ("source /boot/grub/more.cfg\n", "more"),
    ("configfile ($root)/boot/grub/more.cfg\nmenuentry late { linux /k late }\n", "more"),
    ("menuentry xen { multiboot2 /xen.gz dom0\nmodule2 --nounzip /k a b\nmodule2 /i }", "a b"),
    ("if [ $grub_platform = pc ]; then linux /k direct; boot; fi", "direct"),
    ("menuentry a {\r\n\tlinux /k a b\r\n}\r\n", "a b"),
]  # fmt: skip


@pytest.mark.parametrize(("script", "cmdline"), SCRIPT_CASES)
def test_script(tmp_path: Path, script: str, cmdline: str) -> None:
    write_tree(tmp_path, dict.fromkeys(("k", "i", "xen.gz"), "x"))
    default = boot(tmp_path, {"boot/grub/grub.cfg": script, "boot/grub/more.cfg": "menuentry m { linux /k more }"})
    assert (default.cmdline, default.problem) == (cmdline, None)


BROKEN_CASES = [
    # grub.cfg, problem
    ("", "/boot/grub/grub.cfg creates no menu entry"),
    ("menuentry 'a {", "/boot/grub/grub.cfg:1: a quotation mark is not closed"),
    ("\nmenuentry a {\nlinux /k", "/boot/grub/grub.cfg:3: expected '}' before the end of the file"),
    ("if true; then\n", "/boot/grub/grub.cfg:1: expected 'elif' before the end of the file"),
    ("echo }\n", "/boot/grub/grub.cfg:1: unexpected '}'"),
    ("function f { f; }\nf", "/boot/grub/grub.cfg: functions or files call each other endlessly"),
    ("while true; do true; done", "/boot/grub/grub.cfg:1: more than 50000 steps"),
    ("if true; then " * 60, "/boot/grub/grub.cfg:1: nested too deeply"),
    (
        "menuentry 'UEFI Firmware Settings' { fwsetup }",
        "The default entry 'UEFI Firmware Settings' of /boot/grub/grub.cfg does not itself boot a Linux kernel",
    ),
    ("submenu s { true }", "/boot/grub/grub.cfg: the default entry 's' is an empty submenu"),
    ("menuentry a { linux /gone x }", "The kernel /gone, which /boot/grub/grub.cfg boots, was not found"),
]


@pytest.mark.parametrize(("script", "problem"), BROKEN_CASES)
def test_broken(tmp_path: Path, script: str, problem: str) -> None:
    assert boot(tmp_path, {"boot/grub/grub.cfg": script}).problem == problem


WORDS = st.sampled_from([
    "menuentry", "submenu", "a", "'b_c'", "${y}", "{", "}", ";", "if", "then", "fi", "else", "elif", "[", "]", "-f", "=",
    "!", "(", ")", "-a", "-o", "linux", "/k", "initrd", "set", "x=1", "default=0", "function", "f", "$1", "while", "do",
    "done", "for", "in", "until", "blscfg", "load_env", "source", "--id", "--source", "return", "#", "\\", '"$x y"', "\n",
])  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(st.one_of(st.text(), st.lists(WORDS, max_size=40).map(" ".join)), st.text())
def test_any_grub_text(tmp_path_factory: pytest.TempPathFactory, config: str, env: str) -> None:
    root = tmp_path_factory.mktemp("root")
    files = {"boot/grub/grub.cfg": config, "boot/grub/grubenv": "# GRUB Environment Block\n" + env}
    entry = boot(root, {path: text.encode("utf-8", "surrogateescape") for path, text in files.items()})
    assert isinstance(entry, BootEntry)
    assert isinstance(grub_shell.read_grubenv(env), dict)
