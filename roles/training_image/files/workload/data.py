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
import torch
import torch.nn.functional as F  # noqa: N812 - as everybody calls it
from common import WorkloadError

SIDE = 32
PADDING = 4
# Mean and standard deviation of CIFAR-10's channels, as every trainer for it uses them.
MEAN = (0.4914, 0.4822, 0.4465)
DEVIATION = (0.2023, 0.1994, 0.2010)


class Set(t.NamedTuple):
    """Images (uint8, N x 3 x 32 x 32) and their labels on a device."""

    images: torch.Tensor
    labels: torch.Tensor


class Data(t.NamedTuple):
    training: Set
    test: Set | None
    fingerprint: str


def load(arguments: argparse.Namespace) -> Data:
    """Return the data that the options select. Raises WorkloadError if there is none."""
    if arguments.use_dummy_data:
        training, test = generate(arguments.use_dummy_data, arguments.seed)
        return Data(training, test, "%d generated from %d" % (arguments.use_dummy_data, arguments.seed))
    images, tests = cifar.read(arguments.data_dir)
    return Data(tensors(images), tensors(tests) if tests else None, "CIFAR-10 sha256:%s" % images.fingerprint())


def tensors(source: cifar.Images) -> Set:
    images = torch.frombuffer(source.pixels, dtype=torch.uint8).reshape(-1, 3, SIDE, SIDE)
    return Set(images, torch.frombuffer(bytearray(source.labels), dtype=torch.uint8).long())


def generate(count: int, seed: int) -> tuple[Set, Set]:
    """Return learnable images: a pattern for each class under noise; a fifth as many for the test."""
    generator = torch.Generator().manual_seed(seed)
    patterns = torch.randint(0, 128, (cifar.CLASSES, 3, SIDE, SIDE), generator=generator, dtype=torch.uint8)

    def some(number: int) -> Set:
        labels = torch.randint(0, cifar.CLASSES, (number,), generator=generator)
        noise = torch.randint(0, 128, (number, 3, SIDE, SIDE), generator=generator, dtype=torch.uint8)
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
    data: Set, chosen: torch.Tensor, seed: int, epoch: int, step: int, rank: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return images, shifted and mirrored by chance, and labels of one step."""
    device = data.images.device
    chosen = chosen.to(device)
    generator = _generator(seed, "batch", epoch, step, rank)
    count = len(chosen)
    shift = torch.randint(0, 2 * PADDING + 1, (2, count, 1), generator=generator).to(device)
    mirrored = torch.rand(count, 1, 1, 1, generator=generator).lt(0.5).to(device)
    padded = F.pad(data.images[chosen], (PADDING,) * 4)
    line = torch.arange(SIDE, device=device)
    rows, columns = (shift + line).unbind(0)
    images = padded[
        torch.arange(count, device=device).view(-1, 1, 1, 1),
        torch.arange(3, device=device).view(1, -1, 1, 1),
        rows.view(count, 1, SIDE, 1),
        columns.view(count, 1, 1, SIDE),
    ]
    return normal(torch.where(mirrored, images.flip(3), images)), data.labels[chosen]


def normal(images: torch.Tensor) -> torch.Tensor:
    """Return bytes as numbers around zero."""
    mean = torch.tensor(MEAN, device=images.device).view(1, 3, 1, 1)
    deviation = torch.tensor(DEVIATION, device=images.device).view(1, 3, 1, 1)
    return images.float().div(255).sub(mean).div(deviation)


def _generator(*what: int | str) -> torch.Generator:
    digest = hashlib.sha256("/".join(map(str, what)).encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:8], "big") >> 1)


__all__ = ("Data", "Set", "batch", "load", "normal", "order", "steps_per_epoch", "to")
