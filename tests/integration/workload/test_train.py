# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The trainer with real PyTorch: two processes over gloo on this machine's CPU."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.tests.support.torch import (
    Done,
    Job,
    command,
    mpirun,
    python,
    script_path,
    two,
)

pytestmark = pytest.mark.long

# 8 steps in an epoch.
SMALL = ["--use-dummy-data", "64", "--batch-size", "4", "--epochs", "2", "--log-interval", "1"]
SMALL += ["--learning-rate", "0.01"]


def train(directory: Path, *words: str) -> list[Done]:
    return two(directory, "train.py", *SMALL, *words)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Done]]:
    """A run that was not interrupted."""
    directory = tmp_path_factory.mktemp("whole")
    words = ("--test-interval", "1", "--checkpoint", "whole.pt", "--result", "whole.json")
    return directory, train(directory, *words)


def refusals(done: t.Sequence[Done], status: int = 1) -> list[str]:
    """Return the one error of each rank."""
    assert [one.status for one in done] == [status] * len(done), done
    assert not [one for one in done if "RESULT" in one.out or "Traceback" in one.err], done
    found = []
    for one in done:
        (line,) = [line for line in one.err.splitlines() if line.startswith("ERROR: ")]
        found.append(line.removeprefix("ERROR: "))
    return found


def test_both_ranks_end_with_the_same_model(whole: tuple[Path, list[Done]]) -> None:
    directory, done = whole
    assert [one.status for one in done] == [0, 0], done
    result = done[0].result
    assert json.loads((directory / "whole.json").read_text()) == result
    assert (result["kind"], result["model"]) == ("train", "resnet18")
    assert (result["world_size"], result["backend"]) == (2, "gloo")
    one, other = result["ranks"]
    assert one["checksum"] == other["checksum"]
    assert len(one["checksum"]) == 64
    assert one["loss"] == other["loss"] == result["loss"]
    assert [entry["step"] for entry in result["losses"]] == list(range(1, 17))
    assert result["images_per_second"]["mean"] > 0
    assert len(result["samples"]) == 15
    assert "RESULT" not in done[1].out
    # Each rank's own log says the same of it.
    message = [json.loads(line[5:]) for rank in done for line in rank.out.splitlines() if line.startswith("RANK ")]
    assert message == result["ranks"]


def test_lines_for_people(whole: tuple[Path, list[Done]]) -> None:
    lines = whole[1][0].out.splitlines()
    assert lines[0].startswith("2 rank(s) on ")
    assert lines[0].endswith(": gloo, CPU")
    (loss_line,) = [line for line in lines if "step 16/16  loss" in line]
    assert loss_line.startswith("epoch 2/2  step 16/16  loss ")
    assert loss_line.endswith("  ETA 0:00")
    assert "images/s" in loss_line
    assert sum("accuracy" in line and "RESULT" not in line for line in lines) == 2


def test_ranks_over_mpi_train_the_same(whole: tuple[Path, list[Done]], tmp_path: Path) -> None:
    with Job(tmp_path) as job:
        words = ["--backend", "mpi", "--master-port", str(job.port), *SMALL, "--max-steps", "3"]
        job.start(mpirun(tmp_path, 2, "train.py", *words))
        (done,) = job.wait(300)
    assert (done.status, done.result["backend"]) == (0, "mpi"), done
    assert [entry["loss"] for entry in done.result["losses"]] == pytest.approx(
        [entry["loss"] for entry in whole[1][0].result["losses"][:3]]
    )
    # The first step is not counted: connections are made in it. ResNet-18 for ten classes has 11,181,642 parameters.
    traffic = [rank["traffic"] for rank in done.result["ranks"]]
    assert [(entry["steps"], entry["gradient_bytes"]) for entry in traffic] == [(2, 2 * 4 * 11_181_642)] * 2


def test_resumed_run_equals_the_whole_one(whole: tuple[Path, list[Done]], tmp_path: Path) -> None:
    words = ("--test-interval", "1", "--checkpoint", "part.pt", "--resume")
    expected = whole[1][0].result
    # In an epoch, and at its end.
    for stop in (5, 8):
        part = train(tmp_path, *words, "--max-steps", str(stop))
        assert [one.status for one in part] == [0, 0], part
        assert part[0].result["steps"] == stop
    rest = train(tmp_path, *words)
    assert [one.status for one in rest] == [0, 0], rest
    found = rest[0].result
    assert "resumed after step 8 of 16" in rest[0].out
    assert found["resumed_from"] == 8
    assert found["losses"] == expected["losses"]
    assert found["accuracies"] == expected["accuracies"]
    assert [rank["checksum"] for rank in found["ranks"]] == [rank["checksum"] for rank in expected["ranks"]]
    # Another time there is nothing left to do.
    again = train(tmp_path, *words)[0].result
    assert (again["steps"], again["losses"], again["samples"]) == (16, expected["losses"], [])


def test_another_seed_is_another_run(whole: tuple[Path, list[Done]], tmp_path: Path) -> None:
    other = train(tmp_path, "--seed", "1", "--max-steps", "3")[0].result
    expected = whole[1][0].result
    assert [entry["loss"] for entry in other["losses"]] != [entry["loss"] for entry in expected["losses"][:3]]


def test_it_learns(tmp_path: Path) -> None:
    words = ["--use-dummy-data", "96", "--batch-size", "8", "--epochs", "6", "--learning-rate", "0.003"]
    done = two(tmp_path, "train.py", *words, "--optimizer", "AdamW", "--log-interval", "1", "--test-interval", "6")
    assert [one.status for one in done] == [0, 0], done
    losses = [entry["loss"] for entry in done[0].result["losses"]]
    assert sum(losses[-6:]) < 0.75 * sum(losses[:6])


