# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Train ResNet-18 on CIFAR-10, a small CNN on MNIST, or either on generated images (DistributedDataParallel).

torchrun, mpirun, a job's variables or options say which rank this is. Rank 0 prints a line every few steps and, at the
end, the result as JSON behind the word RESULT.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import time
import typing as t

import checkpoint
import data as images_of
import ranks
import rendezvous
import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812
import traffic
from common import RANK_MARK, Meter, WorkloadError, clock_text, emit, finite, now, say, spread
from devices import choose_backend, choose_device
from options import train_parser
from precision import Precision
from torch.nn.parallel import DistributedDataParallel
from zoo import build_classifier


def build_optimizer(name: str, model: torch.nn.Module, learning_rate: float) -> torch.optim.Optimizer:
    more = {"momentum": 0.9, "weight_decay": 1e-5} if name == "SGD" else {}
    return getattr(torch.optim, name)(model.parameters(), lr=learning_rate, **more)


def learning_rate(arguments: argparse.Namespace, epoch: int) -> float:
    """Return the learning rate of an epoch, counted from 0."""
    if arguments.gamma is not None:
        return arguments.learning_rate * arguments.gamma**epoch
    return arguments.learning_rate * 0.5 * (1 + math.cos(math.pi * epoch / arguments.epochs))


