# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reader of CIFAR-10 in both published forms, without executing what a pickle contains.

The Python version is a pickle, which may name any function; here only the four names that a NumPy array's pickle needs
are found, as placeholders. Format: https://www.cs.toronto.edu/~kriz/cifar.html
"""

from __future__ import annotations

import io
import os
import pickle
import tarfile
import typing as t
import zlib

from common import WorkloadError
from dataset import AbsentError, Images, content_of, refuse_labels

# 32 x 32 pixels, a plane each for red, green and blue.
IMAGE_BYTES = 3 * 32 * 32
RECORD_BYTES = 1 + IMAGE_BYTES
TRAINING = tuple("data_batch_%d" % number for number in range(1, 6))
TEST = ("test_batch",)
# Directories in the archives, and the extension of their files.
FORMS = (("cifar-10-batches-py", ""), ("cifar-10-batches-bin", ".bin"))


def read(directory: str) -> tuple[Images, Images | None]:
    """Return the training images and, if there are any, the test images under ``directory``."""
    tried = []
    for name, ending in FORMS:
        for place in (os.path.join(directory, name), directory):
            there = [batch for batch in TRAINING if os.path.exists(os.path.join(place, batch + ending))]
            if there:
                missing = [batch + ending for batch in TRAINING if batch not in there]
                if missing:
                    raise WorkloadError("CIFAR-10 in %s is not complete: %s missing" % (place, ", ".join(missing)))
                test = os.path.exists(os.path.join(place, TEST[0] + ending))
                return _read_all(place, TRAINING, ending), _read_all(place, TEST, ending) if test else None
            tried.append(os.path.join(place, TRAINING[0] + ending))
    raise AbsentError(
        "No CIFAR-10 in %s (looked for %s): unpack cifar-10-python.tar.gz or cifar-10-binary.tar.gz there, set its "
        "directory with --data-dir, download it with --data-url, or train on generated images with --use-dummy-data N"
        % (directory, ", ".join(tried))
    )


def unpack(contents: t.Mapping[str, bytes]) -> tuple[str, dict[str, bytes]]:
    """Return the directory and the files of a published archive, by their names there; only regular ones count."""
    present: dict[str, bytes] = {}
    wanted = {form[0]: ["%s/%s%s" % (form[0], batch, form[1]) for batch in TRAINING + TEST] for form in FORMS}
    try:
        with tarfile.open(fileobj=io.BytesIO(contents[""]), mode="r:gz") as archive:
            for member in archive:
                if member.isreg() and any(member.name in names for names in wanted.values()):
                    present[member.name] = t.cast("t.IO[bytes]", archive.extractfile(member)).read()
    except (tarfile.TarError, OSError, EOFError, zlib.error) as exc:
        raise WorkloadError("Unpacking CIFAR-10: %s. Nothing was unpacked" % exc) from exc
    # The form of which there is more.
    directory = max(wanted, key=lambda form: sum(name in present for name in wanted[form]))
    missing = [name for name in wanted[directory] if name not in present]
    if missing:
        raise WorkloadError(
            "Unpacking CIFAR-10: the archive has no regular file %s. Nothing was unpacked" % ", ".join(missing)
        )
    return directory, {os.path.basename(name): present[name] for name in wanted[directory]}


def _read_all(place: str, batches: t.Sequence[str], ending: str) -> Images:
    labels, pixels = bytearray(), bytearray()
    for batch in batches:
        path = os.path.join(place, batch + ending)
        content = content_of(path)
        images = parse_binary(content, path) if ending else parse_pickle(content, path)
        refuse_labels("CIFAR-10", path, images.labels)
        labels += images.labels
        pixels += images.pixels
    return Images(bytes(labels), pixels)


def parse_binary(content: bytes, path: str) -> Images:
    """Read records of a label and an image."""
    if not content or len(content) % RECORD_BYTES:
        raise WorkloadError(
            "%s is truncated or not a CIFAR-10 file: %d bytes, not a multiple of %d"
            % (path, len(content), RECORD_BYTES)
        )
    pixels = bytearray()
    for start in range(0, len(content), RECORD_BYTES):
        pixels += content[start + 1 : start + RECORD_BYTES]
    return Images(content[::RECORD_BYTES], pixels)


# --- the pickle ---------------------------------------------------------------------------------------------------


class _Dtype:
    """Placeholder for numpy.dtype: only the name matters."""

    def __init__(self, name: t.Any = None, *_rest: t.Any) -> None:
        self.name = name

    def __setstate__(self, state: t.Any) -> None:
        """Byte order and alignment do not matter for single bytes."""


class _Array:
    """Placeholder for numpy.ndarray: keeps the state in its pickle."""

    state: t.Any = None

    def __setstate__(self, state: t.Any) -> None:
        self.state = state


def _reconstruct(*_rest: t.Any) -> _Array:
    return _Array()


def _encode(text: t.Any, encoding: t.Any = "latin1") -> bytes:
    """Decode bytes as Python 3 writes them for protocols before 3."""
    if not isinstance(text, str) or encoding not in ("latin1", b"latin1"):
        raise pickle.UnpicklingError("bytes that are not encoded as latin1")
    return text.encode("latin1")


_KNOWN: dict[tuple[str, str], t.Any] = {
    ("numpy.core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy._core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Dtype,
    ("_codecs", "encode"): _encode,
}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> t.Any:
        try:
            return _KNOWN[(module, name)]
        except KeyError:
            raise pickle.UnpicklingError("it requests %s.%s" % (module, name)) from None


def parse_pickle(content: bytes, path: str) -> Images:
    """Read the dictionary of labels and an array."""
    try:
        batch = _Unpickler(io.BytesIO(content), encoding="bytes").load()
    except Exception as exc:  # a damaged pickle may raise anything
        raise WorkloadError("%s is truncated or not a CIFAR-10 file: %s" % (path, exc or type(exc).__name__)) from exc
    if not isinstance(batch, dict):
        raise WorkloadError("%s is not a CIFAR-10 file: no dictionary" % path)
    named = {key.decode("latin1") if isinstance(key, bytes) else key: value for key, value in batch.items()}
    labels, array = named.get("labels"), named.get("data")
    if not isinstance(labels, list) or not all(_is_byte(label) for label in labels):
        raise WorkloadError("%s is not a CIFAR-10 file: no list of labels" % path)
    pixels = _pixels(array)
    if pixels is None or not labels or len(pixels) != len(labels) * IMAGE_BYTES:
        raise WorkloadError(
            "%s is truncated or not a CIFAR-10 file: no array of %d rows of %d bytes" % (path, len(labels), IMAGE_BYTES)
        )
    return Images(bytes(labels), pixels)


def _is_byte(value: t.Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 256


def _pixels(array: t.Any) -> bytearray | None:
    """Return the rows of an array of bytes; None for anything else."""
    if not isinstance(array, _Array) or not isinstance(array.state, tuple) or len(array.state) != 5:
        return None
    _version, shape, kind, by_column, raw = array.state
    if not isinstance(kind, _Dtype) or kind.name not in ("u1", b"u1", "|u1", b"|u1") or not isinstance(raw, bytes):
        return None
    if not isinstance(shape, tuple) or len(shape) != 2 or shape[1] != IMAGE_BYTES:
        return None
    rows = shape[0]
    if rows * IMAGE_BYTES != len(raw):
        return None
    if not by_column:
        return bytearray(raw)
    return bytearray().join(raw[row::rows] for row in range(rows))


__all__ = ("parse_binary", "parse_pickle", "read", "unpack")
