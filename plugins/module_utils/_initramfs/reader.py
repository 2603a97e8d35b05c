# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""Reads an initramfs as the kernel unpacks it, without writing a file.

https://docs.kernel.org/driver-api/early-userspace/buffer-format.html: any number of cpio archives ("newc"), each
compressed or not, with zero bytes between them; what comes later replaces what came before.
"""

from __future__ import annotations

import lzma
import mmap
import os
import stat
import struct
import typing as t
import zlib

from .compression import chunks, compressed
from .contents import BrokenImage, Contents, InitramfsError
from .cpio import CPIO, Budget, Image, Stream, read_archive
from .evaluate import evaluate


def _without_bootconfig(data: mmap.mmap) -> int:
    """Return where a boot configuration at the end begins (https://docs.kernel.org/admin-guide/bootconfig.html)."""
    end = len(data)
    if end >= 20 and data[end - 12 : end] == b"#BOOTCONFIG\n":
        (size,) = struct.unpack("<I", data[end - 20 : end - 16])
        if size <= end - 20:
            return end - 20 - size
    return end


class _Unpacker:
    """Goes from archive to archive of one file."""

    def __init__(self, data: mmap.mmap, image: Image) -> None:
        self.data = data
        self.image = image
        self.at = 0
        self.end = _without_bootconfig(data)
        self.budget = Budget()
        self.archive = 0

    def skip_zeros(self) -> bytes:
        """Go to the next archive and return its first bytes, none at the end."""
        stream = Stream(chunks(self.data, self.at, self.end))
        magic = stream.skip_zeros()
        self.at += stream.position
        return magic

    def unpack(self) -> None:
        magic = self.skip_zeros()
        while magic:
            self.archive += 1
            if magic in CPIO:
                stream = Stream(chunks(self.data, self.at, self.end), self.budget)
                read_archive(stream, self.image, self.archive)
                self.at += stream.position
            else:
                self.unpack_compressed(magic)
            magic = self.skip_zeros()
        if not self.image.members:
            raise BrokenImage("it is empty")

    def unpack_compressed(self, magic: bytes) -> None:
        source = compressed(magic, self.data, self.at, self.end)
        if source is None and self.archive == 1:
            raise BrokenImage("it begins with 0x%s: not a cpio archive and not a known compression" % magic.hex())
        if source is None:
            raise BrokenImage("data that is not an archive begins at byte %d" % self.at)
        pieces = source.pieces()
        stream = Stream(pieces, self.budget)
        try:
            # Several archives may have been compressed as one.
            inner = stream.skip_zeros()
            while inner:
                if inner not in CPIO:
                    raise BrokenImage("archive %d holds no cpio archive" % self.archive)
                read_archive(stream, self.image, self.archive)
                inner = stream.skip_zeros()
        finally:
            pieces.close()
        self.at = source.end


def read(images: t.Sequence[tuple[str, str]]) -> Contents:
    """Read images, given as (name, path on this machine), one after the other, as the boot loader loads them."""
    image = Image()
    for name, path in images:
        image.current = name
        try:
            with open(path, "rb") as stream:
                if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                    raise BrokenImage("it is not a regular file")
                if os.fstat(stream.fileno()).st_size == 0:
                    raise BrokenImage("it is empty")
                with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
                    _Unpacker(data, image).unpack()
        except OSError as exc:
            advice = "; run as root (become: true)" if isinstance(exc, PermissionError) else ""
            text = "Reading the initramfs %s: %s%s" % (name, exc.strerror or exc, advice)
            raise InitramfsError(text) from exc
        except (BrokenImage, zlib.error, lzma.LZMAError, EOFError, ValueError, MemoryError) as exc:
            raise InitramfsError("Reading the initramfs %s: %s" % (name, exc)) from exc
    return evaluate([name for name, _path in images], image)


__all__ = ("read",)
