# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The reader finds the archives of an image, whatever compresses them."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._initramfs.contents import Contents, InitramfsError
from ansible_collections.rdmaops.gpu_fabric.tests.unit.plugins.module_utils._initramfs.images import (
    COMPRESSORS,
    DEBIAN,
    EXPECTED,
    FILE,
    MICROCODE,
    TREE,
    VERSION,
    Member,
    cpio,
    link,
    read,
    read_or_error,
    text,
)


@pytest.mark.parametrize("name", COMPRESSORS)
def test_compressors(tmp_path: Path, name: str) -> None:
    data = COMPRESSORS[name](cpio(*DEBIAN))
    assert read(tmp_path, data) == EXPECTED
    assert read(tmp_path, MICROCODE + bytes(512) + data + bytes(9)) == EXPECTED


# Where a frame ends is known for these, so that something else may follow.
@pytest.mark.parametrize("name", ["none", "gzip", "xz", "bzip2", "zstd", "lz4"])
def test_segments(tmp_path: Path, name: str) -> None:
    compress = COMPRESSORS[name]
    half = len(DEBIAN) // 2
    data = MICROCODE + compress(cpio(*DEBIAN[:half])) + bytes(16) + gzip.compress(cpio(*DEBIAN[half:]))
    assert read(tmp_path, data) == EXPECTED
    both = compress(cpio(*DEBIAN[:half]) + bytes(300) + cpio(*DEBIAN[half:]))
    assert read(tmp_path, both) == EXPECTED


def test_several_images(tmp_path: Path) -> None:
    second = EXPECTED._replace(
        image="/boot/image1",
        versions={VERSION: ["/boot/image1"]},
        configurations={"/boot/image1": EXPECTED.configurations["/boot/image0"]},
    )
    assert read(tmp_path, MICROCODE, cpio(*DEBIAN)) == second
    # An overlay without modules is not the image of the kernel.
    overlay = cpio(text("etc/systemd/system.conf", ""), text("etc/modprobe.d/a.conf", "options ib_core x=1\n"))
    contents = read(tmp_path, cpio(*DEBIAN), overlay)
    assert (contents.image, contents.versions) == ("/boot/image0", EXPECTED.versions)
    assert contents.configurations["/boot/image1"] == ["etc/modprobe.d/a.conf"]
    assert contents.modprobe["/etc/modprobe.d/a.conf"] == "options ib_core x=1\n"


def test_an_image_without_modules_is_of_a_kernel_too(tmp_path: Path) -> None:
    contents = read(tmp_path, cpio(text("lib/modules/6.1/modules.dep", "")))
    assert (contents.versions, contents.modules) == ({"6.1": ["/boot/image0"]}, [])


def test_checksummed_archive(tmp_path: Path) -> None:
    assert read(tmp_path, cpio(*DEBIAN, magic=b"070702")) == EXPECTED


def test_boot_configuration_at_the_end(tmp_path: Path) -> None:
    config = b"feature.option = 1\n\0"
    tail = config + struct.pack("<II", len(config), sum(config)) + b"#BOOTCONFIG\n"
    assert read(tmp_path, gzip.compress(cpio(*DEBIAN)) + tail) == EXPECTED


def test_a_later_segment_replaces(tmp_path: Path) -> None:
    later = cpio(text("etc/modprobe.d/a.conf", "options ib_core netns_mode=1\n"), text("conf/modules", ""))
    contents = read(tmp_path, cpio(*DEBIAN) + gzip.compress(later))
    assert contents.modprobe["/etc/modprobe.d/a.conf"] == "options ib_core netns_mode=1\n"
    assert contents.forced == []


def test_links(tmp_path: Path) -> None:
    image = cpio(
        *TREE,
        link("etc/modprobe.d/nvidia.conf", "/etc/alternatives/nvidia.conf"),
        link("etc/alternatives/nvidia.conf", "../nvidia/current.conf"),
        text("etc/nvidia/current.conf", "options nvidia a=1\n"),
        link("etc/modprobe.d/b.conf", "/dev/null"),
        link("run", "/loop"),
        link("loop", "/run"),
    )
    assert read(tmp_path, image).modprobe == {
        "/etc/modprobe.d/a.conf": "options ib_core netns_mode=0\n",
        "/etc/modprobe.d/b.conf": "",
        "/etc/modprobe.d/nvidia.conf": "options nvidia a=1\n",
        "/usr/lib/modprobe.d/b.conf": "# b\n",
    }


def test_hard_links(tmp_path: Path) -> None:
    names = ["etc/modprobe.d/a.conf", "etc/modprobe.d/b.conf", "usr/share/elsewhere"]
    content = "options ib_core netns_mode=0\n"
    members = [Member(name, data, FILE, 7, 3) for name, data in zip(names, (b"", b"", content.encode()))]
    assert read(tmp_path, cpio(*members)).modprobe == dict.fromkeys(["/" + name for name in names[:2]], content)


def test_names_that_leave_the_image_are_nothing(tmp_path: Path) -> None:
    names = {"/etc/modprobe.d/a.conf": "a", "../etc/modprobe.d/b.conf": "b", "./etc/modprobe.d/c.conf": "c"}
    contents = read(tmp_path, cpio(*(text(name, letter) for name, letter in names.items())))
    assert contents.modprobe == {"/etc/modprobe.d/a.conf": "a", "/etc/modprobe.d/c.conf": "c"}


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=600), st.sampled_from(["none", "gzip", "xz", "bzip2", "cpio", "zstd-like", "lz4-like"]))
def test_any_bytes(tmp_path_factory: pytest.TempPathFactory, data: bytes, how: str) -> None:
    image = {
        "cpio": lambda: cpio(*DEBIAN)[: len(data)] + data,
        "zstd-like": lambda: b"\x28\xb5\x2f\xfd" + data,
        "lz4-like": lambda: b"\x02\x21\x4c\x18" + data,
    }.get(how, lambda: COMPRESSORS[how](data))()
    assert isinstance(read_or_error(tmp_path_factory.mktemp("image"), image), (Contents, InitramfsError))


@settings(max_examples=200, deadline=None)
@given(st.binary(min_size=1, max_size=8), st.data())
def test_any_damage(tmp_path_factory: pytest.TempPathFactory, damage: bytes, data: st.DataObject) -> None:
    image = bytearray(cpio(*DEBIAN))
    at = data.draw(st.integers(0, len(image) - 1))
    image[at : at + len(damage)] = damage
    assert isinstance(read_or_error(tmp_path_factory.mktemp("image"), bytes(image)), (Contents, InitramfsError))
