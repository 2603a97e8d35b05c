# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Two results side by side: what may be compared, what is noise, and what people read."""

from __future__ import annotations

import json
import statistics
import typing as t
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.tests.support.failures import message_of
from ansible_collections.rdmaops.gpu_fabric.tests.support.html_page import Page
from ansible_collections.rdmaops.gpu_fabric.tests.support.torch import module

compare = module("compare")
page = module("compare_page")
common = module("common")
WorkloadError = common.WorkloadError

# Images per second and GPU that Alibaba Cloud's guide "topology-aware GPU scheduling (PyTorch)" shows for VGG16 and
# ResNet-50 on 4 V100, with the scheduling and without.
TOPOLOGY = [205.5, 205.2, 205.1, 205.5, 205.1, 205.1, 205.3, 204.3, 205.0, 204.9]
DEFAULT = [113.1, 109.5, 106.5, 108.5, 108.1, 111.2, 110.7, 109.8, 102.8, 107.9]
RESNET_TOPOLOGY = [331.0, 330.6, 330.9, 330.4, 330.7, 330.8, 329.9, 330.5, 330.4, 329.7]
RESNET_DEFAULT = [313.1, 312.8, 313.0, 312.2, 313.7, 313.2, 313.6, 313.0, 311.3, 313.6]


def result(samples: t.Sequence[float], **changes: t.Any) -> dict[str, t.Any]:
    return {
        "schema": 1, "kind": "benchmark", "model": "vgg16", "world_size": 4, "batch_size": 64, "image_size": 224,
        "precision": "fp32", "device_type": "cuda", "device": "V100", "backend": "nccl", "torch": "1.13.1",
        "hosts": ["a", "a", "b", "b"], "started": "2026-01-01T00:00:00Z", "samples": list(samples), **changes,
    }  # fmt: skip


def compared(one: t.Any, other: t.Any) -> t.Any:
    return compare.compare((one, other), ("default", "topology-aware"))


def test_the_figures_of_the_guide() -> None:
    found = compared(result(DEFAULT), result(TOPOLOGY))
    assert found.difference.verdict == "faster"
    assert found.difference.percent == pytest.approx(88.5, abs=0.05)
    rows = {row[0].strip(): row[1:] for row in found.rows}
    # The guide's own summary says 108.8 +-5.3 and 205.1 +-0.6; its deviation is the population's.
    assert rows["images/s per GPU"][:2] == ("108.8 +-5.5", "205.1 +-0.7")
    assert rows["images/s of all"] == ("435.2", "820.4", "+88.5 %")
    assert rows["slowest"] == ("102.8", "204.3", "+98.7 %")


def test_a_small_difference_that_is_none_of_chance() -> None:
    found = compared(result(RESNET_DEFAULT, model="resnet50"), result(RESNET_TOPOLOGY, model="resnet50"))
    assert found.difference.verdict == "faster"
    # 330.49 against 312.95; t(0.975, 14 degrees of freedom) = 2.145 (printed tables), standard error 0.2661.
    assert found.difference.percent == pytest.approx(5.605, abs=0.001)
    assert found.difference.high - found.difference.percent == pytest.approx(2.145 * 0.2661 / 312.95 * 100, rel=0.005)


def test_noise() -> None:
    found = compared(result([100, 104, 96, 102, 98]), result([101, 105, 97, 103, 99]))
    assert found.difference.verdict == "noise"
    assert found.sentence.startswith("No difference above the noise: topology-aware is 1.0 % faster than default")
    assert "anything from -3." in found.sentence


def test_slower() -> None:
    found = compared(result(TOPOLOGY), result(DEFAULT))
    assert found.difference.verdict == "slower"
    assert found.sentence.startswith("topology-aware is 46.9 % slower than default (with 95 % confidence -4")


@pytest.mark.parametrize(("one", "other"), [([100], [200]), ([100, 101], [200, 201, 202]), ([100, 101, 102], [200])])
def test_too_few_to_tell(one: list[float], other: list[float]) -> None:
    found = compared(result(one), result(other))
    assert found.difference.verdict == "unknown"
    assert "cannot tell a difference from noise: at least 3 each are needed" in found.sentence


