# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The default boot entry: GRUB, BLS, systemd-boot, unified images."""

from __future__ import annotations

import json
import os
import struct
import time
import typing as t
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._boot import bls, efi, grub_shell
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._boot import loader as boot_loader
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._boot.default import default_entry
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._boot.entry import BootEntry, Machine

FIXTURES = Path(__file__).parents[1] / "fixtures" / "boot"
NEWER = "6.12.107+deb13-amd64"
OLDER = "6.12.99+deb13-amd64"
DEBIAN = "root=/dev/vda ro console=ttyS0,115200 ib_core.netns_mode=1 quiet"


def tree(root: Path, files: t.Mapping[str, str | bytes]) -> None:
    for name, content in files.items():
        path = root / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())


def grubenv(**variables: str) -> str:
    text = "# GRUB Environment Block\n" + "".join(f"{name}={value}\n" for name, value in variables.items())
    return text.ljust(1024, "#")


def debian(root: Path, config: str = "grub-2.12-debian13-default.cfg", **env: str) -> BootEntry:
    tree(
        root,
        {
            "boot/grub/grub.cfg": (FIXTURES / config).read_text(),
            **{f"boot/{name}-{version}": "x" for name in ("vmlinuz", "initrd.img") for version in (NEWER, OLDER)},
        },
    )
    if env:
        tree(root, {"boot/grub/grubenv": grubenv(**env)})
    return default_entry(str(root), Machine())


def test_debian(tmp_path: Path) -> None:
    tree(tmp_path, {"etc/default/grub": ""})
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
    found = debian(tmp_path, "grub-2.12-debian13-saved.cfg", **env)
    assert (found.kernel_version, found.line, found.problem) == (version, line, None)


def test_recorded_grubenv(tmp_path: Path) -> None:
    text = (FIXTURES / "grubenv-2.12-saved").read_text()
    assert grub_shell.read_grubenv(text) == {"saved_entry": (f"{ADVANCED}>{OLD}", 3), "odd": ("a\\b\nc#d", 4)}
    tree(tmp_path, {"boot/grub/grubenv": text})
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
    tree(tmp_path, dict.fromkeys(files, "x"))
    tree(tmp_path, {"boot/grub/grub.cfg": (FIXTURES / "grub-2.12-debian13-separate-boot.cfg").read_text()})
    found = default_entry(str(tmp_path), Machine(boot_is_mount=mounted))
    assert (found.kernel, found.initrd, found.cmdline) == (kernel, ("/boot/initrd.img-" + NEWER,), DEBIAN)


@pytest.mark.parametrize("path", ["/@/boot/vmlinuz-5.1", "/BOOT/debian_1@/vmlinuz-5.1", "(hd0,gpt2)/boot/vmlinuz-5.1"])
def test_subvolumes(tmp_path: Path, path: str) -> None:
    tree(
        tmp_path,
        {"boot/vmlinuz-5.1": "x", "boot/grub/grub.cfg": f"menuentry a {{\nlinux {path} ro\n}}\n"},
    )
    found = default_entry(str(tmp_path), Machine())
    assert (found.kernel, found.kernel_version, found.remedy) == (
        "/boot/vmlinuz-5.1",
        "5.1",
        "edit /boot/grub/grub.cfg",
    )


def test_ubuntu_without_initrd(tmp_path: Path) -> None:
    text = (FIXTURES / "handmade-ubuntu2404.cfg").read_text()
    tree(tmp_path, {"boot/grub/grub.cfg": text, "boot/vmlinuz-6.8.0-45-generic": "x"})
    found = default_entry(str(tmp_path), Machine(boot_is_mount=True))
    assert found.cmdline == (
        "root=PARTUUID=5a1c7a42-0f2c-4f29-9c80-6a1ad2f0a003 ro console=tty1 console=ttyS0 vt.handoff=7 panic=-1"
    )
    assert (found.initrd, found.problem, found.kernel_version) == ((), None, "6.8.0-45-generic")
    assert found.where("vt.handoff=7") == ("/boot/grub/grub.cfg", 51)
    assert found.where("panic=-1") == ("/boot/grub/grub.cfg", found.line)


