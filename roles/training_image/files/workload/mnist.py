# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reader of MNIST's four IDX files, plain or compressed.

A header of big-endian numbers (the type, 8 for bytes, with the number of dimensions, and their sizes), then the bytes.
Format: http://yann.lecun.com/exdb/mnist/
"""

from __future__ import annotations

import math
import os
import struct
import typing as t

from common import WorkloadError
from dataset import AbsentError, Images, content_of, refuse_labels

SIDE = 28
# The type in a header; the number of dimensions is added.
BYTES = 0x800
# Images and labels.
TRAINING = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte")
TEST = ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
# As they are published.
FILES = tuple(file + ".gz" for file in TRAINING + TEST)
# The last one is torchvision's.
PLACES = ("", "raw", os.path.join("MNIST", "raw"))


def read(directory: str) -> tuple[Images, Images | None]:
    """Return the training images and, if there are any, the test images under ``directory``."""
    for name in PLACES:
        place = os.path.join(directory, name) if name else directory
        paths = {file: _find(place, file) for file in TRAINING + TEST}
        if any(paths.values()):
            # The test images may be left out, both files.
            wanted = TRAINING + TEST if any(paths[file] for file in TEST) else TRAINING
            missing = [file for file in wanted if not paths[file]]
            if missing:
                raise WorkloadError("MNIST in %s is not complete: %s missing" % (place, ", ".join(missing)))
            images = [_read_pair(paths[pixels], paths[labels]) for pixels, labels in (TRAINING, TEST) if paths[pixels]]
            return images[0], images[1] if len(images) > 1 else None
    raise AbsentError(
        "No MNIST in %s, nor in raw or MNIST/raw there (looked for %s, plain or with .gz): set its directory with"
        " --data-dir, download it with --data-url, or train on generated images with --use-dummy-data N"
        % (directory, ", ".join(TRAINING + TEST))
    )


def unpack(contents: t.Mapping[str, bytes]) -> tuple[str, t.Mapping[str, bytes]]:
    """Return where the published files belong, which stay compressed."""
    return PLACES[-1], contents


def _find(place: str, file: str) -> str:
    """Return the path of a file, plain or compressed; nothing if there is none."""
    paths = (os.path.join(place, file + ending) for ending in ("", ".gz"))
    return next((path for path in paths if os.path.exists(path)), "")


def _read_pair(images: str, labels: str) -> Images:
    pixels, numbers = parse(content_of(images), images, (SIDE, SIDE)), bytes(parse(content_of(labels), labels, ()))
    count = len(pixels) // SIDE**2
    if count != len(numbers):
        raise WorkloadError("%s has %d images, but %s has %d labels" % (images, count, labels, len(numbers)))
    refuse_labels("MNIST", labels, numbers)
    return Images(numbers, pixels)


def parse(content: bytes, path: str, shape: tuple[int, ...]) -> bytearray:
    """Return the bytes of all items of that shape."""
    header = struct.Struct(">%dI" % (2 + len(shape)))
    kind, count, *sides = header.unpack(content[: header.size].ljust(header.size, b"\0"))
    if kind != BYTES + 1 + len(shape) or tuple(sides) != shape:
        expected = "images of %d x %d pixels" % shape if shape else "labels"
        raise WorkloadError("%s is truncated, or is not a MNIST file of %s" % (path, expected))
    expected = header.size + count * math.prod(shape)
    if not count or len(content) != expected:
        raise WorkloadError(
            "%s is truncated or damaged: %d bytes, and its header says %d" % (path, len(content), expected)
        )
    return bytearray(content[header.size :])


__all__ = ("FILES", "SIDE", "parse", "read", "unpack")
