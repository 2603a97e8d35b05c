# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The reader of CIFAR-10 on small files in both published forms, whole, cut and hostile."""

from __future__ import annotations

import functools
import io
import os
import pickle
import struct
import typing as t
from pathlib import Path

import hypothesis
import hypothesis.strategies as st
import pytest

from ansible_collections.rdmaops.gpu_fabric.tests.support.failures import message_of
from ansible_collections.rdmaops.gpu_fabric.tests.support.torch import module

cifar = module("cifar")
WorkloadError = module("common").WorkloadError

SIZE = 3072


@functools.cache
def image(number: int) -> bytes:
    """Bytes that are not the same in any two places near each other."""
    return bytes((number * 37 + place * 11 + place // 256) % 256 for place in range(SIZE))


def binary(labels: t.Sequence[int]) -> bytes:
    return b"".join(bytes([label]) + image(number) for number, label in enumerate(labels))


def text(content: bytes) -> bytes:
    """A string of Python 2: what pickle protocol 2 calls (SHORT_)BINSTRING."""
    length = len(content)
    return (b"U" + bytes([length]) if length < 256 else b"T" + struct.pack("<i", length)) + content


def number(value: int) -> bytes:
    return b"M" + struct.pack("<H", value)


def batch(labels: t.Sequence[int], *, rows: int | None = None, by_column: bool = False, kind: bytes = b"u1") -> bytes:
    """A pickle as Python 2 and its NumPy wrote those of CIFAR-10, opcode by opcode (pickletools knows their names)."""
    count = len(labels) if rows is None else rows
    raw = b"".join(image(one) for one in range(len(labels)))
    if by_column:
        raw = b"".join(raw[place::SIZE] for place in range(SIZE))
    dtype = b"cnumpy\ndtype\n" + text(kind) + b"K\x00K\x01\x87R"
    dtype += b"(K\x03" + text(b"|") + b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
    array = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85" + text(b"b") + b"\x87R"
    shape = number(count) + number(SIZE) + b"\x86"
    array += b"(K\x01" + shape + dtype + (b"\x88" if by_column else b"\x89") + text(raw) + b"tb"
    listed = b"](" + b"".join(b"K" + bytes([label]) for label in labels) + b"e"
    return b"\x80\x02}(" + text(b"labels") + listed + text(b"data") + array + b"u."


def test_the_pickle_that_the_tests_write_is_one() -> None:
    kinds = []

    class Recorder(pickle.Unpickler):
        def find_class(self, package: str, name: str) -> t.Any:
            kinds.append(f"{package}.{name}")
            return super().find_class("collections", "OrderedDict")

    with pytest.raises(Exception):  # noqa: B017, PT011 - an OrderedDict is no array
        Recorder(io.BytesIO(batch([1])), encoding="bytes").load()
    assert kinds == ["numpy.core.multiarray._reconstruct", "numpy.ndarray"]


@pytest.mark.parametrize("by_column", [False, True])
def test_pickle(by_column: bool) -> None:
    found = cifar.parse_pickle(batch([3, 9, 0], by_column=by_column), "data_batch_1")
    assert found.labels == bytes([3, 9, 0])
    assert found.pixels == image(0) + image(1) + image(2)


def test_binary() -> None:
    found = cifar.parse_binary(binary([3, 9, 0]), "data_batch_1.bin")
    assert found.labels == bytes([3, 9, 0])
    assert found.pixels == image(0) + image(1) + image(2)


def test_both_forms_say_the_same() -> None:
    one, other = cifar.parse_pickle(batch([1, 2]), "x"), cifar.parse_binary(binary([1, 2]), "x")
    assert one.fingerprint() == other.fingerprint()
    assert one.fingerprint() != cifar.parse_binary(binary([2, 1]), "x").fingerprint()


def write(directory: Path, form: str, *, test: bool = True, less: str = "") -> None:
    ending, make = (".bin", binary) if form.endswith("bin") else ("", batch)
    directory.mkdir(parents=True, exist_ok=True)
    names = [f"data_batch_{one}" for one in range(1, 6)] + (["test_batch"] if test else [])
    for place, name in enumerate(names):
        if name != less:
            (directory / (name + ending)).write_bytes(make([place, place + 1]))


@pytest.mark.parametrize("form", ["cifar-10-batches-py", "cifar-10-batches-bin"])
@pytest.mark.parametrize("inside", [True, False])
def test_read(form: str, inside: bool, tmp_path: Path) -> None:
    write(tmp_path / form if inside else tmp_path, form)
    training, test = cifar.read(str(tmp_path))
    assert training.labels == bytes([0, 1, 1, 2, 2, 3, 3, 4, 4, 5])
    assert len(training.pixels) == 10 * SIZE
    assert test.labels == bytes([5, 6])


def test_without_test_images(tmp_path: Path) -> None:
    write(tmp_path, "cifar-10-batches-bin", test=False)
    assert cifar.read(str(tmp_path))[1] is None


def refusal(directory: Path) -> str:
    return message_of(WorkloadError, cifar.read, str(directory))


def test_nothing_there(tmp_path: Path) -> None:
    said = refusal(tmp_path)
    assert said.startswith(f"No CIFAR-10 in {tmp_path} (looked for {tmp_path}/cifar-10-batches-py/data_batch_1, ")
    assert "--data-dir" in said
    assert "--use-dummy-data N" in said


def test_a_batch_is_missing(tmp_path: Path) -> None:
    write(tmp_path, "cifar-10-batches-bin", less="data_batch_3")
    assert refusal(tmp_path) == f"CIFAR-10 in {tmp_path} is not complete: data_batch_3.bin missing"


def test_a_batch_is_a_directory(tmp_path: Path) -> None:
    write(tmp_path, "cifar-10-batches-bin", less="data_batch_3")
    (tmp_path / "data_batch_3.bin").mkdir()
    assert refusal(tmp_path) == f"Reading {tmp_path}/data_batch_3.bin: Is a directory"


def test_cut_binary(tmp_path: Path) -> None:
    write(tmp_path, "cifar-10-batches-bin")
    (tmp_path / "data_batch_2.bin").write_bytes(binary([1, 2])[:-1])
    reason = "is truncated or not a CIFAR-10 file: 6145 bytes, not a multiple of 3073"
    assert refusal(tmp_path) == f"{tmp_path}/data_batch_2.bin {reason}"


def test_label_of_another_set(tmp_path: Path) -> None:
    write(tmp_path, "cifar-10-batches-bin")
    (tmp_path / "data_batch_2.bin").write_bytes(binary([1, 10]))
    assert "data_batch_2.bin is not a CIFAR-10 file: a label is 10, but labels go from 0 to 9" in refusal(tmp_path)


# content, what is said
WRONG = [
    (b"", "Ran out of input"),
    (batch([1, 2])[:3000], "is truncated or not a CIFAR-10 file"),
    (batch([1, 2], rows=3), "no array of 2 rows of 3072 bytes"),
    (batch([1], kind=b"f8"), "no array of 1 rows"),
    (pickle.dumps([1, 2], 2), "no dictionary"),
    (pickle.dumps({"labels": [1]}, 2), "no array of 1 rows"),
    (pickle.dumps({"labels": "1", "data": None}, 2), "no list of labels"),
    (pickle.dumps({"labels": [256], "data": None}, 2), "no list of labels"),
    (pickle.dumps({"labels": [True], "data": None}, 2), "no list of labels"),
    (b"\x80\x02}(U\x06labels](e" + b"u.", "no array of 0 rows"),
]


@pytest.mark.parametrize(("content", "said"), WRONG)
def test_wrong_pickles(content: bytes, said: str) -> None:
    message = message_of(WorkloadError, cifar.parse_pickle, content, "data_batch_1")
    assert message.startswith("data_batch_1 is ")
    assert said in message


def test_a_pickle_runs_nothing(tmp_path: Path) -> None:
    class Hostile:
        def __reduce__(self) -> t.Any:
            return os.mkdir, (str(tmp_path / "made"),)

    content = pickle.dumps({"labels": [1], "data": Hostile()}, 2)
    with pytest.raises(WorkloadError, match=r"it requests posix\.mkdir"):
        cifar.parse_pickle(content, "data_batch_1")
    assert not (tmp_path / "made").exists()
    # The content is hostile: with Python's own reader it would have run.
    pickle.loads(content)
    assert (tmp_path / "made").exists()


TWO = batch([1, 2])


@hypothesis.given(place=st.integers(0, 6500), what=st.binary(min_size=1, max_size=4))
def test_damage_is_told_or_harmless(place: int, what: bytes) -> None:
    damaged = TWO[:place] + what + TWO[place + len(what) :]
    try:
        found = cifar.parse_pickle(damaged, "data_batch_1")
    except WorkloadError:
        return
    assert len(found.pixels) == SIZE * len(found.labels)