def test_ubuntu_after_a_failed_boot_without_initrd(tmp_path: Path) -> None:
    tree(
        tmp_path,
        {
            "boot/grub/grub.cfg": (FIXTURES / "handmade-ubuntu2404.cfg").read_text(),
            "boot/grub/grubenv": grubenv(initrdfail="1", recordfail="1"),
            "boot/vmlinuz-6.8.0-45-generic": "x",
            "boot/initrd.img-6.8.0-45-generic": "x",
        },
    )
    found = default_entry(str(tmp_path), Machine(boot_is_mount=True))
    assert found.cmdline == "root=LABEL=cloudimg-rootfs ro console=tty1 console=ttyS0"
    assert found.initrd == ("/boot/initrd.img-6.8.0-45-generic",)


def test_two_images_and_a_quoted_argument(tmp_path: Path) -> None:
    tree(
        tmp_path,
        {
            "boot/grub/grub.cfg": (FIXTURES / "handmade-ubuntu2404.cfg").read_text(),
            "boot/grub/grubenv": grubenv(next_entry="1>0"),
            "boot/vmlinuz-6.8.0-45-generic": "x",
            "boot/initrd.img-6.8.0-45-generic": "x",
            "boot/microcode.cpio": "x",
        },
    )
    found = default_entry(str(tmp_path), Machine(boot_is_mount=True))
    assert found.cmdline == (
        'root=LABEL=cloudimg-rootfs ro console=tty1 "dyndbg=file drivers/infiniband/* +p" vt.handoff=7'
    )
    assert found.initrd == ("/boot/microcode.cpio", "/boot/initrd.img-6.8.0-45-generic")


RHEL_ID = "2f9f6f3c7d1e4b6e8f3a4d5c6b7a8990"


def rhel8(root: Path, mounted: bool = True, options: str = "$kernelopts $tuned_params", **env: str) -> BootEntry:
    versions = ["4.18.0-553.8.1.el8_10.x86_64", "4.18.0-553.22.1.el8_10.x86_64", "0-rescue"]
    files: dict[str, str | bytes] = {
        "boot/grub2/grub.cfg": (FIXTURES / "handmade-rhel8.cfg").read_text(),
        "boot/grub2/grubenv": grubenv(**env),
    }
    for version in versions:
        files[f"boot/vmlinuz-{version}"] = "x"
        files[f"boot/initramfs-{version}.img"] = "x"
        files[f"boot/loader/entries/{RHEL_ID}-{version}.conf"] = (
            f"title Red Hat Enterprise Linux ({version}) 8.10 (Ootpa)\nversion {version}\n"
            f"linux /vmlinuz-{version}\ninitrd /initramfs-{version}.img $tuned_initrd\n"
            f"options {options}\nid rhel-20240101-{version}\ngrub_users $grub_users\n"
        )
    tree(root, files)
    return default_entry(str(root), Machine(boot_is_mount=mounted))


def test_rhel8_newest_by_rpm_order(tmp_path: Path) -> None:
    found = rhel8(tmp_path)
    version = "4.18.0-553.22.1.el8_10.x86_64"
    assert found.kernel == f"/boot/vmlinuz-{version}"
    assert found.source == f"/boot/loader/entries/{RHEL_ID}-{version}.conf"
    assert (found.kind, found.line, found.kernel_version) == ("bls", 5, version)
    assert found.cmdline == "root=/dev/mapper/rhel-root ro crashkernel=auto rd.lvm.lv=rhel/root rhgb quiet"
    assert found.where("quiet") == ("/boot/grub2/grub.cfg", 62)
    assert found.remedy == "grubby --update-kernel=ALL --remove-args=... removes an argument from every entry"


def test_rhel8_saved_entry_and_grubenv(tmp_path: Path) -> None:
    version = "4.18.0-553.8.1.el8_10.x86_64"
    found = rhel8(
        tmp_path,
        saved_entry=f"{RHEL_ID}-{version}",
        kernelopts="root=/dev/mapper/rhel-root ro ib_core.netns_mode=1 ",
        tuned_params="isolcpus=2-3",
    )
    assert found.cmdline == "root=/dev/mapper/rhel-root ro ib_core.netns_mode=1 isolcpus=2-3"
    assert found.kernel_version == version
    assert found.where("ib_core.netns_mode=1") == ("/boot/grub2/grubenv", 3)


