# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files that stay open: what is read is what the module sysfs reads, whatever happens to the tree."""

from __future__ import annotations

import errno
import os
import shutil
import typing as t
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._rdma import sysfs
from ansible_collections.rdmaops.gpu_fabric.roles.rdma_exporter.files.rdma_exporter.kept import KeptFiles


@pytest.fixture
def place(tmp_path: Path) -> Path:
    made = tmp_path / "counters"
    made.mkdir()
    for number in range(5):
        (made / f"c{number}").write_text(f"{number}\n")
    return made


@pytest.fixture
def kept() -> t.Iterator[KeptFiles]:
    before = open_files()
    made = KeptFiles(100)
    yield made
    made.close()
    assert open_files() == before


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def values(attributes: list[tuple[str, str | OSError]]) -> dict[str, t.Any]:
    return {name: text.errno if isinstance(text, OSError) else text.strip() for name, text in attributes}


def test_a_value_is_read_anew_every_time(place: Path, kept: KeptFiles) -> None:
    assert kept.attributes(str(place)) == sysfs.attributes(str(place))
    before = open_files()
    (place / "c3").write_text("33\n")
    kept.sweep()
    assert values(kept.attributes(str(place)))["c3"] == "33"
    assert kept.read(str(place / "c3")) == "33\n"
    assert open_files() == before


def test_a_renamed_directory_is_not_taken_for_the_one_that_has_its_name_now(place: Path, kept: KeptFiles) -> None:
    other = place.parent / "other"
    shutil.copytree(place, other)
    (other / "c0").write_text("100\n")
    kept.attributes(str(place))
    kept.attributes(str(other))
    kept.sweep()
    # udev swaps two names: the open files go along with the directories.
    place.rename(place.parent / "swap")
    other.rename(place)
    (place.parent / "swap").rename(other)
    assert values(kept.attributes(str(place)))["c0"] == "100"
    assert values(kept.attributes(str(other)))["c0"] == "0"


def test_what_comes_and_goes(place: Path, kept: KeptFiles) -> None:
    kept.attributes(str(place))
    kept.sweep()
    (place / "c1").unlink()
    (place / "c9").write_text("9\n")
    assert values(kept.attributes(str(place))) == {"c0": "0", "c2": "2", "c3": "3", "c4": "4", "c9": "9"}
    kept.sweep()
    shutil.rmtree(place)
    assert kept.read(str(place / "c0")) is None
    with pytest.raises(FileNotFoundError):
        kept.attributes(str(place))
    before = open_files()
    kept.sweep()
    kept.sweep()
    assert open_files() == before - 5


def test_another_device_under_the_name_of_the_one_that_went(
    place: Path, kept: KeptFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel answers ENODEV through an open file whose device is gone."""
    kept.attributes(str(place))
    kept.sweep()
    real = os.pread
    dead = {handle for directory in kept._directories.values() for handle in directory.handles.values()}

    def pread(handle: int, size: int, offset: int) -> bytes:
        if handle in dead:
            dead.remove(handle)
            raise OSError(errno.ENODEV, os.strerror(errno.ENODEV))
        return real(handle, size, offset)

    monkeypatch.setattr(os, "pread", pread)
    assert values(kept.attributes(str(place))) == {f"c{number}": str(number) for number in range(5)}
    assert not dead


def test_what_cannot_be_read_leaves_the_others(place: Path, kept: KeptFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    (place / "c2").unlink()
    (place / "c2").mkdir()
    (place / "c4").write_bytes(b"\xff\n")
    result = values(kept.attributes(str(place)))
    assert result == {"c0": "0", "c1": "1", "c2": errno.EISDIR, "c3": "3", "c4": "\udcff"}
    assert result == values(sysfs.attributes(str(place)))
    with pytest.raises(sysfs.SysfsError, match="Could not read .*/c2: Is a directory"):
        kept.read(str(place / "c2"))
    assert kept.read(str(place / "c0" / "below")) is None


def test_no_more_files_than_are_allowed(place: Path) -> None:
    before = open_files()
    kept = KeptFiles(2)
    for _turn in range(3):
        assert len(kept.attributes(str(place))) == 5
        assert open_files() == before + 2
        kept.sweep()
    kept.close()


def test_what_is_found_out_once(place: Path, kept: KeptFiles) -> None:
    answers = iter(["first", "second"])
    assert [kept.once(str(place), lambda: next(answers)) for _turn in range(3)] == ["first"] * 3
    kept.sweep()
    assert kept.once(str(place), lambda: next(answers)) == "first"
    kept.sweep()
    shutil.rmtree(place)
    place.mkdir()
    (place / "c0").write_text("0\n")
    assert kept.once(str(place), lambda: next(answers)) == "second"


def test_what_does_not_change_is_read_once_for_each_directory(place: Path, kept: KeptFiles) -> None:
    (place / "link_layer").write_text("Ethernet\n")
    for _turn in range(2):
        assert kept.read(str(place / "link_layer")) == "Ethernet\n"
        assert kept.read(str(place / "board_id")) is None
        kept.sweep()
        # What a device is, it stays.
        os.truncate(place / "link_layer", 0)
    shutil.rmtree(place)
    place.mkdir()
    (place / "link_layer").write_text("InfiniBand\n")
    kept.sweep()
    assert kept.read(str(place / "link_layer")) == "InfiniBand\n"
    shutil.rmtree(place)
    kept.sweep()
    assert kept.read(str(place / "link_layer")) is None


def test_what_does_not_change_and_cannot_be_read_is_tried_again(place: Path, kept: KeptFiles) -> None:
    (place / "link_layer").mkdir()
    for _turn in range(2):
        with pytest.raises(sysfs.SysfsError, match="Is a directory"):
            kept.read(str(place / "link_layer"))


def test_numbers_and_what_is_none(place: Path, kept: KeptFiles) -> None:
    """As often as they are read, and whatever was read before."""
    texts = {"c0": "0\n", "c1": "N/A (no PMA)\n", "c2": "18446744073709551615\n", "c3": "1_0\n", "c4": "7"}
    for turn in range(3):
        for name, text in texts.items():
            (place / name).write_text(text)
        numbers, others = kept.numbers(str(place))
        # A file that is not open yet, and one without the kernel's line feed, are read as texts.
        both = {**dict(others), **{name: f"{number}\n" for name, number in numbers.items()}}
        assert both == texts, turn
        assert set(numbers) == ({"c0", "c2"} if turn else set())
        kept.sweep()
    (place / "c0").write_text("1\n")
    assert kept.numbers(str(place))[0]["c0"] == 1
