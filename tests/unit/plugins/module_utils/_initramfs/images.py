# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Initramfs images built by hand."""

from __future__ import annotations

import bz2
import gzip
import lzma
import subprocess
import typing as t
from pathlib import Path

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._initramfs import reader
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._initramfs.contents import Contents, InitramfsError
from ansible_collections.rdmaops.gpu_fabric.tests.support import need_tool

VERSION = "6.12.1"


MODULES = f"usr/lib/modules/{VERSION}"


LINK = 0o120777


FILE = 0o100644


DIRECTORY = 0o040755


class Member(t.NamedTuple):
    name: str
    data: bytes = b""
    mode: int = FILE
    inode: int = 0
    links: int = 1


def cpio(*members: Member, magic: bytes = b"070701", trailer: bool = True) -> bytes:
    data = b""
    for number, member in enumerate((*members, *([Member("TRAILER!!!", mode=0)] if trailer else ())), 1):
        name = member.name.encode("utf-8", "surrogateescape") + b"\0"
        inode = member.inode or number
        fields = (inode, member.mode, 0, 0, member.links, 0, len(member.data), 8, 1, 0, 0, len(name), 0)
        data += magic + b"".join(b"%08X" % field for field in fields) + name
        data += bytes(-len(data) % 4) + member.data
        data += bytes(-len(data) % 4)
    return data


def text(name: str, content: str) -> Member:
    return Member(name, content.encode())


def link(name: str, target: str) -> Member:
    return Member(name, target.encode(), LINK)


DEP = (
    "kernel/drivers/infiniband/core/ib_core.ko.xz:\n"
    "kernel/drivers/infiniband/core/ib_uverbs.ko.xz: kernel/drivers/infiniband/core/ib_core.ko.xz\n"
    "kernel/drivers/infiniband/hw/mlx5/mlx5-ib.ko.xz: kernel/drivers/infiniband/core/ib_uverbs.ko.xz"
    " kernel/drivers/infiniband/core/ib_core.ko.xz kernel/net/mlx5_core.ko.xz\n"
)


TREE = (
    Member("usr/lib", mode=DIRECTORY),
    link("lib", "usr/lib"),
    Member(f"{MODULES}/kernel/drivers/infiniband/core/ib_core.ko.xz", b"x" * 999),
    Member(f"{MODULES}/kernel/drivers/infiniband/core/ib_uverbs.ko.zst", b"x"),
    Member(f"{MODULES}/kernel/drivers/infiniband/hw/mlx5/mlx5-ib.ko", b"x"),
    Member(f"{MODULES}/kernel/net/mlx5_core.ko.gz", b"x"),
    text(f"{MODULES}/modules.dep", DEP),
    text("etc/modprobe.d/a.conf", "options ib_core netns_mode=0\n"),
    text("usr/lib/modprobe.d/b.conf", "# b\n"),
    text("usr/lib/modprobe.d/README", "not read\n"),
)


DEBIAN = (*TREE, text("conf/initramfs.conf", ""), text("conf/modules", "# a comment\n\nmlx5-ib\n"))


MICROCODE = cpio(Member("kernel/x86/microcode/GenuineIntel.bin", b"m" * 77))


def read(tmp_path: Path, *images: bytes) -> Contents:
    pairs = []
    for number, data in enumerate(images):
        path = tmp_path / f"image{number}"
        path.write_bytes(data)
        pairs.append((f"/boot/image{number}", str(path)))
    return reader.read(pairs)


EXPECTED = Contents(
    image="/boot/image0",
    kind="initramfs-tools",
    modules=["ib_core", "ib_uverbs", "mlx5_core", "mlx5_ib"],
    forced=["ib_core", "ib_uverbs", "mlx5_core", "mlx5_ib"],
    modprobe={"/etc/modprobe.d/a.conf": "options ib_core netns_mode=0\n", "/usr/lib/modprobe.d/b.conf": "# b\n"},
    arguments={},
    requires={"ib_uverbs": ["ib_core"], "mlx5_ib": ["ib_core", "ib_uverbs", "mlx5_core"]},
    versions={VERSION: ["/boot/image0"]},
    configurations={"/boot/image0": ["etc/modprobe.d/a.conf", "usr/lib/modprobe.d/b.conf"]},
)


def by_tool(*argv: str) -> t.Callable[[bytes], bytes]:
    def compress(data: bytes) -> bytes:
        return subprocess.run([need_tool(argv[0]), *argv[1:]], input=data, stdout=subprocess.PIPE, check=True).stdout

    return compress


COMPRESSORS: dict[str, t.Callable[[bytes], bytes]] = {
    "none": bytes,
    "gzip": gzip.compress,
    "xz": lambda data: lzma.compress(data, check=lzma.CHECK_CRC32),
    "lzma": lambda data: lzma.compress(data, format=lzma.FORMAT_ALONE),
    "bzip2": bz2.compress,
    "zstd": by_tool("zstd", "-q", "-c"),
    "zstd-stream": by_tool("zstd", "-q", "-c", "--no-check", "-T0"),
    "lz4": by_tool("lz4", "-l", "-c"),
}


def read_or_error(tmp_path: Path, data: bytes) -> Contents | InitramfsError:
    try:
        return read(tmp_path, data)
    except InitramfsError as exc:
        return exc
