# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""systemd-boot, unified kernel images, and GRUB's configuration on the EFI partition."""

from __future__ import annotations

import struct
import typing as t
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._boot.entry import BootEntry
from ansible_collections.rdmaops.gpu_fabric.tests.unit.plugins.module_utils._boot.boot_tree import MENU, boot


def entry(version: str, **keys: str) -> str:
    lines = [f"title OS {version}", f"version {version}", f"linux /{version}/linux", f"initrd /{version}/initrd"]
    return "\n".join(lines + [f"{key.replace('_', '-')} {value}" for key, value in keys.items()]) + "\n"


def systemd_boot(root: Path, loader: str, entries: t.Mapping[str, str], **variables: str) -> BootEntry:
    files: dict[str, str | bytes] = {"efi/loader/loader.conf": loader}
    for name, text in entries.items():
        files[f"efi/loader/entries/{name}"] = text
        version = text.split("version ")[1].split("\n")[0]
        files[f"efi/{version}/linux"] = files[f"efi/{version}/initrd"] = "x"
    return boot(root, files, efi=True, loader={"LoaderInfo": "systemd-boot 257", **variables})


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
    default = systemd_boot(tmp_path, loader, entries, **variables)
    assert (default.kind, default.kernel_version, default.problem) == ("bls", version, None)
    assert (default.kernel, default.initrd) == (f"/efi/{version}/linux", (f"/efi/{version}/initrd",))


