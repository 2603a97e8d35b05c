# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The rendezvous of the ranks, checks that they agree, and the detection of a lost rank."""

from __future__ import annotations

import argparse
import ctypes
import datetime
import hashlib
import json
import os
import re
import socket
import sys
import threading
import time
import traceback
import typing as t

import torch
import torch.distributed as dist
from common import SCHEMA, WorkloadError, end, say
from devices import device_name, interface_towards
from ranks import MPI_RANK, Ranks, refuse_other, refuse_shared_gpu

# Seconds that the process with the store stays for the others to read the last values.
LINGER = 10
# Between the limit here and the process group's, so that a rank reports what it waited for before NCCL ends it.
GRACE = 60
# Errors of gloo, NCCL and the store if another rank is gone or cannot be reached.
LOST = re.compile(r"connection (was )?(closed|reset|refused)|broken pipe|timed? ?out|nccl|gloo|socket", re.I)


# --- the store ----------------------------------------------------------------------------------------------------


def wait_for_port(host: str, port: int, patience: float) -> None:
    """Wait until something listens there. Raises WorkloadError with the last error if nothing does in time."""
    ends = time.monotonic() + patience
    while True:
        try:
            socket.create_connection((host, port), timeout=max(0.1, min(5.0, ends - time.monotonic()))).close()
            return
        except OSError as exc:
            reason = exc.strerror or str(exc)
        if time.monotonic() >= ends:
            raise WorkloadError(
                "Rank 0 is not reachable at %s port %d within %d s (--rendezvous-timeout): %s. Is it running, and are"
                " MASTER_ADDR and MASTER_PORT correct?" % (host, port, patience, reason)
            )
        time.sleep(0.2)


def open_store(ranks: Ranks, patience: float) -> tuple[t.Any, bool]:
    """Return the store that all ranks share, and whether it lives in this process."""
    # torchrun's agent keeps a store at that address itself, for all attempts.
    ours = ranks.rank == 0 and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True"
    if not ours:
        wait_for_port(ranks.master_addr, ranks.master_port, patience)
    options: dict[str, t.Any] = {"timeout": datetime.timedelta(seconds=patience), "wait_for_workers": False}
    # PyTorch's own rendezvous reads this variable; the constructor does not. Debian builds without libuv.
    choices: list[dict[str, t.Any]] = [{}, {"use_libuv": False}]
    if os.environ.get("USE_LIBUV") == "0":
        choices.reverse()
    error: Exception | None = None
    for choice in choices:
        try:
            store = dist.TCPStore(ranks.master_addr, ranks.master_port, ranks.world_size, ours, **options, **choice)
        except TypeError:  # an old PyTorch without that option
            continue
        except RuntimeError as exc:
            error = exc
            if "libuv" not in str(exc):
                break
        else:
            attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
            return dist.PrefixStore("rdmaops/%s" % attempt, store), ours
    raise WorkloadError(
        "Rank %d cannot %s %s port %d: %s"
        % (ranks.rank, "listen at" if ours else "join", ranks.master_addr, ranks.master_port, brief(error))
    )


def brief(error: BaseException | None) -> str:
    """Return the first line of a PyTorch error, which includes the C++ stack."""
    lines = str(error).strip().splitlines()
    return lines[0].strip() if lines else type(error).__name__


class Meeting:
    """Exchanges values between all ranks through the store, as text instead of pickles."""

    def __init__(self, store: t.Any, ranks: Ranks, hosts: bool) -> None:
        self.store = store
        self._ranks = ranks
        self._hosts = hosts

    def register(self) -> None:
        """Claim this rank. Raises WorkloadError if another process has it."""
        if self.store.add("place/%d" % self._ranks.rank, 1) > 1:
            raise WorkloadError(
                "Rank %d was started twice (this one by %s): each process needs its own rank"
                % (self._ranks.rank, self._ranks.source)
            )

    def gather(
        self,
        name: str,
        value: t.Any,
        patience: float,
        check: t.Callable[[int, t.Any], None] = lambda _rank, _value: None,
    ) -> list[t.Any]:
        """Return every rank's value under that name, this one's included; ``check`` gets each as it arrives.

        Raises WorkloadError with the ranks that sent nothing in time.
        """
        ends = time.monotonic() + patience
        self.store.set("%s/%d" % (name, self._ranks.rank), json.dumps(value))
        values: list[t.Any] = []
        missing: list[int] = []
        try:
            for rank in range(self._ranks.world_size):
                key = "%s/%d" % (name, rank)
                left = max(0.1, ends - time.monotonic())
                try:
                    self.store.wait([key], datetime.timedelta(seconds=left))
                except RuntimeError as exc:
                    # The store counts in milliseconds, from a moment later.
                    if time.monotonic() < ends - 1:
                        raise WorkloadError(
                            "Rank %d lost the store of rank 0: %s" % (self._ranks.rank, brief(exc))
                        ) from exc
                    missing.append(rank)
                    continue
                values.append(json.loads(self.store.get(key)))
                check(rank, values[-1])
        finally:
            self._linger(name)
        if missing:
            raise WorkloadError(
                "Not all of %d ranks came within %d s: rank %s missing. Are they running, with the same world size?"
                % (self._ranks.world_size, patience, ", ".join(map(str, missing)))
            )
        return values

    def _linger(self, name: str) -> None:
        """Let the others read before the process with the store exits."""
        key = name + "/read"
        try:
            read = self.store.add(key, 1)
            ends = time.monotonic() + LINGER
            while self._hosts and read < self._ranks.world_size and time.monotonic() < ends:
                time.sleep(0.02)
                read = self.store.add(key, 0)
        except RuntimeError:
            pass  # the store is gone, which is reported elsewhere