def test_runs_without_any_spread() -> None:
    assert compared(result([100] * 3), result([100] * 3)).difference.verdict == "noise"
    assert compared(result([100] * 3), result([101] * 3)).difference.verdict == "faster"


# degrees of freedom, what printed tables say
STUDENT = {2: 4.303, 2.9: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 10: 2.228, 15: 2.131, 30: 2.042, 1e6: 1.960}


@pytest.mark.parametrize(("degrees", "table"), STUDENT.items())
def test_student(degrees: float, table: float) -> None:
    assert compare.student(degrees) == pytest.approx(table, rel=0.005)


def test_the_confidence_holds() -> None:
    """Of pairs of runs that do not differ, about 5 % are told to differ, and not many more."""
    normal = statistics.NormalDist(100, 3)
    runs = [normal.samples(6, seed=number) for number in range(2000)]
    pairs = [(common.summarize(runs[one]), common.summarize(runs[one + 1])) for one in range(0, 2000, 2)]
    wrong = sum(compare.difference(*pair).verdict != "noise" for pair in pairs)
    assert 25 <= wrong <= 75


# what is not the same, what is said
UNLIKE = [
    ({"model": "resnet50"}, "model (default: vgg16, topology-aware: resnet50)"),
    ({"world_size": 8}, "world size (default: 4, topology-aware: 8)"),
    ({"batch_size": 32}, "batch size (default: 64, topology-aware: 32)"),
    ({"image_size": 32}, "image size (default: 224, topology-aware: 32)"),
    ({"precision": "amp-float16"}, "precision (default: fp32, topology-aware: amp-float16)"),
    ({"kind": "train"}, "kind of run (default: benchmark, topology-aware: train)"),
    ({"device_type": "cpu"}, "kind of device (default: cuda, topology-aware: cpu)"),
    (
        {"model": "resnet50", "world_size": 8},
        "model (default: vgg16, topology-aware: resnet50); world size (default: 4, topology-aware: 8)",
    ),
]


@pytest.mark.parametrize(("changes", "said"), UNLIKE)
def test_unlike(changes: dict[str, t.Any], said: str) -> None:
    message = message_of(WorkloadError, compared, result(DEFAULT), result(TOPOLOGY, **changes))
    assert message == f"The results cannot be compared: they differ in {said}"


def test_what_else_differs() -> None:
    found = compared(result(DEFAULT), result(TOPOLOGY, backend="gloo", hosts=["c"] * 4))
    assert found.differing == [("hosts", "a, a, b, b", "c, c, c, c"), ("backend", "nccl", "gloo")]
    assert "Other differences: backend (nccl; gloo).\n" in compare.table(found)


def test_read_file_and_log(tmp_path: Path) -> None:
    wanted = result(DEFAULT)
    (tmp_path / "r.json").write_text(json.dumps(wanted, indent=1))
    log = f"NCCL INFO x\nRESULT {json.dumps(result([1.0]))}\n[1,0]<stdout>:RESULT {json.dumps(wanted)}\nbye\n"
    (tmp_path / "r.log").write_text(log)
    assert compare.read(str(tmp_path / "r.json")) == wanted
    assert compare.read(str(tmp_path / "r.log")) == wanted


# content, what is said
WRONG = [
    ("", "has no result, or only a part of one"),
    ("Model: vgg16\n", "has no result, or only a part of one"),
    (json.dumps(result(DEFAULT))[:-20], "has no result, or only a part of one"),
    ("RESULT " + json.dumps(result(DEFAULT))[:-20], "has no result, or only a part of one"),
    ("[]", "has no result of this workload (schema 1)"),
    (json.dumps(result(DEFAULT, schema=2)), "has no result of this workload (schema 1)"),
    (
        json.dumps({"schema": 1, "kind": "train"}),
        "no complete result: model, world_size, batch_size, precision, device_type",
    ),
    (json.dumps(result([])), "has no rates: the run was too short to measure one"),
    (json.dumps(result(["fast"])), "has no list of rates"),  # type: ignore[list-item]
    (json.dumps(result([0.0])), "has no list of rates"),
    (json.dumps({**result(DEFAULT), "samples": None}), "has no list of rates"),
]


