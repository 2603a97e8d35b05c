# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The identity of this process: its rank, the world size, and the address of rank 0."""

from __future__ import annotations

import argparse
import re
import typing as t

from common import WorkloadError

Environ = t.Mapping[str, str]

# torch.distributed's own default.
DEFAULT_PORT = 29500
# Of Open MPI, and what names mpirun as the source of a rank.
MPI_RANK = "OMPI_COMM_WORLD_RANK"
LOOPBACK = "127.0.0.1"
# The volcano plugin "env" sets VC_<TASK>_HOSTS, a list with commas, for every task of a job.
HOSTS = re.compile(r"VC_\w+_HOSTS\Z")
USUAL_HOSTS = "VC_TASK1_HOSTS"


class Ranks(t.NamedTuple):
    """One process of a job; ``source`` is what set its rank."""

    rank: int
    world_size: int
    local_rank: int
    master_addr: str
    master_port: int
    source: str


class _Launch(t.NamedTuple):
    source: str
    rank: int
    world_size: int
    local_rank: int
    local_size: int | None


def discover(arguments: argparse.Namespace, environ: Environ) -> Ranks:
    """Return the identity of this process. Raises WorkloadError if it is unknown or impossible."""
    launch = _detect(arguments, environ)
    if launch.world_size < 1:
        raise WorkloadError("A world size of %d (%s): it must be at least 1" % (launch.world_size, launch.source))
    if not 0 <= launch.rank < launch.world_size:
        raise WorkloadError(
            "Rank %d in a world of %d (%s): ranks go from 0 to %d"
            % (launch.rank, launch.world_size, launch.source, launch.world_size - 1)
        )
    local = launch.local_rank if arguments.local_rank is None else arguments.local_rank
    if local < 0:
        raise WorkloadError("Local rank %d: local ranks go from 0" % local)
    port = arguments.master_port
    if port is None:
        port = _number(environ, "MASTER_PORT") if environ.get("MASTER_PORT") else DEFAULT_PORT
    # Port 0 means any: the others could not find it.
    if not 1 <= port <= 65535:
        raise WorkloadError("Port %d of rank 0 (--master-port, MASTER_PORT): ports go from 1 to 65535" % port)
    address = arguments.master_addr or environ.get("MASTER_ADDR") or _first_host(environ)
    if not address:
        if launch.world_size not in (1, launch.local_size):
            raise WorkloadError(
                "The host of rank 0 of %d is not known: set MASTER_ADDR or --master-addr (with mpirun:"
                " -x MASTER_ADDR=HOST)" % launch.world_size
            )
        address = LOOPBACK
    return Ranks(launch.rank, launch.world_size, local, address, port, launch.source)


def _detect(arguments: argparse.Namespace, environ: Environ) -> _Launch:
    if arguments.rank is not None or arguments.world_size is not None:
        if arguments.rank is None or arguments.world_size is None:
            missing = "--rank" if arguments.rank is None else "--world-size"
            raise WorkloadError("--rank and --world-size go together: %s is missing" % missing)
        return _Launch("--rank", arguments.rank, arguments.world_size, _local(environ), None)
    # Under mpirun a job's own RANK and WORLD_SIZE, which all processes of a pod share, are ignored; a torchrun that
    # mpirun starts sets all of them, and LOCAL_RANK.
    if "LOCAL_RANK" not in environ and MPI_RANK in environ:
        size = environ.get("OMPI_COMM_WORLD_LOCAL_SIZE")
        return _Launch(
            MPI_RANK,
            _number(environ, MPI_RANK),
            _number(environ, "OMPI_COMM_WORLD_SIZE"),
            _number(environ, "OMPI_COMM_WORLD_LOCAL_RANK"),
            _number(environ, "OMPI_COMM_WORLD_LOCAL_SIZE") if size else None,
        )
    if "RANK" in environ or "WORLD_SIZE" in environ:
        return _Launch("RANK", _number(environ, "RANK"), _number(environ, "WORLD_SIZE"), _local(environ), None)
    return _Launch("one process", 0, 1, _local(environ), 1)


def _local(environ: Environ) -> int:
    return _number(environ, "LOCAL_RANK") if "LOCAL_RANK" in environ else 0


def _number(environ: Environ, name: str) -> int:
    text = environ.get(name)
    if text is None:
        raise WorkloadError(
            "%s is not set, but what belongs to it is: whatever starts this process must set both" % name
        )
    if not re.fullmatch(r"[0-9]{1,9}", text.strip(), re.ASCII):
        raise WorkloadError("%s=%s is not a whole number" % (name, text))
    return int(text)


def _first_host(environ: Environ) -> str:
    lists = {name: text for name, text in environ.items() if HOSTS.match(name) and text.strip(" ,")}
    if USUAL_HOSTS in lists:
        chosen = lists[USUAL_HOSTS]
    elif len(lists) == 1:
        (chosen,) = lists.values()
    elif lists:
        raise WorkloadError(
            "The host of rank 0 is not known: %s all name hosts. Set MASTER_ADDR or --master-addr"
            % ", ".join(sorted(lists))
        )
    else:
        return ""
    return next(host.strip() for host in chosen.split(",") if host.strip())


# --- agreement ----------------------------------------------------------------------------------------------------


def refuse_other(
    rank: int, hello: dict[str, t.Any], zero: dict[str, t.Any], my_rank: int, mine: dict[str, t.Any]
) -> None:
    """Compare the options of a rank with those of rank 0, and rank 0 with this one. Raises WorkloadError."""
    for number, options in ((rank, hello), (my_rank, mine)):
        actual, expected = ({**entry, **entry["settings"]} for entry in (options, zero))
        for name in sorted(set(actual) | set(expected)):
            if name in ("settings", "host", "device") or actual.get(name) == expected.get(name):
                continue
            raise WorkloadError(
                "The ranks were not started alike: %s is %s for rank %d and %s for rank 0"
                % (name, actual.get(name), number, expected.get(name))
            )


def refuse_shared_gpu(places: t.Sequence[tuple[str, str]]) -> None:
    """Raises WorkloadError if two ranks would use the same GPU, which NCCL refuses."""
    owners: dict[tuple[str, str], int] = {}
    for rank, place in enumerate(places):
        if place in owners:
            raise WorkloadError(
                "Ranks %d and %d would both use %s of %s: give each its own with --local-rank, or start them"
                " with torchrun" % (owners[place], rank, place[1], place[0])
            )
        owners[place] = rank


__all__ = ("DEFAULT_PORT", "MPI_RANK", "Ranks", "discover", "refuse_other", "refuse_shared_gpu")