# --- the group ----------------------------------------------------------------------------------------------------


class Watch:
    """Ends the process if no step has ended for too long.

    A collective operation that waits for a lost rank, or for a network that does not work, does not return: only
    another thread can detect this.
    """

    def __init__(self, ranks: Ranks, limit: float, hosts: t.Sequence[str]) -> None:
        self._ranks = ranks
        self._limit = limit
        self._hosts = hosts
        self._last = time.monotonic()
        self._over = threading.Event()
        threading.Thread(target=self._run, daemon=True, name="watch").start()

    def beat(self) -> None:
        self._last = time.monotonic()

    def stop(self) -> None:
        self._over.set()

    def _run(self) -> None:
        while not self._over.wait(max(0.05, self._last + self._limit - time.monotonic())):
            if time.monotonic() - self._last >= self._limit:
                others = ", ".join("rank %d on %s" % (rank, host) for rank, host in enumerate(self._hosts))
                complain(
                    "Rank %d: no step ended for %d s (--timeout): another rank has stopped, or the network between them"
                    " does not work. The ranks are %s" % (self._ranks.rank, self._limit, others)
                )
                end(1)


class Group:
    """The process group of a job, with what its ranks agreed on."""

    def __init__(
        self, ranks: Ranks, backend: str, device: torch.device, meeting: Meeting, timeout: float, hosts: list[str]
    ) -> None:
        self.ranks = ranks
        self.backend = backend
        self.device = device
        self.hosts = hosts
        self.timeout = timeout
        self._meeting = meeting
        self._rounds = 0
        self.watch = Watch(ranks, timeout, hosts)

    def gather(self, value: t.Any) -> list[t.Any]:
        """Return every rank's value; all ranks must call this."""
        self._rounds += 1
        values = self._meeting.gather("told/%d" % self._rounds, value, self.timeout)
        self.watch.beat()
        return values

    def mean(self, value: torch.Tensor) -> float:
        """Return the mean of a value over all ranks."""
        total = value.detach().double().reshape(1).clone()
        dist.all_reduce(total)
        return float(total.item()) / self.ranks.world_size

    def agree(self, model: torch.nn.Module, step: int) -> list[str]:
        """Return every rank's checksum of the parameters. Raises WorkloadError if they differ."""
        sums = self.gather(checksum(model))
        odd = [str(rank) for rank, digest in enumerate(sums) if digest != sums[0]]
        if odd:
            raise WorkloadError(
                "The ranks disagree after step %d: the parameters of rank %s are not those of rank 0. Gradients were"
                " lost or damaged in transit" % (step, ", ".join(odd))
            )
        return sums

    def describe(self, kind: str, model: str, batch_size: int, precision: str) -> dict[str, t.Any]:
        """Return what every result records about its run."""
        return {
            "schema": SCHEMA,
            "kind": kind,
            "model": model,
            "world_size": self.ranks.world_size,
            "batch_size": batch_size,
            "precision": precision,
            "backend": self.backend,
            "device_type": self.device.type,
            "device": device_name(self.device),
            "torch": torch.__version__,
            "hosts": self.hosts,
        }

    def leave(self) -> None:
        """Wait for all ranks and destroy the group."""
        dist.barrier(**({"device_ids": [self.device.index]} if self.backend == "nccl" else {}))
        self.watch.stop()
        dist.destroy_process_group()