def test_rhel9_options_in_the_entry(tmp_path: Path) -> None:
    found = rhel8(tmp_path, options="root=/dev/sda3 ro ib_core.netns_mode=1 $tuned_params", tuned_params="nohz=on")
    assert found.cmdline == "root=/dev/sda3 ro ib_core.netns_mode=1 nohz=on"
    assert found.where("ib_core.netns_mode=1") == (found.source, 5)


@pytest.mark.parametrize("default", ["2f9f6f3c7d1e4b6e8f3a4d5c6b7a8990-0-rescue", "2"])
def test_rhel_ids_come_before_numbers(tmp_path: Path, default: str) -> None:
    found = rhel8(tmp_path, saved_entry=default)
    assert found.kernel_version == "0-rescue"


def test_rhel8_boot_counter(tmp_path: Path) -> None:
    # 08_fallback_counting: the counter ran out without a good boot, so entry 1 is taken.
    found = rhel8(tmp_path, boot_counter="0", boot_success="0")
    assert found.kernel_version == "4.18.0-553.8.1.el8_10.x86_64"


def test_rhel_initrd_with_a_variable_is_found(tmp_path: Path) -> None:
    # "initrd /initramfs-V.img $tuned_initrd" of RHEL is one value of the entry; GRUB's parser splits it.
    found = rhel8(tmp_path)
    assert found.initrd == ("/boot/initramfs-4.18.0-553.22.1.el8_10.x86_64.img",)
    assert found.problem is None


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
    "~1",
    "ab",
    "abb",
    "abc",
    "0001",
    "002",
    "12",
    "122",
    "122.9",
    "123~rc1",
    "123",
    "123-a",
    "123-a.1",
    "123-a1",
    "123-a1.1",
    "123-3",
    "123-3.1",
    "123^patch1",
    "123^1",
    "123.a-1",
    "123.1-1",
    "123a-1",
    "124",
]


def test_version_order_rising() -> None:
    for number, one in enumerate(RISING):
        for two in RISING[number + 1 :]:
            assert (one, two, bls.version_compare(one, two)) == (one, two, -1)
            assert (two, one, bls.version_compare(two, one)) == (two, one, 1)


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
    for one, two, expected in pairs:
        assert (one, two, bls.version_compare(one, two)) == (one, two, expected)
        assert (two, one, bls.version_compare(two, one)) == (two, one, -expected)


def test_grub_stops_at_an_empty_line_and_systemd_boot_does_not() -> None:
    text = "title A\nlinux /l\noptions a\noptions b\n\ninitrd /i\n"
    grub = bls.parse_entry("/e/x.conf", text, grub=True)
    other = bls.parse_entry("/e/x.conf", text, grub=False)
    assert grub is not None
    assert other is not None
    assert (grub.options, grub.initrd, grub.id) == ([(3, "a")], [], "x")
    assert (other.options, other.initrd, other.id) == ([(3, "a"), (4, "b")], ["/i"], "x.conf")


def entry(version: str, **keys: str) -> str:
    lines = [f"title OS {version}", f"version {version}", f"linux /{version}/linux", f"initrd /{version}/initrd"]
    return "\n".join(lines + [f"{key.replace('_', '-')} {value}" for key, value in keys.items()]) + "\n"


def systemd_boot(root: Path, loader: str, entries: t.Mapping[str, str], **variables: str) -> BootEntry:
    files: dict[str, str | bytes] = {"efi/loader/loader.conf": loader}
    for name, text in entries.items():
        files[f"efi/loader/entries/{name}"] = text
        version = text.split("version ")[1].split("\n")[0]
        files[f"efi/{version}/linux"] = files[f"efi/{version}/initrd"] = "x"
    tree(root, files)
    return default_entry(str(root), Machine(efi=True, loader={"LoaderInfo": "systemd-boot 257", **variables}))


