# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of the trainer and of the benchmark, as the guides that people follow spell them."""

from __future__ import annotations

import shlex

import pytest

from ansible_collections.rdmaops.gpu_fabric.tests.support.torch import module

options = module("options")

# words, the option's value
TRAIN = [
    ("", {"epochs": 10, "batch_size": 128, "learning_rate": 0.1, "seed": 0, "use_cuda": None, "backend": None}),
    ("", {"data_set": "cifar10", "gamma": None}),
    ("--data-set mnist --optimizer Adadelta --lr 1 --gamma 0.7", {"data_set": "mnist", "learning_rate": 1.0, "gamma": 0.7}),
    ("--gamma 1", {"gamma": 1.0}),
    (
        f"--data-url http://h/mnist --data-checksum a.gz=md5:{32 * '0'} --data-checksum sha256:{64 * 'f'}",
        {"data_url": "http://h/mnist", "data_checksum": [("a.gz", "md5:" + 32 * "0"), ("", "sha256:" + 64 * "f")]},
    ),
    (
        "--epochs 200 --batch_size 128 --learning_rate 0.01 --random_seed 7 --pre-trained --debug",
        {"epochs": 200, "batch_size": 128, "learning_rate": 0.01, "seed": 7, "pre_trained": True, "debug": True},
    ),
    (
        "--batch-size=128 --epochs=3 --lr 0.5 --seed 1 --use-dummy-data 60000 --use-cuda false --backend gloo --data-dir d",
        {"batch_size": 128, "epochs": 3, "learning_rate": 0.5, "seed": 1, "use_dummy_data": 60000, "use_cuda": False,
         "backend": "gloo", "data_dir": "d"},
    ),
    ("--use-cuda True", {"use_cuda": True}),
    ("", {"pre_trained": False}),
    ("--pre-trained --no-pre-trained", {"pre_trained": False}),
    ("--no-cuda --backend mpi", {"use_cuda": False, "backend": "mpi"}),
    ("--optimizer Adadelta --log-interval 5", {"optimizer": "Adadelta", "log_interval": 5}),
    # What torch.distributed.launch of PyTorch 1 adds.
    ("--local_rank 3", {"local_rank": 3}),
]  # fmt: skip


@pytest.mark.parametrize(("words", "values"), TRAIN)
def test_train(words: str, values: dict[str, object]) -> None:
    found = vars(options.train_parser("about").parse_args(shlex.split(words)))
    assert {name: found[name] for name in values} == values


def test_benchmark() -> None:
    words = shlex.split("--model=vgg16 --batch-size=64 --num-iters 3 --num-warmup-batches 0 --amp")
    given = {"model": "vgg16", "batch_size": 64, "num_iters": 3, "num_warmup_batches": 0, "amp": True}
    assert given.items() <= vars(options.benchmark_parser("about").parse_args(words)).items()
    default = {"batch_size": 32, "num_warmup_batches": 10, "num_batches_per_iter": 10, "num_iters": 10}
    plain = vars(options.benchmark_parser("about").parse_args([]))
    assert {"model": "resnet50", **default}.items() <= plain.items()


# words, what is said
REFUSED = [
    ("--epochs 0", "argument --epochs: '0' is not a whole number of at least 1"),
    ("--batch-size -3", "'-3' is not a whole number of at least 1"),
    ("--batch-size 1.5", "'1.5' is not a whole number of at least 1"),
    ("--use-dummy-data x", "'x' is not a whole number"),
    ("--lr 0", "'0' is not a number above 0"),
    ("--lr nan", "'nan' is not a number above 0"),
    ("--lr inf", "'inf' is not a number above 0"),
    ("--gamma 0", "argument --gamma: '0' is not a number above 0"),
    ("--gamma -0.7", "'-0.7' is not a number above 0"),
    ("--gamma nan", "'nan' is not a number above 0"),
    ("--gamma 1.1", "argument --gamma: '1.1' is above 1"),
    ("--data-checksum md5:0", "'md5:0' is not sha256: and 64, or md5: and 32 hexadecimal digits in lowercase"),
    (f"--data-checksum sha1:{40 * '0'}", "is not sha256: and 64, or md5: and 32"),
    (f"--data-checksum sha256:{64 * 'F'}", "is not sha256: and 64, or md5: and 32"),
    (f"--data-checksum ../a=sha256:{64 * 'f'}", "is not sha256: and 64, or md5: and 32"),
    ("--data-set cifar100", "invalid choice: 'cifar100'"),
    ("--use-cuda maybe", "'maybe' is neither true nor false"),
    ("--backend ucc", "invalid choice: 'ucc'"),
    ("--optimizer sgd", "invalid choice: 'sgd'"),
    ("--timeout 0", "argument --timeout: '0' is not a whole number of at least 1"),
]


@pytest.mark.parametrize(("words", "said"), REFUSED)
def test_refused(words: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        options.train_parser("about").parse_args(shlex.split(words))
    assert caught.value.code == 2
    assert said in capsys.readouterr().err