def join(
    ranks: Ranks, arguments: argparse.Namespace, device: torch.device, backend: str, settings: dict[str, t.Any]
) -> Group:
    """Join the other ranks and return the group. Raises WorkloadError if they do not come or have other options."""
    if backend == "mpi" and ranks.source != MPI_RANK:
        raise WorkloadError(
            "The backend mpi needs mpirun of Open MPI to start the ranks, but what set this rank is %s" % ranks.source
        )
    patience = float(arguments.rendezvous_timeout)
    store, hosts = open_store(ranks, patience)
    meeting = Meeting(store, ranks, hosts)
    meeting.register()
    mine = {
        "world size": ranks.world_size,
        "backend": backend,
        "settings": settings,
        "host": socket.gethostname(),
        "device": str(device),
    }
    first: list[dict[str, t.Any]] = []

    def check(rank: int, hello: dict[str, t.Any]) -> None:
        first.append(hello)
        refuse_other(rank, hello, first[0], ranks.rank, mine)

    hellos = meeting.gather("hello", mine, patience, check)
    if device.type == "cuda":
        refuse_shared_gpu([(hello["host"], hello["device"]) for hello in hellos])
    if backend == "gloo" and "GLOO_SOCKET_IFNAME" not in os.environ:
        interface = interface_towards(ranks.master_addr)
        # Some operators set localhost as the master of rank 0: no other host can reach that.
        if interface and (interface != "lo" or len({hello["host"] for hello in hellos}) == 1):
            os.environ["GLOO_SOCKET_IFNAME"] = interface
    if backend == "nccl" and tuple(map(int, re.findall(r"\d+", torch.__version__)[:2])) < (2, 2):
        # The default from 2.2 on: NCCL's own error about a lost rank ends the process.
        os.environ.setdefault("NCCL_ASYNC_ERROR_HANDLING", "1")
    # MPI knows its ranks, and has no time limit: Watch has.
    options: dict[str, t.Any] = {}
    if backend != "mpi":
        limit = datetime.timedelta(seconds=arguments.timeout + GRACE)
        options = {"store": dist.PrefixStore("group", store), "timeout": limit}
        options.update(rank=ranks.rank, world_size=ranks.world_size)
    try:
        dist.init_process_group(backend, **options)
    except RuntimeError as exc:
        raise WorkloadError(
            "Rank %d cannot create the %s process group: %s" % (ranks.rank, backend, brief(exc))
        ) from exc
    if ranks.rank == 0:
        say(
            "%d rank(s) on %s: %s, %s"
            % (len(hellos), ", ".join(h["host"] for h in hellos), backend, device_name(device))
        )
    return Group(ranks, backend, device, meeting, float(arguments.timeout), [hello["host"] for hello in hellos])


def raw_bytes(tensor: torch.Tensor) -> bytes:
    """Return a tensor's bytes; not every PyTorch comes with NumPy."""
    data = tensor.detach().contiguous().cpu()
    return ctypes.string_at(data.data_ptr(), data.numel() * data.element_size())


def checksum(model: torch.nn.Module) -> str:
    """Return the SHA-256 of a model's parameters, bit by bit."""
    digest = hashlib.sha256()
    for parameter in model.parameters():
        digest.update(raw_bytes(parameter))
    return digest.hexdigest()


def complain(text: str) -> None:
    print("ERROR: " + text, file=sys.stderr, flush=True)


def run(main: t.Callable[[], None]) -> None:
    """Run a script's ``main``; end the process with its status if it fails."""
    try:
        main()
    except WorkloadError as exc:
        complain(str(exc))
        end(1)
    except KeyboardInterrupt:
        end(130)
    except SystemExit as exc:
        end(exc.code if isinstance(exc.code, int) else 0)
    except BaseException:  # a broken process group keeps the interpreter from exiting
        traceback.print_exc()
        end(1)


class Guarded:
    """Reports in which step a rank was lost, in a ``with`` around the steps."""

    def __init__(self, ranks: Ranks, batch_size: int) -> None:
        self.step = 0
        self._ranks = ranks
        self._batch_size = batch_size

    def __enter__(self) -> Guarded:
        return self

    def __exit__(self, kind: t.Any, error: BaseException | None, dummy: t.Any) -> None:
        if isinstance(error, torch.cuda.OutOfMemoryError):
            raise WorkloadError(
                "Rank %d does not have enough GPU memory for --batch-size %d: %s"
                % (self._ranks.rank, self._batch_size, brief(error))
            ) from error
        if isinstance(error, RuntimeError) and LOST.search(str(error)):
            raise WorkloadError(
                "Rank %d lost another rank in step %d: %s. Its own log, or its pod's state, says why it ended"
                % (self._ranks.rank, self.step, brief(error))
            ) from error


__all__ = ("Group", "Guarded", "brief", "join", "raw_bytes", "run")
