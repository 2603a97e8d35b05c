# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The trainer's small CNN on MNIST with real PyTorch: two processes over gloo on this machine's CPU."""

from __future__ import annotations

import gzip
import hashlib
import json
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.tests.support import mnist
from ansible_collections.rdmaops.gpu_fabric.tests.support.http_server import Answer, Request, Server
from ansible_collections.rdmaops.gpu_fabric.tests.support.torch import Job, python, script_path, two

pytestmark = pytest.mark.long

# What people run with MNIST; 16 images of each rank are a step.
WORDS = ["--data-set", "mnist", "--optimizer", "Adadelta", "--lr", "1", "--gamma", "0.7", "--batch-size", "16"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two epochs on files as torchvision lays them out."""
    directory = tmp_path_factory.mktemp("mnist")
    mnist.write(directory / "data/MNIST/raw", mnist.files(64, 20), compressed=True)
    done = two(directory, "train.py", *WORDS, "--epochs", "2", "--checkpoint", "a.pt", "--result", "a.json")
    assert [one.status for one in done] == [0, 0], done
    return directory


def test_files_of_torchvision(trained: Path) -> None:
    result = json.loads((trained / "a.json").read_text())
    assert (result["model"], result["steps"]) == ("small_cnn", 4)
    assert (result["settings"]["data_set"], result["settings"]["gamma"]) == ("mnist", 0.7)
    assert result["settings"]["data"].startswith("MNIST sha256:")
    assert result["ranks"][0]["checksum"] == result["ranks"][1]["checksum"]
    assert 0 <= result["accuracy"] <= 1


def test_another_gamma_is_another_run(trained: Path) -> None:
    done = two(trained, "train.py", *WORDS, "--epochs", "2", "--checkpoint", "a.pt", "--resume", "--gamma", "0.5")
    message = "ERROR: The checkpoint a.pt is of another run: gamma was 0.7 and is 0.5 now. Start it with the options of"
    assert [(one.status, message in one.err) for one in done] == [(1, True), (1, True)], done


def test_it_learns(tmp_path: Path) -> None:
    words = [*WORDS, "--gamma", "0.9", "--epochs", "8", "--use-dummy-data", "640", "--log-interval", "20"]
    done = two(tmp_path, "train.py", *words)
    result = done[0].result
    assert result["accuracy"] > 0.9, result
    assert result["losses"][-1]["loss"] < 0.2 * result["losses"][0]["loss"]


class Mirror(Server):
    """Serves the four files, and keeps what was asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.files = {f"/{name}.gz": gzip.compress(content) for name, content in mnist.files(64, 20).items()}
        self.asked: list[str] = []

    def answer(self, request: Request) -> Answer:
        self.asked.append(request.path)
        return Answer(200, self.files[request.path])


def test_one_rank_of_a_host_downloads(tmp_path: Path) -> None:
    with Mirror() as mirror, Job(tmp_path) as job:
        words = [*WORDS, "--epochs", "1", "--data-url", mirror.url]
        for path, content in mirror.files.items():
            words += ["--data-checksum", f"{path[1:]}=sha256:{hashlib.sha256(content).hexdigest()}"]
        for rank in range(2):
            job.rank(rank, 2, "train.py", *words, "--local-rank", str(rank))
        done = job.wait(400)
    assert [one.status for one in done] == [0, 0], done
    assert mirror.asked == list(mirror.files)
    assert done[0].result["settings"]["data"].startswith("MNIST sha256:")
    assert [one.out.count("downloading ") for one in done] == [4, 0]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--data-dir", "nowhere"], "No MNIST in nowhere, nor in raw or MNIST/raw there (looked for "),
        (["--data-url", "http://mirror.example"], "--data-url: nothing is downloaded without a checksum. Set "),
        (["--pre-trained"], "--pre-trained: torchvision has weights of ResNet-18, but --data-set mnist trains another"),
    ],
)
def test_refusals(tmp_path: Path, words: list[str], message: str) -> None:
    with Job(tmp_path) as job:
        job.rank(0, 1, "train.py", "--data-set", "mnist", *words)
        (done,) = job.wait(300)
    assert (done.status, "Traceback" in done.err) == (1, False), done
    assert f"ERROR: {message}" in done.err


# Prints learning rates, whether images are varied, and their range after normalization.
LOOK = """
import argparse, json, sys
sys.path.insert(0, sys.argv[1])
import data, options, torch, train
parse = lambda text: options.train_parser("").parse_args(text.split())
output = {}
for words in ("--gamma 0.5", "--gamma 1", ""):
    output[words] = [round(train.learning_rate(parse("--lr 0.8 --epochs 4 " + words), epoch), 4) for epoch in range(4)]
for name in data.KINDS:
    loaded = data.load(parse("--use-dummy-data 40 --data-set " + name), first=True)
    some = torch.arange(40)
    images, labels = data.batch(loaded, some, 0, 0, 0, 0)
    plain = data.normal(loaded.kind, loaded.training.images)
    black = data.normal(loaded.kind, torch.zeros(1, *loaded.training.images.shape[1:]))
    output[name] = {"shape": list(images.shape), "plain": torch.equal(images, plain), "labels": torch.equal(labels, loaded.training.labels),
                    "black": [round(value, 3) for value in black[0, :, 0, 0].tolist()]}
print(json.dumps(output))
"""


def test_rates_and_images(tmp_path: Path) -> None:
    with Job(tmp_path) as job:
        job.start(python(tmp_path, "-c", LOOK, script_path("")))
        (done,) = job.wait(300)
    assert done.status == 0, done
    assert json.loads(done.out) == {
        # StepLR of PyTorch with a step of one epoch gives the same.
        "--gamma 0.5": [0.8, 0.4, 0.2, 0.1],
        "--gamma 1": [0.8, 0.8, 0.8, 0.8],
        "": [0.8, 0.6828, 0.4, 0.1172],
        "cifar10": {"shape": [40, 3, 32, 32], "plain": False, "labels": True, "black": [-2.429, -2.418, -2.221]},
        "mnist": {"shape": [40, 1, 28, 28], "plain": True, "labels": True, "black": [-0.424]},
    }