BOTH = {
    "m-6.10.0.conf": entry("6.10.0", sort_key="debian", machine_id="m", options="quiet"),
    "m-6.9.0.conf": entry("6.9.0", sort_key="debian", machine_id="m", options="loud"),
}
SYSTEMD_BOOT_CASES = [
    # loader.conf, entries, EFI variables, version
    ("timeout 3\n", BOTH, {}, "6.10.0"),
    ("default m-6.9*\n", BOTH, {}, "6.9.0"),
    ("# default m-6.9*\ndefault nothing*\n", BOTH, {}, "6.10.0"),
    ("default m-6.10*\n", BOTH, {"LoaderEntryDefault": "m-6.9.0.conf"}, "6.9.0"),
    ("", BOTH, {"LoaderEntryDefault": "m-6.10.0.conf", "LoaderEntryOneShot": "m-6.9.0.conf"}, "6.9.0"),
    ("default @saved\n", BOTH, {"LoaderEntryLastBooted": "m-6.9.0.conf"}, "6.9.0"),
    ("", {"a.conf": entry("1"), "b.conf": entry("2")}, {}, "2"),
    ("", {"z.conf": entry("1"), "a.conf": entry("2", sort_key="k")}, {}, "2"),
    ("", {"z+0-3.conf": entry("2"), "a.conf": entry("1")}, {}, "1"),
    ("", {"z+3.conf": entry("2"), "a.conf": entry("1")}, {}, "2"),
]


@pytest.mark.parametrize(("loader", "entries", "variables", "version"), SYSTEMD_BOOT_CASES)
def test_systemd_boot(
    tmp_path: Path, loader: str, entries: dict[str, str], variables: dict[str, str], version: str
) -> None:
    found = systemd_boot(tmp_path, loader, entries, **variables)
    assert (found.kind, found.kernel, found.initrd) == ("bls", f"/efi/{version}/linux", (f"/efi/{version}/initrd",))
    assert (found.kernel_version, found.problem) == (version, None)


def test_systemd_boot_joins_options(tmp_path: Path) -> None:
    text = entry("6.1.0", options="root=/dev/sda2 ro") + "options ib_core.netns_mode=1\n"
    found = systemd_boot(tmp_path, "", {"x.conf": text})
    assert found.cmdline == "root=/dev/sda2 ro ib_core.netns_mode=1"
    assert found.where("ib_core.netns_mode=1") == ("/efi/loader/entries/x.conf", 6)


def uki(sections: t.Mapping[str, bytes]) -> bytes:
    """A PE file with these sections, and nothing that could run."""
    headers, data = b"", b""
    start = 0x40 + 24 + 16 + 40 * len(sections)
    for name, content in sections.items():
        headers += struct.pack("<8sIIII16x", name.encode(), len(content), 0, len(content), start + len(data))
        data += content
    coff = struct.pack("<HHIIIHH", 0x8664, len(sections), 0, 0, 0, 16, 0)
    return b"MZ".ljust(0x3C, b"\0") + struct.pack("<I", 0x40) + b"PE\0\0" + coff + bytes(16) + headers + data


LINUX = {".linux": b"x", ".uname": b"6.12.1", ".osrel": b'ID=debian\nPRETTY_NAME="Debian 13"\nVERSION_ID=13\n'}


def test_unified_image(tmp_path: Path) -> None:
    tree(tmp_path, {"boot/efi/EFI/Linux/debian-6.12.1.efi": uki({**LINUX, ".cmdline": b"root=/dev/sda2 quiet\n\0"})})
    path = "/boot/efi/EFI/Linux/debian-6.12.1.efi"
    assert default_entry(str(tmp_path), Machine(efi=True)) == BootEntry(
        kind="uki",
        source=path,
        cmdline="root=/dev/sda2 quiet",
        kernel=path,
        kernel_version="6.12.1",
        title="Debian 13",
        problem=f"The initramfs is part of the unified kernel image {path} and is not inspected",
        parts=((path, 0, "root=/dev/sda2 quiet"),),
        remedy="change /etc/kernel/cmdline and rebuild the image (kernel-install add, or dracut --uefi)",
    )


UKI_CASES = [
    # content of the file, problem
    (b"", "%s is not a unified kernel image: it has no .linux section"),
    (b"MZ", "%s is not a unified kernel image: it has no .linux section"),
    (uki({".text": b"x"}), "%s is not a unified kernel image: it has no .linux section"),
    (uki(LINUX), "The unified kernel image %s has no command line: the boot loader sets it"),
]


