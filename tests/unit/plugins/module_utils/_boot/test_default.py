# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The default boot entry: which loader, ostree, what cannot be read, and the cache."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._boot import efi
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._boot import loader as boot_loader
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._boot.default import default_entry
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._boot.entry import BootEntry, Machine
from ansible_collections.rdmaops.gpu_fabric.tests.support.trees import write_tree
from ansible_collections.rdmaops.gpu_fabric.tests.unit.plugins.module_utils._boot.boot_tree import MENU, boot


def test_ostree(tmp_path: Path) -> None:
    default = boot(
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
        boot_is_mount=True,
    )
    assert (default.kind, default.kernel_version) == ("ostree", "6.14.0")
    assert default.cmdline == "rw ostree=/ostree/boot.1/fedora/0 ib_core.netns_mode=0"
    assert default.problem == (
        "The kernel arguments and the initramfs belong to an ostree deployment: a change creates a new one"
    )


def test_nothing(tmp_path: Path) -> None:
    assert default_entry(str(tmp_path), Machine()) == BootEntry("unknown", problem=boot_loader.NOTHING_FOUND)


def test_unreadable(tmp_path: Path) -> None:
    (tmp_path / "boot/grub/grub.cfg").mkdir(parents=True)
    default = default_entry(str(tmp_path), Machine())
    assert (default.kind, default.cmdline) == ("unknown", None)
    assert default.problem == f"Reading {tmp_path}/boot/grub/grub.cfg: Is a directory"


STRAY = "menuentry 'Old' { linux /vmlinuz-0.9 ib_core.netns_mode=1 }\n"
BOTH = {"boot/grub/grub.cfg": STRAY, "boot/grub2/grub.cfg": MENU, "boot/vmlinuz-1.0": "x", "boot/vmlinuz-0.9": "x"}


@pytest.mark.parametrize("efi", [False, True])
def test_two_configurations_of_grub_that_differ(tmp_path: Path, efi: bool) -> None:
    default = boot(tmp_path, BOTH, efi=efi)
    assert (default.kind, default.cmdline) == ("unknown", None)
    assert default.problem == (
        "Two configurations of GRUB were found, and it cannot be determined which is used: /boot/grub/grub.cfg and "
        "/boot/grub2/grub.cfg; remove the one that is not"
    )


def test_two_configurations_of_grub_that_are_the_same(tmp_path: Path) -> None:
    default = boot(tmp_path, {**BOTH, "boot/grub/grub.cfg": MENU}, boot_is_mount=True)
    assert (default.source, default.cmdline, default.problem) == ("/boot/grub/grub.cfg", "here", None)


def test_the_file_on_the_efi_partition_leads_to_one_of_two_configurations(tmp_path: Path) -> None:
    stub = "search.fs_uuid 5a1c7a42-0f2c-4f29-9c80-6a1ad2f0a004 root hd0,gpt2\nset prefix=($root)'/grub2'\n"
    default = boot(tmp_path, {**BOTH, "boot/efi/EFI/redhat/grub.cfg": stub}, efi=True, boot_is_mount=True)
    assert (default.source, default.cmdline) == ("/boot/grub2/grub.cfg", "here")


def test_machine_of_an_image(tmp_path: Path) -> None:
    write_tree(tmp_path, {"boot/efi/EFI/x": "x"})
    machine = Machine.of(str(tmp_path))
    assert (machine.efi, machine.boot_is_mount, machine.ostree, machine.loader) == (True, False, False, {})


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


@settings(max_examples=150, deadline=None)
@given(st.binary())
def test_any_bytes(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    root = tmp_path_factory.mktemp("root")
    write_tree(
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
