# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The synthetic benchmark with real PyTorch, and two of its results side by side."""

from __future__ import annotations

import re
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.tests.support.torch import WORKLOAD, Done, Job, two

pytestmark = pytest.mark.long

# Small images: what is tested is the measuring.
SMALL = ["--image-size", "32", "--batch-size", "2", "--num-warmup-batches", "1", "--num-batches-per-iter", "1"]
SMALL += ["--num-iters", "4"]


def benchmark(directory: Path, model: str, result: str, *words: str) -> list[Done]:
    done = two(directory, "benchmark.py", "--model", model, *SMALL, "--result", result, *words)
    assert [one.status for one in done] == [0, 0], done
    return done


def compare(directory: Path, *words: str, isolated: bool = True) -> subprocess.CompletedProcess[str]:
    # Isolated: no package of this machine is used.
    argv = [sys.executable, *["-S"] * isolated, str(WORKLOAD / "compare.py"), *words]
    return subprocess.run(argv, cwd=directory, capture_output=True, text=True, timeout=60)


@pytest.fixture(scope="module")
def resnet(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Done]:
    directory = tmp_path_factory.mktemp("resnet")
    zero, one = benchmark(directory, "resnet50", "one.json")
    assert one.out == ""
    (directory / "other.log").write_text(benchmark(directory, "resnet50", "other.json")[0].out)
    return directory, zero


def test_prints_what_people_know(resnet: tuple[Path, Done]) -> None:
    lines = resnet[1].out.splitlines()
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


def test_result(resnet: tuple[Path, Done]) -> None:
    result = resnet[1].result
    one, other = result["ranks"]
    assert one["checksum"] == other["checksum"]
    assert result["samples"] == [statistics.fmean(pair) for pair in zip(one["samples"], other["samples"], strict=True)]
    each, total = result["images_per_second_per_device"], result["images_per_second"]
    assert each["samples"] == 4
    assert each["mean"] == pytest.approx(statistics.fmean(result["samples"]))
    assert each["stdev"] == pytest.approx(statistics.stdev(result["samples"]))
    assert (each["min"], each["max"]) == (min(result["samples"]), max(result["samples"]))
    assert total["mean"] == pytest.approx(2 * each["mean"])


def test_two_results_side_by_side(resnet: tuple[Path, Done]) -> None:
    directory = resnet[0]
    words = ["one.json", "other.log", "--names", "default", "topology-aware"]
    done = compare(directory, *words)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("benchmark of resnet50 on 2 CPU(s), batch size 2, fp32\n")
    assert re.search(r"^ +default +topology-aware +difference$", done.stdout, re.MULTILINE)
    assert "Other differences: started (" in done.stdout
    with_page = compare(directory, *words, "--html", "page.html", isolated=False)
    assert (with_page.returncode, with_page.stdout) == (0, done.stdout)
    assert "topology-aware" in (directory / "page.html").read_text()
    without = compare(directory, *words, "--html", "none.html")
    assert (without.returncode, without.stdout) == (1, done.stdout)
    assert without.stderr == (
        "ERROR: Writing none.html: No module named 'jinja2'. Install jinja2 for this Python, or compare on the "
        "controller, where Ansible has it\n"
    )


def test_vgg_in_mixed_precision_is_not_to_be_compared_with_resnet(resnet: tuple[Path, Done]) -> None:
    directory = resnet[0]
    result = benchmark(directory, "vgg16", "vgg.json", "--amp", "--num-iters", "1")[0].result
    assert (result["model"], result["precision"]) == ("vgg16", "amp-bfloat16")
    assert result["images_per_second"]["stdev"] is None
    done = compare(directory, "one.json", "vgg.json")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "ERROR: The results cannot be compared: they differ in model (one: resnet50, vgg: vgg16); precision (one: fp32,"
        " vgg: amp-bfloat16)\n"
    )


def test_a_model_that_torchvision_does_not_have(tmp_path: Path) -> None:
    with Job(tmp_path) as job:
        job.rank(0, 1, "benchmark.py", "--model", "resnet51")
        (done,) = job.wait(300)
    assert done.status == 1
    assert done.err.startswith("ERROR: torchvision has no model resnet51: it has ")
    assert " resnet50, " in done.err
