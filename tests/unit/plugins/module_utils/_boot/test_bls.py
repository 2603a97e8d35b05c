# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The Boot Loader Specification as GRUB's blscfg reads it, and the order of versions."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._boot import bls
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._boot.entry import BootEntry
from ansible_collections.rdmaops.gpu_fabric.tests.unit.plugins.module_utils._boot.boot_tree import (
    FIXTURES,
    boot,
    grubenv,
)

RHEL_ID = "2f9f6f3c7d1e4b6e8f3a4d5c6b7a8990"
OLDER = "4.18.0-553.8.1.el8_10.x86_64"
NEWER = "4.18.0-553.22.1.el8_10.x86_64"


def rhel8(root: Path, options: str = "$kernelopts $tuned_params", **env: str) -> BootEntry:
    files: dict[str, str | bytes] = {
        "boot/grub2/grub.cfg": (FIXTURES / "handmade-rhel8.cfg").read_text(),
        "boot/grub2/grubenv": grubenv(**env),
    }
    for version in (OLDER, NEWER, "0-rescue"):
        files[f"boot/vmlinuz-{version}"] = "x"
        files[f"boot/initramfs-{version}.img"] = "x"
        files[f"boot/loader/entries/{RHEL_ID}-{version}.conf"] = (
            f"title Red Hat Enterprise Linux ({version}) 8.10 (Ootpa)\nversion {version}\n"
            f"linux /vmlinuz-{version}\ninitrd /initramfs-{version}.img $tuned_initrd\n"
            f"options {options}\nid rhel-20240101-{version}\ngrub_users $grub_users\n"
        )
    return boot(root, files, boot_is_mount=True)


def test_rhel8_newest_by_rpm_order(tmp_path: Path) -> None:
    default = rhel8(tmp_path)
    assert default.kernel == f"/boot/vmlinuz-{NEWER}"
    assert default.source == f"/boot/loader/entries/{RHEL_ID}-{NEWER}.conf"
    assert (default.kind, default.line, default.kernel_version) == ("bls", 5, NEWER)
    assert default.cmdline == "root=/dev/mapper/rhel-root ro crashkernel=auto rd.lvm.lv=rhel/root rhgb quiet"
    assert default.where("quiet") == ("/boot/grub2/grub.cfg", 62)
    assert default.remedy == "grubby --update-kernel=ALL --remove-args=... removes an argument from every entry"


def test_rhel8_saved_entry_and_grubenv(tmp_path: Path) -> None:
    default = rhel8(
        tmp_path,
        saved_entry=f"{RHEL_ID}-{OLDER}",
        kernelopts="root=/dev/mapper/rhel-root ro ib_core.netns_mode=1 ",
        tuned_params="isolcpus=2-3",
    )
    assert default.cmdline == "root=/dev/mapper/rhel-root ro ib_core.netns_mode=1 isolcpus=2-3"
    assert default.kernel_version == OLDER
    assert default.where("ib_core.netns_mode=1") == ("/boot/grub2/grubenv", 3)


def test_rhel9_options_in_the_entry(tmp_path: Path) -> None:
    default = rhel8(tmp_path, options="root=/dev/sda3 ro ib_core.netns_mode=1 $tuned_params", tuned_params="nohz=on")
    assert default.cmdline == "root=/dev/sda3 ro ib_core.netns_mode=1 nohz=on"
    assert default.where("ib_core.netns_mode=1") == (default.source, 5)


@pytest.mark.parametrize("default", ["2f9f6f3c7d1e4b6e8f3a4d5c6b7a8990-0-rescue", "2"])
def test_rhel_ids_come_before_numbers(tmp_path: Path, default: str) -> None:
    assert rhel8(tmp_path, saved_entry=default).kernel_version == "0-rescue"


def test_rhel8_boot_counter(tmp_path: Path) -> None:
    # 08_fallback_counting: the counter ran out without a good boot, so entry 1 is taken.
    assert rhel8(tmp_path, boot_counter="0", boot_success="0").kernel_version == OLDER


