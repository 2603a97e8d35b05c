# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rates, results and files written whole."""

from __future__ import annotations

import io
import json
import math
import os
import sys
import typing as t
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.tests.support.disk_calls import recorded
from ansible_collections.rdmaops.gpu_fabric.tests.support.failures import message_of
from ansible_collections.rdmaops.gpu_fabric.tests.support.torch import module

common = module("common")
WorkloadError = common.WorkloadError


class Clock:
    """Time that passes when it is told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_meter_counts_only_while_it_runs() -> None:
    clock = Clock()
    meter = common.Meter(clock)
    meter.add(1000)
    clock.now += 50
    assert meter.lap() is None
    meter.start()
    meter.add(10)
    clock.now += 2
    meter.add(10)
    meter.stop()
    clock.now += 1000
    meter.add(1000)
    meter.start()
    meter.add(4)
    clock.now += 2
    assert meter.lap() == 6.0


def test_meter_goes_on_after_a_lap() -> None:
    clock = Clock()
    meter = common.Meter(clock)
    meter.start()
    for rate in (5, 7):
        meter.add(rate * 2)
        clock.now += 2
        assert meter.lap() == rate


def test_a_lap_without_time_has_no_rate() -> None:
    meter = common.Meter(Clock())
    meter.start()
    meter.add(5)
    assert meter.lap() is None


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-3, "0:00"), (0, "0:00"), (59.6, "1:00"), (3599, "59:59"), (3600, "1:00:00"), (90061, "25:01:01")],
)
def test_clock_text(seconds: float, text: str) -> None:
    assert common.clock_text(seconds) == text


def test_summarize() -> None:
    assert common.summarize([]) is None
    assert common.summarize([5.0]) == (1, 5.0, None, 5.0, 5.0)
    found = common.summarize([2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0])
    assert (found.samples, found.mean, found.min, found.max) == (8, 5.0, 2.0, 9.0)
    assert found.stdev == pytest.approx(math.sqrt(32 / 7))


def test_spread_is_over_times_not_over_ranks() -> None:
    # Two ranks that differ, but do the same all the time.
    found = common.spread([[10.0, 10.0, 10.0], [30.0, 30.0, 30.0]])
    assert found["samples"] == [20.0, 20.0, 20.0]
    assert found["images_per_second"] == {"samples": 3, "mean": 40.0, "stdev": 0.0, "min": 40.0, "max": 40.0}
    assert found["images_per_second_per_device"]["mean"] == 20.0


def test_spread_takes_what_all_ranks_measured() -> None:
    assert common.spread([[10.0, 12.0], [10.0]])["samples"] == [10.0]
    nothing = common.spread([[], [1.0]])
    assert nothing == {"samples": [], "images_per_second": None, "images_per_second_per_device": None}


def test_a_line_is_one_write(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else mpirun may put what another process writes between a line and its end."""
    # In this mode, a read returns one write (pipe(2)).
    reader, writer = os.pipe2(os.O_DIRECT)
    with os.fdopen(reader, "rb", buffering=0) as output, os.fdopen(writer, "wb", buffering=0) as stream:
        # As with PYTHONUNBUFFERED.
        monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(t.cast("t.BinaryIO", stream), write_through=True))
        common.say("RESULT {}")
        assert output.read(100) == b"RESULT {}\n"


def test_emit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    common.emit({"b": 1, "a": None}, str(tmp_path / "new" / "r.json"))
    assert capsys.readouterr().out == 'RESULT {"a": null, "b": 1}\n'
    assert json.loads((tmp_path / "new" / "r.json").read_text()) == {"a": None, "b": 1}
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["r.json"]


def test_finite() -> None:
    assert [common.finite(one) for one in (1.5, math.inf, math.nan)] == [1.5, None, None]


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")

    def write(stream: object) -> None:
        stream.write(b"half")  # type: ignore[attr-defined]
        raise OSError(28, "No space left on device")

    message = message_of(WorkloadError, common.write_whole, str(path), write)
    assert message == f"Writing {path}: No space left on device"
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_the_order_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = recorded(monkeypatch)
    common.write_whole(str(tmp_path / "file"), lambda stream: stream.write(b"new"))
    assert calls == ["fsync .file.new of 3 bytes", "rename .file.new file", "fsync directory of file"]


def test_a_place_that_is_no_directory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(WorkloadError, match=r"Writing .*/file/result: "):
        common.write_whole(str(tmp_path / "file" / "result"), lambda stream: stream.write(b""))
