# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Broken, truncated and hostile images: the reader says what is wrong."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import shutil
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._initramfs import cpio as cpio_reader
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._initramfs.contents import InitramfsError
from ansible_collections.rdmaops.gpu_fabric.tests.support.failures import message_of
from ansible_collections.rdmaops.gpu_fabric.tests.unit.plugins.module_utils._initramfs.images import (
    COMPRESSORS,
    DEBIAN,
    MODULES,
    TREE,
    Member,
    cpio,
    read,
    text,
)


def bad_header(at: int, value: bytes) -> bytes:
    data = bytearray(cpio(*DEBIAN))
    data[at : at + len(value)] = value
    return bytes(data)


BROKEN_CASES = [
    # image, text behind "Reading the initramfs /boot/image0: "
    (b"", "it is empty"),
    (bytes(4096), "it is empty"),
    (cpio(), "it is empty"),
    # LZ4's frame format, which the kernel does not know.
    (b"\x04\x22\x4d\x18" + bytes(90), "it begins with 0x04224d180000: not a cpio archive and not a known compression"),
    (b"\x28\xb5\x2f\xfd", "its zstd data end early: the image is truncated"),
    (b"garbage!", "it begins with 0x676172626167: not a cpio archive and not a known compression"),
    (cpio(*DEBIAN)[:50], "it ends inside a header (byte 0 of archive 1): the image is truncated"),
    (cpio(*DEBIAN)[:112], "it ends inside a name (byte 0 of archive 1): the image is truncated"),
    (
        cpio(TREE[2])[:300],
        f"it ends inside '{MODULES}/kernel/drivers/infiniband/core/ib_core.ko.xz' (archive 1): the image is truncated",
    ),
    (
        cpio(*DEBIAN, trailer=False),
        "it ends inside a header (byte %d of archive 1): the image is truncated" % len(cpio(*DEBIAN, trailer=False)),
    ),
    (bad_header(94, b"00000000"), "a name of 0 bytes at byte 0 of archive 1"),
    (bad_header(94, b"FFFFFFFF"), "a name of 4294967295 bytes at byte 0 of archive 1"),
    (bad_header(54, b"  -1 +1_"), "a damaged cpio header at byte 0 of archive 1"),
    (bad_header(54, b"FFFFFFFF"), "it ends inside 'usr/lib' (archive 1): the image is truncated"),
    (cpio(*DEBIAN) + b"junk!!", "data that is not an archive begins at byte %d" % len(cpio(*DEBIAN))),
    (gzip.compress(b"junk!!"), "archive 1 holds no cpio archive"),
    (gzip.compress(cpio(*DEBIAN))[:-200], "its gzip data end early: the image is truncated"),
    (lzma.compress(cpio(*DEBIAN))[:-40], "its xz data end early: the image is truncated"),
    (bz2.compress(cpio(*DEBIAN))[:-40], "its bzip2 data end early: the image is truncated"),
    (b"\x1f\x8b\x08\x00" + b"\xff" * 60, "Error -3 while decompressing data: invalid block type"),
]


def problem_of(tmp_path: Path, data: bytes) -> str:
    message = message_of(InitramfsError, read, tmp_path, data)
    prefix = "Reading the initramfs /boot/image0: "
    assert message.startswith(prefix)
    return message[len(prefix) :]


# Without ids the cases would be named after their bytes, in which gzip writes the time.
@pytest.mark.parametrize(("data", "problem"), BROKEN_CASES, ids=range(len(BROKEN_CASES)))
def test_broken(tmp_path: Path, data: bytes, problem: str) -> None:
    assert problem_of(tmp_path, data) == problem


@pytest.mark.parametrize("name", ["zstd", "lz4"])
def test_truncated_for_a_tool(tmp_path: Path, name: str) -> None:
    noise = Member("noise", os.urandom(1 << 20))
    data = COMPRESSORS[name](cpio(noise, *DEBIAN))
    with pytest.raises(InitramfsError, match=r"truncated|cannot read it"):
        read(tmp_path, data[: len(data) // 2])


def test_bomb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpio_reader, "MAX_UNPACKED", 8 << 20)
    data = gzip.compress(cpio(Member("zeros", bytes(64 << 20))))
    assert len(data) < 1 << 20
    assert problem_of(tmp_path, data) == "it unpacks to more than 0 GiB"


def test_too_much_to_keep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpio_reader, "MAX_KEPT", 1 << 20)
    members = [text(f"etc/modprobe.d/{number}.conf", "#" * (1 << 18)) for number in range(9)]
    assert problem_of(tmp_path, gzip.compress(cpio(*members))) == "its configuration files are larger than 1 MiB"


def test_too_many_members(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpio_reader, "MAX_MEMBERS", 5)
    assert problem_of(tmp_path, cpio(*DEBIAN)) == "it has more than 5 members"


def test_no_tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda *_args, **_more: None)
    assert problem_of(tmp_path, b"\x28\xb5\x2f\xfd" + bytes(90)) == (
        "it is compressed with zstd, which is not installed: install that package"
    )
