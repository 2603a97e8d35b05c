# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The synthetic benchmark with real PyTorch, and two of its results side by side."""

from __future__ import annotations

import re
import statistics
import typing as t
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._experiment.difference import sentence
from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._experiment.run import of_job
from ansible_collections.rdmaops.gpu_fabric.tests.support.torch import Done, Job, two

pytestmark = pytest.mark.long

# Small images: what is tested is the measuring.
SMALL = ["--image-size", "32", "--batch-size", "2", "--num-warmup-batches", "1", "--num-batches-per-iter", "1"]
SMALL += ["--num-iters", "4"]


def benchmark(directory: Path, model: str, result: str, *words: str) -> list[Done]:
    done = two(directory, "benchmark.py", "--model", model, *SMALL, "--result", result, *words)
    assert [one.status for one in done] == [0, 0], done
    return done


@pytest.fixture(scope="module")
def resnet(tmp_path_factory: pytest.TempPathFactory) -> tuple[Done, Done]:
    """Rank 0 of two runs."""
    directory = tmp_path_factory.mktemp("resnet")
    zero, one = benchmark(directory, "resnet50", "first.json")
    assert one.out == ""
    return zero, benchmark(directory, "resnet50", "second.json")[0]


def test_prints_what_people_know(resnet: tuple[Done, Done]) -> None:
    lines = resnet[0].out.splitlines()
    assert lines[1:6] == [
        "Model: resnet50",
        "Batch size: 2",
        "Number of CPUs: 2",
        "Running warmup...",
        "Running benchmark...",
    ]
    for number, line in enumerate(lines[6:10]):
        assert re.fullmatch(rf"Iter #{number}: [0-9]+\.[0-9] img/sec per CPU", line)
    assert re.fullmatch(r"Img/sec per CPU: [0-9]+\.[0-9] \+-[0-9]+\.[0-9]", lines[10])
    assert re.fullmatch(r"Total img/sec on 2 CPU\(s\): [0-9]+\.[0-9] \+-[0-9]+\.[0-9]", lines[11])
    assert lines[12].startswith("RESULT ")


def test_result(resnet: tuple[Done, Done]) -> None:
    result = resnet[0].result
    one, other = result["ranks"]
    assert one["checksum"] == other["checksum"]
    assert result["samples"] == [statistics.fmean(pair) for pair in zip(one["samples"], other["samples"], strict=True)]
    each, total = result["images_per_second_per_device"], result["images_per_second"]
    assert each["samples"] == 4
    assert each["mean"] == pytest.approx(statistics.fmean(result["samples"]))
    assert each["stdev"] == pytest.approx(statistics.stdev(result["samples"]))
    assert (each["min"], each["max"]) == (min(result["samples"]), max(result["samples"]))
    assert total["mean"] == pytest.approx(2 * each["mean"])


def run_of(done: Done) -> t.Any:
    return of_job({"logs": [{"pod": "launcher", "text": done.out, "error": None}]})


def test_two_results_side_by_side(resnet: tuple[Done, Done]) -> None:
    first, second = map(run_of, resnet)
    for run, done in ((first, resnet[0]), (second, resnet[1])):
        assert run["samples"] == done.result["samples"]
        assert run["numbers"]["images_per_second"] == done.result["images_per_second"]["mean"]
        assert {key: run["details"][key] for key in ("kind", "model", "world_size", "image_size")} == {
            "kind": "benchmark", "model": "resnet50", "world_size": 2, "image_size": 32,
        }  # fmt: skip
    assert re.search(
        r"second is \d+\.\d % (faster|slower) than first", sentence(("first", "second"), first, second) or ""
    )


def test_vgg_in_mixed_precision_is_not_to_be_compared_with_resnet(resnet: tuple[Done, Done], tmp_path: Path) -> None:
    done = benchmark(tmp_path, "vgg16", "vgg.json", "--amp", "--num-iters", "1")[0]
    assert (done.result["model"], done.result["precision"]) == ("vgg16", "amp-bfloat16")
    assert done.result["images_per_second"]["stdev"] is None
    assert sentence(("first", "second"), run_of(resnet[0]), run_of(done)) == (
        "second cannot be compared with first: they differ in model (vgg16, resnet50); precision (amp-bfloat16, fp32)."
    )


def test_a_model_that_torchvision_does_not_have(tmp_path: Path) -> None:
    with Job(tmp_path) as job:
        job.rank(0, 1, "benchmark.py", "--model", "resnet51")
        (done,) = job.wait(300)
    assert done.status == 1
    assert done.err.startswith("ERROR: torchvision has no model resnet51: it has ")
    assert " resnet50, " in done.err