class Trainer:
    """One rank's training: its state and progress."""

    def __init__(
        self,
        arguments: argparse.Namespace,
        group: rendezvous.Group,
        data: images_of.Data,
        settings: dict[str, t.Any],
        model: torch.nn.Module,
    ) -> None:
        self.arguments, self.group, self.data, self.settings = arguments, group, data, settings
        self.ranks = group.ranks
        self.model = model.to(group.device)
        devices = [group.device.index] if group.device.type == "cuda" else None
        self.parallel = DistributedDataParallel(self.model, device_ids=devices)
        self.optimizer = build_optimizer(arguments.optimizer, self.model, arguments.learning_rate)
        self.precision = Precision(arguments.amp, group.device)
        count = len(data.training.labels)
        self.epoch_steps = images_of.steps_per_epoch(count, arguments.batch_size, self.ranks.world_size)
        self.last_step = arguments.epochs * self.epoch_steps
        if arguments.max_steps:
            self.last_step = min(self.last_step, arguments.max_steps)
        self.step = 0
        self.resumed_from: int | None = None
        self.history: list[dict[str, t.Any]] = []
        self.accuracy: list[dict[str, t.Any]] = []
        self.rates: list[float] = []
        self.meter = Meter()
        self.traffic: dict[str, t.Any] | None = None

    def resume(self) -> None:
        """Continue where the checkpoint ends, if there is one."""
        state = checkpoint.load(self.arguments.checkpoint, self.group, self.settings)
        if state is None:
            return
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.precision.load_state_dict(state["precision"])
        self.step = self.resumed_from = state["step"]
        self.history, self.accuracy = state["history"], state["accuracy"]
        if self.ranks.rank == 0:
            say("resumed after step %d of %d" % (self.step, self.last_step))

    def run(self, guard: rendezvous.Guarded) -> None:
        """Run the remaining steps."""
        order, ordered = torch.empty(0), -1
        mean = math.nan
        counted: traffic.Counted | None = None
        while self.step < self.last_step:
            epoch, index = divmod(self.step, self.epoch_steps)
            if epoch != ordered:
                order = images_of.order(len(self.data.training.labels), self.arguments.seed, epoch)
                ordered = epoch
                for group in self.optimizer.param_groups:
                    group["lr"] = learning_rate(self.arguments, epoch)
            guard.step = self.step + 1
            loss = self._train(order, epoch, index)
            self.step += 1
            self.meter.add(self.arguments.batch_size)
            self.group.watch.beat()
            last = self.step == self.last_step
            reports = self.step % self.arguments.log_interval == 0
            tests = index + 1 == self.epoch_steps and (epoch + 1) % self.arguments.test_interval == 0
            if reports or last:
                mean = self.group.mean(loss)
                self._report(epoch, mean)
            if reports:
                self._remember(epoch, mean)
            if tests:
                self._test(epoch)
            self._save(epoch_ends=index + 1 == self.epoch_steps)
            # If the run was stopped early, the checkpoint has only what the whole run would have reported.
            if last and not reports:
                self._remember(epoch, mean)
            if last and not tests:
                self._test(epoch)
            # The first step (memory, connections, choice of algorithms) is not measured.
            self.meter.start()
            counted = counted or traffic.Counted(self.step)
        self.meter.stop()
        if counted:
            self.traffic = counted.report(self.step, self.model.parameters())

    def _train(self, order: torch.Tensor, epoch: int, index: int) -> torch.Tensor:
        size = self.arguments.batch_size
        begin = (index * self.ranks.world_size + self.ranks.rank) * size
        images, labels = images_of.batch(
            self.data, order[begin : begin + size], self.arguments.seed, epoch, index, self.ranks.rank
        )
        self.parallel.train()
        self.optimizer.zero_grad(set_to_none=True)
        with self.precision.autocast():
            loss = F.cross_entropy(self.parallel(images), labels)
        self.precision.step(loss, self.optimizer)
        return loss.detach()

    def _report(self, epoch: int, mean: float) -> None:
        rate = self.meter.lap()
        if rate is not None:
            self.rates.append(rate)
        if self.ranks.rank == 0:
            speed, left = "?", "?"
            if self.rates:
                speed = "%.1f" % (self.rates[-1] * self.ranks.world_size)
                left = clock_text((self.last_step - self.step) * self.arguments.batch_size / self.rates[-1])
            self._print(epoch, "loss %.4f  %s images/s  ETA %s" % (mean, speed, left))

    def _print(self, epoch: int, text: str) -> None:
        say("epoch %d/%d  step %d/%d  %s" % (epoch + 1, self.arguments.epochs, self.step, self.last_step, text))

    def _remember(self, epoch: int, mean: float) -> None:
        self.history.append({"epoch": epoch + 1, "step": self.step, "loss": finite(mean)})

    def _test(self, epoch: int) -> None:
        """Measure the accuracy on the test images, each rank on its share."""
        test = self.data.test
        if test is None:
            return
        self._pause()
        # Statistics of batch normalization are each rank's own; the model that is kept has rank 0's.
        for buffer in self.model.buffers():
            dist.broadcast(buffer, 0)
        self.model.eval()
        right = torch.zeros(1, dtype=torch.int64, device=self.group.device)
        step = self.arguments.test_batch_size
        with torch.no_grad():
            for begin in range(self.ranks.rank * step, len(test.labels), self.ranks.world_size * step):
                with self.precision.autocast():
                    images = images_of.normal(self.data.kind, test.images[begin : begin + step])
                    predictions = self.model(images).argmax(1)
                right += (predictions == test.labels[begin : begin + step]).sum()
                self.group.watch.beat()
        dist.all_reduce(right)
        accuracy = int(right.item()) / len(test.labels)
        self.accuracy.append({"epoch": epoch + 1, "step": self.step, "accuracy": accuracy})
        if self.ranks.rank == 0:
            self._print(epoch, "accuracy %.4f" % accuracy)

    def _save(self, epoch_ends: bool) -> None:
        interval = self.arguments.checkpoint_interval
        if not self.arguments.checkpoint or self.ranks.rank != 0:
            return
        if epoch_ends or self.step == self.last_step or (interval and self.step % interval == 0):
            self._pause()
            state = {
                "settings": self.settings,
                "step": self.step,
                "model": self.model.state_dict(),
                "optimizer": self.optimizer.state_dict(),
                "precision": self.precision.state_dict(),
                "history": self.history,
                "accuracy": self.accuracy,
            }
            checkpoint.save(self.arguments.checkpoint, state)

    def _pause(self) -> None:
        """Stop the meter once the device has finished."""
        if self.group.device.type == "cuda":
            torch.cuda.synchronize()
        self.meter.stop()

    def result(self, started: str, seconds: float) -> dict[str, t.Any]:
        """Return the result of the run, the same on all ranks."""
        sums = self.group.agree(self.model, self.step)
        loss = self.history[-1]["loss"] if self.history else None
        rate = statistics.fmean(self.rates) if self.rates else None
        every = self.group.gather({"rate": rate, "loss": loss, "traffic": self.traffic, "samples": self.rates})
        return {
            **self.group.describe("train", self.data.kind.model, self.arguments.batch_size, self.precision.name),
            "started": started,
            "seconds": round(seconds, 3),
            "settings": self.settings,
            "steps": self.step,
            "resumed_from": self.resumed_from,
            "loss": loss,
            "losses": self.history,
            "accuracy": self.accuracy[-1]["accuracy"] if self.accuracy else None,
            "accuracies": self.accuracy,
            **spread([entry["samples"] for entry in every]),
            "ranks": [
                {"rank": rank, "host": self.group.hosts[rank], "checksum": sums[rank], "loss": entry["loss"],
                 "images_per_second": entry["rate"], "traffic": entry["traffic"]}
                for rank, entry in enumerate(every)
            ],
        }  # fmt: skip