def test_systemd_boot_joins_options(tmp_path: Path) -> None:
    text = entry("6.1.0", options="root=/dev/sda2 ro") + "options ib_core.netns_mode=1\n"
    default = systemd_boot(tmp_path, "", {"x.conf": text})
    assert default.cmdline == "root=/dev/sda2 ro ib_core.netns_mode=1"
    assert default.where("ib_core.netns_mode=1") == ("/efi/loader/entries/x.conf", 6)


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
    path = "/boot/efi/EFI/Linux/debian-6.12.1.efi"
    assert boot(tmp_path, {path: uki({**LINUX, ".cmdline": b"root=/dev/sda2 quiet\n\0"})}, efi=True) == BootEntry(
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
    default = boot(tmp_path, {"efi/EFI/Linux/a.efi": content}, efi=True)
    assert (default.kind, default.cmdline, default.problem) == ("uki", None, problem % "/efi/EFI/Linux/a.efi")


# name of the variable in which systemd-stub names itself: of newer ones, and of older ones
@pytest.mark.parametrize("variable", ["StubImageIdentifier", "LoaderImageIdentifier"])
def test_a_unified_image_that_the_firmware_starts(tmp_path: Path, variable: str) -> None:
    """A grub.cfg of an earlier installation does not count."""
    files: dict[str, str | bytes] = {
        "boot/grub2/grub.cfg": MENU,
        "boot/vmlinuz-1.0": "x",
        "boot/efi/EFI/Linux/m-6.12.1.efi": uki({**LINUX, ".cmdline": b"root=/dev/sda2"}),
        "boot/efi/EFI/Linux/m-7.0.efi": uki({**LINUX, ".cmdline": b"newer"}),
    }
    loader = {"StubInfo": "systemd-stub 257", variable: "\\EFI\\Linux\\m-6.12.1.efi"}
    default = boot(tmp_path, files, efi=True, loader=loader)
    assert (default.kind, default.source, default.cmdline) == (
        "uki",
        "/boot/efi/EFI/Linux/m-6.12.1.efi",
        "root=/dev/sda2",
    )
    # GRUB's module bli and systemd-boot set LoaderInfo: then a loader has started the image.
    default = boot(tmp_path, {}, efi=True, loader={**loader, "LoaderInfo": "GRUB 2.12"}, boot_is_mount=True)
    assert default.source == "/boot/grub2/grub.cfg"


# path that the stub reports, problem
STARTED = [
    ("\\EFI\\Linux\\gone.efi", "/EFI/Linux/gone.efi, was not found on the mounted partitions; mount the EFI partition"),
    (None, "it did not report which one"),
]


@pytest.mark.parametrize(("path", "problem"), STARTED)
def test_a_unified_image_that_is_not_there(tmp_path: Path, path: str | None, problem: str) -> None:
    loader = {"StubInfo": "systemd-stub 252", **({"LoaderImageIdentifier": path} if path else {})}
    default = boot(tmp_path, {"boot/grub/grub.cfg": MENU, "boot/vmlinuz-1.0": "x"}, efi=True, loader=loader)
    assert (default.kind, default.cmdline) == ("uki", None)
    assert default.problem is not None
    assert default.problem.startswith("The firmware started a unified kernel image without a boot loader, and ")
    assert default.problem.endswith(problem)


ADDON = uki({".cmdline": b"ib_core.netns_mode=0"})
ADDONS = [
    # files beside the image, those that are named
    ({"boot/efi/EFI/Linux/a.efi.extra.d/x.addon.efi": ADDON}, "/boot/efi/EFI/Linux/a.efi.extra.d/x.addon.efi"),
    ({"boot/efi/EFI/Linux/b.efi.extra.d/x.addon.efi": ADDON}, None),
    ({"boot/efi/EFI/Linux/a.efi.extra.d/x.efi": ADDON}, None),
    ({"boot/efi/EFI/Linux/a.efi.extra.d/x.addon.efi": uki({".dtb": b"x"})}, None),
    (
        {"boot/efi/loader/addons/Y.ADDON.EFI": ADDON, "boot/efi/EFI/Linux/a.efi.extra.d/x.addon.efi": ADDON},
        "/boot/efi/loader/addons/Y.ADDON.EFI, /boot/efi/EFI/Linux/a.efi.extra.d/x.addon.efi",
    ),
]


@pytest.mark.parametrize("counter", ["", "+2-1"])
@pytest.mark.parametrize(("addons", "named"), ADDONS)
def test_addons_of_a_unified_image(
    tmp_path: Path, addons: dict[str, str | bytes], named: str | None, counter: str
) -> None:
    path = f"/boot/efi/EFI/Linux/a{counter}.efi"
    default = boot(tmp_path, {**addons, path: uki({**LINUX, ".cmdline": b"ib_core.netns_mode=1"})}, efi=True)
    if named is None:
        assert default.cmdline == "ib_core.netns_mode=1"
        return
    assert (default.kind, default.cmdline) == ("uki", None)
    assert default.problem == (
        f"The command line of the unified kernel image {path} is not known: it has addons ({named}), which systemd-stub "
        "appends if it is new enough and Secure Boot accepts their signatures"
    )


def test_efi_stub_leads_to_the_real_file(tmp_path: Path) -> None:
    stub = (
        "search.fs_uuid 5a1c7a42-0f2c-4f29-9c80-6a1ad2f0a004 root hd0,gpt2\n"
        "set prefix=($root)'/grub2'\nconfigfile $prefix/grub.cfg\n"
    )
    files = {"boot/efi/EFI/redhat/grub.cfg": stub, "boot/grub2/grub.cfg": MENU, "boot/vmlinuz-1.0": "x"}
    default = boot(tmp_path, files, efi=True, boot_is_mount=True)
    assert (default.source, default.cmdline) == ("/boot/grub2/grub.cfg", "here")


def test_efi_configuration_of_rhel8(tmp_path: Path) -> None:
    files = {"boot/efi/EFI/redhat/grub.cfg": MENU, "boot/grub2/grub.cfg": "menuentry x { linux /old }\n"}
    assert boot(tmp_path, files, efi=True).source == "/boot/efi/EFI/redhat/grub.cfg"
    assert boot(tmp_path, {}, efi=False).source == "/boot/grub2/grub.cfg"


def test_several_efi_configurations(tmp_path: Path) -> None:
    files = {"boot/efi/EFI/redhat/grub.cfg": MENU, "boot/efi/EFI/fedora/grub.cfg": MENU}
    assert boot(tmp_path, files, efi=True).problem == (
        "Several boot loader configurations were found, and it cannot be determined which is used: "
        "/boot/efi/EFI/fedora/grub.cfg, /boot/efi/EFI/redhat/grub.cfg"
    )
    rhel = boot(tmp_path, {"etc/os-release": 'NAME="RHEL"\nID="rhel"\n'}, efi=True)
    assert rhel.source == "/boot/efi/EFI/redhat/grub.cfg"