@pytest.mark.parametrize(("content", "problem"), UKI_CASES)
def test_strange_unified_images(tmp_path: Path, content: bytes, problem: str) -> None:
    tree(tmp_path, {"efi/EFI/Linux/a.efi": content})
    found = default_entry(str(tmp_path), Machine(efi=True))
    assert (found.kind, found.cmdline, found.problem) == ("uki", None, problem % "/efi/EFI/Linux/a.efi")


def test_ostree(tmp_path: Path) -> None:
    tree(
        tmp_path,
        {
            "boot/grub2/grub.cfg": "blscfg\n",
            "boot/loader/entries/ostree-1.conf": (
                "title Fedora CoreOS 42\nversion 1\noptions rw ostree=/ostree/boot.1/fedora/0 ib_core.netns_mode=0\n"
                "linux /ostree/fedora-1/vmlinuz-6.14.0\ninitrd /ostree/fedora-1/initramfs-6.14.0.img\n"
            ),
            "boot/ostree/fedora-1/vmlinuz-6.14.0": "x",
            "boot/ostree/fedora-1/initramfs-6.14.0.img": "x",
        },
    )
    found = default_entry(str(tmp_path), Machine(boot_is_mount=True))
    assert (found.kind, found.kernel_version) == ("ostree", "6.14.0")
    assert found.cmdline == "rw ostree=/ostree/boot.1/fedora/0 ib_core.netns_mode=0"
    assert found.problem == (
        "The kernel arguments and the initramfs belong to an ostree deployment: a change creates a new one"
    )


MENU = "menuentry 'Linux' { linux /vmlinuz-1.0 here }\n"


def test_efi_stub_leads_to_the_real_file(tmp_path: Path) -> None:
    stub = (
        "search.fs_uuid 5a1c7a42-0f2c-4f29-9c80-6a1ad2f0a004 root hd0,gpt2\n"
        "set prefix=($root)'/grub2'\nconfigfile $prefix/grub.cfg\n"
    )
    tree(
        tmp_path,
        {"boot/efi/EFI/redhat/grub.cfg": stub, "boot/grub2/grub.cfg": MENU, "boot/vmlinuz-1.0": "x"},
    )
    found = default_entry(str(tmp_path), Machine(efi=True, boot_is_mount=True))
    assert (found.source, found.cmdline) == ("/boot/grub2/grub.cfg", "here")


def test_efi_configuration_of_rhel8(tmp_path: Path) -> None:
    tree(tmp_path, {"boot/efi/EFI/redhat/grub.cfg": MENU, "boot/grub2/grub.cfg": "menuentry x { linux /old }\n"})
    assert default_entry(str(tmp_path), Machine(efi=True)).source == "/boot/efi/EFI/redhat/grub.cfg"
    assert default_entry(str(tmp_path), Machine(efi=False)).source == "/boot/grub2/grub.cfg"


def test_several_efi_configurations(tmp_path: Path) -> None:
    tree(tmp_path, {"boot/efi/EFI/redhat/grub.cfg": MENU, "boot/efi/EFI/fedora/grub.cfg": MENU})
    assert default_entry(str(tmp_path), Machine(efi=True)).problem == (
        "Several boot loader configurations were found, and it cannot be determined which is used: "
        "/boot/efi/EFI/fedora/grub.cfg, /boot/efi/EFI/redhat/grub.cfg"
    )
    tree(tmp_path, {"etc/os-release": 'NAME="RHEL"\nID="rhel"\n'})
    assert default_entry(str(tmp_path), Machine(efi=True)).source == "/boot/efi/EFI/redhat/grub.cfg"


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
    tree(
        tmp_path,
        {
            "boot/grub/grub.cfg": script,
            "boot/grub/more.cfg": "menuentry m { linux /k more }",
            "k": "x",
            "i": "x",
            "xen.gz": "x",
        },
    )
    found = default_entry(str(tmp_path), Machine())
    assert (found.cmdline, found.problem) == (cmdline, None)


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
    tree(tmp_path, {"boot/grub/grub.cfg": script})
    assert default_entry(str(tmp_path), Machine()).problem == problem


