# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""How many images per second a model of torchvision trains, on random images that are always there.

It prints what the synthetic benchmark of Horovod prints, and takes its options, so that its figures can be read the
same way; the work between the processes is done by DistributedDataParallel. Rank 0 prints the result as JSON behind the
word RESULT.
"""

from __future__ import annotations

import argparse
import os
import time
import typing as t

import ranks
import rendezvous
import torch
import torch.nn.functional as F  # noqa: N812 - as everybody calls it
from common import SPREAD, Meter, WorkloadError, emit, now, say, spread
from devices import choose_backend, choose_device
from options import benchmark_parser
from precision import Precision
from torch.nn.parallel import DistributedDataParallel
from zoo import torchvision_models

CLASSES = 1000


def build_model(name: str) -> torch.nn.Module:
    """Return a model that takes images and gives classes. Raises WorkloadError for any other name."""
    models = torchvision_models()
    known = [
        entry
        for entry, value in vars(models).items()
        if entry.islower() and not entry.startswith("_") and callable(value)
    ]
    if name not in known:
        raise WorkloadError("torchvision has no model %s: it has %s" % (name, ", ".join(sorted(known))))
    return getattr(models, name)(num_classes=CLASSES)


class Benchmark:
    """One rank's model and images."""

    def __init__(self, arguments: argparse.Namespace, group: rendezvous.Group, model: torch.nn.Module) -> None:
        self.arguments, self.group = arguments, group
        self.model = model.to(group.device)
        devices = [group.device.index] if group.device.type == "cuda" else None
        self.parallel = DistributedDataParallel(self.model, device_ids=devices)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)
        self.precision = Precision(arguments.amp, group.device)
        generator = torch.Generator().manual_seed(group.ranks.rank)
        shape = (arguments.batch_size, 3, arguments.image_size, arguments.image_size)
        self.images = torch.randn(shape, generator=generator).to(group.device)
        self.labels = torch.randint(0, CLASSES, shape[:1], generator=generator).to(group.device)
        self.steps = 0

    def step(self, guard: rendezvous.Guarded) -> None:
        self.steps += 1
        guard.step = self.steps
        self.optimizer.zero_grad(set_to_none=True)
        with self.precision.autocast():
            loss = F.cross_entropy(self.parallel(self.images), self.labels)
        self.precision.step(loss, self.optimizer)
        self.group.watch.beat()

    def iteration(self, guard: rendezvous.Guarded) -> float:
        """Return images per second of this rank over some batches."""
        meter = Meter()
        meter.start()
        for _number in range(self.arguments.num_batches_per_iter):
            self.step(guard)
            meter.add(self.arguments.batch_size)
        self.settle()
        rate = meter.lap()
        assert rate is not None
        return rate

    def settle(self) -> None:
        """Wait until the device has finished: a GPU works asynchronously."""
        if self.group.device.type == "cuda":
            torch.cuda.synchronize()


def main() -> None:
    arguments = benchmark_parser(__doc__).parse_args()
    started = now()
    me = ranks.discover(arguments, os.environ)
    device = choose_device(arguments.use_cuda, me.local_rank)
    backend = choose_backend(arguments.backend, device)
    torch.backends.cudnn.benchmark = True
    torch.manual_seed(0)
    model = build_model(arguments.model)
    settings = {
        name: getattr(arguments, name)
        for name in (
            "model",
            "batch_size",
            "image_size",
            "num_warmup_batches",
            "num_batches_per_iter",
            "num_iters",
            "amp",
        )
    }
    group = rendezvous.join(me, arguments, device, backend, settings)
    with rendezvous.Guarded(me, arguments.batch_size) as guard:
        result = measure(Benchmark(arguments, group, model), guard)
        if me.rank == 0:
            emit({**result, "started": started, "settings": settings}, arguments.result)
        group.leave()


def measure(benchmark: Benchmark, guard: rendezvous.Guarded) -> dict[str, t.Any]:
    """Run the benchmark, print the usual lines, and return the result."""
    arguments, group = benchmark.arguments, benchmark.group
    device, world = "GPU" if group.device.type == "cuda" else "CPU", group.ranks.world_size
    report = say if group.ranks.rank == 0 else _nothing
    report("Model: %s\nBatch size: %d\nNumber of %ss: %d" % (arguments.model, arguments.batch_size, device, world))
    report("Running warmup...")
    began = time.monotonic()
    for _number in range(arguments.num_warmup_batches):
        benchmark.step(guard)
    benchmark.settle()
    report("Running benchmark...")
    rates = []
    for number in range(arguments.num_iters):
        rates.append(benchmark.iteration(guard))
        report("Iter #%d: %.1f img/sec per %s" % (number, rates[-1], device))
    sums = group.agree(benchmark.model, benchmark.steps)
    every = group.gather(rates)
    result = {
        **group.describe("benchmark", arguments.model, arguments.batch_size, benchmark.precision.name),
        "image_size": arguments.image_size,
        "seconds": round(time.monotonic() - began, 3),
        **spread(every),
        "ranks": [
            {"rank": rank, "host": group.hosts[rank], "checksum": sums[rank], "samples": samples}
            for rank, samples in enumerate(every)
        ],
    }
    each, total = result["images_per_second_per_device"], result["images_per_second"]
    report("Img/sec per %s: %.1f +-%.1f" % (device, each["mean"], SPREAD * (each["stdev"] or 0)))
    report("Total img/sec on %d %s(s): %.1f +-%.1f" % (world, device, total["mean"], SPREAD * (total["stdev"] or 0)))
    return result


def _nothing(text: str) -> None:
    """Print nothing: only rank 0 does."""


if __name__ == "__main__":
    rendezvous.run(main)