@pytest.mark.parametrize(("content", "said"), WRONG)
def test_read_refuses(content: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "r").write_text(content)
    message = message_of(WorkloadError, compare.read, str(tmp_path / "r"))
    assert f"{tmp_path}/r " in message
    assert said in message


def test_main(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, samples in (("default", DEFAULT), ("topology", TOPOLOGY)):
        (tmp_path / f"{name}.json").write_text(json.dumps(result(samples)))
    words = [str(tmp_path / "default.json"), str(tmp_path / "topology.json"), "--html", str(tmp_path / "page.html")]
    assert compare.main(words) == 0
    assert capsys.readouterr().out == (
        "benchmark of vgg16 on 4 GPU(s), batch size 64, fp32\n"
        "\n"
        "                          default     topology     difference\n"
        "images/s per GPU      108.8 +-5.5  205.1 +-0.7  +88.5 +-1.9 %\n"
        "  slowest                   102.8        204.3        +98.7 %\n"
        "  fastest                   113.1        205.5        +81.7 %\n"
        "  standard deviation         2.83         0.34\n"
        "  measurements                 10           10\n"
        "images/s of all             435.2        820.4        +88.5 %\n"
        "\n"
        "topology is 88.5 % faster than default (with 95 % confidence +86.6 to +90.4 %).\n"
    )
    assert (tmp_path / "page.html").read_text().startswith("<!DOCTYPE html>")


def test_main_refuses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "one.json").write_text(json.dumps(result(DEFAULT)))
    assert compare.main([str(tmp_path / "one.json"), str(tmp_path / "two.json"), "--html", str(tmp_path / "page")]) == 1
    assert capsys.readouterr().err == f"ERROR: Reading {tmp_path}/two.json: No such file or directory\n"
    assert not (tmp_path / "page").exists()


def test_names_of_files_in_two_directories() -> None:
    assert compare.distinct_names(["a/r.json", "b/r.json"]) == ("a/r.json", "b/r.json")
    assert compare.distinct_names(["a/r.json", "b/s.log"]) == ("r", "s")


def test_page() -> None:
    hostile = result(TOPOLOGY, backend="<script>alert(1)</script>", hosts=["<b onload=x>"])
    found = compare.compare((result(DEFAULT), hostile), ("default & old", '"new" <img src=x>'))
    reader = Page(page.page(found))
    assert not {"script", "img", "b", "link"}.intersection(reader.tags)
    assert not {"src", "href", "onload", "onerror"} & dict(reader.attributes).keys()
    said = "".join(reader.texts)
    for wanted in (found.sentence, found.title, "default & old", '"new" <img src=x>', "<script>alert(1)</script>"):
        assert wanted in said
    assert reader.tags.count("circle") == 20
    bars = [float(bar.attributes["width"] or 0) for bar in reader.find("rect")]
    assert bars[1] / bars[0] == pytest.approx(205.1 / 108.8, rel=0.001)


def test_every_character_of_a_name_stays_text() -> None:
    name = "<>&\"'\0\ud800\r\u202e"
    seen = name.replace("\0", "\ufffd").replace("\ud800", "\ufffd")
    both = (result(DEFAULT, model=name), result(TOPOLOGY, model=name, backend=name))
    text = page.page(compare.compare(both, (name, "other")))
    assert text.encode("utf-8")
    assert "\r" not in text
    reader = Page(text)
    # The title, a bar, the head of both tables; a value of the second.
    assert reader.texts.count(seen) == 3
    assert f"{seen}: 108.8" in reader.texts
    assert f"other against {seen}" in reader.texts
