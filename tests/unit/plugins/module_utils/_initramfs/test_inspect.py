# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Images are looked into once, and again when a file changes."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._initramfs import reader
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._initramfs.contents import Contents, InitramfsError
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._initramfs.inspect import inspect, unfinished
from ansible_collections.rdmaops.gpu_fabric.tests.support.failures import message_of
from ansible_collections.rdmaops.gpu_fabric.tests.unit.plugins.module_utils._initramfs.images import (
    DEBIAN,
    EXPECTED,
    cpio,
)


def test_missing_and_not_a_file(tmp_path: Path) -> None:
    (tmp_path / "boot" / "d").mkdir(parents=True)
    for path, problem in {"/boot/gone": "No such file or directory", "/boot/d": "Is a directory"}.items():
        message = message_of(InitramfsError, inspect, [path], root=str(tmp_path), cache=None)
        assert message == f"Reading the initramfs {path}: {problem}"
    assert message_of(InitramfsError, inspect, []) == "The boot entry has no initramfs to look into"


def test_unfinished(tmp_path: Path) -> None:
    (tmp_path / "boot").mkdir()
    assert unfinished("/boot/i", str(tmp_path)) is False
    (tmp_path / "boot" / "i.rdmaops-unfinished").touch()
    assert unfinished("/boot/i", str(tmp_path)) is True


class TestCache:
    @pytest.fixture
    def image(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        path = tmp_path / "boot" / "initrd"
        path.parent.mkdir()
        path.write_bytes(cpio(*DEBIAN))
        now = time.time_ns()
        monkeypatch.setattr(time, "time_ns", lambda: now + 60 * 10**9)
        return path

    @staticmethod
    def look(image: Path) -> Contents:
        root = image.parents[1]
        return inspect(["/boot/initrd"], root=str(root), cache=str(root / "cache"))

    @staticmethod
    def cached(image: Path) -> Path:
        """Return the file in which the contents of the image are kept."""
        (path,) = (image.parents[1] / "cache").iterdir()
        return path

    def spoil(self, image: Path, kind: str) -> Path:
        """Look once, and put another kind into what was kept of it."""
        self.look(image)
        cached = self.cached(image)
        cached.write_text(cached.read_text().replace("initramfs-tools", kind))
        return cached

    def test_second_look_reads_no_image(self, image: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        first = self.look(image)
        assert (first.image, first.kind, first.modprobe) == ("/boot/initrd", EXPECTED.kind, EXPECTED.modprobe)
        monkeypatch.setattr(reader, "read", lambda _images: pytest.fail("the image was read again"))
        assert self.look(image) == first

    def test_mode(self, image: Path) -> None:
        self.look(image)
        assert self.cached(image).stat().st_mode & 0o777 == 0o600
        assert self.cached(image).parent.stat().st_mode & 0o777 == 0o700

    @pytest.mark.parametrize("how", ["touch", "replace", "longer"])
    def test_a_changed_image_is_read(self, image: Path, how: str) -> None:
        self.spoil(image, "from the cache")
        assert self.look(image).kind == "from the cache"
        if how == "touch":
            os.utime(image, ns=(0, 1))
        elif how == "replace":
            other = image.with_name("other")
            other.write_bytes(image.read_bytes())
            os.utime(other, ns=(image.stat().st_atime_ns, image.stat().st_mtime_ns))
            other.rename(image)
        else:
            with image.open("ab") as stream:
                stream.write(bytes(4))
        assert self.look(image).kind == "initramfs-tools"

    @pytest.mark.parametrize("content", ["", "{", "null", "[]", '{"format": 1}', "[" * 99999, "\xff"])
    def test_a_broken_file_is_ignored(self, image: Path, content: str) -> None:
        self.look(image)
        self.cached(image).write_text(content, encoding="latin-1")
        assert self.look(image).kind == "initramfs-tools"

    def test_another_format_is_ignored(self, image: Path) -> None:
        cached = self.spoil(image, "old")
        assert self.look(image).kind == "old"
        cached.write_text(json.dumps({**json.loads(cached.read_text()), "format": 0}))
        assert self.look(image).kind == "initramfs-tools"

    def test_a_foreign_or_writable_file_is_ignored(self, image: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.spoil(image, "evil").chmod(0o622)
        assert self.look(image).kind == "initramfs-tools"
        self.spoil(image, "evil").chmod(0o600)
        monkeypatch.setattr(os, "geteuid", lambda: 4711)
        assert self.look(image).kind == "initramfs-tools"

    def test_a_link_is_ignored(self, image: Path) -> None:
        cached = self.spoil(image, "evil")
        target = cached.rename(cached.with_name("target"))
        cached.symlink_to(target)
        assert self.look(image).kind == "initramfs-tools"
