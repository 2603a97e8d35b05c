# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The images that are trained on, as tensors on the device, and the batches of every step and rank.

A batch depends only on the seed, the epoch, the step and the rank, so that a resumed run gets the same ones.
"""

from __future__ import annotations

import argparse
import hashlib
import typing as t

import cifar
import download
import mnist
import torch
import torch.nn.functional as F  # noqa: N812 - as everybody calls it
from common import WorkloadError
from dataset import CLASSES, Images

PADDING = 4


class Kind(t.NamedTuple):
    """A published data set: its reader, its images, and the model that is trained on it."""

    title: str
    read: t.Callable[[str], download.Pair]
    # What is downloaded: files, or an archive if there are none; and how that becomes a directory.
    files: t.Sequence[str]
    unpack: t.Callable[[download.Files], tuple[str, download.Files]]
    model: str
    side: int
    # Of each channel, as every trainer for it uses them.
    mean: tuple[float, ...]
    deviation: tuple[float, ...]
    # Whether images are shifted and mirrored by chance. A mirrored digit is none.
    varied: bool


KINDS = {
    "cifar10": Kind(
        "CIFAR-10", cifar.read, (), cifar.unpack,
        "resnet18", 32, (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010), varied=True,
    ),
    "mnist": Kind(
        "MNIST", mnist.read, mnist.FILES, mnist.unpack,
        "small_cnn", mnist.SIDE, (0.1307,), (0.3081,), varied=False,
    ),
}  # fmt: skip


class Set(t.NamedTuple):
    """Images (uint8, N x channels x side x side) and their labels on a device."""

    images: torch.Tensor
    labels: torch.Tensor


class Data(t.NamedTuple):
    kind: Kind
    training: Set
    test: Set | None
    fingerprint: str


def load(arguments: argparse.Namespace, first: bool) -> Data:
    """Return the data that the options select; ``first`` is whether this rank is the one of its host that downloads.

    Raises WorkloadError if there is none.
    """
    kind = KINDS[arguments.data_set]
    sources = download.sources(arguments, kind.title, kind.files)
    if arguments.use_dummy_data:
        training, test = generate(kind, arguments.use_dummy_data, arguments.seed)
        return Data(kind, training, test, "%d generated from %d" % (arguments.use_dummy_data, arguments.seed))
    images, tests = download.read(
        kind.read, kind.unpack, sources, arguments.data_dir, first=first, patience=arguments.rendezvous_timeout
    )
    fingerprint = "%s sha256:%s" % (kind.title, images.fingerprint())
    return Data(kind, tensors(kind, images), tensors(kind, tests) if tests else None, fingerprint)


def tensors(kind: Kind, source: Images) -> Set:
    images = torch.frombuffer(source.pixels, dtype=torch.uint8).reshape(-1, len(kind.mean), kind.side, kind.side)
    return Set(images, torch.frombuffer(bytearray(source.labels), dtype=torch.uint8).long())


def generate(kind: Kind, count: int, seed: int) -> tuple[Set, Set]:
    """Return learnable images: a pattern for each class under noise; a fifth as many for the test."""
    generator = torch.Generator().manual_seed(seed)
    shape = (len(kind.mean), kind.side, kind.side)
    patterns = torch.randint(0, 128, (CLASSES, *shape), generator=generator, dtype=torch.uint8)

    def some(number: int) -> Set:
        labels = torch.randint(0, CLASSES, (number,), generator=generator)
        noise = torch.randint(0, 128, (number, *shape), generator=generator, dtype=torch.uint8)
        return Set(patterns[labels] + noise, labels)

    return some(count), some(max(1, count // 5))


def to(device: torch.device, data: Data) -> Data:
    def move(subset: Set) -> Set:
        return Set(subset.images.to(device), subset.labels.to(device))

    return data._replace(training=move(data.training), test=move(data.test) if data.test else None)


def steps_per_epoch(images: int, batch_size: int, world_size: int) -> int:
    """Return how many whole steps there are in an epoch. Raises WorkloadError if there is none."""
    steps = images // (batch_size * world_size)
    if not steps:
        raise WorkloadError(
            "%d images are not enough for one step of %d ranks with --batch-size %d" % (images, world_size, batch_size)
        )
    return steps


def order(count: int, seed: int, epoch: int) -> torch.Tensor:
    """Return the order of an epoch's images, the same on every rank."""
    return torch.randperm(count, generator=_generator(seed, "order", epoch))


def batch(
    data: Data, chosen: torch.Tensor, seed: int, epoch: int, step: int, rank: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return images and labels of one step."""
    chosen = chosen.to(data.training.images.device)
    images = data.training.images[chosen]
    if data.kind.varied:
        images = vary(images, _generator(seed, "batch", epoch, step, rank))
    return normal(data.kind, images), data.training.labels[chosen]


def vary(images: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Return images shifted and mirrored by chance."""
    device = images.device
    count, channels, side, _side = images.shape
    shift = torch.randint(0, 2 * PADDING + 1, (2, count, 1), generator=generator).to(device)
    mirrored = torch.rand(count, 1, 1, 1, generator=generator).lt(0.5).to(device)
    padded = F.pad(images, (PADDING,) * 4)
    line = torch.arange(side, device=device)
    rows, columns = (shift + line).unbind(0)
    shifted = padded[
        torch.arange(count, device=device).view(-1, 1, 1, 1),
        torch.arange(channels, device=device).view(1, -1, 1, 1),
        rows.view(count, 1, side, 1),
        columns.view(count, 1, 1, side),
    ]
    return torch.where(mirrored, shifted.flip(3), shifted)


def normal(kind: Kind, images: torch.Tensor) -> torch.Tensor:
    """Return bytes as numbers around zero."""
    mean = torch.tensor(kind.mean, device=images.device).view(1, -1, 1, 1)
    deviation = torch.tensor(kind.deviation, device=images.device).view(1, -1, 1, 1)
    return images.float().div(255).sub(mean).div(deviation)


def _generator(*what: int | str) -> torch.Generator:
    digest = hashlib.sha256("/".join(map(str, what)).encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:8], "big") >> 1)


__all__ = ("Data", "Kind", "Set", "batch", "load", "normal", "order", "steps_per_epoch", "to")