def test_rhel_initrd_with_a_variable_is_found(tmp_path: Path) -> None:
    # "initrd /initramfs-V.img $tuned_initrd" of RHEL is one value of the entry; GRUB's parser splits it.
    default = rhel8(tmp_path)
    assert (default.initrd, default.problem) == ((f"/boot/initramfs-{NEWER}.img",), None)


ORDER_CASES = [
    # left, right, result of blscfg.c's comparison
    ("a-5.14.0-427.13.1.el9", "a-5.14.0-70.el9", 1),
    ("a-4.18.0-9.el8", "a-4.18.0-10.el8", -1),
    ("a-0-rescue", "a-4.18.0-1", -1),
    ("a-5.0.0-1", "a-5.0.0~rc1-1", 1),
    ("a-5.0.0-1", "a-5.0.0-1", 0),
    ("5.1", "5.1", 0),
    ("a-1.0-1+debug", "a-1.0-1", 1),
]


def grub_compare(left: str, right: str) -> int:
    a, b = bls.grub_key(left), bls.grub_key(right)
    return (a > b) - (a < b)


@pytest.mark.parametrize(("left", "right", "expected"), ORDER_CASES)
def test_grub_order(left: str, right: str, expected: int) -> None:
    assert grub_compare(left, right) == expected
    assert grub_compare(right, left) == -expected


# systemd's own cases (src/test/test-string-util.c, strverscmp_improved): each is older than the next.
RISING = [
    "~1", "ab", "abb", "abc", "0001", "002", "12", "122", "122.9", "123~rc1", "123", "123-a", "123-a.1",
    "123-a1", "123-a1.1", "123-3", "123-3.1", "123^patch1", "123^1", "123.a-1", "123.1-1", "123a-1", "124",
]  # fmt: skip


def test_version_order_rising() -> None:
    for number, older in enumerate(RISING):
        for newer in RISING[number + 1 :]:
            assert (older, newer, bls.version_compare(older, newer)) == (older, newer, -1)
            assert (newer, older, bls.version_compare(newer, older)) == (newer, older, 1)


def test_version_order() -> None:
    pairs = [
        # one, two, result: the equalities and inequalities of the same page
        ("11", "11", 0),
        ("systemd-123", "systemd-123", 0),
        ("bar-123", "foo-123", -1),
        ("123a", "123", 1),
        ("123.a", "123", 1),
        ("123.a", "123.b", -1),
        ("123a", "123.a", 1),
        ("11α", "11β", 0),
        ("A", "a", -1),
        ("", "0", -1),
        ("0.", "0", 1),
        ("0.0", "0", 1),
        ("0", "~", 1),
        ("", "~", 1),
        ("1_", "1", 0),
        ("_1", "1", 0),
        ("1_", "1.2", -1),
        ("1_2_3", "1.3.3", 1),
        ("1+", "1", 0),
        ("+1", "1", 0),
        ("1+", "1.2", -1),
        ("1+2+3", "1.3.3", 1),
    ]
    for left, right, expected in pairs:
        assert (left, right, bls.version_compare(left, right)) == (left, right, expected)
        assert (right, left, bls.version_compare(right, left)) == (right, left, -expected)


def test_grub_stops_at_an_empty_line_and_systemd_boot_does_not() -> None:
    text = "title A\nlinux /l\noptions a\noptions b\n\ninitrd /i\n"
    grub = bls.parse_entry("/e/x.conf", text, grub=True)
    other = bls.parse_entry("/e/x.conf", text, grub=False)
    assert grub is not None
    assert other is not None
    assert (grub.options, grub.initrd, grub.id) == ([(3, "a")], [], "x")
    assert (other.options, other.initrd, other.id) == ([(3, "a"), (4, "b")], ["/i"], "x.conf")


@given(st.text(), st.text())
def test_any_versions(left: str, right: str) -> None:
    for compare in (grub_compare, bls.version_compare):
        assert compare(left, left) == 0
        assert compare(left, right) == -compare(right, left)