def main() -> None:
    arguments = train_parser(__doc__).parse_args()
    refuse(arguments)
    began, started = time.monotonic(), now()
    me = ranks.discover(arguments, os.environ)
    if me.rank == 0:
        checkpoint.refuse_existing(arguments.checkpoint, arguments.resume)
    if arguments.debug:
        os.environ.setdefault("NCCL_DEBUG", "INFO")
        os.environ["TORCH_DISTRIBUTED_DEBUG"] = "INFO"
        dist.set_debug_level_from_env()
    device = choose_device(arguments.use_cuda, me.local_rank)
    backend = choose_backend(arguments.backend, device)
    repeatable(arguments.deterministic)
    torch.manual_seed(arguments.seed)
    data = images_of.load(arguments, first=me.local_rank == 0)
    images_of.steps_per_epoch(len(data.training.labels), arguments.batch_size, me.world_size)
    # The others get rank 0's weights when DistributedDataParallel starts.
    model = build_classifier(data.kind.model, arguments.pre_trained and me.rank == 0)
    settings = {
        name: getattr(arguments, name)
        for name in (
            "data_set",
            "epochs",
            "batch_size",
            "learning_rate",
            "gamma",
            "optimizer",
            "seed",
            "pre_trained",
            "amp",
            "deterministic",
        )
    }
    settings.update(data=data.fingerprint, world_size=me.world_size)
    # Options that must be the same on all ranks, but may change when a run is resumed.
    together = ("log_interval", "test_interval", "max_steps", "resume")
    group = rendezvous.join(
        me, arguments, device, backend, {**settings, **{name: getattr(arguments, name) for name in together}}
    )
    with rendezvous.Guarded(me, arguments.batch_size) as guard:
        trainer = Trainer(arguments, group, images_of.to(device, data), settings, model)
        if arguments.resume:
            trainer.resume()
        trainer.run(guard)
        result = trainer.result(started, time.monotonic() - began)
        say(RANK_MARK + json.dumps(result["ranks"][me.rank], sort_keys=True))
        if me.rank == 0:
            emit(result, arguments.result)
        group.leave()
    if result["losses"] and result["loss"] is None:
        raise WorkloadError("The loss is no longer a number: train with a smaller --learning-rate")


def refuse(arguments: argparse.Namespace) -> None:
    """Raises WorkloadError for options that do not go together."""
    if arguments.resume and not arguments.checkpoint:
        raise WorkloadError("--resume continues from a file: name it with --checkpoint")
    if arguments.pre_trained and arguments.data_set != "cifar10":
        raise WorkloadError(
            "--pre-trained: torchvision has weights of ResNet-18, but --data-set %s trains another model. Leave it out"
            % arguments.data_set
        )


def repeatable(deterministic: bool) -> None:
    """Let cuDNN choose the fastest algorithms, or the same ones in every run."""
    torch.backends.cudnn.benchmark = not deterministic
    torch.backends.cudnn.deterministic = deterministic
    if deterministic:
        # cuBLAS needs it before it starts (CUDA, cuBLAS library, "Results reproducibility").
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.use_deterministic_algorithms(True, warn_only=True)


if __name__ == "__main__":
    rendezvous.run(main)