def test_missing_initramfs(tmp_path: Path) -> None:
    tree(tmp_path, {"boot/grub/grub.cfg": "menuentry a {\nlinux /k x\ninitrd /i\n}", "k": "x"})
    found = default_entry(str(tmp_path), Machine())
    assert (found.cmdline, found.initrd) == ("x", ())
    assert found.problem == "The initramfs /i, which /boot/grub/grub.cfg loads, was not found"


def test_nothing(tmp_path: Path) -> None:
    assert default_entry(str(tmp_path), Machine()) == BootEntry("unknown", problem=boot_loader.NOTHING_FOUND)


def test_unreadable(tmp_path: Path) -> None:
    (tmp_path / "boot/grub/grub.cfg").mkdir(parents=True)
    found = default_entry(str(tmp_path), Machine())
    assert (found.kind, found.cmdline) == ("unknown", None)
    assert found.problem == f"Reading {tmp_path}/boot/grub/grub.cfg: Is a directory"


def test_links_stay_inside_the_root(tmp_path: Path) -> None:
    tree(
        tmp_path,
        {"boot/vmlinuz-9.9": "x", "boot/grub/real.cfg": "menuentry a { linux /vmlinuz here }"},
    )
    (tmp_path / "vmlinuz").symlink_to("/boot/vmlinuz-9.9")
    (tmp_path / "boot/grub/grub.cfg").symlink_to("/boot/grub/real.cfg")
    found = default_entry(str(tmp_path), Machine())
    assert (found.kernel, found.kernel_version) == ("/vmlinuz", "9.9")


def test_version_from_the_boot_header(tmp_path: Path) -> None:
    image = bytearray(0x4000)
    image[0x202:0x206] = b"HdrS"
    image[0x20E:0x210] = (0x3000 - 0x200).to_bytes(2, "little")
    image[0x3000:0x3020] = b"6.7.8-custom (root@build) #1 SMP".ljust(32, b"\0")
    tree(tmp_path, {"boot/grub/grub.cfg": "menuentry a { linux /bzImage x }", "bzImage": bytes(image)})
    assert default_entry(str(tmp_path), Machine()).kernel_version == "6.7.8-custom"


def test_machine_of_an_image(tmp_path: Path) -> None:
    tree(tmp_path, {"boot/efi/EFI/x": "x"})
    found = Machine.of(str(tmp_path))
    assert (found.efi, found.boot_is_mount, found.ostree, found.loader) == (True, False, False, {})


