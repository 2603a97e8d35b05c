# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options of train.py and benchmark.py."""

from __future__ import annotations

import argparse
import math
import re

from ranks import DEFAULT_PORT

CHECKSUM = re.compile(r"(?:(?P<file>[\w.-]+)=)?(?P<checksum>sha256:[0-9a-f]{64}|md5:[0-9a-f]{32})", re.ASCII)
OPTIMIZERS = ("Adadelta", "Adam", "AdamW", "SGD")


def positive(text: str) -> int:
    """Read an option that is a number from 1 on, for argparse."""
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError("%r is not a whole number of at least 1" % text)
    return number


def natural(text: str) -> int:
    """Read an option that is a number from 0 on, for argparse."""
    return 0 if text == "0" else positive(text)


def yes_or_no(text: str) -> bool:
    """Read an option that is a boolean, for argparse, whose own bool() takes every text for true."""
    word = text.lower()
    if word in ("true", "yes", "on", "1"):
        return True
    if word in ("false", "no", "off", "0"):
        return False
    raise argparse.ArgumentTypeError("%r is neither true nor false" % text)


def rate(text: str) -> float:
    """Read a learning rate, for argparse."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if 0 < number < math.inf:
        return number
    raise argparse.ArgumentTypeError("%r is not a number above 0" % text)


def share(text: str) -> float:
    """Read a factor that does not enlarge, for argparse."""
    number = rate(text)
    if number <= 1:
        return number
    raise argparse.ArgumentTypeError("%r is above 1" % text)


def checksum(text: str) -> tuple[str, str]:
    """Read a checksum and, in front of it, the name of its file, for argparse."""
    match = CHECKSUM.fullmatch(text)
    if match:
        return match["file"] or "", match["checksum"]
    raise argparse.ArgumentTypeError(
        "%r is not sha256: and 64, or md5: and 32 hexadecimal digits in lowercase, after FILE= if there are several"
        % text
    )


def train_parser(about: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--epochs", type=positive, default=10, metavar="N", help="default: %(default)s")
    add("--max-steps", type=positive, metavar="N", help="stop after this step of the whole run")
    add("--batch-size", "--batch_size", type=positive, default=128, metavar="N", help="of each rank (default: 128)")
    text = "default: %(default)s; it falls to zero along a cosine, or as --gamma says"
    add("--learning-rate", "--learning_rate", "--lr", type=rate, default=0.1, metavar="X", help=text)
    text = "multiply the learning rate by X, at most 1, after each epoch"
    add("--gamma", type=share, metavar="X", help=text)
    add("--optimizer", choices=sorted(OPTIMIZERS), default="SGD", help="default: %(default)s")
    add(
        "--random-seed", "--random_seed", "--seed", dest="seed", type=natural, default=0, metavar="N", help="default: 0"
    )
    add("--pre-trained", action="store_true", help="start with torchvision's weights, which rank 0 has or downloads")
    add("--no-pre-trained", dest="pre_trained", action="store_const", const=False, help="start with random weights")
    add("--amp", action="store_true", help="mixed precision: float16 on GPUs, bfloat16 on CPUs")
    add("--deterministic", action="store_true", help="the same numbers in every run, also on GPUs; slower")
    add = parser.add_argument_group("data").add_argument
    text = "cifar10 for ResNet-18, or mnist for a small CNN (default: %(default)s)"
    add("--data-set", "--data_set", choices=("cifar10", "mnist"), default="cifar10", help=text)
    text = "where CIFAR-10 is, Python or binary version, or MNIST, plain or with .gz (default: %(default)s)"
    add("--data-dir", "--data_dir", default="./data", metavar="DIR", help=text)
    text = "where to download it from if it is not there: CIFAR-10's archive, or the directory of MNIST's .gz files"
    add("--data-url", "--data_url", metavar="URL", help=text)
    text = "required with --data-url: sha256:HEX or md5:HEX, for MNIST FILE=sha256:HEX or FILE=md5:HEX four times"
    add("--data-checksum", "--data_checksum", type=checksum, action="append", metavar="CHECKSUM", help=text)
    text = "train on N generated images instead"
    add("--use-dummy-data", "--use_dummy_data", type=natural, default=0, metavar="N", help=text)
    add = parser.add_argument_group("output and checkpoints").add_argument
    add("--log-interval", type=positive, default=50, metavar="STEPS", help="default: %(default)s")
    text = "how often the accuracy is measured; always at the end (default: %(default)s)"
    add("--test-interval", type=positive, default=10, metavar="EPOCHS", help=text)
    add("--test-batch-size", type=positive, default=256, metavar="N", help="default: %(default)s")
    add("--checkpoint", metavar="FILE", help="written by rank 0 after every epoch and at the end")
    add("--checkpoint-interval", type=positive, metavar="STEPS", help="and after this many steps")
    add("--resume", action="store_true", help="continue from the checkpoint if there is one")
    add("--result", metavar="FILE", help="also write the result there (rank 0)")
    add("--debug", action="store_true", help="log what NCCL and torch.distributed do")
    add_waiting(parser.add_argument_group("device and waiting"))
    add_ranks(parser)
    return parser


def benchmark_parser(about: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--model", default="resnet50", metavar="NAME", help="of torchvision: resnet50, vgg16, ... (default: resnet50)")
    add("--batch-size", type=positive, default=32, metavar="N", help="of each rank (default: %(default)s)")
    add("--image-size", type=positive, default=224, metavar="PIXELS", help="default: %(default)s")
    add("--num-warmup-batches", type=natural, default=10, metavar="N", help="not measured (default: %(default)s)")
    add("--num-batches-per-iter", type=positive, default=10, metavar="N", help="default: %(default)s")
    add("--num-iters", type=positive, default=10, metavar="N", help="what is measured (default: %(default)s)")
    add("--amp", action="store_true", help="mixed precision: float16 on GPUs, bfloat16 on CPUs")
    add("--result", metavar="FILE", help="also write the result there (rank 0)")
    add_waiting(parser.add_argument_group("device and waiting"))
    add_ranks(parser)
    return parser


def add_ranks(parser: argparse.ArgumentParser) -> None:
    """Add the options that identify this process; without them the launcher's variables do."""
    group = parser.add_argument_group("ranks", "as torchrun, mpirun or a job's variables say, unless given here")
    group.add_argument("--rank", type=int, metavar="N", help="this process's number, from 0")
    group.add_argument("--world-size", "--world_size", type=int, metavar="N", help="number of processes")
    group.add_argument("--local-rank", "--local_rank", type=int, metavar="N", help="number on this host: its GPU")
    group.add_argument("--master-addr", "--master_addr", metavar="HOST", help="where rank 0 runs")
    group.add_argument(
        "--master-port", "--master_port", type=int, metavar="PORT", help="where it listens (default: %d)" % DEFAULT_PORT
    )


def add_waiting(parser: argparse._ActionsContainer) -> None:
    """Add the options for the device, and how long to wait for other ranks."""
    parser.add_argument(
        "--backend", choices=("nccl", "gloo", "mpi"),
        help="default: nccl on GPUs, gloo on CPUs; mpi: what mpirun starts, by the MPI that this PyTorch is built with",
    )  # fmt: skip
    parser.add_argument(
        "--use-cuda", "--use_cuda", type=yes_or_no, metavar="BOOL",
        help="true: GPUs or an error; false: CPUs (default: GPUs if available)",
    )  # fmt: skip
    parser.add_argument("--no-cuda", dest="use_cuda", action="store_const", const=False, help="the same as false")
    parser.add_argument(
        "--rendezvous-timeout", type=positive, default=300, metavar="SECONDS",
        help="how long to wait for a download, for rank 0 and for all ranks to come (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--timeout", type=positive, default=600, metavar="SECONDS",
        help="how long a step may take before the job is aborted (default: %(default)s)",
    )  # fmt: skip


__all__ = ("benchmark_parser", "train_parser")
