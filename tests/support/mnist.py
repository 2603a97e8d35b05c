# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Small files in the format of MNIST."""

from __future__ import annotations

import gzip
import struct
import typing as t
from pathlib import Path

SIDE = 28
FILES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")


def pixels(number: int) -> bytes:
    """Bytes that are not the same in any two places near each other."""
    return bytes((number * 37 + place * 11 + place // 256) % 256 for place in range(SIDE * SIDE))


def images(count: int) -> bytes:
    return struct.pack(">4I", 0x803, count, SIDE, SIDE) + b"".join(map(pixels, range(count)))


def labels(numbers: t.Sequence[int]) -> bytes:
    return struct.pack(">2I", 0x801, len(numbers)) + bytes(numbers)


def files(training: int, test: int) -> dict[str, bytes]:
    """Return the four files."""
    parts = []
    for count in (training, test):
        parts += [images(count), labels([number % 10 for number in range(count)])]
    return dict(zip(FILES, parts, strict=True))


def write(directory: Path, content: t.Mapping[str, bytes], *, compressed: bool = False) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for name, data in content.items():
        path = directory / (name + (".gz" if compressed else ""))
        path.write_bytes(gzip.compress(data) if compressed else data)


__all__ = ["FILES", "SIDE", "files", "images", "labels", "pixels", "write"]
