# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Two runs' rates: what may be compared, what is noise, and the sentence that people read."""

from __future__ import annotations

import statistics
import typing as t

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._experiment.difference import (
    difference,
    sentence,
    student,
)
from ansible_collections.rdmaops.gpu_fabric.tests.unit.plugins.plugin_utils._experiment.runs import (
    DEFAULT,
    RESNET_DEFAULT,
    RESNET_TOPOLOGY,
    TOPOLOGY,
    benchmark,
)

NAMES = ("default", "topology-aware")


def compared(first: t.Sequence[float], second: t.Sequence[float], **changes: t.Any) -> str | None:
    return sentence(NAMES, benchmark(first), benchmark(second, **changes))


def test_the_figures_of_the_guide() -> None:
    change = difference(DEFAULT, TOPOLOGY)
    assert change.verdict == "faster"
    assert change.percent == pytest.approx(88.5, abs=0.05)
    assert compared(DEFAULT, TOPOLOGY) == (
        "topology-aware is 88.5 % faster than default (with 95 % confidence +86.6 to +90.4 %)."
    )


def test_a_small_difference_that_is_not_noise() -> None:
    change = difference(RESNET_DEFAULT, RESNET_TOPOLOGY)
    assert change.verdict == "faster"
    # 330.49 against 312.95; t(0.975, 14 degrees of freedom) = 2.145 (printed tables), standard error 0.2661.
    assert change.percent == pytest.approx(5.605, abs=0.001)
    assert change.high is not None
    assert change.high - change.percent == pytest.approx(2.145 * 0.2661 / 312.95 * 100, rel=0.005)


# first rates, second rates, verdict, beginning of the sentence
SENTENCES: list[tuple[list[float], list[float], str, str]] = [
    ([100, 104, 96, 102, 98], [101, 105, 97, 103, 99], "noise",
     "No difference above the noise: topology-aware is 1.0 % faster than default, and anything from -3."),
    (TOPOLOGY, DEFAULT, "slower", "topology-aware is 46.9 % slower than default (with 95 % confidence -4"),
    ([100], [200], "unknown", "topology-aware is 100.0 % faster than default, but 1 and 1 measurements cannot tell"),
    ([100, 101], [200, 201, 202], "unknown", "topology-aware is 100.0 % faster than default, but 2 and 3 measurements"),
    ([100] * 3, [100] * 3, "noise", "No difference above the noise: topology-aware is 0.0 % faster"),
    ([100] * 3, [101] * 3, "faster", "topology-aware is 1.0 % faster than default (with 95 % confidence +1.0"),
]  # fmt: skip


@pytest.mark.parametrize(("first", "second", "verdict", "text"), SENTENCES)
def test_sentence(first: list[float], second: list[float], verdict: str, text: str) -> None:
    assert difference(first, second).verdict == verdict
    assert (compared(first, second) or "").startswith(text)


def test_no_sentence_without_rates() -> None:
    assert sentence(NAMES, {**benchmark(DEFAULT), "samples": []}, benchmark(TOPOLOGY)) is None


# what is not the same, what the sentence says
UNLIKE = [
    ({"model": "resnet50"}, "model (resnet50, vgg16)"),
    ({"world_size": 8}, "world size (8, 4)"),
    ({"batch_size": 32}, "batch size (32, 64)"),
    ({"image_size": 32}, "image size (32, 224)"),
    ({"precision": "amp-float16"}, "precision (amp-float16, fp32)"),
    ({"kind": "train"}, "kind of run (train, benchmark)"),
    ({"device_type": None}, "kind of device (not known, cuda)"),
    ({"model": "resnet50", "world_size": 8}, "model (resnet50, vgg16); world size (8, 4)"),
]


@pytest.mark.parametrize(("changes", "text"), UNLIKE)
def test_unlike(changes: dict[str, t.Any], text: str) -> None:
    expected = f"topology-aware cannot be compared with default: they differ in {text}."
    assert compared(DEFAULT, TOPOLOGY, **changes) == expected


# degrees of freedom, what printed tables say
STUDENT = {2: 4.303, 2.9: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 10: 2.228, 15: 2.131, 30: 2.042, 1e6: 1.960}


@pytest.mark.parametrize(("degrees", "table"), STUDENT.items())
def test_student(degrees: float, table: float) -> None:
    assert student(degrees) == pytest.approx(table, rel=0.005)


def test_the_confidence_holds() -> None:
    """Of pairs of runs that do not differ, about 5 % are reported to differ, and not many more."""
    normal = statistics.NormalDist(100, 3)
    runs = [normal.samples(6, seed=number) for number in range(2000)]
    wrong = sum(difference(runs[number], runs[number + 1]).verdict != "noise" for number in range(0, 2000, 2))
    assert 25 <= wrong <= 75
