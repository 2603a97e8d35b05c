# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the readers of data sets share: images as bytes, and their errors."""

from __future__ import annotations

import gzip
import hashlib
import typing as t
import zlib

from common import WorkloadError

CLASSES = 10
# What a file may contain; the largest published one has 47 MB. A few kilobytes can unpack to any size.
MOST_BYTES = 1 << 28


class AbsentError(WorkloadError):
    """A directory has no file of the data set."""


class Images(t.NamedTuple):
    """Labels, a byte each, and the pixels of all images, in the same order."""

    labels: bytes
    pixels: bytearray

    def fingerprint(self) -> str:
        return hashlib.sha256(self.labels + b"\0" + self.pixels).hexdigest()


def content_of(path: str) -> bytes:
    """Return a file's content, unpacked if its name ends in .gz."""
    try:
        with gzip.open(path, "rb") if path.endswith(".gz") else open(path, "rb") as stream:
            content = stream.read(MOST_BYTES + 1)
    except (OSError, EOFError, zlib.error) as exc:
        raise WorkloadError("Reading %s: %s" % (path, getattr(exc, "strerror", None) or exc)) from exc
    if len(content) > MOST_BYTES:
        raise WorkloadError("Reading %s: it has more than %d bytes" % (path, MOST_BYTES))
    return content


def refuse_labels(title: str, path: str, labels: bytes) -> None:
    """Raises WorkloadError for a label that the data set does not have."""
    if max(labels) >= CLASSES:
        raise WorkloadError(
            "%s is not a %s file: a label is %d, but labels go from 0 to %d" % (path, title, max(labels), CLASSES - 1)
        )


__all__ = ("CLASSES", "AbsentError", "Images", "content_of", "refuse_labels")
