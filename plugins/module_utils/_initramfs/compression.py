# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""Compressed archives in an initramfs: what they unpack to, and where they end (lib/decompress.c)."""

from __future__ import annotations

import bz2
import contextlib
import lzma
import mmap
import os
import shutil
import struct
import subprocess
import threading
import typing as t
import zlib

from .contents import BrokenImage

CHUNK = 1 << 20
TOOL_SECONDS = 300


def chunks(data: mmap.mmap, start: int, end: int) -> t.Iterator[bytes]:
    for at in range(start, end, CHUNK):
        yield data[at : min(at + CHUNK, end)]


def zstd_end(data: t.Any, start: int, end: int) -> int:
    """Return where a zstd frame ends (RFC 8878, 3.1.1), so that what follows it is found."""
    if start + 4 >= end:
        return end + 1
    descriptor = data[start + 4]
    single = descriptor >> 5 & 1
    at = start + 5 + (1 - single) + (0, 1, 2, 4)[descriptor & 3] + ((1 if single else 0), 2, 4, 8)[descriptor >> 6]
    while at + 3 <= end:
        block = int.from_bytes(data[at : at + 3], "little")
        at += 3 + (1 if block >> 1 & 3 == 1 else block >> 3)
        if block & 1:
            return at + (4 if descriptor >> 2 & 1 else 0)
    return end


def lz4_end(data: t.Any, start: int, end: int) -> int:
    """Return where LZ4's legacy format ends: blocks with their length, up to a zero one (lib/decompress_unlz4.c)."""
    at = start + 4
    while at + 4 <= end:
        (size,) = struct.unpack("<I", data[at : at + 4])
        if size == 0 or (size > 16 << 20 and size != 0x184C2102):
            break
        at += 4 if size == 0x184C2102 else 4 + size
    return min(at, end)


# Programs that unpack to stdout, by the first bytes, and what finds the end of their data. Of LZ4 the kernel reads the
# legacy format only.
TOOLS: dict[bytes, tuple[str, t.Callable[[t.Any, int, int], int]]] = {
    b"\x28\xb5\x2f\xfd": ("zstd", zstd_end),
    b"\x02\x21\x4c\x18": ("lz4", lz4_end),
    b"\x89LZO": ("lzop", lambda _data, _start, end: end),
}


class Compressed:
    """Compressed data, with the place ``end`` behind them, which is right once all pieces are read."""

    def __init__(self, name: str, data: mmap.mmap, start: int, end: int) -> None:
        self.name = name
        self.data = data
        self.start = start
        self.end = end

    def truncated(self) -> BrokenImage:
        return BrokenImage("its %s data end early: the image is truncated" % self.name)

    def pieces(self) -> t.Generator[bytes, None, None]:
        """Yield what the data unpack to."""
        raise NotImplementedError


class _Gzip(Compressed):
    def pieces(self) -> t.Generator[bytes, None, None]:
        decoder = zlib.decompressobj(31)
        at, rest = self.start, b""
        while not decoder.eof:
            if not rest:
                rest = self.data[at : min(at + CHUNK, self.end)]
                at += len(rest)
            piece = decoder.decompress(rest, CHUNK)
            if not rest and not piece:
                raise self.truncated()
            rest = decoder.unconsumed_tail
            if piece:
                yield piece
        self.end = at - len(decoder.unused_data)


class _Library(Compressed):
    """Data for a decompressor of bz2 or lzma."""

    def __init__(self, name: str, data: mmap.mmap, start: int, end: int, decoder: t.Any) -> None:
        super().__init__(name, data, start, end)
        self.decoder = decoder

    def pieces(self) -> t.Generator[bytes, None, None]:
        at = self.start
        while not self.decoder.eof:
            rest = b""
            if self.decoder.needs_input:
                rest = self.data[at : min(at + CHUNK, self.end)]
                at += len(rest)
                if not rest:
                    raise self.truncated()
            piece = self.decoder.decompress(rest, CHUNK)
            if piece:
                yield piece
        self.end = at - len(self.decoder.unused_data)


class _Tool(Compressed):
    """Data that a program unpacks."""

    def pieces(self) -> t.Generator[bytes, None, None]:
        path = shutil.which(self.name, path=os.environ.get("PATH", "") + ":/usr/bin:/bin:/usr/local/bin")
        if path is None:
            raise BrokenImage("it is compressed with %s, which is not installed: install that package" % self.name)
        pipe = subprocess.PIPE
        process = subprocess.Popen([path, "-dcq"], stdin=pipe, stdout=pipe, stderr=pipe, close_fds=True)
        stdin, stdout, stderr = t.cast("tuple[t.IO[bytes], ...]", (process.stdin, process.stdout, process.stderr))
        errors: list[bytes] = []
        feeder = threading.Thread(target=self.feed, args=(stdin,), daemon=True)
        listener = threading.Thread(target=lambda: errors.append(stderr.read(4096)), daemon=True)
        watch = threading.Timer(TOOL_SECONDS, process.kill)
        watch.daemon = True
        try:
            for thread in (watch, feeder, listener):
                thread.start()
            yield from iter(lambda: stdout.read(CHUNK), b"")
            status = process.wait()
            listener.join(10)
            if status != 0:
                text = b"".join(errors).decode("utf-8", "replace").strip() or "exit code %d" % status
                raise BrokenImage("%s cannot read it: %s" % (self.name, text[:300]))
        finally:
            watch.cancel()
            process.kill()
            process.wait()
            for thread in (feeder, listener):
                thread.join(10)
            stdout.close()
            stderr.close()

    def feed(self, stdin: t.IO[bytes]) -> None:
        try:
            for chunk in chunks(self.data, self.start, self.end):
                stdin.write(chunk)
        except (OSError, ValueError):
            pass  # the tool gave up; its exit status and stderr show why
        finally:
            with contextlib.suppress(OSError):
                stdin.close()


def compressed(magic: bytes, data: mmap.mmap, start: int, end: int) -> Compressed | None:
    """Return the compressed data that begin at a place with these six bytes; None if the format is not known."""
    if magic[:2] == b"\x1f\x8b":
        return _Gzip("gzip", data, start, end)
    if magic == b"\xfd7zXZ\0" or magic[:3] == b"\x5d\0\0":
        return _Library("xz", data, start, end, lzma.LZMADecompressor(memlimit=1 << 30))
    if magic[:3] == b"BZh":
        return _Library("bzip2", data, start, end, bz2.BZ2Decompressor())
    for prefix, (name, find_end) in TOOLS.items():
        if magic.startswith(prefix):
            source = _Tool(name, data, start, find_end(data, start, end))
            if source.end > end:
                raise source.truncated()
            return source
    return None


__all__ = ("Compressed", "chunks", "compressed", "lz4_end", "zstd_end")