class TestCache:
    """The running system's answer is remembered until a file that it rests on changes."""

    @pytest.fixture
    def config(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        config = tmp_path / "grub.cfg"
        self.write(config, "one")
        monkeypatch.setattr(boot_loader, "GRUB_CONFIGS", (str(config),))
        return config

    @staticmethod
    def write(config: Path, word: str) -> None:
        config.write_text(f"menuentry a {{ linux {config} {word} }}")
        os.utime(config, ns=(0, time.time_ns() - 60 * 10**9))

    @staticmethod
    def age(monkeypatch: pytest.MonkeyPatch) -> None:
        """Let the clock be a minute ahead, so that what was just written is not too fresh to remember."""
        now = time.time_ns()
        monkeypatch.setattr(time, "time_ns", lambda: now + 60 * 10**9)

    def test_remembered_until_changed(self, config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.age(monkeypatch)
        cache = str(config.parent / "run" / "boot.json")
        first = default_entry("/", Machine(), cache)
        assert (first.cmdline, first.problem) == ("one", None)
        kept = json.loads(Path(cache).read_text())
        kept["value"]["entry"][3] = "from the cache"
        Path(cache).write_text(json.dumps(kept))
        assert default_entry("/", Machine(), cache).cmdline == "from the cache"
        assert default_entry("/", Machine(efi=True), cache).cmdline == "one"
        Path(cache).write_text(json.dumps(kept))
        self.write(config, "two")
        assert default_entry("/", Machine(), cache).cmdline == "two"

    def test_a_new_file_counts(self, config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.age(monkeypatch)
        config.write_text(f"if [ -e {config}.more ]; then v=more; fi; menuentry a {{ linux {config} x$v }}")
        cache = str(config.parent / "boot.json")
        assert default_entry("/", Machine(), cache).cmdline == "x"
        Path(f"{config}.more").touch()
        assert default_entry("/", Machine(), cache).cmdline == "xmore"

    def test_too_fresh_to_remember(self, config: Path) -> None:
        cache = config.parent / "boot.json"
        assert default_entry("/", Machine(), str(cache)).cmdline == "one"
        assert not cache.exists()

    @pytest.mark.parametrize("content", ["", "[]", "{}", "null", '{"format": 1, "key": 1}', "\x00", "[" * 100000])
    def test_a_broken_cache_is_ignored(self, config: Path, content: str) -> None:
        cache = config.parent / "boot.json"
        cache.write_text(content)
        cache.chmod(0o600)
        assert default_entry("/", Machine(), str(cache)).cmdline == "one"

    def test_a_foreign_cache_is_ignored(self, config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.age(monkeypatch)
        cache = config.parent / "boot.json"
        default_entry("/", Machine(), str(cache))
        cache.write_text(cache.read_text().replace('"one"', '"evil"'))
        cache.chmod(0o666)
        assert default_entry("/", Machine(), str(cache)).cmdline == "one"
        cache.chmod(0o600)
        monkeypatch.setattr(os, "geteuid", lambda: 12345)
        assert default_entry("/", Machine(), str(cache)).cmdline == "one"

    def test_a_place_that_cannot_be_written(self, config: Path) -> None:
        (config.parent / "file").touch()
        assert default_entry("/", Machine(), str(config.parent / "file" / "boot.json")).cmdline == "one"


WORDS = st.sampled_from(
    [
        *[
            "menuentry",
            "submenu",
            "a",
            "'b_c'",
            "${y}",
            "{",
            "}",
            ";",
            "if",
            "then",
            "fi",
            "else",
            "elif",
            "[",
            "]",
            "-f",
            "=",
            "!",
            "(",
            ")",
            "-a",
            "-o",
            "linux",
            "/k",
            "initrd",
            "set",
            "x=1",
        ],
        *[
            "default=0",
            "function",
            "f",
            "$1",
            "while",
            "do",
            "done",
            "for",
            "in",
            "until",
            "blscfg",
            "load_env",
            "source",
            "--id",
            "--source",
            "return",
            "#",
            "\\",
        ],
        '"$x y"',
        "\n",
    ]
)


@settings(max_examples=150, deadline=None)
@given(st.one_of(st.text(), st.lists(WORDS, max_size=40).map(" ".join)), st.text())
def test_any_grub_text(tmp_path_factory: pytest.TempPathFactory, config: str, env: str) -> None:
    root = tmp_path_factory.mktemp("root")
    for name, text in (("grub.cfg", config), ("grubenv", "# GRUB Environment Block\n" + env)):
        tree(root, {f"boot/grub/{name}": text.encode("utf-8", "surrogateescape")})
    assert isinstance(default_entry(str(root), Machine()), BootEntry)
    assert isinstance(grub_shell.read_grubenv(env), dict)


@settings(max_examples=150, deadline=None)
@given(st.binary())
def test_any_bytes(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    root = tmp_path_factory.mktemp("root")
    tree(
        root,
        {
            "boot/grub/grub.cfg": "load_env\nset default=${saved_entry}\nblscfg\n" + MENU,
            "boot/grub/grubenv": data,
            "boot/loader/entries/a.conf": data,
            "boot/loader/entries/b.conf": b"linux /k\noptions " + data,
            "boot/loader/loader.conf": data,
            "efi/EFI/Linux/a.efi": b"MZ" + data,
        },
    )
    assert isinstance(default_entry(str(root), Machine()), BootEntry)
    assert isinstance(default_entry(str(root), Machine(loader={"LoaderInfo": "systemd-boot"})), BootEntry)
    assert isinstance(efi.pe_sections(data), dict)


@given(st.text(), st.text())
def test_any_versions(one: str, two: str) -> None:
    for compare in (grub_compare, bls.version_compare):
        assert compare(one, one) == 0
        assert compare(one, two) == -compare(two, one)
