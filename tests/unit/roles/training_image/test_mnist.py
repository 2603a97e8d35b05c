# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The reader of MNIST on small files, plain and compressed, whole, cut and hostile."""

from __future__ import annotations

import gzip
import itertools
import struct
from pathlib import Path

import hypothesis
import hypothesis.strategies as st
import pytest

from ansible_collections.rdmaops.gpu_fabric.tests.support.failures import message_of
from ansible_collections.rdmaops.gpu_fabric.tests.support.mnist import FILES, files, images, labels, pixels, write
from ansible_collections.rdmaops.gpu_fabric.tests.support.torch import module

mnist = module("mnist")
dataset = module("dataset")
WorkloadError = module("common").WorkloadError

IMAGES, LABELS = FILES[:2]


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("place", [".", "raw", "MNIST/raw"])
def test_read(place: str, compressed: bool, tmp_path: Path) -> None:
    write(tmp_path / place, files(12, 3), compressed=compressed)
    training, test = mnist.read(str(tmp_path))
    assert training.labels == bytes([*range(10), 0, 1])
    assert training.pixels == b"".join(map(pixels, range(12)))
    assert (test.labels, len(test.pixels)) == (bytes([0, 1, 2]), 3 * 784)


def test_both_forms_have_one_fingerprint(tmp_path: Path) -> None:
    content = files(4, 1)
    write(tmp_path / "plain", content)
    write(tmp_path / "packed", content, compressed=True)
    write(tmp_path / "other", {**content, LABELS: labels([1, 1, 1, 1])})
    plain, packed, other = (mnist.read(str(tmp_path / name))[0].fingerprint() for name in ("plain", "packed", "other"))
    assert plain == packed != other


def test_without_test_images(tmp_path: Path) -> None:
    write(tmp_path, {name: content for name, content in files(4, 1).items() if name.startswith("train")})
    assert mnist.read(str(tmp_path))[1] is None


def test_nothing_there(tmp_path: Path) -> None:
    message = message_of(dataset.AbsentError, mnist.read, str(tmp_path))
    assert message.startswith(f"No MNIST in {tmp_path}, nor in raw or MNIST/raw there (looked for {IMAGES}, ")
    assert "--data-dir" in message
    assert "--use-dummy-data N" in message


@pytest.mark.parametrize("less", FILES)
def test_a_file_is_missing(less: str, tmp_path: Path) -> None:
    write(tmp_path, {name: content for name, content in files(4, 1).items() if name != less})
    message = message_of(WorkloadError, mnist.read, str(tmp_path))
    assert message == f"MNIST in {tmp_path} is not complete: {less} missing"


# file, content, the message after the path of the file
WRONG = [
    (IMAGES, b"", " is truncated, or is not a MNIST file of images of 28 x 28 pixels"),
    (IMAGES, images(4)[:15], " is truncated, or is not a MNIST file of images of 28 x 28 pixels"),
    (IMAGES, images(4)[:-1], " is truncated or damaged: 3151 bytes, and its header says 3152"),
    (IMAGES, images(4) + b"\0", " is truncated or damaged: 3153 bytes, and its header says 3152"),
    (IMAGES, images(0), " is truncated or damaged: 16 bytes, and its header says 16"),
    (IMAGES, labels([1, 2, 3, 4]), " is truncated, or is not a MNIST file of images of 28 x 28 pixels"),
    (IMAGES, struct.pack(">4I", 0x803, 1, 32, 32) + bytes(1024), " is truncated, or is not a MNIST file of images of"),
    (IMAGES, struct.pack(">4I", 0x803, 2**32 - 1, 28, 28), " is truncated or damaged: 16 bytes, and its header says"),
    # Of doubles, not bytes.
    (LABELS, struct.pack(">2I", 0xE01, 4) + bytes(4), " is truncated, or is not a MNIST file of labels"),
    (LABELS, labels([1, 2, 3, 10]), " is not a MNIST file: a label is 10, but labels go from 0 to 9"),
    (LABELS, labels([1, 2, 3])[:-1], " is truncated or damaged: 10 bytes, and its header says 11"),
]


@pytest.mark.parametrize(("name", "content", "reason"), WRONG, ids=itertools.count())
def test_wrong_files(name: str, content: bytes, reason: str, tmp_path: Path) -> None:
    write(tmp_path, {**files(4, 1), name: content})
    assert message_of(WorkloadError, mnist.read, str(tmp_path)).startswith(f"{tmp_path}/{name}{reason}")


def test_images_and_labels_of_other_numbers(tmp_path: Path) -> None:
    write(tmp_path, {**files(4, 1), LABELS: labels([1, 2, 3])})
    message = message_of(WorkloadError, mnist.read, str(tmp_path))
    assert message == f"{tmp_path}/{IMAGES} has 4 images, but {tmp_path}/{LABELS} has 3 labels"


PACKED = gzip.compress(images(4), mtime=0)
# content, the reason
DAMAGED = [
    (b"plain", "Not a gzipped file (b'pl')"),
    (PACKED[:-9], "Compressed file ended before the end-of-stream marker was reached"),
    # After the header, a block of a type that there is not.
    (PACKED[:10] + b"\x07" * 40, "Error -3 while decompressing data"),
    (PACKED[:-8] + bytes(8), "CRC check failed"),
]


@pytest.mark.parametrize(("content", "reason"), DAMAGED, ids=itertools.count())
def test_damaged_compressed_files(content: bytes, reason: str, tmp_path: Path) -> None:
    write(tmp_path, files(4, 1), compressed=True)
    (tmp_path / f"{IMAGES}.gz").write_bytes(content)
    assert message_of(WorkloadError, mnist.read, str(tmp_path)).startswith(f"Reading {tmp_path}/{IMAGES}.gz: {reason}")


def test_what_unpacks_to_too_much_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dataset, "MOST_BYTES", 3000)
    write(tmp_path, files(4, 1), compressed=True)
    message = message_of(WorkloadError, mnist.read, str(tmp_path))
    assert message == f"Reading {tmp_path}/{IMAGES}.gz: it has more than 3000 bytes"


FOUR = images(4)


@hypothesis.given(place=st.integers(0, len(FOUR)), what=st.binary(max_size=4), cut=st.integers(0, 4))
def test_damage_is_reported_or_harmless(place: int, what: bytes, cut: int) -> None:
    damaged = FOUR[:place] + what + FOUR[place + cut :]
    try:
        content = mnist.parse(damaged, "images", (28, 28))
    except WorkloadError:
        return
    assert len(content) == 4 * 784