def test_mixed_precision_and_images_from_files(tmp_path: Path) -> None:
    record = b"".join(
        bytes([number % 10]) + bytes((number * 7 + place) % 256 for place in range(3072)) for number in range(4)
    )
    for name in ("data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5", "test_batch"):
        (tmp_path / f"{name}.bin").write_bytes(record)
    words = ["--data-dir", ".", "--amp", "--epochs", "1", "--batch_size", "2", "--log-interval", "2"]
    result = two(tmp_path, "train.py", *words)[0].result
    assert result["precision"] == "amp-bfloat16"
    assert result["steps"] == 5
    assert result["settings"]["data"].startswith("CIFAR-10 sha256:")
    assert [entry["step"] for entry in result["losses"]] == [2, 4, 5]
    assert result["ranks"][0]["checksum"] == result["ranks"][1]["checksum"]
    assert 0 <= result["accuracy"] <= 1


def test_a_checkpoint_is_not_overwritten(whole: tuple[Path, list[Done]]) -> None:
    directory, _done = whole
    before = (directory / "whole.pt").read_bytes()
    with Job(directory) as job:
        job.rank(0, 1, "train.py", *SMALL, "--checkpoint", "whole.pt")
        output = refusals(job.wait(300))
    assert output == ["whole.pt exists: continue from it with --resume, or remove it"]
    assert (directory / "whole.pt").read_bytes() == before


def test_a_checkpoint_of_another_run(whole: tuple[Path, list[Done]]) -> None:
    output = refusals(train(whole[0], "--checkpoint", "whole.pt", "--resume", "--lr", "0.02"))
    desired = "The checkpoint whole.pt is of another run: learning_rate was 0.01 and is 0.02 now. Start it with the options of that run"
    assert [one.startswith(desired) for one in output] == [True, True], output


# Reads every file that it is given, and prints what the reader says of it.
READ = """
import sys
sys.path.insert(0, sys.argv[1])
import checkpoint, common
for path in sys.argv[2:]:
    try:
        checkpoint.parse(open(path, "rb").read(), path)
        print(path, "was read")
    except common.WorkloadError as exc:
        print(exc)
"""


def test_damaged_checkpoints(whole: tuple[Path, list[Done]], tmp_path: Path) -> None:
    content = (whole[0] / "whole.pt").read_bytes()
    files = {
        "whole": content,
        "half": content[: len(content) // 2],
        "empty": b"",
        "overwritten": content[: len(content) // 2] + b"\xff" * 64 + content[len(content) // 2 + 64 :],
        "hostile": b"\x80\x02cposix\nmkdir\nX\x04\x00\x00\x00madeq\x00\x85R.",
        "other": b"\x80\x02}.",
    }
    for name, what in files.items():
        (tmp_path / name).write_bytes(what)
    with Job(tmp_path) as job:
        job.start(python(tmp_path, "-c", READ, script_path(""), *files))
        (done,) = job.wait(300)
    assert (done.status, done.err) == (0, "")
    output = dict(zip(files, done.out.splitlines(), strict=True))
    assert output["whole"] == "whole was read"
    assert output["half"].startswith(f"The checkpoint half is cut or damaged ({len(content) // 2} bytes): ")
    assert output["empty"].startswith("The checkpoint empty is cut or damaged (0 bytes): ")
    assert output["overwritten"].startswith("The checkpoint overwritten is cut or damaged (")
    assert "its SHA-256 is not the one that was written" in output["overwritten"]
    assert output["hostile"].startswith(
        "The checkpoint hostile is cut or damaged (29 bytes): it contains what no checkpoint has"
    )
    assert output["other"].startswith("The checkpoint other is cut or damaged (")
    assert not any("weights_only" in one for one in output.values())
    assert not (tmp_path / "made").exists()


def test_all_ranks_hear_of_a_damaged_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "cut.pt").write_bytes(b"PK")
    for one in refusals(train(tmp_path, "--checkpoint", "cut.pt", "--resume")):
        assert one.startswith("The checkpoint cut.pt is cut or damaged (2 bytes): ")
        assert one.endswith(". Remove it to start again")


# words, what is said
ALONE = [
    (
        ["--backend", "nccl", "--no-cuda", "--use-dummy-data", "64"],
        "The backend nccl needs GPUs, but this rank is on a CPU",
    ),
    (["--data-dir", "nowhere"], "No CIFAR-10 in nowhere (looked for nowhere/cifar-10-batches-py/data_batch_1, "),
    (
        ["--use-dummy-data", "3", "--batch-size", "4"],
        "3 images are not enough for one step of 1 ranks with --batch-size 4",
    ),
    (
        ["--backend", "mpi", "--use-dummy-data", "64", "--batch-size", "4"],
        "The backend mpi needs mpirun of Open MPI to start the ranks, but what set this rank is --rank",
    ),
    (["--use-dummy-data", "64", "--resume"], "--resume continues from a file: name it with --checkpoint"),
]


@pytest.mark.parametrize(("words", "said"), ALONE)
def test_what_one_rank_refuses(tmp_path: Path, words: list[str], said: str) -> None:
    with Job(tmp_path) as job:
        job.rank(0, 1, "train.py", *words)
        (found,) = refusals(job.wait(300))
    assert found.startswith(said)


def test_without_torchvision(tmp_path: Path) -> None:
    (tmp_path / "torchvision.py").write_text("raise ImportError('not here')\n")
    with Job(tmp_path) as job:
        job.start(command(tmp_path, "train.py", *SMALL), PYTHONPATH=".", WORLD_SIZE="1", RANK="0")
        (found,) = refusals(job.wait(300))
    assert found.startswith("torchvision, where the models come from, cannot be used by ")
    assert ": not here. Install the one that goes with this PyTorch" in found
